// A cluster of CTAs and the multicast masks of the one that is chosen: who sends which slice of a tile to whom.
import { el, field, follow, roving, update } from "./dom.js";
import { MAX_CTAS, checkCluster, clusterLayout, describe, flatCoord, hex, multicastMask, rankAt, ranksOf, sharing } from "./masks.js";
import { flatten, formatLayout, formatTuple, parseTuple } from "./notation.js";
import { draw } from "./svg.js";

const NAMES = { A: "A", B: "B", C: "commit" };
const ALONG = { A: "along N, mode 2", B: "along M, mode 1", C: "modes 0,1 and 0,2" };
const defaultTile = (v) => [128 * v, 256, 64];

/** "CTA 3", "CTAs 1 and 2", "CTAs 1, 2 and 3". */
function ctas(ranks) {
  if (ranks.length === 1) return `CTA ${ranks[0]}`;
  return `CTAs ${ranks.slice(0, -1).join(", ")} and ${ranks.at(-1)}`;
}

/**
 * The buses between boxes: one line along the row (in the gap above it) or along the column (in the gap on
 * its left), a stub from the sender, an arrow into each receiver. `box(rank)` is { left, top, width, height }.
 */
function buses(letter, rank, ranks, rows, box) {
  const paths = [];
  const heads = [];
  const at = box(rank);
  if (ranks.length < 2) return { paths, heads };
  const gap = 9;
  const across = (line) => {
    const boxes = line.map(box);
    const y = boxes[0].top - gap;
    const xs = boxes.map((b) => b.left + b.width * 0.62);
    for (const [i, b] of boxes.entries()) {
      paths.push(`M${xs[i]} ${y}V${b.top - 2}`);
      heads.push(`M${xs[i] - 4} ${b.top - 6}L${xs[i]} ${b.top - 1}L${xs[i] + 4} ${b.top - 6}Z`);
    }
    return { y, from: Math.min(...xs), to: Math.max(...xs) };
  };
  const down = (line) => {
    const boxes = line.map(box);
    const x = boxes[0].left - gap;
    const ys = boxes.map((b) => b.top + b.height * 0.62);
    for (const [i, b] of boxes.entries()) {
      paths.push(`M${x} ${ys[i]}H${b.left - 2}`);
      heads.push(`M${b.left - 6} ${ys[i] - 4}L${b.left - 1} ${ys[i]}L${b.left - 6} ${ys[i] + 4}Z`);
    }
    return { x, from: Math.min(...ys), to: Math.max(...ys) };
  };
  const start = [at.left + at.width * 0.3, at.top + at.height * 0.3];
  if (letter === "A") {
    const bus = across(ranks);
    paths.push(`M${start[0]} ${at.top}V${bus.y}`, `M${Math.min(bus.from, start[0])} ${bus.y}H${Math.max(bus.to, start[0])}`);
    return { paths, heads, dot: [start[0], at.top] };
  }
  if (letter === "B") {
    const bus = down(ranks);
    paths.push(`M${at.left} ${start[1]}H${bus.x}`, `M${bus.x} ${Math.min(bus.from, start[1])}V${Math.max(bus.to, start[1])}`);
    return { paths, heads, dot: [at.left, start[1]] };
  }
  const column = Math.floor(rank / rows);
  const mine = ranks.filter((r) => Math.floor(r / rows) === column);
  const bus = down(mine);
  let [top, bottom] = [Math.min(bus.from, start[1]), Math.max(bus.to, start[1])];
  for (let row = 0; row < rows; row += 1) {
    const line = ranks.filter((r) => r % rows === row && Math.floor(r / rows) !== column);
    if (!line.length) continue;
    const over = across(line);
    paths.push(`M${Math.min(over.from, bus.x)} ${over.y}H${Math.max(over.to, bus.x)}`);
    [top, bottom] = [Math.min(top, over.y), Math.max(bottom, over.y)];
  }
  paths.push(`M${at.left} ${start[1]}H${bus.x}`, `M${bus.x} ${top}V${bottom}`);
  return { paths, heads, dot: [at.left, start[1]] };
}

