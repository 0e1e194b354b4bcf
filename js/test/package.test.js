// The face of the package: values in and out, errors, encodings.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ChatSession, PannierError, count, explain, fitChat, loadEncoding, pack, recall, whatIf } from "../index.js";
import { initSync } from "../engine/pannier_js.js";

const messages = [
  { role: "system", content: "Answer briefly." },
  { role: "user", content: "How long does a refund take?" },
  { role: "assistant", content: "Five days. ".repeat(60) },
  { role: "user", content: "And the shipping?" },
];

test("without its vocabulary, an exact count is an error that says what to do", () => {
  assert.throws(() => count("text", { model: "gpt-4" }), (error) => {
    assert.ok(error instanceof PannierError && error instanceof Error);
    assert.equal(error.code, "invalid_input");
    assert.match(error.message, /cl100k.*load it first/);
    return true;
  });
  assert.throws(() => fitChat({ model: "gpt-4", messages }, { budget: 100 }), /cl100k/);
  assert.equal(count("four bytes!!", { model: "bytes/4" }), 3);
});

test("encodings load from the package, a URL or bytes", async () => {
  await loadEncoding("o200k");
  const url = new URL("../encodings/cl100k.bpe", import.meta.url);
  await assert.rejects(loadEncoding("o200k", url), /that of cl100k/);
  await loadEncoding("cl100k", new Uint8Array(readFileSync(url)));
  await loadEncoding("cl100k", url);
  await assert.rejects(loadEncoding("p50k"), /there is no encoding 'p50k'/);
  await assert.rejects(loadEncoding("o200k", new Uint8Array(100)), { code: "invalid_input" });
  assert.equal(count("Refunds take five days."), 6);
  assert.deepEqual(count(["", "a", "漢字"], { model: "gpt-4" }), [0, 1, 3]);
});

test("a chat fits its budget", () => {
  const fitted = fitChat(messages, { budget: 60, once: true });
  assert.equal(fitted.transcript.at(-1).content, "And the shipping?");
  assert.ok(fitted.totals.tokens <= 60);
  assert.equal(fitted.tokenizer, "o200k");
  assert.equal(fitted.text, `${JSON.stringify(fitted.transcript)}\n`);
  assert.equal(fitted.explain(2)[0].decision.decision, "excluded");
  assert.ok(fitted.receipt().policy);
  const request = fitChat({ model: "gpt-5", messages }, { budget: "1k" });
  assert.deepEqual(request.transcript, { model: "gpt-5", messages });
});

test("tools and a system prompt are counted, and positions are the caller's", () => {
  const tools = [{ type: "function", function: { name: "f", description: "word ".repeat(100), parameters: {} } }];
  const log = Array.from({ length: 400 }, (_, line) => `${line}: took ${line} ms`).join("\n");
  const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
  const history = [
    { role: "user", content: "Find the error." },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "a", content: log },
  ];
  const alone = fitChat(history, { budget: 10_000, model: "gpt-5" });
  for (const provider of [undefined, "openai"]) {
    const whole = fitChat(history, { budget: 10_000, model: "gpt-5", provider, tools, system: "Be brief. ".repeat(50) });
    assert.deepEqual(whole.transcript, history);
    assert.equal(whole.text, `${JSON.stringify(history)}\n`);
    assert.ok(whole.tokens > alone.tokens + 200, `${whole.tokens}`);
    const fitted = new ChatSession({ budget: 1_000, model: "gpt-5", provider, tools, system: "Be brief." }).fit(history);
    assert.deepEqual(fitted.cuts.map(({ message }) => message), [2]);
    assert.deepEqual(fitted.explain(2, "message-0").map(({ id }) => id), ["message-2", "message-0"]);
    assert.equal(fitted.recall(fitted.cuts[0].id, { lines: "1" }), "0: took 0 ms\n");
  }
  const chat = Array.from({ length: 20 }, (_, number) => ({ role: number % 2 ? "assistant" : "user", content: `message ${number}, of some words` }));
  for (const provider of ["openai", "anthropic", "responses"]) {
    const options = { budget: 150, model: "gpt-5", provider, once: true, system: "Be brief.", pin: ["2"] };
    const { transcript } = fitChat(chat, options);
    assert.ok(transcript.some(({ content }) => content === chat[2].content) && !transcript.some(({ content }) => content === chat[1].content));
    const previous = fitChat(chat, { ...options, previous: transcript });
    assert.ok(previous.text.startsWith(JSON.stringify(transcript[0]).slice(0, 20), 1));
  }
  const parts = fitChat([{ role: "user", parts: [{ text: "Hello!" }] }], { budget: 100, system: "Be brief." });
  assert.deepEqual(parts.transcript, [{ role: "user", parts: [{ text: "Hello!" }] }]);
  assert.throws(() => fitChat([...history, { role: "nobody", content: "a" }], { budget: 100, provider: "openai", system: "a" }), /messages\[3\]/);
  assert.throws(() => fitChat("[]", { budget: 100, system: "a" }), { code: "invalid_input" });
  assert.throws(() => fitChat(history, { budget: 100, tools: "a" }), { code: "invalid_input" });
});

