// Looks a document up by id in the side files. All else on the page is there without scripts.
(() => {
  const form = document.querySelector(".search");
  if (!form) return;
  const said = document.getElementById("found"), shelves = new Map();
  globalThis.shelf = (name, sources, rows) => shelves.set(name, { sources, rows });
  const answer = (id) => {
    const { sources, rows } = shelves.get(id.slice(0, 2));
    const found = rows.filter((row) => row[0].startsWith(id));
    if (!found.length) return `No document with the id ${id} came in.`;
    const lines = found.slice(0, 20).map(([key, source, fate, reason, cell]) =>
      `${key}: of ${sources[source]}, ${fate}${reason ? ` (${reason})` : ""}${cell ? `, in cell ${cell}` : ""}`);
    return lines.join("\n") + (found.length > 20 ? `\nand ${found.length - 20} more` : "");
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const id = form.elements.id.value.trim().toLowerCase();
    if (!/^[0-9a-f]{6,32}$/.test(id)) { said.textContent = "An id is 32 hex digits; its first 6 or more will do."; return; }
    location.hash = `id=${id}`;
    const name = id.slice(0, 2);
    if (shelves.has(name)) { said.textContent = answer(id); return; }
    said.textContent = "Loading…";
    const script = document.createElement("script");
    script.src = `ids/${name}.js`;
    script.onload = () => { shelves.has(name) || shelf(name, [], []); said.textContent = answer(id); };
    script.onerror = () => { said.textContent = `ids/${name}.js is not there: no document's id begins so, or the folder ids was not kept beside the page.`; };
    document.head.append(script);
  });
  const asked = /^#id=([0-9a-f]{6,32})$/.exec(location.hash);
  if (asked) { form.elements.id.value = asked[1]; form.requestSubmit(); }
})();
