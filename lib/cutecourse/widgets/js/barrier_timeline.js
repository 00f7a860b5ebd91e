// A recorded launch on a time axis: what each warp did, transfers in flight, MMAs, and every mbarrier's phases.
import { el, field, follow, uid, update } from "./dom.js";
import { draw } from "./svg.js";
import { actorName, barrierLives, barrierName, ctaName, isIssue, mayWait, mmasOf, readTrace, sentence, stateAt, stateWords, timeScale, touches, transfersOf, waitsOf } from "./timeline.js";

const AXIS = 24;
const PAD = 16; // beside the first and the last event
const HEIGHT = { actor: 30, transfer: 24, mma: 24, slim: 15, barrier: 62, arrivals: 43 };
const SLIM = 6; // with more transfers, or MMAs, at a time than this, they are drawn slim
const GAP = 14; // between the groups of lanes
const ICONS = { first: "M-4 -5V5M5 -5L-2 0L5 5Z", prev: "M4 -5L-4 0L4 5Z", next: "M-4 -5L4 0L-4 5Z", last: "M4 -5V5M-5 -5L2 0L-5 5Z" };
const BY_NOBODY = new Set(["mbarrier.complete_tx", "mbarrier.phase", "tma.land", "tma.read", "mma.complete", "wgmma.complete"]);

/** A mark for each kind of event, drawn around (0,0); and its name in the legend. */
const MARKS = {
  init: ["M-4.5 -4.5H4.5V4.5H-4.5Z", "cc-hollow", "barrier initialised or invalidated"],
  arrive: ["M0 -5.5L5.5 4.5H-5.5Z", "cc-solid", "arrives"],
  expect: ["M0 -6L6 0L0 6L-6 0Z", "cc-solid cc-tx", "expects bytes"],
  issue: ["M-4.5 -6L6 0L-4.5 6Z", "cc-solid cc-copy", "issues a transfer"],
  wait: ["M-2.5 -7H2.5V7H-2.5Z", "cc-solid cc-waits", "begins to wait"],
  resume: ["M-5 0L-1.5 4L5.5 -4.5", "cc-stroke cc-goes", "goes on, or passes at once"],
  no: ["M-4.5 0A4.5 4.5 0 1 0 4.5 0A4.5 4.5 0 1 0 -4.5 0Z", "cc-hollow cc-waits", "asks, hears no"],
  count: ["M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z", "cc-solid cc-tx", "bytes land or are counted"],
  phase: ["M0 -6V6M-4 -6H4M-4 6H4", "cc-stroke", "phase complete"],
  mma: ["M-2 -6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z", "cc-solid cc-copy", "issues an MMA"],
  done: ["M0 -6.5L1.7 -2.2L6.2 -2L2.7 0.9L3.8 5.3L0 2.8L-3.8 5.3L-2.7 0.9L-6.2 -2L-1.7 -2.2Z", "cc-solid", "an MMA is complete"],
  commit: ["M0 5.5L5.5 -4.5H-5.5Z", "cc-solid cc-copy", "commits MMAs"],
  alloc: ["M0 -5.5L4.8 -2.8V2.8L0 5.5L-4.8 2.8V-2.8Z", "cc-hollow", "allocates or frees tensor memory"],
  tmem: ["M0 -5L4.3 -2.5V2.5L0 5L-4.3 2.5V-2.5Z", "cc-solid", "reads or writes tensor memory"],
  other: ["M0 -6V6", "cc-stroke", "fence, bulk group"],
};
const MMA_MARKS = { "wgmma.issue": "mma", "wgmma.complete": "done", "wgmma.commit": "commit", "mma.issue": "mma", "mma.complete": "done", "mma.commit": "commit", "tmem.alloc": "alloc", "tmem.dealloc": "alloc", "tmem.relinquish": "alloc", "tmem.load": "tmem", "tmem.store": "tmem", "tmem.copy": "tmem", "tmem.wait": "tmem" };

function markOf(event) {
  const { kind, data } = event;
  if (MMA_MARKS[kind]) return data.outcome === "blocked" ? "wait" : MMA_MARKS[kind];
  const [, action] = kind.split(".");
  if (action === "init" || action === "inval") return "init";
  if (action === "arrive") return "arrive";
  if (action === "expect_tx") return "expect";
  if (kind === "tma.issue") return "issue";
  if (action === "wait") return { passed: "resume", false: "no" }[data.outcome] ?? "wait";
  if (action === "resume") return "resume";
  if (action === "complete_tx" || action === "land" || action === "read") return "count";
  return action === "phase" ? "phase" : "other";
}

/** Bars in as few lanes as they fit into, in the order in which they begin. */
function pack(bars) {
  const ends = [];
  for (const bar of bars) {
    let lane = ends.findIndex((end) => end + 4 <= bar.from);
    if (lane < 0) lane = ends.push(0) - 1;
    ends[lane] = bar.to;
    bar.lane = lane;
  }
  return ends.length;
}

