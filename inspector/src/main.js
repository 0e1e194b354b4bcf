// The page: opens files, asks the engine, and connects the views.

import { count, counted, el, oneLine, percent, visible } from "./format.js";
import { FileError, applyDecision, decide, packedModel, policyQuery, readFiles, readItems } from "./model.js";
import { Engine } from "./engine.js";
import { COLORS, WindowView, divide, picture } from "./window.js";
import { ListView } from "./list.js";
import { whyView } from "./why.js";
import { Trial, WhatIfView } from "./whatif.js";
import { TextView } from "./text.js";
import { SessionView, sessionPicture } from "./session.js";
import { png, save, svgText } from "./export.js";
import { GatewayView, ServerView } from "./live.js";

const $ = (id) => document.getElementById(id);
const MAX_FILE_BYTES = 512 << 20;
const LARGE_DATA = 1 << 20;
const MAX_PRINTED_ROWS = 2000;
const MAX_SWEPT_ITEMS = 20_000;
const FORMS = {
  receipt: "Receipt", report: "Report", chat: "Chat", context: "Context", selection: "Selection", packet: "Packet", session: "Session", items: "Items",
};

let engine = null;
let engineReady = null;
// Whether the files are those that the page came with.
let isOwn = true;
let model = null;
let view = null;
// The view of the server that the page is from, if it is from one.
let live = null;

/** Starts the engine once, when a file needs it. */
function startEngine() {
  engineReady ??= (async () => {
    engine = new Engine();
    return await engine.start(isOwn);
  })();
  return engineReady;
}

/** Lets the engine read a pool, once. */
function openPool(pool) {
  pool.opened ??= startEngine().then(() => engine.open({ texts: pool.texts, receipt: pool.receipt }));
  // Whoever waits for it handles the error.
  pool.opened.catch(() => {});
  return pool.opened;
}

/** Gives each category a color, in the order of first use. */
function colorsOf() {
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, (known.size % COLORS) + 1);
    return known.get(name);
  };
}

function showProblem(text) {
  const box = $("problem");
  box.hidden = text === null;
  box.textContent = text === null ? "" : visible(text, 1000);
}

async function open(files) {
  await openModel(() => readFiles(files, openPool));
}

/** Shows the model that a function reads, or its error. */
async function openModel(read) {
  showProblem(null);
  try {
    await show(read());
  } catch (error) {
    if (!(error instanceof FileError) && error?.code === undefined) console.warn(error);
    const isDeep = error instanceof RangeError;
    showProblem(isDeep ? "The file is nested too deeply." : String(error?.message ?? error));
    document.body.dataset.ready = "problem";
  }
}

/** Shows a model. With a pool, the engine repeats the run first. */
async function show(next) {
  document.body.dataset.ready = "no";
  next.colors = colorsOf();
  for (const kind of new Set(next.items.map(({ kind }) => kind))) next.colors(kind);
  if (next.pool !== null) {
    const presets = await startEngine();
    if (typeof next.policy === "string") next.policy = presets.find(([name]) => name === next.policy)[1];
    try {
      await openPool(next.pool);
      apply(next, JSON.parse(await engine.ask("decide", { policy: next.policy, budget: next.budget })));
    } catch (error) {
      if (next.receipt === undefined) throw error;
      // Without the engine's answer, the receipt itself is shown.
      const plain = readFiles([{ name: next.name, text: next.receipt }]);
      Object.assign(plain, { colors: next.colors });
      plain.items = plain.items.map((item, index) => {
        const own = next.items[index];
        return own === undefined ? item : { ...own, isIn: item.isIn, form: item.form, reason: item.reason, why: null, kind: own.kind };
      });
      plain.notes = [`The engine cannot repeat this run: ${error.message}`];
      next = plain;
      next.pool = null;
    }
  }
  model = next;
  view = { selected: null, decided: null, isAsking: false, isWaiting: false, explained: 0 };
  view.items = model.items;
  view.order = model.order;
  view.window = model.window;
  header();
  for (const id of ["start", "live"]) $(id).hidden = true;
  $("home").hidden = live === null;
  $("app").hidden = false;
  const hasItems = model.session === null;
  setTabs({ selection: hasItems, text: hasItems && (model.pool !== null || model.text !== null), session: !hasItems });
  $("notes").replaceChildren(...model.notes.map((note) => el("p", {}, visible(note, 600))));
  if (!hasItems) {
    view.session = new SessionView($("session"), model.session, model.sessionOptions);
    document.body.dataset.ready = "yes";
    return;
  }
  buildSelection();
  try {
    await openTrial();
  } catch (error) {
    view.trial = null;
    $("whatif").replaceChildren(el("p", { class: "problem" }, `The engine cannot decide about these items: ${oneLine(error.message, 300)}`));
  }
  render();
  document.body.dataset.ready = "yes";
  if (model.pool !== null && model.receipt !== undefined) void verify(model);
}

