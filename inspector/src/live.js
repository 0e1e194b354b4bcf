// The live page: asks the server that it is from. A page in a file has no server, and its policy allows no connection.
//
// The token is in the field that it was typed into, and in no other place. Answers are shown like files.

import { count, counted, el, oneLine, visible } from "./format.js";

const MAX_RUNS = 20;
const REFRESH_MILLISECONDS = 2000;
// The start of a response follows the last block, so the next request does not begin with it.
const PRIMING_TOKENS = 3;

export class LiveError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Sends a request to the server of this page, and returns the text of its answer. */
async function send(path, token, body) {
  const headers = { Accept: "application/json" };
  if (token !== "") headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
  } catch (error) {
    // A token with other characters cannot be a header.
    throw new LiveError(/header|ISO-8859-1|ByteString/i.test(String(error?.message)) ? "The token has characters that no token has." : "The server cannot be reached. Is it still running?", 0);
  }
  const text = await response.text();
  if (response.ok) return text;
  if (response.status === 401) throw new LiveError(token === "" ? "The server needs a token: paste one above." : "The server does not know this token.", 401);
  let problem = null;
  try {
    problem = JSON.parse(text)?.error;
  } catch {
    // Something else answered.
  }
  const message = typeof problem?.message === "string" ? problem.message : `The server answered with the status ${response.status}.`;
  throw new LiveError(typeof problem?.hint === "string" ? `${message}; ${problem.hint}` : message, response.status);
}

/** A field with its label. */
function field(id, label, input, note) {
  input.id = id;
  if (note) input.setAttribute("aria-describedby", `${id}-note`);
  return el("div", { class: "field" }, el("label", { for: id }, label), input, note ? el("p", { class: "muted note", id: `${id}-note` }, note) : null);
}

