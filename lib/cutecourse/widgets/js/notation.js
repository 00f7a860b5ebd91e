// Shapes, strides and layouts: reading and writing the notation, and the function a layout is.
// An int tuple is a number or an array of int tuples; a layout is { shape, stride } with congruent int tuples.

export class NotationError extends Error {}

export const isTuple = Array.isArray;

/** Reads one int tuple: `4`, `(4,8)`, `((2,2),8)`, blanks anywhere, `_4` as CuTe C++ writes a static 4. */
export function parseTuple(text, what = "int tuple") {
  const tokens = text.match(/\d+|\S/g) ?? [];
  let at = 0;
  const fail = (why) => {
    throw new NotationError(`${what} "${text.trim()}": ${why}`);
  };
  const item = () => {
    const token = tokens[at++];
    if (token === undefined) fail("it ends too early; write a number such as 4 or a tuple such as (4,8)");
    if (token === "(") {
      const items = [];
      if (tokens[at] === ")") fail("an empty tuple has no modes; write a number inside");
      for (;;) {
        items.push(item());
        const next = tokens[at++];
        if (next === ")") return items;
        if (next === undefined) fail("a parenthesis is not closed");
        if (next !== ",") fail(`expected "," or ")" before "${next}"`);
        if (tokens[at] === ")") {
          at += 1;
          return items; // (4,) is a tuple of one
        }
      }
    }
    if (token === "_" && /^\d+$/.test(tokens[at] ?? "")) return Number(tokens[at++]);
    if (token === "-" && /^\d+$/.test(tokens[at] ?? "")) return -Number(tokens[at++]);
    if (/^\d+$/.test(token)) {
      const value = Number(token);
      if (!Number.isSafeInteger(value)) fail(`${token} is too large to compute with here`);
      if (tokens[at] === "@") fail("coordinate strides such as 1@0 are not drawn here; write integers");
      return value;
    }
    return fail(`"${token}" is neither a number nor a parenthesis`);
  };
  const result = item();
  if (at < tokens.length) {
    const hint = tokens[at] === "," ? "; put the modes in parentheses" : "";
    fail(`nothing may follow "${tokens.slice(0, at).join("")}", but "${tokens[at]}" does${hint}`);
  }
  return result;
}

export function formatTuple(value) {
  return isTuple(value) ? `(${value.map(formatTuple).join(",")})` : String(value);
}

/** Reads `shape:stride`; a shape alone gets CuTe's default, the compact column-major strides. */
export function parseLayout(text) {
  const parts = text.split(":");
  if (parts.length > 2) throw new NotationError(`layout "${text.trim()}": one ":" between shape and stride, not ${parts.length - 1}`);
  const shape = parseTuple(parts[0], "shape");
  checkShape(shape);
  return checkLayout(shape, parts.length === 2 ? parseTuple(parts[1], "stride") : compactStride(shape));
}

/** The layout of a shape and a stride that fit each other, or an error that says where they do not. */
export function checkLayout(shape, stride) {
  checkShape(shape);
  const why = mismatch(shape, stride);
  if (why) throw new NotationError(`stride ${formatTuple(stride)} does not fit shape ${formatTuple(shape)}: ${why}`);
  return makeLayout(shape, stride);
}

export function formatLayout(layout) {
  return `${formatTuple(layout.shape)}:${formatTuple(layout.stride)}`;
}

export function makeLayout(shape, stride) {
  return { shape, stride };
}

function checkShape(shape) {
  for (const extent of flatten(shape))
    if (!(extent >= 1)) throw new NotationError(`shape ${formatTuple(shape)}: every extent is at least 1, and ${extent} is not`);
  if (!Number.isSafeInteger(product(shape))) throw new NotationError(`shape ${formatTuple(shape)} is too large to compute with here`);
}

/** Why `stride` is not congruent with `shape`, or "" when it is. */
function mismatch(shape, stride, where = "") {
  const place = where ? `in mode ${where} ` : "";
  if (isTuple(shape) !== isTuple(stride))
    return `${place}${formatTuple(shape)} has ${formatTuple(stride)}; every mode of the shape needs one stride of its own`;
  if (!isTuple(shape)) return "";
  if (shape.length !== stride.length) return `${place}there are ${shape.length} modes and ${stride.length} strides`;
  for (let i = 0; i < shape.length; i += 1) {
    const why = mismatch(shape[i], stride[i], where ? `${where}.${i}` : String(i));
    if (why) return why;
  }
  return "";
}

export function flatten(value) {
  return isTuple(value) ? value.flatMap(flatten) : [value];
}

export function product(shape) {
  return flatten(shape).reduce((a, b) => a * b, 1);
}

/** Column-major compact strides: each leaf steps over all leaves before it; an extent of 1 gets stride 0. */
export function compactStride(shape) {
  let current = 1;
  const walk = (part) => {
    if (isTuple(part)) return part.map(walk);
    const stride = part === 1 ? 0 : current;
    current *= part;
    return stride;
  };
  return walk(shape);
}

export const size = (layout) => product(layout.shape);
export const rank = (layout) => (isTuple(layout.shape) ? layout.shape.length : 1);
export const mode = (layout, i) =>
  isTuple(layout.shape) ? makeLayout(layout.shape[i], layout.stride[i]) : layout;
export const modes = (layout) => Array.from({ length: rank(layout) }, (_, i) => mode(layout, i));
export const fromModes = (list) => makeLayout(list.map((m) => m.shape), list.map((m) => m.stride));
export const leaves = (layout) => {
  const stride = flatten(layout.stride);
  return flatten(layout.shape).map((extent, i) => [extent, stride[i]]);
};

/** The coordinate of linear index `idx`, leftmost mode fastest; the last leaf takes what is over. */
export function idx2crd(idx, shape) {
  const flat = flatten(shape);
  let rest = idx;
  const digits = flat.map((extent, i) => {
    const digit = i === flat.length - 1 ? rest : rest % extent;
    rest = Math.floor(rest / extent);
    return digit;
  });
  const walk = (part) => (isTuple(part) ? part.map(walk) : digits.shift());
  return walk(shape);
}

/** The offset of a coordinate: an index goes to the tuple it stands for, then digits times strides. */
export function crd2idx(crd, shape, stride) {
  if (!isTuple(crd)) {
    const at = flatten(idx2crd(crd, shape));
    return flatten(stride).reduce((sum, step, i) => sum + at[i] * step, 0);
  }
  if (!isTuple(shape) || crd.length !== shape.length)
    throw new NotationError(`coordinate ${formatTuple(crd)} does not fit shape ${formatTuple(shape)}`);
  return crd.reduce((sum, part, i) => sum + crd2idx(part, shape[i], stride[i]), 0);
}

export const offsetAt = (layout, idx) => crd2idx(idx, layout.shape, layout.stride);

/** One past the largest offset: each leaf contributes (extent - 1) * |stride|. */
export function cosize(layout) {
  return leaves(layout).reduce((sum, [extent, step]) => sum + (extent - 1) * Math.abs(step), 1);
}
