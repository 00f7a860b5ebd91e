// What a recorded launch adds up to: its barriers' states, its transfers, its waits, and each event in words.
// An event that the timeline works with knows its position among the events (`at`) and its index in the launch.

/** The compact trace as objects. */
export function readTrace(trace) {
  const ctas = trace.ctas.map(([cluster, rank, block], id) => ({ id, cluster, rank, block }));
  const barriers = trace.barriers.map(([cluster, rank, offset, name], id) => ({ id, cluster, rank, offset, name: name || `shared 0x${offset.toString(16)}` }));
  const events = trace.events.map(([index, kind, time, cta, warp, lane, line, data], at) => ({
    at,
    index,
    kind: trace.kinds[kind],
    time,
    cta: ctas[cta],
    warp,
    lane,
    line,
    data,
    barrier: data.barrier === undefined ? null : barriers[data.barrier],
    state: data.state ? { phase: data.state[0], pending: data.state[1], tx: data.state[2] } : null,
  }));
  const crowd = ctas.length > 1 || barriers.some((one) => one.rank !== 0);
  const grids = trace.grid.some((extent, i) => extent !== trace.cluster[i]);
  // Without clusters, a CTA's number is its number in the grid.
  const alone = trace.cluster.every((extent) => extent === 1);
  return { ctas, barriers, events, crowd, grids, alone };
}

/** Each barrier's lives, from init to inval: every state it was in, and at which event. */
export function barrierLives(events) {
  const lives = [];
  const living = new Map();
  for (const event of events) {
    if (!event.kind.startsWith("mbarrier.") || !event.barrier) continue;
    const { id } = event.barrier;
    if (event.kind === "mbarrier.init") {
      const life = { barrier: event.barrier, count: event.data.count, from: event.at, to: null, completions: [], states: [{ at: event.at, phase: 0, pending: event.data.count, tx: 0 }] };
      living.set(id, life);
      lives.push(life);
      continue;
    }
    if (!living.has(id)) {
      // A trace that was cut may lack the init: its life begins with the first state that is known.
      if (!event.state) continue;
      const life = { barrier: event.barrier, count: null, from: event.at, to: null, completions: [], states: [] };
      living.set(id, life);
      lives.push(life);
    }
    const life = living.get(id);
    if (event.state) life.states.push({ at: event.at, ...event.state });
    else if (event.kind === "mbarrier.phase") life.completions.push({ at: event.at, phase: event.data.phase });
    else if (event.kind === "mbarrier.inval") {
      life.to = event.at;
      living.delete(id);
    }
  }
  return lives;
}

/** The state of a life after the event at a position, or null before its init and after its inval. */
export function stateAt(life, at) {
  if (at < life.from || (life.to !== null && at >= life.to)) return null;
  let found = null;
  for (const state of life.states) {
    if (state.at > at) break;
    found = state;
  }
  return found;
}

/** Each asynchronous copy with the events that landed its bytes or read its source. */
export function transfersOf(events) {
  const found = new Map();
  for (const event of events)
    if (event.kind === "tma.issue") found.set(event.index, { issue: event, landings: [], read: null, signals: [] });
    else if (event.data.transfer !== undefined && found.has(event.data.transfer)) {
      const one = found.get(event.data.transfer);
      if (event.kind === "tma.land") one.landings.push(event);
      else if (event.kind === "tma.read") one.read = event;
      else if (event.kind === "mbarrier.complete_tx") one.signals.push(event);
    }
  return [...found.values()].map((one) => {
    const copies = one.issue.data.operation === "load" ? Math.max(1, one.issue.data.destinations?.length ?? 1) : 1;
    const landed = one.landings.reduce((sum, event) => sum + event.data.bytes, 0);
    const due = one.issue.data.bytes * copies;
    const ends = [...one.landings, ...one.signals, ...(one.read ? [one.read] : [])].map((event) => event.at);
    const done = one.landings.length ? landed >= due : one.read !== null || one.issue.data.operation === "prefetch";
    return { ...one, landed, due, done, last: Math.max(one.issue.at, ...ends) };
  });
}

