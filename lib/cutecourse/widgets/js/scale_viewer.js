// One product of a k-tile, and the two scale factors that multiply it: where they lie in memory and in tensor memory.
import { el, field, follow, update } from "./dom.js";
import { draw } from "./svg.js";

const ROWS = 128;
const QUARTER = 32;
const SCALE = 1.1; // units for a lane
const WIDE = 15; // units for a column

/** The place of the factor of element (row, k), as `scale_places.scale_place` has it. */
function placeOf(facts, row, k) {
  const factor = Math.floor(k / facts.vector);
  const mma = Math.floor(k / facts.mmaK);
  const lane = row % QUARTER;
  const block = Math.floor(factor / 4);
  const group = Math.floor(row / QUARTER);
  return {
    factor,
    offset: 512 * block + 16 * lane + 4 * group + (factor % 4),
    lanes: [0, 1, 2, 3].map((quarter) => lane + QUARTER * quarter),
    column: 4 * block + group,
    byte: factor % 4,
    mma,
    dataId: ((mma * facts.mmaK) / facts.vector) % 4,
  };
}

function render({ model, el: host }) {
  const form = field("Format", el("select", { "data-cc": "form" }, model.get("forms").map((one) => el("option", { value: one.name, text: one.name }))));
  const number = (name, label) => field(label, el("input", { type: "number", min: 0, max: ROWS - 1, step: 1, "data-cc": name }), "5.5em");
  const m = number("m", "Row m of A");
  const n = number("n", "Row n of B");
  const k = number("k", "Element k");
  const panels = el("div", { class: "cc-panels" });
  const state = el("div", { class: "cc-state", "data-cc": "state", "aria-live": "polite" });
  host.append(
    el(
      "section",
      { class: "cc-widget cc-scales", "data-cc": "scale-viewer", "aria-label": "The scale factors of one product", "data-lm-suppress-shortcuts": "true" },
      el("div", { class: "cc-controls" }, form.box, m.box, n.box, k.box),
      panels,
      state,
    ),
  );
  const facts = () => model.get("forms").find((one) => one.name === model.get("form"));

  const picture = (letter, row, place) => {
    const { columns } = facts();
    const [wide, high] = [columns * WIDE, ROWS * SCALE];
    const left = 30;
    const svg = draw("svg", { viewBox: `0 0 ${left + wide + 4} ${high + 24}`, width: left + wide + 4, height: high + 24, "data-cc": "columns", role: "img", "aria-label": `Columns of ${letter}'s factors: column ${place.column}, lanes ${place.lanes.join(", ")}` });
    const first = Math.floor(place.column / 4) * 4;
    svg.append(
      draw("rect", { x: left, y: 2, width: wide, height: high, class: "cc-scales-all" }),
      draw("rect", { x: left + first * WIDE, y: 2, width: 4 * WIDE, height: high, class: `cc-scales-${letter}` }),
    );
    for (let lane = 0; lane < ROWS; lane += QUARTER) {
      svg.append(draw("text", { x: left - 5, y: 2 + lane * SCALE + 11, class: "cc-scales-text", "text-anchor": "end", text: lane }));
      if (lane) svg.append(draw("line", { x1: left, x2: left + wide, y1: 2 + lane * SCALE, y2: 2 + lane * SCALE, class: "cc-scales-line" }));
    }
    for (let column = 0; column < columns; column += 4) svg.append(draw("text", { x: left + column * WIDE, y: high + 18, class: "cc-scales-text", text: column }));
    for (const lane of place.lanes) svg.append(draw("rect", { x: left + place.column * WIDE, y: 2 + lane * SCALE - 1, width: WIDE, height: 4, class: "cc-scales-lit" }));
    const bytes = [0, 1, 2, 3].map((byte) => el("span", { class: byte === place.byte ? "cc-scales-byte cc-lit" : "cc-scales-byte", "data-cc": "byte", "data-lit": byte === place.byte ? "yes" : "no", text: byte }));
    return el(
      "section",
      { class: "cc-panel", "data-cc": "panel", "data-operand": letter },
      el("h4", { text: `${letter}[${row}, ${model.get("k")}], tensor memory` }),
      el("div", { class: "cc-scroll" }, svg),
      el("p", { class: "cc-muted cc-scales-word" }, "bytes of the word: ", ...bytes),
    );
  };

  const b = (name, text) => el("b", { "data-cc": name, text });
  const say = (letter, row, place) =>
    el(
      "p",
      { "data-cc": `say-${letter}` },
      `Factor ${place.factor} of row ${row} of ${letter}: byte `,
      b("offset", place.offset),
      " of the k-tile's blocks; column ",
      b("column", place.column),
      ", lanes ",
      b("lanes", place.lanes.join(", ")),
      ", byte ",
      b("byte-said", place.byte),
      `. SF${letter} id `,
      b("data-id", place.dataId),
      ".",
    );

  const refresh = () => {
    const now = facts();
    const [row, column, element] = [model.get("m"), model.get("n"), model.get("k")];
    form.control.value = now.name;
    k.control.max = now.kTile - 1;
    const bad = element >= now.kTile;
    k.complain(bad ? `${now.name} has elements 0 to ${now.kTile - 1} in a k-tile.` : "");
    if (bad) return;
    for (const [box, value] of [[m, row], [n, column], [k, element]]) {
      if (document.activeElement !== box.control) box.control.value = value;
    }
    const [a, other] = [placeOf(now, row, element), placeOf(now, column, element)];
    panels.replaceChildren(picture("A", row, a), picture("B", column, other));
    state.replaceChildren(
      el("p", {}, "MMA ", b("mma", a.mma), ` of the k-tile multiplies A[${row}, ${element}] by B[${column}, ${element}], and the product by both factors. They belong to ${now.vector} elements each.`),
      say("A", row, a),
      say("B", column, other),
    );
  };

  form.control.addEventListener("change", () => {
    const next = model.get("forms").find((one) => one.name === form.control.value);
    update(model, { form: next.name, k: Math.min(model.get("k"), next.kTile - 1) });
    k.control.value = model.get("k");
  });
  for (const [box, name, most] of [[m, "m", () => ROWS - 1], [n, "n", () => ROWS - 1], [k, "k", () => facts().kTile - 1]]) {
    box.control.addEventListener("input", () => {
      const value = Number(box.control.value);
      const fits = box.control.value !== "" && Number.isInteger(value) && value >= 0 && value <= most();
      box.complain(fits ? "" : `Give a whole number from 0 to ${most()}.`);
      if (fits) update(model, { [name]: value });
    });
  }
  return follow(model, ["form", "m", "n", "k"], refresh);
}

// For tests: the arithmetic without the picture.
export const _math = { placeOf };
export default { render };
