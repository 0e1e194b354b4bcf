// The window: one bar to scale.

import { count, counted, el, oneLine, percent, svg } from "./format.js";

/** The colors of categories, in the order in which they are given out. The style sheet defines them. */
export const COLORS = 8;

/** Divides the window into parts that add up to it. `by` is `kind` or `document`; `first` are the names that come first. */
export function divide(model, items, by, first = []) {
  const ledger = model.window ?? { window: 0 };
  const number = (key) => (Number.isFinite(ledger[key]) ? ledger[key] : 0);
  const parts = [];
  const add = (key, label, tokens, style, filter = null, items = null) => {
    if (tokens > 0) parts.push({ key, label, tokens, style, filter, items });
  };
  // Joins are tokens that merge across borders: framing carries them.
  const framing = number("framing") + number("joins");
  add("fixed", "Fixed text", number("fixed"), "fixed");
  const groups = new Map();
  for (const item of items) {
    if (!item.isIn) continue;
    const isPinned = item.reason === "Pinned";
    const name = isPinned ? "Pinned" : by === "document" ? (item.document ?? "No document") : item.kind;
    const group = groups.get(name) ?? { tokens: 0, items: 0, isPinned };
    group.tokens += item.sentTokens ?? item.tokens ?? 0;
    group.items += 1;
    groups.set(name, group);
  }
  const pinned = groups.get("Pinned");
  if (pinned?.isPinned) add("pinned", "Pinned", pinned.tokens, "pinned", { type: "pinned" }, pinned.items);
  const ranked = [...groups].filter(([, group]) => !group.isPinned).sort(([one, a], [two, b]) => b.tokens - a.tokens || (one < two ? -1 : 1));
  const shown = ranked.length > COLORS ? ranked.slice(0, COLORS - 1) : [...ranked];
  const place = (name) => (first.includes(name) ? first.indexOf(name) : first.length);
  shown.sort(([one], [two]) => place(one) - place(two));
  for (const [name, group] of shown) {
    add(`group ${name}`, name, group.tokens, `color${model.colors(name)}`, { type: by, name }, group.items);
  }
  const rest = ranked.slice(shown.length);
  if (rest.length > 0) {
    const tokens = rest.reduce((sum, [, group]) => sum + group.tokens, 0);
    const number = rest.reduce((sum, [, group]) => sum + group.items, 0);
    add("others", `${rest.length} others`, tokens, "others", { type: by, names: rest.map(([name]) => name) }, number);
  }
  const listed = [...groups.values()].reduce((sum, group) => sum + group.tokens, 0);
  add("uncounted", "Other items", number("items") - listed, "others");
  add("framing", "Framing", framing, "framing");
  add("slots", "Slots", number("slots"), "reserve");
  add("margin", "Margin", number("margin"), "reserve");
  add("reserve", "Reserve for the answer", number("output_reserve"), "reserve");
  add("unused", "Unused", number("slack"), "unused");
  return { total: Math.max(number("window"), parts.reduce((sum, part) => sum + part.tokens, 0)), parts, names: shown.map(([name]) => name) };
}

const describe = ({ label, tokens, items }, total) =>
  `${oneLine(label, 80)}: ${counted(tokens, "token")}, ${percent(tokens, total)} of the window${items === null ? "" : `, ${counted(items, "item")}`}`;