const family = (kind) => kind.slice(0, kind.lastIndexOf("."));

/** Every wait that did not pass at once, with the position at which it went on (null: never). */
export function waitsOf(events) {
  const found = [];
  const open = new Map();
  for (const event of events) {
    if (!/\.(wait|resume)$/.test(event.kind)) continue;
    const what = event.barrier ? [event.barrier.id, event.data.parity] : [event.data.number];
    const key = JSON.stringify([family(event.kind), event.cta.id, event.warp, event.lane, ...what]);
    const outcome = event.kind.endsWith(".resume") ? "passed" : (event.data.outcome ?? "blocked");
    if (outcome !== "passed") {
      if (!open.has(key)) {
        open.set(key, { event, from: event.at, to: null, tries: 0, last: event.at });
        found.push(open.get(key));
      }
      open.get(key).tries += 1;
      open.get(key).last = event.at;
    } else if (open.has(key)) {
      open.get(key).to = event.at;
      open.delete(key);
    }
  }
  return found;
}

/** The CTAs that an event is about: whose thread did it, whose barrier it touched, where its bytes went. */
export function touches(event) {
  const ranks = [event.cta.rank, ...(event.barrier ? [event.barrier.rank] : []), ...(event.data.destinations ?? []).map((to) => to.rank)];
  return { cluster: event.cta.cluster, ranks };
}

/**
 * Where each event stands on the time axis: one step for each event, and more where the machine issued many
 * instructions in between, by the logarithm, so that idle time costs little room. Returns positions and breaks.
 */
export function timeScale(events, step = 15) {
  const xs = [];
  const breaks = [];
  let x = 0;
  for (const [i, event] of events.entries()) {
    const gap = i ? event.time - events[i - 1].time : 0;
    const more = gap > 1 ? Math.min(30, 4 * Math.log2(gap)) : 0;
    if (i) x += step + more;
    if (gap >= 64) breaks.push({ x: x - (step + more) / 2, gap });
    xs.push(x);
  }
  return { xs, breaks, width: x };
}

// ---- words ----

const number = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
const crd = (values) => `(${values.join(",")})`;
const hexadecimal = (value) => `0x${value.toString(16)}`;

export function ctaName(cta, { grids, alone }) {
  if (alone) return `CTA ${cta.cluster}`;
  return grids ? `CTA ${cta.cluster}:${cta.rank}` : `CTA ${cta.rank}`;
}

export function barrierName(barrier, names) {
  return names.crowd ? `${barrier.name} of ${ctaName(barrier, names)}` : barrier.name;
}

export function actorName(event, names) {
  const cta = names.crowd ? `${ctaName(event.cta, names)} ` : "";
  if (event.warp === null) return names.crowd ? ctaName(event.cta, names) : "the machine";
  const lanes = event.data.lanes ? ` (${event.data.lanes} lanes)` : "";
  return `${cta}warp ${event.warp}${event.lane === null ? lanes : ` lane ${event.lane}`}`;
}

/** "phase 2 under way, 0 arrivals and 8192 bytes missing". */
export function stateWords({ phase, pending, tx }) {
  if (tx < 0) return `phase ${phase} under way, ${number(pending, "arrival")} missing and ${number(-tx, "byte")} more than expected so far`;
  return `phase ${phase} under way, ${number(pending, "arrival")} and ${number(tx, "byte")} missing`;
}

const THINGS = { load: "load", store: "store", reduce: "reduction", prefetch: "prefetch" };

function transferWords(data, names) {
  const of = data.tensor ? ` of ${data.tensor}` : "";
  const parts = [`a ${THINGS[data.operation] ?? data.operation}${of}`];
  if (data.coords?.length) parts.push(`at ${crd(data.coords)}, box ${crd(data.box ?? [])}`);
  parts.push(`${number(data.bytes, "byte")}`);
  if (data.source && typeof data.source === "object") parts.push(`from ${Object.entries(data.source).map(([k, v]) => `${k} ${v}`).join(" ")}`);
  else if (data.source !== undefined) parts.push(`from ${typeof data.source === "number" ? hexadecimal(data.source) : data.source}`);
  if (data.destinations?.length) parts.push(`to ${data.destinations.map((to) => `${names.crowd ? `CTA ${to.rank} ` : "shared "}${hexadecimal(to.offset)}`).join(", ")}`);
  if (data.mask !== undefined) parts.push(`multicast mask 0x${data.mask.toString(16).padStart(4, "0")}`);
  return parts.join(", ");
}

