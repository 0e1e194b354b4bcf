// Compiled by `tsc --strict`: every function with its types.

import { ChatSession, PannierError, count, explain, fitChat, loadEncoding, pack, whatIf } from "pannier";
import type { FittedChat, Item, Selection } from "pannier";

await loadEncoding("o200k");

const messages = [{ role: "user", content: "How long does a refund take?" }];
const fitted: FittedChat<typeof messages> = fitChat(messages, { budget: "8k", model: "gpt-5", once: true });
const role: string | undefined = fitted.transcript[0]?.role;

const session = new ChatSession({ budget: 100_000, cacheControl: true });
const next: { role: string; content: string }[] = session.fit(messages).transcript;

const selection: Selection = pack(["a text", { id: "b", content: "another", priority: 2 }], { budget: 2_000, query: "text" });
const tokens: number = selection.items.reduce((sum, item) => sum + item.tokens, 0);
const more: number = selection.whatIf({ budget: 3_000 }).items.length;
const smallest = whatIf(selection.items, { item: "b" });
const why = explain(selection.items, ["b"], { budget: 10 });

try {
  count("text", { model: "gpt-4" });
} catch (error) {
  if (error instanceof PannierError) console.log(error.code, error.hint, error.needed);
}
console.log(role, next, tokens, more, smallest, why, count(["a", "b"]).length);

const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
const sent: string | undefined = fitChat(messages, { budget: "8k", tools, system: "Be brief." }).transcript[0]?.content;
const item: Item = { content: "a", tags: ["b"], source: "Rag", metadata: { c: 1 }, futureRelevanceHint: 0.5, forms: [{ name: "d", content: "e", tokens: 1 }] };
const slack: number = pack([item], { budget: 5 }).totals.ledger.slack;
const reason: string | undefined = selection.explain("b")[0]?.decision.reason.reason;
const ranges: number[][] | undefined = selection.whatIf({ min: 0, max: 9 }).items[0]?.budgets;
console.log(sent, slack, reason, ranges, selection.whatIf({ item: "b" }).min_budget);

// @ts-expect-error: a text is not a list of items.
pack("text", { budget: 5 });
// @ts-expect-error: there is no such option.
fitChat(messages, { bugdet: 5 });
// @ts-expect-error: there is no such encoding.
await loadEncoding("p50k");
