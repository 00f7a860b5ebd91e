// What CuTe makes of a two-dimensional tensor, a shared-memory layout and a tile: the tensor map's fields,
// the boxes, and where in shared memory every 16 bytes land. Pure functions; the names are those of CuTe's
// `construct_tma_gbasis` and `make_tma_copy_desc`. Mode 0 of tensor and tile is M (or N), mode 1 is K.
import { blocked_product, coalesce, composition, quietly, right_inverse } from "./algebra.js";
import { compactStride, formatLayout, idx2crd, leaves, makeLayout, offsetAt, product } from "./notation.js";

export const TYPES = {
  u8: { bits: 8, format: "UINT8", number: 0 },
  f16: { bits: 16, format: "FLOAT16", number: 6 },
  f32: { bits: 32, format: "FLOAT32", number: 7 },
  f64: { bits: 64, format: "FLOAT64", number: 8 },
};
// How many bits of a byte's address take part in the swizzle; the span is 16 bytes times two to that.
export const SWIZZLES = { none: 0, "32B": 1, "64B": 2, "128B": 3 };
export const CHUNK_BYTES = 16;
export const ROW_BYTES = 128;

export const spanBytes = (swizzle) => CHUNK_BYTES << SWIZZLES[swizzle];
/** `Swizzle<b,4,3>` on a byte offset; its own inverse. */
export const swizzled = (byte, swizzle) => byte ^ ((byte & (((1 << SWIZZLES[swizzle]) - 1) << 7)) >> 3);
const ceilDivide = (a, b) => Math.floor((a + b - 1) / b);

// A basis stride `v@e` is kept as the number v * FAR**e: no tile reaches from one mode into the other.
const FAR = 2 ** 24;
const basisValue = (stride) => (stride >= FAR ? stride / FAR : stride);
const basisMode = (stride) => (stride >= FAR ? 1 : 0);
/** A layout with basis strides as CuTe prints it. */
function formatBasis(layout) {
  const list = leaves(layout);
  const shown = ([, stride]) => (stride === 0 ? "0" : `${basisValue(stride)}@${basisMode(stride)}`);
  if (list.length === 1) return `${list[0][0]}:${shown(list[0])}`;
  return `(${list.map(([extent]) => extent).join(",")}):(${list.map(shown).join(",")})`;
}

/** The atom of a shared-memory layout, in elements: 8 lines, each as long as the swizzle's span. */
export function atomOf({ smem_major, swizzle, dtype }) {
  const long = (8 * spanBytes(swizzle)) / TYPES[dtype].bits;
  return smem_major === "K" ? makeLayout([8, long], [long, 1]) : makeLayout([long, 8], [1, long]);
}

/** The layout of the tile in shared memory without its swizzle, or null where the atom does not fit in. */
export function sharedLayout(given) {
  const [rows, columns] = given.tile;
  if (given.smem_layout === "plain") return given.smem_major === "K" ? makeLayout([rows, columns], [columns, 1]) : makeLayout([rows, columns], [1, rows]);
  const atom = atomOf(given);
  const counts = [rows / atom.shape[0], columns / atom.shape[1]];
  if (!counts.every(Number.isInteger)) return null;
  return quietly(() => blocked_product(atom, makeLayout(counts, compactStride(counts))));
}

/** `construct_tma_gbasis`: which modes of the tensor one instruction walks, fastest in shared memory first. */
export function gbasis({ tile }, slayout) {
  return quietly(() => {
    const inv_smem_layout = right_inverse(slayout);
    const cta_v_tile = makeLayout([...tile], [1, FAR]);
    const sidx2gmode_full = coalesce(composition(cta_v_tile, inv_smem_layout));
    const modes = leaves(sidx2gmode_full);
    const found = modes.findIndex(([, stride]) => basisValue(stride) !== 1);
    const walked = found < 0 ? modes : modes.slice(0, found);
    const basis = walked.map(([extent, stride]) => ({ mode: basisMode(stride), extent }));
    // A mode of the tensor that the instruction does not walk gets a box extent of 1.
    for (const mode of [0, 1]) if (walked.length && !basis.some((one) => one.mode === mode)) basis.push({ mode, extent: 1 });
    return { inv_smem_layout, sidx2gmode_full, smem_rank: walked.length, basis };
  });
}

/** Cut the box into one slice for each CTA of the multicast, from the slowest mode on; null where it cannot be cut. */
export function truncated(box, multicast) {
  const cut = [...box];
  let left = multicast;
  for (let i = cut.length - 1; left > 1; i -= 1) {
    if (i < 0 || (cut[i] % left !== 0 && left % cut[i] !== 0)) return null;
    const rest = ceilDivide(left, cut[i]);
    cut[i] = ceilDivide(cut[i], left);
    left = rest;
  }
  return cut;
}

