// The page of a running server, and of a running gateway, in a real browser.

import assert from "node:assert/strict";
import { chmodSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { AXE, close, file, openUrl, pannier, path, start } from "./support.mjs";

const TOKEN = "0123456789abcdef";
const SECRET = "the secret of the fake history";
let tokens;
let open;
let guarded;
let gateway;
let provider;
let received = 0;

before(async () => {
  tokens = file("tokens", `tester ${TOKEN}\n`);
  chmodSync(tokens, 0o600);
  pannier("docs", "index", "examples/handbook", "--index", path("handbook"));
  const folders = ["--index", `handbook=${path("handbook")}`, "--memory", "examples/harbour"];
  open = await start("serve", "--http", "0", ...folders);
  guarded = await start("serve", "--http", "0", "--token-file", tokens, ...folders);
  provider = createServer((request, response) => {
    request.resume().on("end", () => {
      received++;
      response.setHeader("Content-Type", "application/json").end('{"type":"message","usage":{"input_tokens":1}}');
    });
  });
  await new Promise((resolve) => provider.listen(0, "127.0.0.1", resolve));
  const upstream = `http://127.0.0.1:${provider.address().port}`;
  gateway = await start("gateway", "--upstream", upstream, "--budget", "4000", "--http", "0", "--inspect", "0", "--inspect-token-file", tokens, "--tokenizer", "bytes/4");
});

after(async () => {
  for (const process of [open, guarded, gateway]) process?.stop();
  provider?.close();
  await close();
});

const ask = async (page, operation, query, budget) => {
  await page.locator(`[data-operation=${operation}]`).click();
  if (query !== null) await page.getByLabel("Query").fill(query);
  await page.getByLabel("Budget in tokens").fill(String(budget));
  await page.getByRole("button", { name: "Send" }).click();
};

/** Checks a view with axe-core. */
async function accessible(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
}

test("the page of a server asks it, and shows the answers", async () => {
  const { page, problems, requests, close } = await openUrl(open.url);
  await accessible(page);
  await ask(page, "search", "roll back a deploy", 400);
  await page.waitForSelector("body[data-ready=yes]");
  const first = await page.locator(".rows .id").first().textContent();
  assert.match(first, /rollback\.md|deploy\.md/);
  assert.match(await page.locator(".readout").textContent(), /of 400/);
  await accessible(page);
  await page.getByRole("tab", { name: "Text" }).click();
  await page.locator(".text-rows mark").first().waitFor();
  await page.getByRole("button", { name: "New request" }).click();
  await page.evaluate(() => delete document.body.dataset.ready);
  await ask(page, "memory", "", 600);
  await page.waitForSelector("body[data-ready=yes]");
  assert.match(await page.locator("#badges").textContent(), /Packet/);
  // The runs of the page can be shown again, without a request.
  await page.getByRole("button", { name: "New request" }).click();
  const before = requests.length;
  await page.getByRole("button", { name: "search: roll back a deploy" }).click();
  await page.locator(".rows .id").first().waitFor();
  assert.equal(await page.locator(".rows .id").first().textContent(), first);
  assert.equal(requests.length, before);
  assert.deepEqual([...new Set(requests.map((url) => new URL(url).pathname))], ["/", "/v1/search", "/v1/memory"]);
  assert.deepEqual(problems, []);
  await close();
});

test("items are packed by the server, which explains each of them", async () => {
  const { page, problems, close } = await openUrl(open.url);
  await page.locator("[data-operation=pack]").click();
  await page.locator("#live-items").setInputFiles(new URL("../../examples/support-chat.jsonl", import.meta.url).pathname);
  await page.locator("summary", { hasText: "Other options" }).click();
  await page.getByLabel("Options as JSON").fill('{"reserve": 40}');
  await ask(page, "pack", null, 160);
  await page.waitForSelector("body[data-ready=yes]");
  assert.equal(await page.locator(".rows .row").count(), 11);
  const out = page.locator(".rows .row.out").first();
  await out.click();
  await page.locator("#why h4", { hasText: "Score" }).waitFor();
  assert.deepEqual(problems, []);
  await close();
});

test("a token is asked for, kept in memory only, and sent to this server only", async () => {
  const { page, problems, requests, close } = await openUrl(guarded.url);
  await ask(page, "search", "deploy", 300);
  await page.getByText("The server needs a token: paste one above.").waitFor();
  await page.getByLabel("Token", { exact: true }).fill("wrong-wrong-wrong");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("The server does not know this token.").waitFor();
  await page.getByLabel("Token", { exact: true }).fill("tök→n");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("The token has characters that no token has.").waitFor();
  await page.getByLabel("Token", { exact: true }).fill(TOKEN);
  await page.getByRole("button", { name: "Send" }).click();
  await page.waitForSelector("body[data-ready=yes]");
  assert.ok(requests.every((url) => url.startsWith(guarded.url) && !url.includes(TOKEN)));
  const kept = await page.evaluate(() => [document.cookie, localStorage.length, sessionStorage.length, document.documentElement.outerHTML.includes("0123456789abcdef")]);
  assert.deepEqual(kept, ["", 0, 0, false]);
  await page.reload();
  assert.equal(await page.getByLabel("Token", { exact: true }).inputValue(), "");
  // Answers with the status 401 are errors of the console, too.
  assert.ok(problems.every((problem) => /status of 401/.test(problem)), problems.join("\n"));
  await close();
});

test("mistakes get clear answers, and the policy allows no other host", async () => {
  const { page, problems, close } = await openUrl(open.url);
  for (const [options, message] of [
    ["{", "The options are not JSON"],
    ["[1]", "The options are not a JSON object"],
    ['{"index": "handbok"}', "there is no index 'handbok'; index is one of handbook"],
    ['{"index": "/etc"}', "there is no index"],
  ]) {
    if (!(await page.getByLabel("Options as JSON").isVisible())) await page.locator("summary", { hasText: "Other options" }).click();
    await page.getByLabel("Options as JSON").fill(options);
    await ask(page, "search", "deploy", 300);
    await page.getByText(message).waitFor();
  }
  await page.getByLabel("Options as JSON").fill("");
  await ask(page, "search", "deploy", "many");
  await page.getByText("The budget is not a number of tokens").waitFor();
  const isBlocked = await page.evaluate(() => fetch("http://127.0.0.1:1/").then(() => false, () => true));
  assert.ok(isBlocked);
  assert.ok(problems.some((problem) => /Content Security Policy/.test(problem)));
  await close();
});

/** Sends a request of an agent through the gateway. */
async function turn(count) {
  const messages = [{ role: "user", content: `Fix it. ${SECRET}` }];
  for (let number = 0; number < count; number++) {
    const text = Array.from({ length: 60 }, (_, word) => `word${number}x${word}`).join(" ");
    messages.push({ role: "assistant", content: [{ type: "tool_use", id: `c${number}`, name: "Bash", input: { command: `run ${number}` } }] });
    messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: `c${number}`, content: text }] });
  }
  const body = JSON.stringify({ model: "claude-x", max_tokens: 100, messages });
  const answer = await fetch(`${gateway.url}/v1/messages`, { method: "POST", headers: { "x-api-key": "k", "content-type": "application/json" }, body });
  assert.equal(answer.status, 200);
}

