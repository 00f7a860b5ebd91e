// Pictures of the operations: which cells they pick, cover, cut or repeat; the same data as in Python's layout_pictures.py.
import { blocked_product, composition, complement, filter, logical_divide, logical_product, padded, quietly, raked_product, zipped_divide } from "./algebra.js";
import { el } from "./dom.js";
import { compactStride, cosize, formatLayout, isTuple, leaves, makeLayout, mode, offsetAt, parseLayout, product, rank, size } from "./notation.js";

const MAX_DRAWN = 512;
const HUES = 8;
const NO_HUE = -1;
const EMPTY = ["", "", NO_HUE, false];

const drawnCount = (count) => Math.min(count, MAX_DRAWN + 1);
const gridBoard = (title, layout, cell) => {
  const height = rank(layout) > 1 ? size(mode(layout, 0)) : 1;
  return { title, height, width: size(layout) / height, cells: Array.from({ length: drawnCount(size(layout)) }, (_, i) => cell(i)) };
};
const lineBoard = (title, count, cell) => ({ title, height: 0, width: count, cells: Array.from({ length: drawnCount(count) }, (_, i) => cell(i)) });
const many = (count, one, more = "") => `${count} ${count === 1 ? one : more || `${one}s`}`;
const offsetsOf = (layout) => Array.from({ length: size(layout) }, (_, i) => offsetAt(layout, i));
const extentLayout = (tiler) => (typeof tiler === "number" ? makeLayout(tiler, compactStride(tiler)) : tiler);
const plainLayout = (value) => value !== null && typeof value === "object" && !isTuple(value);
const numbering = (layout) => makeLayout(layout.shape, compactStride(layout.shape));

function drawComposition(_, layout, operands, result) {
  const tiler = extentLayout(operands[0]);
  const picks = offsetsOf(plainLayout(tiler) ? tiler : composition(numbering(layout), tiler));
  const numbers = new Map();
  picks.forEach((index, number) => numbers.set(index, [...(numbers.get(index) ?? []), number]));
  const ofA = (index) => {
    const found = numbers.get(index) ?? [];
    const text = found.length === 1 ? String(found[0]) : found.length ? `×${found.length}` : "";
    return [text, String(offsetAt(layout, index)), found.length ? 0 : NO_HUE, found.length > 0];
  };
  const beyond = picks.filter((index) => index >= size(layout)).length;
  const lines = [
    `B picks ${many(numbers.size, "cell")} of the ${size(layout)} cells of A. R writes down the offset of each pick.`,
    "The large numbers count the picks in the order of B, the small numbers are offsets.",
  ];
  if (beyond) lines.push(`${many(beyond, "pick lies", "picks lie")} past the end of A, whose last mode goes on.`);
  const wrong = picks.flatMap((index, c) => (offsetAt(result, c) === offsetAt(layout, index) ? [] : [c]));
  if (wrong.length)
    lines.push(
      `R(c) is not A(B(c)) at c = ${wrong.join(", ")}: a step of B does not divide the mode of A that it crosses, and CuTe's check does not notice.`,
    );
  return {
    boards: [
      gridBoard(`A = ${formatLayout(layout)}: the cells that B picks`, layout, ofA),
      gridBoard(`R = ${formatLayout(result)}`, result, (c) => [String(c), String(offsetAt(result, c)), wrong.includes(c) ? 1 : 0, false]),
    ],
    words: lines,
  };
}

function drawComplement(_, layout, operands, result) {
  const tile = filter(layout);
  const given = operands[0];
  const target = operands.length === 0 ? cosize(tile) : plainLayout(given) ? size(given) : product(given);
  if (size(result) === 0) return { boards: [], words: ["A reaches an offset twice, so it has no complement."] };
  if (size(tile) * size(result) > MAX_DRAWN) return null;
  const reached = new Map();
  offsetsOf(result).forEach((start, j) =>
    offsetsOf(tile).forEach((step, i) => reached.set(start + step, [...(reached.get(start + step) ?? []), [i, j]])),
  );
  const end = Math.max(target, Math.max(...reached.keys()) + 1);
  const cell = (offset) => {
    const found = reached.get(offset);
    if (!found) return EMPTY;
    const [i, j] = found[0];
    return [found.length === 1 ? String(i) : `×${found.length}`, String(j), j % HUES, i === 0];
  };
  const lines = [
    `A covers ${many(size(tile), "offset")}. The complement gives ${many(size(result), "start")} for copies of A, one at offset 0 (thick frames).`,
    "Large numbers count the elements of A, small numbers and colours count the copies.",
  ];
  const twice = [...reached.values()].filter((found) => found.length > 1).length;
  const missing = end - reached.size;
  if (twice || missing)
    lines.push(
      `${many(twice, "offset is", "offsets are")} reached twice and ${many(missing, "offset", "offsets")} not at all: the strides of A are no multiples of one another.`,
    );
  else if (end > target) lines.push(`The copies reach to offset ${end - 1}, past the bound ${target}.`);
  else lines.push(`Together they reach every offset below ${target} once.`);
  const alone = (offset) => (cell(offset)[1] === "0" ? cell(offset) : EMPTY);
  return { boards: [lineBoard("covered by A", end, alone), lineBoard("covered by A and its copies, one for each start in the complement", end, cell)], words: lines };
}

