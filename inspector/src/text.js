// The text that is sent: spans of items, matched terms, line numbers.

import { counted, count, el, oneLine, visible } from "./format.js";
import { VirtualRows } from "./virtual.js";

/** Characters of a line that are shown; the copy is whole. */
const MAX_LINE = 2000;

/** Finds the span of each item in the text, in the order of sending. Templates may change an item; then it has no span. */
export function findSpans(text, items, order) {
  const spans = [];
  let from = 0;
  for (const index of order) {
    const { content } = items[index];
    if (!content) continue;
    const at = text.indexOf(content, from);
    if (at < 0) continue;
    spans.push({ index, start: at, end: at + content.length });
    from = at + content.length;
  }
  return spans;
}

export class TextView {
  constructor(root, { onSelect, colors }) {
    this.onSelect = onSelect;
    this.colors = colors;
    this.rows = new VirtualRows({ class: "rows text-rows", role: "group", tabindex: "0", "aria-label": "The text that is sent" }, (line) => this.#line(line));
    this.status = el("p", { class: "status", role: "status" });
    this.copy = el("button", { type: "button", class: "button", onclick: () => this.#copy() }, "Copy text");
    this.title = el("p", { class: "muted" });
    this.rows.box.addEventListener("click", (event) => {
      const span = event.target.closest?.("[data-index]");
      if (span) this.onSelect(Number(span.dataset.index));
    });
    root.append(el("div", { class: "tools" }, this.title, this.status, this.copy), this.rows.box);
  }

  show(text, items, order, terms, selected) {
    this.text = text;
    this.items = items;
    this.terms = new Set(terms);
    this.selected = selected;
    this.spans = findSpans(text, items, order);
    this.lines = [];
    let start = 0;
    for (;;) {
      const end = text.indexOf("\n", start);
      this.lines.push([start, end < 0 ? text.length : end]);
      if (end < 0) break;
      start = end + 1;
    }
    const digits = String(this.lines.length).length;
    this.rows.box.style.setProperty("--digits", `${digits}ch`);
    const matched = terms.length > 0 ? `, ${counted(terms.length, "matching word")}` : "";
    this.title.textContent = `${counted(this.lines.length, "line")}, ${counted(this.spans.length, "item")}${matched}. Select a passage to see why it is in.`;
    this.status.textContent = "";
    this.rows.reset(this.lines.length);
  }

  /** Marks an item, and scrolls to it. */
  mark(index) {
    this.selected = index;
    const span = this.spans?.find((span) => span.index === index);
    if (span === undefined) return;
    this.rows.refresh();
    this.rows.reveal(this.#lineAt(span.start));
  }

  #lineAt(offset) {
    let [low, high] = [0, this.lines.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.lines[middle][0] <= offset) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #line(number) {
    const [start, end] = this.lines[number];
    const shown = Math.min(end, start + MAX_LINE);
    const pieces = [];
    let at = start;
    for (const span of this.#within(start, shown)) {
      if (span.start > at) pieces.push(el("span", { class: "frame" }, visible(this.text.slice(at, span.start), MAX_LINE)));
      const from = Math.max(at, span.start);
      const to = Math.min(shown, span.end);
      const item = this.items[span.index];
      // Beside the span, so that its first box is that of its text.
      if (span.start >= start) pieces.push(el("span", { class: "hidden" }, `Item ${oneLine(item.id ?? `#${item.index}`, 60)}: `));
      pieces.push(
        el(
          "span",
          {
            class: `span ${item.reason === "Pinned" ? "pinned" : `color${this.colors(item.kind)}`}${this.selected === span.index ? " selected" : ""}`,
            "data-index": span.index,
            title: `${oneLine(item.id ?? `#${item.index}`, 60)}: ${counted(item.sentTokens ?? item.tokens ?? 0, "token")}`,
          },
          this.#marked(this.text.slice(from, to)),
        ),
      );
      at = to;
    }
    if (at < shown) pieces.push(el("span", { class: "frame" }, visible(this.text.slice(at, shown), MAX_LINE)));
    if (shown < end) pieces.push(el("span", { class: "muted" }, ` … ${counted(end - shown, "character")} more`));
    return el("div", { class: "line" }, el("span", { class: "lineno", "aria-hidden": "true" }, count(number + 1)), el("span", { class: "code" }, pieces));
  }

  #within(start, end) {
    // Spans are ascending and do not overlap.
    let [low, high] = [0, this.spans.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.spans[middle].end <= start) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (let index = low; index < this.spans.length && this.spans[index].start < end; index++) found.push(this.spans[index]);
    return found;
  }

  #marked(text) {
    if (this.terms.size === 0) return [visible(text, MAX_LINE)];
    return text.split(/([\p{L}\p{N}_]+)/u).map((word) => (this.terms.has(word) ? el("mark", {}, visible(word, MAX_LINE)) : visible(word, MAX_LINE)));
  }

  async #copy() {
    this.status.textContent = (await copyText(this.text)) ? "Copied." : "The browser did not allow to copy.";
  }
}

/** Copies a text. Pages from files have no clipboard of their own in some browsers. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { "aria-hidden": "true", class: "hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    return isCopied;
  }
}