test("a session keeps the prefix of its requests", () => {
  const budget = 6_000;
  const session = new ChatSession({ budget, model: "gpt-5" });
  const history = [{ role: "user", content: "Find the error in the logs." }];
  let previous;
  let kept = 0;
  for (let turn = 0; turn < 20; turn++) {
    const { transcript, text, tokens } = session.fit(history);
    assert.deepEqual(transcript.at(-1), history.at(-1));
    assert.ok(tokens <= budget, `${tokens}`);
    kept += previous && text.startsWith(previous) ? 1 : 0;
    // Without the end of the list.
    previous = text.trimEnd().slice(0, -1);
    const call = { id: `call_${turn}`, type: "function", function: { name: "read", arguments: `{"log":${turn}}` } };
    const log = Array.from({ length: 40 }, (_, line) => `${line}: request ${turn * line} took ${line} ms`).join("\n");
    history.push({ role: "assistant", content: null, tool_calls: [call] }, { role: "tool", tool_call_id: call.id, content: log });
  }
  assert.ok(kept >= 14 && kept < 19, `${kept}`);
});

test("a block that was cut comes back, whole or in lines", () => {
  const log = Array.from({ length: 400 }, (_, line) => `${line}: "\u00e9" took ${line} ms`).join("\n");
  const call = { id: "a", type: "function", function: { name: "read", arguments: "{}" } };
  const history = [
    { role: "user", content: "Find the error in the log." },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "a", content: log },
  ];
  const session = new ChatSession({ budget: 1_000, model: "gpt-5" });
  assert.throws(() => session.recall("0a0b0c0d"), /call fit first/);
  const fitted = session.fit(history);
  const [{ id }] = fitted.cuts;
  assert.ok(fitted.text.includes(`recall ${id}`));
  assert.equal(session.recall(id), log);
  assert.equal(fitted.recall(id, { lines: "2-3" }), log.split("\n").slice(1, 3).join("\n") + "\n");
  assert.equal(recall(JSON.stringify(history), id, { grep: "399:" }), '399: "\u00e9" took 399 ms');
  assert.throws(() => recall(history, id, { budget: 10 }), (error) => error instanceof PannierError && /10/.test(error.message));
  assert.throws(() => recall(history, "0a0b0c0d"), /0a0b0c0d/);
  assert.throws(() => recall(history, id, { lines: "3-1" }), /line numbers/);
});

test("items are packed, explained, and asked about", () => {
  const items = [{ id: "a", content: "Refunds take five days.", tokens: 6 }, { id: "b", content: "x", tokens: 90 }, "plain text"];
  const selection = pack(items, { budget: 20, query: "refund" });
  assert.ok(selection.items.some(({ id }) => id === "a"));
  assert.match(selection.text, /Refunds/);
  assert.equal(selection.explain("b")[0].decision.decision, "excluded");
  assert.ok(selection.receipt().policy);
  assert.equal(selection.whatIf({ budget: 500 }).items.length, 3);
  assert.ok(selection.whatIf({ item: "b" }));
  assert.ok(selection.whatIf({ tokens: 5 }));
  assert.ok(whatIf(items, { min: 0, max: 200 }));
  assert.equal(explain(items, "b", { budget: 20 })[0].decision.decision, "excluded");
});

