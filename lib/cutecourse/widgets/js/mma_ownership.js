// Which thread holds which cell of A, B and C in which register, for one MMA atom. An operand that wgmma reads
// from shared memory is not drawn: no thread holds it.
import { el, field, follow, roving, update } from "./dom.js";
import { formatTuple, mode, offsetAt, parseLayout, size } from "./notation.js";

const OPERANDS = ["A", "B", "C"];
// How each operand is drawn: rows and columns of its picture, and the names of its two coordinates.
const DRAWN = {
  A: { rows: 0, columns: 1, names: ["m", "k"], title: "A, M×K" },
  B: { rows: 1, columns: 0, names: ["n", "k"], title: "B, N×K, drawn as K×N" },
  C: { rows: 0, columns: 1, names: ["m", "n"], title: "C, M×N" },
};

const MOST_ROOM = 16; // values of C in a thread

/** The operands that threads hold. */
const heldOf = (atom) => OPERANDS.filter((letter) => !atom.operands[letter].in_shared_memory);

/** Which of the eight hues a thread takes; the same rule as in Python. */
const quadOf = (thread) => Math.floor(thread / 4) % 8;

/** The register that value `v` of an operand lies in: `a0`, or a part of it: `a0.lo`, `a0.b2`, `a0.e7`. */
function registerOf(letter, v, { bits, register_bits }) {
  const per = register_bits / bits;
  const name = `${letter.toLowerCase()}${Math.floor(v / per)}`;
  if (per === 1) return name;
  return per === 2 ? `${name}.${["lo", "hi"][v % 2]}` : `${name}.${bits === 8 ? "b" : "e"}${v % per}`;
}

/** Every (thread, value) of an operand with its cell: the layout's offset counts down the first mode first. */
function ownership(letter, operand) {
  const layout = parseLayout(operand.layout);
  const [threads, values] = [size(mode(layout, 0)), size(mode(layout, 1))];
  const extent = operand.shape[0];
  const byThread = [];
  const byCell = new Map();
  for (let thread = 0; thread < threads; thread += 1) {
    byThread.push([]);
    for (let value = 0; value < values; value += 1) {
      const at = offsetAt(layout, thread + threads * value);
      const cell = [at % extent, Math.floor(at / extent)];
      const entry = { letter, thread, value, cell, register: registerOf(letter, value, operand) };
      byThread[thread].push(entry);
      const key = cell.join(",");
      byCell.set(key, [...(byCell.get(key) ?? []), entry]);
    }
  }
  return { byThread, byCell, threads };
}

const part = (register) => {
  const [name, piece] = register.split(".");
  const words = { lo: "the low half of ", hi: "the high half of " };
  return piece === undefined ? name : (words[piece] ?? `${piece.startsWith("b") ? "byte" : "element"} ${piece.slice(1)} of `) + name;
};

/** Room for words that are not shown now: the picture stays where it is when the words change. */
const room = () => el("div", { class: "cc-room", "aria-hidden": "true" });

function fill(place, nodes) {
  place.replaceChildren(...nodes);
  for (const node of place.querySelectorAll("[data-cc]")) node.removeAttribute("data-cc");
}

