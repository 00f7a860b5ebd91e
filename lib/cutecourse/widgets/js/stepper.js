// Buttons, a slider and keys that walk through numbered steps.
import { el } from "./dom.js";
import { draw } from "./svg.js";

const ARROWS = { first: "M-4 -5V5M5 -5L-2 0L5 5Z", prev: "M4 -5L-4 0L4 5Z", next: "M-4 -5L4 0L-4 5Z", last: "M4 -5V5M-5 -5L2 0L-5 5Z" };

/**
 * The controls of `count()` steps, of which `place()` is shown and `go(number)` shows another. Page up and page down go
 * to the next step of another `part(number)`. `nav` is the row of controls, `show` follows the step, `listen` takes the
 * keys of an element.
 */
export function stepper({ count, place, go, part }) {
  const to = (number) => go(Math.max(0, Math.min(count() - 1, number)));
  const button = (name, label, act) => el("button", { class: "cc-quiet", "data-cc": name, "aria-label": label, title: label, onclick: act }, draw("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" }, draw("path", { d: ARROWS[name], class: "cc-icon" })));
  const slider = el("input", { type: "range", min: 0, step: 1, "data-cc": "slider", "aria-label": "Step" });
  const shown = el("span", { class: "cc-mono cc-count", "data-cc": "count" });
  const nav = el(
    "div",
    { class: "cc-timeline-nav" },
    button("first", "First step", () => to(0)),
    button("prev", "Previous step", () => to(place() - 1)),
    slider,
    button("next", "Next step", () => to(place() + 1)),
    button("last", "Last step", () => to(Infinity)),
    shown,
  );

  /** To the first step of the next or previous part, by the order in which the steps come. */
  const hop = (by) => {
    let at = place() + by;
    while (at >= 0 && at < count() && part(at) === part(place())) at += by;
    to(at);
  };

  // The slider's own keys, too: JupyterLab prevents what arrow keys do by default, outside of text fields.
  const walk = (event) => {
    const moves = { ArrowRight: () => to(place() + 1), ArrowLeft: () => to(place() - 1), PageDown: () => hop(1), PageUp: () => hop(-1), Home: () => to(0), End: () => to(Infinity) };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  };
  const listen = (node) => node.addEventListener("keydown", walk);
  listen(slider);
  slider.addEventListener("input", () => to(Number(slider.value)));
  return {
    nav,
    go: to,
    listen,
    show(at, words) {
      slider.max = count() - 1;
      slider.value = at;
      slider.setAttribute("aria-valuetext", words);
      shown.textContent = `${at + 1} of ${count()}`;
    },
  };
}
