// The session: turns on an axis, the prompt cache, and the difference between two turns.

import { count, counted, el, oneLine, percent, svg, visible } from "./format.js";

/** The form of every block at a turn: changes are relative to the turn before. */
export function formsAt(session, turn) {
  const forms = new Map();
  for (let index = 0; index <= turn; index++) {
    for (const change of session.turns[index].changes) forms.set(change.block, change);
  }
  return Array.from({ length: session.turns[turn].blocks }, (_, block) => forms.get(block) ?? { block, form: "whole", tokens: session.blocks[block].tokens });
}

/** The blocks that differ between two turns. */
export function difference(session, before, after) {
  const [old, now] = [formsAt(session, before), formsAt(session, after)];
  const entries = [];
  for (const [block, form] of now.entries()) {
    const previous = old[block];
    if (previous === undefined) {
      if (form.form !== "whole" || block >= old.length) entries.push({ block, before: null, after: form });
    } else if (previous.form !== form.form || previous.tokens !== form.tokens) {
      entries.push({ block, before: previous, after: form });
    }
  }
  return entries;
}

export class SessionView {
  /** A session without blocks asks `cutsOf` what a turn cut. */
  constructor(root, session, { turn = session.turns.length - 1, cutsOf = null } = {}) {
    this.session = session;
    this.turn = turn;
    this.other = null;
    this.root = root;
    this.cutsOf = cutsOf;
    this.#build();
    this.choose(this.turn);
  }

  #build() {
    const { session } = this;
    const { turns } = session;
    const sum = (key) => turns.reduce((total, turn) => total + turn[key], 0);
    const breaks = turns.filter((turn) => turn.break).length;
    const price = sum("price");
    const everything = Number.isFinite(session.everything_price) ? session.everything_price : null;
    const facts = [
      ["Turns", count(turns.length)],
      ["Read from the cache", counted(sum("read"), "token")],
      ["Written", counted(sum("written"), "token")],
      ["Prefix breaks", count(breaks)],
      ["Price", everything ? `${percent(price, everything)} of sending everything` : count(Math.round(price))],
    ];
    this.chart = el("div", { class: "turns", role: "group", "aria-label": "Turns" });
    this.detail = el("section", { class: "turn-detail", "aria-live": "polite" });
    this.root.replaceChildren(
      el("dl", { class: "totals" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
      el(
        "p",
        { class: "muted" },
        `Tokens of each request. A token that is read from the cache costs ${session.prices?.read ?? 0.1}, a written one ${session.prices?.write ?? 1.25}, relative to input without a cache. ` +
          `Policy ${oneLine(session.policy ?? "–", 60)}, budget ${count(session.budget)}, counted by ${oneLine(session.tokenizer ?? "–", 40)}.`,
      ),
      el(
        "ul",
        { class: "legend" },
        [["read", "Read from the cache"], ["written", "Written"], ["dropped", "Dropped from the history"], ["broken", "The prefix broke"]].map(([style, label]) =>
          el("li", {}, el("span", { class: `swatch ${style}`, "aria-hidden": "true" }), el("span", { class: "name" }, label)),
        ),
      ),
      this.chart,
      this.detail,
    );
    this.#draw();
  }

  #draw() {
    const { turns, budget } = this.session;
    const top = Math.max(1, budget || 0, ...turns.map((turn) => turn.tokens + turn.dropped));
    const scale = 100 / top;
    const bars = turns.map((turn, index) => {
      const label =
        `Turn ${index + 1}: ${counted(turn.read, "token")} read, ${count(turn.written)} written, ${count(turn.dropped)} dropped` +
        (turn.break ? `. The prefix broke: ${oneLine(breakText(this.session, turn.break), 200)}` : "");
      const piece = (style, tokens) => el("span", { class: style, style: { height: `${tokens * scale}%` } });
      return el(
        "button",
        { type: "button", class: `turn${turn.break ? " has-break" : ""}`, "data-turn": index, tabindex: "-1", "aria-label": label, title: label, onclick: (event) => this.choose(index, event.shiftKey) },
        turn.break ? el("span", { class: "broken", "aria-hidden": "true" }) : null,
        piece("dropped", turn.dropped),
        piece("written", turn.written),
        piece("read", turn.read),
      );
    });
    this.bars = bars;
    const line = Number.isFinite(budget) && budget > 0 ? el("span", { class: "budget-line", "aria-hidden": "true", style: { bottom: `${budget * scale}%` } }, el("span", {}, `budget ${count(budget)}`)) : null;
    const plot = el("div", { class: "plot" }, line, bars);
    plot.addEventListener("keydown", (event) => {
      const next = { ArrowRight: this.turn + 1, ArrowLeft: this.turn - 1, Home: 0, End: turns.length - 1 }[event.key];
      if (next === undefined || !(next in turns)) return;
      event.preventDefault();
      this.choose(next);
      this.bars[next].focus();
    });
    this.chart.replaceChildren(
      el("div", { class: "scale", "aria-hidden": "true" }, el("span", {}, count(top)), el("span", {}, count(Math.round(top / 2))), el("span", {}, "0")),
      plot,
      el("div", { class: "axis", "aria-hidden": "true" }, el("span", {}, "turn 1"), el("span", {}, count(turns.length))),
    );
  }

