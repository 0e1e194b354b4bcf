// The package gives the same bytes as the command. PANNIER_PROGRAM names the command; VECTORS the output of vectors.py.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { loadEncoding } from "../index.js";
import { run } from "../engine/pannier_js.js";
import { chats } from "./chats.js";

const program = process.env.PANNIER_PROGRAM;
const skip = program ? false : "PANNIER_PROGRAM is not set";
const folder = mkdtempSync(join(tmpdir(), "pannier-js-"));
after(() => rmSync(folder, { recursive: true }));

await Promise.all([loadEncoding("o200k"), loadEncoding("cl100k")]);

/** What the package prints: a text of the answer, or the code of the failure. */
function engine(operation, request, field) {
  let output;
  try {
    output = run(operation, JSON.stringify(request));
  } catch (error) {
    return { code: JSON.parse(error).code };
  }
  const text = output[field];
  output.free();
  return { text };
}

const CODES = { 1: "check_failed", 2: "invalid_input", 3: "budget_not_met" };

/** What the command prints. */
function command(args) {
  return new Promise((resolve) => {
    const options = { encoding: "utf8", maxBuffer: 1 << 28, cwd: folder };
    execFile(program, args, options, (error, stdout, stderr) => {
      resolve(error ? { code: CODES[error.code] ?? `${error.code}: ${stderr}` } : { text: stdout });
    });
  });
}

/** Runs the cases on all cores, and returns how many succeed. */
async function compare(cases) {
  let next = 0;
  let succeeded = 0;
  const work = async () => {
    while (next < cases.length) {
      const { name, args, ours } = cases[next++];
      const theirs = await command(args);
      assert.deepEqual(ours, theirs, name);
      succeeded += theirs.text === undefined ? 0 : 1;
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return succeeded;
}

test("every conformance vector", { skip: skip || (process.env.VECTORS ? false : "VECTORS is not set") }, async () => {
  const vectors = Object.entries(JSON.parse(readFileSync(process.env.VECTORS, "utf8")));
  const cases = vectors.map(([name, request], index) => {
    const [items, policy] = [join(folder, `${index}.jsonl`), join(folder, `${index}.json`)];
    writeFileSync(items, request.items.map((item) => `${JSON.stringify(item)}\n`).join(""));
    writeFileSync(policy, JSON.stringify(request.policy));
    const args = ["pack", items, "--format", "json", "--policy", policy];
    for (const key of ["budget", "target", "reserve", "margin", "now"]) {
      if (request[key] !== undefined) args.push(`--${key}`, `${request[key]}`);
    }
    for (const slot of request.slots ?? []) args.push("--slot", slot);
    const { text, code } = engine("pack", request, "answer");
    return { name, args, ours: code ? { code } : { text: `${text}\n` } };
  });
  const succeeded = await compare(cases);
  console.log(`${cases.length} vectors, ${succeeded} of them with a selection`);
  assert.ok(cases.length > 500 && succeeded > 430);
});

test("generated chats", { skip }, async () => {
  const count = Number(process.env.CHATS ?? 500);
  const cases = chats(count).map(({ chat, options }, index) => {
    const file = join(folder, `chat-${index}.json`);
    writeFileSync(file, chat);
    const args = ["chat", file];
    for (const [key, value] of Object.entries(options)) args.push(value === true ? `--${key}` : `--${key}=${value}`);
    return { name: `chat ${index}: ${args.join(" ")}`, args, ours: engine("chat", { transcript: chat, ...options }, "text") };
  });
  const succeeded = await compare(cases);
  console.log(`${cases.length} chats, ${succeeded} of them fit`);
  assert.ok(succeeded > count / 2);
});