/** Compares the run with its receipt. That takes as long as the decision, so the page is shown before. */
async function verify(own) {
  try {
    const facts = JSON.parse(await engine.ask("verify", {}));
    if (own === model) header(facts);
  } catch (error) {
    if (own === model) header({ identical: false, difference: error.message });
  }
}

function apply(target, decided) {
  applyDecision(target.items, decided);
  target.order = decided.order;
  target.window = decided.totals.ledger;
  target.exactness = decided.exactness;
}

function header(facts = null) {
  $("file").textContent = oneLine(model.name, 80);
  const badges = [[FORMS[model.form] ?? model.form, ""]];
  const policy = model.policy && (typeof model.policy.name === "string" ? model.policy.name : "policy of its own");
  if (policy) badges.push([`policy ${oneLine(policy, 30)}`, ""]);
  if (model.tokenizer && model.tokenizer !== "given") badges.push([`counted by ${oneLine(model.tokenizer, 30)}${model.exactness && model.exactness !== "exact" && model.exactness !== "given" ? ` (${oneLine(model.exactness, 20)})` : ""}`, ""]);
  if (facts?.identical === true) badges.push(["✓ replayed, identical", "good"]);
  if (facts?.identical === false) badges.push([`✗ ${oneLine(facts.difference, 120)}`, "bad"]);
  $("badges").replaceChildren(...badges.map(([text, style]) => el("li", { class: `badge ${style}` }, text)));
  document.title = `${oneLine(model.name, 60)} – Pannier inspector`;
}

function setTabs(available) {
  const first = Object.keys(available).find((name) => available[name]);
  for (const [name, isThere] of Object.entries(available)) $(`tab-${name}`).hidden = !isThere;
  $("tabs").hidden = Object.values(available).filter(Boolean).length < 2;
  selectTab(first, "view");
}

/** Selects a tab of a group: the views, or the panels next to the list. */
function selectTab(name, group, hasFocus = false) {
  for (const tab of document.querySelectorAll(`[role=tab][data-group=${group}]`)) {
    const isSelected = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(isSelected));
    tab.tabIndex = isSelected ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !isSelected;
    if (isSelected && hasFocus) tab.focus();
  }
  if (name === "text") showText();
  if (name === "whatif") sweepIfShown();
  if (name === "selection") view?.list?.rows.refresh();
}

for (const list of document.querySelectorAll("[role=tablist]")) {
  list.addEventListener("keydown", (event) => {
    const tabs = [...list.querySelectorAll("[role=tab]:not([hidden])")];
    const at = tabs.indexOf(document.activeElement);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined || !(next in tabs)) return;
    event.preventDefault();
    selectTab(tabs[next].id.slice(4), tabs[next].dataset.group, true);
  });
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) selectTab(tab.id.slice(4), tab.dataset.group);
  });
}

