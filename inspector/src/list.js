// The list: every item once, in sending order, by score or by tokens.

import { count, counted, el, oneLine, score, words } from "./format.js";
import { VirtualRows } from "./virtual.js";

/** Returns the order of sending; an excluded item follows the selected one that precedes it in the pool. */
export function sendingOrder(items, order) {
  const after = new Map();
  let anchor = -1;
  for (const item of items) {
    if (item.isIn) anchor = item.index;
    else if (after.has(anchor)) after.get(anchor).push(item.index);
    else after.set(anchor, [item.index]);
  }
  const all = [...(after.get(-1) ?? [])];
  for (const index of order) {
    all.push(index);
    for (const other of after.get(index) ?? []) all.push(other);
  }
  return all;
}

const ORDERS = {
  sending: (items, order) => sendingOrder(items, order),
  score: (items) => by(items, ({ score }) => -(score ?? -Infinity)),
  tokens: (items) => by(items, ({ sentTokens, tokens }) => -(sentTokens ?? tokens ?? 0)),
};

function by(items, key) {
  const keys = Float64Array.from(items, key);
  return items.map(({ index }) => index).sort((a, b) => keys[a] - keys[b] || a - b);
}

const STATES = {
  all: ["All", () => true],
  in: ["In", ({ isIn }) => isIn],
  out: ["Out", ({ isIn }) => !isIn],
  duplicates: ["Duplicates", (item) => isDuplicate(item)],
  changed: ["Changed", (item, changes) => changes.has(item.index)],
};

export const isDuplicate = ({ duplicateOf, reason }) => duplicateOf !== null || reason === "Deduplicated" || reason === "NearDuplicate";

