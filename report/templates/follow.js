// Asks each second for new content. The focus, the ticks, the folds and the order of a list stay as the reader left them.
(function () {
  const place = document.querySelector("main"), ticked = new Set(), unfolded = new Set();
  let seen = "", order = null;  // order: the column's key, and 1 or -1
  function arrange() {
    for (const fold of place.querySelectorAll("[data-fold]")) fold.open = unfolded.has(fold.dataset.fold);
    for (const list of place.querySelectorAll(".list")) {
      const body = list.tBodies[0], rows = [...body.rows];
      if (order) {
        const heads = [...list.tHead.rows[0].cells], column = heads.findIndex(h => h.dataset.key === order[0]);
        heads.forEach((head, i) => { if (head.dataset.key) head.ariaSort = i === column ? (order[1] > 0 ? "ascending" : "descending") : "none"; });
        const value = row => row.cells[column].dataset.sort;
        rows.sort((one, other) => order[1] * value(one).localeCompare(value(other), undefined, {numeric: true}));
        body.append(...rows);
      }
      for (const row of rows) row.querySelector("input").checked = ticked.has(row.querySelector("input").value);
      link();
    }
  }
  function link() {
    const chosen = [...new Set([...place.querySelectorAll(".list input:checked")].map(box => box.value))], to = place.querySelector("#compare");
    to.hidden = chosen.length < 2;
    to.textContent = `Compare these ${chosen.length}`;
    to.href = "compare?" + new URLSearchParams(chosen.map(name => ["run", name]));
  }
  async function look() {
    try {
      const answer = await fetch(place.dataset.source, {signal: AbortSignal.timeout(20000)});
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text(), focused = document.activeElement?.dataset.at;
      if (text !== seen) {
        place.innerHTML = seen = text;
        arrange();
        document.title = place.querySelector("h1").textContent + " – AoI-FL";
        if (focused) place.querySelector(`[data-at="${CSS.escape(focused)}"]`)?.focus();
      }
      document.body.classList.remove("lost");
    } catch (error) {
      document.body.classList.add("lost");
    }
    setTimeout(look, 1000);
  }
  place.addEventListener("change", event => {
    ticked[event.target.checked ? "add" : "delete"](event.target.value);
    link();
  });
  place.addEventListener("toggle", event => {
    unfolded[event.target.open ? "add" : "delete"](event.target.dataset.fold);
  }, true);
  place.addEventListener("click", event => {
    const key = event.target.closest("[data-key]")?.dataset.key;
    if (!key) return;
    order = [key, order?.[0] === key ? -order[1] : 1];
    arrange();
  });
  look();
})();
