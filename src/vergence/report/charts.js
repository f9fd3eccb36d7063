// Shows the values of all lines at the step under the pointer.
for (const chart of document.querySelectorAll(".chart")) {
  const svg = chart.querySelector("svg"), cursor = svg.querySelector(".cursor"), tip = chart.querySelector(".tip");
  const lines = [...svg.querySelectorAll(".line")].map(line => ({
    name: line.dataset.name, style: line.classList[1], points: [...line.points],
    steps: line.dataset.x.split(" "), values: line.dataset.y.split(" "),
  }));
  svg.addEventListener("pointermove", event => {
    const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
    const nearest = lines.map(line => {
      let best = 0;
      line.points.forEach((p, i) => { if (Math.abs(p.x - x) < Math.abs(line.points[best].x - x)) best = i; });
      return best;
    });
    const all = lines.map((line, n) => [line, nearest[n], Math.abs(line.points[nearest[n]].x - x)]);
    const [first, index] = all.reduce((a, b) => (b[2] < a[2] ? b : a));
    const at = first.points[index].x;
    cursor.setAttribute("x1", at); cursor.setAttribute("x2", at); cursor.style.visibility = "visible";
    tip.replaceChildren(...[["", `${svg.dataset.x} ${first.steps[index]}`],
      ...all.map(([line, i]) => [line.style, `${line.name}: ${line.values[i]}`])].map(([style, text]) => {
        const row = document.createElement("span");
        row.className = style ? `key ${style}` : "";
        row.textContent = text;
        return row;
      }));
    tip.hidden = false;
    const share = at / svg.viewBox.baseVal.width;
    tip.style.left = share < 0.5 ? `calc(${share * 100}% + 10px)` : "";
    tip.style.right = share < 0.5 ? "" : `calc(${(1 - share) * 100}% + 10px)`;
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; cursor.style.visibility = "hidden"; });
}
