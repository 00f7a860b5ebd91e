// The pictures of TmaBox: the tensor with its tile, the tile with its boxes, shared memory in rows of 128 bytes.
import { el, roving } from "./dom.js";
import { CHUNK_BYTES, ROW_BYTES, boxAt, chunkAt } from "./tma.js";
import { chunkRange, chunksIn } from "./tma_rules.js";

export const WINDOW_ROWS = 16;
const HUES = 8;
const CHUNKS_A_ROW = ROW_BYTES / CHUNK_BYTES;

const percent = (part, whole) => `${(100 * part) / whole}%`;

/** A rectangle (mode 0 down, mode 1 across) inside a picture that spans `whole`. */
function area(name, [down, across], [height, width], whole, ...children) {
  const node = el("div", { class: `cc-area cc-area-${name}`, "data-cc": `area-${name}` }, ...children);
  node.style.top = percent(down, whole[0]);
  node.style.left = percent(across, whole[1]);
  node.style.height = percent(height, whole[0]);
  node.style.width = percent(width, whole[1]);
  return node;
}

/** Lines between cells of `step` over an area of `whole`; none where they would lie on each other. */
function ruled(node, step, whole, most) {
  if (whole.some((extent, mode) => extent / step[mode] > most)) return;
  const line = "var(--cc-grid-line) 1px, transparent 1px";
  node.style.backgroundImage = `linear-gradient(to bottom, ${line}), linear-gradient(to right, ${line})`;
  node.style.backgroundSize = `${percent(step[1], whole[1])} ${percent(step[0], whole[0])}`;
}

/** Eight hues in stripes of `unit` elements along a mode. */
function striped(node, mode, unit, extent) {
  const stops = Array.from({ length: HUES }, (_, i) => `var(--cc-quad-${i}) ${percent(i * unit, extent)} ${percent((i + 1) * unit, extent)}`);
  node.style.backgroundImage = `repeating-linear-gradient(to ${mode === 1 ? "right" : "bottom"}, ${stops.join(", ")})`;
}

/** Width by height in pixels at most, the shape kept within 1 to 4. */
function framed(node, [rows, columns], most) {
  const ratio = Math.max(0.25, Math.min(4, columns / rows));
  const width = Math.round(Math.min(most[1], most[0] * ratio));
  node.style.aspectRatio = String(ratio);
  node.style.width = `${width}px`;
  return [width / ratio, width];
}

/** The parts of a tile that stick out of the tensor, as [start, size] in the tile's own coordinates. */
function outside(given, coord) {
  const { tile, extents } = given;
  const inside = tile.map((extent, mode) => Math.max(0, Math.min(extent, extents[mode] - coord[mode] * extent)));
  if (inside[0] === 0 || inside[1] === 0) return [[[0, 0], tile]];
  const parts = [];
  if (inside[1] < tile[1]) parts.push([[0, inside[1]], [tile[0], tile[1] - inside[1]]]);
  if (inside[0] < tile[0]) parts.push([[inside[0], 0], [tile[0] - inside[0], inside[1]]]);
  return parts;
}

/** The whole tensor, its tiles as a grid, the chosen one filled. */
export function tensorPicture(all, coord) {
  const { extents, tile } = all.given;
  const whole = extents.map((extent, mode) => Math.max(extent, (coord[mode] + 1) * tile[mode]));
  const node = el("div", { class: "cc-picture", role: "img", "data-cc": "tensor-picture" });
  framed(node, whole, [170, 200]);
  const at = tile.map((extent, mode) => coord[mode] * extent);
  const ground = area("tensor", [0, 0], extents, whole);
  ruled(ground, tile, extents, 48);
  node.append(ground, area("tile", at, tile, whole));
  for (const [start, size] of outside(all.given, coord)) node.append(area("outside", [at[0] + start[0], at[1] + start[1]], size, whole));
  const end = at.map((from, mode) => from + tile[mode] - 1);
  const out = outside(all.given, coord).length ? "; it sticks out of the tensor" : "";
  const words = `a tensor of ${extents[0]} by ${extents[1]}; the tile holds m ${at[0]} to ${end[0]}, k ${at[1]} to ${end[1]}${out}`;
  node.setAttribute("aria-label", words);
  return node;
}

