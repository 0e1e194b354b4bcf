// Compares the engine in Chromium with the answers of the command, and runs the examples of the documents there.
// usage: node browser.mjs CHROMIUM CASES DOCUMENT...    (where `playwright-core` is installed; CASES as for runtime.mjs)

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

import { blocks } from "./blocks.mjs";

const { chromium } = createRequire(join(process.cwd(), "package.json"))("playwright-core");
const [program, cases, ...documents] = process.argv.slice(2);
const root = fileURLToPath(new URL("..", import.meta.url));
const TYPES = { ".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html" };
// A page without a bundler finds the package by an import map.
const PAGE = `<!doctype html><script type="importmap">{ "imports": { "pannier": "/index.js" } }</script>`;

const server = createServer((request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
  const send = (type, body) => response.writeHead(200, { "content-type": type }).end(body);
  try {
    if (path === "/") send("text/html", PAGE);
    else if (path === "/cases.json") send("application/json", readFileSync(cases));
    else send(TYPES[extname(path)] ?? "application/octet-stream", readFileSync(join(root, path)));
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const browser = await chromium.launch({
  executablePath: program,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
let failed = false;
try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => {
    console.error(`error: ${error.message}`);
    failed = true;
  });
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const { count, names } = await page.evaluate(async () => {
    const { differences } = await import("/test/same.js");
    const cases = await (await fetch("/cases.json")).json();
    return { count: cases.length, names: differences(cases) };
  });
  console.log(`Chromium ${browser.version()}: ${count} cases, ${names.length} differ from the command ${names.slice(0, 5).join(", ")}`.trim());
  failed ||= names.length > 0 || count <= 1_000;

  let printed = [];
  page.on("console", (message) => printed.push(message.text()));
  let examples = 0;
  for (const { file, code, expected } of documents.flatMap(blocks)) {
    printed = [];
    const module = `data:text/javascript,${encodeURIComponent(code)}`;
    await page.evaluate((module) => import(module), module);
    // Consoles of browsers and Node print lists differently.
    const texts = (lines) => lines.join("\n").replace(/[\s[\],]+/g, " ").trim();
    if (texts(printed) !== texts(expected)) {
      console.error(`error: ${file}: in Chromium a block prints\n${printed.join("\n")}\ninstead of\n${expected.join("\n")}`);
      failed = true;
    }
    examples++;
  }
  console.log(`Chromium: ${examples} blocks print what they say`);
} finally {
  await browser.close();
  server.close();
}
process.exitCode = failed ? 1 : 0;
