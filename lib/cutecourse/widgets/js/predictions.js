// Where predictions are kept: localStorage under the key, and one event that tells the other widgets of the page.

const PREFIX = "cutecourse.predict.";
const EVENT = "cutecourse:predict";
// For a page that may not store anything: what was said, for as long as the page is open.
const spoken = (globalThis[Symbol.for("cutecourse.predictions")] ??= new Map());

function announce(key, said, more = {}) {
  globalThis.dispatchEvent(new CustomEvent(EVENT, { detail: { key, said, ...more } }));
}

export function keep(key, said) {
  spoken.set(key, said);
  try {
    localStorage.setItem(PREFIX + key, JSON.stringify(said));
  } catch {
    // a browser that forbids storage: the page itself remembers
  }
  announce(key, said);
}

/** Drops what was said. `stale` says that it was no answer to the question as it is asked now. */
export function forget(key, { stale = false } = {}) {
  spoken.delete(key);
  try {
    localStorage.removeItem(PREFIX + key);
  } catch {
    // as above
  }
  announce(key, null, { stale });
}

export function recall(key) {
  try {
    const text = localStorage.getItem(PREFIX + key);
    if (text !== null) return JSON.parse(text);
  } catch {
    // as above, or someone else wrote there
  }
  return spoken.get(key) ?? null;
}

/** Calls `tell(said)` when the prediction under `key` is made, changed or forgotten, in this tab or another. */
export function subscribe(key, tell) {
  const here = (event) => event.detail.key === key && tell(event.detail.said);
  const elsewhere = (event) => event.key === PREFIX + key && tell(recall(key));
  globalThis.addEventListener(EVENT, here);
  globalThis.addEventListener("storage", elsewhere);
  return () => {
    globalThis.removeEventListener(EVENT, here);
    globalThis.removeEventListener("storage", elsewhere);
  };
}

/** The number a reader typed, or null: digits, a sign, a point, an exponent; no blanks, no hexadecimal. */
export function readNumber(text) {
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : null;
}

/** Whether a prediction and a value are the same answer: equal numbers, or equal words but for blanks and case. */
export function sameAnswer(said, value) {
  const plain = (answer) => String(answer).replace(/\s+/g, "").toLowerCase();
  const [a, b] = [plain(said), plain(value)];
  const [x, y] = [readNumber(a), readNumber(b)];
  return x !== null && y !== null ? x === y : a === b;
}