const OTHER = {
  "bulk.commit": (d) => `closes bulk group ${d.group}`,
  "bulk.wait": (d) => `${d.outcome === "passed" ? "goes on at once:" : "waits until"} at most ${number(d.left, "bulk group")} ${d.outcome === "passed" ? "are" : "is"} not ${d.read ? "read" : "complete"}`,
  "bulk.resume": () => "goes on: its bulk groups are far enough",
  "cluster.arrive": () => "arrives at the cluster's barrier",
  "cluster.wait": (d) => (d.outcome === "passed" ? "passes the cluster's barrier at once" : "waits at the cluster's barrier"),
  "cluster.resume": () => "goes on: all CTAs of the cluster have arrived",
  "barrier.arrive": (d) => `arrives at barrier ${d.number} of its CTA`,
  "barrier.wait": (d) => `waits at barrier ${d.number} of its CTA`,
  "barrier.resume": (d) => `goes on from barrier ${d.number} of its CTA`,
  fence: (d) => `executes ${d.name.startsWith("fence") ? "" : "fence "}${d.name}`,
};

/** An event as a sentence with all its data. `state` is its barrier's state at that time, where it has one. */
export function sentence(event, state, names) {
  const { kind, data } = event;
  const who = actorName(event, names);
  const line = event.line === null ? "" : ` at line ${event.line}`;
  const on = event.barrier ? barrierName(event.barrier, names) : "";
  const after = state ? `: ${stateWords(state)}` : "";
  if (kind === "mbarrier.init") return `${who} initialises barrier ${on}${line} for ${number(data.count, "arrival")} a phase${after}`;
  if (kind === "mbarrier.inval") return `${who} invalidates barrier ${on}${line}`;
  if (kind === "mbarrier.arrive") {
    const dropped = data.dropped ? ` and drops ${data.dropped} of the count for later phases` : "";
    return `${who} arrives${line} at barrier ${on}, ${data.count === 1 ? "once" : `${data.count} times`}${dropped}${after}`;
  }
  if (kind === "mbarrier.expect_tx") return `${who} tells barrier ${on}${line} to expect ${number(data.bytes, "byte")} more${after}`;
  if (kind === "mbarrier.complete_tx") return `${number(data.bytes, "byte")}${data.transfer === undefined ? "" : ` of transfer #${data.transfer}`} are counted at barrier ${on}${after}`;
  if (kind === "mbarrier.phase") return `phase ${data.phase} of barrier ${on} is complete${after}`;
  if (kind === "mbarrier.resume") return `${who} goes on${line}: the phase of parity ${data.parity} of barrier ${on} is complete${after}`;
  if (kind === "mbarrier.wait") {
    const does = { passed: `passes ${data.name}`, blocked: "waits", false: `asks with ${data.name} and hears no` }[data.outcome];
    return `${who} ${does}${line} for barrier ${on}, parity ${data.parity}${after}`;
  }
  if (kind === "tma.issue") {
    const signal = event.barrier ? `; barrier ${on} will count the bytes` : "";
    return `${who} issues transfer #${event.index}${line}: ${transferWords(data, names)}${signal}${after}`;
  }
  if (kind === "tma.land") return `${number(data.bytes, "byte")} of transfer #${data.transfer} land at ${hexadecimal(data.offset)} of ${names.crowd ? `${ctaName(event.cta, names)}'s ` : ""}shared memory`;
  if (kind === "tma.read") return `transfer #${data.transfer} has read its source`;
  const other = OTHER[kind];
  return `${who} ${other ? other(data) : kind}${line}`;
}
