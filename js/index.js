// The face of the engine: JavaScript values go in and come out. The engine takes JSON, the same as the command and the server.

import { initSync, loadVocabulary, run } from "./engine/pannier_js.js";

const ENGINE = new URL("./engine/pannier_js_bg.wasm", import.meta.url);
const ENCODINGS = {
  o200k: new URL("./encodings/o200k.bpe", import.meta.url),
  cl100k: new URL("./encodings/cl100k.bpe", import.meta.url),
};

/** Reads a URL. Node's `fetch` does not read files. */
async function read(url) {
  if (new URL(url, import.meta.url).protocol === "file:" && globalThis.process?.versions?.node) {
    const { readFile } = await import("node:fs/promises");
    return readFile(new URL(url, import.meta.url));
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}

initSync({ module: await read(ENGINE) });

/** An error of the engine: what happened, and what to do. */
export class PannierError extends Error {
  constructor({ code, message, hint, needed }) {
    super(message);
    this.name = "PannierError";
    this.code = code;
    this.hint = hint ?? undefined;
    this.needed = needed ?? undefined;
  }
}

/** Runs the engine. It throws a string with JSON. */
function guard(call) {
  try {
    return call();
  } catch (error) {
    throw typeof error === "string" ? new PannierError(JSON.parse(error)) : error;
  }
}

function call(operation, request) {
  const json = JSON.stringify(request);
  return guard(() => {
    const output = run(operation, json);
    try {
      return { answer: JSON.parse(output.answer), text: output.text, warnings: output.warnings };
    } finally {
      output.free();
    }
  });
}

/** Options as the engine names them: `cacheControl` is `cache_control`, and a model is a tokenizer. */
function named(options) {
  const request = {};
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const name = key === "model" ? "tokenizer" : key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    request[name] = value;
  }
  return request;
}

const loading = new Map();

/**
 * Loads the vocabulary of an encoding: from this package, a URL, or bytes. Exact counts need it.
 */
export async function loadEncoding(name, source) {
  if (!Object.hasOwn(ENCODINGS, name)) {
    const known = Object.keys(ENCODINGS).join(" and ");
    throw new PannierError({ code: "invalid_input", message: `there is no encoding '${name}'; there are ${known}` });
  }
  if (source === undefined) {
    if (!loading.has(name)) {
      const loaded = loadEncoding(name, ENCODINGS[name]);
      loading.set(name, loaded);
      loaded.catch(() => loading.delete(name));
    }
    return loading.get(name);
  }
  const isUrl = typeof source === "string" || source instanceof URL;
  const bytes = isUrl ? await read(source) : new Uint8Array(source.buffer ?? source, source.byteOffset ?? 0, source.byteLength);
  const loaded = guard(() => loadVocabulary(bytes));
  if (loaded !== name) {
    throw new PannierError({ code: "invalid_input", message: `the vocabulary is that of ${loaded}, not of ${name}` });
  }
}

/** Counts the tokens of a text, or of each text of a list. */
export function count(text, options = {}) {
  const { answer } = call("count", { ...named(options), texts: Array.isArray(text) ? text : [text] });
  return Array.isArray(text) ? answer.counts.map(({ tokens }) => tokens) : answer.total;
}

/** Fits a chat into a token budget. A text stays a text: every digit and the order of keys are kept. */
export function fitChat(chat, options = {}) {
  const transcript = typeof chat === "string" ? chat : JSON.stringify(chat);
  const request = { ...named(options), transcript };
  if (options.previous !== undefined && typeof options.previous !== "string") {
    request.previous = JSON.stringify(options.previous);
  }
  const { answer, text, warnings } = call("chat", request);
  return {
    ...answer,
    text,
    warnings,
    explain: (...ids) => {
      const explained = call("chat", { ...request, explain: ids.map(String) }).answer;
      return explained.messages ?? explained.explanations;
    },
    recall: (id, options = {}) => recall(transcript, id, { tokenizer: request.tokenizer, ...options }),
    receipt: () => call("chatReceipt", request).answer,
  };
}

/** Returns a block that a request of a chat cut, by its recall id: all of it, or some lines. */
export function recall(chat, id, options = {}) {
  const session = typeof chat === "string" ? chat : JSON.stringify(chat);
  return call("recall", { ...named(options), id: String(id), session }).text;
}

/** The requests of one session, each with the prefix of the one before, so that the provider's prompt cache hits. */
export class ChatSession {
  #options;
  #last;

  constructor(options = {}) {
    this.#options = options;
  }

  /** Fits the next request of the session: all messages so far. */
  fit(chat, options = {}) {
    this.#last = fitChat(chat, { ...this.#options, ...options });
    return this.#last;
  }

  /** Returns a block that the last request cut, by its recall id: all of it, or some lines. */
  recall(id, options = {}) {
    if (!this.#last) {
      throw new PannierError({ code: "invalid_input", message: "no request was fitted yet; call fit first" });
    }
    return this.#last.recall(id, options);
  }
}

/** Packs items into a token budget. A string is an item with that content. */
export function pack(items, options = {}) {
  const request = poolRequest(items, options);
  const { answer, text, warnings } = call("pack", request);
  return {
    ...answer,
    text,
    warnings,
    explain: (...ids) => explained(request, ids),
    whatIf: (question) => asked(request, question),
    receipt: () => call("packReceipt", request).answer,
  };
}

/** Explains why items are in or out. */
export function explain(items, ids, options = {}) {
  return explained(poolRequest(items, options), [ids].flat());
}

/** Answers a question about other budgets: `{ item }`, `{ tokens }`, `{ min, max }` or `{ budget }`. */
export function whatIf(items, question, options = {}) {
  return asked(poolRequest(items, options), question);
}

function poolRequest(items, options) {
  const pool = Array.from(items, (item) => (typeof item === "string" ? { content: item } : item));
  return { ...named(options), items: pool };
}

function explained(request, ids) {
  return call("pack", { ...request, explain: ids.map(String) }).answer.explanations;
}

function asked(request, question) {
  if (question.budget !== undefined) return call("pack", { ...request, ...named(question) }).answer;
  // Only the loss of tokens starts from a budget.
  const { budget, target, ...pool } = request;
  const asked = named(question);
  if (asked.item !== undefined) asked.item = String(asked.item);
  return call("whatIf", asked.tokens === undefined ? { ...pool, ...asked } : { ...request, ...asked }).answer;
}
