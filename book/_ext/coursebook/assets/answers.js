// Folds the answer to each prediction until the reader has chosen, or asks to see it.
//
// The page holds every answer as open text in `div.cute-answer[data-key]`; in print, and where no script runs, it is
// read in its place. A prediction lies in localStorage under its key (lib/cutecourse/widgets/js/predictions.js), and
// an event tells when one is made. A browser's search in the page, and a link to a place inside an answer, open it.
//
// A classic script (a page opened from a file may load no module), so its names stay inside this function.

(() => {
const PREFIX = "cutecourse.predict.";
const EVENT = "cutecourse:predict";
// What is hidden "until found" is found by the browser's own search; without that it is simply hidden.
const HIDDEN = "onbeforematch" in document.documentElement ? "until-found" : "";

const element = (tag, attributes) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};

function predicted(key) {
  try {
    return localStorage.getItem(PREFIX + key) !== null;
  } catch {
    return false; // a browser that forbids storage
  }
}

function fold(box) {
  const key = box.dataset.key;
  const body = box.querySelector(".cute-answer-body");
  const button = element("button", { type: "button", class: "cute-answer-button", "aria-controls": body.id });
  // It is on the page before it says anything: a screen reader reads what changes in it.
  const status = element("span", { class: "cute-answer-status", role: "status" });
  const bar = element("div", { class: "cute-answer-bar" });
  bar.append(button, status);
  box.prepend(bar);

  const show = (open, words = "") => {
    box.dataset.open = open ? "yes" : "no";
    if (open) body.removeAttribute("hidden");
    else body.setAttribute("hidden", HIDDEN);
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Hide the answer" : predicted(key) ? "Show the answer" : "Show the answer without predicting";
    status.textContent = words;
  };
  const open = () => box.dataset.open === "yes" || show(true, "The answer is shown below.");

  button.addEventListener("click", () => (box.dataset.open === "yes" ? show(false) : open()));
  body.addEventListener("beforematch", open);
  globalThis.addEventListener(EVENT, ({ detail }) => {
    if (detail.key !== key) return;
    if (detail.said !== null) open();
    else if (detail.stale) show(false); // what was stored answers another question
  });
  globalThis.addEventListener("storage", (event) => event.key === PREFIX + key && event.newValue !== null && open());
  show(predicted(key));
  return open;
}

function start() {
  const openers = new Map();
  for (const box of document.querySelectorAll(".cute-answer")) openers.set(box, fold(box));
  const openTarget = () => {
    const target = document.querySelector(":target");
    const box = target && target.closest(".cute-answer");
    if (!box || box.dataset.open === "yes") return;
    openers.get(box)();
    target.scrollIntoView();
  };
  globalThis.addEventListener("hashchange", openTarget);
  // A link to where the address points already changes nothing there.
  document.addEventListener("click", (event) => event.target.closest?.("a[href*='#']") && setTimeout(openTarget));
  openTarget();
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
})();
