// A layout as a table of offsets: mode 0 goes down, the other modes go across; nested modes get nested headers.
import { el } from "./dom.js";
import { cosize, flatten, formatTuple, idx2crd, mode, offsetAt, product, rank, size } from "./notation.js";

/** Which of the ramp's eight steps an offset takes; the same rule as in Python. */
export const rampStep = (offset, span) => Math.min(7, Math.floor((8 * offset) / Math.max(1, span)));

/** The leaves of a part of the shape with the path that names each: [[extent, "1.0"], ...]. */
function namedLeaves(shape, path) {
  if (!Array.isArray(shape)) return [[shape, path]];
  return shape.flatMap((part, i) => namedLeaves(part, path === "" ? String(i) : `${path}.${i}`));
}

/** The axes of the picture: leaves down and leaves across, fastest first. */
export function axes(layout) {
  if (rank(layout) === 1) return { down: [], across: namedLeaves(mode(layout, 0).shape, "0") };
  const across = layout.shape.slice(1).flatMap((part, i) => namedLeaves(part, String(i + 1)));
  return { down: namedLeaves(layout.shape[0], "0"), across };
}

const extent = (axis) => axis.reduce((n, [e]) => n * e, 1);

/** Header labels of one leaf along an axis: the digit, and how many lines it spans. */
function spans(axis, leaf) {
  const inner = extent(axis.slice(0, leaf));
  const count = extent(axis) / inner;
  return Array.from({ length: count }, (_, i) => [i % axis[leaf][0], inner]);
}

/**
 * The table and its cells. `rows[r][c]` is a cell; it carries its index, coordinate and offset as data.
 * A mini table is a picture (role img), the full one a grid for the arrow keys.
 */
export function layoutTable(layout, { mini = false, label }) {
  const { down, across } = axes(layout);
  const [height, width, span] = [extent(down), extent(across), cosize(layout)];
  const nested = down.length > 1 || across.length > 1;
  const table = el("table", {
    class: mini ? "cc-grid cc-mini" : "cc-grid",
    role: mini ? "img" : "grid",
    "aria-label": label,
    "data-cc": mini ? "mini" : "grid",
  });
  const head = el("thead");
  for (let leaf = across.length - 1; leaf >= 0 && !mini; leaf -= 1) {
    const row = el("tr", { role: "row" });
    const corner = nested ? `mode ${across[leaf][1]}` : "";
    if (down.length) row.append(el("th", { colspan: down.length, role: "presentation", text: corner }));
    for (const [digit, across_n] of spans(across, leaf))
      row.append(el("th", { colspan: across_n, scope: "col", role: "columnheader", class: leaf ? "cc-group" : "", text: digit }));
    head.append(row);
  }
  const body = el("tbody");
  const rows = [];
  for (let r = 0; r < height; r += 1) {
    const edge = down.length > 1 && r > 0 && r % down[0][0] === 0;
    const line = el("tr", { role: "row", class: edge ? "cc-edge-top" : "" });
    for (let leaf = down.length - 1; leaf >= 0 && !mini; leaf -= 1) {
      const inner = extent(down.slice(0, leaf));
      if (r % inner === 0)
        line.append(
          el("th", {
            rowspan: inner,
            scope: "row",
            role: "rowheader",
            class: leaf ? "cc-group" : "",
            text: Math.floor(r / inner) % down[leaf][0],
          }),
        );
    }
    rows.push(
      Array.from({ length: width }, (_, c) => {
        const index = r + height * c;
        const offset = offsetAt(layout, index);
        const crd = formatTuple(idx2crd(index, layout.shape));
        const cell = el("td", {
          role: mini ? "presentation" : "gridcell",
          class: `cc-ramp-${rampStep(offset, span)}${across.length > 1 && c > 0 && c % across[0][0] === 0 ? " cc-edge-left" : ""}`,
          "data-cc": mini ? null : "cell",
          "data-index": index,
          "data-coord": crd,
          "data-offset": offset,
          "aria-label": mini ? null : `coordinate ${crd}, offset ${offset}`,
          text: offset,
        });
        line.append(cell);
        return cell;
      }),
    );
    body.append(line);
  }
  table.append(head, body);
  return { table, rows };
}

/** For each offset below cosize, the linear indices of the coordinates that go there. */
export function preimages(layout) {
  const owners = Array.from({ length: cosize(layout) }, () => []);
  for (let index = 0; index < size(layout); index += 1) owners[offsetAt(layout, index)].push(index);
  return owners;
}

/** The memory line: one row of places, the offset above each and the index that lies there in it. */
export function memoryTable(layout, owners, { label }) {
  const head = el("tr", { role: "row" });
  const line = el("tr", { role: "row" });
  const row = owners.map((list, offset) => {
    head.append(el("th", { scope: "col", role: "columnheader", text: offset }));
    const crds = list.map((index) => formatTuple(idx2crd(index, layout.shape)));
    const [shown, kind, spoken] =
      list.length === 0
        ? ["·", " cc-hole", "a hole, no coordinate"]
        : list.length === 1
          ? [String(list[0]), "", `index ${list[0]}, coordinate ${crds[0]}`]
          : [`×${list.length}`, " cc-collision", `${list.length} coordinates: ${crds.join(", ")}`];
    const cell = el("td", {
      role: "gridcell",
      class: `${list.length ? `cc-ramp-${rampStep(offset, owners.length)}` : ""}${kind}`,
      "data-cc": "memory",
      "data-offset": offset,
      "data-count": list.length,
      "aria-label": `offset ${offset}, ${spoken}`,
      text: shown,
    });
    line.append(cell);
    return cell;
  });
  const named = { class: "cc-grid cc-line", role: "grid", "aria-label": label, "data-cc": "memory-grid" };
  return { table: el("table", named, el("thead", {}, head), el("tbody", {}, line)), rows: [row] };
}

/** "1*8 + 2*1" with the leaves of a coordinate and of the strides. */
export function dotProduct(crd, layout) {
  const digits = flatten(crd);
  return flatten(layout.stride)
    .map((step, i) => `${digits[i]}*${step}`)
    .join(" + ");
}

/** What can be said of a layout as a whole. */
export function facts(layout, owners) {
  const n = product(layout.shape);
  const holes = owners.filter((list) => list.length === 0).length;
  const collisions = owners.filter((list) => list.length > 1).length;
  return { size: n, cosize: owners.length, holes, collisions, injective: collisions === 0, compact: collisions === 0 && holes === 0 };
}
