// Inlines the modules, the style sheet and the worker into one page.
//
// usage: node inspector/build.mjs [--check]
//
// Browsers block imports of modules from file:, so the page has one script. The modules have no name twice at their top
// level, so they become one module when their imports and the word `export` are removed. The policy of the page allows only
// this script and this style sheet, by their hashes. The command fills in the engine, vocabularies and data: these are data
// blocks, which do not run. --check fails if the page that is checked in is another.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const MODULES = ["format", "model", "engine", "window", "virtual", "list", "why", "whatif", "text", "session", "export", "live", "main"];
const folder = new URL("./src/", import.meta.url);
const page = new URL("../crates/pannier-inspector/page/", import.meta.url);
const read = (name, base = folder) => readFileSync(new URL(name, base), "utf8");

const names = new Map();
function inlined(name) {
  const text = read(`${name}.js`);
  const imports = [...text.matchAll(/^import \{[^}]*\} from "\.\/(\w+)\.js";\n/gm)];
  for (const [, source] of imports) {
    if (MODULES.indexOf(source) >= MODULES.indexOf(name)) throw new Error(`${name}.js imports ${source}.js, which follows it`);
  }
  const code = text.replace(/^import [^;]*;\n/gm, "").replace(/^export /gm, "");
  for (const [, declared] of code.matchAll(/^(?:async )?(?:const|let|class|function) (\w+|\$)/gm)) {
    if (names.has(declared)) throw new Error(`${name}.js and ${names.get(declared)}.js both declare ${declared}`);
    names.set(declared, name);
  }
  return code.trim();
}

/** The hash of an inline block in a Content-Security-Policy. */
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const without = (text, end) => {
  if (text.toLowerCase().includes(end)) throw new Error(`a block contains ${end}`);
  return text;
};

const script = without(`\n${MODULES.map(inlined).join("\n\n")}\n`, "</script");
const style = without(`\n${read("style.css").trim()}\n`, "</style");
const worker = without(`\n${read("engine.js", page).trim()}\n${read("worker.js").trim()}\n`, "</script");
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)} 'wasm-unsafe-eval'`,
  `style-src ${hash(style)}`,
  "img-src data: blob:",
  "worker-src blob:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const html = read("index.html")
  .replace("@CSP@", () => policy)
  .replace("@STYLE@", () => style)
  .replace("@WORKER@", () => worker)
  .replace("@SCRIPT@", () => script);

const target = new URL("inspector.html", page);
if (process.argv.includes("--check")) {
  if (read("inspector.html", page) !== html) {
    console.error("error: crates/pannier-inspector/page/inspector.html is outdated; run node inspector/build.mjs");
    process.exit(1);
  }
} else {
  writeFileSync(target, html);
}
