// Runs, edits and resets the cells of a page, with Python in a worker. Nothing is fetched before the first click.
//
// A page names its files and the digests of its recorded outputs in a script of type `application/json`
// (`coursebook.live`). The worker is `worker.mjs`; it starts from a blob, so that the page's content security policy
// holds in it as well.
//
// A classic script (a page opened from a file may load no module), so its names stay inside this function.

(() => {
const VIEW = "application/vnd.jupyter.widget-view+json";
const ABOVE = "a cell above";
const INDENT = "    ";
const FENCE = /^```(\w*)\n([\s\S]*?)\n?```$/;

const element = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

// The text of a cell's code. Where a reader ends a line, browsers put a BR, or a DIV around the line.
const textOf = (node) => [...node.childNodes].map((child) => {
  if (child.nodeName === "BR") return "\n";
  if (child.nodeName === "DIV") return `${child.previousSibling ? "\n" : ""}${textOf(child).replace(/\n$/, "")}`;
  return child.data ?? textOf(child);
}).join("");

// ---- colours of code that is edited ----

const KINDS = ["comment", "string", "keyword", "number", "variable"];
const TOKENS = /(#.*)|("""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|\b(False|None|True|and|as|assert|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|not|or|pass|raise|return|try|while|with|yield)\b|\b(\d[\w.]*)/g;
// PTX: directives and opcodes as keywords, registers as variables.
const PTX_TOKENS = /(\/\/.*|\/\*[^]*?\*\/)|("[^"\n]*")|((?<=^[ \t]*(?:@!?%\w+[ \t]+)?(?:\w+:[ \t]*)?)[a-z]\w*(?:\.[\w:]+)*|(?<![\w%])\.[a-z]\w*(?:::\w+)*)|(?<![\w%.$])(\d\w*)|(%\w+(?:\.\w+)?)/gm;
const PTX = /^\s*\.(?:version|target|visible|entry|reg|param)\b|^\s*(?:ld|st|mov|mad|mma|setp)\.[\w.:]+\s.*;/m;

// The tokens of a Python text, and inside its strings those of PTX: kind, start and length.
const tokens = (text, pattern, at = 0) => [...text.matchAll(pattern)].flatMap((match) => {
  const kind = match.slice(1).findIndex(Boolean);
  const start = at + match.index;
  const inside = pattern === TOKENS && KINDS[kind] === "string" && /^("""|''')/.test(match[0]) && PTX.test(match[0]);
  return inside ? tokens(match[0].replace(/"""|'''/g, "   "), PTX_TOKENS, start) : [[`cute-${KINDS[kind]}`, start, match[0].length]];
});

// For each letter of the code, its node and its place there.
const placesIn = (node) => [...node.childNodes].flatMap((child, place) => (child.nodeName === "BR" ? [[node, place]]
  : child.data === undefined ? placesIn(child) : Array.from({ length: child.data.length }, (_, letter) => [child, letter])));

// Colours code that has no elements for it, in a browser that can; returns what it coloured.
function paint(code, pattern = TOKENS) {
  if (!globalThis.Highlight || code.querySelector("span:not(.cute-line), div")) return [];
  const places = placesIn(code);
  return tokens(textOf(code), pattern).map(([kind, start, length]) => {
    const [last, end] = places[start + length - 1];
    const range = document.createRange();
    range.setStart(...places[start]);
    range.setEnd(last, end + 1);
    if (!CSS.highlights.has(kind)) CSS.highlights.set(kind, new Highlight());
    CSS.highlights.get(kind).add(range);
    return [kind, range];
  });
}

// ---- Python ----

class Stopped extends Error {}

class Python {
  constructor(folder) {
    this.folder = folder;
    this.waiting = new Map();
    this.models = new Map();
    this.count = 0;
    this.loading = () => {};
  }

  start() {
    this.started ??= new Promise((ready, failed) => {
      const base = new URL(this.folder, document.baseURI).href;
      const code = `import ${JSON.stringify(new URL("worker.mjs", base).href)};`;
      const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
      this.worker = new Worker(address, { type: "module" });
      this.give = failed; // to whoever waits, when the reader stops it before it is ready
      this.worker.onerror = (event) => this.end(new Error(event.message || "Python's files could not be fetched"));
      this.worker.onmessage = ({ data }) => {
        if (data.progress !== undefined) this.loading(data.progress);
        else if (data.ready) ready();
        else if (data.failed !== undefined) this.end(new Error(data.failed));
        else if (data.widget) this.hear(data.widget);
        else if (data.done) this.waiting.get(data.done.id).done(data.done);
      };
      this.worker.postMessage({ start: base });
    });
    return this.started;
  }

  // `cell` is the number that a traceback names.
  run(source, cell) {
    return this.ask("run", { source, cell });
  }

  async ask(what, values) {
    await this.start();
    const id = ++this.count;
    return new Promise((done, failed) => {
      this.waiting.set(id, { done, failed });
      this.worker.postMessage({ [what]: { id, ...values } });
    });
  }

  end(reason) {
    this.worker?.terminate();
    this.give?.(reason);
    for (const { failed } of this.waiting.values()) failed(reason);
    this.waiting.clear();
    this.models.clear();
    this.worker = this.started = this.give = null;
  }

  hear({ id, widget, state }) {
    if (!widget) return this.models.get(id)?.model.receive(state);
    const worker = this.worker;
    const tell = (values) => worker.postMessage({ widget: { id, state: values } });
    this.models.set(id, { name: widget, state, model: cutecourseMount.makeModel(state, tell) });
  }
}

// ---- outputs ----

const block = (text, kind) => element("div", { class: `output ${kind}` }, element("div", { class: "highlight" }, element("pre", {}, text)));

// Reports name lines of a PTX text by their numbers.
function numbered(place) {
  const pre = place.querySelector("pre");
  pre.replaceChildren(...pre.textContent.split(/(?<=\n)/).map((line) => element("span", { class: "cute-line" }, line)));
  return place;
}

// Once the place is on the page: what is not there has no colours.
function coloured(place, pattern) {
  place.colour = () => paint(place.querySelector("pre"), pattern);
  return place;
}

async function shown(output, models) {
  if (output.output_type === "stream") {
    const place = block(output.text, `stream cute-${output.name}`);
    return /^(\s*\/\/.*\n|\s*\n)*\s*\.version\s/.test(output.text) ? coloured(numbered(place), PTX_TOKENS) : place;
  }
  if (output.output_type === "error") return block(output.traceback, "traceback");
  const { data } = output;
  if (data[VIEW]) {
    const { name, state, model } = models.get(data[VIEW].model_id);
    const place = element("div", { class: "cc-mount" });
    await cutecourseMount.render(name, state, model, place);
    globalThis.cutecourseShare?.live({ name, state, model, places: [place] });
    return place;
  }
  const html = data["text/html"] ?? data["image/svg+xml"];
  if (html) {
    const place = element("div", { class: "output text_html" });
    place.innerHTML = html;
    return place;
  }
  const text = data["text/markdown"] ?? data["text/plain"] ?? "";
  const [, language, quoted] = FENCE.exec(text.trim()) ?? [];
  if (quoted === undefined) return block(text, "text_plain");
  const place = block(quoted, "text_plain");
  return PTX.test(quoted) ? coloured(place, PTX_TOKENS) : language === "python" ? coloured(place) : place;
}

// ---- cells ----

class Cell {
  constructor(node, number, digest, source, book) {
    this.number = number;
    this.book = book;
    this.node = node;
    this.digest = digest;
    this.source = source; // of a cell whose code the page does not show; it runs after the cell above it
    this.code = node.querySelector(".cell_input pre");
    this.original = [...(this.code?.childNodes ?? [])].map((child) => child.cloneNode(true));
    this.recordedText = this.text();
    this.recorded = node.querySelector(".cell_output");
    this.live = null;
    this.showLive = false;
    this.ran = null;
    this.waiting = false;
    this.reached = []; // the cells below that use what this one binds
    this.changes = new Set(); // the changed cells that have run since this one showed its output
    this.painted = [];
    this.drawn = [];
    const button = (text, title, act) => {
      const made = element("button", { type: "button", title }, text);
      made.addEventListener("click", act);
      return made;
    };
    this.runButton = button("Run", "Run the cells above, then this cell", () => book.run(this));
    this.stopButton = button("Stop", "Stop Python", () => book.stop(this));
    this.editButton = button("Edit", "Change the code of this cell", () => this.edit());
    this.resetButton = button("Reset", "Go back to the recorded code and output", () => this.reset());
    this.otherButton = button("", "Show the other output", () => this.swap());
    this.progress = element("progress", { max: "1", value: "0", "aria-label": "Fetching Python" });
    this.status = element("span", { class: "cute-run-status", role: "status" });
    this.label = element("span", { class: "cute-cell-name" });
    this.bar = element("div", { class: "cute-run-bar" }, this.runButton, this.stopButton, this.editButton, this.resetButton, this.otherButton, this.progress, this.status, this.label);
    this.recorded?.addEventListener("beforematch", () => this.showLive && this.swap());
    this.draw();
    if (!this.code) return;
    node.querySelector(".cell_input").after(this.bar);
    this.code.addEventListener("input", () => this.draw());
    this.code.addEventListener("keydown", (event) => this.press(event));
    // The button that copies takes the text of nodes, where a BR ends no line.
    node.addEventListener("click", ({ target }) => target.closest(".copybtn") && this.edited && this.flatten(), true);
  }

  press(event) {
    if (!this.code.isContentEditable) return;
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation(); // the page has keys of its own: "/" searches
    if (event.key === "Escape") this.runButton.focus();
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (event.shiftKey || event.ctrlKey || event.metaKey) this.book.run(this);
    else this.endLine();
  }

  // The next line begins as the line before the caret does, and further in after a colon.
  endLine() {
    const before = document.createRange();
    before.selectNodeContents(this.code);
    const caret = getSelection().rangeCount ? getSelection().getRangeAt(0) : before;
    if (this.code.contains(caret.startContainer)) before.setEnd(caret.startContainer, caret.startOffset);
    const line = textOf(before.cloneContents()).split("\n").at(-1);
    document.execCommand("insertText", false, `\n${/^ */.exec(line)[0]}${/:\s*(#.*)?$/.test(line) ? INDENT : ""}`);
  }

  // As the page and its tracebacks call it.
  get name() {
    return `cell ${this.number}`;
  }

  get elsewhere() {
    return "The recorded output is from a machine that has it.";
  }

  text() {
    return this.code ? textOf(this.code).replace(/\n$/, "") : this.source;
  }

  get edited() {
    return this.text() !== this.recordedText;
  }

  edit() {
    this.open();
    this.code.focus();
  }

  open() {
    if (this.code.isContentEditable) return;
    this.flatten();
    // The theme makes `pre` a tab stop while it scrolls, and else takes it out again.
    const stop = () => { if (this.code.tabIndex !== 0) this.code.tabIndex = 0; };
    new MutationObserver(stop).observe(this.code, { attributeFilter: ["tabindex"] });
    stop();
    this.code.contentEditable = "plaintext-only";
    this.code.spellcheck = false;
    this.code.setAttribute("role", "textbox");
    this.code.setAttribute("aria-multiline", "true");
    this.code.setAttribute("aria-label", "The code of this cell. Escape leaves it, Shift and Enter run it.");
  }

  // Without the elements that colour the code: what is typed beside one of them would take its colour.
  flatten() {
    this.code.textContent = `${this.text()}\n`;
    this.draw();
  }

  reset() {
    this.code.replaceChildren(...this.original.map((child) => child.cloneNode(true)));
    if (this.code.isContentEditable) this.flatten();
    this.live?.remove();
    this.live = null;
    this.showLive = false;
    // What the change has reached is old now, unless it shows the recorded output.
    for (const other of this.reached) {
      if (other.live) other.age(this);
      else other.renew(this);
    }
    this.ran = null;
    this.say("");
    this.draw();
  }

  // This cell's output is from before a cell that it uses was changed.
  age(by) {
    this.ran = null;
    if (!this.live && !this.recorded) return;
    this.changes.add(by);
    this.say(`This output is older than your change to ${by.name}. Run this cell again.`, "old");
    this.draw();
  }

  renew(by) {
    if (!(by ? this.changes.delete(by) : this.changes.size)) return;
    if (!by) this.changes.clear();
    if (!this.changes.size) this.say("");
    this.draw();
  }

  swap() {
    this.showLive = !this.showLive;
    this.draw();
  }

  // Whether an answer is shown though the reader has not asked for this cell.
  shows() {
    return false;
  }

  say(words, kind = "") {
    this.status.textContent = words;
    this.bar.dataset.kind = kind;
  }

  draw() {
    const running = this.book.running === this || this.waiting;
    for (const [kind, range] of this.painted) CSS.highlights.get(kind).delete(range);
    this.painted = this.code ? paint(this.code) : [];
    this.runButton.hidden = running;
    this.stopButton.hidden = !running;
    this.progress.hidden = !(this.book.running === this && this.book.fetching);
    this.resetButton.hidden = running || !(this.edited || this.live);
    this.otherButton.hidden = !(this.live && this.recorded);
    this.otherButton.textContent = this.showLive ? "Show the recorded output" : "Show your output";
    if (this.recorded) this.recorded.classList.toggle("cute-away", Boolean(this.live) && this.showLive);
    this.live?.classList.toggle("cute-away", !this.showLive);
    this.live?.classList.toggle("cute-before", running); // of the run before this one
    this.node.classList.toggle("cute-edited", this.edited);
    this.node.classList.toggle("cute-old", this.changes.size > 0);
    this.label.textContent = this.name;
    this.node.dataset.live = this.live ? (this.agrees ? "same" : "other") : "none";
  }

  // Put an answer in the place of the recorded output, or keep it behind that one, and say how the two compare.
  async show(answer, models, inFront = true) {
    const live = element("div", { class: "cell_output docutils container cute-live" });
    if (answer.missing) live.append(element("p", {}, answer.missing === ABOVE
      ? "This cell needs the result of a cell above that cannot run in a browser."
      : `A browser does not have what this cell needs: ${answer.missing}. ${this.elsewhere}`));
    else for (const output of answer.outputs) live.append(await shown(output, models));
    for (const [kind, range] of this.drawn) CSS.highlights.get(kind).delete(range);
    this.live?.remove();
    this.live = live;
    (this.recorded ?? this.bar.closest("details") ?? this.bar).after(live);
    this.drawn = [...live.children].flatMap((place) => place.colour?.() ?? []);
    this.showLive = inFront || !this.recorded;
    this.agrees = answer.digest === this.digest;
    const nothing = !answer.outputs.length && !this.recorded;
    const failed = answer.outputs.find((output) => output.output_type === "error");
    const without = answer.left_out.length ? `, without ${answer.left_out.join(" and ")}, which it does not have` : "";
    const ran = failed ? `This cell ended with a traceback (${failed.ename})${without}.` : `Ran in this browser${without}.`;
    const changed = this.edited ? ["this cell"] : this.book.changed(this).map((other) => other.name);
    if (answer.missing) this.say("This cell cannot run in a browser.", "missing");
    else if (this.digest === "" || nothing) this.say(ran, failed ? "other" : "");
    else if (this.agrees) this.say(`${ran} The output matches the recorded one.`, "same");
    else if (changed.length) this.say(`${ran} The output differs from the recorded one: you have changed ${changed.join(" and ")}.`, "other");
    else if (answer.by_hand) this.say(`${ran} The output differs from the recorded one: here the kernels run from PTX written by hand, and the recording used a compiler's PTX.`, "other");
    else this.say(`${ran} The output differs from the recorded one.`, "other");
    this.draw();
  }
}

class Book {
  constructor(facts) {
    this.python = new Python(facts.folder);
    this.running = null;
    this.queue = []; // what to do next: its cell, and a function to call with whether to do it
    this.fetching = false;
    const nodes = [...document.querySelectorAll("div.cell")];
    if (nodes.length !== facts.digests.length) throw new Error(`${nodes.length} cells, ${facts.digests.length} recorded outputs`);
    this.cells = nodes.map((node, number) => this.cell(node, number, facts));
  }

  cell(node, number, facts) {
    return new Cell(node, number + 1, facts.digests[number], facts.sources[number], this);
  }

  // The cells that a cell needs.
  async above(cell) {
    return this.cells.slice(0, this.cells.indexOf(cell));
  }

  // Cells above that have not run as they stand now go first. They go on showing the output that they show, and a
  // difference is marked.
  run(cell) {
    return this.turn(cell, "Run", async () => {
      await this.load(cell);
      const above = await this.above(cell);
      for (let done = 0; ;) {
        const old = above.filter((other) => other.ran !== other.text());
        if (!old.length) break;
        cell.say(`Running the cells above: ${done += 1} of ${done + old.length - 1} …`);
        const [other] = old;
        const answer = await this.execute(other);
        const differs = other.digest !== "" && answer.digest !== other.digest;
        if (differs || other.live || other.shows(answer)) await other.show(answer, this.python.models, other.edited || other.showLive);
      }
      cell.say("Running …");
      await cell.show(await this.execute(cell), this.python.models);
      cell.live.closest("details")?.setAttribute("open", "");
      for (const other of this.cells.slice(this.cells.indexOf(cell) + 1)) {
        if (other.code) break;
        await other.show(await this.execute(other), this.python.models);
      }
    });
  }

  // One thing at a time: a cell's work waits while another runs.
  async turn(cell, name, work) {
    if (cell.waiting) return;
    if (this.running) {
      cell.waiting = true;
      if (cell !== this.running) cell.say("Waiting for the cell that is running …");
      const go = new Promise((go) => this.queue.push({ cell, go }));
      cell.draw();
      const may = await go;
      cell.waiting = false;
      if (!may && cell !== this.running) cell.say("Stopped before it ran.");
      cell.draw();
      if (!may) return;
    }
    this.running = cell;
    cell.draw();
    try {
      await work();
    } catch (error) {
      for (const other of this.cells) other.ran = null;
      cell.say(error instanceof Stopped ? "Stopped. Press Run to start Python again." : `${error.message}. Press ${name} to try again.`, "other");
    } finally {
      const next = this.queue.shift();
      this.running = next?.cell ?? null;
      cell.draw();
      next?.go(true);
    }
  }

  async load(cell) {
    if (!this.python.started) cell.say("Fetching Python …");
    this.python.loading = (part) => {
      this.fetching = part < 1;
      cell.progress.value = part;
      if (part >= 1) cell.say("Starting Python …");
      cell.draw();
    };
    await this.python.start();
    this.fetching = false;
  }

  async execute(cell) {
    const source = cell.text();
    const before = cell.ran ?? cell.recordedText;
    const answer = await this.python.run(source, cell.number);
    cell.ran = source;
    cell.renew();
    if (source !== before) {
      const sources = this.cells.map((other) => other.text());
      const { cells } = await this.python.ask("uses", { sources, number: cell.number - 1, before });
      cell.reached = cells.map((number) => this.cells[number]);
      for (const other of cell.reached) other.age(cell);
    }
    const above = this.cells.slice(0, this.cells.indexOf(cell));
    if (answer.outputs.at(-1)?.ename === "NameError" && above.some((other) => other.missing)) answer.missing = ABOVE;
    cell.missing = answer.missing;
    return answer;
  }

  // The changed cells that a cell's output comes from.
  changed(cell) {
    return this.cells.filter((other) => other.edited && other.ran === other.text() && other.reached.includes(cell));
  }

  // Ends Python and all that waits for it, or only takes a cell that waits out of the queue.
  stop(cell) {
    const all = cell === this.running || !cell?.waiting;
    const [out, rest] = [true, false].map((drop) => this.queue.filter((one) => drop === (all || one.cell === cell)));
    this.queue = rest;
    for (const { go } of out) go(false);
    if (!all) return;
    for (const other of this.cells) other.ran = null;
    this.python.end(new Stopped());
  }
}

// A page opened from a file may fetch nothing.
function refuse() {
  const words = "This page was opened from a file, so the browser does not let it fetch anything. Run python -m http.server in "
    + "the folder of the pages, and open http://localhost:8000.";
  for (const input of document.querySelectorAll("div.cell .cell_input")) {
    const status = element("span", { class: "cute-run-status", role: "status" });
    const button = element("button", { type: "button" }, "Run");
    button.addEventListener("click", () => { status.textContent = words; });
    input.after(element("div", { class: "cute-run-bar" }, button, status));
  }
}

function start() {
  const facts = document.getElementById("cute-live");
  if (!facts) return;
  if (!location.protocol.startsWith("http")) return refuse();
  const told = JSON.parse(facts.textContent);
  // A page of exercises has its own kind of book, in `exercises.js`.
  if (told.page) globalThis.cutecourseRunner = { Book, Cell, block, element, paintPtx: (node) => paint(node, PTX_TOKENS), told };
  else globalThis.cutecourseBook = new Book(told);
}

globalThis.cutecoursePython = { Python, Stopped, element }; // for pages that are not made of cells

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
})();