function buildSelection() {
  for (const id of ["window", "list", "why", "whatif", "textview"]) $(id).replaceChildren();
  view.list = new ListView($("list"), { onSelect: (index) => selectItem(index), colors: (kind) => model.colors(kind) });
  view.bar = new WindowView($("window"), (part) => view.list.filterPart(part));
  view.list.onClearPart = () => view.bar.clear();
  view.textView = new TextView($("textview"), { onSelect: (index) => { selectTab("selection", "view"); view.list.select(index); }, colors: (kind) => model.colors(kind) });
  const hasDocuments = model.items.some(({ document }) => document !== null);
  $("by").hidden = !hasDocuments;
  $("by-kind").setAttribute("aria-pressed", "true");
  $("by-document").setAttribute("aria-pressed", "false");
  $("why").replaceChildren(el("p", { class: "muted" }, "Select an item to see why it is in or out, and what would change that."));
  selectTab("why", "panel");
}

for (const by of ["kind", "document"]) {
  $(`by-${by}`).addEventListener("click", () => {
    view.bar.by = by;
    view.bar.clear();
    view.list.filterPart(null);
    $("by-kind").setAttribute("aria-pressed", String(by === "kind"));
    $("by-document").setAttribute("aria-pressed", String(by === "document"));
    renderWindow();
  });
}

/** Prepares “What if”: from the recorded policy, or for a report from a preset. */
async function openTrial(preset = "chat") {
  view.trial = null;
  if (model.pool === null && model.trial === undefined) {
    $("whatif").replaceChildren(
      el("p", { class: "muted" }, model.form === "receipt" ? "The engine needs the items of this receipt. Open both files together." : "This file has not all that the engine needs to decide again: the whole pool and its policy. A receipt with its items has."),
    );
    return;
  }
  const presets = await startEngine();
  let presetName = null;
  let { policy } = model;
  if (model.pool === null) {
    await engine.open(model.trial);
    policy = presets.find(([name]) => name === preset)[1];
    presetName = preset;
  } else if (model.form === "items") {
    presetName = preset;
  }
  view.trial = new Trial(model.budget, policy);
  const options = {
    presets,
    onChange: (change = {}) => ask(change),
    onSelect: (index) => view.list.select(index),
    onPreset: (name) => changePreset(name, presets),
  };
  view.whatif = new WhatIfView($("whatif"), options);
  const total = model.items.reduce((sum, { tokens }) => sum + Math.max(0, tokens ?? 0), 0);
  const reserve = model.budget.outputReserve ?? 0;
  const slots = Object.values(model.budget.reservedSlots ?? {}).reduce((sum, tokens) => sum + tokens, 0);
  const max = Math.max(total + reserve + slots, model.budget.maxTokens, 1);
  view.whatif.open(view.trial, max, model.items, presetName);
  if (model.pool === null) view.whatif.summary.textContent = "A report has no policy: choose one to decide again.";
  view.needsSweep = true;
}

async function changePreset(name, presets) {
  view.trial.setPolicy(presets.find(([preset]) => preset === name)[1]);
  const budget = view.trial.budget.maxTokens;
  view.whatif.open(view.trial, view.whatif.max, model.items, name);
  view.whatif.setBudget(budget);
  document.getElementById("preset").focus();
  view.needsSweep = true;
  sweepIfShown();
}

let sweeping = 0;

/** Sweeps all budgets, for the marks of the slider. */
async function sweep() {
  const own = ++sweeping;
  const { trial, whatif } = view;
  if (model.items.length > MAX_SWEPT_ITEMS) {
    whatif.showSweepProblem(`A sweep of more than ${count(MAX_SWEPT_ITEMS)} items takes too long here. The engine still decides exactly at each budget.`);
    return;
  }
  try {
    const base = { ...trial.original.budget, maxTokens: whatif.max, targetTokens: Math.max(0, whatif.max - (trial.original.budget.outputReserve ?? 0)) };
    const answer = JSON.parse(await engine.ask("sweep", { ...trial.question, budget: base, max: whatif.max }));
    if (own === sweeping) whatif.showSweep(answer);
  } catch (error) {
    if (own === sweeping) whatif.showSweepProblem(error.message);
  }
}

