"""Template of the overlay page: self-contained, without libraries."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{title}}</title>
<style>
html, body { margin: 0; height: 100%; font: 14px/1.4 system-ui, sans-serif; background: Canvas; color: CanvasText; }
canvas { position: fixed; inset: 0; width: 100%; height: 100%; touch-action: none; cursor: grab; }
aside { position: fixed; top: 12px; left: 12px; max-width: 22em; max-height: calc(100% - 50px); overflow: auto;
  padding: 10px 14px; background: color-mix(in srgb, Canvas 92%, transparent); border: 1px solid #8886;
  border-radius: 6px; }
h1 { font-size: 15px; margin: 0 0 6px; }
label { display: block; cursor: pointer; }
i { display: inline-block; width: 18px; height: 4px; margin: 0 6px 3px 2px; border-radius: 2px; }
i.ring { width: 8px; height: 8px; margin: 0 11px -1px 7px; border: 2px solid; border-radius: 50%; }
table { border-collapse: collapse; margin-top: 4px; font-variant-numeric: tabular-nums; }
summary { margin-top: 8px; cursor: pointer; }
th { text-align: left; font-weight: normal; padding-right: 12px; }
td { text-align: right; }
#tip { position: fixed; padding: 3px 8px; border-radius: 4px; background: CanvasText; color: Canvas;
  pointer-events: none; display: none; }
p { margin: 8px 0 0; opacity: .7; }
</style>
</head>
<body>
<canvas></canvas>
<aside><h1>{{title}}</h1><div id="layers"></div>
<details><summary>scores</summary><table>{{rows}}</table></details>
<p>Drag to move, wheel to zoom, double click to see all.</p></aside>
<div id="tip" role="status"></div>
<script type="application/json" id="data">{{data}}</script>
<script>
const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.querySelector("canvas"), pen = canvas.getContext("2d"), tip = document.getElementById("tip");
const shown = {}, view = {x: 0, y: 0, scale: 1};
const all = [...data.layers.map(l => [l.name, l.label, l.colour]), ["junctions", data.label, data.colour]];
for (const [name, label, colour] of all) {
  shown[name] = true;
  const [line, box, mark] = ["label", "input", "i"].map(kind => document.createElement(kind));
  box.type = "checkbox"; box.checked = true;
  box.onchange = () => { shown[name] = box.checked; paint(); };
  if (name === "junctions") { mark.className = "ring"; mark.style.borderColor = colour; }
  else mark.style.background = colour;
  line.append(box, mark, label);
  document.getElementById("layers").append(line);
}
function fit() {
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
  for (const layer of data.layers) for (const line of layer.lines) for (const [x, y] of line) {
    x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y);
  }
  if (x0 > x1) { x0 = y0 = 0; x1 = y1 = 1; }
  const left = innerWidth > 800 ? document.querySelector("aside").offsetWidth + 12 : 0;  // beside the panel
  const width = innerWidth - left;
  view.scale = .94 * Math.min(width / Math.max(x1 - x0, 1), innerHeight / Math.max(y1 - y0, 1));
  view.x = left + width / 2 - view.scale * (x0 + x1) / 2;
  view.y = innerHeight / 2 - view.scale * (y0 + y1) / 2;
}
function paint() {
  const ratio = devicePixelRatio || 1;
  canvas.width = innerWidth * ratio; canvas.height = innerHeight * ratio;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.lineCap = pen.lineJoin = "round";
  for (const layer of data.layers) {
    if (!shown[layer.name]) continue;
    pen.strokeStyle = layer.colour; pen.lineWidth = layer.width;
    pen.beginPath();
    for (const line of layer.lines) line.forEach(([x, y], i) => {
      const u = view.x + view.scale * x, v = view.y + view.scale * y;
      i ? pen.lineTo(u, v) : pen.moveTo(u, v);
    });
    pen.stroke();
  }
  if (shown.junctions) {
    const radius = Math.min(Math.max(25 * view.scale, 2.5), 7);
    pen.strokeStyle = data.colour; pen.lineWidth = Math.min(radius / 3, 1.5);
    for (const [x, y] of data.junctions) {
      pen.beginPath(); pen.arc(view.x + view.scale * x, view.y + view.scale * y, radius, 0, 7); pen.stroke();
    }
  }
}
function zoom(u, v, factor) {
  view.x = u - factor * (u - view.x); view.y = v - factor * (v - view.y); view.scale *= factor; paint();
}
canvas.addEventListener("wheel", e => { e.preventDefault(); zoom(e.clientX, e.clientY, Math.exp(-e.deltaY / 400)); },
  {passive: false});
canvas.addEventListener("dblclick", () => { fit(); paint(); });
const held = new Map();
canvas.addEventListener("pointerdown", e => { canvas.setPointerCapture(e.pointerId); held.set(e.pointerId, e); });
for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, e => held.delete(e.pointerId));
canvas.addEventListener("pointermove", e => {
  const before = held.get(e.pointerId);
  if (before) {
    const other = [...held.values()].find(p => p.pointerId !== e.pointerId);
    if (other) {
      const far = (a, b) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      zoom(other.clientX, other.clientY, far(e, other) / Math.max(far(before, other), 1));
    } else { view.x += e.clientX - before.clientX; view.y += e.clientY - before.clientY; paint(); }
    held.set(e.pointerId, e);
    return;
  }
  const near = shown.junctions && data.junctions.find(([x, y]) =>
    Math.hypot(view.x + view.scale * x - e.clientX, view.y + view.scale * y - e.clientY) < 8);
  tip.style.display = near ? "block" : "none";
  if (near) {
    const roads = `${near[2] || "no"} road${near[2] === 1 ? "" : "s"}`;
    tip.textContent = `${roads} in the truth, ${near[3] || "none"} in the prediction`;
    tip.style.left = e.clientX + 12 + "px"; tip.style.top = e.clientY + 12 + "px";
  }
});
addEventListener("resize", paint);
fit(); paint();
</script>
</body>
</html>
"""
