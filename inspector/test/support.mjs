// What the tests share: the command, the page, and a browser that reports every error and every request.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const ROOT = new URL("../../", import.meta.url);
export const FOLDER = mkdtempSync(join(tmpdir(), "pannier-inspector-"));
const PROGRAM = process.env.PANNIER_PROGRAM ?? new URL("target/debug/pannier", ROOT).pathname;
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const require = createRequire(process.env.INSPECTOR_TOOLS ?? new URL("target/inspector/", ROOT));
const { chromium } = require("playwright-core");
export const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** Runs the command in the root of the repository. */
export function pannier(...words) {
  return execFileSync(PROGRAM, words, { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "pipe"] });
}

/** The path of a new file with this text. */
export function file(name, text) {
  mkdirSync(FOLDER, { recursive: true });
  const path = join(FOLDER, name);
  writeFileSync(path, text);
  return path;
}

export const path = (name) => join(FOLDER, name);

/** The page as the command writes it, with these files. */
export function view(name, ...words) {
  const page = path(name);
  pannier("inspect", "view", ...words, "-o", page);
  return page;
}

/** The page without files, as the server sends it, but without a vocabulary. */
export function blankPage() {
  const folder = new URL("crates/pannier-inspector/page/", ROOT);
  const engine = readFileSync(new URL("engine.wasm.gz", folder)).toString("base64");
  const html = readFileSync(new URL("inspector.html", folder), "utf8");
  return file("blank.html", html.replace("@ENGINE@", () => engine).replace("@VOCABULARIES@\n", "").replace("@DATA@", ""));
}

/** The README's example, whose text is counted: the page has the tokens that it can have. */
export const README = ["examples/shop/incident.jsonl", "--policy", "examples/shop/on-call.toml", "--query", "why do refunds fail?"];

export function readmeExample() {
  pannier("pack", ...README, "--budget", "180", "--receipt", path("incident.json"));
  return view("incident.html", path("incident.json"), "examples/shop/incident.jsonl");
}

/** An example with a reserve, whose items have their tokens. */
export function example() {
  const receipt = path("support.json");
  pannier("pack", "examples/support-chat.jsonl", "--budget", "160", "--reserve", "40", "--policy", "examples/support.toml", "--receipt", receipt);
  return view("support.html", receipt, "examples/support-chat.jsonl");
}

/** A pool of many items, as JSON lines. */
export function pool(count, words = 12) {
  const kinds = ["Message", "Document", "ToolOutput", "Memory"];
  const lines = Array.from({ length: count }, (_, index) => {
    const content = Array.from({ length: words }, (_, word) => `word${(index * 31 + word * 7) % 997}`).join(" ");
    return JSON.stringify({
      id: `item-${index}`,
      content: `${index} ${content}`,
      tokens: 5 + ((index * 37) % 90),
      kind: kinds[index % kinds.length],
      priority: (index * 13) % 101,
      timestamp: new Date(Date.UTC(2026, 0, 1) + index * 1000).toISOString().replace(".000", ""),
    });
  });
  return lines.join("\n") + "\n";
}

let browser = null;

export async function launch() {
  browser ??= await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  return browser;
}

export async function close() {
  await browser?.close();
  browser = null;
}

/** Opens a page. `problems` collects errors of the console and requests to anywhere. */
export async function openPage(file, { width = 1280, height = 800, colorScheme = "light", isReady = "yes", ...options } = {}) {
  const context = await (await launch()).newContext({ viewport: { width, height }, colorScheme, acceptDownloads: true, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => message.type() === "error" && problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  const own = pathToFileURL(file).href;
  context.on("request", (request) => {
    const url = request.url();
    if (url.split("#")[0] !== own && !url.startsWith("blob:") && !url.startsWith("data:")) problems.push(`request: ${url}`);
  });
  await page.goto(own);
  if (isReady !== null) await page.waitForSelector(`body[data-ready=${isReady}]`, { timeout: 60_000 });
  return { page, problems, close: () => context.close() };
}

/** Starts a server of the command. `url` is its address, `inspect` that of a gateway's sessions. */
export async function start(...words) {
  const process = spawn(PROGRAM, words, { cwd: ROOT, stdio: ["ignore", "ignore", "pipe"] });
  const found = {};
  let text = "";
  await new Promise((resolve, reject) => {
    process.stderr.setEncoding("utf8").on("data", (part) => {
      text += part;
      found.inspect ??= /the running sessions are at (http:\/\/[0-9.:]+)/.exec(text)?.[1];
      found.url ??= /listening at (http:\/\/[0-9.:]+)/.exec(text)?.[1];
      if (found.url && (found.inspect || !words.includes("--inspect"))) resolve();
    });
    process.on("exit", (code) => reject(new Error(`${words.join(" ")} ended with ${code}: ${text}`)));
  });
  process.removeAllListeners("exit");
  return { ...found, stop: () => process.kill() };
}

/** Opens the page of a server. `requests` collects the addresses that it asks for. */
export async function openUrl(url, { width = 1280, height = 800, colorScheme = "light" } = {}) {
  const context = await (await launch()).newContext({ viewport: { width, height }, colorScheme });
  const page = await context.newPage();
  const [problems, requests] = [[], []];
  page.on("console", (message) => message.type() === "error" && problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  context.on("request", (request) => {
    const asked = request.url();
    if (!asked.startsWith("blob:") && !asked.startsWith("data:")) requests.push(asked);
  });
  await page.goto(url);
  await page.waitForSelector("body[data-ready=start]");
  return { page, problems, requests, close: () => context.close() };
}

/** Opens files in a page by its input. Until the page has read them, it is not ready. */
export async function openFiles(page, ...files) {
  await page.evaluate(() => (document.body.dataset.ready = "opening"));
  await page.locator("input[type=file]").first().setInputFiles(files);
}
