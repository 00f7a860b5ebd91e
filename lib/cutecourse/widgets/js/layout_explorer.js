// Edit a layout, see what goes where, and step through an operation on it.
import { OPERATIONS, formatTiler, perform } from "./algebra.js";
import { el, field, follow, roving, update, words } from "./dom.js";
import { dotProduct, facts, layoutTable, memoryTable, preimages, rampStep } from "./layout_grid.js";
import { boardTable, operationPicture } from "./layout_operation.js";
import { parseTiler } from "./tiler.js";
import { cosize, flatten, formatLayout, formatTuple, idx2crd, offsetAt, parseLayout, size } from "./notation.js";

const MAX_CELLS = 1024;
const MAX_OFFSETS = 4096;
const MINI_CELLS = 128;

/** A layout that can be drawn, or an error in words. */
function drawable(text) {
  const layout = parseLayout(text);
  if (flatten(layout.stride).some((step) => step < 0))
    throw new Error(`layout "${text.trim()}": a negative stride leads before offset 0; write strides of 0 and more`);
  if (size(layout) > MAX_CELLS || cosize(layout) > MAX_OFFSETS)
    throw new Error(
      `layout "${text.trim()}" has size ${size(layout)} and cosize ${cosize(layout)}; up to ${MAX_CELLS} cells and ${MAX_OFFSETS} offsets are drawn here`,
    );
  return layout;
}

function textInput(name, label) {
  return el("input", { type: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "off", "data-cc": name, "aria-label": label });
}

