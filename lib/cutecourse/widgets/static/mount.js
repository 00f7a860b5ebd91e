// Brings the widgets of a built page to life, with no kernel and no request to anywhere.
//
// A built page holds the state of every widget in one script of type `application/vnd.jupyter.widget-state+json`
// and, at each widget's place, a script of type `application/vnd.jupyter.widget-view+json` that names its model.
// A script of the site (cutecourse.widgets.code_of_all_widgets) holds the code of each class of widgets, and their
// style; a widget that it does not know brings both in its state (`_esm`, `_css`). The code is imported from a Blob,
// the style goes into the head, each distinct one once. Views of one model share one model object.
//
// Where Python runs in the page, its widgets come through `globalThis.cutecourseMount` and are alive in both directions.
//
// A classic script (a page opened from a file may load no module), so its names stay inside this function.

(() => {
const TYPE = "application/vnd.jupyter.widget-";

// `tell` gets what a view has changed; without a kernel there is nobody to tell.
function makeModel(state, tell = () => {}) {
  const listeners = new Map();
  const changed = new Set();
  const model = {
    get: (key) => state[key],
    set(key, value) {
      if (JSON.stringify(state[key]) === JSON.stringify(value)) return;
      state[key] = value;
      changed.add(key);
      for (const name of [`change:${key}`, "change"]) for (const f of [...(listeners.get(name) ?? [])]) f(model, value);
    },
    on: (name, f) => listeners.set(name, (listeners.get(name) ?? new Set()).add(f)),
    off: (name, f) => (f ? listeners.get(name)?.delete(f) : listeners.delete(name)),
    save_changes() {
      const values = Object.fromEntries([...changed].map((key) => [key, state[key]]));
      changed.clear();
      if (Object.keys(values).length) tell(values);
    },
    send() {},
    receive(values) { // what the kernel has changed: nothing to tell it of
      for (const [key, value] of Object.entries(values)) {
        model.set(key, value);
        changed.delete(key);
      }
    },
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

const known = () => globalThis.cutecourseWidgets ?? { code: {}, style: "" };

async function render(name, state, model, el) {
  const code = known().code[name];
  style(code ? known().style : state._css);
  const { default: widget } = await load(code ?? state._esm);
  return widget.render({ model, el });
}

globalThis.cutecourseMount = { makeModel, render };

// Draws a recorded widget at each of its places, with some values other than the recorded ones.
async function show(found, values = {}) {
  for (const stop of found.stops ?? []) stop();
  const state = { ...found.state, ...values };
  found.model = makeModel(state);
  found.stops = [];
  for (const el of found.places) {
    el.replaceChildren();
    found.stops.push(await render(found.name, state, found.model, el));
  }
}

async function mountAll() {
  const recorded = new Map();
  for (const script of document.querySelectorAll(`script[type="${TYPE}state+json"]`))
    for (const [id, { model_module, state }] of Object.entries(JSON.parse(script.textContent).state))
      if (model_module === "anywidget") recorded.set(id, { name: state._anywidget_id, state, places: [] });
  const mounted = new Set(); // in the page's order
  for (const script of document.querySelectorAll(`script[type="${TYPE}view+json"]`)) {
    const found = recorded.get(JSON.parse(script.textContent).model_id);
    if (!found || script.dataset.ccMounted) continue;
    script.dataset.ccMounted = "yes";
    const el = document.createElement("div");
    el.className = "cc-mount";
    script.after(el);
    found.places.push(el);
    mounted.add(found);
  }
  for (const found of mounted) await show(found);
  await globalThis.cutecourseShare?.(mounted, show);
  document.documentElement.dataset.ccWidgets = "ready";
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
else mountAll();
})();