export class ListView {
  constructor(root, { onSelect, colors }) {
    this.onSelect = onSelect;
    this.colors = colors;
    this.items = [];
    this.order = [];
    this.shown = [];
    this.sort = "sending";
    this.state = "all";
    this.search = "";
    this.part = null;
    this.changes = new Map();
    this.selected = null;

    this.find = el("input", { type: "search", class: "find", placeholder: "Search ids and texts", "aria-label": "Search ids and texts", autocomplete: "off", spellcheck: "false" });
    let timer = 0;
    this.find.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#filter({ search: this.find.value }), 120);
    });
    this.states = el("div", { class: "chips", role: "group", "aria-label": "Filter" });
    this.partChip = el("button", { type: "button", class: "chip part-chip", hidden: true, onclick: () => this.#clearPart() });
    this.status = el("p", { class: "status", "aria-live": "polite" });
    const heads = [
      ["state", "#", "sending"],
      ["item", "Item", null],
      ["kind", "Kind", null],
      ["form", "Form", null],
      ["tokens", "Tokens", "tokens"],
      ["score", "Score", "score"],
      ["reason", "Reason", null],
    ];
    this.heads = new Map();
    const cells = heads.map(([name, label, sort]) => {
      if (sort === null) return el("div", { class: `cell ${name}`, role: "columnheader" }, label);
      const title = sort === "sending" ? "Sending order" : `Sort by ${sort}, largest first`;
      const button = el("button", { type: "button", class: "sort", onclick: () => this.sortBy(sort), title, "aria-label": sort === "sending" ? "Sending order" : null }, label);
      const cell = el("div", { class: `cell ${name}`, role: "columnheader", "aria-sort": "none" }, button);
      this.heads.set(sort, cell);
      return cell;
    });
    this.rows = new VirtualRows({ role: "rowgroup" }, (position) => this.#row(position));
    this.header = el("div", { class: "row head", role: "row", "aria-rowindex": "1" }, cells);
    this.grid = el(
      "div",
      { class: "grid", role: "grid", tabindex: "0", "aria-label": "Items", "aria-rowcount": "1" },
      el("div", { role: "rowgroup" }, this.header),
      this.rows.box,
    );
    this.grid.addEventListener("keydown", (event) => this.#key(event));
    this.grid.addEventListener("click", (event) => {
      const row = event.target.closest?.("[data-position]");
      if (row) this.select(this.shown[Number(row.dataset.position)]);
    });
    root.append(el("div", { class: "tools" }, this.find, this.states, this.partChip, this.status), this.grid);
    this.root = root;
  }

  /** Shows items; `changes` maps the index of an item to `in` or `out`. */
  show(items, order, changes = new Map()) {
    this.items = items;
    this.order = order;
    this.changes = changes;
    if (this.state === "changed" && changes.size === 0) this.state = "all";
    this.hasScores = items.some(({ score }) => score !== null);
    this.grid.classList.toggle("no-scores", !this.hasScores);
    this.#states();
    this.#apply(true);
  }

  sortBy(sort) {
    this.sort = sort;
    this.rows.box.scrollTop = 0;
    this.#apply(false);
  }

  /** Filters by a part of the window, or by nothing. */
  filterPart(part) {
    this.part = part;
    this.partChip.hidden = part === null;
    if (part !== null) this.partChip.replaceChildren(oneLine(part.label, 30), el("span", { "aria-hidden": "true" }, " ×"), el("span", { class: "hidden" }, ": remove this filter"));
    this.#apply(false);
  }

  onClearPart = () => {};

  #clearPart() {
    this.filterPart(null);
    this.onClearPart();
    this.find.focus();
  }

  #filter(change) {
    Object.assign(this, change);
    this.rows.box.scrollTop = 0;
    this.#states();
    this.#apply(false);
  }

  #states() {
    const numbers = { all: this.items.length, in: 0, out: 0, duplicates: 0, changed: this.changes.size };
    for (const item of this.items) {
      numbers[item.isIn ? "in" : "out"] += 1;
      if (isDuplicate(item)) numbers.duplicates += 1;
    }
    const hadFocus = this.states.contains(document.activeElement) ? document.activeElement.dataset.state : null;
    this.states.replaceChildren(
      ...Object.entries(STATES)
        .filter(([name]) => name === "all" || name === "in" || name === "out" || numbers[name] > 0 || this.state === name)
        .map(([name, [label]]) =>
          el(
            "button",
            { type: "button", class: "chip", "data-state": name, "aria-pressed": String(this.state === name), onclick: () => this.#filter({ state: name }) },
            label,
            " ",
            el("span", { class: "number" }, count(numbers[name])),
          ),
        ),
    );
    if (hadFocus !== null) this.states.querySelector(`[data-state="${hadFocus}"]`)?.focus();
  }

  #apply(keepsScroll) {
    const needle = this.search.trim().toLowerCase();
    const [, isState] = STATES[this.state];
    const matches = (item) =>
      isState(item, this.changes) &&
      isPart(item, this.part) &&
      (needle === "" ||
        `${item.id ?? `#${item.index}`}\n${item.kind}\n${item.reason ?? ""}`.toLowerCase().includes(needle) ||
        (item.content !== null && item.content.toLowerCase().includes(needle)));
    const hasFilter = needle !== "" || this.state !== "all" || this.part !== null;
    const all = ORDERS[this.sort](this.items, this.order);
    this.shown = hasFilter ? all.filter((index) => matches(this.items[index])) : all;
    this.places = new Map(this.order.map((index, position) => [index, position + 1]));
    for (const [sort, cell] of this.heads) {
      cell.setAttribute("aria-sort", sort !== this.sort ? "none" : sort === "sending" ? "ascending" : "descending");
    }
    this.grid.setAttribute("aria-rowcount", String(this.shown.length + 1));
    const top = keepsScroll ? this.rows.box.scrollTop : 0;
    this.rows.reset(this.shown.length);
    this.rows.box.scrollTop = top;
    this.rows.update();
    this.status.textContent = hasFilter ? `${counted(this.shown.length, "item")} of ${count(this.items.length)}` : "";
    this.grid.classList.toggle("empty", this.shown.length === 0);
    this.#mark();
  }

  #row(position) {
    const item = this.items[this.shown[position]];
    const change = this.changes.get(item.index);
    const place = this.places.get(item.index);
    const tokens = item.sentTokens ?? item.tokens;
    const state = change === "in" ? "+ in" : change === "out" ? "− out" : item.isIn ? String(place ?? "") : "out";
    return el(
      "div",
      {
        class: `row${item.isIn ? "" : " out"}${change ? ` came-${change}` : ""}`,
        role: "row",
        id: `row-${item.index}`,
        "data-position": position,
        "aria-rowindex": position + 2,
        "aria-selected": String(this.selected === item.index),
      },
      el("div", { class: "cell state", role: "gridcell" }, state),
      el(
        "div",
        { class: "cell item", role: "gridcell" },
        el("span", { class: "id" }, oneLine(item.id ?? `#${item.index}`, 60)),
        item.content === null ? null : el("span", { class: "preview" }, oneLine(item.content, 160)),
      ),
      el("div", { class: "cell kind", role: "gridcell" }, el("span", { class: `swatch ${item.reason === "Pinned" ? "pinned" : `color${this.colors(item.kind)}`}`, "aria-hidden": "true" }), oneLine(item.kind, 30)),
      el("div", { class: "cell form", role: "gridcell" }, item.form === null ? "–" : oneLine(item.form, 20)),
      el("div", { class: "cell tokens", role: "gridcell" }, count(tokens)),
      el("div", { class: "cell score", role: "gridcell" }, item.reason === "Pinned" && item.isIn ? "–" : score(item.score)),
      el("div", { class: "cell reason", role: "gridcell" }, item.reason === null ? "" : words(oneLine(item.reason, 40))),
    );
  }

  /** Selects an item, by its index. */
  select(index, { isQuiet = false } = {}) {
    this.selected = index;
    const position = this.shown.indexOf(index);
    if (position >= 0) this.rows.reveal(position);
    this.#mark();
    if (!isQuiet) this.onSelect(index);
  }

  #mark() {
    for (const row of this.rows.rows.values()) {
      row.setAttribute("aria-selected", String(row.id === `row-${this.selected}`));
    }
    const isShown = this.selected !== null && this.shown.includes(this.selected);
    if (isShown) this.grid.setAttribute("aria-activedescendant", `row-${this.selected}`);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    if (event.target !== this.grid || this.shown.length === 0) return;
    const at = this.shown.indexOf(this.selected);
    const page = Math.max(1, Math.floor(this.rows.box.clientHeight / this.rows.height) - 1);
    const steps = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.shown.length - 1 };
    if (!Object.hasOwn(steps, event.key)) return;
    event.preventDefault();
    this.select(this.shown[Math.min(this.shown.length - 1, Math.max(0, steps[event.key]))]);
  }
}

function isPart(item, part) {
  if (part === null) return true;
  if (part.type === "pinned") return item.reason === "Pinned" && item.isIn;
  const name = part.type === "document" ? (item.document ?? "No document") : item.kind;
  const isNamed = part.names === undefined ? name === part.name : part.names.includes(name);
  return isNamed && !(item.reason === "Pinned" && item.isIn);
}
