// A tile of shared memory coloured by bank, the wavefronts of one access, and a swizzle whose numbers can be moved.
import { BANKS, MOST_BASE, MOST_PADDING, MOST_SHIFT, MOST_SWIZZLE_BITS, bitsOf, costOf, lanesNamed, lanesOf, obstacle, overrun, placeSentence, runsOf, sentence, spans, tileOf, unitOf, waitingLanes, wavefrontSentence } from "./banks.js";
import { el, field, follow, uid, update } from "./dom.js";
import { draw } from "./svg.js";

const LETTER_PX = 6.7; // the width of a letter in a picture, at 11 px
const LEFT = 26; // what the numbers of rows need
const TOP = 17;
const MOST_LISTED = 6; // instructions whose conflicts stand side by side

const rampClass = (bank) => `cc-fill-ramp-${Math.floor(bank / 4)}`;
const fits = (text, wide) => text.length * LETTER_PX + 3 <= wide;

/** Enables or disables a button; the focus of one that is disabled goes to `other`, so that it is not lost. */
function enable(button, on, other) {
  const focused = document.activeElement === button;
  button.disabled = !on;
  if (focused && !on) {
    other.disabled = false;
    other.focus();
  }
}

/** A number with a button on each side; `set` gets whole numbers, `limits` says [least, most]. */
function stepper(name, label, set, limits) {
  const id = uid("step");
  const input = el("input", { type: "number", id, "data-cc": name });
  const less = el("button", { type: "button", class: "cc-quiet", "data-cc": `${name}-less`, "aria-label": `${label}: one less`, text: "−" });
  const more = el("button", { type: "button", class: "cc-quiet", "data-cc": `${name}-more`, "aria-label": `${label}: one more`, text: "+" });
  const caption = el("label", { for: id, text: label });
  const message = el("span", { class: "cc-message", id: `${id}-message`, "aria-live": "polite", "data-cc": "message" });
  input.setAttribute("aria-describedby", message.id);
  const take = (value) => {
    const [least, most] = limits();
    const good = Number.isInteger(value) && value >= least && value <= most;
    message.textContent = good ? "" : `${least} to ${most}`;
    input.setAttribute("aria-invalid", good ? "false" : "true");
    if (good) set(value);
  };
  input.addEventListener("input", () => take(input.value.trim() === "" ? NaN : Number(input.value)));
  let now = 0;
  less.addEventListener("click", () => take(now - 1));
  more.addEventListener("click", () => take(now + 1));
  return {
    box: el("div", { class: "cc-field cc-stepper" }, caption, el("div", { class: "cc-stepper-row" }, less, input, more), message),
    more,
    /** Another label, also for the buttons. */
    name(text) {
      caption.textContent = text;
      less.setAttribute("aria-label", `${text}: one less`);
      more.setAttribute("aria-label", `${text}: one more`);
    },
    show(value) {
      now = value;
      const [least, most] = limits();
      input.min = least;
      input.max = most;
      const typing = document.activeElement === input && input.getAttribute("aria-invalid") === "true";
      if (!typing && Number(input.value) !== value) input.value = value;
      if (input.value === "") input.value = value;
      if (!typing) message.textContent = "";
      if (!typing) input.setAttribute("aria-invalid", "false");
      enable(less, value > least, more);
      enable(more, value < most, less);
    },
  };
}

