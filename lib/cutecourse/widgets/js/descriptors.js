// Descriptors as bit fields: words read and set, what refuses them, where elements lie. Words are BigInts.

export class WordError extends Error {}

const maskOf = (bits) => (1n << BigInt(bits)) - 1n;
const heldBy = (word, low, bits) => Number((word >> BigInt(low)) & maskOf(bits));
const largestOf = ({ bits }) => 2 ** bits - 1;

/** `0x` and all the digits of a word. */
export const hexOf = (word, bits) => `0x${word.toString(16).padStart(bits / 4, "0")}`;
/** The digits in fours, for reading. */
export const grouped = (text) => `0x${text.slice(2).replace(/(.{4})(?=.)/g, "$1_")}`;

/** A word as a reader types it: hexadecimal with 0x, binary with 0b, or decimal; _ and blanks between digits. */
export function parseWord(text, format) {
  const plain = text.replace(/[_'\s]/g, "").toLowerCase();
  if (!/^(0x[0-9a-f]+|0b[01]+|[0-9]+)$/.test(plain)) throw new WordError(`"${text.trim()}" is not a number. Write 0x and hexadecimal digits, 0b and bits, or decimal digits.`);
  const word = BigInt(plain);
  if (word >> BigInt(format.bits)) throw new WordError(`${format.format} has ${format.bits} bits; ${text.trim()} has more.`);
  return word;
}

const nameOf = (field, stored) => Object.keys(field.names ?? {}).find((name) => field.names[name] === stored) ?? null;
const choicesOf = (field) => Object.entries(field.names ?? {}).map(([name, number]) => `${name} (${number})`).join(", ");
const inUnit = (field) => (field.unit ? ` ${field.unit}` : "");
export const bitsText = ({ low, bits }) => `[${low},${low + bits})`;

/** What a stored number stands for, in words. */
export function meantBy(field, stored) {
  if (field.names) return nameOf(field, stored) ?? "stands for nothing";
  return `${stored * field.scale}${inUnit(field)}`;
}

/** Every field with what it holds, lowest bits first. */
export const fieldsOf = (format, word) =>
  format.fields.map((field) => {
    const stored = heldBy(word, field.low, field.bits);
    return { field, stored, binary: stored.toString(2).padStart(field.bits, "0"), meant: meantBy(field, stored), named: !field.names || nameOf(field, stored) !== null };
  });

/** What the bits hold for a number in the field's unit, or an enumeration's name; refused in words. */
export function storedFor(field, meant) {
  if (field.names) {
    if (meant in field.names) return field.names[meant];
    throw new WordError(`${field.name} has no value '${meant}'; there are ${choicesOf(field)}`);
  }
  const text = String(meant).trim();
  if (!/^-?[0-9]+$/.test(text)) throw new WordError(`${field.name} takes a whole number${field.unit ? ` of ${field.unit}` : ""}, not "${text}"`);
  const number = Number(text);
  const most = largestOf(field) * field.scale;
  if (!(number >= 0 && number <= most) || number % field.scale) {
    const step = field.scale > 1 ? ` in steps of ${field.scale}` : "";
    throw new WordError(`${field.name} = ${text}${inUnit(field)} does not fit: bits ${bitsText(field)} hold 0 to ${most}${step}`);
  }
  return number / field.scale;
}

/** The word with another number in a field's bits. */
export const withStored = (word, field, stored) => (word & ~(maskOf(field.bits) << BigInt(field.low))) | (BigInt(stored) << BigInt(field.low));

/** The runs of bits that no field has, as [first bit, how many], lowest first. */
export function reservedIn(format) {
  const runs = [];
  let at = 0;
  for (const { low, bits } of [...format.fields].sort((a, b) => a.low - b.low)) {
    if (low > at) runs.push([at, low - at]);
    at = low + bits;
  }
  return at < format.bits ? [...runs, [at, format.bits - at]] : runs;
}

/** Why these bits are no descriptor of this format, in words; [] where nothing refuses them. */
export function problemsOf(format, word) {
  const found = [];
  for (const [low, bits] of reservedIn(format)) {
    const held = heldBy(word, low, bits);
    if (held && bits === 1) found.push(`bit ${low} is reserved and must be 0, but holds 1`);
    else if (held) found.push(`bits ${low} to ${low + bits - 1} are reserved and must be 0, but hold 0b${held.toString(2)}`);
  }
  for (const { field, stored, named } of fieldsOf(format, word)) {
    if (!named) found.push(`${field.name} holds ${stored}, which stands for nothing; there are ${choicesOf(field)}`);
    for (const rule of format.constants.filter((one) => one.field === field.name && !one.allowed.includes(stored)))
      found.push(`${field.name} holds ${stored}: ${rule.why} (${rule.source})`);
  }
  return found;
}

/** Fields and reserved runs as { field or null, low, bits }, highest first, cut at rows of `row` bits. */
export function segmentsOf(format, row) {
  const parts = [...format.fields.map((field) => ({ field, low: field.low, bits: field.bits })), ...reservedIn(format).map(([low, bits]) => ({ field: null, low, bits }))];
  const cut = [];
  for (const { field, low, bits } of parts.sort((a, b) => b.low - a.low))
    for (let high = low + bits; high > low; ) {
      const start = Math.max(low, Math.floor((high - 1) / row) * row);
      cut.push({ field, low: start, bits: high - start });
      high = start;
    }
  return cut;
}

const storedIn = (format, word, name) => {
  const field = format.fields.find((one) => one.name === name);
  return heldBy(word, field.low, field.bits);
};

/** The layout that a shared-memory descriptor names, with its steps in bytes; null where there is none. */
export function layoutOf(format, word) {
  const field = format.fields.find((one) => one.name === "layout_type");
  if (!field) return null;
  const name = nameOf(field, heldBy(word, field.low, field.bits));
  const known = format.layouts[name];
  if (!known) return null;
  return { name, ...known, start: storedIn(format, word, "start_address") * 16, LBO: storedIn(format, word, "leading_byte_offset") * 16, SBO: storedIn(format, word, "stride_byte_offset") * 16 };
}

/** The byte from the matrix's start at which 16 bytes of it lie, before the swizzle. */
export function chunkByte(layout, major, at) {
  return layout.terms[major].reduce((total, [index, how, by, step]) => {
    const count = how === "mod" ? at[index] % by : Math.floor(at[index] / by);
    return total + count * (typeof step === "number" ? step : layout[step]);
  }, 0);
}

/** The same as a formula, with this descriptor's numbers in it. */
export function formulaOf(layout, major) {
  const part = ([index, how, by, step]) => {
    const count = how === "all" ? index : how === "mod" ? `(${index} mod ${by})` : `⌊${index}/${by}⌋`;
    return typeof step === "number" ? `${step} ${count}` : `${layout[step]} ${count}`;
  };
  return layout.terms[major].map(part).join(" + ");
}

/** The library's operations, each with why it has no such instruction descriptor, or "". */
export function takenBy(format, word) {
  const held = Object.fromEntries(fieldsOf(format, word).map((part) => [part.field.name, part]));
  const whyNot = (op) => {
    for (const name of op.zero) if (held[name].stored) return `${name} holds ${held[name].stored}; it must be 0`;
    const types = ["a_format", "b_format", "c_format"].map((name) => (held[name].named ? held[name].meant : String(held[name].stored)));
    if (!op.types.some((known) => known.every((type, i) => type === types[i]))) return `A ${types[0]}, B ${types[1]} and D ${types[2]} are not among its types`;
    const [m, n] = [held.m_dim.stored * 16, held.n_dim.stored * 8];
    const ns = op.shapes[m];
    if (!ns) return `M is ${m}; it takes ${Object.keys(op.shapes).join(" or ")}`;
    if (!ns.includes(n)) return `N is ${n}; with M = ${m} it takes ${ns[0]} to ${ns.at(-1)} in steps of ${ns[1] - ns[0]}`;
    return "";
  };
  return format.operations.map((op) => [op.name, whyNot(op)]);
}
