// Why an item is in or out, and what would change that.

import { count, counted, el, oneLine, percent, score, visible, withoutName, words } from "./format.js";

/** Shows one item. `explanation` is that of the engine, `null` while it runs, and `undefined` without an engine. */
export function whyView({ item, explanation, error, items, onSelect, onBudget, onPin, isPinned, canPin }) {
  const name = item.id ?? `#${item.index}`;
  const link = (index) => {
    const other = items[index];
    return el("button", { type: "button", class: "link", onclick: () => onSelect(index) }, oneLine(other.id ?? `#${index}`, 60));
  };
  const nodes = [
    el("h3", { class: "title" }, oneLine(name, 120)),
    el(
      "p",
      { class: `verdict ${item.isIn ? "is-in" : "is-out"}` },
      el("strong", {}, item.isIn ? "In" : "Out"),
      item.reason === null ? "" : `. ${words(oneLine(item.reason, 60))}`,
      item.why ? `: ${oneLine(withoutName(item.why, item.reason), 300)}` : "",
      item.form !== null && item.form !== "whole" ? `. Sent as “${oneLine(item.form, 30)}”` : "",
      explanation?.stage ? `. Decided by ${words(explanation.stage).toLowerCase()}` : "",
      ".",
    ),
  ];
  if (item.duplicateOf !== null) nodes.push(el("p", {}, "It repeats ", link(item.duplicateOf), "."));
  nodes.push(facts(item));
  if (canPin) {
    nodes.push(
      el(
        "p",
        { class: "actions" },
        el("button", { type: "button", class: "button", "aria-pressed": String(isPinned), onclick: () => onPin(item.index) }, isPinned ? "Unpin in What if" : "Pin in What if"),
      ),
    );
  }
  if (error) nodes.push(el("p", { class: "problem", role: "alert" }, visible(error, 500)));
  else if (explanation === null) nodes.push(el("p", { class: "muted", "aria-live": "polite" }, "The engine explains …"));
  else if (explanation !== undefined) nodes.push(...explained(explanation, { item, link, onBudget }));
  if (item.content !== null) nodes.push(el("h4", {}, "Content"), el("pre", { class: "content", tabindex: "0", "aria-label": "Content of the item" }, visible(item.content, 4000)));
  return el("div", { class: "why" }, nodes);
}

function facts(item) {
  const pairs = [["Tokens", item.sentTokens !== null && item.sentTokens !== item.tokens ? `${count(item.sentTokens)} sent, ${count(item.tokens)} whole` : count(item.tokens)]];
  pairs.push(["Kind", item.kind]);
  if (item.document !== null) pairs.push(["Document", item.document]);
  if (item.group !== null) pairs.push(["Group", item.group]);
  if (item.timestamp !== null) pairs.push(["Time", item.timestamp]);
  if (item.tags.length > 0) pairs.push(["Tags", item.tags.slice(0, 20).join(", ")]);
  if (item.terms.length > 0) pairs.push(["Matched terms", item.terms.slice(0, 30).join(", ")]);
  pairs.push(...item.details);
  return el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, oneLine(value, 200)))));
}

function explained(explanation, { item, link, onBudget }) {
  const nodes = [];
  if (explanation.score) {
    const rank = explanation.rank ? `, rank ${count(explanation.rank.rank)} of ${count(explanation.rank.of)}` : "";
    const density = Number.isFinite(explanation.density) ? `, ${score(explanation.density)} a token` : "";
    nodes.push(el("h4", {}, "Score"), el("p", { class: "muted" }, `${score(explanation.score.score)}${rank}${density}`), scoreTree(explanation.score));
  }
  const rivals = explanation.lost_to ?? [];
  if (rivals.length > 0) {
    nodes.push(
      el("h4", {}, "Lost to"),
      el(
        "ul",
        { class: "rivals" },
        rivals.slice(0, 50).map((rival) =>
          el(
            "li",
            {},
            link(rival.index),
            el("span", { class: "muted" }, ` score ${score(rival.score)}, ${counted(rival.item.tokens, "token")}`),
            el("span", { class: "preview" }, oneLine(rival.item.content, 120)),
          ),
        ),
      ),
    );
    if (rivals.length > 50) nodes.push(el("p", { class: "muted" }, `and ${count(rivals.length - 50)} more`));
  }
  const answers = [];
  const budget = (label, threshold) => {
    if (!threshold) return;
    const proven = threshold.is_proven ? "" : ", or less: not all were tried";
    answers.push([
      label,
      [
        el("strong", {}, counted(threshold.max_tokens, "token")),
        proven,
        " ",
        el("button", { type: "button", class: "link", onclick: () => onBudget(threshold.max_tokens) }, "Try it"),
      ],
    ]);
  };
  budget(item.isIn ? "Smallest budget that selects it" : "Smallest budget above this", explanation.smallest_budget);
  budget("Smallest budget below this", explanation.smaller_budget);
  if (Number.isFinite(explanation.smallest_score)) answers.push(["Smallest score", String(score(explanation.smallest_score))]);
  if (Number.isFinite(explanation.max_item_tokens)) answers.push(["Item size", `at most ${counted(explanation.max_item_tokens, "token")}`]);
  nodes.push(el("h4", {}, item.isIn ? "Selected down to" : "Selected with"));
  if (answers.length > 0) nodes.push(el("dl", { class: "facts answers" }, answers.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
  else nodes.push(el("p", { class: "muted" }, "No other budget, score or size was found that changes the decision."));
  if (explanation.is_complete === false) nodes.push(el("p", { class: "muted" }, "The search was stopped at its limit of steps. “pannier pack --explain” searches longer."));
  return nodes;
}

/** The tree of scorers: score, weight, and the contribution as a bar. */
function scoreTree(root) {
  const rows = [];
  const visit = (node, depth, total) => {
    const contribution = Number.isFinite(node.share) ? node.score * node.share : null;
    rows.push(
      el(
        "tr",
        {},
        el("th", { scope: "row", style: { "padding-left": `${depth * 14}px` } }, oneLine(node.scorer ?? node.term ?? "term", 60)),
        el("td", {}, score(node.score)),
        el("td", {}, Number.isFinite(node.weight) ? `× ${count(node.weight)}` : ""),
        el("td", {}, Number.isFinite(node.share) ? percent(node.share, 1) : ""),
        el(
          "td",
          { class: "share" },
          contribution === null
            ? null
            : [
                el("span", { class: "hidden" }, `contributes ${score(contribution)}`),
                el("span", { class: "meter", "aria-hidden": "true" }, el("span", { style: { width: `${total > 0 ? Math.min(100, Math.max(0, (contribution / total) * 100)) : 0}%` } })),
              ],
        ),
      ),
    );
    if (depth < 8) for (const child of (node.children ?? []).slice(0, 40)) visit(child, depth + 1, node.score);
  };
  visit(root, 0, root.score);
  const heads = ["Scorer", "Score", "Weight", "Share", "Contribution"];
  return el("table", { class: "tree" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows));
}
