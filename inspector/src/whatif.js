// What if: another budget, other weights, pins, another slicer or placer. The engine decides again.

import { count, counted, el, oneLine, svg } from "./format.js";

const SLICERS = ["greedy", "rank", "best", "knapsack"];
const PLACERS = ["chronological", "u-shaped", "rank", "document", "slice-order"];
const MAX_WEIGHT = 10;
const POLICY_KEYS = new Set([
  "name", "description", "scorers", "slicer", "placer", "layout", "deduplication", "near_duplicates", "floor", "forms", "keep_duplicates",
  "overflow_strategy", "keep_groups_together", "session",
]);

/** The state of the questions: a budget, a policy and pins, and what they were at first. */
export class Trial {
  constructor(budget, policy) {
    this.original = { budget, policy };
    this.reset();
  }

  reset() {
    this.budget = this.original.budget;
    this.setPolicy(this.original.policy);
    this.pins = {};
  }

  /** Starts from a policy, whose components keep their options. */
  setPolicy(policy) {
    this.basis = policy;
    this.policy = structuredClone(policy);
  }

  get isChanged() {
    const same = (one, two) => JSON.stringify(one) === JSON.stringify(two);
    return !same(this.budget, this.original.budget) || !same(this.policy, this.original.policy) || Object.keys(this.pins).length > 0;
  }

  get question() {
    return { budget: this.budget, policy: this.effectivePolicy, pins: this.pins };
  }

  /** A policy has no scorer of weight 0: such a one is left out. */
  get effectivePolicy() {
    const { scorers } = this.policy;
    if (!Array.isArray(scorers)) return this.policy;
    return { ...this.policy, scorers: scorers.filter(({ weight }) => weight !== 0) };
  }

  /** Another window: the target is all of it but the reserve, as for `--budget`. */
  setWindow(tokens) {
    const recorded = this.original.budget;
    const reserve = recorded.outputReserve ?? 0;
    const isRecorded = recorded.maxTokens === tokens;
    this.budget = isRecorded ? recorded : { ...recorded, maxTokens: tokens, targetTokens: Math.max(0, tokens - reserve) };
  }

  /** Pins or unpins an item; the second time, it is as in the pool. */
  pin(item) {
    const isPinned = this.isPinned(item);
    if (isPinned !== item.isPinned) delete this.pins[item.index];
    else this.pins[item.index] = !isPinned;
  }

  isPinned(item) {
    return this.pins[item.index] ?? item.isPinned;
  }
}

/** The budgets at which the selection changes, ascending, and the number of items at each. */
export function changes(sweep) {
  const steps = new Map();
  const add = (budget, number) => steps.set(budget, (steps.get(budget) ?? 0) + number);
  for (const ranges of sweep.selected) {
    for (const [from, to] of ranges) {
      add(from, 1);
      if (to < sweep.to) add(to + 1, -1);
    }
  }
  const budgets = [...steps.keys()].sort((a, b) => a - b);
  let items = 0;
  return budgets.map((budget) => ({ budget, items: (items += steps.get(budget)) }));
}

export class WhatIfView {
  constructor(root, { onChange, onSelect, onPreset, presets }) {
    Object.assign(this, { root, onChange, onSelect, onPreset, presets });
  }