/** Whether an event is about barriers of one name ("" for all): its own barrier, or the one that its transfer reports to. */
function aboutBarrier(book, name) {
  if (!name) return () => true;
  const transfers = new Set(book.transfers.filter((one) => one.issue.barrier?.name === name).map((one) => one.issue.index));
  return (event) => event.barrier?.name === name || transfers.has(event.data.transfer);
}

/** The events, transfers, MMAs, waits and barriers that one CTA (or null: everyone) and one barrier ("": all) have to do with. */
function only(book, chosen, name = "") {
  const about = aboutBarrier(book, name);
  const mine = (cluster, ranks) => !chosen || (cluster === chosen[0] && ranks.includes(chosen[1]));
  const events = book.events.filter((event) => {
    const { cluster, ranks } = touches(event);
    return mine(cluster, ranks) && about(event);
  });
  const shown = new Set(events.map((event) => event.at));
  return {
    events,
    transfers: book.transfers.filter((one) => shown.has(one.issue.at)),
    mmas: book.mmas.filter((one) => shown.has(one.issues[0].at)),
    waits: book.waits.filter((wait) => shown.has(wait.from)),
    lives: book.lives.filter(({ barrier }) => mine(barrier.cluster, [barrier.rank]) && (!name || barrier.name === name)),
  };
}

function readBook(trace) {
  const read = readTrace(trace);
  return { ...read, lives: barrierLives(read.events), transfers: transfersOf(read.events), mmas: mmasOf(read.events), waits: waitsOf(read.events) };
}