function render({ model, el: host }) {
  const m = field("Cluster M", el("input", { type: "number", min: 1, max: MAX_CTAS, step: 1, "data-cc": "cluster-m" }), "5em");
  const n = field("Cluster N", el("input", { type: "number", min: 1, max: MAX_CTAS, step: 1, "data-cc": "cluster-n" }), "5em");
  const sms = field("SMs per MMA (ThrID)", el("select", { "data-cc": "thr-id" }, el("option", { value: "1", text: "one, 1:0" }), el("option", { value: "2", text: "two, 2:1" })));
  const tile = field("MMA tile (M,N,K)", el("input", { type: "text", "data-cc": "tile", spellcheck: "false", autocomplete: "off" }), "10em");
  const notation = el("code", { "data-cc": "layout" });
  const board = el("div", { class: "cc-cluster-board" });
  const picture = el("h4", {});
  const bits = el("div", { class: "cc-masks", role: "group", "aria-label": "Masks of the chosen CTA" });
  const strip = el("div", { class: "cc-strip", "data-cc": "strip", role: "img" });
  const stripTitle = el("h4", { "data-cc": "strip-title" });
  const stripBox = el("div", { class: "cc-strip-box" }, stripTitle, strip);
  const state = el("div", { class: "cc-state", "data-cc": "state", "aria-live": "polite" });
  const root = el(
    "section",
    { class: "cc-widget cc-cluster", "data-cc": "cluster-masks", "aria-label": "Multicast masks of a cluster", "data-lm-suppress-shortcuts": "true" },
    el("div", { class: "cc-controls" }, m.box, n.box, sms.box, tile.box),
    el("p", { class: "cc-cluster-layout" }, el("span", { class: "cc-muted", text: "cluster_layout_vmnk = " }), notation),
    el(
      "div",
      { class: "cc-panels" },
      el("section", { class: "cc-panel cc-cluster-left" }, picture, el("div", { class: "cc-scroll" }, board)),
      el("section", { class: "cc-panel cc-cluster-right" }, el("h4", { text: "The masks, bit r for the CTA of rank r" }), bits, stripBox),
    ),
    state,
  );
  host.append(root);

  let cells = [];
  let overlay = null;
  let drawn = "";

  const now = () => ({ cluster: model.get("cluster"), v: model.get("thr_id"), cta: model.get("cta"), tile: model.get("tile"), bits: model.get("bits") });

  const drawBoard = ({ cluster: [rows, columns], v }) => {
    const layout = clusterLayout([rows, columns], v);
    cells = [];
    const grid = el("div", { role: "grid", class: "cc-ctas", "data-cc": "ctas", "aria-label": `Cluster of ${rows} by ${columns} CTAs: M goes down, N across` });
    grid.style.gridTemplateColumns = `max-content repeat(${columns}, var(--cc-cta-wide))`;
    const head = el("div", { role: "row", class: "cc-row" }, el("span", { role: "columnheader", class: "cc-axis", text: "m\\n", "aria-label": "M goes down, N across" }));
    for (let c = 0; c < columns; c += 1) head.append(el("span", { role: "columnheader", class: "cc-axis", text: c }));
    grid.append(head);
    const lines = [];
    for (let r = 0; r < rows; r += 1) {
      const name = v === 2 ? `${Math.floor(r / 2)}, v${r % 2}` : String(r);
      const line = el("div", { role: "row", class: "cc-row" }, el("span", { role: "rowheader", class: "cc-axis", text: name }));
      lines.push([]);
      for (let c = 0; c < columns; c += 1) {
        const rank = r + rows * c;
        const cell = el(
          "div",
          { role: "gridcell", class: `cc-cta${v === 2 ? ` cc-pair-${r % 2}` : ""}`, "data-cc": "cta", "data-rank": rank, "data-crd": flatCoord(layout, rank).join(",") },
          el("b", { text: rank }),
          el("small", { text: `(${flatCoord(layout, rank).join(",")})` }),
          el("span", { class: "cc-cta-tile", "aria-hidden": "true" }),
        );
        cells[rank] = cell;
        lines[r].push(cell);
        line.append(cell);
      }
      grid.append(line);
    }
    overlay = draw("svg", { class: "cc-cluster-arrows", "aria-hidden": "true" });
    board.replaceChildren(grid, overlay);
    const walk = roving(grid, lines);
    walk.hold(cells[model.get("cta")]);
    grid.addEventListener("focusin", (event) => {
      const cell = event.target.closest(".cc-cta");
      if (cell) update(model, { cta: Number(cell.dataset.rank) });
    });
    grid.addEventListener("click", (event) => event.target.closest(".cc-cta")?.focus());
  };

  const drawArrows = () => {
    if (!overlay) return;
    const { cluster, v, cta } = now();
    const shown = model.get("shown");
    overlay.replaceChildren();
    overlay.setAttribute("width", board.firstChild.offsetWidth);
    overlay.setAttribute("height", board.firstChild.offsetHeight);
    let about;
    try {
      about = describe(cluster, v, cta, model.get("tile"), model.get("bits"));
    } catch {
      return;
    }
    const box = (rank) => ({ left: cells[rank].offsetLeft, top: cells[rank].offsetTop, width: cells[rank].offsetWidth, height: cells[rank].offsetHeight });
    if (shown === "C" && about.leader !== cta) return; // the peer commits nothing
    const { paths, heads, dot } = buses(shown, cta, ranksOf(about.masks[shown]), cluster[0], box);
    overlay.append(...paths.map((d) => draw("path", { d, class: "cc-bus" })), ...heads.map((d) => draw("path", { d, class: "cc-bus-head" })));
    if (dot) overlay.append(draw("circle", { cx: dot[0], cy: dot[1], r: 4, class: "cc-bus-head" }));
  };

  const drawBits = (about) => {
    const { cluster } = now();
    const count = cluster[0] * cluster[1];
    const order = Array.from({ length: MAX_CTAS }, (_, i) => MAX_CTAS - 1 - i);
    const held = document.activeElement?.dataset?.cc === "show" ? document.activeElement.dataset.letter : null;
    bits.replaceChildren(
      el("div", { class: "cc-bits cc-bit-numbers", "aria-hidden": "true" }, order.map((bit) => el("span", { text: bit }))),
      ...Object.keys(NAMES).map((letter) => {
        const mask = about.masks[letter];
        const pressed = model.get("shown") === letter;
        return el(
          "div",
          { class: pressed ? "cc-mask cc-shown" : "cc-mask" },
          el("button", { class: "cc-quiet", "data-cc": "show", "data-letter": letter, "aria-pressed": String(pressed), text: NAMES[letter], onclick: () => update(model, { shown: letter }) }),
          el("span", { class: "cc-muted cc-mask-along", text: ALONG[letter] }),
          el("code", { "data-cc": "mask", "data-letter": letter, text: hex(mask) }),
          el(
            "div",
            { class: "cc-bits", role: "img", "aria-label": `bits ${ranksOf(mask).join(", ")}` },
            order.map((bit) => el("span", { class: bit >= count ? "cc-bit cc-none" : (mask >> bit) & 1 ? "cc-bit cc-one" : "cc-bit", "data-cc": "bit", "data-bit": bit, text: bit >= count ? "·" : (mask >> bit) & 1 })),
          ),
        );
      }),
    );
    if (held) bits.querySelector(`[data-letter="${held}"]`)?.focus();
  };

  const drawTiles = (about) => {
    const { cluster, v, cta } = now();
    const shown = model.get("shown");
    const layout = clusterLayout(cluster, v);
    const mask = about.masks[shown];
    for (const [rank, cell] of cells.entries()) {
      const inside = Boolean((mask >> rank) & 1);
      const crd = flatCoord(layout, rank);
      cell.classList.toggle("cc-inside", inside);
      cell.classList.toggle("cc-chosen", rank === cta);
      cell.setAttribute("aria-selected", String(rank === cta));
      cell.dataset.inside = inside ? "yes" : "no";
      const bar = cell.lastChild;
      const what = shown === "C" ? "" : `, loads slice ${crd[shown === "A" ? 2 : 1]}`;
      cell.setAttribute("aria-label", `CTA ${rank}, (v,m,n,k) ${formatTuple(crd)}${rank === cta ? ", chosen" : ""}${inside ? ", in the mask" : ", not in the mask"}${what}`);
      if (shown === "C") {
        bar.replaceChildren(el("span", { class: "cc-cta-mark", text: inside ? "✓ arrives" : "" }));
        continue;
      }
      const { slices } = about.parts[shown];
      const own = crd[shown === "A" ? 2 : 1];
      bar.replaceChildren(
        ...Array.from({ length: slices }, (_, i) => {
          const lit = inside && i === about.slice[shown];
          return el("span", { class: `cc-slice cc-hue-${i % 8}${i === own ? " cc-own" : ""}${lit ? " cc-lit" : ""}`, text: slices <= 4 || i === own ? i : "" });
        }),
      );
    }
    stripBox.hidden = shown === "C";
    if (shown === "C") return;
    const part = about.parts[shown];
    const from = about.sources[shown];
    const half = v === 2 ? `, its half of the pair's ${shown === "A" ? "M" : "N"}` : "";
    stripTitle.textContent = `${shown} in CTA ${cta}: ${part.rows}×${part.columns} ${model.get("dtype")}, ${part.bytes} bytes${half}`;
    strip.setAttribute("aria-label", from.map((rank, i) => `slice ${i} from CTA ${rank}`).join(", "));
    strip.classList.toggle("cc-many", part.slices > 8);
    strip.replaceChildren(
      ...from.map((rank, i) =>
        el(
          "span",
          { class: `cc-slice cc-hue-${i % 8}${rank === cta ? " cc-own cc-lit" : ""}`, "data-cc": "slice", "data-slice": i, "data-from": rank },
          el("b", { text: i }),
          el("small", { text: part.slices > 8 ? rank : `CTA ${rank}` }),
        ),
      ),
    );
  };

  const b = (name, text) => el("b", { "data-cc": name, text });

  const sentences = (about) => {
    const { cluster, v, cta } = now();
    const shown = model.get("shown");
    const first = el("p", {}, "CTA ", b("rank", cta), ` of ${cluster[0] * cluster[1]} is `, el("code", { text: "(v,m,n,k) = " }), b("crd", formatTuple(about.crd)), ". ");
    if (v === 2) first.append(cta === about.leader ? `It leads the pair with CTA ${cta + 1} and issues the MMA for both.` : `CTA ${about.leader} leads the pair and issues the MMA for both.`);
    const lines = [first];
    if (shown === "C") {
      const ranks = ranksOf(about.masks.C);
      lines.push(
        about.leader === cta
          ? el("p", {}, "When its MMA has read A and B, the commit arrives at the barrier of ", b("receivers", ctas(ranks)), `: whoever sends this CTA${v === 2 ? " or its peer" : ""} a slice may then overwrite it.`)
          : el("p", {}, "The mask is computed here too, but this CTA issues no MMA and commits nothing; CTA ", b("leader", about.leader), " does, with the same mask."),
        el("p", {}, "At its own barrier arrive ", b("arrivals", about.arrivals.length), ` commits, from ${ctas(about.arrivals)}: M-CTAs + N-CTAs - 1 = ${flatten(clusterLayout(cluster, v).shape)[1]} + ${cluster[1]} - 1.`),
      );
    } else {
      const part = about.parts[shown];
      const others = ranksOf(about.masks[shown]).filter((r) => r !== cta);
      const bytes = `${part.slice_elements} elements, ${part.slice_bytes} bytes`;
      lines.push(
        others.length
          ? el("p", {}, `Of ${shown} it loads slice `, b("slice", about.slice[shown]), ` of ${part.slices}, numbered from 0 (${bytes}, from element `, b("slice-offset", about.slice[shown] * part.slice_elements), "), and sends it to ", b("receivers", ctas(others)), " and to itself, to the same place in each.")
          : el("p", {}, `No other CTA needs this part of ${shown}: it loads all of it (${bytes}), and the mask has its own bit only.`),
      );
      if (others.length)
        lines.push(el("p", {}, `It gets ${about.sources[shown].map((rank, i) => [rank, i]).filter(([rank]) => rank !== cta).map(([rank, i]) => `slice ${i} from CTA ${rank}`).join(", ")}.`));
    }
    const { A, B } = about.parts;
    const parts = `A ${A.slices} × ${A.slice_bytes} = ${A.bytes}, B ${B.slices} × ${B.slice_bytes} = ${B.bytes}`;
    lines.push(
      cta === about.leader
        ? el("p", {}, "Its barrier expects ", b("expected", about.expected_bytes), v === 2 ? ` bytes per k-tile: twice (${parts}), what lands in its peer counted here too.` : ` bytes for each k-tile: ${parts}.`)
        : el("p", {}, "Its own barrier expects ", b("expected", 0), ` bytes: what lands here (${parts}) is counted at the barrier of CTA ${about.leader}.`),
    );
    state.replaceChildren(...lines);
  };

  const drawAll = () => {
    const { cluster, v, cta, tile: cut } = now();
    let about;
    try {
      about = describe(cluster, v, cta, cut, model.get("bits"));
    } catch (error) {
      m.complain(error.message);
      return;
    }
    for (const one of [m, n, sms, tile]) one.complain("");
    const active = document.activeElement;
    if (active !== m.control) m.control.value = cluster[0];
    if (active !== n.control) n.control.value = cluster[1];
    if (active !== tile.control) tile.control.value = formatTuple(cut);
    sms.control.value = v;
    notation.textContent = formatLayout(clusterLayout(cluster, v));
    const key = `${cluster} ${v}`;
    if (drawn !== key) drawBoard(now());
    drawn = key;
    const shown = model.get("shown");
    picture.textContent = shown === "C" ? `Where CTA ${cta}'s commit arrives` : `Who shares ${shown} with CTA ${cta}; each tile cut into slices`;
    drawTiles(about);
    drawBits(about);
    sentences(about);
    drawArrows();
  };

  const change = (at, changes) => {
    const next = { cluster: model.get("cluster"), thr_id: model.get("thr_id"), tile: model.get("tile"), ...changes };
    try {
      checkCluster(next.cluster, next.thr_id);
      // A default tile follows the number of SMs.
      if (changes.thr_id && formatTuple(next.tile) === formatTuple(defaultTile(model.get("thr_id")))) next.tile = defaultTile(changes.thr_id);
      sharing(next.cluster, next.thr_id, next.tile, model.get("bits"));
    } catch (error) {
      at.complain(error.message);
      if (at === sms) sms.control.value = model.get("thr_id");
      return;
    }
    at.complain("");
    // Stay at the same CTA where there is one.
    update(model, { cta: Math.min(model.get("cta"), next.cluster[0] * next.cluster[1] - 1), ...next });
  };
  const extent = (control) => (control.value.trim() === "" ? NaN : Number(control.value));
  m.control.addEventListener("input", () => change(m, { cluster: [extent(m.control), model.get("cluster")[1]] }));
  n.control.addEventListener("input", () => change(n, { cluster: [model.get("cluster")[0], extent(n.control)] }));
  sms.control.addEventListener("change", () => change(sms, { thr_id: Number(sms.control.value) }));
  tile.control.addEventListener("input", () => {
    let cut;
    try {
      cut = parseTuple(tile.control.value, "tile");
    } catch (error) {
      return tile.complain(error.message);
    }
    change(tile, { tile: Array.isArray(cut) ? cut.flat() : [cut] });
  });

  const watch = new ResizeObserver(drawArrows);
  watch.observe(board);
  const stop = follow(model, ["cluster", "thr_id", "cta", "tile", "shown"], drawAll);
  return () => {
    watch.disconnect();
    stop();
  };
}

export const _math = { clusterLayout, describe, flatCoord, formatLayout, hex, multicastMask, rankAt, ranksOf };
export default { render };
