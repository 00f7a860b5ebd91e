// The roles of a pair over time, with who holds each of its accumulators after each step.
import { el, follow, uid, update } from "./dom.js";
import { stepper } from "./stepper.js";
import { draw } from "./svg.js";

const [ROW, WIDE] = [26, 1000]; // units of the picture, which is stretched to the page's width

/** Where a time stands, from 0 to 1, between the first and the last of the spans. */
function position(pair, time) {
  const first = Math.min(...pair.spans.map((one) => one[3]));
  const last = Math.max(...pair.spans.map((one) => one[4]));
  return (time - first) / Math.max(1, last - first);
}

/** Who holds an accumulator, in words. */
function holder(pair, name, tile) {
  if (tile === null) return pair.states[name];
  return name === "free" ? `free: all warps have loaded tile ${tile}` : `${pair.states[name]}, tile ${tile}`;
}

/** The step whose time is next to a place between 0 and 1. */
function nearest(pair, share) {
  const far = (step) => Math.abs(position(pair, step.time) - share);
  return pair.steps.reduce((best, step, number) => (far(step) < far(pair.steps[best]) ? number : best), 0);
}

function render({ model, el: host }) {
  const id = uid("roles");
  const title = el("p", { class: "cc-muted cc-timeline-title", "data-cc": "title" });
  const tiles = el("div", { class: "cc-stage-acts", role: "group", "aria-label": "Go to the first MMA of a tile", "data-cc": "tiles" });
  const said = el("p", { "data-cc": "words" });
  const where = el("p", { class: "cc-muted cc-where", "data-cc": "where" });
  const state = el("div", { class: "cc-state cc-roles-state", "data-cc": "state", "aria-live": "polite" }, where, said);
  const board = el("div", { class: "cc-roles-board", tabindex: 0, role: "group", "data-cc": "board", "aria-label": "Roles over time; left and right arrows step, page up and page down change the role" });
  const held = el("div", { class: "cc-roles-held", "data-cc": "held" });
  let pair = null;
  let parts = null; // the nodes that change
  const place = () => Math.max(0, Math.min(pair.steps.length - 1, model.get("selected")));
  const walk = stepper({ count: () => pair.steps.length, place, go: (to) => update(model, { selected: to }), part: (number) => pair.steps[number].role });
  host.append(
    el(
      "section",
      { class: "cc-widget cc-roles", "data-cc": "roles", "aria-label": "The roles of a pair over time, and its accumulators", "data-lm-suppress-shortcuts": "true" },
      el("div", { class: "cc-controls" }, title),
      tiles,
      walk.nav,
      state,
      board,
      held,
    ),
  );

  const drawRow = ([role, text]) => {
    const bars = pair.spans
      .filter((span) => span[0] === role)
      .map(([, tile, acc, start, end]) => {
        const [left, right] = [position(pair, start), position(pair, end)].map((share) => share * WIDE);
        // Two accumulators in one row, one above the other: a tile's bar never hides the next one's.
        const [y, high] = pair.accumulators.length > 1 ? [2 + (acc * ROW) / pair.accumulators.length, ROW / pair.accumulators.length - 3] : [2, ROW - 4];
        return draw("rect", { x: left, y, width: Math.max(4, right - left), height: high, class: `cc-roles-bar cc-roles-acc${acc % 4}`, "data-cc": "bar", "data-role": role, "data-tile": tile });
      });
    const numbers = pair.spans
      .filter((span) => span[0] === role)
      .map(([, tile, acc, start]) => {
        const label = el("span", { class: "cc-roles-tile", text: tile, "aria-hidden": "true" });
        label.style.left = `${100 * position(pair, start)}%`;
        label.style.top = pair.accumulators.length > 1 ? `${(50 * acc * 2) / pair.accumulators.length}%` : "0";
        return label;
      });
    const cursor = draw("line", { y1: 0, y2: ROW, class: "cc-cursor", "vector-effect": "non-scaling-stroke" });
    parts.cursors.push(cursor);
    const plot = draw("svg", { viewBox: `0 0 ${WIDE} ${ROW}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...bars, cursor);
    return el("div", { class: "cc-roles-row" }, el("span", { class: "cc-roles-name", text }), el("div", { class: "cc-roles-plot", "data-cc": "plot" }, plot, numbers));
  };

  const drawAccumulator = ([first, behind], number) => {
    const now = el("b", { "data-cc": "holder", "data-acc": number });
    const many = new Set(pair.warps.map(([rank]) => rank)).size;
    const warps = pair.warps.map(([rank, warp], at) => {
      const box = el("span", { class: "cc-roles-warp", "data-cc": "warp", "data-acc": number, "data-warp": at, text: many > 1 ? `${rank}.${warp}` : warp });
      parts.warps.push({ box, number, at, name: `warp ${warp} of CTA ${rank}` });
      return box;
    });
    const card = el(
      "div",
      { class: `cc-roles-card cc-roles-acc${number % 4}`, "data-cc": "accumulator", "data-acc": number },
      el("h4", {}, `accumulator ${number}`, el("small", { text: ` columns ${first} to ${behind - 1}` })),
      el("p", {}, now),
      el("div", { class: "cc-roles-warps" }, warps),
      el("small", { class: "cc-muted", text: many > 1 ? "warps that have loaded their sums, as CTA.warp" : "warps that have loaded their sums" }),
    );
    parts.cards.push({ card, now });
    return card;
  };

  const select = () => {
    if (!pair) return;
    const at = place();
    const event = pair.steps[at];
    for (const cursor of parts.cursors) {
      const x = position(pair, event.time) * WIDE;
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
    }
    parts.cards.forEach(({ card, now }, number) => {
      const [name, tile] = event.holds[number];
      card.dataset.state = name;
      now.textContent = holder(pair, name, tile);
      card.classList.toggle("cc-now", event.accumulator === number && event.role !== "load" && event.role !== "store");
    });
    for (const { box, number, at: bit, name } of parts.warps) {
      const [, tile, loaded] = event.holds[number];
      const done = tile !== null && Boolean((loaded >> bit) & 1);
      box.dataset.loaded = done;
      box.setAttribute("aria-label", `${name}: ${done ? "has loaded" : "has not loaded"}`);
      box.setAttribute("role", "img");
    }
    for (const { button, tile } of parts.tiles) button.setAttribute("aria-pressed", tile === event.tile ? "true" : "false");
    where.textContent = [pair.roles.find(([role]) => role === event.role)[1], `tile ${event.tile}`, `step ${event.time} of the emulator`].join(" \u00b7 ");
    said.textContent = event.words;
    walk.show(at, event.words);
  };

  const drawAll = () => {
    pair = model.get("pair");
    parts = { cursors: [], cards: [], warps: [], tiles: [] };
    const size = (extents) => extents.join("\u00d7");
    title.textContent = `${pair.kernel || "a kernel"} on the ${pair.where}: grid ${size(pair.grid)}, cluster ${size(pair.cluster)}, seed ${pair.seed}; cluster ${pair.pair}, ${pair.tiles} of its ${pair.of_tiles} tiles`;
    board.replaceChildren(...pair.roles.map(drawRow));
    held.replaceChildren(...pair.accumulators.map(drawAccumulator));
    parts.tiles = Array.from({ length: pair.tiles }, (_, tile) => {
      const first = pair.steps.findIndex((one) => one.role === "multiply" && one.tile === tile);
      const button = el("button", { class: "cc-quiet", id: `${id}-${tile}`, "data-cc": "tile", "data-tile": tile, text: `tile ${tile}`, onclick: () => walk.go(first) });
      return { button, tile };
    });
    tiles.replaceChildren(...parts.tiles.map(({ button }) => button));
    select();
  };

  board.addEventListener("click", (event) => {
    const plot = event.target.closest("[data-cc=plot]");
    if (!plot) return;
    const { left, width } = plot.getBoundingClientRect();
    walk.go(nearest(pair, (event.clientX - left) / width));
  });
  walk.listen(board);
  const stops = [follow(model, ["pair"], drawAll), follow(model, ["selected"], select)];
  return () => stops.forEach((stop) => stop());
}

export const _math = { position, nearest };
export default { render };
