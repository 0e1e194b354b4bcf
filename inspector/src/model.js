// What the page shows, read from any of the command's files.
//
// A model has items, each with its decision, and the division of the window. A receipt has no contents; with its items, the
// engine repeats the run and fills in scores and reasons. Positions in a pool are `index`.

export class FileError extends Error {}

/** Reads files that were opened together: one file to show, and for a receipt its items. `onPool` gets the pool before its
 * items are listed, so that the engine reads it meanwhile. */
export function readFiles(files, onPool = () => {}) {
  const forms = files.map((file) => ({ ...file, ...detect(file) }));
  const receipts = forms.filter(({ form }) => form === "receipt");
  const pools = forms.filter(({ form }) => form === "items");
  if (receipts.length === 1 && pools.length > 0) {
    return receiptModel(receipts[0], pools, onPool);
  }
  if (forms.length > 1 && pools.length === forms.length) {
    return itemsModel(pools);
  }
  if (forms.length > 1) throw new FileError("Open one file, or a receipt together with its items.");
  return READERS[forms[0].form](forms[0]);
}

const READERS = {
  receipt: (file) => receiptModel(file, null),
  report: (file) => reportModel(file, file.value),
  chat: (file) => chatModel(file),
  cuts: (file) => cutsModel(file),
  context: (file) => contextModel(file),
  passages: (file) => passagesModel(file),
  documents: (file) => documentsModel(file),
  selection: (file) => selectionModel(file),
  packet: (file) => packetModel(file),
  session: (file) => ({ ...blank(file, "session"), session: readSession(file.value) }),
  items: (file) => itemsModel([file]),
};

/** Parses a file and names its form. */
function detect({ name, text }) {
  if (text.trim() === "") throw new FileError(`${name} is empty.`);
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    value = readLines(name, text, error);
  }
  if (isObject(value) && isObject(value.answer)) value = value.answer;
  if (Array.isArray(value)) {
    if (value.length > 0 && value.every((item) => isObject(item) && typeof item.content === "string")) {
      return { form: "items", value };
    }
    throw new FileError(`${name} is a list, but not of items: an item is an object with a text "content".`);
  }
  if (!isObject(value)) throw new FileError(`${name} is JSON, but not an object.`);
  const has = (...keys) => keys.every((key) => Object.hasOwn(value, key));
  const form =
    has("receipt", "items", "selected") ? "receipt"
    : has("session", "turns") ? "session"
    : has("included", "excluded") ? "report"
    : has("report") && isObject(value.report) ? "chat"
    : has("cuts", "tokens") ? "cuts"
    : has("chunks", "available_tokens") ? "context"
    : has("passages") ? "passages"
    : has("documents") ? "documents"
    : has("items", "totals") ? "selection"
    : has("read_order", "budget") ? "packet"
    : has("content") ? "items"
    : null;
  if (form === null) {
    throw new FileError(
      `${name} is not a file of Pannier that this page knows: a receipt, a report, a selection, a session, an assembled context, a packet or items.`,
    );
  }
  return { form, value: form === "items" ? [value] : value };
}

