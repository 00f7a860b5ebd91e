// A tile of shared memory: where its elements lie, which bank holds them, and how an access is served.
import { flatten, formatLayout, offsetAt, parseLayout, product } from "./notation.js";

export const BANKS = 32;
export const BANK_BYTES = 4;
export const WARP_LANES = 32;
export const MOST_SWIZZLE_BITS = 6;
export const MOST_BASE = 12;
export const MOST_SHIFT = 12;
export const MOST_PADDING = 64;

export const lanesAtOnce = (bytes) => (BANKS * BANK_BYTES) / Math.max(bytes, BANK_BYTES);
const bitLength = (number) => number.toString(2).length * (number > 0);

/** A swizzle [B, M, S] as a function; offsets stay below 2**31. */
export function swizzleOf([bits, base, shift]) {
  const read = ((1 << bits) - 1) << (base + shift);
  return (offset) => offset ^ ((offset & read) >> shift);
}

/** The mode whose stride grows with a padding, or null where the layout has no such single stride. */
export function paddedMode(layout) {
  const strides = flatten(layout.stride);
  if (strides.length !== 2 || !strides.includes(1) || strides[0] === strides[1]) return null;
  return strides[0] > strides[1] ? 0 : 1;
}

/** The tile of a widget's state: offsets of all elements, and what follows from them. */
export function tileOf({ notation, bits, swizzle, padding, base }) {
  const layout = parseLayout(notation);
  const extents = layout.shape.map(product);
  const grown = paddedMode(layout);
  const plain = { shape: layout.shape, stride: layout.stride };
  if (padding && grown !== null) {
    const strides = flatten(layout.stride);
    strides[grown] += padding;
    plain.shape = extents;
    plain.stride = strides;
  }
  if (swizzle[0] > swizzle[2]) throw new Error(`Swizzle<${swizzle.join(",")}>: S is at least B.`);
  const move = swizzleOf(swizzle);
  const count = extents[0] * extents[1];
  const before = Array.from({ length: count }, (_, i) => offsetAt(plain, i));
  const after = before.map(move);
  const places = grown === null ? 1 + before.reduce((most, one) => Math.max(most, one), 0) : extents[grown] * flatten(plain.stride)[grown];
  const holds = (mode) => flatten(layout.stride[mode]).includes(1);
  const across = holds(0) && !holds(1) ? 0 : 1;
  const tile = { notation, bits, swizzle, padding, base, extents, grown, before, after, places, across, bytes: (places * bits) / 8 };
  tile.text = `${swizzle[0] ? `S<${swizzle.join(",")}> o 0 o ` : ""}${formatLayout(plain)}`;
  tile.index = (row, column) => row + extents[0] * column;
  tile.address = (index) => base + (after[index] * bits) / 8;
  tile.bank = (index) => Math.floor(tile.address(index) / BANK_BYTES) % BANKS;
  tile.bytesOf = (access) => (access.elems * bits) / 8;
  tile.addresses = (access) => access.indices.map((index) => (index < 0 ? null : tile.address(index)));
  tile.waves = (access) => (obstacle(tile, access) ? [] : wavefrontsOf(tile.addresses(access), tile.bytesOf(access), access.kind));
  return tile;
}

/** How many elements a cell of the picture holds: what a lane accesses at once, at least a word. */
export function unitOf(tile, access) {
  let unit = Math.max(Math.floor((BANK_BYTES * 8) / tile.bits), access?.elems ?? 1, 1);
  const extent = tile.extents[tile.across];
  const step = tile.across === 0 ? 1 : tile.extents[0];
  const whole = () => {
    if (extent % unit) return false;
    for (let i = 0; i < extent; i += 1) if (tile.before[i * step] !== tile.before[(i - (i % unit)) * step] + (i % unit)) return false;
    return true;
  };
  while (unit > 1 && !whole()) unit = Math.floor(unit / 2);
  return unit;
}

