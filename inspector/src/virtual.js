// Rows that exist only while they are visible: a list of 100,000 items has about forty.

import { el, perFrame } from "./format.js";

/** A scrolling list of rows of equal height. `render(index)` returns the element of a row. */
export class VirtualRows {
  constructor(attributes, render) {
    this.render = render;
    this.length = 0;
    this.height = 30;
    this.first = 0;
    this.rows = new Map();
    this.space = el("div", { class: "space", role: "presentation" });
    this.box = el("div", { class: "rows", ...attributes }, this.space);
    const update = perFrame(() => this.update());
    this.box.addEventListener("scroll", update, { passive: true });
    new ResizeObserver(update).observe(this.box);
  }

  /** Shows other rows. */
  reset(length) {
    this.length = length;
    this.rows.clear();
    this.space.replaceChildren();
    this.measure();
    this.update();
  }

  measure() {
    const height = Number.parseFloat(getComputedStyle(this.box).getPropertyValue("--row"));
    this.height = Number.isFinite(height) && height > 0 ? height : 30;
    this.space.style.setProperty("height", `${this.length * this.height}px`);
  }

  update() {
    const { scrollTop, clientHeight } = this.box;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - 6);
    const last = Math.min(this.length, Math.ceil((scrollTop + clientHeight) / this.height) + 6);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) {
        row.remove();
        this.rows.delete(index);
      }
    }
    const before = [...this.rows.keys()].reduce((min, index) => Math.min(min, index), Infinity);
    const head = document.createDocumentFragment();
    const tail = document.createDocumentFragment();
    for (let index = first; index < last; index++) {
      if (this.rows.has(index)) continue;
      const row = this.render(index);
      row.style.setProperty("top", `${index * this.height}px`);
      this.rows.set(index, row);
      (index < before ? head : tail).append(row);
    }
    // In the order of the list, for screen readers.
    this.space.prepend(head);
    this.space.append(tail);
  }

  /** Renders the visible rows again. */
  refresh() {
    this.rows.clear();
    this.space.replaceChildren();
    this.update();
  }

  /** Scrolls until a row is visible. */
  reveal(index) {
    const top = index * this.height;
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop) this.box.scrollTop = top;
    else if (top + this.height > scrollTop + clientHeight) this.box.scrollTop = top + this.height - clientHeight;
    this.update();
  }

  /** Renders all rows up to a maximum, for paper. */
  expand(max) {
    this.space.replaceChildren();
    this.rows.clear();
    for (let index = 0; index < Math.min(this.length, max); index++) {
      const row = this.render(index);
      this.rows.set(index, row);
      this.space.append(row);
    }
  }
}
