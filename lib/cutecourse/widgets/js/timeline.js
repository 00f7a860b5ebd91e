// What a recorded launch adds up to: its barriers' states, transfers, MMAs, waits, and each event in words.
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
  tieMmas(events);
  const crowd = ctas.length > 1 || barriers.some((one) => one.rank !== 0);
  const grids = trace.grid.some((extent, i) => extent !== trace.cluster[i]);
  // Without clusters, a CTA's number is its number in the grid.
  const alone = trace.cluster.every((extent) => extent === 1);
  return { ctas, barriers, events, crowd, grids, alone };
}

/**
 * What events of tcgen05 have to do with each other: `issue`, the MMA that is complete; `by`, the commit that an
 * arrival comes from (they come in the order of a thread's commits); `pair`, whether both CTAs of a pair take part.
 */
function tieMmas(events) {
  const issues = new Map();
  const commits = new Map(); // thread, line and barrier -> commits that have not arrived there yet
  const place = (event, rank) => [event.cta.id, event.warp, event.lane, event.line, rank, event.barrier.offset].join();
  for (const event of events) {
    if (isIssue(event)) issues.set(event.index, event);
    event.issue = /^(wg)?mma\.complete$/.test(event.kind) ? (issues.get(event.data.issue) ?? null) : null;
    event.pair = /^(mma|tmem)\./.test(event.kind) && (event.issue ?? event).data.group === 2;
    if (event.kind === "mma.commit")
      for (const rank of targets(event)) {
        const key = place(event, rank);
        if (!commits.has(key)) commits.set(key, []);
        commits.get(key).push(event);
      }
    event.by = event.kind === "mbarrier.arrive" && event.barrier ? (commits.get(place(event, event.barrier.rank))?.shift() ?? null) : null;
  }
}