function render({ model, el: host }) {
  const id = uid("timeline");
  const chooser = field("CTA", el("select", { "data-cc": "cta" }), "13em");
  const barriers = field("Barrier", el("select", { "data-cc": "only-barrier" }), "11em");
  const title = el("p", { class: "cc-muted cc-timeline-title", "data-cc": "title" });
  const button = (name, text, label, act) => el("button", { class: "cc-quiet", "data-cc": name, "aria-label": label, title: label, text, onclick: act });
  const step = (name, label, act) => el("button", { class: "cc-quiet", "data-cc": name, "aria-label": label, title: label, onclick: act }, draw("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, draw("path", { d: ICONS[name], class: "cc-icon" })));
  const zooms = el("div", { class: "cc-zoom", role: "group", "aria-label": "Width of the picture" }, button("narrower", "−", "Narrower", () => zoomBy(1 / 1.4)), button("wider", "+", "Wider", () => zoomBy(1.4)));
  const labels = el("div", { class: "cc-lanes", "aria-hidden": "true" });
  const plot = draw("svg", { class: "cc-plot", role: "listbox", tabindex: 0, "data-cc": "plot", "aria-label": "Events, oldest first; left and right arrows step, up and down change the lane" });
  const scroll = el("div", { class: "cc-scroll cc-timeline-scroll" }, el("div", { class: "cc-timeline-row" }, labels, plot));
  const legend = el("div", { class: "cc-legend" });
  const slider = el("input", { type: "range", min: 0, step: 1, "data-cc": "slider", "aria-label": "Event" });
  const count = el("span", { class: "cc-mono cc-count", "data-cc": "count" });
  const nav = el(
    "div",
    { class: "cc-timeline-nav" },
    step("first", "First event", () => go(0)),
    step("prev", "Previous event", () => go(place() - 1)),
    slider,
    step("next", "Next event", () => go(place() + 1)),
    step("last", "Last event", () => go(shown.events.length - 1)),
    count,
  );
  const state = el("div", { class: "cc-state", "data-cc": "state", "aria-live": "polite" });
  const table = el("div", { class: "cc-barriers", role: "table", "aria-label": "Barriers after this event", "data-cc": "barriers" });
  const ended = el("p", { class: "cc-ended", "data-cc": "ended" });
  host.append(
    el(
      "section",
      { class: "cc-widget cc-timeline", "data-cc": "timeline", "aria-label": "What happened in a launch, on a time axis", "data-lm-suppress-shortcuts": "true" },
      el("div", { class: "cc-controls" }, chooser.box, barriers.box, title, zooms),
      scroll,
      legend,
      nav,
      el("div", { class: "cc-timeline-below" }, state, table),
      ended,
    ),
  );

  let book = null;
  let shown = null;
  let scale = null;
  let zoom = null; // null: as wide as there is room
  let lanes = [];
  let rows = new Map(); // position of an event -> its marks' nodes
  let xOf = () => 0;
  let cursor = null;

  const place = () => {
    const selected = model.get("selected");
    const at = shown.events.findIndex((event) => event.index === selected);
    // The event may belong to a CTA or a barrier that is not shown now: then the next one that is.
    return at >= 0 ? at : Math.max(0, shown.events.findIndex((event) => event.index > selected));
  };
  const go = (to) => {
    const bounded = Math.max(0, Math.min(shown.events.length - 1, to));
    update(model, { selected: shown.events[bounded].index });
  };
  const room = () => Math.max(200, scroll.clientWidth - labels.offsetWidth - 10);
  const factor = () => zoom ?? Math.max(0.75, Math.min(4, (room() - 2 * PAD - (model.get("end") ? 110 : 12)) / Math.max(1, scale.width)));
  const zoomBy = (by) => {
    zoom = Math.max(0.35, Math.min(5, factor() * by));
    drawPlot();
    select();
  };

  const choices = () => {
    const all = book.ctas.map((cta) => `${cta.cluster},${cta.rank}`);
    for (const { barrier } of book.lives) if (!all.includes(`${barrier.cluster},${barrier.rank}`)) all.push(`${barrier.cluster},${barrier.rank}`);
    return all.map((key) => key.split(",").map(Number)).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  };

  // ---- the picture ----

  /** The lane of the warp that an event is of; what other CTAs than the chosen one do shares one. */
  const actorKey = (event) => {
    const chosen = model.get("cta");
    return chosen.length && (event.cta.rank !== chosen[1] || event.cta.cluster !== chosen[0]) ? "others" : `${event.cta.id}/${event.warp}`;
  };

  /** Which lanes there are: warps, transfers, MMAs, barriers; each with its height and place. */
  const layLanes = (bars, works) => {
    const actors = new Map();
    for (const event of shown.events) {
      if (BY_NOBODY.has(event.kind) && event.warp === null) continue;
      const key = actorKey(event);
      if (!actors.has(key)) actors.set(key, { kind: "actor", key, event, height: HEIGHT.actor });
    }
    const others = (lane) => Number(lane.key === "others");
    const order = [...actors.values()].sort((a, b) => others(a) - others(b) || a.event.cta.cluster - b.event.cta.cluster || a.event.cta.rank - b.event.cta.rank || (a.event.warp ?? -1) - (b.event.warp ?? -1));
    const inLanes = (kind, depth) => Array.from({ length: depth }, (_, lane) => ({ kind, key: `${kind} ${lane}`, lane, height: depth > SLIM ? HEIGHT.slim : HEIGHT[kind] }));
    const counts = (barrier) => shown.lives.some((life) => life.barrier === barrier && life.states.some((s) => s.tx !== 0));
    lanes = [
      ...order,
      ...inLanes("transfer", pack(bars)),
      ...inLanes("mma", pack(works)),
      ...[...new Set(shown.lives.map((life) => life.barrier))].map((barrier) => ({ kind: "barrier", key: `barrier ${barrier.id}`, barrier, bytes: counts(barrier), txAt: new Map(), height: counts(barrier) ? HEIGHT.barrier : HEIGHT.arrivals })),
    ];
    let y = AXIS;
    lanes.forEach((lane, i) => {
      if (i && lanes[i - 1].kind !== lane.kind) y += GAP;
      lane.y = y;
      y += lane.height;
    });
    return y + 4;
  };

  const laneName = (lane) => {
    if (lane.key === "others") return ["other CTAs", ""];
    if (lane.kind === "actor") {
      const chosen = model.get("cta");
      const cta = book.ctas.length > 1 ? ctaName(lane.event.cta, book) : "";
      const warp = lane.event.warp === null ? "" : `warp ${lane.event.warp}`;
      return chosen.length && lane.event.cta.rank === chosen[1] ? [warp || cta, ""] : [warp || cta, warp ? cta : ""];
    }
    if (lane.kind === "transfer") return [lane.lane ? "" : "transfers", ""];
    if (lane.kind === "mma") return [lane.lane ? "" : "MMAs", ""];
    return [lane.barrier.name, book.crowd && !model.get("cta").length ? ctaName(lane.barrier, book) : ""];
  };

  const drawLabels = (height) => {
    labels.style.height = `${height}px`;
    labels.replaceChildren(
      el("span", { class: "cc-lane-time", text: "instructions issued" }),
      ...lanes.map((lane) => {
        const [name, small] = laneName(lane);
        const box = el("div", { class: `cc-lane cc-lane-${lane.kind}`, "data-cc": "lane", "data-lane": lane.key }, el("b", { text: name }), small ? el("small", { text: small }) : null);
        if (lane.kind === "barrier") box.append(el("small", { class: "cc-sub", text: "arrivals missing" }), ...(lane.bytes ? [el("small", { class: "cc-sub cc-sub-2", text: "bytes missing" })] : []));
        box.style.top = `${lane.y}px`;
        box.style.height = `${lane.height}px`;
        return box;
      }),
    );
  };

  const drawAxis = (layer, height, width) => {
    let next = -Infinity;
    shown.events.forEach((event, i) => {
      const x = xOf(event.at);
      const before = i ? shown.events[i - 1].time : -1;
      if (event.time === before || x < next) return;
      layer.append(draw("text", { x, y: 12, class: "cc-tick", "text-anchor": "middle", text: event.time }), draw("path", { d: `M${x} 16V${AXIS - 4}`, class: "cc-tickline" }));
      next = x + 14 + 7 * String(event.time).length;
    });
    for (const { x } of scale.breaks) {
      const at = PAD + x * factor();
      layer.append(draw("path", { d: `M${at} ${AXIS - 2}V${height}`, class: "cc-break" }));
    }
    for (const [i, lane] of lanes.entries()) if (lane.lane === undefined || lanes[i + 1]?.kind !== lane.kind) layer.append(draw("path", { d: `M0 ${lane.y + lane.height - 0.5}H${width}`, class: "cc-rule" }));
  };

  const drawWaits = (layer, right) => {
    for (const wait of shown.waits) {
      const lane = lanes.find((one) => one.key === actorKey(wait.event));
      if (!lane || lane.key === "others") continue;
      const [from, to] = [xOf(wait.from), wait.to === null ? right : xOf(wait.to)];
      layer.append(draw("rect", { x: from, y: lane.y + 7, width: Math.max(3, to - from), height: lane.height - 15, rx: 3, class: wait.to === null ? "cc-waiting cc-never" : "cc-waiting", "data-cc": "wait", "data-from": wait.event.index, "data-never": wait.to === null ? "yes" : "no" }));
      const text = wait.event.barrier ? `${wait.event.barrier.name} · parity ${wait.event.data.parity}` : { cluster: "cluster", barrier: `barrier ${wait.event.data.number}`, bulk: "bulk groups", tmem: `${wait.event.data.columns} columns` }[wait.event.kind.split(".")[0]];
      const free = (wait.tries === 1 ? to : wait.tries === 2 ? xOf(wait.last) : from) - from;
      if (text && free > 9 + 6.1 * text.length) layer.append(draw("text", { x: from + 8, y: lane.y + lane.height / 2 + 3, class: "cc-inbar", text }));
    }
  };

  const drawTransfers = (layer, bars) => {
    const tensors = [...new Set(book.transfers.map((one) => one.issue.data.tensor ?? ""))];
    const chosen = model.get("cta");
    const here = (event) => !chosen.length || event.cta.rank === chosen[1];
    for (const bar of bars) {
      const { one } = bar;
      const lane = lanes.find((found) => found.kind === "transfer" && found.lane === bar.lane);
      const hue = tensors.indexOf(one.issue.data.tensor ?? "") % 8;
      layer.append(draw("rect", { x: bar.from, y: lane.y + 2, width: Math.max(4, bar.to - bar.from), height: lane.height - 5, rx: 3, class: `cc-flight cc-fill-${hue}${one.done ? "" : " cc-open"}`, "data-cc": "flight", "data-transfer": one.issue.index, "data-done": one.done ? "yes" : "no" }));
      const name = `#${one.issue.index}${one.issue.data.tensor ? ` ${one.issue.data.tensor}` : ""}`;
      const first = one.landings.find((landing) => here(landing));
      const wide = (first ? Math.min(bar.to, xOf(first.at) - 3) : bar.to) - bar.from - 8;
      const full = `${name}: ${one.issue.data.bytes} B`;
      const text = [full, name].find((words) => wide > 6 * words.length);
      for (const event of one.landings.filter((landing) => here(landing))) layer.append(draw("path", { d: `M${xOf(event.at)} ${lane.y + 2}V${lane.y + lane.height - 3}`, class: "cc-landing" }));
      if (text) layer.append(draw("text", { x: bar.from + 7, y: lane.y + lane.height / 2 + 3, class: lane.height < 20 ? "cc-inbar cc-small" : "cc-inbar", text }));
    }
  };

  const drawMmas = (layer, works, right) => {
    for (const work of works) {
      const { one, from, to } = work;
      const lane = lanes.find((found) => found.kind === "mma" && found.lane === work.lane);
      layer.append(draw("rect", { x: from, y: lane.y + 2, width: Math.max(4, to - from), height: lane.height - 5, rx: 3, class: `cc-flight cc-fill-3${one.done ? "" : " cc-open"}`, "data-cc": "mmas", "data-first": one.issues[0].index, "data-done": one.done ? "yes" : "no" }));
      // The label stands before the first completion, or behind what happens last in the lane.
      const wide = (one.completions.length ? xOf(one.completions[0].at) - 5 : to) - from - 8;
      const behind = Math.max(one.done ? to : from, ...[...one.completions, ...work.arrivals].map((event) => xOf(event.at))) + 10;
      const next = Math.min(right, ...works.filter((other) => other.lane === work.lane && other.from > from).map((other) => other.from));
      const outside = wide <= 6 * one.label.length && next - behind > 6 * one.label.length;
      const text = outside ? one.label : [one.label, one.count].find((words) => wide > 6 * words.length);
      if (text) layer.append(draw("text", { x: outside ? behind : from + 7, y: lane.y + lane.height / 2 + 3, class: lane.height < 20 ? "cc-inbar cc-small" : "cc-inbar", text }));
    }
  };

  /** A line that goes from value to value in steps, as an area above a base line. */
  const stepPath = (points, base) => {
    let d = `M${points[0].x} ${base}`;
    for (const { x, y } of points) d += `H${x}V${y}`;
    return d;
  };

  const drawBarrier = (layer, life, right) => {
    const lane = lanes.find((one) => one.barrier === life.barrier);
    const end = life.to === null ? right : xOf(life.to);
    const begin = xOf(life.states[0].at);
    // phases
    let from = begin;
    life.states.forEach((s, i) => {
      const next = life.states[i + 1];
      if (next && next.phase === s.phase) return;
      const to = next ? xOf(next.at) : end;
      layer.append(draw("rect", { x: from, y: lane.y + 3, width: Math.max(1, to - from), height: 17, class: s.phase % 2 ? "cc-phase cc-odd" : "cc-phase", "data-cc": "phase", "data-barrier": life.barrier.id, "data-phase": s.phase }));
      const completed = life.completions.find((one) => one.phase === s.phase - 1);
      const begins = Math.max(from + 11, completed ? xOf(completed.at) + 9 : 0);
      const words = [`phase ${s.phase} · parity ${s.phase % 2}`, `phase ${s.phase}`, String(s.phase)].find((text) => to - begins > 4 + 6 * text.length);
      if (words) layer.append(draw("text", { x: begins, y: lane.y + 15.5, class: "cc-inbar", text: words }));
      from = to;
    });
    // what is missing: arrivals, bytes
    const tracks = [
      { name: "pending", top: 23, height: 15, most: Math.max(1, ...life.states.map((s) => s.pending)) },
      ...(lane.bytes ? [{ name: "tx", top: 41, height: 17, most: Math.max(1, ...life.states.map((s) => Math.abs(s.tx))) }] : []),
    ];
    for (const track of tracks) {
      const base = lane.y + track.top + track.height;
      const points = [];
      life.states.forEach((s, i) => {
        const [x, to] = [xOf(s.at), i + 1 < life.states.length ? xOf(life.states[i + 1].at) : end];
        const y = base - (track.height - 2) * (Math.max(0, s[track.name]) / track.most);
        points.push({ x, y });
        if (track.name === "tx") lane.txAt.set(s.at, y);
        const changed = i === 0 || life.states[i - 1][track.name] !== s[track.name];
        const until = life.states.slice(i + 1).find((later) => later[track.name] !== s[track.name]);
        const wide = (until ? xOf(until.at) : end) - x;
        if (changed && (s[track.name] !== 0 || wide > 40) && wide > 13 + 6.2 * String(s[track.name]).length) layer.append(draw("text", { x: x + 8, y: (Math.max(0, s[track.name]) > 0.75 * track.most ? base : y) - 3.5, class: "cc-value-label", text: s[track.name] }));
        if (to === end && i + 1 === life.states.length) points.push({ x: end, y });
      });
      const line = stepPath(points, base);
      layer.prepend(draw("path", { d: `${line}V${base}Z`, class: `cc-area cc-area-${track.name}` }), draw("path", { d: line, class: `cc-step-line cc-line-${track.name}` }));
    }
  };

  const drawMarks = (layer, bars, works) => {
    const lines = new Map(); // where the last line number ends in a lane
    for (const event of shown.events) {
      const x = xOf(event.at);
      const spots = [];
      const actor = lanes.find((lane) => lane.kind === "actor" && lane.key === actorKey(event));
      // What a commit does belongs to its MMAs: the thread that issued it has long gone on.
      const work = works.find(({ one }) => (event.by ? one.commit === event.by : one.issues.includes(event.issue)));
      if (actor && !work && !(BY_NOBODY.has(event.kind) && event.warp === null)) spots.push({ lane: actor, y: actor.y + actor.height / 2 - 0.5 });
      const flight = event.data.transfer ?? (event.kind === "tma.issue" ? event.index : null);
      const bar = flight === null ? null : bars.find(({ one }) => one.issue.index === flight);
      if (bar && (event.kind === "tma.land" || event.kind === "tma.read")) {
        const lane = lanes.find((one) => one.kind === "transfer" && one.lane === bar.lane);
        spots.push({ lane, y: lane.y + lane.height / 2 - 0.5 });
      }
      if (work) {
        const lane = lanes.find((one) => one.kind === "mma" && one.lane === work.lane);
        spots.push({ lane, y: lane.y + lane.height / 2 - 0.5 });
      }
      const barrier = event.barrier && event.kind !== "tma.issue" && event.kind !== "mma.commit" && lanes.find((lane) => lane.barrier === event.barrier);
      if (barrier && !/\.(wait|resume)$/.test(event.kind)) spots.push({ lane: barrier, y: barrier.txAt.has(event.at) && /_tx$/.test(event.kind) ? barrier.txAt.get(event.at) : barrier.y + (/phase|init|inval/.test(event.kind) ? 11.5 : 31) });
      if (barrier && !spots.length) spots.push({ lane: barrier, y: barrier.y + 11.5 });
      const nodes = spots.map(({ lane, y }, i) => {
        const kind = markOf(event);
        const [d, look] = MARKS[kind];
        const group = draw("g", { transform: `translate(${x} ${y})`, class: i ? "cc-mark2 cc-second" : "cc-mark2", "data-index": event.index }, draw("path", { d: "M-7 -9H7V9H-7Z", class: "cc-hit" }), draw("path", { d, class: look }));
        if (!i) {
          group.id = `${id}-${event.index}`;
          group.setAttribute("role", "option");
          group.setAttribute("data-cc", "event");
          group.setAttribute("data-kind", event.kind);
          group.setAttribute("aria-label", sentence(event, null, book));
          const last = lines.get(lane) ?? { x: -Infinity };
          if (lane.kind === "actor" && event.line !== null && event.line !== last.line && x - last.x > 22) {
            layer.append(draw("text", { x, y: lane.y + lane.height - 1.5, class: "cc-line-number", "text-anchor": "middle", text: event.line }));
            lines.set(lane, { x, line: event.line });
          }
        }
        layer.append(group);
        return group;
      });
      rows.set(event.at, { event, nodes, spots, x });
    }
  };

  const drawPlot = () => {
    const s = factor();
    const at = shown.events.map((event) => event.at);
    xOf = (position) => {
      // An event that is not shown stands where the last one shown before it does.
      let [low, high] = [0, at.length - 1];
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        if (at[middle] <= position) low = middle;
        else high = middle - 1;
      }
      return PAD + scale.xs[low] * s;
    };
    const broken = Boolean(model.get("end"));
    const stuck = shown.waits.some((wait) => wait.to === null) || shown.mmas.some((one) => !one.done);
    const right = PAD + scale.width * s + (broken || stuck ? 70 : 16);
    const width = right + (broken ? 34 : 6);
    // Of a transfer that another CTA issued, the chosen one sees its own part.
    const chosen = model.get("cta");
    const last = (one) => {
      const mine = [...one.landings, ...one.signals].filter((event) => chosen.length && one.issue.cta.rank !== chosen[1] && event.cta.rank === chosen[1]);
      return mine.length ? Math.max(...mine.map((event) => event.at)) : one.last;
    };
    const bars = shown.transfers.map((one) => ({ one, from: xOf(one.issue.at), to: one.done ? Math.max(xOf(last(one)), xOf(one.issue.at) + 6) : right }));
    const works = shown.mmas.map((one) => ({ one, arrivals: shown.events.filter((event) => event.by && event.by === one.commit), from: xOf(one.issues[0].at), to: one.done ? Math.max(xOf(one.completions.at(-1).at), xOf(one.issues[0].at) + 6) : right }));
    const height = layLanes(bars, works);
    drawLabels(height);
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) plot.setAttribute(name, value);
    const [under, over] = [draw("g", { "aria-hidden": "true" }), draw("g", { role: "presentation" })];
    drawAxis(under, height, width);
    drawWaits(under, right);
    drawTransfers(under, bars);
    drawMmas(under, works, right);
    const steps = draw("g", {});
    for (const life of shown.lives) if (life.states.length) drawBarrier(steps, life, right);
    under.append(steps);
    rows = new Map();
    cursor = draw("path", { class: "cc-cursor", "aria-hidden": "true" });
    drawMarks(over, bars, works);
    if (broken) under.append(draw("rect", { x: right + 4, y: AXIS, width: 22, height: height - AXIS - 4, class: "cc-end" }), draw("text", { x: right + 15, y: (AXIS + height) / 2, class: "cc-end-text", "text-anchor": "middle", transform: `rotate(-90 ${right + 15} ${(AXIS + height) / 2})`, dy: 4, text: "ended with an error" }));
    plot.replaceChildren(under, cursor, over);
  };

  const drawLegend = () => {
    const used = [...new Set(shown.events.map(markOf))];
    const order = Object.keys(MARKS).filter((kind) => used.includes(kind));
    legend.replaceChildren(
      ...order.map((kind) => {
        const [d, look, text] = MARKS[kind];
        return el("span", { class: "cc-key" }, draw("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, draw("path", { d, class: look })), text);
      }),
    );
  };

  // ---- what is chosen ----

  const drawTable = (event) => {
    const all = shown.lives.filter((life) => event.at >= life.from && (life.to === null || event.at < life.to));
    const waiting = book.waits.filter((wait) => wait.from <= event.at && (wait.to === null || wait.to > event.at) && wait.event.barrier);
    // The chosen CTA's own warps need no CTA before their names.
    const waiter = ({ event: one }) => actorName(one, actorKey(one) === "others" || !model.get("cta").length ? book : { ...book, crowd: false });
    const cell = (role, text, name, more = "") => el("span", { role, class: more, "data-cc": name ?? null }, text);
    const head = ["barrier", "phase", "arrivals missing", "bytes missing", "who waits"];
    table.replaceChildren(
      el("div", { role: "row", class: "cc-row cc-head" }, head.map((text) => cell("columnheader", text))),
      ...all.map((life) => {
        const now = stateAt(life, event.at);
        const here = event.barrier === life.barrier;
        const who = waiting.filter((wait) => wait.event.barrier === life.barrier).map((wait) => `${waiter(wait)} (parity ${wait.event.data.parity})`);
        const before = here ? stateAt(life, event.at - 1) : null;
        const change = (name) => (before && before[name] !== now[name] ? "cc-changed" : "");
        return el(
          "div",
          { role: "row", class: here ? "cc-row cc-here" : "cc-row", "data-cc": "barrier", "data-barrier": life.barrier.id },
          cell("rowheader", model.get("cta").length ? life.barrier.name : barrierName(life.barrier, book), null, "cc-name"),
          el("span", { role: "cell", class: change("phase"), "data-cc": "phase-now" }, `${now.phase} `, el("small", { text: `parity ${now.phase % 2}` })),
          cell("cell", life.count === null ? now.pending : `${now.pending} of ${life.count}`, "pending-now", change("pending")),
          cell("cell", now.tx, "tx-now", change("tx")),
          cell("cell", who.join(", ") || "–", "waiting-now"),
        );
      }),
    );
    table.hidden = !all.length;
  };

  const select = () => {
    if (!shown?.events.length) return;
    const at = place();
    const event = shown.events[at];
    const row = rows.get(event.at);
    for (const { nodes } of rows.values()) for (const node of nodes) node.classList.remove("cc-chosen");
    for (const node of plot.querySelectorAll('[aria-selected="true"]')) node.setAttribute("aria-selected", "false");
    for (const node of row.nodes) node.classList.add("cc-chosen");
    row.nodes[0]?.setAttribute("aria-selected", "true");
    plot.setAttribute("aria-activedescendant", row.nodes[0]?.id ?? "");
    cursor.setAttribute("d", `M${row.x} ${AXIS - 6}V${plot.getAttribute("height")}`);
    slider.max = shown.events.length - 1;
    slider.value = at;
    const life = event.barrier && book.lives.find((one) => one.barrier === event.barrier && stateAt(one, event.at));
    const now = life ? stateAt(life, event.at) : null;
    const words = sentence(event, now, book);
    slider.setAttribute("aria-valuetext", words);
    count.textContent = `${at + 1} of ${shown.events.length}`;
    const where = [`event #${event.index}`, `time ${event.time}`, ...(book.crowd ? [`${ctaName(event.cta, book)}, block ${event.cta.block.join(",")}`] : []), event.line === null ? "no PTX line" : `PTX line ${event.line}`, event.kind];
    state.replaceChildren(el("p", { class: "cc-muted cc-where", "data-cc": "where", text: where.join(" · ") }), el("p", { "data-cc": "words", text: `${words[0].toUpperCase()}${words.slice(1)}.` }));
    const wait = book.waits.find((one) => one.from <= event.at && one.last >= event.at && one.event.cta === event.cta && one.event.warp === event.warp && mayWait(event));
    if (wait && event.data.outcome !== "passed") {
      const tries = wait.tries > 1 ? ` after ${wait.tries} tries` : "";
      const then = wait.to === null ? "It never goes on." : `It goes on${tries} with event #${book.events[wait.to].index}, at time ${book.events[wait.to].time}.`;
      state.append(el("p", { "data-cc": "then", text: then }));
    }
    if (event.kind === "tma.issue") {
      const one = book.transfers.find((found) => found.issue === event);
      const lands = one.landings.length ? `Its bytes land in ${one.landings.length} part${one.landings.length === 1 ? "" : "s"}, the last at time ${one.landings.at(-1).time}` : one.read ? `Its source is read at time ${one.read.time}` : "Nothing of it lands in this trace";
      state.append(el("p", { "data-cc": "then", text: `${lands}${one.done || !one.landings.length ? "" : `; ${one.due - one.landed} bytes are still in flight at the end`}.` }));
    }
    if (isIssue(event)) {
      const one = book.mmas.find((found) => found.issues.includes(event));
      const over = one.completions.find((found) => found.issue === event);
      const told = one.commit ? `commit #${one.commit.index} follows` : "no commit of its thread follows";
      state.append(el("p", { "data-cc": "then", text: `${over ? `It is complete at time ${over.time}, event #${over.index}` : "It is not complete at the end"}; ${told}.` }));
    }
    if (event.kind === "mma.commit") {
      const arrivals = book.events.filter((one) => one.by === event);
      const [first, last] = [arrivals[0], arrivals.at(-1)];
      const times = first && first.time !== last.time ? `times ${first.time} to ${last.time}` : `time ${first?.time}`;
      state.append(el("p", { "data-cc": "then", text: !first ? "It never arrives." : first === last ? `It arrives at ${times}, with event #${first.index}.` : `Its ${arrivals.length} arrivals come at ${times}, events #${first.index} to #${last.index}.` }));
    }
    drawTable(event);
    const seen = ({ lane }) => lane.y >= scroll.scrollTop && lane.y + lane.height <= scroll.scrollTop + scroll.clientHeight;
    if (row.spots.length && !row.spots.some(seen)) scroll.scrollTop = Math.max(0, row.spots[0].lane.y - scroll.clientHeight / 2);
    const left = row.x - scroll.scrollLeft;
    const view = scroll.clientWidth - labels.offsetWidth;
    if (left < 20 || left > view - 30) scroll.scrollLeft = Math.max(0, row.x - view / 2);
  };

  const drawAll = () => {
    book = readBook(model.get("trace"));
    const all = choices();
    chooser.box.hidden = all.length < 2;
    chooser.control.replaceChildren(el("option", { value: "", text: `all ${all.length}` }), ...all.map(([cluster, rank]) => el("option", { value: `${cluster},${rank}`, text: ctaName({ cluster, rank }, book) })));
    chooser.control.value = model.get("cta").join(",");
    chooser.complain(chooser.control.selectedIndex < 0 ? `The trace has no CTA (${model.get("cta").join(", ")}).` : "");
    const named = [...new Set(book.lives.map((life) => life.barrier.name))];
    const name = named.includes(model.get("barrier")) ? model.get("barrier") : "";
    barriers.box.hidden = named.length < 2;
    barriers.control.replaceChildren(el("option", { value: "", text: `all ${named.length}` }), ...named.map((one) => el("option", { value: one, text: one })));
    barriers.control.value = name;
    barriers.complain(name === model.get("barrier") ? "" : `The trace has no barrier ${model.get("barrier")}.`);
    shown = only(book, model.get("cta").length ? model.get("cta") : null, name);
    if (!shown.events.length) shown = only(book, null, name);
    scale = timeScale(shown.events);
    const trace = model.get("trace");
    const size = (extents) => extents.join("×");
    title.textContent = `${trace.kernel || "a kernel"} on the ${trace.where}: grid ${size(trace.grid)}, block ${size(trace.block)}${size(trace.cluster) === "1×1×1" ? "" : `, cluster ${size(trace.cluster)}`}, seed ${trace.seed}`;
    const stuck = book.waits.filter((wait) => wait.to === null);
    const end = model.get("end");
    ended.hidden = !end;
    ended.replaceChildren(el("b", { text: "The launch ended with an error. " }), end);
    if (end && stuck.length && !end.includes("\n")) ended.append(`${/[.!?]\s*$/.test(end) ? "" : "."} Waiting at the end: ${stuck.map((wait) => actorName(wait.event, book)).join(", ")}.`);
    drawLegend();
    drawPlot();
    select();
  };

  /** The event in the next lane up or down that is nearest in time. */
  const hop = (by) => {
    const row = rows.get(shown.events[place()].at);
    let i = lanes.indexOf(row.spots[0]?.lane) + by;
    for (; i >= 0 && i < lanes.length; i += by) {
      const here = [...rows.values()].filter(({ spots }) => spots[0]?.lane === lanes[i]);
      if (!here.length) continue;
      const nearest = here.reduce((a, b) => (Math.abs(b.x - row.x) < Math.abs(a.x - row.x) ? b : a));
      return update(model, { selected: nearest.event.index });
    }
    return null;
  };

  // The slider's own keys, too: JupyterLab prevents what arrow keys do by default, outside of text fields.
  const walk = (event) => {
    const moves = { ArrowRight: () => go(place() + 1), ArrowLeft: () => go(place() - 1), ArrowDown: () => hop(1), ArrowUp: () => hop(-1), Home: () => go(0), End: () => go(shown.events.length - 1) };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  };
  plot.addEventListener("keydown", walk);
  slider.addEventListener("keydown", walk);
  plot.addEventListener("click", (event) => {
    plot.focus({ preventScroll: true });
    const mark = event.target.closest("[data-index]");
    if (mark) return update(model, { selected: Number(mark.dataset.index) });
    // Elsewhere: the event nearest in time, of the lane if it has any.
    const box = plot.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const lane = lanes.find((one) => y >= one.y && y < one.y + one.height);
    const all = [...rows.values()];
    const here = all.filter(({ spots }) => spots.some((spot) => spot.lane === lane));
    const nearest = (here.length ? here : all).reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));
    return update(model, { selected: nearest.event.index });
  });
  slider.addEventListener("input", () => go(Number(slider.value)));
  chooser.control.addEventListener("change", () => update(model, { cta: chooser.control.value ? chooser.control.value.split(",").map(Number) : [] }));

  barriers.control.addEventListener("change", () => update(model, { barrier: barriers.control.value }));

  let width = 0;
  const watch = new ResizeObserver(() => {
    if (!shown || zoom !== null || Math.abs(scroll.clientWidth - width) < 8) return;
    width = scroll.clientWidth;
    drawPlot();
    select();
  });
  watch.observe(scroll);
  const stops = [follow(model, ["trace", "cta", "barrier", "end"], drawAll), follow(model, ["selected"], select)];
  return () => {
    watch.disconnect();
    stops.forEach((stop) => stop());
  };
}

export const _math = { readBook, markOf, only, pack, sentence, stateAt, stateWords, timeScale };
export default { render };
