// Sorting of the tables, and the values of the figures' points.

for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => row.cells[column].dataset.value;
    const missing = value => value === "nan";
    const compare = (a, b) => missing(a) - missing(b)
      || (up ? 1 : -1) * (column ? a - b : a.localeCompare(b));
    for (const body of table.tBodies) {
      body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b))));
    }
  }));
}

// The point of a figure that is nearest to the pointer tells its value.
const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
document.body.append(tip);
for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg");
  const lines = JSON.parse(figure.querySelector("script").textContent);
  const points = lines.flatMap(([name, own]) => own.map(([x, y, text]) => ({ x, y, name, text })));
  const ring = document.createElementNS(svg.namespaceURI, "circle");
  const look = { r: 4, fill: "none", stroke: "#000", "pointer-events": "none", visibility: "hidden" };
  Object.entries(look).forEach(([key, value]) => ring.setAttribute(key, value));
  svg.append(ring);
  const hide = () => {
    tip.hidden = true;
    ring.setAttribute("visibility", "hidden");
  };
  const show = event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let nearest = null, least = 12;
    for (const point of points) {
      const distance = Math.hypot(point.x - at.x, point.y - at.y);
      if (distance < least) [nearest, least] = [point, distance];
    }
    if (!nearest) return hide();
    ring.setAttribute("cx", nearest.x);
    ring.setAttribute("cy", nearest.y);
    ring.setAttribute("visibility", "visible");
    tip.textContent = `${nearest.name}\n${nearest.text}`;
    tip.hidden = false;
    const left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, event.clientY - tip.offsetHeight - 12)}px`;
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
}