/** One JSON object per line. */
function readLines(name, text, whole) {
  const lines = text.split("\n");
  const values = [];
  for (const [index, line] of lines.entries()) {
    if (line.trim() === "") continue;
    try {
      values.push(JSON.parse(line));
    } catch (error) {
      const problem = values.length === 0 ? whole : error;
      const where = values.length === 0 ? "" : `, line ${index + 1}`;
      throw new FileError(`${name}${where} is not JSON: ${String(problem.message).slice(0, 200)}`);
    }
  }
  return values;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Checks the type of a field, with its path in the message. */
function check(value, type, path) {
  const is = { list: Array.isArray(value), object: isObject(value), number: Number.isFinite(value), text: typeof value === "string" };
  if (!is[type]) throw new FileError(`${path} is not a ${type}.`);
  return value;
}

function blank({ name }, form) {
  return { name, form, items: [], order: [], window: null, text: null, query: null, pool: null, session: null, notes: [] };
}

/** An item of the list. */
function listed(index, item, decision) {
  const metadata = isObject(item.metadata) ? item.metadata : {};
  return {
    index,
    id: typeof item.id === "string" ? item.id : null,
    content: typeof item.content === "string" ? item.content : null,
    tokens: Number.isFinite(item.tokens) ? item.tokens : null,
    kind: typeof item.kind === "string" ? item.kind : "Message",
    document: typeof metadata.document === "string" ? metadata.document : null,
    tags: Array.isArray(item.tags) ? item.tags.map(String) : [],
    timestamp: typeof item.timestamp === "string" ? item.timestamp : null,
    group: typeof item.group === "string" ? item.group : null,
    isPinned: item.pinned === true,
    isIn: false,
    form: null,
    sentTokens: null,
    score: null,
    reason: null,
    why: null,
    duplicateOf: null,
    terms: [],
    details: [],
    ...decision,
  };
}

function receiptModel(file, pools, onPool) {
  const receipt = file.value;
  const recorded = check(receipt.items, "list", "items");
  const selected = check(receipt.selected, "list", "selected");
  const model = blank(file, "receipt");
  model.receipt = file.text;
  model.policy = isObject(receipt.policy) ? receipt.policy : null;
  model.budget = check(receipt.budget, "object", "budget");
  check(model.budget.maxTokens, "number", "budget.maxTokens");
  model.tokenizer = typeof receipt.tokenizer === "string" ? receipt.tokenizer : null;
  model.query = queryOf(receipt);
  const places = new Set();
  for (const index of selected) {
    if (!Number.isInteger(index) || index < 0 || index >= recorded.length || places.has(index)) {
      throw new FileError(`selected names an item that does not exist, or one twice: ${String(index).slice(0, 40)}.`);
    }
    places.add(index);
  }
  const shortened = new Set(Array.isArray(receipt.shortened) ? receipt.shortened : []);
  if (pools === null) {
    model.items = recorded.map((item, index) =>
      listed(index, check(item, "object", `items[${index}]`), {
        kind: "Item",
        isIn: places.has(index),
        form: places.has(index) ? (shortened.has(index) ? "shortened" : "whole") : null,
        reason: places.has(index) ? "Selected" : "Out",
        why: places.has(index) ? null : "A receipt records no reasons. Open it together with its items.",
      }),
    );
    model.order = selected;
    const sent = selected.reduce((sum, index) => sum + (model.items[index].tokens ?? 0), 0);
    model.window = ledgerOf(model.budget, sent);
    model.notes.push("A receipt has no contents. Open it together with its items to see texts, scores and reasons, and to ask what if.");
    return model;
  }
  // The engine reads the texts of the files, because numbers of JavaScript would change their hashes.
  model.pool = { texts: pools.map(({ text }) => text), receipt: file.text };
  onPool(model.pool);
  model.items = pools.flatMap(({ value }) => value).map((item, index) => listed(index, item, {}));
  model.order = selected;
  return model;
}

/** The query of a run: recorded, or that of a scorer. */
function queryOf(receipt) {
  if (isObject(receipt.source) && typeof receipt.source.query === "string") return receipt.source.query;
  return policyQuery(receipt.policy);
}

export function policyQuery(policy) {
  const scorers = isObject(policy) && Array.isArray(policy.scorers) ? policy.scorers : [];
  const lexical = scorers.find((scorer) => isObject(scorer) && typeof scorer.query === "string");
  return lexical ? lexical.query : null;
}

/** The window without a ledger. */
function ledgerOf(budget, sent) {
  const window = budget.maxTokens;
  const reserve = Number.isFinite(budget.outputReserve) ? budget.outputReserve : 0;
  return { window, output_reserve: reserve, items: sent, slack: window - reserve - sent };
}

function itemsModel(files) {
  const model = blank({ name: files.map(({ name }) => name).join(", ") }, "items");
  const items = files.flatMap(({ value }) => value);
  const isCounted = items.every((item) => Number.isFinite(item.tokens));
  model.pool = { texts: files.map(({ text }) => text) };
  model.items = items.map((item, index) => listed(index, item, {}));
  model.policy = "chat";
  const total = items.reduce((sum, item) => sum + Math.max(0, item.tokens ?? (item.content.length >> 2) + 2), 0);
  model.budget = { maxTokens: Math.max(1, Math.ceil(total / 2)), targetTokens: Math.max(1, Math.ceil(total / 2)) };
  model.tokenizer = isCounted ? "given" : "script";
  model.notes.push("These are items without a run. The page packs them with the policy “chat” into half of their tokens; change both under “What if”.");
  return model;
}

function reasonText(reason) {
  const known = {
    BudgetExceeded: ({ item_tokens, available_tokens, outcompeted }) =>
      `${item_tokens} tokens requested, ${available_tokens} available${outcompeted ? "; it would fit, but was not chosen" : ""}`,
    Deduplicated: () => "another item with the same content was kept",
    NearDuplicate: ({ shared, own }) => `${shared} of its ${own} shingles are in an item that ranks higher`,
    PinnedOverride: () => "it would fit the target if no item were pinned",
    RenderedOverBudget: ({ rendered_tokens, target_tokens }) =>
      `the text of all would have ${rendered_tokens} tokens, the target is ${target_tokens}`,
    NegativeTokens: ({ tokens }) => `${tokens} tokens`,
    Refused: ({ rule }) => String(rule),
    GroupExcluded: ({ group, cause }) => `another member of group ${group} is out for ${cause}`,
    CountCapExceeded: ({ kind, cap }) => `the selection has ${cap} of the kind ${kind}, its maximum`,
    DocumentCapExceeded: ({ document, cap }) => `the selection has ${cap} passages of ${document}, the maximum`,
    Filtered: ({ filter_name }) => `by the filter ${filter_name}`,
    BelowFloor: ({ score, floor }) => `score ${score}, floor ${floor}`,
  };
  const text = Object.hasOwn(known, reason.reason) ? known[reason.reason](reason) : "";
  return String(text).slice(0, 1000);
}

function reportModel(file, report) {
  const model = blank(file, "report");
  const included = check(report.included, "list", "included");
  const excluded = check(report.excluded, "list", "excluded");
  const pool = [];
  const add = (entry, path, isIn) => {
    check(entry, "object", path);
    const item = check(entry.item, "object", `${path}.item`);
    const reason = isObject(entry.reason) ? entry.reason : { reason: "Unknown" };
    const name = typeof reason.reason === "string" ? reason.reason : "Unknown";
    const isShort = name === "Shortened" || name === "Kept" || typeof entry.form === "string";
    pool.push(item);
    model.items.push(
      listed(model.items.length, item, {
        isIn,
        form: isIn ? (isShort ? (typeof entry.form === "string" ? entry.form : "short") : "whole") : null,
        sentTokens: isIn && Number.isFinite(item.tokens) ? item.tokens : null,
        score: Number.isFinite(entry.score) ? entry.score : null,
        reason: name,
        why: reasonText({ ...reason, reason: name }),
        original: reason.deduplicated_against ?? reason.near_duplicate_of ?? null,
      }),
    );
  };
  included.forEach((entry, index) => add(entry, `included[${index}]`, true));
  excluded.forEach((entry, index) => add(entry, `excluded[${index}]`, false));
  model.order = included.map((_, index) => index);
  linkDuplicates(model);
  const sent = model.items.reduce((sum, item) => sum + (item.isIn ? (item.tokens ?? 0) : 0), 0);
  model.window = isObject(report.ledger) ? report.ledger : { window: sent, items: sent, slack: 0 };
  const window = Number.isFinite(model.window.window) ? model.window.window : sent;
  const reserve = Number.isFinite(model.window.output_reserve) ? model.window.output_reserve : 0;
  if (pool.length > 0 && pool.every((item) => typeof item.content === "string" && Number.isFinite(item.tokens))) {
    // A report has neither the policy nor the order of the pool, so another run starts from a preset.
    model.trial = { texts: [JSON.stringify(pool)] };
    model.budget = { maxTokens: window, targetTokens: Math.max(0, window - reserve), ...(reserve > 0 ? { outputReserve: reserve } : {}) };
  }
  return model;
}

function linkDuplicates(model) {
  const kept = new Map();
  for (const item of model.items) {
    if (item.content !== null && !(item.original ?? false) && !kept.has(item.content)) kept.set(item.content, item.index);
  }
  for (const item of model.items) {
    if (typeof item.original === "string" && kept.has(item.original)) item.duplicateOf = kept.get(item.original);
    delete item.original;
  }
}

function chatModel(file) {
  const { report, tokenizer, exactness, prefix, repairs } = file.value;
  const model = reportModel(file, report);
  model.form = "chat";
  delete model.trial;
  model.tokenizer = typeof tokenizer === "string" ? tokenizer : null;
  model.exactness = typeof exactness === "string" ? exactness : null;
  if (isObject(prefix)) {
    model.notes.push(`Reusable prefix: ${prefix.messages} of ${prefix.of_messages} messages, ${prefix.tokens} of ${prefix.of_tokens} tokens.`);
  }
  for (const repair of Array.isArray(repairs) ? repairs.slice(0, 20) : []) {
    model.notes.push(`Message ${repair?.message}: ${repair?.problem}`);
  }
  return model;
}

/** The report of one request of a session: the blocks that were cut. */
function cutsModel(file) {
  const { cuts, tokens, tokenizer, exactness, repairs } = file.value;
  const model = blank(file, "chat");
  check(cuts, "list", "cuts").forEach((cut, index) => {
    check(cut, "object", `cuts[${index}]`);
    const isIn = cut.form !== "omitted";
    model.items.push(
      listed(index, { id: `message ${cut.message}, part ${cut.part}`, tokens: cut.tokens_before, kind: "Cut block" }, {
        isIn,
        form: isIn ? String(cut.form) : null,
        sentTokens: Number.isFinite(cut.tokens_after) ? cut.tokens_after : null,
        reason: words2(cut.reason),
        why: `recall ${cut.id}`,
      }),
    );
    if (isIn) model.order.push(index);
  });
  const cut = model.items.reduce((sum, item) => sum + (item.isIn ? (item.sentTokens ?? 0) : 0), 0);
  const total = Number.isFinite(tokens) ? tokens : cut;
  model.window = { window: total, fixed: total - cut, items: cut, slack: 0 };
  model.tokenizer = typeof tokenizer === "string" ? tokenizer : null;
  model.exactness = typeof exactness === "string" ? exactness : null;
  model.notes.push("This report lists the blocks that were cut. “Fixed” are all other blocks of the request. “pannier inspect session” shows every turn.");
  for (const repair of Array.isArray(repairs) ? repairs.slice(0, 20) : []) {
    model.notes.push(`Message ${repair?.message}: ${repair?.problem}`);
  }
  return model;
}

const words2 = (name) => String(name ?? "Unknown").split("-").map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");

function contextModel(file) {
  const context = file.value;
  const model = blank(file, "context");
  const chunks = check(context.chunks, "list", "chunks");
  const omitted = Array.isArray(context.omitted) ? context.omitted : [];
  const add = (chunk, path, isIn) => {
    check(chunk, "object", path);
    const metadata = isObject(chunk.metadata) ? chunk.metadata : {};
    const details = [];
    for (const retriever of ["lexical", "semantic", "reranker"]) {
      const found = chunk[retriever];
      if (isObject(found)) details.push([words(retriever), `rank ${found.rank}${Number.isFinite(found.score) ? `, score ${found.score.toFixed(4)}` : ""}`]);
      else if (Number.isFinite(found)) details.push([words(retriever), `rank ${found}`]);
    }
    if (typeof metadata.context === "string") details.push(["Headings", metadata.context]);
    details.push(["Bytes", `${chunk.start}–${chunk.end}`]);
    model.items.push(
      listed(model.items.length, { id: chunk.document_path, content: chunk.text, tokens: chunk.tokens, kind: "Document" }, {
        isIn,
        document: typeof chunk.document_path === "string" ? chunk.document_path : null,
        form: isIn ? (context.truncated === true && chunks.length === 1 ? "shortened" : "whole") : null,
        score: Number.isFinite(chunk.score) ? chunk.score : null,
        reason: isIn ? "Scored" : String(chunk.reason ?? "Unknown"),
        why: isIn ? null : reasonText(chunk),
        terms: Array.isArray(metadata.terms) ? metadata.terms.filter(isObject).map(({ term }) => String(term)) : [],
        chunk: chunk.chunk_id,
        original: chunk.duplicate_of ?? null,
        details,
      }),
    );
  };
  chunks.forEach((chunk, index) => add(chunk, `chunks[${index}]`, true));
  omitted.forEach((chunk, index) => add(chunk, `omitted[${index}]`, false));
  const byChunk = new Map(model.items.map((item) => [item.chunk, item.index]));
  for (const item of model.items) {
    if (item.original !== null && byChunk.has(item.original)) item.duplicateOf = byChunk.get(item.original);
    delete item.original;
  }
  model.order = chunks.map((_, index) => index);
  const window = check(context.available_tokens, "number", "available_tokens");
  const items = Number.isFinite(context.total_tokens) ? context.total_tokens : 0;
  const framing = Number.isFinite(context.overhead_tokens) ? context.overhead_tokens : 0;
  model.window = { window, framing, items, slack: window - items - framing };
  model.text = typeof context.text === "string" ? context.text : null;
  return model;
}

function passagesModel(file) {
  const model = blank(file, "context");
  const passages = check(file.value.passages, "list", "passages");
  const omitted = Array.isArray(file.value.omitted) ? file.value.omitted : [];
  const add = (passage, path, isIn) => {
    check(passage, "object", path);
    const details = [["Bytes", `${passage.start}–${passage.end}`]];
    if (Array.isArray(passage.lines)) details.unshift(["Lines", passage.lines.map((range) => [range].flat().join("–")).join(", ")]);
    if (typeof passage.headings === "string") details.push(["Headings", passage.headings]);
    model.items.push(
      listed(model.items.length, { id: passage.path, content: passage.text, tokens: passage.tokens, kind: "Document" }, {
        isIn,
        document: typeof passage.path === "string" ? passage.path : null,
        form: isIn ? (passage.truncated === true ? "shortened" : "whole") : null,
        score: Number.isFinite(passage.score) ? passage.score : null,
        reason: isIn ? "Scored" : String(passage.reason ?? "Unknown"),
        why: isIn ? null : "",
        terms: Array.isArray(passage.terms) ? passage.terms.map(String) : [],
        details,
      }),
    );
  };
  passages.forEach((passage, index) => add(passage, `passages[${index}]`, true));
  omitted.forEach((passage, index) => add(passage, `omitted[${index}]`, false));
  finishAnswer(model, passages.length, file.value);
  return model;
}

function documentsModel(file) {
  const model = blank(file, "context");
  const documents = check(file.value.documents, "list", "documents");
  const omitted = Array.isArray(file.value.omitted) ? file.value.omitted : [];
  const add = (document, path, isIn) => {
    check(document, "object", path);
    const name = document.path ?? document.id;
    const terms = isObject(document.why) && Array.isArray(document.why.query_terms) ? document.why.query_terms.map(String) : [];
    model.items.push(
      listed(model.items.length, { id: name, content: document.content, tokens: document.tokens, kind: "Document" }, {
        isIn,
        document: typeof name === "string" ? name : null,
        form: isIn ? "whole" : null,
        score: Number.isFinite(document.score) ? document.score : null,
        reason: isIn ? "Scored" : String(document.reason ?? "Unknown"),
        why: isIn ? null : "",
        terms,
      }),
    );
  };
  documents.forEach((document, index) => add(document, `documents[${index}]`, true));
  omitted.forEach((document, index) => add(document, `omitted[${index}]`, false));
  const { selection } = file.value;
  if (isObject(selection) && typeof selection.query === "string") model.query = selection.query;
  finishAnswer(model, documents.length, isObject(selection) ? { tokens: selection.tokens_used, window: selection.budget } : file.value);
  return model;
}

/** An answer without a budget: the window is what was sent. */
function finishAnswer(model, sent, { tokens, more, window }) {
  model.order = Array.from({ length: sent }, (_, index) => index);
  const items = model.items.reduce((sum, item) => sum + (item.isIn ? (item.tokens ?? 0) : 0), 0);
  const total = Number.isFinite(tokens) ? tokens : items;
  const size = Number.isFinite(window) ? window : total;
  model.window = { window: size, items, framing: total - items, slack: size - total };
  if (!Number.isFinite(window)) model.notes.push("This answer does not name its budget, so the bar ends with what was sent.");
  if (Number.isFinite(more) && more > 0) model.notes.push(`${more} more were found, which the answer does not list.`);
  model.text = model.items.filter(({ isIn, content }) => isIn && content !== null).map(({ content }) => content).join("\n\n");
}

function selectionModel(file) {
  const model = blank(file, "selection");
  const totals = check(file.value.totals, "object", "totals");
  check(file.value.items, "list", "items").forEach((item, index) => {
    check(item, "object", `items[${index}]`);
    const isShort = Number.isFinite(item.originalTokens);
    model.items.push(
      listed(index, item, { isIn: true, form: isShort ? "shortened" : "whole", reason: item.pinned === true ? "Pinned" : "Selected" }),
    );
  });
  model.order = model.items.map(({ index }) => index);
  const sent = model.items.reduce((sum, { tokens }) => sum + (tokens ?? 0), 0);
  model.window = isObject(totals.ledger) ? totals.ledger : ledgerOf(isObject(totals.budget) ? totals.budget : { maxTokens: sent }, sent);
  const out = Number.isFinite(totals.candidates) ? totals.candidates - model.items.length : 0;
  if (out > 0) model.notes.push(`${out} of ${totals.candidates} items are out. A selection does not list them: write a receipt or a report.`);
  model.text = model.items.map(({ content }) => content ?? "").join("\n\n");
  return model;
}

/** The answer to a request that packed these items: the selection, and the items that it left out. */
export function packedModel(name, text, pool) {
  const model = selectionModel({ name, value: JSON.parse(text) });
  const positions = new Map();
  const key = (item, content) => JSON.stringify([item.id ?? null, content]);
  for (const [index, item] of pool.entries()) {
    for (const name of new Set([key(item, item.content), key(item, null)])) {
      if (!positions.has(name)) positions.set(name, []);
      positions.get(name).push(index);
    }
  }
  const items = pool.map((item, index) => listed(index, item, { reason: "Out", why: "The answer has no reasons. Select the item to ask for it." }));
  const taken = new Set();
  // A shortened item has another content.
  const find = (item) => [...(positions.get(key(item, item.content)) ?? []), ...(item.id === null ? [] : (positions.get(key(item, null)) ?? []))].find((index) => !taken.has(index));
  const order = [];
  for (const item of model.items) {
    const index = find(item);
    if (index === undefined) return model;
    taken.add(index);
    order.push(index);
    const isShort = item.form !== "whole";
    Object.assign(items[index], { isIn: true, form: item.form, reason: item.reason, why: null, tokens: isShort ? items[index].tokens : item.tokens, sentTokens: isShort ? item.tokens : null });
  }
  return { ...model, items, order, notes: [] };
}

/** Reads the items of a file. */
export function readItems(name, text) {
  const { form, value } = detect({ name, text });
  if (form !== "items") throw new FileError(`${name} does not have items: an item is an object with a text "content".`);
  return value;
}

/** A packet of a project's memory. Its entries have no counts of their own. */
function packetModel(file) {
  const packet = file.value;
  const model = blank(file, "packet");
  const sections = ["constitution", "tasks", "conventions", "decisions", "learnings"];
  const own = new Set(["budget", "tokens_used", "read_order", "instruction", "summaries"]);
  const others = Object.keys(packet).filter((key) => !own.has(key) && !sections.includes(key) && Array.isArray(packet[key]));
  const texts = [];
  const add = (kind, content, decision) => {
    model.items.push(listed(model.items.length, { content, kind, tokens: null }, { isIn: true, form: "whole", reason: "Selected", ...decision }));
    texts.push(content);
  };
  for (const section of [...sections, ...others]) {
    for (const entry of Array.isArray(packet[section]) ? packet[section] : []) {
      add(words(section), typeof entry === "string" ? entry : JSON.stringify(entry), {});
    }
  }
  for (const entry of Array.isArray(packet.summaries) ? packet.summaries : []) {
    if (!isObject(entry)) {
      model.notes.push(String(entry));
      continue;
    }
    const text = [entry.title, entry.excerpt].filter((part) => typeof part === "string").join("\n");
    add("Summaries", text, { id: typeof entry.id === "string" ? entry.id : null, form: "title", reason: "Shortened" });
  }
  model.order = model.items.map(({ index }) => index);
  const window = check(packet.budget, "number", "budget");
  const used = check(packet.tokens_used, "number", "tokens_used");
  const bytes = texts.reduce((sum, text) => sum + text.length, 0) || 1;
  // Only the whole is counted. Shares by length divide it.
  let left = used;
  model.items.forEach((item, index) => {
    item.tokens = index + 1 === model.items.length ? left : Math.round((used * texts[index].length) / bytes);
    left -= item.tokens;
  });
  model.window = { window, items: used, slack: window - used };
  model.notes.push("A packet counts its text as a whole. The tokens of its entries are shares by length.");
  model.text = texts.join("\n\n");
  return model;
}

function readSession(value) {
  const blocks = check(value.blocks, "list", "blocks");
  const turns = check(value.turns, "list", "turns");
  for (const [index, block] of blocks.entries()) {
    check(block, "object", `blocks[${index}]`);
    check(block.tokens, "number", `blocks[${index}].tokens`);
  }
  for (const [index, turn] of turns.entries()) {
    check(turn, "object", `turns[${index}]`);
    for (const key of ["blocks", "tokens", "history", "read", "written", "dropped", "price"]) check(turn[key], "number", `turns[${index}].${key}`);
    if (turn.blocks < 0 || turn.blocks > blocks.length) throw new FileError(`turns[${index}].blocks is out of range.`);
    for (const [position, change] of check(turn.changes, "list", `turns[${index}].changes`).entries()) {
      check(change, "object", `turns[${index}].changes[${position}]`);
      if (!Number.isInteger(change.block) || !(change.block in blocks)) {
        throw new FileError(`turns[${index}].changes[${position}].block is out of range.`);
      }
    }
  }
  if (turns.length === 0) throw new FileError("The session has no turns.");
  return { ...value, blocks, turns };
}

/** Returns items with a decision of the engine. */
export function decide(items, decided) {
  const next = items.map((item) => ({ ...item }));
  applyDecision(next, decided);
  return next;
}

/** Applies a decision of the engine, and links duplicates. */
export function applyDecision(next, decided) {
  for (const item of next) {
    item.isIn = false;
    item.form = item.sentTokens = item.duplicateOf = null;
    item.score = decided.scores[item.index];
    item.tokens = decided.tokens[item.index];
  }
  decided.order.forEach((index, position) => {
    const item = next[index];
    item.isIn = true;
    item.form = "whole";
    item.reason = decided.reasons[position];
    item.why = "";
  });
  for (const [index, tokens, form] of decided.shortened) Object.assign(next[index], { form, sentTokens: tokens });
  decided.excluded.forEach((index, position) => {
    [next[index].reason, next[index].why] = decided.why[position];
  });
  for (const [index, kept] of decided.duplicates) next[index].duplicateOf = kept;
}
