// Tensor memory: where an accumulator lies by CuTe's layout, columns given out first fit, loads of 32 lanes.
import { offsetAt, parseLayout } from "./notation.js";

export const LANES = 128;
export const COLUMNS = 512;
export const WARP_LANES = 32;
export const LEAST_COLUMNS = 32;
export const LOADS = [1, 2, 4, 8, 16, 32, 64, 128];

export class TmemError extends Error {}

const LANE_STEP = 65536;
const stepsOf = (ns) => `${ns[0]} to ${ns.at(-1)} in steps of ${ns[1] - ns[0]}`;
export const nsOf = (shapes, group, m) => Object.keys(shapes[`${group},${m}`]?.layouts ?? {}).map(Number).sort((a, b) => a - b);

/** Where C (m x n) lies: `place` of a row and column, `element` at a place, counted from its first column. */
export function accumulatorOf(shapes, m, n, group) {
  const shape = shapes[`${group},${m}`];
  if (!shape) throw new TmemError(`M = ${m} with cta_group ${group} has no accumulator.`);
  const text = shape.layouts[n];
  if (!text) throw new TmemError(`N = ${n}: with M = ${m} and cta_group ${group} N is ${stepsOf(nsOf(shapes, group, m))}.`);
  const layout = parseLayout(text);
  const rows = m / group;
  const at = new Int32Array(LANES * COLUMNS).fill(-1);
  const to = new Int32Array(rows * n);
  let columns = 0;
  for (let index = 0; index < rows * n; index += 1) {
    const offset = offsetAt(layout, index);
    const [lane, column] = [Math.floor(offset / LANE_STEP), offset % LANE_STEP];
    at[lane * COLUMNS + column] = index;
    to[index] = lane * COLUMNS + column;
    columns = Math.max(columns, column + 1);
  }
  return {
    m,
    n,
    group,
    rows,
    columns,
    notation: text,
    operation: shape.operation,
    place(row, column) {
      const found = to[(row % rows) + rows * column];
      return { cta: Math.floor(row / rows), lane: Math.floor(found / COLUMNS), column: found % COLUMNS };
    },
    element(cta, lane, column) {
      if (column < 0 || column >= COLUMNS) return null;
      const index = at[lane * COLUMNS + column];
      return index < 0 ? null : [cta * rows + (index % rows), Math.floor(index / rows)];
    },
  };
}

/** What each warp of each CTA loads: { cta, warp, c, memory }, both [first row, first column, rows, columns]. */
export function blocksOf(one) {
  const found = [];
  for (let cta = 0; cta < one.group; cta += 1)
    for (let warp = 0; warp < LANES / WARP_LANES; warp += 1) {
      const ends = [[Infinity, Infinity, -1, -1], [Infinity, Infinity, -1, -1]];
      const widen = (end, row, column) => {
        end[0] = Math.min(end[0], row);
        end[1] = Math.min(end[1], column);
        end[2] = Math.max(end[2], row);
        end[3] = Math.max(end[3], column);
      };
      for (let lane = warp * WARP_LANES; lane < (warp + 1) * WARP_LANES; lane += 1)
        for (let column = 0; column < one.columns; column += 1) {
          const element = one.element(cta, lane, column);
          if (!element) continue;
          widen(ends[0], ...element);
          widen(ends[1], lane, column);
        }
      if (ends[0][2] < 0) continue;
      const [c, memory] = ends.map(([top, left, bottom, right]) => [top, left, bottom - top + 1, right - left + 1]);
      found.push({ cta, warp, c, memory });
    }
  return found;
}

/** Which load reads a column of the accumulator, which thread of which warp, and which of its registers. */
export function loadOf(lane, column, repetitions) {
  return { warp: Math.floor(lane / WARP_LANES), thread: lane, lane: lane % WARP_LANES, load: Math.floor(column / repetitions), register: column % repetitions };
}

// ---- allocation ----

const firstFit = (held, columns) => {
  const places = held.filter((one) => one.state === "placed");
  for (let start = 0; start + columns <= COLUMNS; start += LEAST_COLUMNS)
    if (places.every((one) => start + columns <= one.column || start >= one.column + one.columns)) return start;
  return null;
};

/** Give columns to those that wait, in their order; one that has to wait holds up those behind it. */
function settle(held) {
  const next = held.map((one) => ({ ...one }));
  for (const one of next) {
    if (one.state !== "waits") continue;
    const column = firstFit(next, one.columns);
    if (column === null) break;
    Object.assign(one, { column, state: "placed" });
  }
  return next;
}

export const allowedColumns = (columns) => columns >= LEAST_COLUMNS && columns <= COLUMNS && (columns & (columns - 1)) === 0;

/** The fewest columns that were given at a time; `smallest` is what it was before these. */
export const smallestOf = (held, smallest = COLUMNS) => Math.min(smallest, ...held.filter((one) => one.state === "placed").map((one) => one.columns));

/** Ask for columns: placed, waiting while they are not free, or refused by a rule, which is named. */
export function allocateColumns(held, name, columns, smallest = COLUMNS) {
  const least = smallestOf(held, smallest);
  let why = "";
  if (!allowedColumns(columns)) why = `${columns} is no power of two from ${LEAST_COLUMNS} to ${COLUMNS}`;
  else if (columns > least) why = `${columns} columns after an allocation of ${least}: later ones of a CTA must not be larger`;
  if (why) return [...held, { name, columns, column: -1, state: "refused", why }];
  return settle([...held, { name, columns, column: -1, state: "waits", why }]);
}

/** Give columns back; who waits may get them now. What is allocated never moves. */
export const freeColumns = (held, name) => settle(held.filter((one) => one.name !== name));