/** The ranks of the CTAs in which a commit arrives at a barrier. */
function targets({ data, barrier }) {
  return data.mask === undefined ? [barrier.rank] : Array.from({ length: 32 }, (_, rank) => rank).filter((rank) => (data.mask >>> rank) & 1);
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

/** The MMAs that a thread issued between two of its commits, with the commit behind them and their completions. */
export function mmasOf(events) {
  const found = [];
  const open = new Map();
  for (const event of events) {
    const thread = [event.cta.id, event.warp, event.lane].join();
    if (isIssue(event)) {
      if (!open.has(thread)) {
        open.set(thread, { issues: [], commit: null, completions: [] });
        found.push(open.get(thread));
      }
      open.get(thread).issues.push(event);
    } else if ((event.kind === "mma.commit" || event.kind === "wgmma.commit") && open.has(thread)) {
      open.get(thread).commit = event;
      open.delete(thread);
    } else if (event.issue) found.find((one) => one.issues.includes(event.issue)).completions.push(event);
  }
  return found.map((one) => ({ ...one, done: one.completions.length === one.issues.length, ...mmaLabel(one) }));
}

/** "4 MMAs 256×256×16", and "4 MMAs". */
function mmaLabel({ issues, commit }) {
  const count = number(issues.length, "MMA");
  const shapes = [...new Set(issues.map(({ data }) => mmaShape(data)))];
  return { count, label: `${count} ${shapes.length === 1 ? shapes[0] : `of ${shapes.length} shapes`}${commit ? "" : ", no commit"}` };
}

export const isIssue = ({ kind }) => kind === "mma.issue" || kind === "wgmma.issue";

const mmaShape = ({ m, n, k }) => `${m}×${n}×${k}`;

const family = (kind) => kind.slice(0, kind.lastIndexOf("."));

/** Whether an event can begin a wait. tmem.wait cannot: what it waits for is over when it is executed. */
export function mayWait({ kind }) {
  return (kind.endsWith(".wait") && kind !== "tmem.wait") || kind === "tmem.alloc" || kind === "tmem.dealloc";
}

/** Every wait that did not pass at once, with the position at which it went on (null: never). */
export function waitsOf(events) {
  const found = [];
  const open = new Map();
  for (const event of events) {
    if (!mayWait(event) && !event.kind.endsWith(".resume")) continue;
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

/**
 * The CTAs that an event is about: whose thread did it, whose barrier it touched or will touch, where its bytes
 * went, and with .cta_group::2 the other one of the pair.
 */
export function touches(event) {
  const ranks = [event.cta.rank, ...(event.barrier ? [event.barrier.rank] : []), ...(event.data.destinations ?? []).map((to) => to.rank)];
  if (event.kind === "mma.commit") ranks.push(...targets(event));
  if (event.pair) ranks.push(event.cta.rank ^ 1);
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

const tensorPlace = (address) => `lane ${address >>> 16}, column ${address & 0xffff} of tensor memory`;
const ofPair = ({ group }) => (group === 2 ? " in both CTAs of the pair" : "");
const registersAt = (d) => `${number(d.registers, "register")} a thread`;

function columnWords(d, does) {
  const columns = `${number(d.columns, "column")} of tensor memory${ofPair(d)}`;
  if (d.outcome === "passed") return `${does} ${columns}, from column ${d.address & 0xffff} on`;
  return `waits ${does === "frees" ? "for the other CTA of the pair, to free" : "for"} ${columns}`;
}

function mmaWords(d) {
  const [into, a, b] = d.types.split(".");
  const operands = d.a === undefined ? "A and B are in shared memory" : `A is at ${tensorPlace(d.a)}, B in shared memory`;
  return `${mmaShape(d)}, ${a} times ${b}; D is ${into} at ${tensorPlace(d.d)} and is ${d.accumulate ? "added to" : "overwritten"}; ${operands}${d.group === 2 ? "; both CTAs of the pair take part" : ""}`;
}

function commitWords(event, names) {
  const { issues, mask } = event.data;
  const which = issues.length > 4 ? `#${issues[0]} to #${issues.at(-1)}` : issues.map((index) => `#${index}`).join(", ");
  const when = issues.length ? `when ${number(issues.length, "MMA")} of its thread (${which}) ${issues.length === 1 ? "is" : "are"} complete` : "when its thread's earlier operations are complete, of which no MMA is left";
  const ranks = targets(event);
  const where = mask === undefined ? barrierName(event.barrier, names) : `${event.barrier.name} of CTA${ranks.length === 1 ? "" : "s"} ${ranks.join(", ")} (multicast mask 0x${mask.toString(16).padStart(4, "0")})`;
  return `${when}, it arrives at barrier ${where}`;
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
  "tmem.alloc": (d) => columnWords(d, "allocates"),
  "tmem.dealloc": (d) => columnWords(d, "frees"),
  "tmem.relinquish": (d) => `gives up its CTA's right to allocate tensor memory${d.group === 2 ? " (.cta_group::2)" : ""}`,
  "tmem.load": (d) => `loads ${registersAt(d)} from ${tensorPlace(d.address)} on, shape ${d.shape}`,
  "tmem.store": (d) => `stores ${registersAt(d)} to ${tensorPlace(d.address)} on, shape ${d.shape}`,
  "tmem.copy": (d) => `issues a copy from shared memory to ${tensorPlace(d.address)}${ofPair(d)}`,
  "tmem.wait": (d) => `executes tcgen05.wait::${d.name}: its earlier ${d.name === "ld" ? "loads from" : "stores to"} tensor memory are complete`,
  "wgmma.issue": (d) => `issues a wgmma, ${mmaShape(d)}, ${d.types.split(".").slice(1).join(" times ")}; D is in registers, and is ${d.accumulate ? "added to" : "overwritten"}`,
  "wgmma.complete": (d) => `has its wgmma #${d.issue} complete`,
  "wgmma.commit": (d) => `closes a group of ${d.issues.length} wgmma`,
  "wgmma.wait": (d) => `${d.outcome === "passed" ? "goes on at once:" : "waits until"} at most ${number(d.left, "wgmma group")} ${d.left === 1 ? "is" : "are"} under way`,
  "wgmma.resume": () => "goes on: its wgmma groups are far enough",
  "registers.release": (d) => `keeps ${number(d.registers, "register")} per thread and gives the rest to its CTA's pool`,
  "registers.wait": (d) => `${d.outcome === "passed" ? "takes registers from" : "waits for registers of"} its CTA's pool, to have ${d.registers} per thread`,
  "registers.resume": (d) => `goes on with ${number(d.registers, "register")} per thread`,
  "memory.load": (d) => `loads from memory with ${d.name}: ${number(d.lanes, "lane")}`,
  "memory.store": (d) => `stores to memory with ${d.name}: ${number(d.lanes, "lane")}`,
  "memory.atomic": (d) => `changes memory with ${d.name}: ${number(d.lanes, "lane")}`,
  fence: (d) => `executes ${d.name.startsWith("fence") || d.name.startsWith("tcgen05.") ? "" : "fence "}${d.name}`,
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
  if (event.by) return `commit #${event.by.index} of ${who}${line} arrives at barrier ${on}${after}`;
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
  if (kind === "mma.issue") return `${who} issues MMA #${event.index}${line}: ${mmaWords(data)}`;
  if (kind === "mma.complete") {
    const { issue } = event;
    return `MMA #${data.issue}${issue ? ` (${mmaShape(issue.data)}, issued by ${actorName(issue, names)})` : ""} is complete`;
  }
  if (kind === "mma.commit") return `${who} commits${data.group === 2 ? " for the pair" : ""}${line}: ${commitWords(event, names)}`;
  const other = OTHER[kind];
  if (kind.startsWith("tmem.") && other) return `${who}${line} ${other(data)}`;
  return `${who} ${other ? other(data) : kind}${line}`;
}
