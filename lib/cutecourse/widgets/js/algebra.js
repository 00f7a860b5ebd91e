// The layout algebra, step by step: the same functions, refusals and steps as `cutecourse.layout`, for integer strides.
import {
  compactStride,
  cosize,
  flatten,
  formatLayout,
  formatTuple,
  fromModes,
  isTuple,
  leaves,
  makeLayout,
  mode,
  modes,
  product,
  rank,
  size,
} from "./notation.js";

export class AlgebraError extends Error {}

// ---- the steps of the computation that is going on ----

const stack = [];
let steps = [];

function note(rule, text, values = {}) {
  const list = Object.entries(values).map(([name, value]) => ({ name, value: plain(value) }));
  steps.push({ operation: stack.at(-1) ?? "", level: Math.max(stack.length - 1, 0), rule, text, values: list });
}

/** Does something of which no steps are wanted; those noted before stay. */
export function quietly(run) {
  const kept = steps;
  steps = [];
  try {
    return run();
  } finally {
    steps = kept;
  }
}

const isLayout = (value) => value !== null && typeof value === "object" && !isTuple(value);

/** An extent stands for the compact layout of that size. */
const asLayout = (tiler) => (typeof tiler === "number" ? makeLayout(tiler, compactStride(tiler)) : tiler);

/** A value as a snapshot holds it: numbers as they are, layouts and tilers as their notation. */
function plain(value) {
  if (isLayout(value)) return formatLayout(value);
  return isTuple(value) ? formatTiler(value) : value;
}

export function formatTiler(tiler) {
  if (tiler === null) return "_";
  if (isTuple(tiler)) return `(${tiler.map(formatTiler).join(",")})`;
  return isLayout(tiler) ? formatLayout(tiler) : String(tiler);
}

const explained =
  (name, run) =>
  (...operands) => {
    stack.push(name);
    try {
      return run(...operands);
    } finally {
      stack.pop();
    }
  };

/** Where it went wrong, for messages. */
const at = (path) => (path.length ? `mode [${path.join(", ")}]: ` : "");

// ---- coalesce and filter ----

function fromLeaves(list, unpack = true) {
  if (!list.length) return makeLayout(1, 0);
  if (unpack && list.length === 1) return makeLayout(...list[0]);
  return makeLayout(list.map(([extent]) => extent), list.map(([, stride]) => stride));
}

function merge(layout) {
  const list = leaves(layout);
  note("flatten", "list the modes from left to right", { modes: fromLeaves(list, false) });
  const merged = [];
  for (const [extent, stride] of list) {
    const here = `${extent}:${stride}`;
    if (extent === 1) {
      note("drop", `${here} has one coordinate, it adds nothing`, { "so far": fromLeaves(merged) });
      continue;
    }
    if (!merged.length) {
      merged.push([extent, stride]);
      note("keep", `${here} starts the result`, { "so far": fromLeaves(merged) });
      continue;
    }
    const [lastExtent, lastStride] = merged.at(-1);
    const reach = lastExtent * lastStride;
    if (reach === stride) {
      merged[merged.length - 1] = [lastExtent * extent, lastStride];
      const text = `${lastExtent} * ${lastStride} = ${stride}: mode ${here} carries on where ${lastExtent}:${lastStride} ends`;
      note("merge", text, { "so far": fromLeaves(merged) });
    } else {
      merged.push([extent, stride]);
      const text = `${lastExtent} * ${lastStride} = ${reach}, not ${stride}: mode ${here} stays apart`;
      note("keep", text, { "so far": fromLeaves(merged) });
    }
  }
  return fromLeaves(merged);
}

/** Merge each leaf of a profile on its own; the modes behind the profile stay. */
function mergeByMode(layout, profile, path) {
  if (!isTuple(profile)) {
    note("mode", `coalesce mode [${path.join(", ")}] on its own`, { mode: layout });
    return merge(layout);
  }
  if (profile.length > rank(layout))
    throw new AlgebraError(`${at(path)}the profile ${formatTiler(profile)} has ${profile.length} modes, the layout ${plain(layout)} ${rank(layout)}`);
  const merged = profile.map((part, i) => mergeByMode(mode(layout, i), part, [...path, i]));
  return fromModes([...merged, ...modes(layout).slice(profile.length)]);
}