function render({ model, el: host }) {
  const numbers = () => model.get("swizzle");
  const moveSwizzle = (at, value) => {
    const next = [...numbers()];
    next[at] = value;
    next[2] = Math.max(next[2], next[0]); // the bits that are read lie above the bits that are flipped
    update(model, { swizzle: next, wavefront: 0 });
  };
  const access = field("Instruction", el("select", { "data-cc": "access" }));
  access.box.classList.add("cc-bank-access");
  const bits = stepper("bits", "B, bits", (value) => moveSwizzle(0, value), () => [0, MOST_SWIZZLE_BITS]);
  const base = stepper("base", "M, base", (value) => moveSwizzle(1, value), () => [0, MOST_BASE]);
  const shift = stepper("shift", "S, shift", (value) => moveSwizzle(2, value), () => [numbers()[0], MOST_SHIFT]);
  const none = el("button", { type: "button", class: "cc-quiet", "data-cc": "none", text: "No swizzle" });
  none.addEventListener("click", () => moveSwizzle(0, 0));
  const pad = stepper("padding", "", (value) => update(model, { padding: value, wavefront: 0 }), () => [0, MOST_PADDING]);
  const back = el("button", { type: "button", class: "cc-quiet", "data-cc": "wave-less", "aria-label": "Previous wavefront", text: "◀" });
  const next = el("button", { type: "button", class: "cc-quiet", "data-cc": "wave-more", "aria-label": "Next wavefront", text: "▶" });
  const at = el("output", { "data-cc": "wave", "aria-live": "polite" });
  const group = (title, ...controls) => el("fieldset", { class: "cc-fieldset" }, typeof title === "string" ? el("legend", { text: title }) : title, el("div", { class: "cc-controls" }, controls));
  const swizzleTitle = el("legend");
  const padGroup = group("Padding", pad.box);
  const accessGroup = group("Access", access.box, el("div", { class: "cc-field" }, el("span", { class: "cc-bank-label", text: "Wavefront" }), el("div", { class: "cc-stepper-row" }, back, at, next)));
  const tileTitle = el("h4");
  const tilePicture = draw("svg", { class: "cc-bank-tile", role: "application", tabindex: "0", "data-cc": "tile" });
  const tileBox = el("div", { class: "cc-scroll" }, tilePicture);
  const wavesTitle = el("h4", { text: "The 32 banks: one row per wavefront" });
  const wavesPicture = draw("svg", { class: "cc-bank-waves", role: "img", "data-cc": "waves" });
  const refused = el("p", { class: "cc-muted", "data-cc": "refused", text: "The instruction cannot run on this tile, so there is nothing to count." });
  const tilePanel = el("section", { class: "cc-panel" }, tileTitle, tileBox);
  const wavesPanel = el("section", { class: "cc-panel" }, wavesTitle, wavesPicture, refused);
  const framesKey = el("p", { class: "cc-muted cc-bank-key" });
  const what = el("p", { class: "cc-bank-what", "data-cc": "what" });
  const views = el("div", { class: "cc-bank-views" }, tilePanel, wavesPanel);
  const state = el("div", { class: "cc-state", "data-cc": "state", "aria-live": "polite" });
  const bitsTitle = el("h5");
  const strip = el("div", { class: "cc-bank-bits", role: "img", "data-cc": "bitstrip" });
  const legend = el("p", { class: "cc-muted cc-bank-legend", "data-cc": "legend" });
  const root = el(
    "section",
    { class: "cc-widget cc-bank", "data-cc": "bank", "aria-label": "A tile of shared memory and its banks", "data-lm-suppress-shortcuts": "true" },
    el(
      "div",
      { class: "cc-bank-body" },
      el("div", { class: "cc-groups" }, accessGroup, group(swizzleTitle, bits.box, base.box, shift.box, none), padGroup),
      what,
      views,
      framesKey,
      state,
      bitsTitle,
      strip,
      legend,
    ),
  );
  host.append(root);

  let tile = null;
  let waves = [];
  let problem = "";
  let unit = 1;
  let cell = [1, 1]; // width and height, in pixels

  const chosen = () => model.get("accesses")[model.get("access")] ?? null;
  const noun = () => (tile.bits === 8 ? "byte" : "element");
  const wavefront = () => Math.min(model.get("wavefront"), waves.length);
  const selected = () => {
    const place = model.get("selected");
    return Number.isInteger(place?.row) && place.row < tile.extents[0] && place.column < tile.extents[1] ? place : null;
  };
  /** The row and column of the picture, in cells, that hold a coordinate; and the way back. */
  const cellOf = (row, column) => (tile.across === 1 ? [row, Math.floor(column / unit)] : [column, Math.floor(row / unit)]);
  const crdOf = (down, right) => (tile.across === 1 ? { row: down, column: right * unit } : { row: right * unit, column: down });
  const cells = () => [tile.extents[1 - tile.across], tile.extents[tile.across] / unit];

  // ---- controls ----
  access.control.addEventListener("change", () => update(model, { access: Number(access.control.value), wavefront: 0 }));
  const step = (by) => {
    const to = Math.max(0, Math.min(waves.length, wavefront() + by));
    update(model, { wavefront: to });
  };
  back.addEventListener("click", () => step(-1));
  next.addEventListener("click", () => step(1));
  const choose = (down, right) => {
    const [rows, columns] = cells();
    update(model, { selected: crdOf(Math.max(0, Math.min(rows - 1, down)), Math.max(0, Math.min(columns - 1, right))) });
  };
  tilePicture.addEventListener("click", (event) => {
    const box = tilePicture.getBoundingClientRect();
    choose(Math.floor((event.clientY - box.top - TOP) / cell[1]), Math.floor((event.clientX - box.left - LEFT) / cell[0]));
  });
  tilePicture.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return update(model, { selected: {} });
    const move = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!move) return undefined;
    event.preventDefault();
    const place = selected();
    const [down, right] = place ? cellOf(place.row, place.column) : [-move[0], -move[1]];
    const big = event.shiftKey ? 4 : 1;
    choose(down + move[0] * (place ? big : 1), right + move[1] * (place ? big : 1));
    tilePicture.querySelector(".cc-bank-chosen")?.scrollIntoView({ block: "nearest" });
    return undefined;
  });
  wavesPicture.addEventListener("click", (event) => {
    const box = wavesPicture.getBoundingClientRect();
    const turn = Math.floor((event.clientY - box.top - TOP) / rowHeight());
    if (turn >= 0 && turn < waves.length) update(model, { wavefront: turn + 1 === wavefront() ? 0 : turn + 1 });
  });

  // ---- pictures ----
  const rowHeight = () => (waves.length > 16 ? 14 : 18);
  const label = (x, y, text, more = {}) => draw("text", { x, y, class: "cc-bank-tick", text, ...more });
  const rect = (x, y, wide, high, name, more = {}) => draw("rect", { x, y, width: Math.max(1, wide), height: Math.max(1, high), class: name, ...more });

  /** With a view box, paper can make the picture smaller. */
  const setSize = (picture, across, down) => {
    picture.setAttribute("width", across);
    picture.setAttribute("height", down);
    picture.setAttribute("viewBox", `0 0 ${across} ${down}`);
  };

  const drawTile = () => {
    const [rows, columns] = cells();
    const room = Math.max(120, tileBox.clientWidth - 8);
    const wide = Math.min(46, (room - LEFT) / columns);
    const high = rows > 40 ? 13 : rows > 12 ? 15 : 22;
    cell = [wide, high];
    const numbered = fits("28", wide);
    const children = [];
    const every = Math.max(1, Math.ceil((LETTER_PX * String((columns - 1) * unit).length + 8) / wide));
    for (let c = 0; c < columns; c += every) children.push(label(LEFT + wide * c + (every > 1 ? 0 : wide / 2), TOP - 5, c * unit, { "text-anchor": every > 1 ? "start" : "middle" }));
    for (let r = 0; r < rows; r += high < 14 ? 2 : 1) children.push(label(LEFT - 5, TOP + high * (r + 0.5) + 3.5, r, { "text-anchor": "end" }));
    for (let r = 0; r < rows; r += 1)
      for (let c = 0; c < columns; c += 1) {
        const { row, column } = crdOf(r, c);
        const bank = tile.bank(tile.index(row, column));
        const gap = wide > 8 ? 0.5 : 0;
        children.push(rect(LEFT + wide * c + gap, TOP + high * r + gap, wide - 2 * gap, high - 2 * gap, rampClass(bank), { "data-bank": bank }));
        if (numbered) children.push(draw("text", { x: LEFT + wide * (c + 0.5), y: TOP + high * (r + 0.5) + 4, class: "cc-bank-number", text: bank }));
      }
    const one = chosen();
    const late = waitingLanes(waves);
    const now = wavefront() ? new Set(lanesOf(waves[wavefront() - 1])) : new Set();
    const frames = [];
    one?.indices.forEach((index, lane) => {
      if (index < 0) return;
      const [r, c] = cellOf(index % tile.extents[0], Math.floor(index / tile.extents[0]));
      const name = `cc-bank-frame${late.has(lane) ? " cc-late" : ""}${wide < 16 ? " cc-small" : ""}${now.has(lane) ? " cc-now" : ""}`;
      const frame = rect(LEFT + wide * c + 1, TOP + high * r + 1, wide * Math.max(1, one.elems / unit) - 2, high - 2, name, { "data-lane": lane });
      frame.append(draw("title", { text: `lane ${lane}` }));
      if (now.has(lane)) frames.push(frame);
      else frames.unshift(frame);
    });
    const place = selected();
    if (place) {
      const [r, c] = cellOf(place.row, place.column);
      frames.push(rect(LEFT + wide * c - 1, TOP + high * r - 1, wide + 2, high + 2, "cc-bank-chosen"));
    }
    setSize(tilePicture, LEFT + wide * columns + 2, TOP + high * rows + 2);
    tilePicture.setAttribute("aria-label", `The tile, ${tile.extents[0]} rows by ${tile.extents[1]} columns; arrow keys choose a cell of ${unit} ${noun()}s, with Shift by 4 cells`);
    tilePicture.replaceChildren(...children, ...frames);
    const inCell = `${unit} ${noun()}${unit === 1 ? "" : "s"}`;
    tileTitle.textContent = `The tile: ${inCell} in a cell${numbered ? ", with the first bank" : ""}${tile.across === 0 ? "; mode 0 goes across" : ""}`;
  };

  const drawWaves = () => {
    const count = waves.length;
    wavesPicture.style.display = problem || !count ? "none" : "";
    refused.hidden = !problem;
    if (problem || !count) return;
    const room = Math.max(120, wavesPanel.clientWidth - 2);
    const wide = Math.min(24, (room - LEFT) / BANKS);
    const high = rowHeight();
    const children = [rect(LEFT, TOP, wide * BANKS, high * count, "cc-bank-idle")];
    for (let bank = 0; bank < BANKS; bank += wide >= 17 ? 1 : 4) children.push(label(LEFT + wide * (bank + 0.5), TOP - 5, bank, { "text-anchor": "middle" }));
    waves.forEach((wave, turn) => {
      const top = TOP + high * turn;
      const late = turn > 0 && waves[turn - 1].first === wave.first;
      if (turn > 0 && !late) children.push(draw("line", { x1: LEFT - 20, x2: LEFT + wide * BANKS, y1: top, y2: top, class: "cc-bank-rule" }));
      children.push(label(LEFT - 5, top + high / 2 + 3.5, turn + 1, { "text-anchor": "end" }));
      for (const [bank, banks, lanes] of runsOf(wave)) {
        const block = rect(LEFT + wide * bank + 1, top + 1.5, wide * banks - 2, high - 3, `cc-bank-block ${rampClass(bank)}${late ? " cc-late" : ""}${wide * banks < 16 ? " cc-small" : ""}`, { "data-wave": turn + 1, "data-bank": bank, "data-lanes": lanes.join(" ") });
        block.append(draw("title", { text: `${lanesNamed(lanes)}, bank ${banks === 1 ? bank : `${bank} to ${bank + banks - 1}`}` }));
        children.push(block);
        const short = lanes.length > 1 ? `${lanes[0]}…` : `${lanes[0]}`;
        const long = lanes.length > 1 ? spans(lanes) : `lane ${lanes[0]}`;
        // Where the number of one lane would not fit, another's is left out as well.
        const text = [long, short].find((one) => fits(one.padEnd(2), wide * banks - 2));
        if (text) children.push(draw("text", { x: LEFT + wide * (bank + banks / 2), y: top + high / 2 + 4, class: "cc-bank-number", text }));
      }
      if (wavefront() === turn + 1) children.push(rect(LEFT - 1, top, wide * BANKS + 2, high, "cc-bank-chosen"));
    });
    setSize(wavesPicture, LEFT + wide * BANKS + 2, TOP + high * count + 3);
    wavesPicture.setAttribute("aria-label", sentence(tile, chosen()));
    wavesPicture.replaceChildren(...children);
  };

  // ---- words ----
  const p = (name, text) => el("p", { "data-cc": name, text });
  const conflictsOf = (one) => {
    if (obstacle(tile, one)) return "cannot run";
    const { conflicts } = costOf(tile.waves(one));
    return `${conflicts} conflict${conflicts === 1 ? "" : "s"}`;
  };
  const tell = () => {
    const lines = [];
    const one = chosen();
    if (problem) lines.push(el("p", {}, el("span", { class: "cc-no", text: "✗ " }), el("span", { "data-cc": "problem", text: problem })));
    else if (one) lines.push(p("cost", sentence(tile, one)));
    const turn = problem ? "" : wavefrontSentence(waves, wavefront());
    if (turn) lines.push(p("turn", turn));
    const all = model.get("accesses");
    if (all.length > 1 && all.length <= MOST_LISTED) lines.push(p("all", `All instructions: ${all.map((each) => `${each.name}: ${conflictsOf(each)}`).join("; ")}.`));
    const over = overrun(tile);
    if (over) lines.push(el("p", {}, el("span", { class: "cc-no", text: "✗ " }), el("span", { "data-cc": "overrun", text: over })));
    const place = selected();
    if (place) lines.push(p("place", placeSentence(tile, place.row, place.column)));
    const extra = tile.padding && tile.grown !== null ? (tile.extents[tile.grown] * tile.padding * tile.bits) / 8 : 0;
    lines.push(p("size", `The tile takes ${tile.bytes} bytes of shared memory${extra ? `, ${extra} of them padding` : ""}.`));
    state.replaceChildren(...lines);
  };

  const drawBits = () => {
    const { count, bank, read, flipped } = bitsOf(tile);
    const one = chosen();
    const lanes = (one?.indices ?? []).flatMap((index, lane) => (index < 0 ? [] : [[lane, index]]));
    const place = selected();
    // Lane 0 is often at offset 0, whose bits show nothing.
    const [lane, index] = place ? [null, tile.index(place.row, place.column)] : (lanes[1] ?? lanes[0] ?? [null, 1 % tile.before.length]);
    const [from, to] = [tile.before[index], tile.after[index]];
    const digit = (value, bit) => Math.floor(value / 2 ** bit) % 2;
    const all = Array.from({ length: count }, (_, i) => count - 1 - i);
    const kind = (bit) => (bit >= bank[0] && bit < bank[1] ? " cc-of-bank" : "");
    const row = (name, title, text, more = () => "") => [
      el("span", { class: "cc-bank-rowname", text: title }),
      ...all.map((bit) => el("span", { class: `cc-bit${kind(bit)}${more(bit)}`, "data-cc": name, "data-bit": bit, text: text(bit) })),
    ];
    const letters = (bit) => `${read.includes(bit) ? "Y" : ""}${flipped.includes(bit) ? "Z" : ""}`;
    strip.style.setProperty("--bits", count);
    strip.replaceChildren(
      ...row("bit", "bit", (bit) => bit, () => " cc-bit-head"),
      ...row("before", "offset", (bit) => digit(from, bit), (bit) => (read.includes(bit) ? " cc-read" : "")),
      ...row("after", "swizzled", (bit) => digit(to, bit), (bit) => (digit(to, bit) === digit(from, bit) ? "" : " cc-changed")),
      ...row("role", "", letters, () => " cc-bit-head"),
    );
    strip.setAttribute("aria-label", `Offset ${from} in binary ${from.toString(2)}, swizzled ${to.toString(2)}`);
    bitsTitle.textContent = `The bits of offset ${from}${lane === null ? "" : `, where lane ${lane} begins`}`;
    const bitsWord = (list) => `bit${list.length === 1 ? "" : "s"} ${spans(list)}`;
    const chooses = bank[1] > bank[0] ? `The shaded bits choose the bank.` : "";
    legend.textContent = read.length
      ? `${chooses} Swizzle<${tile.swizzle.join(",")}> reads ${bitsWord(read)} (Y) and flips ${bitsWord(flipped)} (Z) where the bit ${tile.swizzle[2]} places above is 1.`
      : `${chooses} Without a swizzle no bit is flipped.`;
  };

  let drawn = "";
  let listed = "";
  const redraw = () => {
    const made = { notation: model.get("notation"), bits: model.get("element_bits"), swizzle: numbers(), padding: model.get("padding"), base: model.get("base") };
    const key = JSON.stringify(made);
    if (key !== drawn) tile = tileOf(made);
    drawn = key;
    const names = JSON.stringify(model.get("accesses").map((one) => one.name));
    if (names !== listed) access.control.replaceChildren(...model.get("accesses").map((one, i) => el("option", { value: i, text: one.name })));
    listed = names;
    access.control.value = String(model.get("access"));
    const one = chosen();
    problem = one ? obstacle(tile, one) : "";
    waves = one ? tile.waves(one) : [];
    unit = unitOf(tile, one);
    accessGroup.hidden = !one;
    wavesPanel.hidden = !one;
    framesKey.textContent = `A stronger blue is a higher bank.${one ? " Frames mark what the instruction accesses; a dashed orange one has to wait because its bank is busy." : ""}`;
    padGroup.hidden = tile.grown === null;
    bits.show(numbers()[0]);
    base.show(numbers()[1]);
    shift.show(numbers()[2]);
    pad.show(tile.padding);
    enable(none, numbers()[0] !== 0, bits.more);
    at.textContent = wavefront() ? `${wavefront()} of ${waves.length}` : waves.length ? `all ${waves.length}` : "none";
    swizzleTitle.textContent = `Swizzle, counted in ${noun()}s`;
    pad.name(`Extra ${noun()}s in a row`);
    enable(back, wavefront() > 0, next);
    enable(next, wavefront() < waves.length, back);
    what.replaceChildren(one ? `${one.name} on ` : "", el("code", { "data-cc": "layout", text: tile.text }));
    drawTile();
    drawWaves();
    tell();
    drawBits();
  };

  let wide = 0;
  const watch = new ResizeObserver(() => {
    if (Math.abs(views.clientWidth - wide) < 1 || !tile) return;
    wide = views.clientWidth;
    drawTile();
    drawWaves();
  });
  watch.observe(views);
  const stop = follow(model, ["notation", "element_bits", "base", "accesses", "access", "swizzle", "padding", "wavefront", "selected"], redraw);
  return () => {
    watch.disconnect();
    stop();
  };
}

// For tests: the arithmetic without the picture.
export const _math = { bitsOf, costOf, obstacle, overrun, placeSentence, runsOf, sentence, spans, tileOf, unitOf, waitingLanes, wavefrontSentence };
export default { render };