test("the page of a gateway shows the running sessions as they grow", async () => {
  const { page, problems, requests, close } = await openUrl(gateway.inspect);
  await page.getByLabel("Token", { exact: true }).fill(TOKEN);
  await page.getByRole("button", { name: "Show the sessions" }).click();
  await page.getByText("The gateway has no sessions yet.").waitFor();
  for (const count of [10, 20, 30]) await turn(count);
  await page.locator("[data-session]").waitFor({ timeout: 10_000 });
  await accessible(page);
  await page.locator("[data-session]").click();
  await page.locator(".turn").nth(2).waitFor();
  assert.equal(await page.locator(".turn").count(), 3);
  await page.getByText(/blocks are shorter than the agent sent them/).waitFor();
  await page.locator(".cuts table").waitFor();
  await accessible(page);
  assert.equal(await page.locator(".turn.has-break").count(), 1);
  // A new request appears by itself, and a turn that was chosen stays.
  await page.locator(".turn").first().click();
  await turn(31);
  await page.locator(".turn").nth(3).waitFor({ timeout: 10_000 });
  assert.equal(await page.locator(".turn[aria-pressed=true]").getAttribute("data-turn"), "0");
  await page.getByRole("button", { name: "All sessions" }).click();
  await page.locator("[data-session]").waitFor();
  assert.ok(!(await page.content()).includes(SECRET));
  assert.ok(requests.every((url) => url.startsWith(gateway.inspect) && !url.includes(TOKEN)));
  assert.deepEqual(problems, []);
  assert.equal(received, 4);
  await close();
});