/** Shows the bar with its legend. `onFilter` gets the filter of a part. */
export class WindowView {
  constructor(root, onFilter) {
    this.root = root;
    this.onFilter = onFilter;
    this.by = "kind";
    this.active = null;
    this.bar = el("div", { class: "bar", role: "toolbar", "aria-label": "The window, to scale. Arrow keys move between its parts, Enter filters the list." });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.legend = el("ul", { class: "legend", "aria-label": "Parts of the window" });
    this.before = el("div", { class: "bar before", role: "img", hidden: true });
    this.bar.addEventListener("keydown", (event) => this.#move(event));
    this.bar.addEventListener("pointerleave", () => this.#read(null));
    this.bar.addEventListener("focusout", () => this.#read(null));
    root.append(this.bar, this.before, this.readout, this.legend);
  }

  show(division, summary, before = null) {
    this.division = division;
    this.summary = summary;
    const { total, parts } = division;
    const focused = this.bar.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.bar.replaceChildren(
      ...parts.map((part, index) =>
        el(
          "button",
          {
            type: "button",
            class: `part ${part.style}`,
            "data-key": part.key,
            tabindex: index === 0 ? "0" : "-1",
            "aria-label": describe(part, total) + (part.filter ? ". Filter the list." : ""),
            "aria-pressed": part.filter ? String(this.active === part.key) : null,
            style: { "flex-grow": String(part.tokens) },
            onpointerenter: () => this.#read(part),
            onfocus: () => this.#read(part),
            onclick: () => this.#choose(part),
          },
          el("span", { class: "label", "aria-hidden": "true" }, oneLine(part.label, 40)),
        ),
      ),
    );
    this.legend.replaceChildren(
      ...parts.map((part) =>
        el(
          "li",
          {},
          el("span", { class: `swatch ${part.style}`, "aria-hidden": "true" }),
          el("span", { class: "name" }, oneLine(part.label, 60)),
          " ",
          el("span", { class: "number" }, count(part.tokens)),
        ),
      ),
    );
    if (focused !== null) this.bar.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    this.before.hidden = before === null;
    if (before !== null) {
      this.before.setAttribute("aria-label", "Before the changes");
      this.before.replaceChildren(
        ...before.parts.map((part) => el("span", { class: `part ${part.style}`, style: { "flex-grow": String(part.tokens) } })),
        // Both bars have one scale.
        ...(before.total < total ? [el("span", { class: "gap", style: { "flex-grow": String(total - before.total) } })] : []),
      );
    }
    this.#read(null);
  }

  #read(part) {
    this.readout.textContent = part === null ? this.summary : describe(part, this.division.total);
  }

  #choose(part) {
    if (part.filter === null) return;
    this.active = this.active === part.key ? null : part.key;
    for (const button of this.bar.children) {
      if (button.hasAttribute("aria-pressed")) button.setAttribute("aria-pressed", String(button.dataset.key === this.active));
    }
    this.onFilter(this.active === null ? null : { ...part.filter, label: part.label });
  }

  clear() {
    this.active = null;
    for (const button of this.bar.querySelectorAll("[aria-pressed]")) button.setAttribute("aria-pressed", "false");
  }

  #move(event) {
    const buttons = [...this.bar.children];
    const index = buttons.indexOf(document.activeElement);
    const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (next === undefined || index < 0 || !(next in buttons)) return;
    event.preventDefault();
    buttons[index].tabIndex = -1;
    buttons[next].tabIndex = 0;
    buttons[next].focus();
  }
}

/** Draws the bar and its legend as a picture of its own: no style sheet, so colors are read from the page. */
export function picture(division, title, summary) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const [width, left, height] = [960, 24, 44];
  const { total, parts } = division;
  const rows = Math.ceil(parts.length / 3);
  const tall = 96 + height + rows * 24;
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${tall}`, width, height: tall, "font-family": "system-ui, sans-serif", "font-size": 13 });
  root.append(
    svg("rect", { width, height: tall, fill: color("--surface") }),
    svg("text", { x: left, y: 34, "font-size": 17, "font-weight": 600, fill: color("--ink") }, oneLine(title, 90)),
    svg("text", { x: left, y: 56, fill: color("--muted") }, summary),
  );
  let x = left;
  for (const [index, part] of parts.entries()) {
    const span = ((width - 2 * left) * part.tokens) / Math.max(total, 1);
    root.append(svg("rect", { x, y: 70, width: Math.max(span - 1, 0.5), height, fill: color(`--${part.style}`) }, svg("title", {}, describe(part, total))));
    x += span;
    const [column, row] = [index % 3, Math.floor(index / 3)];
    const [at, line] = [left + column * 304, 96 + height + row * 24];
    root.append(
      svg("rect", { x: at, y: line - 10, width: 11, height: 11, rx: 2, fill: color(`--${part.style}`), stroke: color("--edge") }),
      svg("text", { x: at + 18, y: line, fill: color("--ink") }, `${oneLine(part.label, 26)}  ${count(part.tokens)} (${percent(part.tokens, total)})`),
    );
  }
  return root;
}

