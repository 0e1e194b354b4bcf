// Hostile files: a clear message, or the text as text. Nothing runs, nothing is requested, and the page stays usable.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { blankPage, close, example, file, openFiles, openPage, path } from "./support.mjs";

let blank;
let receipt;
before(() => {
  example();
  receipt = JSON.parse(readFileSync(path("support.json"), "utf8"));
  blank = blankPage();
});
after(close);

const MARKUP = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "</script><script>alert(1)</script>",
  "<svg onload=alert(1)>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<style>*{display:none}</style>",
  "<base href='https://example.com/'>",
  "<meta http-equiv=refresh content='0;url=https://example.com'>",
  "<link rel=stylesheet href='https://example.com/x.css'>",
  "javascript:alert(1)",
  "\" onmouseover=\"alert(1)",
  "<a href='javascript:alert(1)'>x</a>",
];
const CHARACTERS = {
  bidi: "\u202etxt.exe\u202c",
  isolate: "\u2066a\u2067b\u2069",
  control: "a\u0000b\u0007c\u001b[31md",
  "line separators": "a\u2028b\u2029c",
  "a lone surrogate": "a\ud800b",
  "combining characters": `a${"\u0301".repeat(5000)}`,
  emoji: "👩‍👩‍👧‍👦".repeat(200),
};

/** A report whose every text is this one. */
const report = (text) =>
  JSON.stringify({
    included: [{ item: { content: text, tokens: 5, kind: text, id: text, tags: [text], metadata: { document: text }, timestamp: text, group: text }, score: 0.5, reason: { reason: "Scored" } }],
    excluded: [{ item: { content: `${text}2`, tokens: 5, kind: text, id: text }, score: 0.1, reason: { reason: text, item_tokens: text } }],
    ledger: { window: 20, output_reserve: 0, fixed: 0, framing: 0, items: 5, joins: 0, slack: 15 },
  });
const changed = (change) => JSON.stringify({ ...receipt, ...change });

// Files that are shown, with a text that must be on the page.
const shown = [
  ...MARKUP.map((text, index) => [`markup ${index}`, report(text), text]),
  ...Object.entries(CHARACTERS).map(([name, text]) => [name, report(text), null]),
  ["ids of 1 MB", report("x".repeat(1 << 20)), null],
  ["a receipt with markup", changed({ items: receipt.items.map((item) => ({ ...item, id: MARKUP[1] })), tokenizer: MARKUP[0], policy: { name: MARKUP[2] } }), MARKUP[1]],
  ["keys of prototypes", report("__proto__").replace('"kind":"__proto__"', '"kind":"constructor","__proto__":{"isIn":true}'), null],
];

// Files that are refused, with a part of the message.
const refused = [
  ["not JSON", "{", /not JSON/],
  ["empty", "", /is empty/],
  ["a number", "3", /not an object/],
  ["null", "null", /not an object/],
  ["a list of numbers", "[1,2]", /not of items/],
  ["an unknown object", '{"a":1}', /not a file of Pannier/],
  ["deep JSON", "[".repeat(200_000) + "]".repeat(200_000), /too deep|not JSON|not of items/],
  ["items that are no list", changed({ items: 3 }), /items is not a list/],
  ["an item that is no object", changed({ items: [null] , selected: [] }), /items\[0\] is not a object|items\[0\] is not an object/],
  ["a selection of what is not there", changed({ selected: [99999] }), /selected names an item/],
  ["a selection twice", changed({ selected: [0, 0] }), /selected names an item/],
  ["a selection of texts", changed({ selected: ["<b>x</b>"] }), /selected names an item/],
  ["no budget", changed({ budget: null }), /budget is not a/],
  ["an endless budget", changed({ budget: { maxTokens: "∞" } }), /budget.maxTokens is not a number/],
  ["a report of the wrong types", '{"included":{},"excluded":[]}', /included is not a list/],
  ["a report with an empty entry", '{"included":[{}],"excluded":[]}', /included\[0\].item is not/],
  ["a session without turns", '{"session":1,"blocks":[],"turns":[]}', /no turns/],
  ["a session with a wrong block", '{"session":1,"blocks":[],"turns":[{"blocks":0,"tokens":1,"history":1,"read":0,"written":1,"dropped":0,"price":1,"changes":[{"block":7}]}]}', /out of range/],
];

test(`${shown.length} hostile files are shown as text`, async () => {
  const { page, problems, close } = await openPage(blank, { isReady: "start" });
  for (const [name, text, expected] of shown) {
    await openFiles(page, file("hostile.json", text));
    await page.waitForSelector("body[data-ready=yes]");
    await page.locator(".rows .row").first().click();
    await page.locator("#why h3").waitFor();
    if (await page.locator("#tab-text").isVisible()) await page.locator("#tab-text").click();
    const found = await page.evaluate(() => ({
      text: document.body.textContent,
      foreign: document.querySelectorAll("main :is(script, img, iframe, style, base, meta, link, a, object, embed)").length,
    }));
    if (expected !== null) assert.ok(found.text.includes(expected), name);
    assert.equal(found.foreign, 0, name);
    assert.doesNotMatch(await page.locator("main").innerText(), /[\u202a-\u202e\u2066-\u2069\u0000-\u0008]/, name);
    assert.equal(await page.locator("#problem").isHidden(), true, name);
    assert.deepEqual(problems, [], name);
  }
  await close();
});

test(`${refused.length} damaged files are refused with a message, and the next one opens`, async () => {
  const { page, problems, close } = await openPage(blank, { isReady: "start" });
  for (const [name, text, message] of refused) {
    await openFiles(page, file("damaged.json", text));
    await page.waitForSelector("body[data-ready=problem]");
    assert.match(await page.locator("#problem").textContent(), message, name);
    await page.evaluate(() => (document.body.dataset.ready = "no"));
  }
  await openFiles(page, path("support.json"), new URL("../../examples/support-chat.jsonl", import.meta.url).pathname);
  await page.getByText("replayed, identical").waitFor();
  assert.equal(await page.locator("#problem").isHidden(), true);
  assert.deepEqual(problems, []);
  await close();
});

test("a receipt that was changed is shown without the engine, and says why", async () => {
  const { page, problems, close } = await openPage(blank, { isReady: "start" });
  const items = new URL("../../examples/support-chat.jsonl", import.meta.url).pathname;
  for (const change of [{ selected: [0] }, { policy: { scorers: [{ type: "<b>" }] } }, { engine: "9" }]) {
    await openFiles(page, file("changed.json", changed(change)), items);
    await page.getByText("The engine cannot repeat this run").waitFor();
    assert.equal(await page.locator(".rows .row").count(), 11);
    await page.evaluate(() => document.querySelector("#notes").replaceChildren());
  }
  // Other items than the recorded ones.
  await openFiles(page, path("support.json"), file("other.jsonl", readFileSync(items, "utf8").replace("shop", "ship")));
  await page.getByText(/✗ item 0 \(system\) has changed/).waitFor();
  assert.deepEqual(problems, []);
  await close();
});
