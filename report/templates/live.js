// Puts new content into the page: what is alike stays the same element, so what the reader did to it stays too.
(function () {
  const body = document.querySelector("main"), line = document.getElementById("live"), progress = document.getElementById("progress");
  let seen = "";
  function say(text, state) {
    if (line.textContent !== text) line.textContent = text;
    line.dataset.state = state;
  }
  function advance(headers) {
    const round = Number(headers.get("Round")), rounds = Number(headers.get("Rounds")), left = headers.get("Left");
    progress.hidden = !rounds;
    progress.firstElementChild.max = rounds || 1;
    progress.firstElementChild.value = round;
    const text = `${round} of ${rounds} rounds${left ? `, ${left} left` : ""}`;
    if (progress.lastElementChild.textContent !== text) progress.lastElementChild.textContent = text;
  }
  function merge(old, fresh) {
    if (old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      if (old.nodeType === 1) forget(old);
      old.replaceWith(fresh);
    } else if (old.nodeType !== 1) {
      if (old.data !== fresh.data) old.data = fresh.data;
    } else if (old.classList.contains("chart")) {
      old.setAttribute("aria-label", fresh.getAttribute("aria-label"));
    } else {
      if (old.className !== fresh.className) old.className = fresh.className;
      mergeChildren(old, fresh);
    }
  }
  function mergeChildren(old, fresh) {
    const mine = [...old.childNodes], theirs = [...fresh.childNodes];
    theirs.forEach((node, i) => mine[i] ? merge(mine[i], node) : old.append(node));
    for (const node of mine.slice(theirs.length)) { if (node.nodeType === 1) forget(node); node.remove(); }
  }
  function forget(node) {
    for (const chart of [node, ...node.querySelectorAll(".chart")]) {
      if (chart.classList.contains("js-plotly-plot")) Plotly.purge(chart);
    }
  }
  async function look() {
    try {
      const answer = await fetch("content?seen=" + seen, {signal: AbortSignal.timeout(20000)});
      if (answer.status === 200) {
        const fresh = await answer.json(), template = document.createElement("template");
        template.innerHTML = fresh.main;
        document.title = fresh.title + " – AoI-FL live";
        mergeChildren(body, template.content);
        show(fresh.charts);
        seen = answer.headers.get("Version");
      } else if (!answer.ok) {
        throw new Error(answer.status);
      }
      say(decodeURIComponent(answer.headers.get("Said")), answer.headers.get("State"));
      advance(answer.headers);
    } catch (error) {
      say("The server does not answer; what is shown may be old. Trying again.", "lost");
    }
    setTimeout(look, 1000);
  }
  look();
})();
