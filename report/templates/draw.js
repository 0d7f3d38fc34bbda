// Defines show(charts): draws the charts, and again when theme or mark change; called anew, it draws what is new.
// A client picked in one chart is marked in all that show clients; drawing.pick(null) takes the mark away.
const drawing = (function () {
  let charts = [], picked = null, printing = false;
  const dark = matchMedia("(prefers-color-scheme: dark)"), narrow = matchMedia("(max-width: 480px)");
  const mouse = matchMedia("(hover: hover)").matches;
  const paper = document.createElement("span");  // carries the colours of paper, whatever the theme
  paper.className = "paper";
  paper.hidden = true;
  document.body.append(paper);

  function coloured(value, css) {
    if (typeof value === "string") return value.startsWith("--") && css.getPropertyValue(value).trim() || value;
    if (Array.isArray(value)) return value.map(item => coloured(item, css));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, css)]));
  }
  function marks(chart) {
    const line = {color: "--mark", width: 2};
    return chart.data.flatMap(trace => {
      const at = picked === null ? -1 : (trace.meta?.clients ?? []).indexOf(picked);
      if (at < 0) return [];
      if (trace.type === "heatmap") {
        const half = trace.y.length > 1 ? (trace.y.at(-1) - trace.y[0]) / (trace.y.length - 1) / 2 : 0.5;
        return [{type: "rect", xref: "paper", x0: 0, x1: 1, y0: trace.y[at] - half, y1: trace.y[at] + half, line}];
      }
      const around = {x0: -7, x1: 7, y0: -7, y1: 7, xsizemode: "pixel", ysizemode: "pixel"};
      return [{type: "circle", xanchor: trace.x[at], yanchor: trace.y[at], line, ...around}];
    });
  }
  function figure(chart, css) {
    return coloured({data: chart.data, layout: {...chart.layout, shapes: marks(chart)}}, css);
  }
  function draw() {
    const css = getComputedStyle(printing ? paper : document.documentElement);
    for (const chart of charts) {
      const {data, layout} = figure(chart, css);
      if (!mouse) layout.dragmode = false;
      if (printing) { layout.font.size = 10; Object.assign(layout, {width: 330, height: 220}); }
      else if (narrow.matches) { layout.font.size = 11; layout.height = Math.min(layout.height, 420); }
      const config = {responsive: true, displaylogo: false, displayModeBar: mouse ? "hover" : false,
        modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]]};
      Plotly.react(chart.name, data, layout, config);
      listen(document.getElementById(chart.name));
    }
  }
  function listen(place) {
    if (place.dataset.heard) return;
    place.dataset.heard = "yes";
    place.on("plotly_click", event => pickPoint(event.points[0]));
  }
  function pickPoint({data, pointNumber}) {
    const client = data.meta?.clients?.[Array.isArray(pointNumber) ? pointNumber[0] : pointNumber];
    if (client !== undefined) pick(client === picked ? null : client);
  }
  function pick(client) {
    picked = client;
    draw();
    document.dispatchEvent(new CustomEvent("picked", {detail: client}));
  }
  // What is saved is for a paper: in its colours, with title and legend, 900 pixels wide, three times as many as PNG.
  async function save(name, format) {
    const chart = charts.find(one => one.name === name), {data, layout} = figure(chart, getComputedStyle(paper));
    layout.title = {text: chart.title, x: 0.01, y: 0.98, yanchor: "top", font: {size: 16, color: layout.legend.font.color}};
    layout.margin = {...layout.margin, l: 16, r: 24, t: 72, b: 16};
    layout.height += 64;
    layout.paper_bgcolor = layout.plot_bgcolor = "#ffffff";
    layout.showlegend = data.length > 1;
    const size = {width: 900, height: layout.height, scale: format === "png" ? 3 : 1};
    const link = document.createElement("a");
    link.href = await Plotly.toImage({data, layout}, {format, ...size});
    link.download = name + "." + format;
    link.click();
  }
  document.addEventListener("click", event => {
    const button = event.target.closest("button[data-save]");
    if (button) save(button.closest("section").querySelector(".chart").id, button.dataset.save);
  });
  addEventListener("beforeprint", () => {
    printing = true;
    draw();
  });
  addEventListener("afterprint", () => {
    printing = false;
    draw();
  });
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
  return {show: fresh => { charts = fresh; draw(); }, pick, pickPoint};
})();
const show = drawing.show;
