// A descriptor's bits and fields: set one and the other follows; several words beside each other.
import { el, field, follow, uid, update } from "./dom.js";
import { bitsText, fieldsOf, formulaOf, chunkByte, grouped, hexOf, layoutOf, parseWord, problemsOf, reservedIn, segmentsOf, storedFor, takenBy, withStored } from "./descriptors.js";

const TAGS = "abcdefghijklmnopqrstuvwxyz";
const HALF = 16; // no row of the strip is shorter, so that a field stays in one piece
const LETTER_PX = 7; // of a name in the strip
const BIT_PX = 19; // of a bit, where the strip is narrowest

function render({ model, el: host }) {
  const format = model.get("format");
  const tagOf = (part) => TAGS[format.fields.indexOf(part)];
  const hueOf = (part) => (part ? `cc-hue-${format.fields.indexOf(part) % 8}` : "cc-reserved");

  const title = el("h4", { "data-cc": "title" });
  const many = model.get("words").length > 1;
  const list = el("div", { class: "cc-wordlist", role: "radiogroup", "aria-label": "Which word is shown", hidden: !many });
  const typed = field("Word", el("input", { type: "text", "data-cc": "word", spellcheck: "false", autocomplete: "off" }), format.bits > 32 ? "15.5em" : "10.5em");
  const back = el("button", { type: "button", class: "cc-quiet", "data-cc": "reset", text: "As given" });
  const strip = el("div", { class: "cc-bitstrip", role: "group", "data-cc": "strip", "aria-label": "The bits, highest first. Arrow keys move between them, Space flips one" });
  const table = el("div", { class: "cc-fieldrows", "data-cc": "fields" });
  const state = el("div", { class: "cc-state", "data-cc": "state", "aria-live": "polite" });
  const reading = el("div", { class: "cc-reading", "data-cc": "reading" });
  const root = el(
    "section",
    { class: "cc-widget cc-descriptor", "data-cc": "descriptor", "aria-label": "The bits of a descriptor", "data-lm-suppress-shortcuts": "true" },
    title,
    list,
    el("div", { class: "cc-controls" }, typed.box, back),
    strip,
    state,
    el("div", { class: "cc-descriptor-below" }, table, reading),
  );
  host.append(root);

  const words = () => model.get("words").map(([name, text]) => [name, parseWord(text, format)]);
  const word = () => words()[model.get("chosen")][1];
  const put = (value, changes = {}) => {
    const next = model.get("words").map((pair) => [...pair]);
    next[model.get("chosen")][1] = hexOf(value, format.bits);
    update(model, { words: next, ...changes });
  };

  // ---- the strip of bits, built once ----
  const flips = new Map();
  const numbersOf = (low, bits) => (bits === 1 ? [low] : [low + bits - 1, low]);
  for (const { field: part, low, bits } of segmentsOf(format, HALF)) {
    const cells = [];
    for (let bit = low + bits - 1; bit >= low; bit -= 1) {
      const button = el("button", { type: "button", class: "cc-flip", role: "switch", tabindex: "-1", "data-cc": "bit", "data-bit": bit });
      button.addEventListener("click", () => {
        button.focus();
        put(word() ^ (1n << BigInt(bit)), { field: part?.name ?? "" });
      });
      flips.set(bit, { button, part });
      cells.push(button);
    }
    const name = part && part.name.length * LETTER_PX + 20 <= bits * BIT_PX ? ` ${part.name}` : "";
    const segment = el(
      "div",
      { class: `cc-segment ${hueOf(part)}`, "data-cc": "segment", "data-field": part?.name ?? "", "data-low": low },
      el("span", { class: "cc-segment-ends", "aria-hidden": "true" }, numbersOf(low, bits).map((bit) => el("span", { text: bit }))),
      el("span", { class: "cc-segment-bits" }, cells),
      el("span", { class: "cc-segment-tag", "aria-hidden": "true" }, part ? el("b", { text: tagOf(part) }) : "", part ? name : ""),
    );
    segment.style.setProperty("--bits", bits);
    strip.append(segment);
  }
  let held = format.bits - 1;
  flips.get(held).button.tabIndex = 0;
  const hold = (bit) => {
    flips.get(held).button.tabIndex = -1;
    held = bit;
    flips.get(held).button.tabIndex = 0;
  };
  strip.addEventListener("focusin", (event) => {
    const bit = Number(event.target.dataset.bit);
    hold(bit);
    const name = flips.get(bit).part?.name ?? "";
    if (model.get("field") !== name) update(model, { field: name });
  });
  strip.addEventListener("keydown", (event) => {
    const perRow = getComputedStyle(strip).gridTemplateColumns.split(" ").length;
    const start = Math.floor(held / perRow) * perRow;
    const to = { ArrowLeft: held + 1, ArrowRight: held - 1, ArrowUp: held + perRow, ArrowDown: held - perRow, Home: start + perRow - 1, End: start }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (flips.has(to)) flips.get(to).button.focus();
  });

  // ---- the list of fields, built once ----
  const rows = new Map();
  for (const part of [...format.fields].sort((a, b) => a.low - b.low)) {
    const most = (2 ** part.bits - 1) * part.scale;
    const control = part.names
      ? el("select", { "data-cc": "value", "data-field": part.name }, Object.entries(part.names).map(([name, number]) => el("option", { value: name, text: `${name} (${number})` })))
      : el("input", { type: "number", min: 0, max: most, step: part.scale, "data-cc": "value", "data-field": part.name });
    const box = field(part.name, control);
    const take = () => {
      let stored;
      try {
        stored = storedFor(part, control.value);
      } catch (error) {
        return box.complain(error.message);
      }
      box.complain("");
      return put(withStored(word(), part, stored), { field: part.name });
    };
    control.addEventListener(part.names ? "change" : "input", take);
    const tag = el("span", { class: `cc-fieldtag ${hueOf(part)}`, "aria-hidden": "true", text: tagOf(part) });
    const holds = el("code", { "data-cc": "holds", "data-field": part.name });
    const row = el(
      "div",
      { class: "cc-fieldrow", role: "group", "data-cc": "field", "data-field": part.name, "aria-label": `${part.name}, bits ${bitsText(part)}` },
      tag,
      box.box,
      el("span", { class: "cc-fieldunit", text: part.unit }),
      el("span", { class: "cc-fieldbits" }, el("span", { class: "cc-muted", text: bitsText(part) }), el("span", {}, "holds ", holds)),
      el("span", { class: "cc-fieldmeaning", text: part.meaning }),
    );
    const choose = () => model.get("field") !== part.name && update(model, { field: part.name });
    row.addEventListener("focusin", choose);
    row.addEventListener("click", choose);
    rows.set(part.name, { row, control, box, holds, part });
    table.append(row);
  }

  // ---- several words ----
  const group = uid("words");
  const radios = model.get("words").map(([name], i) => {
    const radio = el("input", { type: "radio", name: group, "data-cc": "choose", "data-word": i });
    radio.addEventListener("change", () => update(model, { chosen: i }));
    const digits = el("code", { "data-cc": "digits" });
    const against = el("span", { class: "cc-muted", "data-cc": "against" });
    return { radio, digits, against, row: el("label", { class: "cc-wordrow" }, radio, el("span", { class: "cc-wordname", text: name }), digits, against) };
  });
  list.append(...radios.map(({ row }) => row));
  const drawList = (differ) => {
    const all = words();
    const now = word();
    for (const [i, { radio, digits, against }] of radios.entries()) {
      const [, value] = all[i];
      radio.checked = i === model.get("chosen");
      const text = hexOf(value, format.bits);
      const unlike = hexOf(differ, format.bits);
      digits.replaceChildren("0x", ...[...text.slice(2)].flatMap((digit, at) => [at && at % 4 === 0 ? el("wbr") : "", unlike[at + 2] === "0" ? digit : el("mark", { text: digit })]).filter((node) => node !== ""));
      if (i === model.get("chosen")) against.textContent = "shown";
      else {
        const mine = fieldsOf(format, now);
        const changed = fieldsOf(format, value).filter((part, at) => part.stored !== mine[at].stored);
        const parts = changed.map((part) => `${part.field.name} ${part.meant}`);
        const open = reservedIn(format).some(([low, bits]) => ((value ^ now) >> BigInt(low)) & ((1n << BigInt(bits)) - 1n));
        against.textContent = parts.length || open ? `differs: ${[...parts, ...(open ? ["reserved bits"] : [])].join(", ")}` : "the same bits";
      }
    }
  };

  // ---- words about the word ----
  const p = (...children) => el("p", {}, ...children);
  const strong = (name, text) => el("b", { "data-cc": name, text });
  const code = (text, name) => el("code", { "data-cc": name, text });
  const sayField = (now) => {
    const one = fieldsOf(format, now).find(({ field: part }) => part.name === model.get("field"));
    if (!one) return [];
    const { field: part, stored, binary, meant } = one;
    const sum = part.scale > 1 ? `${stored} times ${part.scale} = ` : "";
    return [p(strong("said-field", part.name), `, bits ${bitsText(part)}, holds ${stored} (0b${binary}): `, sum, strong("said-meant", meant), `; ${part.meaning}.`)];
  };
  const sayLayout = (now) => {
    const layout = layoutOf(format, now);
    if (!layout) return [];
    const none = layout.span === 0;
    const formula = (major, name, note) => (layout.terms[major] ? p(name, code(formulaOf(layout, major), `formula-${major}`), note) : p(`No ${major}-major operand has this layout.`));
    return [
      el("h5", { text: "Where the matrix lies, in pieces of 16 bytes" }),
      p(none ? "No swizzle. From byte " : `Rows of ${layout.span} bytes, ${layout.atom} in a swizzle atom, then ${layout.swizzle} on the address. From byte `, strong("start", layout.start), ":"),
      formula("K", "K-major, row r, piece j along K: ", none ? "" : " (the leading offset is not used here)"),
      formula("MN", "MN-major, piece j along M or N, row k: ", ""),
    ];
  };
  const sayOperations = (now) => {
    const found = takenBy(format, now);
    if (!found.length) return [];
    const items = found.map(([name, why]) =>
      el("li", { "data-cc": "operation", "data-name": name, "data-takes": String(why === "") }, el("span", { class: why ? "cc-no" : "cc-yes", text: why ? "✗ " : "✓ " }), el("code", { text: name }), why ? ` does not take this descriptor: ${why}.` : " takes this descriptor."),
    );
    return [el("h5", { text: "Which operation takes it?" }), el("ul", { class: "cc-plainlist" }, items)];
  };

  const draw = () => {
    const now = word();
    const all = words();
    const differ = all.reduce((bits, [, value]) => bits | (value ^ all[0][1]), 0n);
    const given = BigInt(model.get("given")[model.get("chosen")][1]);
    const chosenField = model.get("field");
    title.textContent = model.get("title") || `${format.format}, ${format.bits} bits`;
    if (document.activeElement !== typed.control) {
      typed.control.value = grouped(hexOf(now, format.bits));
      typed.complain("");
    }
    back.disabled = now === given;
    drawList(differ);
    for (const [bit, { button, part }] of flips) {
      const one = Number((now >> BigInt(bit)) & 1n);
      const unlike = Boolean((differ >> BigInt(bit)) & 1n);
      button.textContent = one;
      button.setAttribute("aria-checked", String(one === 1));
      button.setAttribute("aria-label", `bit ${bit}, ${part ? part.name : "reserved"}: ${one}${unlike ? ", differs between the words" : ""}`);
      button.classList.toggle("cc-differs", unlike);
      button.classList.toggle("cc-wrongbit", !part && one === 1);
    }
    for (const segment of strip.children) segment.classList.toggle("cc-shown", Boolean(chosenField) && segment.dataset.field === chosenField);
    for (const { field: part, stored, named } of fieldsOf(format, now)) {
      const { row, control, box, holds } = rows.get(part.name);
      row.classList.toggle("cc-shown", part.name === chosenField);
      row.classList.toggle("cc-refusedrow", !named);
      holds.textContent = stored;
      if (part.names) {
        control.querySelector("[data-nothing]")?.remove();
        if (!named) control.append(el("option", { value: `?${stored}`, "data-nothing": "", text: `${stored}: stands for nothing` }));
        control.value = named ? Object.keys(part.names).find((name) => part.names[name] === stored) : `?${stored}`;
        box.complain("");
      } else if (document.activeElement !== control || Number(control.value) !== stored * part.scale || control.value === "") {
        // Never under the reader's cursor, unless another change has made it another value.
        if (document.activeElement !== control || control.getAttribute("aria-invalid") !== "true") {
          control.value = stored * part.scale;
          box.complain("");
        }
      }
    }
    const wrong = problemsOf(format, now);
    state.classList.toggle("cc-refusedstate", wrong.length > 0);
    state.replaceChildren(
      wrong.length ? p(strong("outcome", "Refused"), ": these bits are not a ", code(format.format), ".") : p(strong("outcome", "Accepted"), ": reserved bits are 0, and every number has a meaning."),
      ...(wrong.length ? [el("ul", { class: "cc-plainlist" }, wrong.map((text) => el("li", { "data-cc": "problem" }, el("span", { class: "cc-no", text: "✗ " }), text)))] : []),
      ...sayField(now),
    );
    reading.replaceChildren(...sayLayout(now), ...sayOperations(now), el("p", { class: "cc-muted cc-source", text: format.source }));
  };

  typed.control.addEventListener("input", () => {
    let value;
    try {
      value = parseWord(typed.control.value, format);
    } catch (error) {
      return typed.complain(error.message);
    }
    typed.complain("");
    return put(value);
  });
  typed.control.addEventListener("blur", draw);
  back.addEventListener("click", () => put(BigInt(model.get("given")[model.get("chosen")][1])));
  return follow(model, ["words", "chosen", "field", "title"], draw);
}

// For tests: the arithmetic without the picture.
export const _math = { chunkByte, fieldsOf, formulaOf, hexOf, layoutOf, parseWord, problemsOf, reservedIn, segmentsOf, storedFor, takenBy, withStored };
export default { render };
