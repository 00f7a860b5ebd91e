// The reader's desk: what is done, where the reader was, and which section is in view.
//
// All of it stays in this browser. `cutecourse:progress` in localStorage holds
//   verdicts    the last verdict on each answer, by the exercise's id ("01.5", "01.5 ptx")
//   read        the pages that the reader has read, by name
//   predicted   the day of each prediction, by its key
//   review      when the review deck asks again, by the key of a prediction: how often it was right in a row, and the day
//   last        where the reader was: page, title, section
// Ids and names of pages stay when a cell, a heading or an anchor changes. `course_map.js` lists the parts of each page.
//
// A classic script (a page opened from a file may load no module), so its names stay inside this function.

(() => {
const KEY = "cutecourse:progress";
const OURS = /^cutecourse[.:]/;
const CHANGED = "cutecourse:progress";
const PREDICT = "cutecourse.predict.";
const FILE = "cutecourse-progress.json";
const PARTS = ["verdicts", "read", "predicted", "review"];
const KINDS = { passed: "passed", "not started": "untouched", "not yet": "wrong", "your code raised an error": "raised", "not checked": "unchecked" };
const VERDICT = new RegExp(`^\\S (\\d\\d\\.\\d+) .*: (${Object.keys(KINDS).join("|")})(?:\\n|$)`);
const pages = globalThis.cutecourseMap ?? {};

const element = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

const root = new URL(document.documentElement.dataset.content_root ?? "./", location.href);
const nameOf = (address) => {
  const { origin, protocol, pathname } = new URL(address, location.href);
  const here = protocol === root.protocol && origin === root.origin && pathname.startsWith(root.pathname);
  return here ? pathname.slice(root.pathname.length).replace(/\.html$/, "") : "";
};
const here = nameOf(location.href);
const later = (day, days) => {
  const date = new Date(`${day}T12:00`);
  date.setDate(date.getDate() + days);
  return date.toLocaleDateString("sv");
};
const today = () => new Date().toLocaleDateString("sv"); // year-month-day, by the reader's clock

// ---- the store ----

let spare = "{}"; // for a browser that forbids storage: as long as the page is open
const dictionary = (value) => (value && typeof value === "object" && !Array.isArray(value) ? value : {});

function parsed(text) {
  try {
    const kept = dictionary(JSON.parse(text));
    return { ...kept, ...Object.fromEntries(PARTS.map((name) => [name, dictionary(kept[name])])) };
  } catch {
    return parsed("{}");
  }
}

function read() {
  try {
    return parsed(localStorage.getItem(KEY) ?? spare);
  } catch {
    return parsed(spare);
  }
}

// Reads first: another tab may have changed it.
function change(how) {
  const kept = read();
  how(kept);
  spare = JSON.stringify(kept);
  try {
    localStorage.setItem(KEY, spare);
  } catch {
    // the page itself remembers
  }
  globalThis.dispatchEvent(new Event(CHANGED));
}

function predicted(key) {
  try {
    return localStorage.getItem(PREDICT + key) !== null;
  } catch {
    return false;
  }
}

// The day on which a prediction comes back for review; null for one that the reader has not made.
const dueOf = (key, kept = read()) => {
  if (!predicted(key)) return null;
  const due = kept.review[key]?.due;
  return /^\d{4}-\d\d-\d\d$/.test(due) ? due : later(kept.predicted[key] ?? today(), 1);
};

// ---- verdicts ----

// A short name for an answer's text, to see whether it is still the one that was checked.
const shortened = (text) => [...text].reduce((sum, letter) => (Math.imul(sum, 31) + letter.codePointAt(0)) | 0, 7).toString(36);

// The verdict in what a cell shows: `id`, `status` and its words; null where there is none.
function verdictIn(outputs) {
  for (const output of [outputs ?? []].flat()) {
    const said = [output?.data?.["text/plain"] ?? ""].flat().join("");
    const match = VERDICT.exec(said);
    if (match) return { id: match[1], status: KINDS[match[2]], said };
  }
  return null;
}

// Keeps a verdict. An exercise that was solved once stays solved.
function keepVerdict(key, { status, said }, text, task) {
  if (status === "untouched" || status === "unchecked") return;
  change(({ verdicts }) => {
    const passed = status === "passed" ? today() : dictionary(verdicts[key]).passed;
    verdicts[key] = { status, said, of: shortened(text), task, ...(passed ? { passed } : {}) };
  });
}

const verdict = (key) => {
  const found = dictionary(read().verdicts[key]);
  return typeof found.said === "string" && VERDICT.test(found.said) ? found : null;
};
const dropVerdicts = (keys) => change(({ verdicts }) => keys.forEach((key) => delete verdicts[key]));

// ---- what is done ----

// How far a page is: `done` of `all`, in words, and whether that is all.
function state(name, kept = read()) {
  const { asks, solves } = pages[name] ?? {};
  if (solves) {
    const done = solves.filter((id) => kept.verdicts[id]?.passed || kept.verdicts[`${id} ptx`]?.passed).length;
    return { done, all: solves.length, full: done === solves.length, words: `${done} of ${solves.length} solved` };
  }
  if (!asks) return null;
  const done = asks.filter(predicted).length;
  const full = Boolean(kept.read[name]);
  return { done, all: asks.length, full, words: full ? "read" : `${done} of ${asks.length} predicted` };
}

const mark = (words, short, full) => element("span", { class: "cute-done", ...(full ? { "data-full": "" } : {}) },
  element("span", { "aria-hidden": "true" }, short), element("span", { class: "cute-spoken" }, ` (${words})`));

function put(place, made) {
  place.querySelector(":scope > .cute-done")?.remove();
  if (made) place.insertBefore(made, place.querySelector(":scope > .headerlink"));
}

const short = ({ done, all, full }) => (full ? " ✓" : done ? ` ${done}/${all}` : "");

function draw() {
  const kept = read();
  const told = (name) => {
    const found = state(name, kept);
    return found && short(found) ? mark(found.words, short(found), found.full) : null;
  };
  for (const link of document.querySelectorAll(".bd-links a, .cute-way a")) {
    if (!link.hash) put(link, told(nameOf(link.href)));
  }
  for (const row of document.querySelectorAll(".cute-chapters tr")) {
    const link = row.querySelector("a[href]");
    if (!link) continue;
    put(link.parentElement, told(nameOf(link.href)));
    const own = row.querySelector("td:last-child a[href]");
    if (own && own !== link) put(own.parentElement, told(nameOf(own.href)));
  }
  for (const heading of document.querySelectorAll("article h2")) {
    const id = /^\d\d\.\d+/.exec(heading.textContent)?.[0];
    if (!pages[here]?.solves?.includes(id)) continue;
    const found = [kept.verdicts[id], kept.verdicts[`${id} ptx`]].filter(Boolean);
    const solved = found.some((one) => one.passed);
    put(heading, found.length ? mark(solved ? "solved" : "tried", solved ? " ✓ solved" : " tried", solved) : null);
  }
  if (box) box.checked = Boolean(kept.read[here]);
  drawLanding(kept);
}

// A page counts as read when the reader says so, or has predicted everything on it.
let box = null;
function addBox() {
  if (!pages[here]?.asks) return;
  box = element("input", { type: "checkbox" });
  box.addEventListener("change", () => change(({ read: pages }) => {
    if (box.checked) pages[here] = today();
    else delete pages[here];
  }));
  document.querySelector("article").append(element("p", { class: "cute-read" }, element("label", {}, box, " I have read this page")));
}

function hear({ detail: { key, said } }) {
  if (said === null) return;
  change((kept) => {
    kept.predicted[key] ??= today();
    const asks = pages[here]?.asks ?? [];
    if (asks.includes(key) && asks.every(predicted)) kept.read[here] ??= today();
  });
}

// ---- the section in view, and where the reader was ----

const words = (heading) => [...heading.childNodes].filter((node) => !node.classList?.contains("cute-done") && !node.classList?.contains("headerlink"))
  .map((node) => node.textContent).join("").trim();

function followSections() {
  const nav = document.getElementById("pst-page-toc-nav");
  const links = [...(nav?.querySelectorAll("a[href^='#']") ?? [])];
  // The theme marks whichever section came into view last, and stays there when a long one is left. Without this id
  // it leaves the list alone.
  nav?.removeAttribute("id");
  const headings = [...document.querySelectorAll("article :is(h2, h3)")].filter((heading) => heading.closest("section[id]"));
  const anchorOf = (heading) => heading.closest("section[id]").id;
  let waiting = false;
  const look = () => {
    waiting = false;
    const line = innerHeight * 0.3;
    const atEnd = scrollY > 0 && scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    const passed = headings.filter((heading) => heading.getBoundingClientRect().top < (atEnd ? innerHeight : line));
    const now = passed.at(-1);
    for (const link of links) {
      const active = Boolean(now) && decodeURIComponent(link.hash.slice(1)) === anchorOf(now);
      link.classList.toggle("active", active);
      if (active) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    if (!pages[here] || !(now || scrollY)) return;
    const last = { page: here, title: words(document.querySelector("article h1")) };
    if (now) Object.assign(last, { anchor: anchorOf(now), section: words(now), number: headings.indexOf(now) });
    if (JSON.stringify(read().last) !== JSON.stringify(last)) change((kept) => { kept.last = last; });
  };
  const soon = () => {
    if (!waiting) requestAnimationFrame(look);
    waiting = true;
  };
  addEventListener("scroll", soon, { passive: true });
  addEventListener("resize", soon);
  // A page that goes on from an earlier version: its section has another anchor now, or another name.
  const { last } = read();
  const lost = location.hash.slice(1);
  if (lost && last?.page === here && last.anchor === decodeURIComponent(lost) && !document.getElementById(last.anchor)) {
    const found = headings.find((heading) => words(heading) === last.section) ?? headings[last.number];
    found?.scrollIntoView();
  } else if (location.hash) soon();
}

// ---- the landing page ----

let landing = null;
function drawLanding(kept) {
  if (here !== "intro") return;
  landing ??= document.querySelector("article h1").parentElement.insertBefore(
    element("aside", { class: "cute-desk", "aria-label": "Your desk" }), document.querySelector("article h1").nextSibling);
  const { last } = kept;
  // A page that has another name now: the chapter's first page.
  const page = typeof last?.page !== "string" ? null : pages[last.page] ? last.page
    : Object.keys(pages).find((name) => name.slice(0, last.page.indexOf("/") + 3) === last.page.slice(0, last.page.indexOf("/") + 3));
  landing.replaceChildren();
  if (page) {
    const address = new URL(`${page}.html`, root);
    if (page === last.page && last.anchor) address.hash = last.anchor;
    const place = [last.title, page === last.page ? last.section : ""].filter(Boolean).join(", ");
    landing.append(element("p", {}, "Go on where you were: ", element("a", { href: address.href }, place), "."));
  }
  const states = Object.keys(pages).map((name) => ({ name, ...state(name, kept) }));
  const total = (found, of) => found.reduce((sum, one) => sum + Number(one[of]), 0);
  const sheets = states.filter(({ name }) => pages[name].solves);
  const chapters = states.filter(({ name }) => !pages[name].solves);
  if (total(states, "done") || total(states, "full")) {
    landing.append(element("p", {}, `${total(chapters, "full")} of ${chapters.length} pages read, ${total(chapters, "done")} of ${total(chapters, "all")} predictions made, `
      + `${total(sheets, "done")} of ${total(sheets, "all")} exercises solved.`));
  }
  const due = Object.values(pages).flatMap(({ asks }) => asks ?? []).filter((key) => (dueOf(key, kept) ?? "9") <= today()).length;
  if (due) {
    const link = element("a", { href: new URL("review.html", root).href }, `${due} ${due === 1 ? "prediction is" : "predictions are"} due for review`);
    landing.append(element("p", {}, link, "."));
  }
  landing.hidden = !landing.childElementCount;
}

function addKeeping() {
  const table = here === "intro" ? document.querySelector(".cute-chapters") : null;
  if (!table) return;
  const said = element("span", { class: "cute-run-status", role: "status" });
  const button = (text, title, act) => {
    const made = element("button", { type: "button", title }, text);
    made.addEventListener("click", act);
    return made;
  };
  const file = element("input", { type: "file", accept: ".json,application/json", hidden: "", "aria-label": "A file with your progress" });
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    file.value = "";
    if (!chosen) return;
    try {
      said.textContent = bring(chosen.name, await chosen.text());
    } catch (error) {
      said.textContent = error.message;
    }
  });
  table.after(element("p", { class: "cute-keeping" },
    button("Save my progress", "A file with your answers, verdicts and predictions", () => save(said)),
    button("Bring it back", "Read such a file", () => file.click()), file, said));
}

function all() {
  return Object.fromEntries(Object.keys(localStorage).filter((key) => OURS.test(key)).map((key) => [key, localStorage.getItem(key)]));
}

function save(said) {
  try {
    const text = JSON.stringify({ cutecourse: 1, kept: all() }, null, 1);
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: FILE });
    link.click();
    URL.revokeObjectURL(link.href);
    said.textContent = `${FILE} has your answers, verdicts and predictions.`;
  } catch (error) {
    said.textContent = `This browser gives this page no storage (${error.name}), so there is nothing to save.`;
  }
}

