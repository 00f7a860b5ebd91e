// The second operand as a reader types it: an extent, a layout, or a tuple of these and `_`.
import { NotationError, checkLayout } from "./notation.js";

const ADVICE = "write an extent (4), a layout (4:2), or a tuple of these and _ ((2,4:2))";

/** Reads `4`, `4:2`, `(4,8):(8,1)`, `(2,4:2)`, `(_,4)`; a tuple without a stride goes mode by mode. */
export function parseTiler(text) {
  const tokens = text.match(/_?\d+|\S/g) ?? [];
  let at = 0;
  const fail = (why) => {
    throw new NotationError(`operand "${text.trim()}": ${why}; ${ADVICE}`);
  };
  const item = () => {
    const token = tokens[at++];
    let value;
    if (token === undefined) fail("it ends too early");
    else if (token === "(") {
      value = [item()];
      while (tokens[at] === ",") {
        at += 1;
        if (tokens[at] === ")") break;
        value.push(item());
      }
      if (tokens[at++] !== ")") fail("a parenthesis is not closed");
    } else if (token === "_") return null;
    else if (/^_?\d+$/.test(token)) value = Number(token.replace("_", ""));
    else fail(`"${token}" may not stand there`);
    if (tokens[at] === ":") {
      at += 1;
      try {
        return checkLayout(value, item());
      } catch (error) {
        fail(error.message);
      }
    }
    return value;
  };
  const result = item();
  const positive = (part) => part === null || (Array.isArray(part) ? part.every(positive) : typeof part === "object" || part > 0);
  if (!positive(result)) fail("an extent is at least 1");
  if (at < tokens.length) fail(`"${tokens.slice(at).join("")}" stands after its end`);
  return result;
}
