// A page of exercises: its cells are open for editing, and its answers and their verdicts stay in this browser
// (localStorage). They go out as the learner's notebook and come back from one. `run.js` runs the cells, `desk.js`
// keeps the verdicts.

(() => {
if (!globalThis.cutecourseRunner) return; // the page was opened from a file
const { Book, Cell, block, element, paintPtx, told } = globalThis.cutecourseRunner;
const desk = globalThis.cutecourseDesk;
const CHECKS = /\bcheck\(\s*["'](\d\d\.\d+)["']/;

const button = (text, title, act) => {
  const made = element("button", { type: "button", title }, text);
  made.addEventListener("click", act);
  return made;
};

const listed = (cells) => [...new Set(cells.map((cell) => cell.words))].join(", ");

// What the browser keeps of a page: for each cell that was changed, its text, the id of the given text, and a hash of
// the task. `KEY@ID` is an answer to an earlier version of the exercise.
class Store {
  constructor(page) {
    this.key = `cutecourse:exercises:${page}`;
    this.refused = "";
  }

  read() {
    try {
      return JSON.parse(localStorage.getItem(this.key)) ?? {};
    } catch (error) {
      if (!(error instanceof SyntaxError)) this.refused = error.name;
      return {};
    }
  }

  // Reads first: another tab may have the same page.
  change(key, value) {
    const kept = this.read();
    if (value === null) delete kept[key];
    else kept[key] = value;
    this.write(kept);
  }

  write(kept) {
    try {
      if (Object.keys(kept).length) localStorage.setItem(this.key, JSON.stringify(kept));
      else localStorage.removeItem(this.key);
      this.refused = "";
    } catch (error) {
      this.refused = error.name;
    }
  }
}

class ExerciseCell extends Cell {
  constructor(node, number, facts, book) {
    super(node, number + 1, "", undefined, book);
    Object.assign(this, facts.cells[number]);
    this.isAnswer = Boolean(this.exercise);
    this.key = this.isAnswer ? [this.exercise, this.way].filter(Boolean).join(" ") : this.id;
    this.earlier = null;
    this.runButton.title = "Run the cells above whose names this cell needs, then this cell";
    this.resetButton.title = "Go back to the given code";
    if (this.isAnswer) {
      this.node.classList.add("cute-answer-cell");
      this.editButton.hidden = true;
      this.hintButton = button("Hint", "Show the next hint", () => book.hint(this));
      this.editButton.after(this.hintButton);
      this.open();
    }
    this.code.addEventListener("input", () => this.keep());
  }

  get elsewhere() {
    const inPtx = this.book.cells?.find((other) => other.way === "ptx" && other.section === this.section);
    return (inPtx && this !== inPtx ? "Solve this exercise in PTX, in its first cell for an answer: PTX needs no compiler. " : "")
      + "To run this cell, press \u201cDownload as a notebook\u201d and open the notebook in JupyterLab, on a machine that has what is missing here.";
  }

  get section() {
    return this.node.closest("section");
  }

  get words() {
    if (this.isAnswer) return `${this.exercise}${this.way === "ptx" ? " in PTX" : ""}`;
    const exercise = /^\d+\.\d+/.exec(this.section.querySelector("h1, h2").textContent);
    return exercise ? `the given code of ${exercise}` : "the given code at the top";
  }

  keep() {
    if (this.edited) this.book.store.change(this.key, { text: this.text(), given: this.id, task: this.task });
    else this.book.store.change(this.key, null);
    this.book.tell();
  }

  fill(text) {
    this.code.textContent = `${text}\n`;
    this.draw();
  }

  reset() {
    if (this.edited && !confirm(`Undo your changes to ${this.words}?`)) return;
    this.clear();
  }

  clear() {
    super.reset();
    this.keep();
  }

  // The verdict of an earlier visit, in the place of the output.
  showVerdict() {
    const kept = this.isAnswer && desk.verdict(this.key);
    if (!kept) return;
    this.live?.remove();
    this.live = element("div", { class: "cell_output docutils container cute-live", "data-status": kept.status }, block(kept.said, "text_plain"));
    this.bar.after(this.live);
    this.showLive = true;
    this.say(kept.of === desk.shortened(this.text()) ? "From an earlier visit." : "From an earlier visit, for another answer than the one above.");
    this.draw();
  }

  // A verdict counts for the exercise that its cell is about.
  async show(answer, models, inFront) {
    await super.show(answer, models, inFront);
    const found = this.isAnswer ? desk.verdictIn(answer.outputs) : null;
    if (found && found.id === this.exercise) desk.keepVerdict(this.key, found, this.ran, this.task);
  }

  shows(answer) {
    return answer.outputs.some((output) => output.output_type === "error");
  }

  // An answer to an earlier version of the exercise stands below the cell, until the reader uses it or drops it.
  showEarlier(key, text) {
    const drop = () => {
      this.book.store.change(key, null);
      box.remove();
    };
    const use = () => {
      this.fill(text);
      this.keep();
      drop();
    };
    const box = element("details", { class: "cute-earlier", open: "" },
      element("summary", {}, "This exercise has changed since you wrote this answer"),
      element("pre", {}, text),
      button("Use it", "Put this answer into the cell", use), button("Drop it", "Delete this answer", drop));
    this.bar.after(box);
  }
}

class ExerciseBook extends Book {
  constructor(facts) {
    super(facts);
    this.page = facts.page;
    this.status = element("span", { class: "cute-run-status", role: "status" });
    this.file = element("input", { type: "file", accept: ".ipynb,application/json", hidden: "", "aria-label": "A notebook with answers" });
    this.file.addEventListener("change", () => this.bring());
    this.bar = element("div", { class: "cute-run-bar cute-answers-bar" },
      button("Download as a notebook", "The exercises with your answers, for JupyterLab", () => this.download()),
      button("Load from a notebook", "Fill the cells with the answers in your notebook", () => this.file.click()),
      button("Start over", "Replace all your answers with the given code", () => this.afresh()),
      this.file, this.status);
    document.querySelector("article h1").after(this.bar);
    for (const cell of this.cells.filter((cell) => cell.way === "ptx")) this.putFirst(cell, facts.crib);
    this.restore();
  }

  // A browser has no compiler. So an answer in PTX comes first, with what belongs to it, and the answer in Python, from
  // its own given code on, goes into a fold below. The cells keep their order for Python: only their places change.
  putFirst(ptx, crib) {
    const python = this.cells.find((other) => other.exercise === ptx.exercise && other.way !== "ptx");
    const nodes = [...ptx.section.children];
    const given = nodes.findIndex((node) => node.matches(".tag_in-python"));
    const start = given < 0 ? nodes.indexOf(python.node) : given;
    let end = nodes.indexOf(python.node) + 1;
    while (nodes[end].matches("div.cell")) end += 1;
    const [words] = nodes[end].childNodes;
    words.data = words.data.replace(/^Or (.)/, (_, letter) => letter.toUpperCase());
    const lines = element("pre", {}, crib);
    nodes[end].before(element("details", { class: "cute-crib" }, element("summary", {}, "PTX in twelve lines"), lines));
    paintPtx(lines);
    ptx.section.append(element("details", { class: "cute-in-python" },
      element("summary", {}, "In Python, for a machine with a compiler"), ...nodes.slice(start, end)));
  }

  cell(node, number, facts) {
    this.store ??= new Store(facts.page);
    return new ExerciseCell(node, number, facts, this);
  }

  tell(words = "") {
    if (this.store.refused) {
      const why = this.store.refused === "QuotaExceededError" ? "its storage is full" : "it gives this page no storage";
      words = `${words} This browser does not keep your answers: ${why}. Download them before you leave.`.trim();
      this.bar.dataset.kind = "other";
    } else delete this.bar.dataset.kind;
    this.status.textContent = words || "Your answers stay in this browser.";
  }

  restore() {
    const kept = this.store.read();
    const said = [];
    for (const [key, { text, given, task }] of Object.entries(kept)) {
      const cell = this.cells.find((other) => other.key === key.split("@")[0]);
      if (!cell) continue;
      if (!key.includes("@") && given === cell.id) {
        cell.fill(text);
        if (cell.isAnswer && task !== cell.task) said.push(cell.words);
      } else {
        const earlier = key.includes("@") ? key : `${key}@${given}`;
        if (earlier !== key) {
          this.store.change(key, null);
          this.store.change(earlier, { text, given, task });
        }
        cell.showEarlier(earlier, text);
      }
    }
    for (const cell of this.cells) cell.showVerdict();
    this.tell(said.length ? `The text of ${said.join(", ")} has changed since you answered. Your answers are still in their cells.` : "");
  }

  // An unsolved cell above is left alone, unless this one needs its names.
  async above(cell) {
    const sources = this.cells.map((other) => other.text());
    const { cells } = await this.python.ask("needs", { sources, number: this.cells.indexOf(cell) });
    return cells.map((number) => this.cells[number]);
  }

  hint(cell) {
    return this.turn(cell, "Hint", async () => {
      await this.load(cell);
      cell.say("");
      if (!cell.hints?.isConnected) cell.hinted = 0;
      // Python counts anew after Stop, but the hints are on the page.
      const source = `__import__("cutecourse.checks").checks.hint(${JSON.stringify(cell.exercise)}, restart=${cell.hinted ? "False" : "True"})`;
      let number, total, words;
      do {
        const { outputs } = await this.python.run(source);
        words = outputs.map((output) => output.data["text/plain"]).join("\n");
        [number, total] = /\d+ of \d+/.exec(words)[0].split(" of ").map(Number);
      } while (number <= cell.hinted && number < total);
      if (number <= cell.hinted) return cell.say("That was the last hint.");
      if (!cell.hinted) cell.bar.after(cell.hints = element("div", { class: "cute-hints", role: "status" }));
      cell.hinted = number;
      const parts = words.split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part));
      cell.hints.append(element("p", {}, ...parts));
    });
  }

  async download() {
    try {
      const response = await fetch(`${this.page}.ipynb`);
      if (!response.ok) throw new Error(`${this.page}.ipynb: ${response.status}`);
      const notebook = await response.json();
      for (const there of notebook.cells) {
        const here = this.cells.find((cell) => cell.id === there.id);
        if (!here) continue;
        if (here.edited) there.source = here.text();
        const kept = here.isAnswer && desk.verdict(here.key);
        if (kept?.of === desk.shortened(here.text())) there.outputs = [{ output_type: "execute_result", execution_count: null, metadata: {}, data: { "text/plain": kept.said } }];
      }
      const file = new Blob([`${JSON.stringify(notebook, null, 1)}\n`], { type: "application/x-ipynb+json" });
      const link = element("a", { href: URL.createObjectURL(file), download: `${this.page}.ipynb` });
      link.click();
      URL.revokeObjectURL(link.href);
      this.tell(`${this.page}.ipynb has your answers. Put it into the folder work/exercises, which make lab opens in JupyterLab.`);
    } catch (error) {
      this.tell(`The notebook could not be fetched (${error.message}).`);
    }
  }

  async bring() {
    const [file] = this.file.files;
    this.file.value = "";
    if (!file) return;
    try {
      this.tell(this.take(file.name, await file.text()));
    } catch (error) {
      this.tell(error.message);
    }
  }

  // Fills the cells from the text of a notebook; returns what the reader should know.
  take(name, text) {
    let cells;
    try {
      ({ cells } = JSON.parse(text));
    } catch {
      throw new Error(`${name} is not a notebook: it is not JSON.`);
    }
    if (!Array.isArray(cells)) throw new Error(`${name} is not a notebook: it has no cells.`);
    const code = cells.filter((cell) => cell.cell_type === "code")
      .map((cell) => ({ id: cell.id, outputs: cell.outputs, text: [cell.source ?? ""].flat().join("").replace(/\n$/, "") }));
    const found = new Map();
    const strange = [];
    for (const cell of code) {
      const here = this.cells.find((other) => other.id === cell.id);
      if (here) found.set(here, cell);
      else strange.push(cell);
    }
    let own = 0;
    const moved = [];
    for (const cell of strange) {
      const exercise = CHECKS.exec(cell.text)?.[1];
      const way = /^\s*\.version\b/m.test(cell.text) ? "ptx" : undefined;
      const here = this.cells.filter((other) => other.exercise && other.exercise === exercise)
        .find((other, _, all) => !found.has(other) && (all.length === 1 || other.way === way));
      if (here) {
        found.set(here, cell);
        moved.push(here.words);
      } else own += 1;
    }
    if (!found.size) {
      const other = code.map((cell) => CHECKS.exec(cell.text)?.[1]).find(Boolean);
      throw new Error(other
        ? `${name} has exercises of chapter ${Number(other.slice(0, 2))}; this page has those of chapter ${Number(this.page.slice(0, 2))}.`
        : `${name} has no exercise from this page.`);
    }
    const filled = [...found].map(([cell, { text }]) => [cell, text]).filter(([cell, answer]) => answer !== cell.text());
    const lost = filled.map(([cell]) => cell).filter((cell) => cell.edited);
    if (lost.length && !confirm(`Replace what you have typed in ${listed(lost)}?`)) return "";
    for (const [cell, answer] of filled) {
      cell.fill(answer);
      cell.keep();
    }
    for (const [cell, { text: answer, outputs }] of found) {
      const verdict = cell.isAnswer ? desk.verdictIn(outputs) : null;
      if (!verdict || verdict.id !== cell.exercise) continue;
      desk.keepVerdict(cell.key, verdict, answer, cell.task);
      cell.showVerdict();
    }
    return [
      filled.length ? `Filled from ${name}: ${listed(filled.map(([cell]) => cell))}.` : `${name} has nothing new.`,
      moved.length ? `The given code of ${moved.join(", ")} differs between the notebook and this page.` : "",
      own ? `${own} ${own === 1 ? "cell" : "cells"} of your own ${own === 1 ? "was" : "were"} not loaded.` : "",
    ].filter(Boolean).join(" ");
  }

  afresh() {
    const changed = this.cells.filter((cell) => cell.edited);
    const sure = confirm(`Delete all your answers on this page and their verdicts (${changed.length} changed ${changed.length === 1 ? "cell" : "cells"})? This cannot be undone.`);
    if (!sure) return;
    for (const cell of this.cells) cell.clear();
    desk.dropVerdicts(this.cells.filter((cell) => cell.isAnswer).map((cell) => cell.key));
    for (const box of document.querySelectorAll(".cute-earlier, .cute-hints")) box.remove();
    this.store.write({});
    this.tell("All cells have the given code again.");
  }
}

globalThis.cutecourseBook = new ExerciseBook(told);
})();