function render({ model, el: host }) {
  const whole = field("Layout, shape:stride", textInput("notation"), "18em");
  const shape = field("Shape", textInput("shape"), "8.5em");
  const stride = field("Stride", textInput("stride"), "8.5em");
  const select = el("select", { "data-cc": "operation" }, [
    el("option", { value: "", text: "none" }),
    ...Object.keys(OPERATIONS).map((name) => el("option", { value: name, text: name })),
  ]);
  const chooser = field("Operation", select);
  const operand = field("Operand", textInput("operand"), "8.5em");
  const prev = el("button", { type: "button", "data-cc": "prev", text: "◀ Prev", "aria-label": "previous step" });
  const next = el("button", { type: "button", "data-cc": "next", text: "Next ▶", "aria-label": "next step" });
  const last = el("button", { type: "button", class: "cc-quiet", "data-cc": "last", text: "Result", "aria-label": "go to the result" });
  const picture = el("div", { class: "cc-operation", "data-cc": "picture" });
  const left = el("section", { class: "cc-panel" });
  const right = el("section", { class: "cc-panel cc-memory" });
  const state = el("div", { class: "cc-state", "data-cc": "state" });
  const inside = el("input", { type: "checkbox", "data-cc": "inside" });
  inside.addEventListener("change", () => update(model, { inside: inside.checked, step: 0 }));
  const fold = el("label", { class: "cc-option" }, inside, "with the steps of the operations it calls");
  const heading = el("h4", { "data-cc": "step" });
  const step = el("div", { "aria-live": "polite" });
  const steps = el("div", { class: "cc-steps", "data-cc": "steps" }, el("div", { class: "cc-steprow" }, prev, next, last, fold, heading), step);
  // With an operation its picture comes first, and what stands in the field is folded below it.
  const summary = el("summary", { text: "Offsets and memory of one layout" });
  const plainView = el("details", { class: "cc-plain", "data-cc": "plain", open: true }, summary, el("div", { class: "cc-panels cc-stacked" }, left, right), state);
  const root = el(
    "section",
    { class: "cc-widget cc-explorer", "data-cc": "explorer", "aria-label": "Layout explorer", "data-lm-suppress-shortcuts": "true" },
    el("div", { class: "cc-controls" }, whole.box, shape.box, stride.box, chooser.box, operand.box),
    picture,
    steps,
    plainView,
  );
  host.append(root);

  let layout = null; // what the model holds
  let drawn = null; // what the panels show: the layout, or one that a step made
  let shownAs = ""; // how the panels name it
  let owners = [];
  let hover = null;
  let cells = new Map();
  let places = new Map();

  // ---- the fields ----
  // An edit leaves a recorded explanation behind; what only Python can do leaves with it.
  const fresh = () => ({ explanation: null, step: 0, operation: OPERATIONS[model.get("operation")] ? model.get("operation") : "" });
  const take = (text, where) => {
    try {
      const good = drawable(text);
      for (const one of [whole, shape, stride]) one.complain("");
      const notation = formatLayout(good);
      if (notation !== model.get("notation")) update(model, { notation, ...fresh(), selected: {} });
    } catch (error) {
      where.complain(error.message);
    }
  };
  whole.control.addEventListener("input", () => take(whole.control.value, whole));
  for (const part of [shape, stride])
    part.control.addEventListener("input", () => take(`${shape.control.value}:${stride.control.value}`, part));
  select.addEventListener("change", () =>
    update(model, { operation: select.value, operand: OPERATIONS[select.value]?.example ?? "", explanation: null, step: 0 }),
  );
  operand.control.addEventListener("input", () => update(model, { operand: operand.control.value, ...fresh() }));
  const go = (by) => update(model, { step: Math.max(0, Math.min(shownSteps().length - 1, model.get("step") + by)) });
  prev.addEventListener("click", () => go(-1));
  next.addEventListener("click", () => go(1));
  last.addEventListener("click", () => go(Infinity));

  const fill = () => {
    const texts = [formatLayout(layout), formatTuple(layout.shape), formatTuple(layout.stride)];
    [whole, shape, stride].forEach((one, i) => {
      if (document.activeElement !== one.control) one.control.value = texts[i]; // never under the reader's cursor
      one.complain("");
    });
  };
  for (const one of [whole, shape, stride])
    one.control.addEventListener("change", () => one.control.getAttribute("aria-invalid") !== "true" && rewrite(one));
  const rewrite = (one) => {
    const texts = new Map([[whole, formatLayout(layout)], [shape, formatTuple(layout.shape)], [stride, formatTuple(layout.stride)]]);
    one.control.value = texts.get(one);
  };

  // ---- the panels ----
  const draw = (what, name) => {
    [drawn, shownAs, hover] = [what, name, null];
    owners = preimages(drawn);
    const text = formatLayout(drawn);
    const grid = layoutTable(drawn, { label: `offsets of the layout ${text}, by coordinate` });
    const memory = memoryTable(drawn, owners, { label: `memory of the layout ${text}, by offset` });
    const title = (label) => el("h4", {}, `${label} `, el("code", { text }));
    left.replaceChildren(title(shownAs ? `${shownAs}:` : "Coordinates to offsets:"), el("div", { class: "cc-scroll" }, grid.table));
    right.replaceChildren(el("h4", { text: "Memory, one line: the index at each offset" }), el("div", { class: "cc-scroll" }, memory.table));
    cells = new Map(grid.rows.flat().map((cell) => [Number(cell.dataset.index), cell]));
    places = new Map(memory.rows.flat().map((cell) => [Number(cell.dataset.offset), cell]));
    for (const [index, cell] of cells) if (owners[Number(cell.dataset.offset)].length > 1) cells.get(index).classList.add("cc-collision");
    const grids = [
      [grid.table, roving(grid.table, grid.rows), (cell) => ({ index: Number(cell.dataset.index) })],
      [memory.table, roving(memory.table, memory.rows), (cell) => ({ offset: Number(cell.dataset.offset) })],
    ];
    for (const [table, , whatOf] of grids) {
      const cellOf = (event) => event.target.closest("td");
      table.addEventListener("focusin", (event) => {
        if (!cellOf(event)) return;
        hover = null; // the keys take over from a pointer that rests
        update(model, { selected: whatOf(cellOf(event)) });
        light();
      });
      table.addEventListener("mouseover", (event) => cellOf(event) && point(whatOf(cellOf(event))));
      table.addEventListener("mouseleave", () => point(null));
      table.addEventListener("keydown", (event) => event.key === "Escape" && update(model, { selected: {} }));
    }
  };
  const point = (what) => {
    hover = what;
    light();
  };

  // ---- what is lit, and the state in words ----
  const light = () => {
    const chosen = hover ?? model.get("selected") ?? {};
    const fits = chosen.index !== undefined ? cells.has(chosen.index) : places.has(chosen.offset);
    const offset = !fits ? null : chosen.index !== undefined ? offsetAt(drawn, chosen.index) : chosen.offset;
    const indices = offset === null ? [] : chosen.index !== undefined ? [chosen.index] : owners[offset];
    for (const [index, cell] of cells) {
      cell.classList.toggle("cc-lit", indices.includes(index));
      cell.setAttribute("aria-selected", String(indices.includes(index)));
    }
    for (const [at, cell] of places) {
      cell.classList.toggle("cc-lit", at === offset);
      cell.setAttribute("aria-selected", String(at === offset));
    }
    const f = facts(drawn, owners);
    const number = (name, value) => el("b", { "data-cc": name, text: value });
    const kind = f.compact
      ? `injective and compact: every offset below ${f.cosize} is used exactly once`
      : f.injective
        ? `injective, not compact: ${f.holes} of ${f.cosize} offsets are holes`
        : `not injective: ${f.collisions} ${f.collisions === 1 ? "offset is" : "offsets are"} shared by several coordinates` +
          (f.holes ? `, ${f.holes} ${f.holes === 1 ? "is a hole" : "are holes"}` : "");
    const first = el(
      "p",
      {},
      shownAs ? [el("span", { text: `Drawn: ${shownAs}. ` })] : [],
      "size ",
      number("size", f.size),
      ", cosize ",
      number("cosize", f.cosize),
      "; ",
      el("span", { "data-cc": "kind", text: kind }),
      ".",
    );
    state.replaceChildren(first, el("p", {}, sentence(offset, indices, chosen)));
  };
  const sentence = (offset, indices, chosen) => {
    const at = (value) => el("b", { "data-cc": "offset", text: value });
    if (offset === null) return el("span", { class: "cc-muted", text: "Point at a cell, or reach it with the arrow keys, to see where it goes." });
    if (indices.length === 0) return el("span", {}, "offset ", at(offset), " is a hole: no coordinate goes there.");
    const crds = indices.map((index) => idx2crd(index, drawn.shape));
    const sum = (crd) => dotProduct(crd, drawn);
    if (chosen.index !== undefined)
      return el(
        "span",
        {},
        "coordinate ",
        el("b", { "data-cc": "coord", text: formatTuple(crds[0]) }),
        " → offset ",
        at(offset),
        ` = ${sum(crds[0])}`,
        el("span", { class: "cc-muted", text: `  (index ${indices[0]})` }),
      );
    return el(
      "span",
      {},
      "offset ",
      at(offset),
      indices.length === 1 ? " ← coordinate " : ` ← ${indices.length} coordinates: `,
      el("b", { "data-cc": "coord", text: crds.map(formatTuple).join(", ") }),
      el("span", { class: "cc-muted", text: `  (${indices.length === 1 ? "index" : "indices"} ${indices.join(", ")})` }),
    );
  };

  // ---- the operation and its steps ----
  /** What the operand field says: nothing for one operand, and an empty field where it may be left out. */
  const operands = (name, text) => {
    const { operand: wanted, optional } = OPERATIONS[name];
    return !wanted || (optional && text.trim() === "") ? [] : [parseTiler(text)];
  };
  let explanation = null;
  const explain = () => {
    const name = model.get("operation");
    const wants = OPERATIONS[name] ? OPERATIONS[name].operand : model.get("operand") && "as recorded";
    if (name && !OPERATIONS[name] && ![...select.options].some((option) => option.value === name))
      select.append(el("option", { value: name, text: name })); // an explanation of an operation that only Python does
    select.value = name;
    operand.box.hidden = !wants;
    operand.box.querySelector("label").textContent = wants ? `Operand: ${wants}` : "Operand";
    if (operand.control.value !== model.get("operand")) operand.control.value = model.get("operand");
    operand.complain("");
    chooser.complain("");
    const given = model.get("explanation");
    if (given && given.steps) {
      explanation = given;
      return;
    }
    if (!name) {
      explanation = null;
      return;
    }
    try {
      explanation = perform(name, layout, operands(name, model.get("operand")));
    } catch (error) {
      (wants ? operand : chooser).complain(error.message);
      if (explanation?.operation !== name) explanation = null;
    }
  };
  const press = (button, on) => {
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Drawn below" : "Draw below";
  };
  const arrange = (name) => {
    summary.hidden = !name;
    plainView.open = !name;
  };
  const paint = () => {
    const named = explanation && OPERATIONS[explanation.operation];
    let shown = null;
    try {
      shown = named && operationPicture(explanation.operation, layout, operands(explanation.operation, model.get("operand")), explanation.result);
    } catch {
      // an operand that cannot be read; the field says so, and the last steps stand
    }
    picture.hidden = !shown;
    if (!shown) return;
    picture.replaceChildren(
      el("div", { class: "cc-boards" }, shown.boards.map((board) => el("section", { class: board.height ? "cc-panel" : "cc-panel cc-memory" }, el("h4", { text: board.title }), el("div", { class: "cc-scroll" }, boardTable(board))))),
      ...shown.words.map((line) => el("p", { "data-cc": "picture-words", text: line })),
    );
  };
  const valueNode = ({ name, value }, end) => {
    const text = String(value);
    const node = el("div", { class: "cc-value" }, el("div", {}, `${name} = `, el("code", { "data-cc": end && name === "result" ? "result" : "value", text })));
    let parsed = null;
    if (/:/.test(text)) {
      try {
        parsed = drawable(text);
      } catch {
        // not a layout that can be drawn; its text stands
      }
    }
    if (!parsed) return node;
    const on = drawn && shownAs !== "" && formatLayout(drawn) === formatLayout(parsed) && shownAs === name;
    const button = el("button", { type: "button", class: "cc-quiet", "data-cc": "draw", "aria-pressed": String(on), text: on ? "Drawn below" : "Draw below" });
    button.addEventListener("click", () => {
      const back = button.getAttribute("aria-pressed") === "true";
      for (const other of steps.querySelectorAll('[data-cc="draw"]')) press(other, false);
      press(button, !back);
      if (back) draw(layout, "");
      else draw(parsed, name);
      if (!back) plainView.open = true;
      light();
    });
    if (size(parsed) <= MINI_CELLS)
      node.append(el("div", { class: "cc-scroll" }, layoutTable(parsed, { mini: true, label: `offsets of ${text}` }).table));
    node.append(button);
    return node;
  };
  /** The steps to walk: all of them, or the operation's own and what a called operation changed. */
  const shownSteps = () => {
    const all = explanation?.steps ?? [];
    if (model.get("inside")) return all;
    const plainText = (value) => String(value).replace(/^\((\d+)\):\((\d+)\)$/, "$1:$2");
    const given = new Set(explanation?.operands.map(({ value }) => plainText(value)));
    const seen = new Set([...given, plainText(explanation?.result)]);
    return all.filter(({ level, rule, text: said, values }, i) => {
      if (rule === "gap" && said.includes(" leaves 1 place ")) return false; // a gap of one block adds nothing
      const texts = values.map(({ value }) => plainText(value));
      const repeats = texts.length > 0 && texts.every((text) => (level ? seen : given).has(text));
      if (level > 1 || (level === 1 && rule !== "result") || (repeats && i < all.length - 1)) return false;
      texts.forEach((text) => seen.add(text));
      return true;
    });
  };
  const tell = () => {
    steps.hidden = !explanation;
    if (!explanation) return;
    const list = shownSteps();
    const at = Math.min(model.get("step"), list.length - 1);
    const end = at === list.length - 1;
    const now = list[at];
    prev.disabled = at === 0;
    next.disabled = last.disabled = end;
    inside.checked = model.get("inside");
    inside.parentElement.hidden = !model.get("inside") && list.length === explanation.steps.length;
    const within = now.level > 0 ? `, by ${now.operation}` : "";
    heading.textContent = `${explanation.operation}: step ${at + 1} of ${list.length}${end ? ", the result" : within}`;
    const call = `${explanation.operation}(${explanation.operands.map((one) => one.value).join(", ")})`;
    step.replaceChildren(
      el("p", {}, el("code", { "data-cc": "call", text: call })),
      el("p", {}, el("strong", { text: now.rule }), " — ", ...words(now.text)),
      el("div", { class: "cc-values" }, now.values.map((one) => valueNode(one, end))),
    );
  };

  const redraw = () => {
    try {
      layout = drawable(model.get("notation"));
    } catch (error) {
      whole.complain(error.message);
      return;
    }
    fill();
    draw(layout, "");
    explain();
    paint();
    tell();
    light();
  };
  const stops = [
    follow(model, ["notation"], redraw),
    follow(model, ["operation", "operand", "explanation"], () => layout && (arrange(model.get("operation")), explain(), paint(), tell())),
    follow(model, ["step", "inside"], () => layout && tell()),
    follow(model, ["selected"], () => drawn && light()),
  ];
  return () => stops.forEach((stop) => stop());
}

// For tests: the arithmetic without the picture.
export const _math = { operationPicture, parseLayout, formatLayout, idx2crd, offsetAt, size, cosize, parseTiler, formatTiler, perform, rampStep };
export default { render };