function drawDivide(_, layout, operands) {
  const tiler = extentLayout(operands[0]);
  const split = plainLayout(tiler) ? logical_divide : zipped_divide;
  const [onA, numbered] = [split(layout, tiler), split(numbering(layout), tiler)];
  const [inTile, tiles] = [size(mode(numbered, 0)), size(mode(numbered, 1))];
  if (size(numbered) !== size(onA) || size(numbered) > MAX_DRAWN) return null;
  const indices = offsetsOf(numbered);
  if (indices.some((index, k) => offsetAt(layout, index) !== offsetAt(onA, k))) return null;
  const held = new Map(indices.map((index, k) => [index, [k % inTile, Math.floor(k / inTile)]]));
  const cell = (index) => {
    if (!held.has(index)) return EMPTY;
    const [place, tile] = held.get(index);
    return [String(place), String(tile), tile % HUES, false];
  };
  const lines = [
    `One colour for one tile: ${many(tiles, "tile")} of ${many(inTile, "element")}.`,
    "The large number is the place in the tile, the small number is the tile.",
  ];
  const beyond = [...held.keys()].filter((index) => index >= size(layout)).length;
  if (beyond) lines.push(`${many(beyond, "place hangs", "places hang")} over the end of A.`);
  const indexAt = new Map(offsetsOf(layout).map((offset, index) => [offset, index]));
  return {
    boards: [
      gridBoard(`A = ${formatLayout(layout)}, cut into tiles`, layout, cell),
      lineBoard("the same tiles in memory", cosize(layout), (offset) => (indexAt.has(offset) ? cell(indexAt.get(offset)) : EMPTY)),
    ],
    words: lines,
  };
}

function copiesOf(block, starts) {
  const held = new Map();
  offsetsOf(starts).forEach((start, j) => offsetsOf(block).forEach((step, i) => held.set(start + step, [i, j])));
  return (offset) => {
    if (!held.has(offset)) return EMPTY;
    const [i, j] = held.get(offset);
    return [String(i), String(j), j % HUES, false];
  };
}
const productWords = (block, starts) =>
  `One colour for one copy of the tile: ${many(size(starts), "copy", "copies")} of ${many(size(block), "element")}. The large number is the element of the tile, the small number is the copy.`;

function drawProduct(_, layout, operands, result) {
  if (!plainLayout(extentLayout(operands[0])) || size(result) > MAX_DRAWN) return null;
  const [block, starts] = [mode(result, 0), mode(result, 1)];
  return { boards: [lineBoard("the copies in memory", cosize(result), copiesOf(block, starts))], words: [productWords(block, starts)] };
}

function drawArranged(name, layout, operands, result) {
  const tiler = operands[0];
  if (!plainLayout(tiler) || size(result) > MAX_DRAWN) return null;
  const width = Math.max(rank(layout), rank(tiler));
  const repeated = logical_product(listed(padded(layout, width)), listed(padded(tiler, width)));
  const [block, starts] = [mode(repeated, 0), mode(repeated, 1)];
  const cell = copiesOf(block, starts);
  const boards = [
    ["blocked_product", blocked_product],
    ["raked_product", raked_product],
  ].map(([title, run]) => {
    const arranged = title === name ? result : run(layout, tiler);
    return gridBoard(`${title}: ${formatLayout(arranged)}`, arranged, (index) => cell(offsetAt(arranged, index)));
  });
  return { boards: [...boards, lineBoard("both in memory", cosize(repeated), cell)], words: [productWords(block, starts)] };
}
/** A single mode as a list of one, so that it counts as one mode of a product. */
const listed = (layout) => (isTuple(layout.shape) ? layout : makeLayout([layout.shape], [layout.stride]));

