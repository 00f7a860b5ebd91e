// All states of two threads and their mbarriers: time to the right, one thread's actions up, the other's down.
import { el, field, follow, uid, update, words } from "./dom.js";
import { draw } from "./svg.js";

const STATE_STEP = 18; // units from a state to the next, to the right, and up or down
const GOALS = [["deadlock", "a deadlock"], ["race", "a race"], ["end", "the end"]];
const STATE_MARKS = { deadlock: "M-4 -4L4 4M-4 4L4 -4", race: "M0 -5V1M0 4V4.5", end: "M-4 0L-1 3.5L4 -3.5" };
const DIAMOND = "M0 -9L9 0L0 9L-9 0Z";
const WALK_ICONS = { first: "M-4 -5V5M5 -5L-2 0L5 5Z", back: "M4 -5L-4 0L4 5Z", on: "M-4 -5L4 0L-4 5Z" };

/** The states on a way from the first one, as far as it can be gone. */
function statesOn(states, way) {
  const found = [0];
  for (const digit of way) {
    const after = states[found.at(-1)].to[digit];
    if (!(after >= 0)) break;
    found.push(after);
  }
  return found;
}

/** A shortest way from one state to the nearest for which `fits` is true; null if no order leads there. */
function wayFrom(states, from, fits) {
  const ways = new Map([[from, ""]]);
  for (const [at, way] of ways) {
    if (fits(states[at], at)) return way;
    states[at].to.forEach((after, thread) => {
      if (after >= 0 && !ways.has(after)) ways.set(after, way + thread);
    });
  }
  return null;
}

/** The next action of each thread with its number in the whole list, or null at its end. */
function nextActions(graph, variant, state) {
  return graph.threads.map(({ actions }, thread) => {
    const lacks = variant.removed?.[0] === thread && variant.removed[1] <= state.at[thread];
    const number = state.at[thread] + (lacks ? 1 : 0);
    return number < actions.length ? { ...actions[number], number } : null;
  });
}

/** Why a thread's wait does not pass. */
function whyStuck(graph, state, action) {
  const [phase] = state.barriers[action.where];
  const { name } = graph.barriers[action.where];
  const now = `it asks for parity ${action.parity}, and ${name} is in phase ${phase}, whose parity is ${phase % 2}`;
  if (phase < 2) return now;
  return `${now}. Phase ${phase - 2}, of the same parity, is over: the barrier cannot tell them apart`;
}

/** What is true of a state, in sentences: first its kind, then each thread. */
function sayState(graph, variant, state) {
  const next = nextActions(graph, variant, state);
  const kinds = {
    deadlock: "Deadlock: no thread can act any more.",
    race: `Race: ${graph.threads.map(({ name }, thread) => `${name} is about to ${next[thread]?.words}`).join(", ")}, and nothing orders the two.`,
    end: "The end: both threads have done everything.",
  };
  const threads = graph.threads.map(({ name }, thread) => {
    if (!next[thread]) return `${name} is at its end.`;
    const here = `${name}, before action ${next[thread].number + 1},`;
    if (state.to[thread] >= 0) return `${here} can go on: ${next[thread].words}.`;
    return `${here} ${state.kind === "deadlock" ? "hangs" : "has to wait"}: ${whyStuck(graph, state, next[thread])}.`;
  });
  return [kinds[state.kind] ?? "", ...threads];
}

