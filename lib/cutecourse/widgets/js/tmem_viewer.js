// Tensor memory of one CTA or a pair: columns given out, where C lies, which warp and register loads it.
import { el, field, follow, update } from "./dom.js";
import { COLUMNS, LANES, LEAST_COLUMNS, LOADS, WARP_LANES, accumulatorOf, allocateColumns, allowedColumns, blocksOf, freeColumns, loadOf, nsOf, smallestOf } from "./tmem.js";

const SHAPES = [[1, 64], [1, 128], [2, 64], [2, 128], [2, 256]];
const C_PX = 200; // the longer side of the picture of C
const LABEL_PX = 44; // what "warp 3" needs

const percentOf = (part, all) => `${(100 * part) / all}%`;
/** A rectangle of a picture of `rows` x `columns`. */
function patch(name, [top, left, high, wide], [rows, columns], ...children) {
  const node = el("div", { class: `cc-tm-patch ${name}` }, ...children);
  node.style.top = percentOf(top, rows);
  node.style.left = percentOf(left, columns);
  node.style.height = percentOf(high, rows);
  node.style.width = percentOf(wide, columns);
  return node;
}
const hueClass = ({ cta, warp }) => `cc-tm-hue cc-hue-${4 * cta + warp}`;
const span = (from, count) => (count === 1 ? `${from}` : `${from} to ${from + count - 1}`);

