// The page in a real browser: five questions, the engine against the command, exports, and what a screen reader needs.

import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { after, before, test } from "node:test";
import { AXE, README, blankPage, close, example, file, openFiles, openPage, pannier, path, pool, readmeExample, view } from "./support.mjs";

let support;
let session;
const RUN = ["examples/support-chat.jsonl", "--reserve", "40", "--policy", "examples/support.toml"];

before(() => {
  support = example();
  pannier("inspect", "session", "examples/session.json", "--budget", "1200", "-f", "json", "-o", path("trace.json"));
  session = view("session.html", path("trace.json"));
});
after(close);

const row = (page, id) => page.locator(".rows .row", { has: page.locator(".id", { hasText: new RegExp(`^${id}$`) }) });

test("the file of the README's example has at most 2 MB, and counts as the command does", async () => {
  const incident = readmeExample();
  assert.ok(statSync(incident).size <= 2_000_000, `${statSync(incident).size} bytes`);
  const { page, problems, close } = await openPage(incident);
  await page.getByText("replayed, identical").waitFor();
  await page.getByRole("tab", { name: "What if" }).click();
  for (const budget of [40, 77, 120, 181, 260, 330]) {
    await page.locator("#budget").fill(String(budget));
    await page.waitForSelector(`body[data-decided="${budget}"]`);
    assert.equal(`${await exported(page, "selection")}\n`, pannier("pack", ...README, "--budget", String(budget), "--format", "json"));
  }
  // The tokens of other files are not in the page.
  await openFiles(page, path("incident.json"), new URL("../../examples/shop/incident.jsonl", import.meta.url).pathname);
  await page.getByText("The engine cannot repeat this run").waitFor();
  assert.deepEqual(problems, []);
  await close();
});

test("a receipt with its items is replayed, and shows every item once", async () => {
  const { page, problems, close } = await openPage(support);
  await page.getByText("replayed, identical").waitFor();
  const ids = await page.locator(".rows .id").allTextContents();
  assert.deepEqual(ids, ["system", "m1", "m2", "m3", "order", "m5", "m6", "refunds", "refunds-copy", "catalogue", "taste"]);
  assert.deepEqual(await page.locator(".rows .row.out .id").allTextContents(), ["m1", "m3", "refunds-copy", "catalogue"]);
  assert.match(await page.locator(".readout").textContent(), /119 tokens of 120 \(99 %\), 7 items of 11 in/);
  assert.deepEqual(problems, []);
  await close();
});

test("question 1: what took most tokens? One click", async () => {
  const { page, problems, close } = await openPage(support);
  await page.getByRole("button", { name: "Tokens", exact: true }).click();
  assert.equal(await page.locator(".rows .id").first().textContent(), "catalogue");
  await page.getByRole("button", { name: "In 7" }).click();
  assert.equal(await page.locator(".rows .id").first().textContent(), "refunds");
  assert.deepEqual(problems, []);
  await close();
});

test("questions 2 and 3: why is m3 out, and what budget lets it in? One click, as --explain says", async () => {
  const { page, problems, close } = await openPage(support);
  await row(page, "m3").click();
  const why = page.locator("#why");
  await why.getByText("Smallest budget above this").waitFor();
  const text = await why.innerText();
  const [{ explanations: [expected] }] = [JSON.parse(pannier("pack", ...RUN, "--budget", "160", "--explain", "m3", "--format", "json"))];
  assert.match(text, /Out\. Budget exceeded: 14 tokens requested, 12 available/);
  assert.match(text, new RegExp(`${expected.smallest_budget.max_tokens} tokens`));
  assert.match(text, new RegExp(`${expected.smaller_budget.max_tokens} tokens`));
  assert.match(text, /0\.1400, rank 6 of 10/);
  for (const { item } of expected.lost_to) assert.match(text, new RegExp(item.id));
  assert.match(text, /at most 13 tokens/);
  assert.deepEqual(problems, []);
  await close();
});