export const coalesce = explained("coalesce", (layout, profile = null) => {
  const result = isTuple(profile) ? mergeByMode(layout, profile, []) : merge(layout);
  note("result", isTuple(profile) ? "the coalesced modes side by side" : "what is left cannot be merged", { result });
  return result;
});

const filterZeros = explained("filter_zeros", (layout) => {
  const walk = (shape, stride) => (isTuple(stride) ? shape.map((s, i) => walk(s, stride[i])) : stride === 0 ? 1 : shape);
  const result = makeLayout(walk(layout.shape, layout.stride), layout.stride);
  note("result", "a mode with stride 0 returns one offset again and again: extent 1 is enough", { result });
  return result;
});

export const filter = explained("filter", (layout) => {
  const result = coalesce(filterZeros(layout));
  note("result", "no mode repeats and none can be merged", { result });
  return result;
});

// ---- composition ----

/** Coalesce with the last mode taken as going on for ever: it is never dropped. */
function openEnded(layout) {
  const list = leaves(layout);
  if (list.at(-1)[0] === 1) list[list.length - 1] = [2, list.at(-1)[1]];
  const merged = [];
  for (const [extent, stride] of list) {
    if (extent === 1) continue;
    const last = merged.at(-1);
    if (last && last[0] * last[1] === stride) last[0] *= extent;
    else merged.push([extent, stride]);
  }
  return fromLeaves(merged);
}

function composeModes(a, shape, stride, path) {
  if (isTuple(shape)) return fromModes(shape.map((s, i) => composeModes(a, s, stride[i], [...path, i])));
  const b = makeLayout(shape, stride);
  if (stride === 0) {
    note("repeat", `${plain(b)} stays at offset 0 of A`, { mode: b });
    return b;
  }
  if (!isTuple(a.shape)) {
    const result = makeLayout(shape, stride * a.stride);
    note("scale", `A has one mode: stride ${stride} becomes ${stride} * ${a.stride}`, { mode: result });
    return result;
  }
  return walkModes(a, b, path);
}

/** Lead one mode of B through the modes of A, the last of which never ends. */
function walkModes(a, b, path) {
  const taken = [];
  let [extent, stride] = [b.shape, b.stride];
  const list = leaves(a);
  for (const [aExtent, aStep] of list.slice(0, -1)) {
    const here = `${aExtent}:${aStep}`;
    if (aExtent === 0) throw new AlgebraError(`${at(path)}A has the mode ${here} without coordinates`);
    if (stride >= aExtent && stride % aExtent !== 0)
      throw new AlgebraError(
        `${at(path)}${plain(b)} reaches mode ${here} of A with stride ${stride}, which ${aExtent} does not divide (stride divisibility)`,
      );
    const available = Math.ceil(aExtent / stride);
    const nextStride = Math.ceil(stride / aExtent);
    if (available === 1 || extent === 1) {
      note("skip", `stride ${stride} steps over all of ${here}`, { "stride left": nextStride });
    } else {
      const count = Math.min(available, extent);
      if (extent % count !== 0 || count <= 0)
        throw new AlgebraError(
          `${at(path)}${plain(b)} takes ${count} coordinates of mode ${here} of A, and ${count} does not divide ${extent} (shape divisibility)`,
        );
      taken.push([count, stride * aStep]);
      extent /= count;
      note("take", `stride ${stride} finds ${available} coordinates in ${here}, ${count} of them are wanted`, {
        taken: fromLeaves(taken),
        "extent left": extent,
        "stride left": nextStride,
      });
    }
    stride = nextStride;
  }
  if (!taken.length || extent !== 1) {
    const [lastExtent, lastStride] = list.at(-1);
    taken.push([extent, stride * lastStride]);
    // Where a stride did not divide an extent, what was taken can happen to continue: CuTe merges it here.
    for (let left = taken.length - 2; left >= 0; left--) {
      const [[count, step], [nextCount, nextStep]] = [taken[left], taken[left + 1]];
      if (step * count === nextStep) taken.splice(left, 2, [count * nextCount, step]);
    }
    note("last", `the rest comes from the last mode ${lastExtent}:${lastStride} of A`, { taken: fromLeaves(taken) });
  }
  return fromLeaves(taken);
}

