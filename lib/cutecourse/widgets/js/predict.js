// A prediction before the answer: asks, keeps what the reader said, tells every widget with the same key.
import { el, field, follow, uid, update, words } from "./dom.js";
import { forget, keep, readNumber, recall, subscribe } from "./predictions.js";

function render({ model, el: host }) {
  const type = model.get("answer_type");
  const key = model.get("key");
  const name = uid("predict");
  const options = model.get("options");
  const valid = (said) => said !== null && said !== undefined && (type !== "choice" || options.includes(String(said)));
  const commit = (said) => {
    pending = null;
    keep(key, said);
    update(model, { said });
    draw();
  };
  // An arrow key checks the next option on its way to another one. Only Enter, the space bar or a click chooses.
  let pending = null;
  let moving = false;

  const said = el("p", { class: "cc-said", "data-cc": "said", role: "status" });
  const clear = el("button", { type: "button", class: "cc-quiet", "data-cc": "clear", text: "Forget it" });
  clear.addEventListener("click", () => {
    pending = null;
    forget(key);
    update(model, { said: null });
    (radios[0] ?? entry?.control).focus();
  });

  const radios = [];
  let entry = null;
  let controls;
  if (type === "choice") {
    controls = el(
      "div",
      { class: "cc-options" },
      options.map((option) => {
        const radio = el("input", { type: "radio", name, value: option, "data-cc": "option" });
        radio.addEventListener("keydown", (event) => {
          moving = event.key.startsWith("Arrow");
          if ((event.key !== "Enter" && event.key !== " ") || pending !== option) return;
          event.preventDefault();
          commit(option);
        });
        radio.addEventListener("keyup", () => (moving = false));
        radio.addEventListener("change", () => {
          if (!radio.checked) return;
          if (!moving) return commit(option);
          pending = option;
          draw();
        });
        radios.push(radio);
        return el("label", { class: "cc-option" }, radio, el("span", {}, words(option)));
      }),
    );
  } else {
    const input = el("input", {
      type: "text",
      inputmode: type === "number" ? "decimal" : null,
      autocomplete: "off",
      spellcheck: "false",
      "data-cc": "answer",
    });
    entry = field("Your prediction", input, type === "number" ? "8em" : "16em");
    const take = () => {
      const text = input.value.trim();
      const value = type === "number" ? readNumber(text) : text;
      if (text === "") return entry.complain("Type your prediction first.");
      if (value === null) return entry.complain(`"${text}" is not a number. Type one such as 12 or 0.5.`);
      entry.complain("");
      commit(value);
    };
    // No form: JupyterLab lets none submit.
    input.addEventListener("keydown", (event) => event.key === "Enter" && take());
    const button = el("button", { type: "button", "data-cc": "keep", text: "Keep it", onclick: take });
    controls = el("div", { class: "cc-controls" }, entry.box, button);
  }

  const root = el(
    "section",
    { class: "cc-widget cc-predict", "data-cc": "predict", "data-key": key, "data-lm-suppress-shortcuts": "true" },
    el(
      "fieldset",
      {},
      el("legend", { text: "Your prediction" }),
      el("p", { class: "cc-question" }, words(model.get("question"))),
      controls,
      el("div", { class: "cc-kept" }, said, clear),
    ),
  );
  host.append(root);

  const draw = () => {
    const value = model.get("said");
    const known = valid(value);
    for (const radio of radios) radio.checked = pending !== null ? radio.value === pending : known && radio.value === String(value);
    if (entry && known && document.activeElement !== entry.control) entry.control.value = String(value);
    if (entry && !known) entry.control.value = "";
    said.replaceChildren(
      ...(pending !== null
        ? ["Press Enter to choose ", el("strong", {}, words(pending)), "."]
        : known
          ? ["You said ", el("strong", {}, words(value)), "."]
          : []),
    );
    root.dataset.said = known ? String(value) : "";
    clear.hidden = !known;
  };
  const stopStore = subscribe(key, (value) => {
    if (value === null ? model.get("said") !== null : valid(value) && model.get("said") !== value) update(model, { said: value });
  });
  const stopModel = follow(model, ["said"], draw);
  const before = recall(key);
  if (before !== null && !valid(before)) forget(key, { stale: true });
  if (valid(before)) {
    if (model.get("said") !== before) update(model, { said: before });
  } else if (valid(model.get("said"))) keep(key, model.get("said"));
  return () => {
    stopStore();
    stopModel();
  };
}

export default { render };