test("question 4: what changed between two turns? One click", async () => {
  const { page, problems, close } = await openPage(session);
  const { turns, blocks } = JSON.parse(readFileSync(path("trace.json"), "utf8"));
  const broken = turns.findIndex((turn) => turn.break);
  assert.ok(broken > 0, "no prefix breaks");
  await page.locator(".turn").nth(broken).click();
  const detail = page.locator(".turn-detail");
  const text = await detail.innerText();
  assert.match(text, new RegExp(`From turn ${broken} to ${broken + 1}: `));
  assert.match(text, /The prefix broke\./);
  const cut = turns[broken].changes.filter((change) => change.block < turns[broken - 1].blocks);
  assert.ok(cut.length > 0);
  assert.equal(await detail.locator("tr.is-cut").count(), cut.filter((change) => change.tokens < blocks[change.block].tokens).length);
  assert.deepEqual(problems, []);
  await close();
});

test("question 5: which items are duplicates? One click", async () => {
  const { page, problems, close } = await openPage(support);
  await page.getByRole("button", { name: "Duplicates 1" }).click();
  assert.deepEqual(await page.locator(".rows .id").allTextContents(), ["refunds-copy"]);
  await row(page, "refunds-copy").click();
  await page.locator("#why").getByText("It repeats").waitFor();
  assert.deepEqual(problems, []);
  await close();
});

