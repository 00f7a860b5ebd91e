// What came out, beside what the reader said before; follows a prediction that is made or changed later.
import { el, follow, update, words } from "./dom.js";
import { recall, sameAnswer, subscribe } from "./predictions.js";

function render({ model, el: host }) {
  const key = model.get("key");
  const root = el("section", { class: "cc-widget cc-reveal", "data-cc": "reveal", "data-key": key, role: "status" });
  host.append(root);
  const draw = () => {
    const [said, value] = [model.get("said"), model.get("value")];
    const machine = el("strong", { "data-cc": "value" }, words(value));
    const none = said === null || said === undefined;
    const agrees = none ? "none" : sameAnswer(said, value) ? "yes" : "no";
    root.dataset.agrees = agrees;
    const you = el("strong", { "data-cc": "said" }, words(said));
    root.replaceChildren(
      ...(none
        ? ["The machine says ", machine, ". ", el("span", { class: "cc-muted", text: "No prediction was kept for this one." })]
        : agrees === "yes"
          ? [el("span", { class: "cc-mark", "aria-hidden": "true", text: "✓ " }), "Right. You said ", you, ", and the machine says ", machine, " too."]
          : [el("span", { class: "cc-mark", "aria-hidden": "true", text: "≠ " }), "Not right. You said ", you, "; the machine says ", machine, "."]),
    );
  };
  const stopStore = subscribe(key, (said) => model.get("said") !== said && update(model, { said }));
  const stopModel = follow(model, ["said", "value"], draw);
  const before = recall(key);
  if (before !== null && model.get("said") !== before) update(model, { said: before });
  return () => {
    stopStore();
    stopModel();
  };
}

export default { render };