  /** Builds the controls of a trial. `max` is the largest budget of the slider. */
  open(trial, max, items, presetName = null) {
    Object.assign(this, { trial, max, items, steps: null });
    const { budget } = trial;
    this.slider = el("input", { type: "range", id: "budget", min: "0", max, step: "1", value: budget.maxTokens, "aria-describedby": "sweep-note" });
    this.number = el("input", { type: "number", min: "0", step: "1", value: budget.maxTokens, "aria-label": "Budget in tokens" });
    const set = (value) => this.setBudget(value);
    this.slider.addEventListener("input", () => set(Number(this.slider.value)));
    this.number.addEventListener("input", () => this.number.value !== "" && Number(this.number.value) >= 0 && set(Math.floor(Number(this.number.value)), this.number));
    this.chart = el("div", { class: "sweep", "aria-hidden": "true" });
    this.note = el("p", { class: "muted", id: "sweep-note", "aria-live": "polite" }, "The engine sweeps all budgets …");
    this.previous = el("button", { type: "button", class: "button", disabled: true, onclick: () => this.#step(-1) }, "‹ Previous change");
    this.next = el("button", { type: "button", class: "button", disabled: true, onclick: () => this.#step(1) }, "Next change ›");
    this.summary = el("p", { class: "summary", role: "status" });
    this.resetButton = el("button", { type: "button", class: "button", disabled: true, onclick: () => this.#reset() }, "Reset");
    this.weights = el("div", { class: "weights" });
    this.choices = el("div", { class: "choices" });
    this.pins = el("div", { class: "pins" });
    this.root.replaceChildren(
      el(
        "div",
        { class: "whatif" },
        el("h3", { class: "hidden" }, "What if"),
        el("div", { class: "result" }, this.summary, this.resetButton),
        el("div", { class: "field budget" }, el("label", { for: "budget" }, "Budget"), this.number),
        this.chart,
        this.slider,
        this.note,
        el("div", { class: "actions" }, this.previous, this.next),
        el("h4", {}, "Policy"),
        presetName === null ? null : this.#presetChoice(presetName),
        this.weights,
        this.choices,
        el("h4", {}, "Pins"),
        this.pins,
      ),
    );
    this.#policy();
    this.showPins();
    this.showResult(null);
  }

  #presetChoice(presetName) {
    const select = el("select", { id: "preset" }, this.presets.map(([name]) => el("option", { value: name, selected: name === presetName }, name)));
    select.addEventListener("change", () => this.onPreset(select.value));
    return el("div", { class: "field" }, el("label", { for: "preset" }, "Preset"), select);
  }

  setBudget(tokens, source = null) {
    this.trial.setWindow(tokens);
    if (source !== this.number) this.number.value = String(tokens);
    if (tokens > Number(this.slider.max)) this.slider.max = String(tokens);
    this.slider.value = String(tokens);
    this.#cursor();
    this.onChange();
  }

  #policy() {
    const { policy } = this.trial;
    const scorers = Array.isArray(policy.scorers) ? policy.scorers : [];
    this.weights.replaceChildren(
      ...scorers.map((scorer, index) => {
        const name = typeof scorer.type === "string" ? scorer.type : `scorer ${index + 1}`;
        const weight = Number.isFinite(scorer.weight) ? scorer.weight : 1;
        const id = `weight-${index}`;
        const number = el("output", { for: id, class: "number" }, count(weight));
        const slider = el("input", { type: "range", id, min: "0", max: Math.max(MAX_WEIGHT, weight), step: "0.1", value: weight });
        slider.addEventListener("input", () => {
          scorer.weight = Number(slider.value);
          number.textContent = count(scorer.weight);
          this.#policyChanged();
        });
        return el("div", { class: "field" }, el("label", { for: id }, oneLine(name, 40)), slider, number);
      }),
    );
    if (scorers.length < 2) this.weights.append(el("p", { class: "muted" }, "A single scorer has no weight against others."));
    const choice = (key, label, names, current) => {
      const known = names.includes(current) ? names : [current, ...names];
      const select = el("select", { id: `choice-${key}` }, known.map((name) => el("option", { value: name, selected: name === current }, name)));
      select.addEventListener("change", () => {
        const { basis } = this.trial;
        const isBasis = nameOf(basis[key]) === select.value;
        policy[key] = isBasis ? structuredClone(basis[key]) : select.value;
        // The options of a slicer may stand beside it.
        if (key === "slicer") {
          for (const name of Object.keys(policy)) if (!POLICY_KEYS.has(name)) delete policy[name];
          if (isBasis) for (const [name, value] of Object.entries(basis)) if (!POLICY_KEYS.has(name)) policy[name] = structuredClone(value);
        }
        this.#policyChanged();
      });
      return el("div", { class: "field" }, el("label", { for: `choice-${key}` }, label), select);
    };
    this.choices.replaceChildren(
      choice("slicer", "Slicer", SLICERS, nameOf(policy.slicer) ?? "greedy"),
      choice("placer", "Placer", PLACERS, nameOf(policy.placer) ?? "chronological"),
    );
  }

  #policyChanged() {
    this.steps = null;
    this.onChange({ isPolicy: true });
  }

  showPins() {
    const pinned = this.items.filter((item) => this.trial.isPinned(item));
    const row = (item) =>
      el(
        "li",
        {},
        el("button", { type: "button", class: "link", onclick: () => this.onSelect(item.index) }, oneLine(item.id ?? `#${item.index}`, 60)),
        " ",
        el("button", { type: "button", class: "link", "aria-label": `Unpin ${oneLine(item.id ?? `#${item.index}`, 60)}`, onclick: () => this.togglePin(item) }, "unpin"),
      );
    this.pins.replaceChildren(
      pinned.length === 0 ? el("p", { class: "muted" }, "No item is pinned.") : el("ul", {}, pinned.slice(0, 100).map(row)),
      el("p", { class: "muted" }, "Select an item, and pin it under “Why”."),
    );
  }

  togglePin(item) {
    this.trial.pin(item);
    this.steps = null;
    this.showPins();
    this.onChange({ isPolicy: true });
  }

  #reset() {
    this.trial.reset();
    const { maxTokens } = this.trial.budget;
    this.number.value = this.slider.value = String(maxTokens);
    this.#policy();
    this.showPins();
    this.#cursor();
    this.onChange({ isPolicy: true });
    this.slider.focus();
  }

  /** Shows what came in and went out, or a problem. */
  showResult(result) {
    this.resetButton.disabled = !this.trial.isChanged;
    if (result === null) this.summary.textContent = "As recorded.";
    else if (result.error !== undefined) this.summary.textContent = oneLine(result.error, 300);
    else {
      const { came, went, selected, tokens } = result;
      const change = came + went === 0 ? "The same items" : `${came} in, ${went} out`;
      this.summary.textContent = `${change}: ${counted(selected, "item")}, ${counted(tokens, "token")}.`;
    }
    this.summary.classList.toggle("problem", result?.error !== undefined);
  }

  /** Shows the exact sweep: at which budgets the selection changes. */
  showSweep(sweep) {
    this.steps = changes(sweep);
    const to = sweep.to;
    const isWhole = to >= this.max;
    this.note.textContent =
      `The selection changes at ${counted(this.steps.length, "budget")}` + (isWhole ? "." : ` up to ${count(to)}; larger ones were not swept.`);
    const [width, height] = [300, 44];
    const top = Math.max(1, ...this.steps.map(({ items }) => items));
    const x = (budget) => (budget / Math.max(this.max, 1)) * width;
    const y = (items) => height - 2 - (items / top) * (height - 6);
    let path = `M0 ${height - 2}`;
    let last = 0;
    // Many steps share a pixel.
    let pixel = -1;
    for (const { budget, items } of this.steps) {
      const at = Math.round(x(budget) * 2) / 2;
      if (at === pixel) path += `V${y(items).toFixed(1)}`;
      else path += `H${at}V${y(items).toFixed(1)}`;
      pixel = at;
      last = items;
    }
    path += `H${x(Math.min(to, this.max)).toFixed(1)}`;
    this.line = svg("line", { class: "cursor", y1: 0, y2: height });
    this.chart.replaceChildren(
      svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" }, svg("path", { class: "area", d: `${path}V${height - 2}H0Z` }), svg("path", { class: "line", d: path }), this.line),
      el("span", { class: "axis" }, el("span", {}, "0"), el("span", {}, `${count(last)} of ${count(this.items.length)} items`), el("span", {}, count(this.max))),
    );
    this.#cursor();
  }

  showSweepProblem(text) {
    this.note.textContent = oneLine(text, 300);
    this.chart.replaceChildren();
  }

  #cursor() {
    const tokens = this.trial.budget.maxTokens;
    if (this.line) {
      const at = (Math.min(tokens, this.max) / Math.max(this.max, 1)) * 300;
      this.line.setAttribute("x1", at);
      this.line.setAttribute("x2", at);
    }
    this.previous.disabled = this.#change(-1) === undefined;
    this.next.disabled = this.#change(1) === undefined;
  }

  #change(direction) {
    const tokens = this.trial.budget.maxTokens;
    if (this.steps === null) return undefined;
    return direction > 0 ? this.steps.find(({ budget }) => budget > tokens) : this.steps.findLast(({ budget }) => budget < tokens);
  }

  #step(direction) {
    const step = this.#change(direction);
    if (step !== undefined) this.setBudget(step.budget);
  }
}

const nameOf = (component) => (typeof component === "string" ? component : (component?.type ?? null));