function tokenField() {
  return el("input", { type: "password", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
}

function checked(options) {
  if (typeof options === "object" && options !== null && !Array.isArray(options)) return options;
  throw new LiveError('The options are not a JSON object, such as {"index": "handbook"}.', 0);
}

const TOKEN_NOTE = "Only for servers with tokens. It stays in the memory of this page: a reload forgets it.";

const OPERATIONS = {
  search: { label: "Search", query: "required", note: "Passages of an index that answer a query." },
  read: { label: "Read", query: "required", note: "Whole documents that match a query." },
  memory: { label: "Memory", query: "optional", note: "A project's memory." },
  pack: { label: "Pack", query: "optional", note: "The best selection of items in a file." },
};

/** A form for requests to `pannier serve`, and the runs of this page. */
export class ServerView {
  constructor(root, { onAnswer, readItems }) {
    Object.assign(this, { root, onAnswer, readItems, operation: "search", runs: [], items: null });
    this.token = tokenField();
    this.query = el("input", { type: "text", autocomplete: "off" });
    this.budget = el("input", { type: "text", inputmode: "numeric", value: "2000", autocomplete: "off" });
    this.file = el("input", { type: "file" });
    this.options = el("textarea", { rows: "3", spellcheck: "false", placeholder: '{"index": "handbook"}' });
    this.status = el("p", { class: "status", role: "status" });
    this.note = el("p", { class: "muted" });
    this.list = el("ol", { class: "runs" });
    this.recent = el("section", { hidden: true, "aria-label": "Runs of this page" }, el("h3", {}, "Runs of this page"), this.list, el("p", { class: "muted" }, "The server keeps no runs. This list is gone when the page is closed."));
    this.buttons = Object.entries(OPERATIONS).map(([name, { label }]) => el("button", { type: "button", "data-operation": name, onclick: () => this.#choose(name) }, label));
    this.queryField = field("live-query", "Query", this.query);
    this.fileField = field("live-items", "Items", this.file, "A JSON list of items, or a line for each.");
    const form = el(
      "form",
      { class: "live-form" },
      el("div", { class: "segmented", role: "group", "aria-label": "Request" }, this.buttons),
      this.note,
      this.queryField,
      this.fileField,
      field("live-budget", "Budget in tokens", this.budget),
      field("live-token", "Token", this.token, TOKEN_NOTE),
      el("details", {}, el("summary", {}, "Other options"), field("live-options", "Options as JSON", this.options, "As in /v1/openapi.json: an index, a project, a policy, a tokenizer and more.")),
      el("p", { class: "actions" }, el("button", { type: "submit", class: "button primary" }, "Send")),
      this.status,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#run();
    });
    root.replaceChildren(form, this.recent);
    this.#choose("search");
  }

  #choose(name) {
    this.operation = name;
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.operation === name));
    const { note, query } = OPERATIONS[name];
    this.note.textContent = note;
    this.query.required = query === "required";
    this.fileField.hidden = name !== "pack";
    this.status.textContent = "";
  }

  /** Reads the fields. */
  async #request() {
    const text = this.options.value.trim();
    // Entries, rather than their text.
    let request = this.operation === "memory" ? { format: "json" } : {};
    if (text !== "") {
      try {
        request = { ...request, ...checked(JSON.parse(text)) };
      } catch (error) {
        throw error instanceof LiveError ? error : new LiveError(`The options are not JSON: ${error.message}`, 0);
      }
    }
    const budget = this.budget.value.trim().replaceAll(/[ ,_]/g, "");
    if (budget !== "") {
      if (!/^[0-9]{1,15}$/.test(budget)) throw new LiveError("The budget is not a number of tokens, such as 2000.", 0);
      request.budget = Number(budget);
    }
    if (this.query.value.trim() !== "") request.query = this.query.value;
    else if (this.query.required && !("paths" in request)) throw new LiveError("Write a query.", 0);
    if (this.operation === "pack") {
      const [file] = this.file.files;
      if (file === undefined) throw new LiveError("Choose a file with items.", 0);
      request.items = this.readItems(file.name, await file.text());
    }
    return request;
  }

  async #run() {
    const { operation } = this;
    this.status.className = "status";
    this.status.textContent = "The server works …";
    try {
      const request = await this.#request();
      const started = performance.now();
      const text = await send(`/v1/${operation}`, this.token.value, request);
      const milliseconds = performance.now() - started;
      const { query, items } = request;
      const name = `${operation}${query ? `: ${query}` : ""}`;
      const { answer, warnings = [] } = JSON.parse(text);
      const run = { name, text: JSON.stringify(answer), warnings, items: items ?? null, request, milliseconds };
      this.runs.unshift(run);
      this.runs.length = Math.min(this.runs.length, MAX_RUNS);
      this.#show();
      this.status.textContent = `Answered in ${count(Math.round(milliseconds))} ms.`;
      await this.onAnswer(run);
    } catch (error) {
      this.status.className = "status problem";
      this.status.textContent = visible(String(error?.message ?? error), 500);
      if (error?.status === 401) this.token.focus();
    }
  }

  #show() {
    this.recent.hidden = false;
    this.list.replaceChildren(
      ...this.runs.map((run) =>
        el("li", {}, el("button", { type: "button", class: "link", onclick: () => void this.onAnswer(run) }, oneLine(run.name, 80)), el("span", { class: "muted" }, ` budget ${count(run.request.budget ?? 0)}`)),
      ),
    );
  }

  /** Explains an item of a packed run. */
  async explain({ request }, item) {
    const { answer } = JSON.parse(await send("/v1/explain", this.token.value, { ...request, explain: [item] }));
    return answer.explanations[0];
  }
}