/** The tensor's strides in elements; `padding` lies after each line. */
const stridesOf = ({ extents, major, padding }) => (major === "K" ? [extents[1] + padding, 1] : [1, extents[0] + padding]);

/**
 * Everything about one choice: `given` holds extents and tile ([M, K]), major and smem_major ("K" or "MN"),
 * padding (elements after a line), dtype, smem_layout ("atoms" or "plain"), swizzle, multicast, address (bytes over a multiple of 256).
 * What cannot be said because a step before it failed is null.
 */
export function describe(given) {
  const type = TYPES[given.dtype];
  const bytes = type.bits / 8;
  const slayout = sharedLayout(given);
  const tile_bytes = product(given.tile) * bytes;
  const all = { given, bytes, slayout, tile_bytes, notation: null, boxDimWhole: null, boxDim: null, fields: null, boxes: null };
  if (!slayout) return all;
  const found = gbasis(given, slayout);
  const bits = SWIZZLES[given.swizzle];
  all.notation = {
    smem_layout: `${bits ? `Sw<${bits},4,3> o ` : ""}${formatLayout(slayout)}`,
    inv_smem_layout: formatLayout(found.inv_smem_layout),
    sidx2gmode_full: formatBasis(found.sidx2gmode_full),
    tma_gbasis: formatBasis(makeLayout(found.basis.map((one) => one.extent), found.basis.map((one) => FAR ** one.mode))),
  };
  all.inverse = found.inv_smem_layout;
  if (!found.smem_rank) return all;
  all.order = found.basis.map((one) => one.mode);
  all.boxDimWhole = found.basis.map((one) => one.extent);
  all.boxDim = truncated(all.boxDimWhole, given.multicast);
  const strides = stridesOf(given);
  all.innerStride = strides[all.order[0]];
  const box = all.boxDim ?? all.boxDimWhole;
  all.fields = {
    tensorDataType: type.number,
    tensorRank: box.length,
    globalAddress: given.address,
    globalDim: all.order.map((mode) => given.extents[mode]),
    globalStrides: all.order.slice(1).map((mode) => strides[mode] * bytes),
    boxDim: box,
    elementStrides: box.map(() => 1),
    interleave: "none",
    swizzle: given.swizzle,
    l2Promotion: "128B",
    oobFill: "zeros",
  };
  if (!all.boxDim) return all;
  all.box_elems = product(all.boxDim);
  all.box_bytes = all.box_elems * bytes;
  all.whole_elems = product(all.boxDimWhole);
  all.instructions = product(given.tile) / all.whole_elems;
  all.boxes = all.instructions * given.multicast;
  return all;
}

/** Where element (i, j) of the tile lies in shared memory, in bytes. */
export const byteOf = (all, i, j) => swizzled(offsetAt(all.slayout, i + all.given.tile[0] * j) * all.bytes, all.given.swizzle);

/** The element of the tile that lies at a byte of shared memory. */
export function elementAt(all, byte) {
  const index = offsetAt(all.inverse, Math.floor(swizzled(byte, all.given.swizzle) / all.bytes));
  return idx2crd(index, [...all.given.tile]);
}

/** Box `b`: which instruction of which CTA of the multicast loads it, to where, from which coordinates. */
export function boxAt(all, b, coord) {
  const { tile, multicast } = all.given;
  const start = idx2crd(offsetAt(all.inverse, b * all.box_elems), [...tile]);
  return {
    instruction: Math.floor(b / multicast),
    cta: b % multicast,
    byte: b * all.box_bytes,
    start,
    coordinates: all.order.map((mode) => coord[mode] * tile[mode] + start[mode]),
  };
}

/**
 * Chunk `c` of shared memory, 16 bytes: the elements that lie there side by side along the box's first mode.
 * `valid` says how many of them lie in the tensor; the others are filled with zeros.
 */
export function chunkAt(all, c, coord) {
  const { tile, extents, swizzle } = all.given;
  const linear = swizzled(c * CHUNK_BYTES, swizzle);
  const count = CHUNK_BYTES / all.bytes;
  const first = elementAt(all, c * CHUNK_BYTES);
  const [inner, outer] = [all.order[0], 1 - all.order[0]];
  const at = [0, 1].map((mode) => coord[mode] * tile[mode] + first[mode]);
  const inside = at[outer] < extents[outer] ? Math.max(0, Math.min(count, extents[inner] - at[inner])) : 0;
  return {
    chunk: c,
    first,
    at,
    count,
    inner,
    valid: inside,
    unswizzled: linear / CHUNK_BYTES,
    box: Math.floor(linear / all.box_bytes),
    line: first[outer],
    column: Math.floor(first[inner] / count),
  };
}

/** The chunk in which element (i, j) of the tile lies. */
export const chunkOf = (all, i, j) => Math.floor(byteOf(all, i, j) / CHUNK_BYTES);
