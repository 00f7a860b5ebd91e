// What CuTe, the driver and the instruction ask for, each rule with the value at hand; pure functions.
import { atomOf, CHUNK_BYTES, spanBytes } from "./tma.js";

const BOX_MOST = 256;
const BOX_BYTES_MOST = 233472;
const SHARED_MOST = 232448;
const list = (values) => `{${values.join(", ")}}`;
const sized = (bytes) => `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;

/**
 * The rules in the order in which they are met: `{ id, who, text, value, ok, why }`. `ok` is null where an
 * earlier rule is broken and nothing can be said; `why` says what follows from breaking it and what to do.
 */
export function rulesOf(all) {
  const { given, bytes, fields } = all;
  const [rows, columns] = given.tile;
  const rules = [];
  const add = (id, who, text, value, ok, why) => rules.push({ id, who, text, value, ok, why });
  // A rule on the fields: nothing can be said of it before there are fields.
  const field = (id, who, text, rule, why) => add(id, who, text, fields ? rule().value : "", fields ? rule().ok : null, why);

  if (given.smem_layout === "atoms") {
    const [m, k] = atomOf(given).shape;
    add(
      "atom",
      "CuTe",
      "the layout's atom divides the tile",
      `${m} x ${k} into ${rows} x ${columns}`,
      rows % m === 0 && columns % k === 0,
      `tile_to_shape lays whole atoms side by side: make the tile a multiple of ${m} x ${k}, or take a narrower swizzle`,
    );
  }
  if (all.slayout)
    add(
      "vectorization",
      "CuTe",
      "neighbours in shared memory are neighbours in the tensor",
      all.notation.sidx2gmode_full,
      fields !== null,
      "no two elements that follow each other in shared memory are neighbours in the tensor: take a larger tile",
    );
  const names = ["M", "K"];
  const inTensor = given.major === "K" ? "K" : "M";
  const inShared = all.order ? names[all.order[0]] : "";
  field(
    "majorness",
    "CuTe",
    "the box's first mode has stride 1 in global memory",
    () => ({ value: `stride ${all.innerStride}`, ok: all.innerStride === 1 }),
    `neighbours lie along ${inTensor} in the tensor, but along ${inShared} in shared memory, and TMA does not transpose: give both one major`,
  );
  field(
    "multicast_divides",
    "CuTe",
    "the box splits evenly among the CTAs of the multicast",
    () => ({ value: `${list(all.boxDimWhole)} by ${given.multicast}`, ok: all.boxDim !== null }),
    "each CTA loads one slice of the box, cut from the slowest mode on: take a tile that the number of CTAs divides",
  );
  field("rank", "driver", "`tensorRank` is 1 to 5", () => ({ value: String(fields.tensorRank), ok: fields.tensorRank <= 5 }), "");
  field(
    "address",
    "driver",
    "`globalAddress` is a multiple of 16",
    () => ({ value: `base + ${given.address}`, ok: given.address % 16 === 0 }),
    "a descriptor cannot hold such an address: let the tensor start at a multiple of 16",
  );
  field(
    "dims",
    "driver",
    "`globalDim` is 1 to 2^32 each",
    () => ({ value: list(fields.globalDim), ok: fields.globalDim.every((n) => n >= 1 && n <= 2 ** 32) }),
    "a mode of the tensor cannot be longer",
  );
  field(
    "stride_multiple",
    "driver",
    "`globalStrides` are multiples of 16 bytes, below 2^40",
    () => ({ value: list(fields.globalStrides), ok: fields.globalStrides.every((n) => n % 16 === 0 && n < 2 ** 40) }),
    all.innerStride === 1
      ? `pad the lines of the tensor until extent and padding, times ${sized(bytes)}, are a multiple of 16`
      : "this is the step between neighbours in the tensor, which follows from the two majors",
  );
  field(
    "box",
    "driver",
    `\`boxDim\` is 1 to ${BOX_MOST} each`,
    () => ({ value: list(fields.boxDim), ok: fields.boxDim.every((n) => n >= 1 && n <= BOX_MOST) }),
    `CuTe makes one box of the whole run and does not cut it: make the tile at most ${BOX_MOST} long in this mode`,
  );
  const inner = () => fields.boxDim[0] * bytes;
  field(
    "inner_multiple",
    "driver",
    "the box's first mode is a multiple of 16 bytes",
    () => ({ value: `${fields.boxDim[0]} x ${sized(bytes)} = ${inner()}`, ok: inner() % 16 === 0 }),
    "TMA moves 16 bytes at a time: make the tile wider along the contiguous mode, or cut the multicast",
  );
  const span = spanBytes(given.swizzle);
  if (given.swizzle !== "none")
    field(
      "swizzle_span",
      "driver",
      `the box's first mode fits the swizzle's span of ${span} bytes`,
      () => ({ value: `${inner()} of ${span}`, ok: inner() <= span }),
      "the pattern repeats within a span and cannot permute beyond it: lay the tile out in atoms, and CuTe makes one box for each span",
    );
  field("element_strides", "driver", "`elementStrides` are 1 to 8 each", () => ({ value: list(fields.elementStrides), ok: true }), "");
  field(
    "box_bytes",
    "driver",
    `the box has at most ${BOX_BYTES_MOST} bytes`,
    () => {
      const boxBytes = fields.boxDim.reduce((product, n) => product * n, bytes);
      return { value: sized(boxBytes), ok: boxBytes <= BOX_BYTES_MOST };
    },
    "no documentation says so, but the driver of an H200 refuses more: this is the shared memory of a multiprocessor",
  );
  if (given.swizzle !== "none")
    field(
      "filled",
      "layout",
      `the box's first mode fills the swizzle's span of ${span} bytes`,
      () => ({ value: `${inner()} of ${span}`, ok: inner() > span ? null : inner() === span }),
      "a shorter line still takes the whole span in shared memory, so the bytes do not lie where this layout says: take the swizzle whose span is the line",
    );
  const several = () => all.boxes !== null && all.boxes > 1;
  field(
    "aligned",
    "load",
    "each box starts at a multiple of 128 bytes in shared memory",
    () => ({ value: several() ? `every ${sized(all.box_bytes)}` : "one box, at 0", ok: all.boxes === null ? null : !several() || all.box_bytes % 128 === 0 }),
    "TMA writes to no other address: make the boxes larger, or let fewer CTAs share one",
  );
  add(
    "shared",
    "load",
    "the tile fits into a CTA's shared memory",
    `${all.tile_bytes} of ${SHARED_MOST} bytes`,
    all.tile_bytes <= SHARED_MOST,
    "a CTA of compute capability 9.0 or 10.0 has at most 227 KiB: make the tile smaller",
  );
  return rules;
}

/** The field of the descriptor that a rule speaks of. */
export const FIELD_OF = {
  address: "globalAddress",
  dims: "globalDim",
  majorness: "globalDim",
  stride_multiple: "globalStrides",
  multicast_divides: "boxDim",
  box: "boxDim",
  box_bytes: "boxDim",
  inner_multiple: "boxDim",
  swizzle_span: "boxDim",
  filled: "boxDim",
};

/** The first rule that is broken, or null: where the way from the tensor to shared memory ends. */
export const refusal = (rules) => rules.find((rule) => rule.ok === false) ?? null;

/** What one chunk says in words that all views share. */
export const chunkRange = (from, count) => (count === 1 ? String(from) : `${from}–${from + count - 1}`);
export const chunksIn = (bytes) => Math.ceil(bytes / CHUNK_BYTES);