function composeTiler(lhs, tiler, path) {
  if (tiler === null) {
    note("keep", `\`_\` keeps mode [${path.join(", ")}] as it is`, { mode: lhs });
    return lhs;
  }
  if (typeof tiler === "number") {
    tiler = asLayout(tiler);
    note("tile", `an extent stands for the layout ${plain(tiler)}`, { tiler });
  }
  if (isLayout(tiler)) {
    const flat = openEnded(lhs);
    note("coalesce", "only the order of A's elements counts, so its modes are merged first", { A: flat });
    return composeModes(flat, tiler.shape, tiler.stride, path);
  }
  tooManyModes(tiler, lhs, path);
  return fromModes(
    tiler.map((part, i) => {
      note("mode", `mode [${[...path, i].join(", ")}] of A with ${formatTiler(part)}`, { A: mode(lhs, i) });
      return composeTiler(mode(lhs, i), part, [...path, i]);
    }),
  );
}

function tooManyModes(tiler, layout, path = []) {
  if (tiler.length > rank(layout))
    throw new AlgebraError(`${at(path)}the tiler ${formatTiler(tiler)} has ${tiler.length} modes, the layout ${formatLayout(layout)} ${rank(layout)}`);
}

export const composition = explained("composition", (lhs, rhs) => {
  if (rhs === null) throw new AlgebraError("`_` alone is no tiler; write a tuple with `_` in it");
  const result = composeTiler(lhs, rhs, []);
  note("result", "the composed modes, nested as the right operand is", { result });
  return result;
});

// ---- complement ----

const ceilDiv = (a, b) => Math.floor((a + b - 1) / b);

/** Tiles of `divisor` over a shape: the divisor is used up from the left. */
function ceilDivShape(shape, divisor) {
  if (!isTuple(shape)) return ceilDiv(shape, divisor);
  return shape.map((part) => {
    const quotient = ceilDivShape(part, divisor);
    divisor = ceilDiv(divisor, product(part));
    return quotient;
  });
}

/** The gaps below, between and above the modes, from the smallest stride up. */
function fill(list, target, shown) {
  if (list.every(([, stride]) => stride === 0)) {
    const all = product(target);
    note("all", `${plain(shown)} stays at one offset: everything is left out`, { size: all });
    return [[all, 1]];
  }
  const ordered = [...list].sort((a, b) => a[1] - b[1]);
  note("sort", "go through the modes from the smallest stride up", { modes: fromLeaves(ordered, false) });
  const gaps = [];
  let filled = 1;
  for (const [extent, stride] of ordered) {
    const gap = Math.floor(stride / filled);
    gaps.push([gap, filled]);
    let text = `stride ${stride} leaves ${gap === 1 ? "1 place" : `${gap} places`} for blocks of ${filled} below ${extent}:${stride}`;
    if (gap === 0) text += ": the modes overlap, the layout is not injective";
    filled = stride * extent;
    note("gap", text, { gaps: fromLeaves(gaps, false), filled });
  }
  const rest = product(ceilDivShape(target, filled));
  gaps.push([rest, filled]);
  note("rest", `${rest} blocks of ${filled} fill the rest`, { gaps: fromLeaves(gaps, false) });
  return gaps;
}

export const complement = explained("complement", (layout, cotarget = null) => {
  const filtered = filter(layout);
  const target = cotarget === null ? cosize(filtered) : isLayout(cotarget) ? cotarget.shape : cotarget;
  const result = coalesce(fromLeaves(fill(leaves(filtered), target, filtered), false));
  note("result", "the gaps, merged", { result });
  return result;
});

// ---- inverses ----

/** The modes of a layout, merged, each with the index its coordinates start from. */
function counted(layout) {
  const flat = coalesce(layout);
  let start = 1;
  const list = leaves(flat).map(([extent, stride]) => {
    const begin = start;
    start *= extent;
    return [extent, stride, begin];
  });
  const starts = list.map(([, , begin]) => begin);
  note("count", "an index counts through these modes, each from a start on", { modes: flat, starts });
  return list.sort((a, b) => a[1] - b[1]);
}