/** Asks the engine to decide. While it does, only the last question waits. */
async function ask({ isPolicy = false } = {}) {
  view.needsSweep ||= isPolicy;
  if (view.isAsking) {
    view.isWaiting = true;
    return;
  }
  const own = view;
  own.isAsking = true;
  do {
    own.isWaiting = false;
    try {
      const started = performance.now();
      if (!own.trial.isChanged && model.pool === null) own.decided = null;
      else own.decided = JSON.parse(await engine.ask("decide", own.trial.question));
      own.error = undefined;
      own.milliseconds = performance.now() - started;
    } catch (error) {
      own.error = error.message;
      own.decided = null;
    }
  } while (own.isWaiting);
  own.isAsking = false;
  if (own !== view) return;
  document.body.dataset.decided = String(own.trial.budget.maxTokens);
  render();
  if (own.selected !== null) explain(own.selected);
  sweepIfShown();
}

/** A sweep takes the engine longer than any other question, so it waits until its panel is open. */
function sweepIfShown() {
  if (!view?.trial || !view.needsSweep || $("panel-whatif").hidden) return;
  view.needsSweep = false;
  void sweep();
}

/** Shows the decision: the recorded one, or the one that is tried. */
function render() {
  const { trial, decided } = view;
  const isTried = trial?.isChanged && decided !== null;
  const changes = new Map();
  if (isTried) {
    const tried = decide(model.items, decided);
    for (const [index, item] of tried.entries()) {
      if (item.isIn !== model.items[index].isIn) changes.set(index, item.isIn ? "in" : "out");
    }
    Object.assign(view, { items: tried, order: decided.order, window: decided.totals.ledger });
  } else {
    Object.assign(view, { items: model.items, order: model.order, window: model.window });
  }
  const came = [...changes.values()].filter((change) => change === "in").length;
  if (trial !== null) {
    const result = view.error !== undefined ? { error: view.error } : isTried ? { came, went: changes.size - came, selected: view.order.length, tokens: sent() } : null;
    view.whatif.showResult(result);
  }
  document.body.classList.toggle("tried", Boolean(isTried));
  view.list.show(view.items, view.order, changes);
  renderWindow();
  if (!$("panel-view-text").hidden) showText();
}

function sent() {
  const { window, output_reserve = 0, slots = 0, margin = 0, slack = 0 } = view.window;
  return window - output_reserve - slots - margin - slack;
}

function renderWindow() {
  const shown = { window: view.window, colors: model.colors };
  const recorded = divide({ window: model.window, colors: model.colors }, model.items, view.bar.by);
  const isTried = view.items !== model.items;
  // Both bars have one order.
  const division = isTried ? divide(shown, view.items, view.bar.by, recorded.names) : recorded;
  const before = isTried ? recorded : null;
  const tokens = sent();
  const { window, output_reserve = 0 } = view.window;
  const target = window - output_reserve;
  const summary = `${counted(tokens, "token")} of ${count(target)} (${percent(tokens, target)}), ${counted(view.order.length, "item")} of ${count(view.items.length)} in${isTried ? " – what if; the thin bar is the recorded run" : ""}`;
  view.division = division;
  view.summary = summary;
  view.bar.show(division, summary, before);
}

function selectItem(index) {
  view.selected = index;
  view.textView.selected = index;
  if ($("panel-why").hidden && !document.activeElement?.closest?.("#panel-whatif")) selectTab("why", "panel");
  explain(index);
}

async function explain(index) {
  const own = ++view.explained;
  const canPin = view.trial !== null;
  const item = () => view.items[index];
  const draw = (explanation, error = null) =>
    $("why").replaceChildren(
      whyView({
        item: item(),
        explanation,
        error,
        items: view.items,
        onSelect: (other) => view.list.select(other),
        onBudget: (tokens) => { selectTab("whatif", "panel"); view.whatif.setBudget(tokens); },
        onPin: (pinned) => view.whatif.togglePin(model.items[pinned]),
        isPinned: canPin && view.trial.isPinned(model.items[index]),
        canPin,
      }),
    );
  const hasEngine = view.trial !== null && (model.pool !== null || view.trial.isChanged);
  const { explainBy } = model;
  if (!hasEngine && explainBy === undefined) return draw(undefined);
  // A quick answer replaces the panel at once, without a flicker.
  const timer = setTimeout(() => own === view.explained && draw(null), 120);
  try {
    const explanation = hasEngine ? JSON.parse(await engine.ask("explain", { ...view.trial.question, index }))[0] : await explainBy(item());
    if (own === view.explained) draw(explanation);
  } catch (error) {
    if (own === view.explained) draw(undefined, error.message);
  } finally {
    clearTimeout(timer);
  }
}