function drawCoalesce(_, layout, operands, result) {
  if (operands.length && typeof operands[0] !== "number") return null;
  const run = leaves(result)[0][0];
  return {
    boards: [lineBoard("the offset of each index", size(layout), (index) => [String(offsetAt(layout, index)), "", Math.floor(index / run) % HUES, false])],
    words: [
      `${formatLayout(layout)} and ${formatLayout(result)} give the same offset for every index. One colour for one run: ${many(run, "index", "indices")} with the same step.`,
    ],
  };
}

function drawFilter(_, layout, operands, result) {
  const counts = new Map();
  for (const offset of offsetsOf(layout)) counts.set(offset, (counts.get(offset) ?? 0) + 1);
  const cell = (offset) => (counts.has(offset) ? [`×${counts.get(offset)}`, "", 0, false] : EMPTY);
  return {
    boards: [lineBoard("how many coordinates lead to each offset", cosize(layout), cell)],
    words: [`${formatLayout(result)} reaches the same offsets without the repeats of stride 0.`],
  };
}

function drawRightInverse(_, layout, operands, result) {
  const first = new Map();
  offsetsOf(layout).forEach((offset, index) => first.has(offset) || first.set(offset, index));
  const run = size(result);
  const cell = (offset) => (first.has(offset) ? [String(first.get(offset)), "", offset < run ? 0 : NO_HUE, false] : EMPTY);
  return {
    boards: [lineBoard("memory: the index at each offset", cosize(layout), cell)],
    words: [`The inverse reads memory from offset 0 and gives the index at each offset, for ${many(run, "offset")}.`],
  };
}

function drawLeftInverse(_, layout, operands, result) {
  const reached = new Set(offsetsOf(layout));
  const cell = (offset) => (reached.has(offset) ? [String(offsetAt(result, offset)), "", 0, false] : EMPTY);
  return {
    boards: [lineBoard("memory: the index at each offset", cosize(layout), cell)],
    words: ["The inverse takes each offset of the layout back to its index."],
  };
}

const DRAWN = {
  coalesce: drawCoalesce,
  filter: drawFilter,
  composition: drawComposition,
  complement: drawComplement,
  right_inverse: drawRightInverse,
  left_inverse: drawLeftInverse,
  logical_divide: drawDivide,
  zipped_divide: drawDivide,
  logical_product: drawProduct,
  blocked_product: drawArranged,
  raked_product: drawArranged,
};

/** The boards and the words for `name(layout, ...operands)` and its result as text; null where there is nothing to draw. */
export function operationPicture(name, layout, operands, result) {
  if (!DRAWN[name]) return null;
  let picture = null;
  try {
    picture = quietly(() => DRAWN[name](name, layout, operands, withZeros(result)));
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError) throw error;
  }
  return picture && picture.boards.every((board) => board.cells.length <= MAX_DRAWN) ? picture : null;
}

/** A layout from its text; an extent of 0, which says that there is no complement, passes. */
function withZeros(text) {
  try {
    return parseLayout(text);
  } catch (error) {
    if (!/(^|[(,])0[,:)]/.test(text.slice(0, text.lastIndexOf(":") + 1))) throw error;
    return makeLayout(0, 1);
  }
}

/** A board as a table; a line carries its offsets above it. */
export function boardTable({ title, height, width, cells }) {
  const line = height === 0;
  const rows = Math.max(1, height);
  const table = el("table", { class: `cc-grid cc-board${line ? " cc-line" : ""}`, role: "img", "aria-label": title, "data-cc": "board" });
  const head = (texts) => el("tr", {}, texts.map((text) => el("th", { text: String(text) })));
  const across = Array.from({ length: width }, (_, i) => i);
  if (line) table.append(el("thead", {}, head(across)));
  else table.append(el("thead", {}, head(rows > 1 ? ["", ...across] : across)));
  const body = el("tbody");
  for (let r = 0; r < rows; r += 1)
    body.append(
      el(
        "tr",
        {},
        !line && rows > 1 ? el("th", { text: String(r) }) : null,
        across.map((c) => {
          const [text, small, hue, mark] = cells[r + rows * c];
          const kind = hue >= 0 ? `cc-quad-${hue}` : text === "" && small === "" ? "cc-hole" : "cc-unpicked";
          return el("td", { class: `${kind}${mark ? " cc-marked" : ""}` }, text || (small ? "" : "·"), small === "" ? null : el("small", { text: small }));
        }),
      ),
    );
  table.append(body);
  return table;
}
