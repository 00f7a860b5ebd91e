// The playground for PTX: a text, a form for its launch, and the results. Python runs in a worker (run.js), and nothing
// of it is fetched before the reader asks.
//
// All that comes from a link, a file or a kernel is shown through text nodes and values of fields, never as HTML.
//
// A classic script, as run.js is.

(() => {
const VIEW = "application/vnd.jupyter.widget-view+json";
const STORE = "cute-playground";
const LINK = "#ptx=";
const EXAMPLE = "#example=";
const MOST_LINK = 400_000; // characters of a link
const MOST_TEXT = 1_000_000; // of what is pasted, and of what a link or a file unpacks to
const MOST_FIELD = 100_000; // of one field
const MOST_PARAMETERS = 256;
const LONG_LINK = 8_000;
const MOST_KEPT = 6;
const MOST_FILE = 16 << 20;
const LAUNCH = { grid: "CTAs (grid)", block: "Threads (block)", cluster: "CTAs per cluster", dynamic_smem: "Dynamic shared memory (bytes)" };
const OPTIONS = { seed: "Seed of the schedule", limit: "Instruction limit", hazards: "Severities of hazards, such as race = warning" };
const LABELS = { kind: "Given as", dtype: "Element type", shape: "Shape", fill: "Filled with", values: "Numbers", seed: "Seed", same_as: "Memory", box: "Box", swizzle: "Swizzle", outside: "Out-of-bounds fill", value: "Value" };
const KIND_NAMES = { array: "an array", number: "a number", map: "a tensor map", maps: "several tensor maps, one for each index of the first axis", bytes: "bytes or fields" };
const FILL_NAMES = { arange: "0, 1, 2, ...", random: "random numbers", values: "numbers typed here", file: "a file (.npy)" };
const DTYPES = ["f32", "f16", "bf16", "f64", "e4m3", "e5m2", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "b8", "b16", "b32", "b64"];
// "line 49 (mbarrier.arrive), 82 (mbarrier.arrive)", "lines 43, 44 and 1 more", "line 74, 2861 times"
const LINES = /(\blines? \d+(?: \([^)\n]*\))?(?:(?:, | and )\d+\b(?! (?:more|times))(?: \([^)\n]*\))?)*)/;
const LINE = /(?<= )(\d+)(?= \(|, | and |$)/;
const WIDE = ["values", "hazards"];

const { Python, Stopped, element } = globalThis.cutecoursePython;
const copyOf = (value) => JSON.parse(JSON.stringify(value));
const button = (text, act, attributes = {}) => {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
};

let labels = 0;
const labelled = (text, input) => {
  input.id = `cute-pg-${++labels}`;
  return element("div", { class: "cute-pg-labelled" }, element("label", { for: input.id }, text), input);
};

// ---- links ----

const bytesOf = async (stream, most) => {
  const parts = [];
  let size = 0;
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) {
      await reader.cancel();
      throw new Error(`it holds more than ${most} bytes`);
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
};

async function packed(value) {
  const bytes = await bytesOf(new Blob([JSON.stringify(value)]).stream().pipeThrough(new CompressionStream("deflate-raw")), Infinity);
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unpacked(text) {
  let bytes;
  try {
    bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  } catch {
    throw new Error("some of its characters are missing or wrong");
  }
  try {
    const json = await bytesOf(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")), MOST_TEXT);
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(json));
  } catch (error) {
    if (error.message.startsWith("it holds")) throw error;
    throw new Error("part of it is missing or wrong");
  }
}

/** A state that came from outside, with the values that the form knows, and nothing else. */
function checked(given, kinds) {
  const fail = (what) => { throw new Error(`${what} is not in this page's format`); };
  const text = (value, what, most = MOST_FIELD) => (typeof value === "string" && value.length <= most ? value : fail(what));
  const texts = (values, names, what) => Object.fromEntries(names.filter((name) => values?.[name] !== undefined).map((name) => [name, text(values[name], what)]));
  if (!given || typeof given !== "object") fail("it");
  if (!Array.isArray(given.parameters) || given.parameters.length > MOST_PARAMETERS) fail("its list of parameters");
  const parameters = given.parameters.map((one) => {
    const names = Array.isArray(one?.kinds) ? one.kinds.filter((kind) => Object.hasOwn(kinds, kind)) : [];
    const kind = one?.argument?.kind;
    if (!names.includes(kind)) fail("a parameter");
    return { name: text(one.name, "a name"), declared: text(one.declared, "a type"), kinds: names, argument: { kind, ...texts(one.argument, Object.values(kinds).flat(), "an argument") } };
  });
  return {
    text: text(given.text, "its text", MOST_TEXT),
    entry: text(given.entry ?? "", "the kernel's name"),
    kernels: given.entry ? [text(given.entry, "the kernel's name")] : [],
    launch: { grid: "1", block: "32", cluster: "1", dynamic_smem: "0", ...texts(given.launch, Object.keys(LAUNCH), "the launch") },
    parameters,
    sources: {},
    isRead: parameters.length > 0 || Boolean(given.entry),
    ...texts(given, Object.keys(OPTIONS), "an option"),
  };
}

const carried = ({ text, entry, launch, parameters, seed, limit, hazards }) => ({ text, entry, launch, parameters: parameters.map(bare), seed, limit, hazards });
const bare = ({ name, declared, kinds, argument: { file, ...argument } }) => ({ name, declared, kinds, argument });

// ---- the page ----

class Playground {
  constructor(place, facts) {
    this.facts = facts;
    this.python = new Python(facts.folder);
    this.python.loading = (part) => this.fetched(part);
    this.yours = [];
    this.fields = new Map();
    this.busy = false;
    this.build(place);
    this.restore();
    globalThis.addEventListener("hashchange", () => this.follow());
    this.follow();
  }

  // -- what is on the page --

  build(place) {
    const { examples } = this.facts;
    this.open = element("select", {});
    this.open.addEventListener("change", () => this.choose(this.open.value));
    this.upload = element("input", { type: "file", accept: ".ptx,.txt,text/plain" });
    this.upload.addEventListener("change", () => this.takeFile(this.upload.files[0]));
    this.back = button("Back to your text", () => this.choose("yours:0"));
    this.look = element("p", { class: "cute-pg-look" });
    this.said = element("p", { class: "cute-pg-said", role: "status" });
    this.marks = element("div");
    this.lines = element("pre", { class: "cute-pg-lines", "aria-hidden": "true" });
    this.text = element("textarea", { spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": "The kernel's PTX. Press Control and Enter to run it.", "aria-describedby": "cute-pg-text-wrong" });
    this.text.addEventListener("beforeinput", (event) => this.refuseLarge(event));
    this.text.addEventListener("input", () => this.edited());
    this.text.addEventListener("scroll", () => this.scroll());
    this.editor = element("div", { class: "cute-pg-editor" }, this.marks, this.lines, this.text);
    this.textWrong = element("p", { class: "cute-pg-wrong", id: "cute-pg-text-wrong", role: "alert" });
    this.stale = element("div", { class: "cute-pg-row" }, "The form does not match this text yet.", button("Read the kernel", () => this.read()));
    this.form = element("form", {});
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.run(); });
    this.runButton = button("Run", () => this.run(), { class: "cute-pg-run", title: "Run the kernel on the emulator, in this browser (Ctrl+Enter)" });
    this.stopButton = button("Stop", () => this.python.end(new Stopped()), { title: "Stop Python" });
    this.seeds = element("input", { value: "10", inputmode: "numeric", size: "3", "aria-label": "Number of seeds" });
    this.seeds.addEventListener("input", () => this.wrong({}));
    this.seedsButton = button("Try seeds", () => this.run("explore"), { title: "Run the kernel with several schedules and compare the results" });
    this.linkButton = button("Copy link", () => this.copyLink(), { title: "Copy a link that carries the text and the arguments" });
    this.progress = element("progress", { max: "1", value: "0", "aria-label": "Fetching Python" });
    this.status = element("span", { class: "cute-run-status", role: "status" });
    this.ordersButton = button("Prove every order", () => this.run("prove"), { title: "Show that no order of events goes wrong, or an order that does" });
    this.seedsWrong = element("p", { class: "cute-pg-wrong" });
    this.fields.set("seeds", { input: this.seeds, wrong: this.seedsWrong });
    this.results = element("div", { class: "cute-pg-results" });
    const bar = element("div", { class: "cute-pg-row cute-pg-bar" }, this.runButton, this.stopButton, element("span", {}, this.seedsButton, " ", this.seeds), this.ordersButton, this.linkButton, this.progress, this.status);
    place.replaceChildren(
      element("div", { class: "cute-pg-row" }, labelled("Open", this.open), labelled("Or a PTX file", this.upload), this.back),
      this.look, this.said, this.editor, this.textWrong, this.stale, this.form, bar, this.seedsWrong, this.results,
    );
    place.classList.add("cute-pg");
    place.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.run();
      }
    });
    this.examples = new Map(examples.map((one) => [one.name, one]));
    this.enable();
  }

  drawOpen() {
    const group = (label, options) => {
      const made = element("optgroup", { label });
      for (const [value, text] of options) made.append(element("option", { value }, text));
      return made;
    };
    const { examples } = this.facts;
    const of = (broken) => examples.filter((one) => one.broken === broken).map((one) => [`example:${one.name}`, one.title]);
    const kept = this.yours.map(({ state, when }, place) => [`yours:${place}`, `${state.entry || "no kernel"}, saved ${when}`]);
    const now = this.origin.startsWith("example:") ? [] : [["now", this.origin === "link" ? "from a link" : "yours"]];
    this.open.replaceChildren(...[["Shown", now], ["Yours", kept], ["Correct kernels", of(false)], ["Broken kernels", of(true)]].filter(([, options]) => options.length).map(([label, options]) => group(label, options)));
    this.open.value = now.length ? "now" : this.origin;
    this.back.hidden = this.origin === "yours" || this.yours.length === 0;
    this.look.textContent = this.examples.get(this.origin.replace("example:", ""))?.look ?? "";
  }

  drawText() {
    this.text.value = this.state.text;
    this.text.scrollTop = this.text.scrollLeft = 0;
    this.drawLines();
  }

  drawLines() {
    const count = this.text.value.split("\n").length;
    if (count !== this.count) this.lines.textContent = Array.from({ length: count }, (_, line) => line + 1).join("\n");
    this.count = count;
    this.lines.style.height = `${this.text.clientHeight}px`;
    this.scroll();
  }

  scroll() {
    this.lines.scrollTop = this.text.scrollTop;
    for (const mark of this.marks.children) mark.style.top = `${4 + (mark.dataset.line - 1) * 20 - this.text.scrollTop}px`;
  }

  /** Mark lines of the text: [line, "error" or "warning"]. */
  mark(lines) {
    this.marks.replaceChildren(...lines.filter(([line]) => line).map(([line, kind]) => element("div", { class: "cute-pg-mark", "data-line": line, "data-kind": kind })));
    if (this.marks.firstChild) this.text.scrollTop = Math.max(0, (this.marks.firstChild.dataset.line - 8) * 20);
    this.scroll();
  }

  goTo(line) {
    this.mark([...[...this.marks.children].map((mark) => [mark.dataset.line, mark.dataset.kind]).filter(([other]) => +other !== line), [line, "warning"]]);
    const before = this.text.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.text.focus();
    this.text.setSelectionRange(before, before + (this.text.value.split("\n")[line - 1] ?? "").length);
    this.text.scrollTop = Math.max(0, (line - 8) * 20);
    this.text.scrollLeft = 0;
    this.editor.scrollIntoView({ block: "nearest" });
  }

  drawForm() {
    const { state } = this;
    const focused = [...this.fields].find(([, { input }]) => input === document.activeElement)?.[0];
    const isOpen = this.form.querySelector("details")?.open;
    this.fields = new Map([["seeds", this.fields.get("seeds")]]);
    this.stale.hidden = state.isRead || !state.text.trim();
    const launch = Object.entries(LAUNCH).map(([name, label]) => this.field(name, label, state.launch, name));
    if (state.kernels.length > 1) launch.unshift(this.field("entry", "Kernel", state, "entry", state.kernels.map((name) => [name, state.shown?.[name] ?? name]), () => this.read()));
    const options = Object.entries(OPTIONS).map(([name, label]) => this.field(name, label, state, name));
    const parameters = state.parameters.map((parameter, place) => this.parameter(parameter, place));
    const shown = state.shown?.[state.entry] ?? state.entry;
    const about = state.about ? `${shown}: ${state.about}` : shown;
    const refused = (state.refused ?? []).map((one) => this.report("error", one.problem, one.line ? [one.line] : []));
    this.form.replaceChildren(...refused,
      element("fieldset", {}, element("legend", {}, `Launch${about ? ` of ${about}` : ""}`), element("div", { class: "cute-pg-fields" }, ...launch),
        element("details", isOpen ? { open: "" } : {}, element("summary", {}, "Seed, limit, severities"), element("div", { class: "cute-pg-fields" }, ...options))),
      ...(parameters.length ? [element("fieldset", {}, element("legend", {}, "Arguments"), ...parameters)] : []),
      element("button", { type: "submit", hidden: "" }), // so that Enter in a field runs
    );
    this.form.hidden = !state.isRead;
    this.fields.get(focused)?.input.focus({ preventScroll: true }); // the form was drawn anew
  }

  parameter(parameter, place) {
    const path = `arguments.${place}`;
    const { argument } = parameter;
    const others = this.state.parameters.filter((one) => one !== parameter && ["array", "map", "maps"].includes(one.argument.kind) && !one.argument.same_as);
    const shares = Boolean(argument.same_as);
    const names = this.facts.kinds[argument.kind].filter((name) => this.applies(name, argument, shares, others));
    const fields = [];
    if (parameter.kinds.length > 1) fields.push(this.field(`${path}.kind`, LABELS.kind, argument, "kind", parameter.kinds.map((kind) => [kind, KIND_NAMES[kind]]), () => this.drawForm()));
    for (const name of names) {
      const options = this.options(name, others);
      const redraw = ["fill", "same_as"].includes(name) ? () => this.drawForm() : null;
      const label = name === "value" && argument.kind === "bytes" ? "Hexadecimal, or {u32:5,f32:0.5}" : name === "box" ? "Box, innermost first" : LABELS[name];
      fields.push(this.field(`${path}.${name}`, label, argument, name, options, redraw));
      if (name === "fill" && argument.fill === "file") fields.push(this.file(path, argument));
    }
    const source = this.state.sources?.[path];
    return element("div", { class: "cute-pg-parameter" },
      element("p", {}, element("strong", {}, parameter.name), ` ${parameter.declared}`, element("span", { class: "cute-pg-hint" }, source ? ` (${source})` : "")),
      element("div", { class: "cute-pg-fields" }, ...fields));
  }

  applies(name, argument, shares, others) {
    if (name === "same_as") return others.length > 0 || shares;
    if (shares && ["dtype", "shape", "fill", "values", "seed"].includes(name)) return false;
    if (name === "shape") return argument.fill !== "file";
    if (name === "values") return argument.fill === "values";
    if (name === "seed") return argument.fill === "random";
    return true;
  }

  options(name, others) {
    if (name === "dtype") return DTYPES.map((one) => [one, one]);
    if (name === "fill") return this.facts.fills.map((one) => [one, FILL_NAMES[one] ?? one]);
    if (name === "swizzle") return this.facts.swizzles.map((one) => [one, one]);
    if (name === "outside") return [["zeros", "zeros"], ["nan", "NaN"]];
    if (name === "same_as") return [["", "its own"], ...others.map((one) => [one.name, `that of ${one.name}`])];
    return null;
  }

  /** One field of the form, with its label, where its value is from, and a place for what is wrong with it. */
  field(path, label, values, name, options = null, after = null) {
    const id = `cute-pg-${path.replaceAll(".", "-")}-wrong`;
    const input = element(options ? "select" : "input", { "aria-describedby": id, autocomplete: "off", ...(WIDE.includes(name) ? { class: "cute-pg-wide" } : {}) });
    const value = values[name] ?? "";
    if (options) {
      if (!options.some(([one]) => one === value)) options = [...options, [value, value]];
      input.append(...options.map(([one, text]) => element("option", { value: one }, text)));
    }
    input.value = value;
    if (name === "limit") input.placeholder = String(this.facts.limit);
    if (path === "seed") input.placeholder = "0";
    const wrong = element("p", { class: "cute-pg-wrong", id });
    input.addEventListener(options ? "change" : "input", () => {
      values[name] = input.value;
      this.wrong({});
      this.changed();
      after?.();
    });
    this.fields.set(path, { input, wrong });
    const source = this.state.sources?.[path];
    return element("div", { class: "cute-pg-field" }, labelled(label, input), source ? element("div", { class: "cute-pg-hint" }, source) : "", wrong);
  }

  file(path, argument) {
    const id = `cute-pg-${path.replaceAll(".", "-")}-file-wrong`;
    const input = element("input", { type: "file", accept: ".npy", "aria-describedby": id });
    const wrong = element("p", { class: "cute-pg-wrong", id });
    const name = element("span", { class: "cute-pg-hint" }, argument.file ? "" : "Links and reloads do not keep files.");
    input.addEventListener("change", async () => {
      const [file] = input.files;
      if (!file) return;
      if (file.size > MOST_FILE) return this.wrong({ field: `${path}.file`, message: "the file is larger than 16 MiB" });
      const bytes = new Uint8Array(await file.arrayBuffer());
      let letters = "";
      for (let start = 0; start < bytes.length; start += 1 << 15) letters += String.fromCharCode(...bytes.subarray(start, start + (1 << 15)));
      argument.file = btoa(letters);
      this.wrong({});
      this.changed();
    });
    this.fields.set(`${path}.file`, { input, wrong });
    return element("div", { class: "cute-pg-field" }, labelled("File", input), name, wrong);
  }

  /** Say what is wrong at its field, and nothing at the others. */
  wrong({ field, message = "", line = null }) {
    for (const { input, wrong } of this.fields.values()) {
      input.removeAttribute("aria-invalid");
      wrong.textContent = "";
    }
    this.textWrong.replaceChildren();
    this.text.removeAttribute("aria-invalid");
    if (!message) return;
    const found = this.fields.get(field);
    if (found) {
      found.input.setAttribute("aria-invalid", "true");
      found.wrong.textContent = message;
      found.input.closest("details")?.setAttribute("open", "");
      found.input.focus({ preventScroll: true });
      found.input.scrollIntoView({ block: "center" }); // the bar at the bottom must not hide it
    } else {
      this.text.setAttribute("aria-invalid", "true");
      this.textWrong.replaceChildren(...this.withLines(message));
      if (line) this.mark([[line, "error"]]);
    }
  }

  // What is said stays: a clock that runs ends here.
  say(words) {
    clearInterval(this.clock);
    this.status.textContent = words;
  }

  enable() {
    for (const one of [this.runButton, this.seedsButton, this.seeds, this.ordersButton]) one.disabled = this.busy;
    this.runButton.hidden = this.busy;
    this.stopButton.hidden = !this.busy;
    this.progress.hidden = !(this.busy && this.fetching);
  }

  fetched(part) {
    this.fetching = part < 1;
    this.progress.value = part;
    this.say(part < 1 ? "Fetching Python …" : "Starting Python …");
    this.enable();
  }

  // -- what is open, and what is kept --

  show(state, origin) {
    clearTimeout(this.later);
    this.state = state;
    this.formOf = state.entry; // the kernel that the form belongs to
    this.origin = origin;
    this.said.textContent = "";
    this.mark([]);
    this.drawOpen();
    this.drawText();
    this.wrong({});
    this.drawForm();
    this.results.replaceChildren();
    this.results.classList.remove("cute-pg-stale");
    this.say("");
    this.save();
  }

  /** Put what the reader wrote among the kept ones, before something else is shown. */
  keep() {
    if (this.origin !== "yours" || !this.state.text.trim()) return;
    const when = new Date().toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
    this.yours = [{ state: this.state, when }, ...this.yours].slice(0, MOST_KEPT);
  }

  choose(what) {
    const [kind, name] = what.split(":");
    if (kind === "yours") {
      const [{ state }] = this.yours.splice(+name, 1);
      this.keep();
      this.show(state, "yours");
    } else if (kind === "example") {
      this.keep();
      this.show(this.exampleState(name), what);
    }
  }

  exampleState(name) {
    const { name: _, title, look, broken, ...state } = this.examples.get(name);
    return { ...copyOf(state), isRead: true };
  }

  /** What the reader changes is theirs, whatever it was before. */
  changed() {
    if (this.origin !== "yours") {
      this.origin = "yours";
      this.drawOpen();
    }
    this.changes += 1;
    this.age();
    this.save();
  }

  /** Say that the results are from before a change. */
  age() {
    if (!this.results.firstChild || this.results.classList.contains("cute-pg-stale")) return;
    this.results.classList.add("cute-pg-stale");
    this.results.prepend(element("p", { class: "cute-pg-said" }, "These results are from before your change."));
  }

  /** Refuse a paste that would make the text too large: the page would freeze, and Python would read it for a minute. */
  refuseLarge(event) {
    const { textLength, selectionStart, selectionEnd } = this.text;
    const length = textLength - (selectionEnd - selectionStart) + (event.data?.length ?? 0);
    if (!event.data || length <= MOST_TEXT) return;
    event.preventDefault();
    this.wrong({ message: `The text would have ${length} characters; the playground takes at most ${MOST_TEXT}. The command cutecourse emulate takes larger texts.` });
  }

  edited() {
    this.state.text = this.text.value;
    this.state.isRead = false;
    this.said.textContent = "";
    this.mark([]);
    this.drawLines();
    this.stale.hidden = !this.state.text.trim();
    this.changed();
    clearTimeout(this.later);
    if (this.python.started && !this.busy) this.later = setTimeout(() => this.busy || this.read(), 600);
  }

  async takeFile(file) {
    this.upload.value = "";
    if (!file) return;
    if (file.size > MOST_TEXT) return this.wrong({ message: `${file.name} has ${file.size} bytes; the playground takes at most ${MOST_TEXT}.` });
    const text = await file.text();
    if (text.includes("\0") || text.includes("\ufffd")) return this.wrong({ message: `${file.name} is not text. Give PTX, not a cubin.` });
    this.keep();
    this.show(checked({ text, parameters: [] }, this.facts.kinds), "yours");
    if (this.python.started) await this.read();
  }

  save() {
    const without = (state) => ({ ...state, parameters: state.parameters.map(bare) });
    try {
      localStorage.setItem(STORE, JSON.stringify({ origin: this.origin, state: without(this.state), yours: this.yours.map((one) => ({ ...one, state: without(one.state) })) }));
    } catch { // no room, or a browser that keeps nothing
      this.said.textContent = "This browser does not let the page store your text. Save it elsewhere.";
    }
  }

  restore() {
    const first = this.facts.examples[0].name;
    let kept = null;
    try {
      kept = JSON.parse(localStorage.getItem(STORE));
    } catch { /* a browser that keeps nothing */ }
    const sound = (state) => ({ ...checked(state, this.facts.kinds), isRead: state.isRead === true, kernels: (state.kernels ?? []).map(String), sources: state.sources ?? {}, about: state.about });
    try {
      this.yours = kept.yours.map(({ state, when }) => ({ state: sound(state), when: String(when) }));
      const isExample = kept.origin.startsWith("example:");
      this.show(isExample ? this.exampleState(kept.origin.slice(8)) : sound(kept.state), isExample ? kept.origin : kept.origin === "link" ? "link" : "yours");
    } catch {
      this.origin = "";
      this.show(this.exampleState(first), `example:${first}`);
    }
  }

  // -- links --

  async follow() {
    const { hash } = location;
    const isLink = hash.startsWith(LINK);
    if (!isLink && !hash.startsWith(EXAMPLE)) return;
    try {
      if (this.busy) throw new Error("a kernel is running. Stop it, and open the link again");
      if (hash.length > MOST_LINK) throw new Error(`it has more than ${MOST_LINK} characters`);
      if (isLink) {
        const state = checked(await unpacked(hash.slice(LINK.length)), this.facts.kinds);
        this.keep();
        this.show(state, "link");
        this.said.textContent = "This kernel came with a link. It has not run. Read it, and press Run if you want to.";
      } else {
        const name = hash.slice(EXAMPLE.length);
        if (!this.examples.has(name)) throw new Error("there is no such example");
        this.choose(`example:${name}`);
      }
      document.getElementById("cute-playground").scrollIntoView();
    } catch (error) {
      this.said.textContent = `The link cannot be opened: ${error.message}. Nothing was changed.`;
    }
    history.replaceState(null, "", location.pathname + location.search); // a reload shows what is kept, not the link
  }

  async copyLink() {
    const link = new URL(LINK + await packed(carried(this.state)), location.href);
    const files = this.state.parameters.some(({ argument }) => argument.fill === "file") ? " Your files are not in it." : "";
    const long = link.href.length > LONG_LINK ? ` It has ${link.href.length} characters, and some programs cut off links of that length.` : "";
    try {
      await navigator.clipboard.writeText(link.href);
      this.say(`The link is copied.${files}${long}`);
    } catch {
      history.replaceState(null, "", link);
      this.say(`This browser does not let the page copy. The link is in the address bar.${files}${long}`);
    }
  }

  // -- Python --

  async ask(question) {
    const source = `from cutecourse.page.playground import answer\nanswer(${JSON.stringify(JSON.stringify(question))})`;
    const { outputs } = await this.python.run(source);
    const output = outputs.at(-1);
    if (output?.output_type === "error") throw new Error(`${output.ename}: ${output.evalue}`);
    return { answer: output.data["application/json"], view: output.data[VIEW] };
  }

  /** Do something with Python, one thing at a time; what cannot be done is said beside the buttons. */
  async working(words, act) {
    if (this.busy) return false;
    if (!location.protocol.startsWith("http")) {
      this.say("This page was opened from a file, so the browser does not let it fetch anything. Run python -m http.server in the folder of the pages, and open http://localhost:8000.");
      return false;
    }
    clearTimeout(this.later);
    this.busy = true;
    this.enable();
    this.say("Fetching Python …");
    try {
      await this.python.start();
      this.fetching = false;
      const since = Date.now();
      this.say(words);
      this.clock = setInterval(() => { this.status.textContent = `${words} ${Math.round((Date.now() - since) / 1000)} s`; }, 1000);
      return await act();
    } catch (error) {
      this.say(error instanceof Stopped ? "Stopped. Press Run to start Python again." : `${error.message}. Press Run to try again.`);
      return false;
    } finally {
      clearInterval(this.clock);
      this.busy = this.fetching = false;
      this.enable();
    }
  }

  read() {
    return this.working("Reading the kernel …", async () => {
      const isRead = await this.readNow();
      this.say(isRead ? "The form is up to date." : "");
      return isRead;
    });
  }

  /** Make the form anew from the text, and keep the arguments of parameters that are as they were. */
  async readNow() {
    const { state } = this;
    const { text } = state;
    const { answer } = await this.ask({ ask: "read", text, entry: state.entry });
    if (this.state !== state || state.text !== text) return false; // the reader has gone on meanwhile
    if (answer.error) {
      this.form.hidden = true; // it belongs to another text
      this.wrong(answer.error);
      return false;
    }
    const known = new Map(state.parameters.map((one) => [`${one.name} ${one.declared}`, one.argument]));
    const isSame = this.formOf === answer.entry;
    for (const parameter of answer.parameters) {
      const before = known.get(`${parameter.name} ${parameter.declared}`);
      if (before && parameter.kinds.includes(before.kind) && isSame) parameter.argument = before;
    }
    if (isSame) answer.launch = state.launch;
    Object.assign(state, answer, { isRead: true });
    this.formOf = answer.entry;
    this.wrong({});
    this.drawForm();
    this.save();
    return true;
  }

  run(ask = "run") {
    return this.working("Running …", async () => {
      const { state } = this;
      const shape = () => JSON.stringify(state.parameters.map(({ name, declared }) => [name, declared]));
      this.wrong({});
      if (!state.isRead) {
        const before = shape();
        if (!await this.readNow()) return this.say(this.textWrong.firstChild ? "Nothing ran: see the message below the text." : "");
        if (shape() !== before) {
          this.results.replaceChildren();
          return this.say("The form has changed. Check the arguments, then press Run.");
        }
      }
      const request = { ...state.launch, text: state.text, entry: state.entry, arguments: state.parameters.map(({ argument }) => argument), seeds: this.seeds.value };
      for (const name of Object.keys(OPTIONS)) if (state[name]) request[name] = state[name];
      this.changes = 0;
      const { answer, view } = await this.ask({ ask, ...request });
      if (this.state !== state) return this.say(""); // something else is shown now
      this.results.classList.remove("cute-pg-stale");
      this.mark([]);
      if (answer.ended === "refused") {
        this.wrong(answer.error);
        this.say(this.fields.has(answer.error.field) ? "Nothing ran: correct the marked field." : "Nothing ran: see the message below the text.");
      } else if (ask === "explore") this.showText(answer.agree ? "All seeds agree" : "The seeds disagree", answer.text);
      else if (ask === "prove") this.showProof(answer);
      else await this.showResults(answer, view);
      if (this.changes) this.age();
    });
  }

  // -- results --

  /** A message in which each line number leads to its line of the text. */
  withLines(message) {
    return message.split(LINES).flatMap((part, place) => (place % 2 ? part.split(LINE).map((word, at) => (at % 2 ? this.lineButton(+word) : word)) : [part]));
  }

  lineButton(line) {
    return button(String(line), () => this.goTo(line), { class: "cute-pg-line", "aria-label": `Show line ${line} of the text` });
  }

  report(kind, message, lines = []) {
    const [first, ...rest] = message.split("\n");
    const more = lines.length && !/\bline \d/.test(message) ? ["line ", this.lineButton(lines[0]), ": "] : [];
    return element("div", { class: "cute-pg-report", "data-kind": kind },
      element("p", {}, ...more, ...this.withLines(first)), ...(rest.length ? [element("pre", {}, ...this.withLines(rest.join("\n")))] : []));
  }

  fold(title, isOpen, ...children) {
    return element("details", isOpen ? { open: "" } : {}, element("summary", {}, title), ...children);
  }

  table(head, rows) {
    const cells = (tag, row) => row.map((cell) => element(tag, cell.words ? { class: "cute-pg-words" } : cell.changed ? { class: "cute-pg-changed" } : {}, cell.text ?? cell.words ?? cell));
    return element("div", { class: "cute-pg-table", tabindex: "0" }, element("table", {},
      ...(head.length ? [element("thead", {}, element("tr", {}, ...cells("th", head)))] : []),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row))))));
  }

  async showResults(answer, view) {
    const parts = [element("h3", {}, "Results")];
    const notes = answer.notes ?? [];
    const isRight = answer.ended === "ran" && !notes.some((note) => note.severity === "warning");
    if (answer.error) parts.push(this.report("error", `${answer.error.kind}: ${answer.error.message}`));
    if (answer.error?.hazard === "endless") parts.push(element("p", {}, "If your kernel needs more instructions, raise the limit under “Seed, limit, severities”."));
    for (const note of notes.filter((one) => one.severity === "warning")) parts.push(this.report("warning", note.message));
    if (answer.record) parts.push(element("p", {}, isRight ? `No rule was broken. ${answer.record}` : answer.record));
    const minor = notes.filter((one) => one.severity !== "warning");
    if (minor.length) parts.push(this.fold(`Notes on things that do no harm on hardware: ${minor.length}`, false, ...minor.map((note) => this.report("note", note.message))));
    if (answer.printed) parts.push(element("h3", {}, "Printed"), element("pre", {}, answer.printed));
    parts.push(...this.arrays(answer));
    const timeline = element("div", { class: "cc-mount" });
    parts.push(element("h3", {}, "Timeline"), ...(answer.about_timeline ? [element("p", {}, answer.about_timeline)] : []), timeline);
    const { count, head, rows } = answer.events;
    if (count) parts.push(this.fold(`The ${count} events as a table`, false, this.table(head.map((words) => ({ words })), rows.map((row) => row.map((words) => ({ words }))))));
    parts.push(element("h3", {}, "Memory report"), ...this.memory(answer.memory));
    this.results.replaceChildren(...parts);
    this.mark([[answer.error?.line, "error"], ...notes.map((note) => [note.line, "warning"])]);
    this.say(answer.error ? `${answer.error.hazard ?? answer.error.kind}: the report is below.` : isRight ? "The kernel ran to its end." : "The kernel ran to its end, with a warning.");
    if (this.results.getBoundingClientRect().top > innerHeight - 80) this.results.scrollIntoView();
    this.python.models.delete(this.drawn);
    this.drawn = view?.model_id;
    if (view) {
      const { name, state, model } = this.python.models.get(view.model_id);
      await globalThis.cutecourseMount.render(name, state, model, timeline);
    }
  }

  arrays({ arrays, ended }) {
    if (!arrays.length) return [];
    const title = ended === "ran" ? "Arrays after the launch" : "Arrays as they were when the launch ended";
    return [element("h3", {}, title), ...arrays.map((array) => {
      const rows = array.rows.map((row, at) => [{ words: array.shape.length === 1 ? String(at * 16) : String(at) }, ...row.map((text, column) => ({ text, changed: array.marks[at][column] }))]);
      const cut = [array.cut_rows ? `${array.cut_rows} more rows` : "", array.cut_columns ? `${array.cut_columns} more columns` : ""].filter(Boolean).join(" and ");
      const words = `${array.name}: ${array.dtype}, ${array.shape.join("x")}; ${array.changed ? `${array.changed} of ${array.size} elements changed` : "unchanged"}`;
      return this.fold(words, array.changed > 0, this.table([], rows),
        element("div", { class: "cute-pg-row" }, cut ? element("span", { class: "cute-pg-hint" }, `Not shown: ${cut}.`) : "", button(`Save ${array.name}.npy`, () => this.saveArray(array.name))));
    })];
  }

  saveArray(name) {
    return this.working("Saving …", async () => {
      const { answer } = await this.ask({ ask: "file", name });
      const bytes = Uint8Array.from(atob(answer.base64), (letter) => letter.charCodeAt(0));
      const address = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
      element("a", { href: address, download: `${name}.npy` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
      this.say(`${name}.npy is saved.`);
    });
  }

  memory({ rows, totals }) {
    const head = [{ words: "line" }, { words: "instruction" }, "times", "transactions", "least", "excess"];
    const body = rows.map((row) => [{ text: this.lineButton(row.line) }, { words: row.instruction }, String(row.times), `${row.transactions} ${row.unit}`, String(row.least), { text: String(row.excess), changed: row.excess > 0 }]);
    return [...(rows.length ? [this.table(head, body)] : []), ...totals.map((total) => element("p", { class: "cute-pg-look" }, total))];
  }

  showProof({ verdict, text, error }) {
    const title = { proved: "Proved: every order goes well", counterexample: "An order that goes wrong", incomplete: "Neither proved nor refuted" }[verdict];
    this.showText(title, text);
    this.mark([[error?.line, "error"]]);
  }

  showText(title, text) {
    this.results.replaceChildren(element("h3", {}, title), element("pre", { tabindex: "0" }, ...this.withLines(text)));
    if (this.results.getBoundingClientRect().top > innerHeight - 80) this.results.scrollIntoView();
    this.say("");
  }
}

const place = document.getElementById("cute-playground");
const facts = document.getElementById("cute-playground-facts");
if (place && facts) globalThis.cutecoursePlayground = new Playground(place, JSON.parse(facts.textContent));
})();