function render({ model, el: host }) {
  const id = uid("states");
  const choice = el("select", { id: `${id}-removed`, "data-cc": "removed" });
  const chosen = field("Take a wait away", choice);
  const control = (name, label, act) => el("button", { class: "cc-quiet", "data-cc": name, "aria-label": label, title: label, onclick: act }, draw("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, draw("path", { d: WALK_ICONS[name], class: "cc-icon" })));
  const count = el("span", { class: "cc-mono cc-count", "data-cc": "count" });
  const acts = [0, 1].map((thread) => el("button", { class: "cc-quiet", "data-cc": "act", "data-thread": thread, onclick: () => act(thread) }));
  const goals = GOALS.map(([kind, text]) => el("button", { class: "cc-quiet", "data-cc": "goal", "data-kind": kind, text, onclick: () => run(kind) }));
  const nav = el("div", { class: "cc-timeline-nav" }, control("first", "First state", () => go("")), control("back", "One step back", () => go(model.get("way").slice(0, -1))), control("on", "One step on, along the dashed way", () => on()), count);
  const said = el("div", { class: "cc-state cc-states-said", "data-cc": "state", "aria-live": "polite" });
  const board = el("div", { class: "cc-scroll cc-states-board", tabindex: 0, role: "group", "data-cc": "board" });
  const axis = el("p", { class: "cc-states-axis", "data-cc": "axis" });
  const legend = el("div", { class: "cc-legend" });
  const barriers = el("div", { class: "cc-states-barriers", "data-cc": "barriers" });
  const programs = el("div", { class: "cc-states-programs" });
  host.append(
    el(
      "section",
      { class: "cc-widget cc-states", "data-cc": "states", "aria-label": "All states of two threads, a graph to walk in", "data-lm-suppress-shortcuts": "true" },
      el("div", { class: "cc-controls" }, chosen.box),
      axis,
      board,
      legend,
      nav,
      el("div", { class: "cc-states-acts" }, acts),
      el("div", { class: "cc-states-acts", role: "group", "aria-label": "Walk a shortest way from here" }, el("span", { class: "cc-muted", text: "from here to" }), goals),
      said,
      el("div", { class: "cc-states-below" }, barriers, programs),
    ),
  );

  let graph = null;
  let nodes = null;
  const variant = () => graph.variants[model.get("removed")];
  const walked = () => statesOn(variant().states, model.get("way"));
  const place = () => walked().at(-1);
  const go = (way) => update(model, { way });
  const act = (thread) => {
    if (variant().states[place()].to[thread] >= 0) go(model.get("way") + thread);
  };
  const of = (kind) => wayFrom(variant().states, place(), (state) => state.kind === kind);
  const ahead = () => of("deadlock") ?? of("end") ?? "";
  const run = (kind) => go(model.get("way") + (of(kind) ?? ""));
  const on = () => go(model.get("way") + ahead().slice(0, 1));
  const toState = (number) => {
    const back = walked().indexOf(number);
    if (back >= 0) return go(model.get("way").slice(0, back));
    const reach = (from) => wayFrom(variant().states, from, (_, at) => at === number);
    const further = reach(place());
    go(further === null ? reach(0) : model.get("way") + further);
  };

  const leads = () => {
    const all = graph.variants.flatMap(({ states }) => states.map(({ at }) => at[0] - at[1]));
    return [Math.min(...all), Math.max(...all)];
  };
  const spot = ({ at }) => [STATE_STEP * (at[0] + at[1] + 1), STATE_STEP * (leads()[1] - at[0] + at[1] + 1)];
  const line = (numbers, name) => {
    const points = numbers.map((number) => nodes.places[number].join(","));
    return draw("polyline", { points: points.join(" "), class: name, "data-cc": name.split(" ")[0].replace("cc-states-", "") });
  };

  const drawBoard = () => {
    const { states } = variant();
    const [least, most] = leads();
    const columns = graph.threads[0].actions.length + graph.threads[1].actions.length + 2;
    const [width, height] = [STATE_STEP * columns, STATE_STEP * (most - least + 2)];
    nodes = { places: states.map(spot), states: [], lines: draw("g", {}) };
    const edges = draw("g", { class: "cc-states-edges" });
    const dots = draw("g", {});
    states.forEach((state, number) => {
      const [x, y] = nodes.places[number];
      for (const after of state.to) {
        if (after < 0) continue;
        const [right, other] = nodes.places[after];
        edges.append(draw("line", { x1: x, y1: y, x2: right, y2: other }));
      }
      const node = draw(
        "g",
        { class: "cc-states-state", "data-cc": "dot", "data-at": state.at.join(","), "data-kind": state.kind, transform: `translate(${x} ${y})` },
        draw("path", { d: `M0 -${STATE_STEP}L${STATE_STEP} 0L0 ${STATE_STEP}L-${STATE_STEP} 0Z`, class: "cc-hit" }),
        draw("path", { d: DIAMOND, class: "cc-states-dot" }),
        ...(STATE_MARKS[state.kind] ? [draw("path", { d: STATE_MARKS[state.kind], class: "cc-states-mark" })] : []),
        draw("title", { text: sayState(graph, variant(), state).filter(Boolean).join(" ") }),
      );
      node.addEventListener("click", () => toState(number));
      nodes.states.push(node);
      dots.append(node);
    });
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, edges, nodes.lines, dots);
    svg.style.width = "100%";
    svg.style.height = "auto";
    svg.style.minWidth = `${14 * columns}px`;
    svg.style.maxWidth = `${28 * columns}px`;
    board.replaceChildren(svg);
  };

  const drawPrograms = () => {
    const { removed } = variant();
    nodes.actions = graph.threads.map(({ actions }, thread) =>
      actions.map((one, number) => el("li", { "data-cc": "action", "data-thread": thread, "data-number": number, class: removed?.[0] === thread && removed[1] === number ? "cc-states-gone" : null, text: one.words })),
    );
    programs.replaceChildren(...graph.threads.map(({ name }, thread) => el("div", {}, el("h5", { text: name }), el("ol", {}, nodes.actions[thread]))));
    nodes.barriers = graph.barriers.map(({ name }) => {
      const cells = ["phase", "parity", "missing"].map((what) => el("span", { class: "cc-mono", "data-cc": what, "data-barrier": name }));
      return { row: el("div", { class: "cc-row" }, el("span", { class: "cc-name", text: name }), cells), cells };
    });
    const head = el("div", { class: "cc-row cc-head" }, ["barrier", "phase", "parity", "arrivals missing"].map((text) => el("span", { text })));
    barriers.replaceChildren(head, ...nodes.barriers.map(({ row }) => row));
  };

  const select = () => {
    if (!graph) return;
    const { states } = variant();
    const path = walked();
    const state = states[path.at(-1)];
    const before = path.length > 1 ? states[path.at(-2)] : state;
    const stuck = of("deadlock");
    const dashed = stuck === null ? [] : [...stuck].reduce((found, digit) => [...found, states[found.at(-1)].to[digit]], [path.at(-1)]);
    nodes.lines.replaceChildren(line(path, "cc-states-walked"), ...(dashed.length > 1 ? [line(dashed, "cc-states-ahead")] : []));
    nodes.states.forEach((node, number) => node.classList.toggle("cc-chosen", number === path.at(-1)));
    const next = nextActions(graph, variant(), state);
    next.forEach((action, thread) => {
      const { name } = graph.threads[thread];
      const free = state.to[thread] >= 0;
      acts[thread].disabled = !free;
      acts[thread].textContent = `${thread ? "↘" : "↗"} ${name}: ${action ? action.words : "at its end"}`;
      nodes.actions[thread].forEach((node, number) => {
        const here = action?.number === number;
        node.classList.toggle("cc-states-next", here);
        node.classList.toggle("cc-states-done", !action || number < action.number);
        if (here) node.setAttribute("aria-current", "step");
        else node.removeAttribute("aria-current");
      });
    });
    for (const button of goals) button.disabled = !of(button.dataset.kind);
    nodes.barriers.forEach(({ row, cells }, number) => {
      const [phase, missing] = state.barriers[number];
      [phase, phase % 2, `${missing} of ${graph.barriers[number].count}`].forEach((text, at) => (cells[at].textContent = text));
      row.classList.toggle("cc-states-changed", String(state.barriers[number]) !== String(before.barriers[number]));
    });
    const [kind, ...threads] = sayState(graph, variant(), state);
    const total = variant().states.filter((one) => one.kind === "deadlock").length;
    const outlook = stuck === null ? "From here no order hangs." : stuck ? `The dashed way leads to a deadlock in ${stuck.length} ${stuck.length === 1 ? "step" : "steps"}.` : "";
    said.replaceChildren(...[kind, ...threads, state.kind === "end" ? "" : outlook].filter(Boolean).map((text, at) => el("p", { class: kind && !at ? `cc-states-kind cc-states-${state.kind}` : null, "data-cc": "words" }, words(text))));
    count.textContent = `${path.length - 1} ${path.length === 2 ? "step" : "steps"}`;
    axis.textContent = `${states.length} states, ${total || "no"} ${total === 1 ? "deadlock" : "deadlocks"}. To the right: time. ↗ ${graph.threads[0].name} acts, ↘ ${graph.threads[1].name} acts.`;
  };

  const drawAll = () => {
    graph = model.get("graph");
    choice.replaceChildren(
      ...graph.variants.map(({ removed }, number) => {
        if (!removed) return el("option", { value: number, text: "none" });
        const { name, actions } = graph.threads[removed[0]];
        return el("option", { value: number, text: `${name} ${removed[1] + 1}: ${actions[removed[1]].words}` });
      }),
    );
    choice.value = model.get("removed");
    const names = graph.threads.map(({ name }) => name);
    board.setAttribute("aria-label", `The states. Up arrow: ${names[0]} acts; down arrow: ${names[1]} acts; left arrow: one step back; right arrow: along the dashed way; home: the first state`);
    const key = (kind, text) => {
      const picture = draw("svg", { width: 20, height: 20, viewBox: "-10 -10 20 20", "aria-hidden": "true" }, draw("path", { d: DIAMOND, class: "cc-states-dot" }), draw("path", { d: STATE_MARKS[kind], class: "cc-states-mark" }));
      return el("span", { class: "cc-key cc-states-state", "data-kind": kind }, picture, text);
    };
    legend.replaceChildren(...GOALS.map(([kind, text]) => key(kind, text)));
    drawBoard();
    drawPrograms();
    select();
  };

  choice.addEventListener("change", () => {
    const removed = Number(choice.value);
    const { states } = graph.variants[removed];
    const way = model.get("way");
    update(model, { removed, way: way.slice(0, statesOn(states, way).length - 1) });
  });
  board.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: () => act(0), ArrowDown: () => act(1), ArrowRight: on, ArrowLeft: () => go(model.get("way").slice(0, -1)), Home: () => go(""), End: () => go(model.get("way") + ahead()) };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });
  if (statesOn(model.get("graph").variants[model.get("removed")].states, model.get("way")).length <= model.get("way").length) throw new Error("no order goes this way");
  const stops = [follow(model, ["graph", "removed"], drawAll), follow(model, ["way"], select)];
  return () => stops.forEach((stop) => stop());
}

export const _math = { statesOn, wayFrom, nextActions, sayState };
export default { render };