function render({ model, el: host }) {
  const chooser = field("Atom", el("select", { "data-cc": "atom" }));
  const thread = field("Thread", el("input", { type: "number", min: 0, step: 1, "data-cc": "thread" }), "6em");
  const picture = el("div", { class: "cc-product" });
  const state = el("div", { class: "cc-state", "data-cc": "state", "aria-live": "polite" });
  const stateRoom = room();
  const clear = el("button", { type: "button", class: "cc-quiet", "data-cc": "clear", text: "Clear selection", onclick: () => choose(null) });
  // The answer beside the cell that is pointed at; screen readers hear the state instead.
  const bubble = el("div", { class: "cc-bubble", "data-cc": "bubble", "aria-hidden": "true", hidden: true });
  const ptx = el("code", { "data-cc": "ptx" });
  const note = el("p", { class: "cc-note", "data-cc": "note" });
  const root = el(
    "section",
    { class: "cc-widget cc-ownership", "data-cc": "ownership", "aria-label": "Who owns which matrix cell", "data-lm-suppress-shortcuts": "true" },
    el("div", { class: "cc-controls" }, chooser.box, thread.box, clear, el("p", { class: "cc-instruction" }, ptx)),
    picture,
    el("div", { class: "cc-roomy cc-whole" }, stateRoom, state),
    note,
    bubble,
  );
  host.append(root);
  chooser.control.style.maxWidth = "100%";

  let atom = null;
  let held = OPERANDS;
  let maps = {};
  let cells = {};
  let lanes = null; // which lane of the warp a thread of the atom is
  let pointed = null; // the cell under the mouse: { operand, crd }
  const count = () => maps.C.threads;

  const words = el("div", { class: "cc-words", "data-cc": "registers" });
  const wordsRoom = [room(), room()];
  const wordsPlace = el("div", { class: "cc-roomy cc-words-place" }, wordsRoom, words);
  const draw = () => {
    const names = model.get("atoms").map((a) => a.name);
    chooser.control.replaceChildren(...names.map((name) => el("option", { value: name, text: name })));
    chooser.control.value = model.get("atom");
    atom = model.get("atoms").find((a) => a.name === model.get("atom"));
    ptx.textContent = atom.ptx;
    note.textContent = atom.note ?? "";
    note.hidden = !atom.note;
    lanes = parseLayout(atom.thr_id);
    held = heldOf(atom);
    maps = Object.fromEntries(held.map((letter) => [letter, ownership(letter, atom.operands[letter])]));
    thread.control.max = count() - 1;
    cells = {};
    const panels = Object.fromEntries(held.map((letter) => [letter, panel(letter)]));
    // Without B, the words take B's row.
    wordsPlace.classList.toggle("cc-wide", !panels.B);
    fill(wordsRoom[0], groups());
    // A wgmma may have hundreds of registers: no room is kept for so many.
    fill(wordsRoom[1], maps.C.byThread[0].length <= MOST_ROOM ? registersOf(count() - 1) : []);
    fill(stateRoom, [el("p", {}, sentence(null, {}))]);
    picture.replaceChildren(wordsPlace, ...["B", "A", "C"].filter((letter) => panels[letter]).map((letter) => panels[letter]));
  };

  const panel = (letter) => {
    const { shape } = atom.operands[letter];
    const { rows: down, columns: across, names, title } = DRAWN[letter];
    const head = el("tr", { role: "row" }, el("th", { role: "presentation", text: `${names[down]}\\${names[across]}` }));
    for (let c = 0; c < shape[across]; c += 1) head.append(el("th", { scope: "col", role: "columnheader", text: c }));
    const body = el("tbody");
    const rows = [];
    cells[letter] = new Map();
    for (let r = 0; r < shape[down]; r += 1) {
      const line = el("tr", { role: "row" }, el("th", { scope: "row", role: "rowheader", text: r }));
      const row = [];
      for (let c = 0; c < shape[across]; c += 1) {
        const crd = down === 0 ? [r, c] : [c, r];
        const owners = maps[letter].byCell.get(crd.join(",")) ?? [];
        const first = owners[0];
        const cell = el(
          "td",
          {
            role: "gridcell",
            class: first ? `cc-quad-${quadOf(first.thread)}` : "cc-hole",
            "data-cc": "own",
            "data-operand": letter,
            "data-crd": crd.join(","),
            "data-thread": first ? owners.map((o) => o.thread).join(" ") : null,
            "data-value": first ? first.value : null,
            "data-register": first ? first.register : null,
            "aria-label": first
              ? `${letter} ${crd.join(", ")}: thread ${owners.map((o) => o.thread).join(", ")}, register ${first.register}`
              : `${letter} ${crd.join(", ")}: no thread`,
          },
          first ? (owners.length > 1 ? `${first.thread}+` : String(first.thread)) : "·",
          el("small", { "aria-hidden": "true", text: first ? first.register : "" }),
        );
        cells[letter].set(crd.join(","), cell);
        row.push(cell);
        line.append(cell);
      }
      rows.push(row);
      body.append(line);
    }
    const table = el("table", { class: "cc-grid", role: "grid", "aria-label": `${title}: owners`, "data-cc": `grid-${letter}` }, el("thead", {}, head), body);
    roving(table, rows);
    const at = (event) => {
      const cell = event.target.closest("td");
      return cell && { operand: letter, crd: cell.dataset.crd.split(",").map(Number) };
    };
    for (const kind of ["focusin", "click"])
      table.addEventListener(kind, (event) => {
        const cell = at(event);
        if (cell) choose(cell);
      });
    table.addEventListener("pointerover", (event) => {
      if (event.pointerType === "mouse") point(at(event));
    });
    table.addEventListener("pointerleave", () => point(null));
    return el("section", { class: "cc-panel" }, el("h4", { text: title }), el("div", { class: "cc-scroll" }, table));
  };

  const ownersOf = (cell) => (cell?.operand && maps[cell.operand].byCell.get(cell.crd.join(","))) || [];
  const elementOf = (cell) => (cell?.operand ? cells[cell.operand].get(cell.crd.join(",")) : undefined);

  /** Select a cell and its owner, or nobody. */
  const choose = (cell) => {
    const owner = ownersOf(cell)[0];
    const same = JSON.stringify(model.get("cell") ?? {}) === JSON.stringify(cell ?? {});
    if (same && model.get("thread") === (owner?.thread ?? null)) return;
    update(model, { cell: cell ?? {}, thread: owner ? owner.thread : null });
  };

  const point = (cell) => {
    pointed = cell;
    light();
  };

  const light = () => {
    const chosen = model.get("cell") ?? {};
    const tid = pointed ? (ownersOf(pointed)[0]?.thread ?? null) : model.get("thread");
    for (const letter of held) {
      const mine = new Set((maps[letter].byThread[tid] ?? []).map((entry) => entry.cell.join(",")));
      for (const [key, cell] of cells[letter]) {
        const lit = mine.has(key);
        cell.classList.toggle("cc-lit", lit);
        cell.classList.toggle("cc-aside", tid !== null && !lit);
        cell.classList.toggle("cc-chosen", chosen.operand === letter && chosen.crd.join(",") === key);
        cell.setAttribute("aria-selected", String(lit));
      }
    }
    answerBeside(pointed ?? chosen);
  };

  /** Put the bubble above the cell, or below it where there is no room; inside the widget in any case. */
  const answerBeside = (cell) => {
    const target = elementOf(cell);
    const owners = ownersOf(cell);
    bubble.hidden = !target;
    if (!target) return;
    bubble.textContent = `${cell.operand}(${cell.crd.join(",")}) ` + (owners.length ? owners.map((o) => `thread ${o.thread}, ${o.register}`).join("; ") : "nobody");
    const [frame, box, view] = [root, target, target.closest(".cc-scroll")].map((node) => node.getBoundingClientRect());
    bubble.hidden = box.right < view.left || box.left > view.right;
    const [width, height] = [bubble.offsetWidth, bubble.offsetHeight];
    const left = box.left + box.width / 2 - frame.left - width / 2;
    const above = box.top - frame.top - height - 7;
    bubble.style.left = `${Math.max(4, Math.min(left, frame.width - width - 6))}px`;
    bubble.style.top = `${above > 0 ? above : box.bottom - frame.top + 7}px`;
  };

  const tell = () => {
    const tid = model.get("thread");
    const chosen = model.get("cell") ?? {};
    if (document.activeElement !== thread.control) thread.control.value = tid ?? "";
    clear.disabled = tid === null && !chosen.operand;
    words.replaceChildren(...(tid === null ? groups() : registersOf(tid)));
    state.replaceChildren(el("p", {}, sentence(tid, chosen)));
  };

  /** What the words say while nobody is selected: which colour is which group of threads. */
  const groups = () => {
    const lines = [];
    const more = count() > 32 ? " of each warp" : "";
    for (let first = 0; first < Math.min(32, count()); first += 4)
      lines.push(el("li", {}, el("span", { class: `cc-swatch cc-quad-${quadOf(first)}`, "aria-hidden": "true" }), ` threads ${first} to ${first + 3}${more}`));
    return [el("h4", { text: "Nobody is selected" }), el("ul", { class: "cc-plainlist", "data-cc": "groups" }, lines)];
  };

  const placeOf = (tid, lane) => {
    if (count() > 32) return `, warp ${Math.floor(tid / 32)}, lane ${tid % 32}`;
    return lane === tid ? `, place ${tid % 4} in group ${Math.floor(tid / 4)}` : `, lane ${lane} of the warp`;
  };

  const registersOf = (tid) => {
    const list = held.map((letter) => {
      const registers = new Map();
      for (const entry of maps[letter].byThread[tid]) {
        const [name, piece] = entry.register.split(".");
        registers.set(name, [...(registers.get(name) ?? []), `${piece ? `${piece} ` : ""}${formatTuple(entry.cell)}`]);
      }
      const { names } = DRAWN[letter];
      return [
        el("dt", { class: "cc-operand", text: `${letter}(${names.join(",")})` }),
        el("dd", {}, [...registers].map(([name, held]) => el("div", { class: "cc-mono", "data-cc": "register", "data-register": name, text: `${name}: ${held.join(", ")}` }))),
      ];
    });
    const lane = offsetAt(lanes, tid);
    const swatch = el("span", { class: `cc-swatch cc-quad-${quadOf(tid)}`, "aria-hidden": "true" });
    return [
      el("h4", {}, swatch, " Thread ", el("b", { "data-cc": "thread-number", text: tid }), placeOf(tid, lane)),
      el("dl", { class: "cc-registers" }, list.flat()),
    ];
  };

  const sentence = (tid, chosen) => {
    const sizes = held.map((letter) => `${atom.operands[letter].values} of ${letter}`).join(", ");
    if (!elementOf(chosen))
      return [
        tid === null
          ? `Each of the ${count()} threads holds ${sizes}. Point at a cell to see its owner. Click or tap it to keep the answer. Arrow keys walk the grid, and Escape clears it.`
          : `Thread ${tid} holds ${sizes}. Point at a cell to see its owner.`,
      ];
    const owners = ownersOf(chosen);
    const { names } = DRAWN[chosen.operand];
    const where = `${chosen.operand}(${names[0]}=${chosen.crd[0]}, ${names[1]}=${chosen.crd[1]})`;
    if (!owners.length) return [`${where} has no owner.`];
    const words = owners.flatMap((owner, i) => [
      i ? " and " : "",
      "thread ",
      el("b", { "data-cc": "owner", text: owner.thread }),
      ", value ",
      el("b", { "data-cc": "owner-value", text: owner.value }),
      ": ",
      el("b", { "data-cc": "owner-register", text: owner.register }),
      owner.register.includes(".") ? `, ${part(owner.register)}` : "",
    ]);
    return [el("b", { "data-cc": "cell-name", text: where }), " belongs to ", ...words, "."];
  };

  chooser.control.addEventListener("change", () => update(model, { atom: chooser.control.value, thread: null, cell: {} }));
  thread.control.addEventListener("input", () => {
    const text = thread.control.value.trim();
    const tid = text === "" ? null : Number(text);
    if (tid !== null && (!Number.isInteger(tid) || tid < 0 || tid >= count())) return refuse(text);
    thread.complain("");
    update(model, { thread: tid, cell: {} });
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    point(null);
    choose(null);
  });
  root.addEventListener("scroll", () => answerBeside(pointed ?? model.get("cell")), true);

  const refuse = (text) => thread.complain(`This atom has no thread ${text}. Write a whole number from 0 to ${count() - 1}, or nothing.`);

  const show = () => {
    const tid = model.get("thread") ?? 0;
    if (tid >= count()) return refuse(tid);
    thread.complain("");
    light();
    tell();
  };
  const stops = [
    follow(model, ["atoms", "atom"], () => {
      pointed = null;
      draw();
      show();
    }),
    follow(model, ["thread", "cell"], show),
  ];
  return () => stops.forEach((stop) => stop());
}

export const _math = { ownership, registerOf, quadOf };
export default { render };
