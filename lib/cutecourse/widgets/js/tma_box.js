// What a TMA descriptor says and does: tensor, tile and swizzle chosen; boxes, bytes, fields and rules shown.
import { el, field, follow, update, words } from "./dom.js";
import { CHUNK_BYTES, ROW_BYTES, SWIZZLES, TYPES, boxAt, byteOf, chunkAt, chunkOf, describe, elementAt } from "./tma.js";
import { FIELD_OF, chunkRange, chunksIn, refusal, rulesOf } from "./tma_rules.js";
import { WINDOW_ROWS, sharedTable, tensorPicture, tilePicture } from "./tma_draw.js";

const MOST_EXTENT = 65536;
const MOST_TILE = 512;
const START = {
  extents: [512, 256],
  major: "K",
  dtype: "f16",
  padding: 0,
  address: 0,
  tile: [128, 64],
  smem_layout: "atoms",
  smem_major: "K",
  swizzle: "128B",
  coord: [0, 0],
  multicast: 1,
};
const EXAMPLES = {
  "A of a GEMM, K-major, one box": {},
  "MN-major: a box for each atom": { major: "MN", smem_major: "MN" },
  "a tile of 256-byte lines: two boxes": { tile: [128, 128] },
  "no swizzle: 16-byte columns": { swizzle: "none" },
  "no swizzle, plain rows": { swizzle: "none", smem_layout: "plain" },
  "ragged: the tile sticks out": { extents: [500, 232], coord: [3, 3] },
  "multicast: four CTAs, a slice each": { multicast: 4 },
  "broken: lines of 200 bytes": { extents: [512, 100] },
  "mended: each line padded to 208 bytes": { extents: [512, 100], padding: 4, coord: [0, 1] },
  "broken: a 256-byte line, span of 128": { smem_layout: "plain", tile: [64, 128] },
  "broken: a box of 512 lines": { tile: [512, 64] },
  "broken: majors that differ": { major: "MN" },
  "broken: tensor at byte 8": { address: 8 },
};
const FORMATS = { none: "CU_TENSOR_MAP_SWIZZLE_NONE", "32B": "CU_TENSOR_MAP_SWIZZLE_32B", "64B": "CU_TENSOR_MAP_SWIZZLE_64B", "128B": "CU_TENSOR_MAP_SWIZZLE_128B" };
const WHO = { CuTe: "CuTe", driver: "driver", layout: "layout", load: "load" };

const keys = Object.keys(START);
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function number(name, label, least, most) {
  const control = el("input", { type: "number", min: least, max: most, step: 1, "data-cc": name });
  return { ...field(label, control), least, most };
}

function choice(name, label, options) {
  const control = el("select", { "data-cc": name }, Object.entries(options).map(([value, text]) => el("option", { value, text })));
  return field(label, control);
}

const group = (title, ...fields) => el("fieldset", { class: "cc-fieldset" }, el("legend", { text: title }), el("div", { class: "cc-controls" }, fields.map((one) => one.box)));

