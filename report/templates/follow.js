// Asks each second for what is to be shown, and shows it where it is another. A link that had the focus keeps it.
(function () {
  const place = document.querySelector("main");
  let seen = "";
  async function look() {
    try {
      const answer = await fetch(place.dataset.source, {signal: AbortSignal.timeout(20000)});
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text(), focused = document.activeElement?.getAttribute("href");
      if (text !== seen) {
        place.innerHTML = seen = text;
        document.title = place.querySelector("h1").textContent + " – AoI-FL";
        if (focused) place.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
      }
      document.body.classList.remove("lost");
    } catch (error) {
      document.body.classList.add("lost");
    }
    setTimeout(look, 1000);
  }
  look();
})();