/** [first lane, lanes] of each group that is served together; groups of a load merge if all neighbours agree. */
export function groupsOf(addresses, bytes, kind) {
  const span = lanesAtOnce(bytes);
  const groups = Array.from({ length: WARP_LANES / span }, (_, i) => [i * span, span]);
  if (kind !== "load" || span === WARP_LANES) return groups;
  const at = (lane) => addresses[lane] ?? null;
  const agree = (distance) =>
    Array.from({ length: WARP_LANES }, (_, lane) => [at(lane), at(lane ^ distance)]).every(([one, other]) => one === null || other === null || one === other);
  return agree(1) || agree(2) ? groups.filter((_, i) => i % 2 === 0).map(([first]) => [first, 2 * span]) : groups;
}

/** Deals the words of an access to wavefronts: { first, span, words: [[bank, word, lanes], ...] }. */
export function wavefrontsOf(addresses, bytes, kind = "load") {
  const found = [];
  for (const [first, span] of groupsOf(addresses, bytes, kind)) {
    const wanted = Array.from({ length: BANKS }, () => []); // of each bank: [word, lanes]
    addresses.slice(first, first + span).forEach((address, i) => {
      if (address === null) return;
      for (let byte = address; byte < address + Math.max(bytes, BANK_BYTES); byte += BANK_BYTES) {
        const word = Math.floor(byte / BANK_BYTES);
        const queue = wanted[word % BANKS];
        const shared = kind === "atomic" ? undefined : queue.find(([other]) => other === word);
        if (shared) shared[1].push(first + i);
        else queue.push([word, [first + i]]);
      }
    });
    const deepest = Math.max(...wanted.map((queue) => queue.length));
    for (let turn = 0; turn < deepest; turn += 1)
      found.push({ first, span, words: wanted.flatMap((queue, bank) => (turn < queue.length ? [[bank, ...queue[turn]]] : [])) });
  }
  return found;
}

export const lanesOf = (wave) => [...new Set(wave.words.flatMap(([, , lanes]) => lanes))].sort((a, b) => a - b);

/** Neighbouring banks that serve the same lanes: [first bank, banks, lanes]. */
export function runsOf(wave) {
  const runs = [];
  for (const [bank, , lanes] of wave.words) {
    const last = runs.at(-1);
    if (last && last[0] + last[1] === bank && String(last[2]) === String(lanes)) last[1] += 1;
    else runs.push([bank, 1, lanes]);
  }
  return runs;
}

/** The lanes that the first wavefront of their group does not serve. */
export function waitingLanes(waves) {
  const late = new Set();
  waves.forEach((wave, i) => {
    if (i > 0 && waves[i - 1].first === wave.first) for (const lane of lanesOf(wave)) late.add(lane);
  });
  return late;
}

/** Why the instruction cannot run on this tile; "" when it can. */
export function obstacle(tile, access) {
  const [bits, base, shift] = tile.swizzle;
  if (bits && 1 << base < access.elems) return `Swizzle<${bits},${base},${shift}> moves the ${access.elems} elements of one lane apart. M must be at least ${bitLength(access.elems) - 1}.`;
  const bytes = tile.bytesOf(access);
  const addresses = tile.addresses(access);
  const lane = addresses.findIndex((address) => address !== null && address % bytes);
  if (lane < 0) return "";
  return `Lane ${lane} would access byte ${addresses[lane]}, which is no multiple of ${bytes}. A GPU stops with a misaligned address.`;
}

/** Where the swizzle leads behind the tile; "" when it does not. */
export function overrun(tile) {
  const index = tile.after.findIndex((offset) => offset >= tile.places);
  return index < 0 ? "" : `The swizzle sends offset ${tile.before[index]} to ${tile.after[index]}, and the tile ends after offset ${tile.places - 1}.`;
}

// ---- words ----