/** The bytes that an export saves. */
async function exported(page, name) {
  await page.locator("#export summary").click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-export=${name}]`).click()]);
  return readFileSync(await download.path());
}

test("the slider's selection equals the command's at 50 budgets, byte for byte", async () => {
  const { page, problems, close } = await openPage(support);
  await page.getByRole("tab", { name: "What if" }).click();
  const slider = page.locator("#budget");
  for (let step = 0; step < 50; step++) {
    const budget = 52 + step * 5;
    await slider.fill(String(budget));
    await page.waitForSelector(`body[data-decided="${budget}"]`);
    const expected = pannier("pack", ...RUN, "--budget", String(budget), "--format", "json");
    assert.equal(`${await exported(page, "selection")}\n`, expected, `at ${budget}`);
  }
  assert.deepEqual(problems, []);
  await close();
});

test("what if: the list marks what came in and went out, and the weights are a policy file", async () => {
  const { page, problems, close } = await openPage(support);
  await page.getByRole("tab", { name: "What if" }).click();
  await page.getByText(/The selection changes at \d+ budgets\./).waitFor();
  await page.locator("#budget").fill("238");
  await page.waitForSelector(".row.came-in");
  await page.getByRole("button", { name: /^Changed/ }).click();
  const changed = await page.locator(".rows .row").allInnerTexts();
  assert.ok(changed.every((text) => /^(\+ in|− out)/.test(text)), changed.join("|"));
  await page.getByRole("button", { name: "Reset" }).click();
  await page.waitForFunction(() => document.querySelector(".row.came-in") === null);
  await page.locator("#weight-0").fill("0");
  await page.locator("#choice-slicer").selectOption("knapsack");
  await page.locator("#choice-placer").selectOption("rank");
  await page.getByText(/: \d+ items?, \d+ tokens?\./).waitFor();
  const policy = file("tried.json", (await exported(page, "policy")).toString());
  const expected = pannier("pack", "examples/support-chat.jsonl", "--budget", "160", "--reserve", "40", "--policy", policy, "--format", "json");
  assert.equal(`${await exported(page, "selection")}\n`, expected);
  assert.equal(JSON.parse(readFileSync(policy, "utf8")).slicer, "knapsack");
  const receipt = file("tried-receipt.json", (await exported(page, "receipt")).toString());
  assert.equal(pannier("inspect", "replay", receipt, "examples/support-chat.jsonl"), "identical\n");
  assert.deepEqual(problems, []);
  await close();
});

test("what if: a pin brings an item in", async () => {
  const { page, problems, close } = await openPage(support);
  await row(page, "m1").click();
  await page.getByRole("button", { name: "Pin in What if" }).click();
  await page.waitForSelector(".row.came-in");
  assert.match(await row(page, "m1").innerText(), /\+ in/);
  await page.getByRole("button", { name: "Unpin in What if" }).click();
  await page.waitForFunction(() => document.querySelector(".row.came-in") === null);
  assert.deepEqual(problems, []);
  await close();
});

test("the next change of the slider is a budget at which the selection changes", async () => {
  const { page, problems, close } = await openPage(support);
  await page.getByRole("tab", { name: "What if" }).click();
  await page.getByRole("button", { name: "Next change" }).click();
  const budget = Number(await page.locator("#budget").inputValue());
  await page.waitForSelector(`body[data-decided="${budget}"]`);
  const ids = (tokens) => JSON.parse(pannier("pack", ...RUN, "--budget", String(tokens), "--format", "json")).items.map(({ id }) => id).join();
  for (let tokens = 160; tokens < budget; tokens++) assert.equal(ids(tokens), ids(160));
  assert.notEqual(ids(budget), ids(160));
  assert.deepEqual(problems, []);
  await close();
});

test("a click on the window filters the list", async () => {
  const { page, problems, close } = await openPage(support);
  await page.getByRole("button", { name: /^Pinned: 12 tokens/ }).click();
  assert.deepEqual(await page.locator(".rows .id").allTextContents(), ["system"]);
  await page.getByRole("button", { name: /Pinned.*remove this filter/ }).click();
  assert.equal(await page.locator(".rows .id").count(), 11);
  assert.deepEqual(problems, []);
  await close();
});

test("the text has each item's span, and matched terms", async () => {
  const receipt = path("query.json");
  const words = ["examples/support-chat.jsonl", "--budget", "120", "--query", "how long do refunds take"];
  const text = pannier("pack", ...words, "--receipt", receipt);
  const { page, problems, close } = await openPage(view("query.html", receipt, "examples/support-chat.jsonl"));
  await page.getByText("replayed, identical").waitFor();
  await page.getByRole("tab", { name: "Text" }).click();
  await page.locator(".text-rows mark").first().waitFor();
  const marks = new Set((await page.locator(".text-rows mark").allTextContents()).map((word) => word.toLowerCase()));
  assert.ok(marks.has("refund"), [...marks].join());
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy text" }).click();
  await page.getByText("Copied.").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
  await page.locator(".text-rows .span").first().click();
  await page.locator("#why h3").waitFor();
  assert.deepEqual(problems, []);
  await close();
});

test("a text that is counted by an encoding has its vocabulary in the page", async () => {
  const receipt = path("counted.json");
  const run = ["examples/support-chat.jsonl", "--tokenizer", "gpt-5", "--template", "examples/tagged.toml"];
  pannier("pack", ...run, "--budget", "60", "--receipt", receipt);
  const { page, problems, close } = await openPage(view("counted.html", receipt, "examples/support-chat.jsonl"));
  await page.getByText("replayed, identical").waitFor();
  await page.getByRole("tab", { name: "What if" }).click();
  await page.locator("#budget").fill("90");
  await page.waitForSelector('body[data-decided="90"]');
  assert.equal(`${await exported(page, "selection")}\n`, pannier("pack", ...run, "--budget", "90", "--format", "json"));
  assert.deepEqual(problems, []);
  await close();
});

test("pictures are SVG and PNG", async () => {
  for (const page of [support, session]) {
    const opened = await openPage(page);
    assert.match((await exported(opened.page, "svg")).toString(), /^<svg [^]*<\/svg>$/);
    assert.equal((await exported(opened.page, "png")).subarray(1, 4).toString(), "PNG");
    assert.deepEqual(opened.problems, []);
    await opened.close();
  }
});

test("every form of file opens", async () => {
  const report = path("report.json");
  pannier("pack", ...RUN, "--budget", "160", `--report=${report}`);
  const chat = path("chat.json");
  pannier("chat", "examples/agent.json", "--provider", "openai", "--budget", "220", "--once", `--report=${chat}`);
  const cuts = path("cuts.json");
  pannier("chat", "examples/session.json", "--budget", "1200", `--report=${cuts}`);
  const index = path("index");
  pannier("docs", "index", "examples/handbook", "--index", index);
  const found = file("found.json", pannier("docs", "search", "how do we roll back?", "--budget", "400", "--index", index, "--format", "json"));
  const whole = file("whole.json", pannier("docs", "read", "roll back", "--budget", "400", "--index", index, "--format", "json"));
  pannier("build", "--sources", "examples/handbook", "--cache", path("cache"));
  const context = file("context.json", pannier("assemble", "--cache", path("cache"), "--query", "roll back", "--budget", "60", "--format", "json"));
  const packet = file("packet.json", pannier("memory", "examples/harbour", "--budget", "420", "--format", "json"));
  const selection = file("selection.json", pannier("pack", ...RUN, "--budget", "160", "--format", "json"));
  const items = file("items.jsonl", readFileSync(new URL("../../examples/support-chat.jsonl", import.meta.url), "utf8"));
  for (const opened of [report, chat, cuts, found, whole, context, packet, selection, items, path("support.json")]) {
    const { page, problems, close } = await openPage(view("form.html", opened));
    assert.ok((await page.locator(".rows .row").count()) > 0, opened);
    await page.locator(".rows .row").first().click();
    await page.locator("#why h3").waitFor();
    assert.deepEqual(problems, [], opened);
    await close();
  }
});

test("files are dropped, and a receipt finds its items", async () => {
  const { page, problems, close } = await openPage(blankPage(), { isReady: "start" });
  const items = new URL("../../examples/support-chat.jsonl", import.meta.url).pathname;
  await openFiles(page, path("support.json"), items);
  await page.getByText("replayed, identical").waitFor();
  await page.evaluate((text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], "dropped.json", { type: "application/json" }));
    document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  }, readFileSync(path("trace.json"), "utf8"));
  await page.locator(".turn").first().waitFor();
  assert.deepEqual(problems, []);
  await close();
});

test("everything works without a mouse", async () => {
  const { page, problems, close } = await openPage(support);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.locator(".grid").focus();
  await page.keyboard.press("Home");
  for (let step = 0; step < 3; step++) await page.keyboard.press("ArrowDown");
  assert.equal(await page.locator(".grid").getAttribute("aria-activedescendant"), "row-3");
  await page.locator("#why").getByText("Smallest budget above this").waitFor();
  await page.locator("#tab-why").focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.activeElement.id), "tab-whatif");
  await page.locator("#budget").focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector('body[data-decided="161"]');
  await page.locator(".bar .part").first().focus();
  await page.keyboard.press("ArrowRight");
  const label = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  assert.equal(await page.locator(".readout").textContent(), label.replace(". Filter the list.", ""));
  assert.deepEqual(problems, []);
  await close();
  const turns = await openPage(session);
  await turns.page.locator(".turn[tabindex='0']").focus();
  await turns.page.keyboard.press("Home");
  assert.match(await turns.page.locator(".turn-detail h3").textContent(), /^Turn 1$/);
  await turns.page.keyboard.press("ArrowRight");
  assert.match(await turns.page.locator(".turn-detail h3").textContent(), /^Turn 2$/);
  assert.deepEqual(turns.problems, []);
  await turns.close();
});

test("axe-core finds no violation on any view, light and dark, wide and narrow", async () => {
  const violations = async (page, name) => {
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const found = violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes.slice(0, 3).map(({ target }) => target).join(" ")}`);
    assert.deepEqual(found, []);
  };
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      const { page, close } = await openPage(support, { colorScheme, width });
      await violations(page, "selection");
      await row(page, "m3").click();
      await page.locator("#why").getByText("Smallest budget above this").waitFor();
      await violations(page, "why");
      await page.getByRole("tab", { name: "What if" }).click();
      await page.locator("#budget").fill("238");
      await page.waitForSelector(".row.came-in");
      await violations(page, "what if");
      await page.getByRole("tab", { name: "Text" }).click();
      await page.locator(".text-rows .span").first().waitFor();
      await violations(page, "text");
      await page.locator("#export summary").click();
      await violations(page, "export");
      await close();
      const turns = await openPage(session, { colorScheme, width });
      await turns.page.locator(".turn").nth(5).click();
      await violations(turns.page, "session");
      await turns.close();
      const blank = await openPage(blankPage(), { colorScheme, width, isReady: "start" });
      await violations(blank.page, "start");
      await blank.close();
    }
  }
});

test("nothing overflows a narrow page, and paper has every row", async () => {
  for (const name of [support, session]) {
    const { page, close } = await openPage(name, { width: 360 });
    const [inner, scroll] = await page.evaluate(() => [window.innerWidth, document.documentElement.scrollWidth]);
    assert.ok(scroll <= inner, `${name}: ${scroll} of ${inner}`);
    await close();
  }
  const many = view("many.html", file("many.jsonl", pool(300)));
  const { page, close } = await openPage(many);
  assert.ok((await page.locator(".rows .row").count()) < 100);
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  assert.equal(await page.locator(".rows .row").count(), 300);
  await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
  assert.ok((await page.locator(".rows .row").count()) < 100);
  await close();
});
