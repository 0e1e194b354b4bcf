// Compares the engine with answers of the command. It imports nothing of a platform, so browsers run it, too.

import { PannierError, fitChat, loadEncoding, pack, recall } from "../index.js";
import { run } from "../engine/pannier_js.js";

await Promise.all([loadEncoding("o200k"), loadEncoding("cl100k")]);

/** Returns what the command prints for a request: `{ text }`, or `{ code }` of a failure. */
export function answer({ operation, request, form = operation === "pack" ? "json" : "text" }) {
  let output;
  try {
    output = run(operation, JSON.stringify(request));
  } catch (error) {
    if (typeof error !== "string") throw error;
    return { code: JSON.parse(error).code };
  }
  const text = form === "text" ? output.text : `${output.answer}\n`;
  output.free();
  return { text };
}

/** Returns the same by the functions that people call, with objects where they have the bytes of the text. */
export function packageAnswer({ operation, request }) {
  const { transcript, items, session, ...options } = request;
  try {
    if (operation === "pack") {
      const { items: packed, totals } = pack(items, options);
      return { value: { items: packed, totals } };
    }
    if (operation === "recall") return { text: recall(session, options.id, options) };
    const fitted = fitChat(transcript, options);
    const value = JSON.parse(transcript);
    const isSame = JSON.stringify(value) !== transcript || fitChat(value, options).text === fitted.text;
    return isSame ? { text: fitted.text } : { text: "objects give other bytes" };
  } catch (error) {
    if (!(error instanceof PannierError)) throw error;
    return { code: error.code };
  }
}

/** Returns whether the engine and the package give what the command prints. */
export function isExpected(one) {
  const own = packageAnswer(one);
  // Objects of JavaScript keep values, but not how numbers are written.
  const parsed = own.value && one.expected.text ? { value: JSON.parse(one.expected.text) } : one.expected;
  return JSON.stringify(answer(one)) === JSON.stringify(one.expected) && JSON.stringify(own) === JSON.stringify(parsed);
}

/** Returns the names of the cases whose answer is not the expected one. */
export function differences(cases) {
  return cases.filter((one) => !isExpected(one)).map(({ name }) => name);
}