function render({ model, el: host }) {
  const example = choice("example", "Example", { "": "your own", ...Object.fromEntries(Object.keys(EXAMPLES).map((name) => [name, name])) });
  const colour = choice("colour", "Colour by", { chunk: "chunk in its line", line: "line" });
  const rows = number("extent-m", "M", 1, MOST_EXTENT);
  const columns = number("extent-k", "K", 1, MOST_EXTENT);
  const major = choice("major", "Contiguous", { K: "K-major", MN: "MN-major" });
  const dtype = choice("dtype", "Element", Object.fromEntries(Object.entries(TYPES).map(([name, { bits }]) => [name, `${name}, ${bits} bit`])));
  const padding = number("padding", "Padding", 0, 255);
  const address = number("address", "Starts at byte", 0, 255);
  const tileRows = number("tile-m", "bM", 1, MOST_TILE);
  const tileColumns = number("tile-k", "bK", 1, MOST_TILE);
  const layout = choice("layout", "Layout", { atoms: "CUTLASS's atoms", plain: "plain" });
  const sharedMajor = choice("smem-major", "Contiguous", { K: "K-major", MN: "MN-major" });
  const swizzle = choice("swizzle", "Swizzle", Object.fromEntries(Object.keys(SWIZZLES).map((name) => [name, name])));
  const tileM = number("coord-m", "Tile down", 0, 0);
  const tileK = number("coord-k", "Tile across", 0, 0);
  const multicast = choice("multicast", "Multicast", { 1: "1 CTA", 2: "2 CTAs", 4: "4 CTAs" });
  const box = number("box", "Show box", 0, 0);

  const tensorPanel = el("section", { class: "cc-panel" });
  const tilePanel = el("section", { class: "cc-panel" });
  const sharedPanel = el("section", { class: "cc-panel cc-sharedpanel" });
  const state = el("div", { class: "cc-state", "data-cc": "state", "aria-live": "polite" });
  const fieldsPanel = el("section", { class: "cc-panel" });
  const rulesPanel = el("section", { class: "cc-panel" });
  const root = el(
    "section",
    { class: "cc-widget cc-tma", "data-cc": "tma", "aria-label": "What a TMA descriptor says and does", "data-lm-suppress-shortcuts": "true" },
    el(
      "div",
      { class: "cc-groups" },
      el("div", { class: "cc-examples" }, example.box),
      group("Tensor in global memory", rows, columns, major, dtype, padding, address),
      group("Tile in shared memory", tileRows, tileColumns, layout, sharedMajor, swizzle),
      group("Load", tileM, tileK, multicast, box),
    ),
    el(
      "div",
      { class: "cc-views" },
      el("div", { class: "cc-stack" }, tensorPanel, tilePanel),
      sharedPanel,
      state,
      el("div", { class: "cc-told" }, fieldsPanel, rulesPanel),
    ),
  );
  host.append(root);

  let all = null;
  let rules = [];
  let broken = null;
  let coord = [0, 0];
  let tile = null;
  let shared = null;
  let firstRow = 0;
  let hover = null;
  let settling = false;

  // ---- the controls ----
  const given = () => Object.fromEntries(keys.map((key) => [key, model.get(key)]));
  const tilesOf = (one) => one.extents.map((extent, mode) => Math.ceil(extent / one.tile[mode]));
  /** Take changes in; a tile that is no longer there gives way to the nearest one, and nothing stays chosen. */
  const change = (changes) => {
    const next = { ...given(), ...changes };
    next.coord = next.coord.map((at, mode) => Math.min(at, tilesOf(next)[mode]));
    settling = true; // one picture of all the changes, not one of each
    update(model, { ...changes, coord: next.coord, selected: {} });
    settling = false;
    draw();
  };
  const whole = (one, take) =>
    one.control.addEventListener("input", () => {
      const text = one.control.value.trim();
      const value = Number(text);
      const most = Number(one.control.max);
      if (text === "" || !Number.isInteger(value) || value < one.least || value > most) return one.complain(`a whole number from ${one.least} to ${most}`);
      one.complain("");
      return take(value);
    });
  const pair = (key, one, mode) => whole(one, (value) => change({ [key]: model.get(key).map((old, i) => (i === mode ? value : old)) }));
  pair("extents", rows, 0);
  pair("extents", columns, 1);
  pair("tile", tileRows, 0);
  pair("tile", tileColumns, 1);
  pair("coord", tileM, 0);
  pair("coord", tileK, 1);
  whole(padding, (value) => change({ padding: value }));
  whole(address, (value) => change({ address: value }));
  whole(box, (value) => broken || choose(chunkOf(all, ...boxAt(all, value, coord).start)));
  const picked = (one, take) => one.control.addEventListener("change", () => take(one.control.value));
  picked(major, (value) => change({ major: value, smem_major: value }));
  picked(sharedMajor, (value) => change({ smem_major: value }));
  picked(dtype, (value) => change({ dtype: value }));
  picked(layout, (value) => change({ smem_layout: value }));
  picked(swizzle, (value) => change({ swizzle: value }));
  picked(multicast, (value) => change({ multicast: Number(value) }));
  picked(colour, (value) => update(model, { colour: value }));
  picked(example, (value) => value && change({ ...START, ...EXAMPLES[value] }));

  const fill = () => {
    const now = given();
    const tiles = tilesOf(now);
    [tileM, tileK].forEach((one, mode) => {
      one.control.max = tiles[mode];
      one.box.querySelector("label").textContent = `${mode ? "Tile across" : "Tile down"}, of ${tiles[mode]}`;
    });
    const values = [
      [rows, now.extents[0]],
      [columns, now.extents[1]],
      [major, now.major],
      [dtype, now.dtype],
      [padding, now.padding],
      [address, now.address],
      [tileRows, now.tile[0]],
      [tileColumns, now.tile[1]],
      [layout, now.smem_layout],
      [sharedMajor, now.smem_major],
      [swizzle, now.swizzle],
      [tileM, now.coord[0]],
      [tileK, now.coord[1]],
      [multicast, String(now.multicast)],
      [colour, model.get("colour")],
      [example, Object.keys(EXAMPLES).find((name) => same({ ...START, ...EXAMPLES[name] }, now)) ?? ""],
    ];
    for (const [one, value] of values) {
      // Never under the reader's cursor, unless another change has made it another value.
      if (document.activeElement !== one.control || Number(one.control.value) !== value) one.control.value = value;
      one.complain("");
    }
    box.control.disabled = Boolean(broken);
    box.control.max = broken ? 0 : all.boxes - 1;
    box.box.querySelector("label").textContent = broken ? "Show box" : `Show box, of ${all.boxes}`;
    box.complain("");
  };

  // ---- choosing 16 bytes ----
  const chosen = () => {
    const c = model.get("selected")?.chunk;
    return broken || !Number.isInteger(c) || c < 0 || c >= chunksIn(all.tile_bytes) ? null : c;
  };
  const choose = (c) => {
    hover = null;
    update(model, { selected: c === null ? {} : { chunk: c } });
    bringUp();
  };
  /** Light what is chosen, with its rows of shared memory in sight; paging away from them later is free. */
  const bringUp = () => {
    const c = chosen();
    if (shared && c !== null && !shared.cells.has(c)) {
      firstRow = rowWindow(c);
      drawShared();
    }
    light();
  };
  const point = (c) => {
    if (hover === c) return;
    hover = c;
    light();
  };
  /** The chunk under the pointer in the picture of the tile. */
  const under = (event) => {
    const { left, top, width, height } = tile.node.getBoundingClientRect();
    const [rowsOf, columnsOf] = all.given.tile;
    const clip = (part, most) => Math.max(0, Math.min(most - 1, Math.floor(part * most)));
    return chunkOf(all, clip((event.clientY - top) / height, rowsOf), clip((event.clientX - left) / width, columnsOf));
  };
  const steps = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 1], ArrowLeft: [1, -1] };
  const walk = (event) => {
    if (event.key === "Escape") return choose(null);
    const step = steps[event.key];
    if (!step) return undefined;
    event.preventDefault();
    const now = chosen();
    if (now === null) return choose(chunkOf(all, 0, 0));
    const { first, inner, count } = chunkAt(all, now, coord);
    const [mode, sign] = step;
    const next = [...first];
    next[mode] = Math.max(0, Math.min(all.given.tile[mode] - (mode === inner ? count : 1), first[mode] + sign * (mode === inner ? count : 1)));
    return choose(chunkOf(all, ...next));
  };

  // ---- the pictures ----
  const title = (text, ...more) => el("h4", {}, text, ...more);
  const draw = () => {
    all = describe(given());
    rules = rulesOf(all);
    broken = refusal(rules);
    coord = model.get("coord");
    hover = null;
    fill();
    tensorPanel.replaceChildren(title(`Tensor, ${all.given.extents.join(" x ")}`), axes(tensorPicture(all, coord)));
    tile = tilePicture(all, coord, model.get("colour"), !broken);
    tilePanel.replaceChildren(title(`Tile, ${all.given.tile.join(" x ")}`, broken ? "" : `: ${all.boxes} ${all.boxes === 1 ? "box" : "boxes"}`), axes(tile.node));
    if (!broken) {
      tile.node.addEventListener("pointermove", (event) => event.pointerType === "mouse" && point(under(event)));
      tile.node.addEventListener("pointerleave", () => point(null));
      tile.node.addEventListener("click", (event) => choose(under(event)));
      tile.node.addEventListener("keydown", walk);
    }
    firstRow = chosen() === null ? 0 : rowWindow(chosen());
    drawShared();
    tell();
    judge();
    light();
  };
  const axes = (node) => el("div", { class: "cc-axes" }, el("span", { class: "cc-axis", "aria-hidden": "true", text: "k →" }), el("span", { class: "cc-axis cc-down", "aria-hidden": "true" }, el("span", { text: "m" }), el("span", { text: "↓" })), node);
  const rowWindow = (c) => Math.floor(Math.floor((c * CHUNK_BYTES) / ROW_BYTES) / WINDOW_ROWS) * WINDOW_ROWS;

  const drawShared = () => {
    shared = null;
    const name = "Shared memory";
    if (broken) {
      sharedPanel.replaceChildren(
        title(name),
        el("div", { class: "cc-refused", "data-cc": "refused" }, el("p", {}, el("strong", { text: refusedBy(broken) })), el("p", {}, "The rule: ", ...words(broken.text), ". Here: ", el("code", { text: broken.value })), el("p", {}, `${capital(broken.why)}.`)),
      );
      return;
    }
    shared = sharedTable(all, coord, firstRow, model.get("colour"));
    const cellOf = (event) => event.target.closest("td");
    shared.table.addEventListener("focusin", (event) => cellOf(event) && choose(Number(cellOf(event).dataset.chunk)));
    shared.table.addEventListener("mouseover", (event) => cellOf(event) && point(Number(cellOf(event).dataset.chunk)));
    shared.table.addEventListener("mouseleave", () => point(null));
    shared.table.addEventListener("keydown", (event) => event.key === "Escape" && choose(null));
    const total = Math.ceil(all.tile_bytes / ROW_BYTES);
    // The arrow keys go on over the end of the rows in sight.
    const onward = (event) => {
      const from = cellOf(event) && Number(cellOf(event).dataset.chunk);
      const to = from + { ArrowDown: ROW_BYTES, ArrowUp: -ROW_BYTES }[event.key] / CHUNK_BYTES;
      if (!(to >= 0 && to < chunksIn(all.tile_bytes)) || shared.cells.has(to)) return;
      event.preventDefault();
      event.stopPropagation();
      choose(to);
      shared.cells.get(to).focus();
    };
    shared.table.addEventListener("keydown", onward, { capture: true });
    const page = (text, label, to, off) => {
      const button = el("button", { type: "button", class: "cc-quiet", "data-cc": label, "aria-label": `${label} rows`, disabled: off, text });
      button.addEventListener("click", () => {
        firstRow = to;
        drawShared();
        light();
        const again = sharedPanel.querySelector(`[data-cc="${label}"]`);
        if (!again.disabled) again.focus();
      });
      return button;
    };
    const last = Math.min(firstRow + WINDOW_ROWS, total);
    const bytesShown = Math.min(last * ROW_BYTES, all.tile_bytes);
    const pager = el(
      "span",
      { class: "cc-pager", hidden: total <= WINDOW_ROWS },
      page("▲", "previous", firstRow - WINDOW_ROWS, firstRow === 0),
      page("▼", "next", firstRow + WINDOW_ROWS, last >= total),
      el("span", { "data-cc": "window", text: `bytes ${firstRow * ROW_BYTES} to ${bytesShown - 1} of ${all.tile_bytes}` }),
    );
    sharedPanel.replaceChildren(
      title(`${name}: `, el("code", { "data-cc": "smem-layout", text: all.notation.smem_layout })),
      el("div", { class: "cc-tools" }, pager, colour.box),
      el("div", { class: "cc-scroll" }, shared.table),
    );
  };
  const refusedBy = ({ who }) =>
    ({
      CuTe: "CuTe refuses: no descriptor is made.",
      driver: "cuTensorMapEncodeTiled returns CUDA_ERROR_INVALID_VALUE.",
      layout: "The bytes would lie elsewhere than this layout says.",
      load: "The load cannot be issued.",
    })[who];

  // ---- what is lit, and the state in words ----
  const light = () => {
    const kept = chosen();
    const c = broken ? null : (hover ?? kept);
    tile.hold(c);
    const at = c === null ? null : chunkAt(all, c, coord);
    if (shared)
      for (const [chunk, cell] of shared.cells) {
        cell.classList.toggle("cc-lit", chunk === c);
        cell.classList.toggle("cc-aside", at !== null && all.boxes > 1 && Number(cell.dataset.box) !== at.box);
        cell.setAttribute("aria-selected", String(chunk === kept));
      }
    if (!broken && document.activeElement !== box.control) box.control.value = at ? at.box : "";
    state.replaceChildren(...summary(), ...(at ? sentence(at) : broken ? [] : [el("p", { class: "cc-muted", text: "Point at the tile or at shared memory to see where 16 bytes go; the arrow keys walk either picture." })]));
  };
  const value = (name, text) => el("b", { "data-cc": name, text });
  const summary = () => {
    if (broken) return [el("p", {}, value("outcome", "refused"), ": ", ...words(broken.text), "; here ", value("broken-value", broken.value), ".")];
    const each = all.given.multicast > 1 ? " for each of the CTAs" : "";
    return [
      el(
        "p",
        {},
        value("instructions", all.instructions),
        ` ${all.instructions === 1 ? "instruction" : "instructions"}${each}, `,
        value("box-bytes", all.box_bytes),
        " bytes a box; the barrier expects ",
        value("tile-bytes", all.tile_bytes),
        " bytes",
        all.given.multicast > 1 ? " in every CTA: each loads its slices and sends them to all." : ", zeros outside the tensor included.",
      ),
    ];
  };
  const sentence = (at) => {
    const ranges = (from) => from.map((start, mode) => chunkRange(start, mode === at.inner ? at.count : 1));
    const [m, k] = ranges(at.first);
    const [gm, gk] = ranges(at.at);
    const inBox = boxAt(all, at.box, coord);
    const column = at.chunk % 8;
    const from = at.unswizzled % 8;
    const row = Math.floor(at.chunk / 8);
    const start = at.chunk * CHUNK_BYTES;
    const missing = at.count - at.valid;
    const moved =
      SWIZZLES[all.given.swizzle] === 0
        ? ""
        : from === column
          ? ` The swizzle leaves them in column ${column}: xor 0.`
          : ` The swizzle moved them from column ${from} to ${from} xor ${from ^ column} = ${column}.`;
    return [
      el(
        "p",
        {},
        "Bytes ",
        value("bytes", `${start}–${start + CHUNK_BYTES - 1}`),
        `, row ${row}, banks `,
        value("banks", `${4 * column}–${4 * column + 3}`),
        ": tile ",
        value("tile-crd", `(${m}, ${k})`),
        " = tensor ",
        value("tensor-crd", `(${gm}, ${gk})`),
        missing ? el("strong", { "data-cc": "zeros", text: missing === at.count ? ", outside: zeros" : `, the last ${missing} outside: zeros` }) : "",
        `.${moved}`,
      ),
      el(
        "p",
        {},
        "Box ",
        value("box-number", at.box),
        all.given.multicast > 1 ? `: CTA ${inBox.cta} of ${all.given.multicast}, its instruction ${inBox.instruction}, ` : ": ",
        "coordinates ",
        el("code", { "data-cc": "coordinates", text: `{${inBox.coordinates.join(", ")}}` }),
        ` to byte ${inBox.byte}.`,
      ),
    ];
  };

  // ---- the fields and the rules ----
  const tell = () => {
    const one = all.fields;
    fieldsPanel.replaceChildren(title("The descriptor, as ", el("code", { text: "cuTensorMapEncodeTiled" }), broken?.who === "CuTe" ? " would be given it" : " is given it"));
    if (!one) {
      fieldsPanel.append(el("p", { class: "cc-muted", text: "There are none: CuTe does not get that far." }));
      return;
    }
    const wrong = broken && FIELD_OF[broken.id];
    // A long name may go over to the next line after an underscore.
    const breakable = (text) => text.split(/(?<=_)/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));
    const braces = (values) => `{${values.join(", ")}}`;
    const texts = {
      tensorDataType: `CU_TENSOR_MAP_DATA_TYPE_${TYPES[all.given.dtype].format}`,
      tensorRank: one.tensorRank,
      globalAddress: one.globalAddress ? `base + ${one.globalAddress}` : "base",
      globalDim: braces(one.globalDim),
      globalStrides: `${braces(one.globalStrides)} bytes`,
      boxDim: braces(one.boxDim),
      elementStrides: braces(one.elementStrides),
      interleave: "CU_TENSOR_MAP_INTERLEAVE_NONE",
      swizzle: FORMATS[one.swizzle],
      l2Promotion: "CU_TENSOR_MAP_L2_PROMOTION_L2_128B",
      oobFill: "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    };
    const entries = Object.entries(texts).flatMap(([name, text]) => [el("dt", {}, el("code", { text: name })), el("dd", wrong === name ? { class: "cc-wrong" } : {}, wrong === name ? "✗ " : "", el("code", { "data-cc": "field", "data-field": name }, breakable(String(text))))]);
    const basis = el("p", { class: "cc-muted" }, "From ", el("code", { text: "tma_gbasis" }), " ", el("code", { "data-cc": "gbasis", text: all.notation.tma_gbasis }), ": the innermost mode first.");
    fieldsPanel.append(el("dl", { class: "cc-fields" }, entries), basis);
  };
  const judge = () => {
    const count = (ok) => rules.filter((rule) => rule.ok === ok).length;
    const marks = new Map([[true, ["✓", "holds"]], [false, ["✗", "broken"]], [null, ["·", "not reached"]]]);
    const items = rules.map((rule) => {
      const [mark, spoken] = marks.get(rule.ok);
      return el(
        "li",
        { class: `cc-rule cc-rule-${spoken.split(" ")[0]}`, "data-cc": "rule", "data-rule": rule.id, "data-ok": String(rule.ok) },
        el("span", { class: "cc-mark", role: "img", "aria-label": spoken, text: mark }),
        el("span", { class: "cc-who", text: WHO[rule.who] }),
        el("span", { class: "cc-what" }, ...words(rule.text), rule.value === "" ? "" : el("code", { "data-cc": "rule-value", text: rule.value }), rule.ok === false ? el("span", { class: "cc-why", text: `${capital(rule.why)}.` }) : ""),
      );
    });
    const heading = count(false) ? `Rules: ${count(false)} of ${rules.length} broken` : `Rules: all ${rules.length} hold`;
    // Folded at first, then as the reader left it.
    const folded = el("details", { "data-cc": "rules", open: Boolean(rulesPanel.querySelector("details")?.open) }, el("summary", { "data-cc": "verdict", text: heading }), el("ul", { class: "cc-rules" }, items));
    const focused = rulesPanel.contains(document.activeElement);
    rulesPanel.replaceChildren(folded);
    if (focused) folded.querySelector("summary").focus();
  };

  const stops = [follow(model, [...keys, "colour"], () => settling || draw()), follow(model, ["selected"], () => settling || bringUp())];
  return () => stops.forEach((stop) => stop());
}

// For tests: the arithmetic without the picture.
export const _math = { describe, rulesOf, refusal, byteOf, elementAt, boxAt, chunkAt, chunkOf };
export default { render };
