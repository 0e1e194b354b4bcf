// Compares the engine with answers of the command. It imports nothing of a platform, so browsers run it, too.

import { loadEncoding } from "../index.js";
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

/** Returns the names of the cases whose answer is not the expected one. */
export function differences(cases) {
  return cases.filter((one) => JSON.stringify(answer(one)) !== JSON.stringify(one.expected)).map(({ name }) => name);
}