function render({ model, el: host }) {
  const shape = field("Shape of the MMA", el("select", { "data-cc": "shape" }, SHAPES.map(([group, m]) => el("option", { value: `${group},${m}`, text: `M = ${m}, cta_group::${group}` }))), "16.5em");
  shape.box.classList.add("cc-tm-shape");
  const ns = field("N", el("input", { type: "number", min: 8, max: 256, step: 8, "data-cc": "n" }), "5.5em");
  const row = field("C[m, n]: m", el("input", { type: "number", min: 0, "data-cc": "row" }), "6em");
  const column = field("n", el("input", { type: "number", min: 0, "data-cc": "col" }), "5em");
  const cta = field("CTA", el("select", { "data-cc": "cta" }), "4.5em");
  const lane = field("Lane", el("input", { type: "number", min: 0, max: LANES - 1, "data-cc": "lane" }), "5em");
  const at = field("Column", el("input", { type: "number", min: 0, max: COLUMNS - 1, "data-cc": "column" }), "5em");
  const load = field("tcgen05.ld.32x32b", el("select", { "data-cc": "repetitions" }, LOADS.map((x) => el("option", { value: x, text: `.x${x}` }))), "6.5em");
  const name = field("Allocate for", el("input", { type: "text", "data-cc": "new-name", spellcheck: "false", autocomplete: "off", maxlength: 24 }), "9em");
  const count = field("Columns", el("input", { type: "number", min: 1, "data-cc": "new-columns" }), "6em");
  const ask = el("button", { type: "button", "data-cc": "allocate", text: "Allocate" });
  const anew = el("button", { type: "button", class: "cc-quiet", "data-cc": "anew", text: "New launch" });
  const cPanel = el("section", { class: "cc-panel cc-tm-c" });
  const mPanel = el("section", { class: "cc-panel cc-tm-memory" });
  const state = el("div", { class: "cc-state", "data-cc": "state", "aria-live": "polite" });
  const list = el("ul", { class: "cc-plainlist cc-tm-list", "data-cc": "allocations" });
  const told = el("div", { class: "cc-reading", "data-cc": "told" });
  const group = (title, ...controls) => el("fieldset", { class: "cc-fieldset" }, el("legend", { text: title }), el("div", { class: "cc-controls" }, controls));
  const root = el(
    "section",
    { class: "cc-widget cc-tmem", "data-cc": "tmem", "aria-label": "Tensor memory and the accumulator in it", "data-lm-suppress-shortcuts": "true" },
    el("div", { class: "cc-groups" }, group("Accumulator", shape.box, ns.box), group("Element", row.box, column.box), group("Place", cta.box, lane.box, at.box), group("Load", load.box)),
    el("div", { class: "cc-tm-views" }, cPanel, mPanel),
    state,
    el("div", { class: "cc-tm-below" }, el("section", {}, el("h5", { text: "Columns, as tcgen05.alloc gives them" }), list, el("div", { class: "cc-controls" }, name.box, count.box, ask, anew)), told),
  );
  host.append(root);

  let one = null; // the accumulator
  let blocks = [];
  let pictures = null; // { c, memory: [of each CTA] }, to be marked
  let drawn = "";

  const shapes = () => model.get("shapes");
  const held = () => model.get("allocations");
  const holder = () => held().find((a) => a.name === model.get("holder") && a.state === "placed");
  const start = () => holder()?.column ?? 0;
  const chosen = () => {
    const place = model.get("selected");
    return Number.isInteger(place?.lane) && place.cta < one.group ? place : null;
  };
  const elementAt = (place) => one.element(place.cta, place.lane, place.column - start());
  const choose = (place) => update(model, { selected: place ?? {} });
  const chooseElement = (m, n) => {
    const place = one.place(m, n);
    choose({ ...place, column: Math.min(COLUMNS - 1, place.column + start()) });
  };

  // ---- controls ----
  const whole = (box, most, what) => {
    const text = box.control.value.trim();
    const value = Number(text);
    const good = text !== "" && Number.isInteger(value) && value >= 0 && value <= most;
    box.complain(good ? "" : `${what}: 0 to ${most}`);
    return good ? value : null;
  };
  const changeShape = (m, n, group_) => {
    const changes = { m, n, cta_group: group_ };
    // An allocation that nobody changed goes with the accumulator.
    const lone = held().length === 1 && held()[0].name === "accumulator";
    if (lone) {
      const needed = accumulatorOf(shapes(), m, n, group_).columns;
      changes.allocations = allocateColumns([], "accumulator", Math.max(LEAST_COLUMNS, 2 ** Math.ceil(Math.log2(needed))));
      Object.assign(changes, { smallest: smallestOf(changes.allocations), holder: "accumulator" });
    }
    const place = chosen();
    const was = place && elementAt(place);
    quiet = true;
    update(model, { selected: {}, ...changes });
    quiet = false;
    draw();
    if (was) chooseElement(Math.min(was[0], m - 1), Math.min(was[1], n - 1));
  };
  let quiet = false;
  shape.control.addEventListener("change", () => {
    const [g, m] = shape.control.value.split(",").map(Number);
    const known = nsOf(shapes(), g, m);
    // Stay at N, or go to the nearest that this shape has.
    const n = known.reduce((best, next) => (Math.abs(next - model.get("n")) < Math.abs(best - model.get("n")) ? next : best));
    ns.complain("");
    changeShape(m, n, g);
  });
  ns.control.addEventListener("input", () => {
    const n = Number(ns.control.value);
    const [m, g] = [model.get("m"), model.get("cta_group")];
    try {
      accumulatorOf(shapes(), m, n, g);
    } catch (error) {
      return ns.complain(error.message);
    }
    ns.complain("");
    return changeShape(m, n, g);
  });
  const byElement = () => {
    const [m, n] = [whole(row, one.m - 1, "m"), whole(column, one.n - 1, "n")];
    if (m !== null && n !== null) chooseElement(m, n);
  };
  for (const box of [row, column]) box.control.addEventListener("input", byElement);
  const byPlace = () => {
    const [l, c] = [whole(lane, LANES - 1, "lane"), whole(at, COLUMNS - 1, "column")];
    if (l !== null && c !== null) choose({ cta: Number(cta.control.value), lane: l, column: c });
  };
  cta.control.addEventListener("change", byPlace);
  for (const box of [lane, at]) box.control.addEventListener("input", byPlace);
  load.control.addEventListener("change", () => update(model, { repetitions: Number(load.control.value) }));
  const request = () => {
    const wanted = name.control.value.trim();
    if (!wanted) return name.complain("a name");
    if (held().some((a) => a.name === wanted)) return name.complain("this name is taken");
    name.complain("");
    const columns = Number(count.control.value);
    if (!Number.isInteger(columns) || columns < 1) return count.complain("a number of columns");
    count.complain("");
    const next = allocateColumns(held(), wanted, columns, model.get("smallest"));
    const first = holder()?.name ?? next.find((a) => a.state === "placed")?.name ?? "";
    update(model, { allocations: next, smallest: smallestOf(next, model.get("smallest")), holder: first });
    name.control.value = "";
    return name.control.focus();
  };
  ask.addEventListener("click", request);
  anew.addEventListener("click", () => {
    update(model, { allocations: [], smallest: COLUMNS, holder: "" });
    name.control.focus();
  });
  for (const box of [name, count]) box.control.addEventListener("keydown", (event) => event.key === "Enter" && request());
  const release = (which) => {
    const next = freeColumns(held(), which);
    const stays = model.get("holder") !== which && holder();
    update(model, { allocations: next, smallest: smallestOf(next, model.get("smallest")), holder: stays ? model.get("holder") : (next.find((a) => a.state === "placed")?.name ?? "") });
  };

  // ---- pictures ----
  const marks = () => ({ frame: el("div", { class: "cc-tm-frame", hidden: true }), mark: el("div", { class: "cc-tm-mark", hidden: true }) });
  /** A picture under the pointer and the arrow keys; `take(row, column)` says what was pointed at. */
  const picture = (kind, rows, columns, label, now, take) => {
    const node = el("div", { class: `cc-tm-picture cc-tm-picture-${kind}`, role: "application", tabindex: "0", "data-cc": kind, "aria-label": label });
    const clip = (part, most) => Math.max(0, Math.min(most - 1, Math.floor(part * most)));
    node.addEventListener("click", (event) => {
      const box = node.getBoundingClientRect();
      take(clip((event.clientY - box.top) / box.height, rows), clip((event.clientX - box.left) / box.width, columns));
    });
    node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return choose(null);
      const big = event.shiftKey ? 16 : 1;
      const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
      if (!step) return undefined;
      event.preventDefault();
      const [r, c] = now() ?? [0, 0];
      const first = now() === null;
      const go = (from, by, most) => Math.max(0, Math.min(most - 1, first ? 0 : from + by * big));
      return take(go(r, step[0], rows), go(c, step[1], columns));
    });
    const { frame, mark } = marks();
    return { node, frame, mark };
  };
  const put = (what, area, all) => {
    what.hidden = area === null;
    if (!area) return;
    const fresh = patch("", area, all);
    for (const side of ["top", "left", "height", "width"]) what.style[side] = fresh.style[side];
  };

  const drawC = () => {
    const all = [one.m, one.n];
    const pic = picture("c-picture", one.m, one.n, `C, ${one.m} by ${one.n}; arrow keys choose an element, with Shift by 16`, () => {
      const place = chosen();
      return place && elementAt(place);
    }, chooseElement);
    const px = [C_PX * Math.min(1, one.m / one.n), C_PX * Math.min(1, one.n / one.m)].map((side) => Math.max(side, 30));
    pic.node.style.width = `${px[1]}px`;
    pic.node.style.height = `${px[0]}px`;
    for (const block of blocks) {
      const [high, wide] = [(block.c[2] / one.m) * px[0], (block.c[3] / one.n) * px[1]];
      const text = wide >= 68 ? one.group === 2 ? `CTA ${block.cta} w${block.warp}` : `warp ${block.warp}` : `${block.cta}.${block.warp}`;
      pic.node.append(patch(hueClass(block), block.c, all, high >= 13 && wide >= 26 ? el("span", { "aria-hidden": "true", text }) : ""));
    }
    pic.node.append(pic.frame, pic.mark);
    cPanel.replaceChildren(el("h4", { text: `C, ${one.m} x ${one.n}` }), el("div", { class: "cc-tm-axes" }, el("span", { class: "cc-tm-axis", "aria-hidden": "true", text: "n →" }), pic.node), el("p", { class: "cc-muted cc-tm-note", text: "Each colour is the part that one warp loads." }));
    return pic;
  };

  const drawMemory = (v) => {
    const all = [LANES, COLUMNS];
    const from = start();
    const label = `Tensor memory of CTA ${v}, ${LANES} lanes by ${COLUMNS} columns; arrow keys choose a place, with Shift by 16`;
    const pic = picture("memory", LANES, COLUMNS, label, () => {
      const place = chosen();
      return place && place.cta === v ? [place.lane, place.column] : null;
    }, (l, c) => choose({ cta: v, lane: l, column: c }));
    pic.node.dataset.cta = v;
    const placed = held().filter((a) => a.state === "placed");
    for (const a of placed) pic.node.append(patch("cc-tm-allocated", [0, a.column, LANES, a.columns], all));
    for (const block of blocks.filter((b) => b.cta === v)) {
      const [top, left, high, wide] = block.memory;
      const shown = Math.min(wide, COLUMNS - from - left);
      if (shown > 0) pic.node.append(patch(hueClass(block), [top, from + left, high, shown], all, el("span", { "aria-hidden": "true", class: "cc-tm-warp", "data-columns": shown, text: `warp ${block.warp}` })));
    }
    for (let l = WARP_LANES; l < LANES; l += WARP_LANES) pic.node.append(patch("cc-tm-line", [l, 0, 0, COLUMNS], all));
    pic.node.append(pic.frame, pic.mark);
    const bars = placed.map((a) => {
      const bar = patch(`cc-tm-bar${a.name === model.get("holder") ? " cc-tm-holder" : ""}`, [0, a.column, 1, a.columns], [1, COLUMNS], el("span", { text: a.name }));
      bar.title = `${a.name}: columns ${a.column} to ${a.column + a.columns - 1}`;
      bar.dataset.cc = "bar";
      bar.dataset.name = a.name;
      return bar;
    });
    const ticks = [0, 128, 256, 384, 512].map((c) => {
      const tick = el("span", { text: c });
      tick.style.left = percentOf(c, COLUMNS);
      return tick;
    });
    const lanes = [0, 32, 64, 96].map((l) => {
      const tick = el("span", { text: l });
      tick.style.top = percentOf(l, LANES);
      return tick;
    });
    const box = el(
      "div",
      { class: "cc-tm-box" },
      el("div", { class: "cc-tm-bars", role: "img", "aria-label": placed.length ? placed.map((a) => `${a.name}: columns ${a.column} to ${a.column + a.columns - 1}`).join("; ") : "no column is allocated" }, bars),
      el("div", { class: "cc-tm-lanes", "aria-hidden": "true" }, lanes),
      pic.node,
      el("div", { class: "cc-tm-ticks", "aria-hidden": "true" }, ticks),
    );
    const who = one.group === 2 ? (v === 0 ? ", the leader" : ", its peer") : "";
    return { ...pic, section: [el("h4", { text: `Tensor memory of CTA ${v}${who}` }), box] };
  };

  /** Names of warps only where there is room for them. */
  const fit = () => {
    for (const text of mPanel.querySelectorAll(".cc-tm-warp")) {
      const wide = text.parentNode.getBoundingClientRect().width;
      if (wide) text.hidden = wide < LABEL_PX;
    }
    for (const bar of mPanel.querySelectorAll(".cc-tm-bar")) bar.firstChild.hidden = bar.getBoundingClientRect().width < 14;
  };

  const drawPictures = () => {
    one = accumulatorOf(shapes(), model.get("m"), model.get("n"), model.get("cta_group"));
    blocks = blocksOf(one);
    const focused = document.activeElement?.dataset?.cc;
    const which = document.activeElement?.dataset?.cta;
    const inside = root.contains(document.activeElement);
    const memory = Array.from({ length: one.group }, (_, v) => drawMemory(v));
    pictures = { c: drawC(), memory };
    mPanel.replaceChildren(...memory.flatMap(({ section }) => section));
    cta.control.replaceChildren(...memory.map((_, v) => el("option", { value: v, text: v })));
    if (inside && focused === "memory") (memory[Number(which)] ?? memory[0]).node.focus();
    if (inside && focused === "c-picture") pictures.c.node.focus();
    fit();
  };

  // ---- words ----
  const p = (...children) => el("p", {}, ...children);
  const b = (text_name, text) => el("b", { "data-cc": text_name, text });
  const sayPlace = (place) => {
    const found = elementAt(place);
    const mine = loadOf(place.lane, place.column - start(), model.get("repetitions"));
    const { warp } = mine;
    const where = [b("element", found ? `C[${found[0]}, ${found[1]}]` : "No element of C"), found ? " lies in CTA " : " lies at CTA ", b("at-cta", place.cta), ", lane ", b("at-lane", place.lane), ", column ", b("at-column", place.column)];
    const address = `0x${((place.lane << 16) | place.column).toString(16).padStart(8, "0")}`;
    const lines = [p(...where, ". Its address is ", el("code", { "data-cc": "address", text: address }), ", with the lane in the upper half.")];
    if (found) {
      const x = model.get("repetitions");
      const from = place.column - start() - mine.register;
      const other = one.element(place.cta, place.lane, from);
      const end = one.element(place.cta, place.lane, Math.min(from + x, one.columns) - 1);
      const over = from + x > one.columns ? ` The load reads ${x} columns, but C has only ${one.columns - from} here. The other registers get what lies behind C, and columns that are not allocated must not be read.` : "";
      lines.push(
        p("Warp ", b("warp", warp), " loads it. Thread ", b("thread", mine.thread), " (lane ", mine.lane, " of the warp) gets it with load ", b("load", mine.load), " of ", Math.ceil(one.columns / x), ", in register ", b("register", `r${mine.register}`), `. With this load the thread gets C[${other[0]}, ${other[1]}]${end[1] === other[1] ? "" : ` to C[${end[0]}, ${end[1]}]`}.${over}`),
      );
    }
    lines.push(p("A warp reaches only 32 lanes. Lanes ", b("reach", span(warp * WARP_LANES, WARP_LANES)), ` belong to the warps ${warp}, ${warp + 4}, ... (${warp} modulo 4).`));
    return lines;
  };
  const tell = () => {
    const place = chosen();
    state.replaceChildren(...(place ? sayPlace(place) : [p("Choose an element of C or a place in tensor memory: click, use the arrow keys, or type numbers above.")]));
    const own = holder();
    const end = start() + one.columns;
    const wrong = [];
    if (!own) wrong.push("No allocation holds the accumulator, so the MMA would write columns that nobody allocated. The picture puts it at column 0.");
    else if (own.columns < one.columns) wrong.push(`The accumulator takes ${one.columns} columns, and ${own.name} has ${own.columns}: columns ${own.column + own.columns} to ${Math.min(end, COLUMNS) - 1} belong to somebody else.`);
    if (end > COLUMNS) wrong.push(`The accumulator would end at column ${end}; there are ${COLUMNS}.`);
    const laneCount = new Set(blocks.filter((x) => x.cta === 0).flatMap(({ memory: [top, , high] }) => Array.from({ length: high }, (_, i) => top + i))).size;
    const half = laneCount < LANES ? [p("Only ", b("lanes-each", laneCount / 4), " of each warp's 32 lanes hold C. A 32x32b load would give the other threads values that no MMA wrote, so CuTe's make_tmem_copy refuses it here.")] : [];
    told.replaceChildren(
      el("h5", { text: "The accumulator" }),
      ...wrong.map((text) => p(el("span", { class: "cc-no", text: "✗ " }), el("span", { "data-cc": "problem", text }))),
      p(one.group === 2 ? "Each CTA holds " : "The CTA holds ", b("rows", one.rows), ` rows of C in ${one.columns} columns. The layout is `, el("code", { "data-cc": "layout", text: one.notation }), "; a step of 65536 leads to the next lane."),
      one.operation ? p("The operation is ", el("code", { "data-cc": "operation", text: one.operation }), ".") : p(el("span", { "data-cc": "operation", text: "CuTe has this layout, but neither of the library's two operations has M = 64 over two CTAs." })),
      ...half,
      one.group === 2 ? p("An allocation for a pair takes the same columns in both CTAs.") : "",
    );
  };
  const drawList = () => {
    const reason = (a) =>
      a.state === "placed" ? `columns ${a.column} to ${a.column + a.columns - 1}` : a.state === "waits" ? "waits until that many neighbouring columns are free" : `refused: ${a.why}`;
    const items = held().map((a) => {
      const drop = el("button", { type: "button", class: "cc-quiet", "data-cc": "free", "data-name": a.name, "aria-label": `${a.state === "placed" ? "Free" : "Withdraw"} ${a.name}`, text: a.state === "placed" ? "Free" : "Withdraw" });
      drop.addEventListener("click", () => {
        release(a.name);
        name.control.focus();
      });
      const here = el("button", { type: "button", class: "cc-quiet", "data-cc": "hold", "data-name": a.name, "aria-pressed": String(a.name === model.get("holder")), "aria-label": `The accumulator lies in ${a.name}`, text: "C here" });
      here.addEventListener("click", () => {
        update(model, { holder: a.name });
        list.querySelector(`[data-cc="hold"][data-name="${CSS.escape(a.name)}"]`)?.focus();
      });
      return el("li", { "data-cc": "allocation", "data-name": a.name, "data-state": a.state }, el("span", {}, el("span", { class: a.state === "placed" ? "cc-yes" : "cc-no", "aria-hidden": "true", text: a.state === "placed" ? "✓ " : a.state === "waits" ? "… " : "✗ " }), el("b", { text: a.name }), ` ${a.columns}: `, el("span", { "data-cc": "what", text: reason(a) })), el("span", { class: "cc-tm-buttons" }, a.state === "placed" ? here : "", drop));
    });
    const free = COLUMNS - held().filter((a) => a.state === "placed").reduce((sum, a) => sum + a.columns, 0);
    list.replaceChildren(...items, el("li", { class: "cc-muted" }, el("span", {}, el("b", { "data-cc": "free-columns", text: free }), ` of ${COLUMNS} columns are free; the next allocation may take up to `, el("b", { "data-cc": "smallest", text: smallestOf(held(), model.get("smallest")) }), ".")));
    if (!count.control.value) count.control.value = LEAST_COLUMNS;
  };

  const light = () => {
    const place = chosen();
    const found = place && elementAt(place);
    const mine = place && loadOf(place.lane, place.column - start(), model.get("repetitions"));
    put(pictures.c.mark, found && [found[0], found[1], 1, 1], [one.m, one.n]);
    const block = found && blocks.find((x) => x.cta === place.cta && x.warp === mine.warp);
    put(pictures.c.frame, block ? block.c : null, [one.m, one.n]);
    for (const [v, pic] of pictures.memory.entries()) {
      const here = place && place.cta === v;
      put(pic.mark, here ? [place.lane, place.column, 1, 1] : null, [LANES, COLUMNS]);
      // What the load reads: the warp's 32 lanes, as many columns as it has repetitions.
      const from = here && found ? place.column - mine.register : 0;
      put(pic.frame, here && found ? [mine.warp * WARP_LANES, from, WARP_LANES, Math.min(model.get("repetitions"), COLUMNS - from)] : null, [LANES, COLUMNS]);
    }
    const active = document.activeElement;
    const fill = (box, value) => {
      if (active === box.control && box.control.getAttribute("aria-invalid") === "true") return;
      if (active !== box.control || Number(box.control.value) !== value) box.control.value = value ?? "";
      box.complain("");
    };
    fill(row, found ? found[0] : null);
    fill(column, found ? found[1] : null);
    fill(lane, place ? place.lane : null);
    fill(at, place ? place.column : null);
    if (place) cta.control.value = place.cta;
  };

  const draw = () => {
    if (quiet) return;
    const key = JSON.stringify([model.get("m"), model.get("n"), model.get("cta_group"), held(), model.get("holder")]);
    try {
      if (key !== drawn) drawPictures();
    } catch (error) {
      ns.complain(error.message);
      return;
    }
    const fresh = key !== drawn;
    drawn = key;
    shape.control.value = `${one.group},${one.m}`;
    if (document.activeElement !== ns.control || Number(ns.control.value) !== one.n) ns.control.value = one.n;
    row.control.max = one.m - 1;
    column.control.max = one.n - 1;
    load.control.value = model.get("repetitions");
    if (fresh) drawList();
    light();
    tell();
  };

  const watch = new ResizeObserver(fit);
  watch.observe(mPanel);
  const stop = follow(model, ["m", "n", "cta_group", "allocations", "holder", "repetitions", "selected"], draw);
  return () => {
    watch.disconnect();
    stop();
  };
}

// For tests: the arithmetic without the picture.
export const _math = { accumulatorOf, allocateColumns, blocksOf, freeColumns, loadOf, nsOf, smallestOf };
export default { render };
