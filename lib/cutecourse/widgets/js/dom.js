// Small helpers that every widget uses: elements, words with `code` in them, fields, grids under the arrow keys.

/** An element with attributes, listeners (`onclick`) and children; text never goes in as HTML. */
export function el(tag, attrs = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/** An id that no other view on the page has. */
export function uid(stem) {
  return `cc-${stem}-${Math.random().toString(36).slice(2, 10)}`;
}

/** Words as nodes, with `backticks` as code. */
export function words(text) {
  return String(text)
    .split("\x60")
    .map((part, i) => (i % 2 ? el("code", { text: part }) : part));
}

/** A labelled control: label above, the message for bad input below. */
export function field(labelText, control, width) {
  const id = control.id || (control.id = uid("field"));
  const message = el("span", { class: "cc-message", id: `${id}-message`, "aria-live": "polite", "data-cc": "message" });
  control.setAttribute("aria-describedby", message.id);
  const box = el("div", { class: "cc-field" }, el("label", { for: id, text: labelText }), control, message);
  if (width) control.style.width = width;
  return {
    box,
    control,
    complain(text) {
      message.textContent = text;
      control.setAttribute("aria-invalid", text ? "true" : "false");
    },
  };
}

/**
 * Arrow keys in a grid: one cell at a time is in the tab order, the others are reached by the arrows,
 * Home and End (of the row; with Ctrl, of the grid). `rows` is a list of lists of cells.
 */
export function roving(grid, rows) {
  const place = new Map();
  rows.forEach((row, r) => row.forEach((cell, c) => place.set(cell, [r, c])));
  let current = rows[0]?.[0];
  for (const cell of place.keys()) cell.tabIndex = -1;
  if (current) current.tabIndex = 0;
  const hold = (cell) => {
    if (!place.has(cell)) return;
    if (current) current.tabIndex = -1;
    current = cell;
    current.tabIndex = 0;
  };
  grid.addEventListener("focusin", (event) => hold(event.target.closest("[data-cc]")));
  grid.addEventListener("keydown", (event) => {
    const at = place.get(event.target.closest("[data-cc]"));
    if (!at) return;
    let [r, c] = at;
    const all = event.ctrlKey || event.metaKey;
    if (event.key === "ArrowRight") c += 1;
    else if (event.key === "ArrowLeft") c -= 1;
    else if (event.key === "ArrowDown") r += 1;
    else if (event.key === "ArrowUp") r -= 1;
    else if (event.key === "Home") [r, c] = [all ? 0 : r, 0];
    else if (event.key === "End") [r, c] = [all ? rows.length - 1 : r, Infinity];
    else return;
    event.preventDefault();
    r = Math.max(0, Math.min(rows.length - 1, r));
    c = Math.max(0, Math.min(rows[r].length - 1, c));
    rows[r][c].focus();
  });
  return { hold };
}

/** Calls `draw` now and whenever one of the model's `keys` changes; returns the function that stops it. */
export function follow(model, keys, draw) {
  for (const key of keys) model.on(`change:${key}`, draw);
  draw();
  return () => keys.forEach((key) => model.off(`change:${key}`, draw));
}

/** Sets several traits and tells the kernel, if there is one. */
export function update(model, changes) {
  for (const [key, value] of Object.entries(changes)) model.set(key, value);
  model.save_changes();
}