const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Ascending numbers as runs: `0 to 7, 12`. */
export function spans(numbers) {
  const runs = [];
  for (const number of numbers) {
    if (runs.length && number === runs.at(-1)[1] + 1) runs.at(-1)[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([a, b]) => (a === b ? `${a}` : b > a + 1 ? `${a} to ${b}` : `${a}, ${b}`)).join(", ");
}
export const lanesNamed = (lanes) => `lane${lanes.length === 1 ? "" : "s"} ${spans(lanes)}`;

/** What an access costs: { wavefronts, ideal, conflicts }. */
export function costOf(waves) {
  const found = new Map(); // of each group: its words
  for (const { first, words } of waves) {
    if (!found.has(first)) found.set(first, new Set());
    for (const [, word] of words) found.get(first).add(word);
  }
  const ideal = [...found.values()].reduce((sum, one) => sum + Math.ceil(one.size / BANKS), 0);
  return { wavefronts: waves.length, ideal, conflicts: waves.length - ideal };
}

/** What an access costs, in words. */
export function sentence(tile, access) {
  const problem = obstacle(tile, access);
  if (problem) return problem;
  const addresses = tile.addresses(access);
  const bytes = tile.bytesOf(access);
  const waves = tile.waves(access);
  const firsts = [...new Set(waves.map((wave) => wave.first))];
  const depthOf = (first) => waves.filter((wave) => wave.first === first).length;
  const worst = firsts.reduce((best, first) => (depthOf(first) > depthOf(best) ? first : best));
  const depth = depthOf(worst);
  const last = waves.findLast((wave) => wave.first === worst);
  const [bank] = last.words[0];
  const active = addresses.slice(worst, worst + last.span).filter((address) => address !== null);
  const starting = active.map((address) => Math.floor(address / BANK_BYTES)).filter((word) => word % BANKS === bank);
  let told = `bank ${bank} is asked for ${depth} different words`;
  if (depth === 1) told = "no bank is asked for two different words";
  else if (new Set(starting).size === depth && starting.length === depth) told = `${starting.length} of ${active.length} lanes start in bank ${bank}`;
  else if (access.kind === "atomic") told = `${depth} lanes update words of bank ${bank}, one after another`;
  const { wavefronts, ideal, conflicts } = costOf(waves);
  const total = `${counted(wavefronts, "wavefront")}${conflicts ? ` where ${ideal} would do` : ""}, ${counted(conflicts, "conflict")}`;
  if (firsts.length === 1) return `${told[0].toUpperCase()}${told.slice(1)}: ${total}.`;
  const atOnce = lanesAtOnce(bytes);
  const together = waves.some((wave) => wave.span > atOnce) ? `, or ${2 * atOnce} if each wants what its neighbour wants` : "";
  const served = `Each lane accesses ${bytes} bytes, so ${atOnce} lanes are served together${together}.`;
  if (depth === 1) return `${served} In each group ${told}: ${total}.`;
  return `${served} Lanes ${worst} to ${worst + last.span - 1}: ${told.replace(" lanes start", " start")}, so ${depth} wavefronts. All ${firsts.length} groups together: ${total}.`;
}

/** What one wavefront serves, in words; "" for 0, which stands for all of them. */
export function wavefrontSentence(waves, number) {
  if (!number || !waves.length) return "";
  const one = waves[number - 1];
  const busy = one.words.length;
  return `Wavefront ${number} of ${waves.length} serves ${lanesNamed(lanesOf(one))}: ${busy} of the ${BANKS} banks ${busy === 1 ? "delivers" : "deliver"} a word.`;
}

/** Where an element lies, in words. */
export function placeSentence(tile, row, column) {
  const index = tile.index(row, column);
  const address = tile.address(index);
  const moved = tile.after[index] === tile.before[index] ? "" : `, and the swizzle makes it ${tile.after[index]}`;
  return `(${row}, ${column}) has offset ${tile.before[index]}${moved}. This is byte ${address}, in word ${Math.floor(address / BANK_BYTES)} of bank ${tile.bank(index)}.`;
}

/** The bits of an offset: how many, which choose the bank (from, to), which are read and which are flipped. */
export function bitsOf(tile) {
  const [bits, base, shift] = tile.swizzle;
  const low = Math.max(0, bitLength(Math.floor((BANK_BYTES * 8) / tile.bits)) - 1);
  const high = bitLength(Math.max(1, Math.floor((BANKS * BANK_BYTES * 8) / tile.bits))) - 1;
  const from = (first) => Array.from({ length: bits }, (_, i) => first + i);
  const read = from(base + shift);
  return { count: Math.max(bitLength(tile.places - 1), high, ...read.map((bit) => bit + 1), 1), bank: [low, high], read, flipped: from(base) };
}