/** The tile at a larger scale, with its boxes; `hold` moves the mark for what is chosen. */
export function tilePicture(all, coord, colour, drawn) {
  const { tile } = all.given;
  const node = el("div", { class: "cc-picture cc-tile", "data-cc": "tile-picture" });
  const pixels = framed(node, tile, [256, 200]);
  if (!drawn) {
    const ground = area("refused", [0, 0], tile, tile);
    node.append(ground);
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", `the tile, ${tile[0]} by ${tile[1]}; no boxes, since a rule is broken`);
    return { node, hold: () => {} };
  }
  const [inner, outer] = [all.order[0], 1 - all.order[0]];
  const count = CHUNK_BYTES / all.bytes;
  const ground = area("ground", [0, 0], tile, tile);
  if (colour === "chunk") striped(ground, inner, count, tile[inner]);
  else striped(ground, outer, 1, tile[outer]);
  const box = [0, 1].map((mode) => all.boxDim[all.order.indexOf(mode)]);
  const grid = area("boxes", [0, 0], tile, tile);
  ruled(grid, box, tile, 128);
  node.append(ground, grid);
  for (const [start, size] of outside(all.given, coord)) node.append(area("outside", start, size, tile));
  const [high, wide] = box.map((extent, mode) => (extent / tile[mode]) * pixels[mode]);
  const letters = String(all.instructions).length + (all.given.multicast === 1 ? 0 : all.instructions === 1 ? 4 : 2);
  if (high >= 15 && wide >= 7 * letters + 12)
    for (let b = 0; b < all.boxes; b += 1) {
      const { start, instruction, cta } = boxAt(all, b, coord);
      const name = all.given.multicast === 1 ? String(instruction) : all.instructions === 1 ? `CTA ${cta}` : `${instruction}·${cta}`;
      node.append(area("label", start, box, tile, el("span", { text: name })));
    }
  const frame = area("box", [0, 0], box, tile);
  const mark = area("mark", [0, 0], [1, 1], tile);
  node.append(frame, mark);
  node.setAttribute("role", "application");
  node.setAttribute("tabindex", "0");
  node.setAttribute("aria-label", `the tile, ${tile[0]} by ${tile[1]}, in ${all.boxes} ${all.boxes === 1 ? "box" : "boxes"}; arrow keys move by 16 bytes`);
  const hold = (c) => {
    frame.hidden = mark.hidden = c === null;
    if (c === null) return;
    const chunk = chunkAt(all, c, coord);
    const put = (what, [down, across], [height, width]) => {
      what.style.top = percent(down, tile[0]);
      what.style.left = percent(across, tile[1]);
      what.style.height = percent(height, tile[0]);
      what.style.width = percent(width, tile[1]);
    };
    put(frame, boxAt(all, chunk.box, coord).start, box);
    put(mark, chunk.first, inner === 1 ? [1, count] : [count, 1]);
  };
  return { node, hold };
}

/** Rows of 128 bytes from `firstRow` on; each cell is 16 bytes with the elements that lie there. */
export function sharedTable(all, coord, firstRow, colour) {
  const chunks = chunksIn(all.tile_bytes);
  const head = el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, "byte", el("small", { text: "banks" })));
  for (let column = 0; column < CHUNKS_A_ROW; column += 1)
    head.append(el("th", { scope: "col", role: "columnheader" }, `+${column * CHUNK_BYTES}`, el("small", { text: `${4 * column}–${4 * column + 3}` })));
  const body = el("tbody");
  const rows = [];
  for (let r = firstRow; r < Math.min(firstRow + WINDOW_ROWS, Math.ceil(chunks / CHUNKS_A_ROW)); r += 1) {
    const from = r * CHUNKS_A_ROW;
    const starts = (from * CHUNK_BYTES) % all.box_bytes === 0;
    const box = Math.floor((from * CHUNK_BYTES) / all.box_bytes);
    const name = starts || r === firstRow ? el("small", { text: `box ${box}` }) : null;
    const line = el("tr", { role: "row", class: starts && r > firstRow ? "cc-edge-top" : "" }, el("th", { scope: "row", role: "rowheader" }, String(r * ROW_BYTES), name));
    const row = [];
    for (let c = from; c < Math.min(from + CHUNKS_A_ROW, chunks); c += 1) {
      const cell = chunkCell(all, chunkAt(all, c, coord), colour);
      line.append(cell);
      row.push(cell);
    }
    rows.push(row);
    body.append(line);
  }
  const label = "shared memory in rows of 128 bytes; each cell is 16 bytes, four banks";
  const table = el("table", { class: "cc-grid cc-shared", role: "grid", "aria-label": label, "data-cc": "shared" }, el("thead", {}, head), body);
  roving(table, rows);
  return { table, cells: new Map(rows.flat().map((cell) => [Number(cell.dataset.chunk), cell])) };
}

function chunkCell(all, chunk, colour) {
  const ranges = chunk.first.map((from, mode) => chunkRange(from, mode === chunk.inner ? chunk.count : 1));
  const missing = chunk.count - chunk.valid;
  const hue = (colour === "chunk" ? chunk.column : chunk.line) % HUES;
  const kind = chunk.valid === 0 ? "cc-hole" : `cc-quad-${hue}${missing ? " cc-part" : ""}`;
  const zeros = chunk.valid === 0 ? ", outside the tensor: zeros" : missing ? `, the last ${missing} outside the tensor: zeros` : "";
  return el(
    "td",
    {
      role: "gridcell",
      class: kind,
      "data-cc": "chunk",
      "data-chunk": chunk.chunk,
      "data-box": chunk.box,
      "data-first": chunk.first.join(","),
      "data-valid": chunk.valid,
      "aria-label": `byte ${chunk.chunk * CHUNK_BYTES}: m ${ranges[0]}, k ${ranges[1]}, box ${chunk.box}${zeros}`,
    },
    el("span", { text: `m${ranges[0]}` }),
    el("span", { text: `k${ranges[1]}` }),
  );
}