export const right_inverse = explained("right_inverse", (layout) => {
  const found = [];
  let offset = 1;
  for (const [extent, stride, start] of counted(layout)) {
    const here = `${extent}:${stride}`;
    if (stride === offset) {
      found.push([extent, start]);
      offset = extent * stride;
      note("next", `${here} goes on at offset ${stride}, and starts at index ${start}`, { found: fromLeaves(found) });
    } else note("skip", `${here} does not go on at offset ${offset}`, { found: fromLeaves(found) });
  }
  const result = coalesce(fromLeaves(found));
  note("result", "where each offset comes from", { result });
  return result;
});

export const left_inverse = explained("left_inverse", (layout) => {
  const ordered = counted(layout).filter(([, stride]) => stride !== 0);
  const found = [];
  let [offset, below] = [1, 0];
  for (const [extent, stride, start] of ordered) {
    const here = `${extent}:${stride}`;
    if (stride % offset !== 0)
      throw new AlgebraError(
        `the stride of ${here} is no multiple of the ${offset} below it; each stride must be a multiple of the next smaller one`,
      );
    found.push([stride / offset, below]);
    note("step", `offsets below ${stride} belong to what is below ${here}`, { found: fromLeaves(found) });
    [offset, below] = [stride, start];
  }
  if (ordered.length) {
    const extent = ordered.at(-1)[0];
    found.push([extent, below]);
    note("last", `${extent} steps of ${offset} remain`, { found: fromLeaves(found) });
  }
  const result = coalesce(fromLeaves(found));
  note("result", "where each offset came from", { result });
  return result;
});

// ---- divide ----

const beside = (first, second) => makeLayout([first.shape, second.shape], [first.stride, second.stride]);
const hasZero = (layout) => flatten(layout.shape).includes(0);

/** Do something to each mode that a tiler names; the modes behind it stay. */
function byMode(layout, tiler, path, what, work) {
  tooManyModes(tiler, layout, path);
  const done = tiler.map((part, i) => {
    note("mode", `${what} mode [${[...path, i].join(", ")}] by ${formatTiler(part)}`, { mode: mode(layout, i) });
    return work(mode(layout, i), part, [...path, i]);
  });
  return fromModes([...done, ...modes(layout).slice(tiler.length)]);
}

function divide(layout, given, path) {
  if (given === null) {
    note("keep", `\`_\` keeps mode [${path.join(", ")}] as it is`, { mode: layout });
    return layout;
  }
  const tiler = asLayout(given);
  if (isTuple(tiler)) return byMode(layout, tiler, path, "divide", divide);
  const rest = complement(tiler, coalesce(layout).shape);
  if (hasZero(rest)) throw new AlgebraError(`${at(path)}the tile ${plain(tiler)} meets an offset twice; a tile must be injective`);
  const both = beside(tiler, rest);
  note("tile and rest", "the tile beside its complement covers the whole layout", { tiler: both });
  return composition(layout, both);
}

export const logical_divide = explained("logical_divide", (layout, tiler) => {
  if (tiler === null) throw new AlgebraError("`_` alone is no tiler");
  const result = divide(layout, tiler, []);
  note("result", "every divided mode is (tile, rest)", { result });
  return result;
});

/** `((tile, rest), (tile, rest), more)` to `((tile, tile), (rest, rest, more))`, along a tiler. */
function unzip(value, guide) {
  if (!isTuple(guide)) {
    if (!isTuple(value) || value.length !== 2)
      throw new AlgebraError(`${formatTuple(value)} is no pair of tile and rest; every part of the tiler must divide its mode`);
    return value;
  }
  const pairs = guide.map((part, i) => unzip(value[i], part));
  return [pairs.map(([tile]) => tile), [...pairs.map(([, rest]) => rest), ...value.slice(guide.length)]];
}

export const zipped_divide = explained("zipped_divide", (layout, tiler) => {
  if (tiler === null || typeof tiler === "number")
    throw new AlgebraError(
      `${formatTiler(tiler)} is no tiler of a whole layout; write (${formatTiler(tiler)}) for the first mode, ${formatTiler(tiler)}:1 for all`,
    );
  const divided = logical_divide(layout, tiler);
  const result = makeLayout(unzip(divided.shape, tiler), unzip(divided.stride, tiler));
  note("result", "the tiles gathered in mode 0, the rests in mode 1", { result });
  return result;
});

