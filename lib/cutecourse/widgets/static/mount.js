// Brings the widgets of a built page to life, with no kernel and no request to anywhere.
//
// A built page holds the state of every widget in one script of type `application/vnd.jupyter.widget-state+json`
// and, at each widget's place, a script of type `application/vnd.jupyter.widget-view+json` that names its model.
// A script of the site (cutecourse.widgets.code_of_all_widgets) holds the code of each class of widgets, and their
// style; a widget that it does not know brings both in its state (`_esm`, `_css`). The code is imported from a Blob,
// the style goes into the head, each distinct one once. Views of one model share one model object.
//
// A classic script (a page opened from a file may load no module), so its names stay inside this function.

(() => {
const TYPE = "application/vnd.jupyter.widget-";

function makeModel(state) {
  const listeners = new Map();
  const model = {
    get: (key) => state[key],
    set(key, value) {
      if (JSON.stringify(state[key]) === JSON.stringify(value)) return;
      state[key] = value;
      for (const name of [`change:${key}`, "change"]) for (const f of [...(listeners.get(name) ?? [])]) f(model, value);
    },
    on: (name, f) => listeners.set(name, (listeners.get(name) ?? new Set()).add(f)),
    off: (name, f) => (f ? listeners.get(name)?.delete(f) : listeners.delete(name)),
    save_changes() {}, // there is no kernel to tell
    send() {},
  };
  return model;
}

const modules = new Map(); // code -> its imported module
function load(code) {
  if (!modules.has(code)) modules.set(code, import(URL.createObjectURL(new Blob([code], { type: "text/javascript" }))));
  return modules.get(code);
}

const styles = new Set();
function style(css) {
  if (!css || styles.has(css)) return;
  styles.add(css);
  document.head.append(Object.assign(document.createElement("style"), { textContent: css }));
}

async function mountAll() {
  const known = globalThis.cutecourseWidgets ?? { code: {}, style: "" };
  const models = new Map();
  for (const script of document.querySelectorAll(`script[type="${TYPE}state+json"]`))
    for (const [id, { model_module, state }] of Object.entries(JSON.parse(script.textContent).state))
      if (model_module === "anywidget") models.set(id, { state, model: makeModel(state) });
  for (const script of document.querySelectorAll(`script[type="${TYPE}view+json"]`)) {
    const found = models.get(JSON.parse(script.textContent).model_id);
    if (!found || script.dataset.ccMounted) continue;
    script.dataset.ccMounted = "yes";
    const el = document.createElement("div");
    el.className = "cc-mount";
    script.after(el);
    const code = known.code[found.state._anywidget_id];
    style(code ? known.style : found.state._css);
    const { default: widget } = await load(code ?? found.state._esm);
    await widget.render({ model: found.model, el });
  }
  document.documentElement.dataset.ccWidgets = "ready";
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
else mountAll();
})();