async function showText() {
  const own = view;
  const hasEngine = model.pool !== null || own.items !== model.items;
  let text = model.text ?? "";
  try {
    if (hasEngine) text = JSON.parse(await engine.ask("text", own.trial.question));
  } catch (error) {
    text = "";
    showProblem(error.message);
  }
  const query = policyQuery(own.trial?.policy) ?? model.query;
  let terms = [];
  if (query !== null && text !== "") {
    await startEngine();
    terms = await engine.match(query, text);
  } else {
    terms = [...new Set(own.items.flatMap(({ terms }) => terms))];
  }
  if (own === view) own.textView.show(text, own.items, own.order, terms, own.selected);
}

const base = () => oneLine(model.name, 60).replace(/\.[a-z0-9]+$/i, "").replace(/[^\p{L}\p{N}._-]+/gu, "-") || "selection";

const EXPORTS = {
  receipt: ["Receipt (JSON)", () => view?.trial && (model.pool !== null || view.trial.isChanged), async () => save(`${base()}.receipt.json`, await engine.ask("receipt", view.trial.question))],
  selection: ["Selection (JSON)", () => view?.trial && (model.pool !== null || view.trial.isChanged), async () => save(`${base()}.selection.json`, await engine.ask("selection", view.trial.question))],
  policy: ["Policy file (JSON)", () => view?.trial, async () => save(`${base()}.policy.json`, `${JSON.stringify(view.trial.effectivePolicy, null, 2)}\n`)],
  svg: ["Picture (SVG)", () => model !== null, async () => save(`${base()}.svg`, svgText(currentPicture()), "image/svg+xml")],
  png: ["Picture (PNG)", () => model !== null, async () => save(`${base()}.png`, await png(currentPicture()))],
  print: ["Print …", () => model !== null, async () => window.print()],
};

function currentPicture() {
  if (model.session !== null) return sessionPicture(model.session, model.name);
  return picture(view.division, model.name, view.summary);
}

$("export").addEventListener("toggle", () => {
  if (!$("export").open) return;
  $("export-list").replaceChildren(
    ...Object.entries(EXPORTS).map(([name, [label, isThere, run]]) => {
      const isEnabled = Boolean(isThere());
      return el(
        "li",
        {},
        el(
          "button",
          {
            type: "button",
            "data-export": name,
            disabled: !isEnabled,
            onclick: () => {
              $("export").open = false;
              run().catch((error) => showProblem(`The export failed: ${error.message}`));
              $("export").querySelector("summary").focus();
            },
          },
          label,
        ),
      );
    }),
  );
});
document.addEventListener("click", (event) => {
  if (!$("export").contains(event.target)) $("export").open = false;
});
$("export").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  $("export").open = false;
  $("export").querySelector("summary").focus();
});

async function openFileList(list) {
  const files = [...list];
  if (files.length === 0) return;
  if (isOwn) {
    engine?.stop();
    [engine, engineReady, isOwn] = [null, null, false];
  }
  const large = files.find(({ size }) => size > MAX_FILE_BYTES);
  if (large) return showProblem(`${large.name} has ${count(large.size)} bytes, more than this page opens.`);
  await open(await Promise.all(files.map(async (file) => ({ name: file.name, text: await file.text() }))));
}

