// Adds to what the page shows already: values under the pointer, and the paths of a step. Nothing is hidden without it.
(() => {
  const box = document.createElement("div");
  box.className = "readout";
  box.hidden = true;
  document.body.append(box);

  const show = (svg, event) => {
    const frame = svg.viewBox.baseVal, bounds = svg.getBoundingClientRect();
    const at = (event.clientX - bounds.left) / bounds.width * frame.width;
    const lines = [];
    let nearest = null;
    for (const series of svg.querySelectorAll(".series")) {
      const { name, points } = series.parsed ??= JSON.parse(series.dataset.series);
      if (!points.length) continue;
      const point = points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
      if (Math.abs(point[0] - at) > 40) continue;
      lines.push([name, point]);
      if (!nearest || Math.abs(point[0] - at) < Math.abs(nearest[0] - at)) nearest = point;
    }
    const cross = svg.querySelector(".cross");
    if (!nearest) { box.hidden = true; cross.setAttribute("visibility", "hidden"); return; }
    cross.setAttribute("x1", nearest[0]);
    cross.setAttribute("x2", nearest[0]);
    cross.setAttribute("visibility", "visible");
    box.replaceChildren(...lines.map(([name, point]) => {
      const row = document.createElement("div");
      row.textContent = `${name}: ${point[3]} at ${point[2]}`;
      return row;
    }));
    box.hidden = false;
    const width = document.documentElement.clientWidth;
    box.style.left = `${Math.max(4, Math.min(event.clientX + 14, width - box.offsetWidth - 8))}px`;
    box.style.top = `${event.clientY + 16}px`;
  };
  for (const svg of document.querySelectorAll("svg.chart")) {
    svg.addEventListener("pointermove", (event) => show(svg, event));
    svg.addEventListener("pointerleave", () => {
      box.hidden = true;
      svg.querySelector(".cross").setAttribute("visibility", "hidden");
    });
  }

  const graph = document.querySelector("svg.steps");
  if (graph) {
    const edges = [...graph.querySelectorAll(".edge")];
    const reach = (key, from, to) => {
      const seen = new Set([key]);
      for (const each of seen) for (const edge of edges) if (edge.dataset[from] === each) seen.add(edge.dataset[to]);
      return seen;
    };
    for (const node of graph.querySelectorAll(".node")) {
      node.addEventListener("pointerenter", () => {
        const up = reach(node.dataset.key, "child", "parent"), down = reach(node.dataset.key, "parent", "child");
        graph.classList.add("focused");
        for (const each of graph.querySelectorAll(".node"))
          each.classList.toggle("lit", up.has(each.dataset.key) || down.has(each.dataset.key));
        for (const edge of edges) {
          const both = (set) => set.has(edge.dataset.parent) && set.has(edge.dataset.child);
          edge.classList.toggle("lit", both(up) || both(down));
        }
      });
      node.addEventListener("pointerleave", () => graph.classList.remove("focused"));
    }
  }
})();
