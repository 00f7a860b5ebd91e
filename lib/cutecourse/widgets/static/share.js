// Gives each widget of a built page a link that carries the widget's state, and opens such links.
//
// `#widget=TmaBox-1&version=1x2y3z&swizzle=64B`: the first TmaBox of the page, a digest of what its reader cannot
// change, and values of the traits that its class shares. They are data: each is compared with its trait's
// description (cutecourse.widgets.sharing), and a widget shows it as text. A link that does not fit changes nothing.
//
// A widget that Python made here has the link of the page's own widget of the same kind and the same digest: whoever
// opens the link sees that one, without Python.
//
// A classic script, as mount.js is. mount.js calls it with the widgets of the page and a function that shows one anew;
// run.js hands it the widgets that Python made.

(() => {
const MOST = 4000; // characters of a link's fragment
const MOST_TEXT = 400; // of one text in it
const JUPYTERS = ["layout", "tabbable", "tooltip"]; // traits that Jupyter gives every widget

let widgets = []; // those of the page, as recorded

/** Whether a value is one that a description allows. `state` is the widget's own, as recorded. */
function fits(spec, value, state) {
  if (spec === "text") return typeof value === "string" && value.length <= MOST_TEXT;
  if (spec === "flag") return typeof value === "boolean";
  if (Array.isArray(spec)) return Number.isInteger(value) && spec[0] <= value && value <= spec[1];
  if (spec.in) return spec.in.includes(value);
  if (spec.any) return spec.any.some((one) => fits(one, value, state));
  if (spec.index) return fits([0, spec.index.split(".").reduce((at, key) => at[key], state).length - 1], value);
  if (spec.list) return Array.isArray(value) && spec.sizes[0] <= value.length && value.length <= spec.sizes[1] && value.every((one) => fits(spec.list, one, state));
  const names = Object.keys(spec.keys);
  return value instanceof Object && !Array.isArray(value) && Object.keys(value).length === names.length
    && names.every((name) => Object.hasOwn(value, name) && fits(spec.keys[name], value[name], state));
}

/** A digest (FNV-1a) of the values that no reader changes: a link is for the widget with exactly these. */
function versionOf({ name, state, specs }) {
  const given = Object.entries(state).filter(([key]) => !specs[key] && !key.startsWith("_") && !JUPYTERS.includes(key));
  // A notebook's file has its keys in another order than Python here.
  const sorted = (_, value) => (value instanceof Object && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort()) : value);
  let hash = 0x811c9dc5;
  for (const letter of JSON.stringify([name, Object.fromEntries(given)], sorted)) hash = Math.imul(hash ^ letter.codePointAt(0), 0x01000193);
  return (hash >>> 0).toString(36);
}

/** The values of a link for a widget; an Error with the words for its reader where the link does not fit. */
function valuesOf(found, query) {
  const { specs, state, id } = found;
  if (query.has("version") && query.get("version") !== versionOf(found)) throw new Error(`it was made for another version of this page's ${id}`);
  const values = {};
  for (const [key, text] of query) {
    if (key === "widget" || key === "version") continue;
    if (!Object.hasOwn(specs, key)) throw new Error(`${id} has no ${key} that a link can set`);
    try {
      values[key] = typeof state[key] === "string" ? text : JSON.parse(text);
    } catch {
      values[key] = undefined;
    }
    if (!fits(specs[key], values[key], state)) throw new Error(`${key} of ${id} cannot be ${text.length > 40 ? `${text.slice(0, 40)}…` : text}`);
  }
  return values;
}

const invalid = (found) => found.places.map((place) => place.querySelector('[aria-invalid="true"]')).find(Boolean);

const line = (words = "") => Object.assign(document.createElement("p"), { className: "cc-link-said", role: "status", textContent: words });
function say(found, words) {
  for (const place of found.places) place.querySelector(".cc-link-said").textContent = words;
}

/** The page's own widget that a link to this one leads to: of the same cell, if there are several. */
function target(found) {
  const same = widgets.filter((one) => one.name === found.name && versionOf(one) === versionOf(found));
  const cell = found.places[0].closest(".cell");
  return same.find((one) => one === found || cell?.contains(one.places[0])) ?? same[0];
}

async function copy(found) {
  if (invalid(found)) return say(found, "Correct the marked field first: a link carries only what the widget shows.");
  const { id } = target(found) ?? {};
  if (!id) return say(found, "Changed code made this widget, and a link leads only to widgets that the page shows without running code.");
  const query = new URLSearchParams({ widget: id, version: versionOf(found) });
  for (const key of Object.keys(found.specs)) {
    const value = found.model.get(key);
    if (fits(found.specs[key], value, found.state)) query.set(key, typeof value === "string" ? value : JSON.stringify(value));
  }
  const link = new URL(`#${query}`, location.href);
  try {
    await navigator.clipboard.writeText(link.href);
    say(found, "The link is copied.");
  } catch {
    history.replaceState(null, "", link);
    say(found, "This browser does not let the page copy. The link is in the address bar.");
  }
}

function addControl(found) {
  for (const place of found.places) {
    const row = place.querySelector(".cc-groups, .cc-controls");
    const button = Object.assign(document.createElement("button"), { type: "button", className: "cc-quiet cc-share", textContent: "Copy link" });
    button.title = "Copy a link to this widget as it is now";
    button.addEventListener("click", () => copy(found));
    row.append(button);
    row.after(line());
  }
}

let lost = null; // what is said of a link that no widget can say

/** Bring a widget to what the address says, or say in one line why not. */
async function open(show) {
  lost?.remove();
  if (!location.hash.startsWith("#widget=")) return;
  const query = new URLSearchParams(location.hash.slice(1));
  const found = widgets.find(({ id }) => id === query.get("widget"));
  const anew = async (values) => {
    await show(found, values);
    addControl(found);
  };
  let before = null;
  try {
    if (location.hash.length > MOST) throw new Error(`it has more than ${MOST} characters`);
    if (!found) throw new Error("it names a widget that this page does not have");
    const values = valuesOf(found, query);
    before = Object.fromEntries(Object.keys(found.specs).map((key) => [key, found.model.get(key)]));
    await anew(values).catch(() => { throw new Error(`${found.id} cannot show these values together`); });
    const field = invalid(found);
    if (field) throw new Error(document.getElementById(field.getAttribute("aria-describedby")).textContent);
  } catch (error) {
    const words = `The link does not fit: ${error.message.replace(/\.$/, "")}. Nothing was changed.`;
    if (!found) {
      lost = line(words);
      (document.querySelector("article") ?? document.body).prepend(lost);
      return lost.scrollIntoView();
    }
    if (before) await anew(before);
    say(found, words);
  }
  const [place] = found.places;
  for (let node = place; node; node = node.parentElement) {
    // Folded answers, and recorded outputs behind live ones, come forward as for a search in the page.
    if (node.hidden || node.classList.contains("cute-away")) node.dispatchEvent(new Event("beforematch"));
    if (node.tagName === "DETAILS") node.open = true;
  }
  place.scrollIntoView();
}

globalThis.cutecourseShare = async (mounted, show) => {
  const counts = {};
  widgets = [];
  for (const found of mounted) {
    const kind = found.name.split(".").pop();
    found.specs = globalThis.cutecourseWidgets?.shared[found.name];
    if (!found.specs) continue;
    found.id = `${kind}-${(counts[kind] = (counts[kind] ?? 0) + 1)}`;
    addControl(found);
    widgets.push(found);
  }
  globalThis.addEventListener("hashchange", () => open(show));
  // A link to where the address points already changes nothing there.
  document.addEventListener("click", ({ target }) => target.closest?.("a[href]")?.href === location.href && open(show));
  await open(show);
};

globalThis.cutecourseShare.live = (found) => {
  found.specs = globalThis.cutecourseWidgets?.shared[found.name];
  if (found.specs) addControl(found);
};
})();