for (const input of document.querySelectorAll("input[type=file]")) {
  input.addEventListener("change", async () => {
    await openFileList(input.files);
    input.value = "";
  });
}
for (const type of ["dragover", "drop"]) {
  document.addEventListener(type, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", type === "dragover");
    if (type === "drop") void openFileList(event.dataTransfer.files);
  });
}
document.addEventListener("dragleave", (event) => event.relatedTarget === null && document.body.classList.remove("dropping"));

const THEMES = ["auto", "light", "dark"];
$("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  document.documentElement.dataset.theme = next;
  $("theme").textContent = `Theme: ${next}`;
});

window.addEventListener("beforeprint", () => view?.list?.rows.expand(MAX_PRINTED_ROWS));
window.addEventListener("afterprint", () => view?.list?.rows.refresh());
window.addEventListener("resize", () => {
  if (view?.list) {
    view.list.rows.measure();
    view.list.rows.refresh();
  }
});

// Measurements of the tests and the benchmark.
document.body.dataset.ready = "start";
Object.defineProperty(window, "inspector", { value: { get milliseconds() { return view?.milliseconds; }, open } });

/** Shows the answer to a request. */
async function showAnswer(run) {
  await openModel(() => {
    const answer = run.items === null ? readFiles([{ name: run.name, text: run.text }]) : packedModel(run.name, run.text, run.items);
    if (run.request.query) answer.query ??= run.request.query;
    if (Number.isFinite(run.request.budget) && answer.window !== null && answer.window.slack === 0 && answer.window.window < run.request.budget) {
      answer.window = { ...answer.window, window: run.request.budget, slack: run.request.budget - answer.window.window };
      answer.notes = answer.notes.filter((note) => !note.startsWith("This answer does not name its budget"));
    }
    answer.notes.push(...run.warnings.map((warning) => String(warning)));
    if (run.items !== null) {
      answer.explainBy = async (item) => {
        if (item.id === null) throw new FileError("The server explains items that have an id.");
        return await live.explain(run, item.id);
      };
    }
    return answer;
  });
}

/** Shows a session of the gateway; if it is shown already, at the turn that was chosen. */
async function showSession(id, session, cutsOf) {
  const isSame = model?.sessionId === id && !$("app").hidden;
  const last = isSame ? view.session.session.turns.length - 1 : -1;
  const turn = isSame && view.session.turn !== last ? view.session.turn : undefined;
  const hasFocus = $("session").contains(document.activeElement);
  const blank = { name: `session ${id}`, form: "session", items: [], order: [], window: null, text: null, query: null, pool: null, notes: [] };
  await openModel(() => ({ ...blank, session, sessionId: id, sessionOptions: { turn, cutsOf } }));
  if (isSame && hasFocus) view.session.bars[view.session.turn].focus();
}

/** Prepares a page that is from a server. */
function startLive(kind) {
  const root = $("live-view");
  if (kind === "gateway") {
    $("live-title").textContent = "Running sessions";
    live = new GatewayView(root, { onSession: showSession });
    $("home").textContent = "All sessions";
  } else {
    $("live-title").textContent = "Ask this server";
    live = new ServerView(root, { onAnswer: showAnswer, readItems });
    $("home").textContent = "New request";
  }
  $("start-title").textContent = "Or open a file";
  $("promise").textContent = "The page has the engine inside. Files stay in it. It sends only the requests that you send, and only to this server.";
  $("live").hidden = false;
  document.body.classList.add("live");
}

$("home").addEventListener("click", () => {
  for (const id of ["app", "home"]) $(id).hidden = true;
  for (const id of ["start", "live"]) $(id).hidden = false;
  showProblem(null);
  $("file").textContent = "";
  $("badges").replaceChildren();
  document.title = "Pannier inspector";
  live.leave?.();
  $("live-view").querySelector("button, input")?.focus();
});

const data = $("data").textContent.trim();
if (data !== "") {
  // A large file is a run, whose engine can start while the page reads it.
  if (data.length > LARGE_DATA) void startEngine();
  const { files, live: kind } = JSON.parse(data);
  if (kind !== undefined) startLive(kind);
  if (files.length > 0) void open(files);
}