/** The running sessions of a gateway. */
export class GatewayView {
  constructor(root, { onSession }) {
    Object.assign(this, { root, onSession, isConnected: false, chosen: null, turns: -1, timer: null, receipts: new Map() });
    this.token = tokenField();
    this.status = el("p", { class: "status", role: "status" });
    this.table = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Sessions", hidden: true });
    const form = el(
      "form",
      { class: "live-form" },
      field("live-token", "Token", this.token, "A token of --inspect-token-file. It stays in the memory of this page: a reload forgets it."),
      el("p", { class: "actions" }, el("button", { type: "submit", class: "button primary" }, "Show the sessions")),
      this.status,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.refresh();
    });
    root.replaceChildren(form, this.table);
    document.addEventListener("visibilitychange", () => !document.hidden && this.isConnected && void this.refresh());
  }

  /** Asks for the sessions, or for the one that is shown. It asks again while the page is visible. */
  async refresh() {
    clearTimeout(this.timer);
    try {
      if (this.chosen === null) {
        const { sessions } = JSON.parse(await send("/v1/sessions", this.token.value));
        this.#show(sessions);
      } else {
        await this.open(this.chosen);
      }
      this.isConnected = true;
      this.status.className = "status";
    } catch (error) {
      this.status.className = "status problem";
      this.status.textContent = visible(String(error?.message ?? error), 500);
      this.isConnected &&= error?.status === 0;
      if (error?.status === 401) this.token.focus();
      if (error?.status === 404) this.chosen = null;
    }
    if (this.isConnected && !document.hidden) this.timer = setTimeout(() => void this.refresh(), REFRESH_MILLISECONDS);
  }

  #show(sessions) {
    this.table.hidden = sessions.length === 0;
    this.status.textContent = sessions.length === 0 ? "The gateway has no sessions yet. Send a request through it." : `${counted(sessions.length, "session")}, the last one first.`;
    const focused = document.activeElement?.dataset?.session;
    const rows = sessions.map(({ id, protocol, model, requests, last }) =>
      el(
        "tr",
        {},
        el("td", {}, el("button", { type: "button", class: "link", "data-session": id, onclick: () => this.#choose(id) }, oneLine(id, 20))),
        el("td", {}, oneLine(`${protocol} ${model}`, 60)),
        el("td", { class: "number" }, count(requests)),
        el("td", { class: "number" }, count(last?.tokens_in ?? null)),
        el("td", { class: "number" }, count(last?.tokens_sent ?? null)),
        el("td", { class: "number" }, count(last?.tokens_prefix ?? null)),
        el("td", {}, last ? new Date(last.at).toLocaleTimeString() : ""),
      ),
    );
    const heads = ["Session", "Protocol and model", "Requests", "Tokens in", "Sent", "Prefix", "Last request"];
    this.table.replaceChildren(el("table", { class: "blocks" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows)));
    if (focused) [...this.table.querySelectorAll("button")].find((button) => button.dataset.session === focused)?.focus();
  }

  #choose(id) {
    Object.assign(this, { chosen: id, turns: -1 });
    void this.refresh();
  }

  /** Shows the list again. */
  leave() {
    this.chosen = null;
    if (this.isConnected) void this.refresh();
  }

  async open(id) {
    const detail = JSON.parse(await send(`/v1/sessions/${encodeURIComponent(id)}`, this.token.value));
    const version = detail.session.requests;
    if (version === this.turns || this.chosen !== id) return;
    this.turns = version;
    await this.onSession(id, gatewaySession(detail), (turn) => this.#cuts(turn.receipt));
  }

  /** The cuts of a request that the one before it did not have. */
  async #cuts(name) {
    if (!this.receipts.has(name)) {
      if (this.receipts.size > 256) this.receipts.clear();
      this.receipts.set(name, JSON.parse(await send(`/v1/receipts/${encodeURIComponent(name)}`, this.token.value)).new_cuts);
    }
    return this.receipts.get(name);
  }
}

/** The requests of a gateway's session as turns. The gateway keeps no contents, so there are no blocks. */
export function gatewaySession({ session, budget, policy, prices, turns }) {
  const shown = turns.map((turn, index) => {
    const { tokens_in, tokens_sent, tokens_prefix } = turn;
    const before = index > 0 ? Math.max(0, turns[index - 1].tokens_sent - PRIMING_TOKENS) : 0;
    const written = tokens_sent - tokens_prefix;
    const why = turn.cuts > 0 ? "Blocks were cut" : "The request begins with something else";
    return {
      tokens: tokens_sent,
      history: tokens_in,
      read: tokens_prefix,
      written,
      dropped: tokens_in - tokens_sent,
      price: prices.read * tokens_prefix + prices.write * written,
      break: tokens_prefix < before ? { why, rewritten: Math.min(before - tokens_prefix, written) } : undefined,
      blocks: 0,
      changes: [],
      receipt: turn.receipt,
      reported: turn.tokens_reported ?? null,
      cuts: turn.cuts,
      at: turn.at,
    };
  });
  return { turns: shown, blocks: null, budget, policy, prices, tokenizer: `the gateway, for ${session.model || session.protocol}` };
}
