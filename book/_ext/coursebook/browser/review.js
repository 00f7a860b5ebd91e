// The review deck: predictions that the reader has made come back after days (`desk.js` keeps when).
//
// A classic script, as the others are.

(() => {
const { change, dueOf, later, read, today } = globalThis.cutecourseDesk;
const DAYS = [1, 3, 7, 16, 35]; // until a card comes back, by how often it was right in a row
const place = document.querySelector(".cute-review");
const deck = JSON.parse(document.getElementById("cute-cards").textContent);

const element = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const words = (text) => text.split("`").map((part, number) => (number % 2 ? element("code", {}, part) : part));
const plain = (text) => text.replace(/\s+/g, "").toLowerCase();
const same = (said, value) => plain(said) === plain(value) || (said.trim() !== "" && Number(said) === Number(value));
const button = (text, act, attributes = {}) => {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
};

function overview(early = false) {
  const kept = read();
  const made = deck.map((card) => ({ ...card, due: dueOf(card.key, kept) })).filter(({ due }) => due);
  const due = made.filter((card) => card.due <= today()).sort((a, b) => (a.due < b.due ? -1 : 1));
  const next = made.map((card) => card.due).filter((day) => day > today()).sort()[0];
  const say = !made.length ? "You have made no prediction yet. Make some in a chapter, and come back tomorrow."
    : due.length ? `${due.length} of your ${made.length} predictions ${due.length === 1 ? "is" : "are"} due.`
      : `Nothing is due today. The next of your ${made.length} predictions comes back on ${next}.`;
  place.replaceChildren(element("p", { role: "status" }, say));
  if (due.length) place.append(button("Start", () => ask(due, 0, true)));
  else if (made.length) place.append(button("Practise all of them now", () => ask(made, 0, false)));
  if (early) place.querySelector("button")?.focus();
}

// `counts` says whether the answers move the days; practice does not.
function ask(cards, number, counts) {
  if (number >= cards.length) return overview(true);
  const card = cards[number];
  const said = element("p", { role: "status", class: "cute-review-said" });
  const choices = card.options.map((option, place) => button("", () => answer(option), { "data-option": option }));
  choices.forEach((choice, place) => choice.append(element("kbd", {}, String(place + 1)), " ", ...words(card.options[place])));
  const input = card.options.length ? null : element("input", { type: "text", autocomplete: "off", "aria-label": "Your answer" });
  input?.addEventListener("keydown", (event) => event.key === "Enter" && input.value.trim() && answer(input.value));
  const next = button("Next", () => ask(cards, number + 1, counts), { hidden: "" });
  const answer = (option) => {
    if (!next.hidden) return;
    const right = same(option, card.value);
    for (const choice of choices) {
      choice.disabled = true;
      if (same(choice.dataset.option, card.value)) choice.dataset.right = "yes";
      else if (choice.dataset.option === option) choice.dataset.right = "no";
    }
    if (input) input.disabled = true;
    said.append(right ? "✓ Right. " : "≠ Not right. The machine says ", ...(right ? [] : [element("strong", {}, ...words(card.value)), ". "]),
      element("a", { href: card.place }, "Read why"), ".");
    next.hidden = false;
    next.focus();
    if (!counts) return;
    change((kept) => {
      const step = right ? (Number(kept.review[card.key]?.step) || 0) + 1 : 0;
      kept.review[card.key] = { step, due: later(today(), DAYS[Math.min(step, DAYS.length - 1)]) };
    });
  };
  const group = element("fieldset", { class: "cute-card" },
    element("legend", {}, `${number + 1} of ${cards.length} · ${card.title}`),
    element("p", { class: "cute-question", tabindex: "-1" }, ...words(card.question)),
    element("div", { class: "cute-options" }, ...(input ? [input, button("Answer", () => input.value.trim() && answer(input.value))] : choices)),
    said, next);
  // A digit chooses, wherever the focus is in the card.
  group.addEventListener("keydown", (event) => {
    const choice = event.target === input ? null : choices[Number(event.key) - 1];
    if (choice && !event.ctrlKey && !event.metaKey && !event.altKey) choice.click();
  });
  place.replaceChildren(group);
  (input ?? group.querySelector(".cute-question")).focus();
}

overview();
})();
