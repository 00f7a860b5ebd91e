// Which CTAs of a cluster take part in a multicast: cluster_layout_vmnk, coordinates, masks, slices and bytes.
import { crd2idx, flatten, formatTuple, idx2crd, makeLayout } from "./notation.js";

export const MAX_CTAS = 16;
export class ClusterError extends Error {}

const natural = (value) => Number.isSafeInteger(value) && value >= 1;

/** Says what is wrong with a cluster of M x N CTAs and `v` SMs to an MMA, or nothing. */
export function checkCluster([m, n], v) {
  if (!natural(m) || !natural(n)) throw new ClusterError(`cluster (${m},${n}): both extents are whole numbers of at least 1.`);
  if (m * n > MAX_CTAS)
    throw new ClusterError(`cluster (${m},${n}) has ${m * n} CTAs; a cluster has at most ${MAX_CTAS}, one bit of the mask each.`);
  if (v !== 1 && v !== 2) throw new ClusterError(`thr_id ${v}: an MMA runs on one SM (1) or on two (2).`);
  if (m % v)
    throw new ClusterError(`cluster (${m},${n}) with two SMs an MMA: the pairs lie along M, and ${m} is odd; choose an even M.`);
}

/** tiled_divide(make_layout((M,N,1)), (V,)): (v,m,n,k) to the CTA's rank in the cluster. */
export function clusterLayout([m, n], v) {
  checkCluster([m, n], v);
  const step = (extent, stride) => (extent === 1 ? 0 : stride);
  return makeLayout([[v], m / v, n, 1], [[step(v, 1)], step(m / v, v), step(n, m), 0]);
}

/** get_flat_coord: the (v,m,n,k) of a rank, one number for each mode. */
export const flatCoord = (layout, rank) => flatten(idx2crd(rank, layout.shape));

export const rankAt = (layout, [v, m, n, k]) => crd2idx([[v], m, n, k], layout.shape, layout.stride);

/** create_tma_multicast_mask: one bit for each CTA whose coordinate differs from `crd` in the given modes only. */
export function multicastMask(layout, crd, ...free) {
  const extents = flatten(layout.shape);
  let mask = 0;
  const walk = (at, open) => {
    if (!open.length) {
      mask |= 1 << rankAt(layout, at);
      return;
    }
    const [mode, ...rest] = open;
    for (let i = 0; i < extents[mode]; i += 1) walk(at.map((digit, j) => (j === mode ? i : digit)), rest);
  };
  walk(crd, free);
  return mask;
}

export const ranksOf = (mask) => Array.from({ length: MAX_CTAS }, (_, bit) => bit).filter((bit) => (mask >> bit) & 1);
export const hex = (mask) => `0x${mask.toString(16).toUpperCase().padStart(4, "0")}`;

/** The bytes of an MMA tile (M,N,K) in each CTA, and how the CTAs that share it cut it. */
export function sharing([m, n], v, tile, bits) {
  const layout = clusterLayout([m, n], v);
  const [, byM, byN] = flatten(layout.shape);
  const [tileM, tileN, tileK] = tile;
  if (tile.length !== 3 || !tile.every(natural)) throw new ClusterError(`tile ${formatTuple(tile)}: write three extents (M,N,K) of at least 1.`);
  const operand = (letter, rows, slices, dim) => {
    if (rows % v) throw new ClusterError(`tile ${formatTuple(tile)}: two SMs share its ${dim} of ${rows}, which is odd.`);
    const elements = (rows / v) * tileK;
    if (elements % slices)
      throw new ClusterError(`tile ${formatTuple(tile)}: ${elements} elements of ${letter} in a CTA cannot be cut into ${slices} equal slices; choose another tile or cluster.`);
    if (((elements / slices) * bits) % 8) throw new ClusterError(`tile ${formatTuple(tile)}: a slice of ${letter} is not a whole number of bytes.`);
    return { rows: rows / v, columns: tileK, elements, bytes: (elements * bits) / 8, slices, slice_elements: elements / slices, slice_bytes: (elements * bits) / 8 / slices };
  };
  return { A: operand("A", tileM, byN, "M"), B: operand("B", tileN, byM, "N") };
}

/** All that is to say of one CTA of a cluster. */
export function describe(cluster, v, rank, tile, bits) {
  const layout = clusterLayout(cluster, v);
  const count = cluster[0] * cluster[1];
  if (!(Number.isSafeInteger(rank) && rank >= 0 && rank < count))
    throw new ClusterError(`There is no CTA ${rank} in a cluster of ${count}: ranks go from 0 to ${count - 1}.`);
  const crd = flatCoord(layout, rank);
  const commit = (at) => multicastMask(layout, at, 0, 1) | multicastMask(layout, at, 0, 2);
  const masks = { A: multicastMask(layout, crd, 2), B: multicastMask(layout, crd, 1), C: commit(crd) };
  const parts = sharing(cluster, v, tile, bits);
  const leader = rankAt(layout, [0, ...crd.slice(1)]);
  const leaders = Array.from({ length: count }, (_, r) => r).filter((r) => flatCoord(layout, r)[0] === 0);
  const arrivals = leaders.filter((r) => (commit(flatCoord(layout, r)) >> rank) & 1);
  return {
    rank,
    crd,
    masks,
    leader,
    slice: { A: crd[2], B: crd[1] },
    // Who loads which slice of the tile in this CTA: position in the list is the slice's number.
    sources: { A: ranksOf(masks.A), B: ranksOf(masks.B) },
    parts,
    // Bytes of both SMs of a pair are counted at the leader's barrier; the other SM's barrier expects none.
    expected_bytes: rank === leader ? v * (parts.A.bytes + parts.B.bytes) : 0,
    // The leaders whose commit arrives at this CTA's barrier.
    arrivals,
  };
}