// ---- product ----

function multiply(block, given, path) {
  if (given === null) {
    note("keep", `\`_\` keeps mode [${path.join(", ")}] as it is`, { mode: block });
    return block;
  }
  const tiler = asLayout(given);
  if (isTuple(tiler)) return byMode(block, tiler, path, "multiply", multiply);
  if (flatten(tiler.stride).every((stride) => stride === 0)) {
    note("stay", "the tiler stays at one place, where the block is", { tiler });
    return beside(block, tiler);
  }
  const target = size(block) * cosize(tiler);
  note("room", `${size(block)} * ${cosize(tiler)} elements are needed at most`, { size: target });
  return beside(block, composition(complement(block, target), tiler));
}

export const logical_product = explained("logical_product", (block, tiler) => {
  const result = multiply(block, tiler, []);
  note("result", "every multiplied mode is (block, repetition)", { result });
  return result;
});

export const padded = (layout, width) =>
  rank(layout) === width ? layout : fromModes([...modes(layout), ...Array(width - rank(layout)).fill(makeLayout(1, 0))]);

function sameRankProduct(given, tiler) {
  if (!isLayout(tiler)) throw new AlgebraError(`${formatTiler(tiler)} is no layout; write shape and stride, such as (3,4):(1,3)`);
  const width = Math.max(rank(given), rank(tiler));
  const [block, places] = [padded(given, width), padded(tiler, width)];
  note("rank", `both get ${width} modes`, { block, tiler: places });
  return modes(logical_product(block, places));
}

/** Pair two layouts up, mode by mode; a single mode in front takes the other whole. */
function zip(first, second) {
  if (!isTuple(first.shape)) return fromModes([beside(first, second)]);
  if (!isTuple(second.shape) || rank(first) !== rank(second))
    throw new AlgebraError(`${plain(first)} and ${plain(second)} do not pair up; both need the same rank`);
  return fromModes(modes(first).map((one, i) => beside(one, mode(second, i))));
}

export const blocked_product = explained("blocked_product", (block, tiler) => {
  const [blocks, places] = sameRankProduct(block, tiler);
  const result = zip(blocks, places);
  note("result", "mode i is (block i, repetition i)", { result });
  return result;
});

export const raked_product = explained("raked_product", (block, tiler) => {
  const [blocks, places] = sameRankProduct(block, tiler);
  const raked = zip(places, blocks);
  note("rake", "mode i is (repetition i, block i)", { raked });
  const result = coalesce(raked, raked.shape.map(() => 1));
  note("result", "each mode coalesced", { result });
  return result;
});

// ---- what the explorer offers ----

// For each operation: what its operand is (nothing: it takes none), an example to start from, and how it is done.
export const OPERATIONS = {
  coalesce: { operand: "profile, to merge by mode", optional: true, example: "", run: coalesce },
  filter: { run: filter },
  composition: { operand: "layout or tiler", example: "8:2", run: composition },
  complement: { operand: "size to fill", optional: true, example: "64", run: complement },
  right_inverse: { run: right_inverse },
  left_inverse: { run: left_inverse },
  logical_divide: { operand: "layout or tiler", example: "(2,4)", run: logical_divide },
  zipped_divide: { operand: "layout or tiler", example: "(2,4)", run: zipped_divide },
  logical_product: { operand: "layout or tiler", example: "2:1", run: logical_product },
  blocked_product: { operand: "layout", example: "(2,2):(1,2)", run: blocked_product },
  raked_product: { operand: "layout", example: "(2,2):(1,2)", run: raked_product },
};

/** Does an operation and returns what `explain(...).to_snapshot()` returns in Python: operands, steps, result. */
export function perform(name, layout, operand) {
  steps = [];
  stack.length = 0;
  const operands = [layout, ...operand];
  const result = OPERATIONS[name].run(...operands);
  return { operation: name, operands: operands.map((value) => ({ name: "", value: plain(value) })), steps, result: plain(result) };
}