test("errors have a code, a message, a hint and the budget that is needed", () => {
  const pinned = [{ content: "x", tokens: 50, pinned: true }];
  assert.throws(() => pack(pinned, { budget: 10 }), (error) => {
    assert.equal(error.code, "budget_not_met");
    assert.ok(error.needed >= 50, `${error.needed}`);
    return true;
  });
  assert.throws(() => fitChat(messages, { budget: 1 }), (error) => error.code === "budget_not_met" && error.needed > 1);
  for (const items of ["text", 5, null, undefined, {}]) assert.throws(() => pack(items, { budget: 10 }), /give a list of items/);
  assert.throws(() => pack([], {}), (error) => /budget/.test(`${error.message} ${error.hint}`));
  assert.throws(() => pack([], { budget: 10, colour: "red" }), /colour/);
  assert.throws(() => pack([{ content: 5 }], { budget: 10 }), PannierError);
  assert.throws(() => fitChat("not JSON", { budget: 10 }), PannierError);
  // Nothing that a browser reads is a file, and nothing is a server.
  for (const options of [{ model: "file:tokenizer.json" }, { template: "chat.toml" }, { policy: "policy.toml" }]) {
    assert.throws(() => pack(["a"], { budget: 10, ...options }), (error) => {
      assert.equal(error.code, "invalid_input");
      assert.match(error.message, /reads no tokenizer from files|no template|no policy/);
      return !/server|--/.test(`${error.message} ${error.hint}`);
    });
  }
});

test("hostile values are errors, never a crash", () => {
  const cycle = { role: "user" };
  cycle.content = cycle;
  let deep = [];
  for (let depth = 0; depth < 5_000; depth++) deep = [deep];
  const hostile = [cycle, deep, { content: 10n }, "\ud800", "[".repeat(100_000), { role: "\ud800", content: "\udfff" }, NaN, null, 1e400];
  for (const value of hostile) {
    assert.throws(() => fitChat([value], { budget: 100 }), Error);
    assert.throws(() => pack([{ content: value }], { budget: value }), Error);
  }
  assert.throws(() => count("\ud800"), PannierError);
  assert.ok(count("a".repeat(3_000_000)) > 0);
  assert.equal(count("a long line of a log\n".repeat(5_000_000), { model: "bytes/4" }), 26_250_000);
  assert.throws(() => count("a".repeat(200_000_000), { model: "bytes/4" }), /201 million characters.*takes 135/);
  assert.equal(count("still works"), 2);
});

test("20,000 calls leak nothing", () => {
  // The engine is initialized, so this returns its exports.
  const { memory } = initSync();
  const log = Array.from({ length: 60 }, (_, line) => `line ${line}`).join("\n");
  const call = { id: "a", type: "function", function: { name: "read", arguments: "{}" } };
  const history = [
    { role: "user", content: "Find the error in the log." },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "a", content: log },
  ];
  const options = { budget: 100, model: "bytes/4", provider: "openai" };
  const session = new ChatSession(options);
  const fitted = session.fit(history);
  const selection = pack(["one text", "another text"], { budget: 10, model: "bytes/4" });
  const kinds = [
    () => fitChat(history, { ...options, system: "Be brief." }),
    () => session.fit(history),
    () => session.recall(fitted.cuts[0].id, { lines: "3-4" }),
    () => fitted.explain(2),
    () => fitted.receipt(),
    () => pack(["one text", "another text"], { budget: 10, model: "bytes/4" }),
    () => selection.whatIf({ budget: 5 }),
    () => selection.explain(0),
    () => count("some text", { model: "bytes/4" }),
    () => assert.throws(() => fitChat(history, { budget: 1 }), PannierError),
  ];
  const calls = (most) => {
    for (let number = 0; number < most; number++) kinds[number % kinds.length]();
  };
  calls(2_000);
  const before = memory.buffer.byteLength;
  calls(20_000);
  // A page has 64 KiB; one leaked object a call would be many.
  assert.ok(memory.buffer.byteLength - before <= 1 << 18, `${memory.buffer.byteLength - before}`);
});
