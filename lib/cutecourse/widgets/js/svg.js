// Elements of a picture.

// The name of SVG's elements is spelt as an address, but nothing is asked for there.
const NAMESPACE = ["http:", "", "www.w3.org", "2000", "svg"].join("/");

/** An SVG element with attributes (`text` is its text) and children. */
export function draw(tag, attrs = {}, ...children) {
  const node = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (value === null || value === undefined) continue;
    if (name === "text") node.textContent = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
