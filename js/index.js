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

const invalid = (message) => new PannierError({ code: "invalid_input", message });

/** Runs the engine. It throws a string with JSON. */
function guard(call) {
  try {
    return call();
  } catch (error) {
    throw typeof error === "string" ? new PannierError(JSON.parse(error)) : error;
  }
}

// The engine has at most 4 GB of memory. Where that is not enough, it stops and cannot be used again.
const MAX_LENGTH = 1 << 27;

function call(operation, request) {
  const json = JSON.stringify(request);
  if (json.length > MAX_LENGTH) {
    const [length, most] = [json.length, MAX_LENGTH].map((chars) => Math.ceil(chars / 1e6));
    throw invalid(`the input has ${length} million characters as JSON, but the engine takes ${most}; use the command or Python`);
  }
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
    throw invalid(`there is no encoding '${name}'; there are ${known}`);
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
    throw invalid(`the vocabulary is that of ${loaded}, not of ${name}`);
  }
}

/** Counts the tokens of a text, or of each text of a list. */
export function count(text, options = {}) {
  const { answer } = call("count", { ...named(options), texts: Array.isArray(text) ? text : [text] });
  return Array.isArray(text) ? answer.counts.map(({ tokens }) => tokens) : answer.total;
}

// The fields of a request, by provider.
const MESSAGES = { responses: "input", gemini: "contents" };
const SYSTEM = { anthropic: "system", responses: "instructions", gemini: "systemInstruction" };

/**
 * Puts messages into a request that has tools or a system prompt, too. The system prompt of OpenAI is a message, which the
 * caller does not know: `added` is the number of such messages.
 */
function composed(chat, tools, system, provider) {
  if (tools === undefined && system === undefined) return { added: 0, wrap: (messages) => messages, unwrap: (request) => request };
  if (!Array.isArray(chat)) {
    throw invalid("tools and system belong to a list of messages; a request and a text have their own");
  }
  if (tools !== undefined && !Array.isArray(tools)) throw invalid(`tools is a ${typeof tools}; give a list of tools`);
  const hasSchema = tools?.some((tool) => tool !== null && typeof tool === "object" && "input_schema" in tool);
  provider ??= hasSchema ? "anthropic" : call("detect", chat).answer;
  const field = MESSAGES[provider] ?? "messages";
  const added = system !== undefined && !SYSTEM[provider] ? 1 : 0;
  const wrap = (messages) => {
    if (!Array.isArray(messages)) return messages;
    const request = {};
    if (system !== undefined && !added) request[SYSTEM[provider]] = provider === "gemini" ? { parts: [{ text: system }] } : system;
    if (tools !== undefined) request.tools = tools;
    request[field] = added ? [{ role: "system", content: system }, ...messages] : messages;
    return request;
  };
  return { added, wrap, unwrap: (request) => request[field].slice(added) };
}

/** Returns the name of a message, by id or position, in the other numbering. */
function renumbered(name, shift) {
  if (name === "system") return "message-0";
  const [, prefix, number] = /^(#|message-|)(\d+)$/.exec(name) ?? [];
  if (number === undefined) return name;
  return Number(number) + shift < 0 ? "system" : `${prefix}${Number(number) + shift}`;
}

/** Returns an answer with the positions of the caller's messages. */
function ownPositions(answer, added) {
  if (Array.isArray(answer)) return answer.map((one) => ownPositions(one, added));
  if (answer === null || typeof answer !== "object") return answer;
  if (Object.keys(answer).sort().join() === "block,message" && answer.message < added) return null;
  const own = Object.fromEntries(Object.entries(answer).map(([key, value]) => [key, ownPositions(value, added)]));
  for (const key of ["message", "index"]) if (typeof own[key] === "number") own[key] -= added;
  if (`${own.id}`.startsWith("message-")) own.id = renumbered(own.id, -added);
  return own;
}

/** Runs a chat. Errors have the positions of the caller's messages. */
function callChat(operation, request, added) {
  try {
    return call(operation, request);
  } catch (error) {
    if (!added || !(error instanceof PannierError)) throw error;
    const own = (_, number) => (Number(number) < added ? "system" : `messages[${number - added}]`);
    const { code, message, hint, needed } = error;
    throw new PannierError({ code, message: message.replace(/messages\[(\d+)\]/g, own), hint, needed });
  }
}

/** Fits a chat into a token budget. A text stays a text: every digit and the order of keys are kept. */
export function fitChat(chat, { tools, system, ...options } = {}) {
  const { added, wrap, unwrap } = composed(chat, tools, system, options.provider);
  const transcript = typeof chat === "string" ? chat : JSON.stringify(wrap(chat));
  const request = { ...named(options), transcript };
  if (options.previous !== undefined && typeof options.previous !== "string") {
    request.previous = JSON.stringify(wrap(options.previous));
  }
  if (added && Array.isArray(options.pin)) request.pin = options.pin.map((name) => renumbered(name, added));
  const { answer, text, warnings } = callChat("chat", request, added);
  const { transcript: sent, ...report } = answer;
  const own = unwrap(sent);
  return {
    transcript: own,
    ...(added ? ownPositions(report, added) : report),
    text: own === sent ? text : `${JSON.stringify(own)}\n`,
    warnings,
    explain: (...ids) => {
      const explain = ids.map((id) => (added ? renumbered(String(id), added) : String(id)));
      const explained = callChat("chat", { ...request, explain }, added).answer;
      const found = explained.messages ?? explained.explanations;
      return added ? ownPositions(found, added) : found;
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
      throw invalid("no request was fitted yet; call fit first");
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
  if (typeof items === "string" || typeof items?.[Symbol.iterator] !== "function") {
    throw invalid(`items is a ${typeof items}; give a list of items`);
  }
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