// Reads a file that `save` wrote. Its entries replace those here; pages and exercises that only this browser has stay.
function bring(name, text) {
  let kept;
  try {
    ({ kept } = JSON.parse(text));
  } catch {
    throw new Error(`${name} is no file of the button “Save my progress”: it is not JSON.`);
  }
  const found = Object.entries(dictionary(kept)).filter(([key, value]) => OURS.test(key) && typeof value === "string");
  if (!found.length) throw new Error(`${name} holds no progress. Choose a file that “Save my progress” wrote.`);
  const before = all();
  const lost = found.filter(([key, value]) => key !== KEY && key in before && before[key] !== value);
  if (lost.length && !confirm(`Replace ${lost.length} ${lost.length === 1 ? "entry" : "entries"} that this browser keeps with those of ${name}?`)) return "";
  for (const [key, value] of found) if (key !== KEY) localStorage.setItem(key, value);
  const own = read();
  const theirs = parsed(Object.fromEntries(found)[KEY] ?? "{}");
  change((now) => Object.assign(now, theirs, ...PARTS.map((part) => ({ [part]: { ...own[part], ...theirs[part] } }))));
  return `Your progress is as ${name} has it.`;
}

// ---- start ----

// A sheet alone is printed when the address names it (coursebook.css).
function addPrinting() {
  for (const heading of document.querySelectorAll(".cute-sheet > h2")) {
    const button = element("button", { type: "button", class: "cute-print", "aria-label": `Print ${words(heading)}` }, "Print");
    button.addEventListener("click", () => {
      location.hash = heading.parentElement.id;
      print();
    });
    heading.append(button);
  }
}

function start() {
  if (!document.querySelector("article h1")) return; // the search page
  addPrinting();
  addBox();
  addKeeping();
  followSections();
  // Predictions from before the desk kept days.
  const undated = Object.values(pages).flatMap(({ asks }) => asks ?? []).filter((key) => predicted(key) && !read().predicted[key]);
  if (undated.length) change((kept) => undated.forEach((key) => { kept.predicted[key] = today(); }));
  draw();
  addEventListener(CHANGED, draw);
  addEventListener("cutecourse:predict", hear);
  addEventListener("storage", ({ key }) => (key === null || OURS.test(key)) && draw());
}

globalThis.cutecourseDesk = { change, dropVerdicts, dueOf, keepVerdict, later, read, shortened, today, verdict, verdictIn };

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
})();
