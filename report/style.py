"""How a page looks and behaves: style sheet and script, as strings (Flower leaves .css and .js out of a bundle)."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f6f4; --surface: #ffffff; --ink: #16181d; --muted: #5b6068; --grid: #e7e7e3; --axis: #c3c4c0;
  --absent: #eeeeea; --part: #b9c0c9; --bad: #d03b3b;
  --age0: #eef4fc; --age1: #5598e7; --age2: #0d366b;
  --run0: #2a78d6; --run1: #eb6834; --run2: #1baf7a; --run3: #c98500;
  --run4: #4a3aa7; --run5: #d55181; --run6: #008300; --run7: #7a6a58;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #111213; --surface: #1b1c1e; --ink: #f1f1ee; --muted: #abafb6; --grid: #2f3134; --axis: #4a4d52;
    --absent: #2a2c2f; --part: #5d646e; --bad: #e66767;
    --age0: #1d2733; --age1: #2f74c0; --age2: #b7d3f6;
    --run0: #4c93ea; --run1: #e2703f; --run2: #24a877; --run3: #d19a22;
    --run4: #9085e9; --run5: #dd6a94; --run6: #3f9e3f; --run7: #a89680;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; line-height: 1.3; margin: 0 0 2px; overflow-wrap: anywhere; }
p { margin: 0; }
.runs { list-style: none; margin: 0 0 20px; padding: 0; }
.runs li { margin: 4px 0; overflow-wrap: anywhere; }
.runs strong::before { content: ""; display: inline-block; width: .75em; height: .75em; margin-right: .45em;
  border-radius: 3px; background: var(--colour); }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 16px; }
.grid > * { background: var(--surface); border: 1px solid var(--grid); border-radius: 10px; padding: 16px;
  min-width: 0; }
.wide { grid-column: 1 / -1; }
.note { color: var(--muted); font-size: .875rem; margin-bottom: 8px; }
.chart { width: 100%; }
details { margin-top: 8px; font-size: .875rem; }
summary { color: var(--muted); cursor: pointer; }
.scroll { overflow: auto; max-height: 420px; margin-top: 8px; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--run0); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 3px 16px 3px 0; border-bottom: 1px solid var(--grid); }
th { font-weight: 600; } tbody th { font-weight: 400; color: var(--muted); }
thead th { position: sticky; top: 0; background: var(--surface); }
.differs td { font-weight: 600; }
@media (max-width: 480px) {
  main { padding: 16px 8px 32px; } .grid > * { padding: 12px 10px; }
}
@media print { details { display: none; } .grid > * { break-inside: avoid; } }
"""

SCRIPT = """
(function () {
  const charts = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)"), narrow = matchMedia("(max-width: 480px)");
  const mouse = matchMedia("(hover: hover)").matches;
  function coloured(value, css) {
    if (typeof value === "string") return value.startsWith("--") && css.getPropertyValue(value).trim() || value;
    if (Array.isArray(value)) return value.map(item => coloured(item, css));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, css)]));
  }
  function draw() {
    const css = getComputedStyle(document.documentElement);
    for (const chart of charts) {
      const layout = coloured(chart.layout, css);
      if (!mouse) layout.dragmode = false;
      if (narrow.matches) { layout.font.size = 11; layout.height = Math.min(layout.height, 420); }
      const config = {responsive: true, displaylogo: false, displayModeBar: mouse ? "hover" : false,
        modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"]};
      Plotly.react(chart.name, coloured(chart.data, css), layout, config);
    }
  }
  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
})();
"""