  /** Shows a turn, next to the one before it or, with `keeps`, next to the current one. */
  choose(index, keeps = false) {
    if (keeps && index !== this.turn && this.session.blocks !== null) this.other = this.turn;
    else if (!keeps) this.other = index > 0 && this.session.blocks !== null ? index - 1 : null;
    this.turn = index;
    this.#show();
  }

  #show() {
    for (const [index, bar] of this.bars.entries()) {
      bar.tabIndex = index === this.turn ? 0 : -1;
      bar.setAttribute("aria-pressed", String(index === this.turn));
      bar.classList.toggle("other", index === this.other);
    }
    const { session, turn: index } = this;
    const turn = session.turns[index];
    const options = session.turns.map((_, other) => el("option", { value: other, selected: other === this.other }, `turn ${other + 1}`)).filter((_, other) => other !== index);
    const compare = el("select", { id: "compare" }, options);
    compare.addEventListener("change", () => {
      this.other = Number(compare.value);
      this.#show();
      document.getElementById("compare")?.focus();
    });
    const facts = [
      ["Sent", counted(turn.tokens, "token")],
      ["Read", counted(turn.read, "token")],
      ["Written", counted(turn.written, "token")],
      ["Dropped", counted(turn.dropped, "token")],
      ["Price", count(Math.round(turn.price * 100) / 100)],
    ];
    const nodes = [
      el("h3", {}, `Turn ${index + 1}`),
      el("dl", { class: "totals" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    ];
    if (turn.break) {
      nodes.push(el("p", { class: "broken-note" }, el("strong", {}, "The prefix broke. "), oneLine(breakText(session, turn.break), 400)));
    }
    if (turn.refusal) nodes.push(el("p", { class: "problem" }, `The policy refused: ${oneLine(turn.refusal, 300)}`));
    if (session.blocks === null) {
      nodes.push(...this.#own(turn));
      this.detail.replaceChildren(...nodes);
      return;
    }
    if (session.turns.length > 1) nodes.push(el("div", { class: "field" }, el("label", { for: "compare" }, "Changes since"), compare));
    if (this.other !== null) {
      const [before, after] = this.other < index ? [this.other, index] : [index, this.other];
      nodes.push(this.#difference(before, after));
    } else {
      nodes.push(el("p", { class: "muted" }, "The first turn sends everything for the first time."), this.#blocks(formsAt(session, index).map((form) => ({ block: form.block, before: null, after: form }))));
    }
    this.detail.replaceChildren(...nodes);
  }

  /** What a session without blocks knows about a turn. */
  #own(turn) {
    const facts = [`Sent at ${new Date(turn.at).toLocaleString()}.`, `Receipt ${oneLine(turn.receipt, 80)}.`];
    if (turn.reported !== null) facts.push(`The provider counted ${counted(turn.reported, "token")}.`);
    const cuts = el("div", { class: "cuts" });
    if (turn.cuts === 0) cuts.append(el("p", { class: "muted" }, "Nothing is cut."));
    else void this.#cuts(turn, cuts);
    return [el("p", { class: "muted" }, facts.join(" ")), cuts];
  }

  async #cuts(turn, root) {
    try {
      const cuts = await this.cutsOf(turn);
      const rows = cuts.slice(0, 500).map((cut) =>
        el("tr", { class: "is-cut" }, el("td", {}, count(cut.message)), el("td", {}, count(cut.part)), el("td", { class: "number" }, count(cut.tokens_before)), el("td", { class: "number" }, count(cut.tokens_after)), el("td", {}, oneLine(cut.form, 30)), el("td", {}, oneLine(cut.reason, 60))),
      );
      const heads = ["Message", "Part", "Tokens before", "After", "Form", "Why"];
      root.replaceChildren(
        el("p", {}, `${counted(turn.cuts, "block")} are shorter than the agent sent them, ${count(cuts.length)} of them since the turn before.`),
        ...(rows.length === 0 ? [] : [el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Cuts" }, el("table", { class: "blocks" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows)))]),
      );
    } catch (error) {
      root.replaceChildren(el("p", { class: "muted" }, `${counted(turn.cuts, "block")} are shorter than the agent sent them. ${visible(error.message, 200)}`));
    }
  }

  #difference(before, after) {
    const entries = difference(this.session, before, after);
    const added = entries.filter((entry) => entry.before === null);
    const cut = entries.filter((entry) => entry.before !== null && entry.after.tokens < entry.before.tokens);
    const saved = cut.reduce((total, entry) => total + entry.before.tokens - entry.after.tokens, 0);
    const arrived = added.reduce((total, entry) => total + entry.after.tokens, 0);
    const text =
      `From turn ${before + 1} to ${after + 1}: ${counted(added.length, "new block")} (${counted(arrived, "token")}), ` +
      `${counted(cut.length, "block")} cut (${counted(saved, "token")} less).`;
    return el("div", { class: "difference" }, el("p", {}, text), entries.length === 0 ? null : this.#blocks([...cut, ...entries.filter((entry) => !cut.includes(entry))]));
  }

  #blocks(entries) {
    const { blocks } = this.session;
    const form = (state) => (state === null ? "new" : `${oneLine(state.form, 20)}, ${count(state.tokens)}`);
    const shown = entries.slice(0, 500);
    const rows = shown.map(({ block, before, after }) => {
      const { role, kind, name, message, text, tokens } = blocks[block];
      return el(
        "tr",
        { class: before === null ? "is-new" : after.tokens < before.tokens ? "is-cut" : "" },
        el("td", {}, count(message)),
        el("td", {}, oneLine([role, kind, name].filter(Boolean).join(" "), 60)),
        el("td", { class: "number" }, count(tokens)),
        el("td", {}, before === null ? el("span", { class: "tag new" }, "new") : form(before)),
        el("td", {}, before === null && after.form === "whole" ? "whole" : el("span", { class: `tag ${after.form === "whole" ? "" : "cut"}` }, form(after))),
        el("td", {}, oneLine(after.why ?? "", 120)),
        el("td", { class: "preview" }, oneLine(text ?? "", 140)),
      );
    });
    const heads = ["Message", "Block", "Tokens", "Before", "After", "Why", "Content"];
    const nodes = [
      el(
        "div",
        { class: "scroll", tabindex: "0", role: "group", "aria-label": "Blocks" },
        el("table", { class: "blocks" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows)),
      ),
    ];
    if (shown.length < entries.length) nodes.push(el("p", { class: "muted" }, `and ${count(entries.length - shown.length)} more`));
    return el("div", {}, nodes);
  }
}

function breakText(session, { block, why, rewritten }) {
  const { role, kind, name, message } = session.blocks?.[block] ?? {};
  const what = [role, kind, name].filter(Boolean).join(" ");
  const where = message === undefined ? "" : `At message ${message}${what ? ` (${what})` : ""}: `;
  const again = Number.isFinite(rewritten) ? ` ${counted(rewritten, "token")} had to be written again.` : "";
  return `${where}${visible(why ?? "it changed", 200)}.${again}`;
}

/** Draws the turns as a picture of its own. */
export function sessionPicture(session, title) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const { turns, budget } = session;
  const [width, left, top, height] = [960, 64, 70, 260];
  const most = Math.max(1, budget || 0, ...turns.map((turn) => turn.tokens + turn.dropped));
  const step = (width - left - 24) / turns.length;
  const tall = top + height + 40;
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${tall}`, width, height: tall, "font-family": "system-ui, sans-serif", "font-size": 12 });
  root.append(svg("rect", { width, height: tall, fill: color("--surface") }), svg("text", { x: 24, y: 34, "font-size": 17, "font-weight": 600, fill: color("--ink") }, oneLine(title, 90)));
  for (const [index, turn] of turns.entries()) {
    let y = top + height;
    for (const [name, tokens] of [["--read", turn.read], ["--accent", turn.written], ["--dropped", turn.dropped]]) {
      const size = (tokens / most) * height;
      y -= size;
      root.append(svg("rect", { x: left + index * step, y, width: Math.max(step - 1.5, 0.5), height: size, fill: color(name) }));
    }
    if (turn.break) root.append(svg("circle", { cx: left + (index + 0.5) * step, cy: y - 6, r: 3, fill: color("--bad") }));
  }
  if (Number.isFinite(budget)) {
    const y = top + height - (budget / most) * height;
    root.append(svg("line", { x1: left, x2: width - 24, y1: y, y2: y, stroke: color("--ink"), "stroke-dasharray": "4 3" }), svg("text", { x: left + 4, y: y - 5, fill: color("--ink") }, `budget ${count(budget)}`));
  }
  root.append(svg("text", { x: 24, y: top + 6, fill: color("--muted") }, count(most)), svg("text", { x: left, y: tall - 16, fill: color("--muted") }, `turns 1 to ${turns.length}: read from the cache, written, dropped; dots are breaks of the prefix`));
  return root;
}
