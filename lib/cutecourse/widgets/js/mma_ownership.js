// Which thread holds which cell of A, B and C in which register, for one MMA atom.
import { el, field, follow, roving, update } from "./dom.js";
import { formatTuple, mode, offsetAt, parseLayout, size } from "./notation.js";

const OPERANDS = ["A", "B", "C"];
// How each operand is drawn: rows and columns of its picture, and the names of its two coordinates.
const DRAWN = {
  A: { rows: 0, columns: 1, names: ["m", "k"], title: "A, M×K" },
  B: { rows: 1, columns: 0, names: ["n", "k"], title: "B, N×K, drawn as K×N" },
  C: { rows: 0, columns: 1, names: ["m", "n"], title: "C, M×N" },
};

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

function render({ model, el: host }) {
  const chooser = field("Atom", el("select", { "data-cc": "atom" }));
  const thread = field("Thread", el("input", { type: "number", min: 0, step: 1, "data-cc": "thread" }), "6em");
  const picture = el("div", { class: "cc-product" });
  const state = el("div", { class: "cc-state", "data-cc": "state", "aria-live": "polite" });
  const ptx = el("code", { "data-cc": "ptx" });
  const note = el("p", { class: "cc-note", "data-cc": "note" });
  const root = el(
    "section",
    { class: "cc-widget cc-ownership", "data-cc": "ownership", "aria-label": "Who owns which matrix cell", "data-lm-suppress-shortcuts": "true" },
    el("div", { class: "cc-controls" }, chooser.box, thread.box, el("p", { class: "cc-instruction" }, ptx)),
    picture,
    state,
    note,
  );
  host.append(root);
  chooser.control.style.maxWidth = "100%";

  let atom = null;
  let maps = {};
  let cells = {};
  let lanes = null; // which lane of the warp a thread of the atom is
  const count = () => maps.C.threads;

  const words = el("div", { class: "cc-words", "data-cc": "registers" });
  const draw = () => {
    const names = model.get("atoms").map((a) => a.name);
    chooser.control.replaceChildren(...names.map((name) => el("option", { value: name, text: name })));
    chooser.control.value = model.get("atom");
    atom = model.get("atoms").find((a) => a.name === model.get("atom"));
    ptx.textContent = atom.ptx;
    note.textContent = atom.note ?? "";
    note.hidden = !atom.note;
    lanes = parseLayout(atom.thr_id);
    maps = Object.fromEntries(OPERANDS.map((letter) => [letter, ownership(letter, atom.operands[letter])]));
    thread.control.max = count() - 1;
    cells = {};
    const panels = Object.fromEntries(OPERANDS.map((letter) => [letter, panel(letter)]));
    picture.replaceChildren(words, panels.B, panels.A, panels.C);
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
    table.addEventListener("focusin", (event) => {
      const cell = event.target.closest("td");
      if (!cell) return;
      const crd = cell.dataset.crd.split(",").map(Number);
      const owner = maps[letter].byCell.get(cell.dataset.crd)?.[0];
      update(model, { cell: { operand: letter, crd }, ...(owner ? { thread: owner.thread } : {}) });
    });
    return el("section", { class: "cc-panel" }, el("h4", { text: title }), el("div", { class: "cc-scroll" }, table));
  };

  const light = () => {
    const tid = model.get("thread");
    const chosen = model.get("cell") ?? {};
    if (document.activeElement !== thread.control) thread.control.value = tid;
    for (const letter of OPERANDS) {
      const mine = new Set((maps[letter].byThread[tid] ?? []).map((entry) => entry.cell.join(",")));
      for (const [key, cell] of cells[letter]) {
        const lit = mine.has(key);
        cell.classList.toggle("cc-lit", lit);
        cell.classList.toggle("cc-aside", !lit);
        cell.classList.toggle("cc-chosen", chosen.operand === letter && chosen.crd.join(",") === key);
        cell.setAttribute("aria-selected", String(lit));
      }
    }
    const list = OPERANDS.map((letter) => {
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
    words.replaceChildren(
      el("h4", {}, swatch, " Thread ", el("b", { "data-cc": "thread-number", text: tid }), lane === tid ? `, group ${Math.floor(tid / 4)}, number ${tid % 4} in it` : `, lane ${lane} of the warp`),
      el("dl", { class: "cc-registers" }, list.flat()),
    );
    state.replaceChildren(el("p", {}, sentence(tid, chosen)));
  };

  const sentence = (tid, chosen) => {
    const sizes = OPERANDS.map((letter) => `${atom.operands[letter].values} of ${letter}`).join(", ");
    if (!chosen.operand || !cells[chosen.operand].has(chosen.crd.join(",")))
      return [`Thread ${tid} holds ${sizes}. Choose a cell to see its owner; arrow keys walk the grid.`];
    const owners = maps[chosen.operand].byCell.get(chosen.crd.join(",")) ?? [];
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
    return [el("b", { "data-cc": "cell-name", text: where }), " is held by ", ...words, "."];
  };

  chooser.control.addEventListener("change", () => update(model, { atom: chooser.control.value, thread: 0, cell: {} }));
  thread.control.addEventListener("input", () => {
    const text = thread.control.value.trim();
    const tid = Number(text);
    if (text === "" || !Number.isInteger(tid) || tid < 0 || tid >= count())
      return thread.complain(`${text || "This"} is no thread of this atom: write a whole number from 0 to ${count() - 1}.`);
    thread.complain("");
    update(model, { thread: tid, cell: {} });
  });

  const stops = [
    follow(model, ["atoms", "atom"], () => {
      draw();
      if (model.get("thread") < count()) light();
    }),
    follow(model, ["thread", "cell"], () => model.get("thread") < count() && light()),
  ];
  return () => stops.forEach((stop) => stop());
}

export const _math = { ownership, registerOf, quadOf };
export default { render };
