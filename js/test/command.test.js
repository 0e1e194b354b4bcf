// The package gives the same bytes as the command. PANNIER_PROGRAM names the command, CASES the output of
// python/tests/cases.py. EXPECTED names a file for the cases with the command's answers, which other runtimes compare with.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { answer, isExpected } from "./same.js";

const { PANNIER_PROGRAM: program, CASES, EXPECTED } = process.env;
const skip = program && CASES ? false : "PANNIER_PROGRAM or CASES is not set";
const { vectors = {}, chats = {} } = skip ? {} : JSON.parse(readFileSync(CASES, "utf8"));
const folder = mkdtempSync(join(tmpdir(), "pannier-js-"));
const compared = [];
after(() => {
  rmSync(folder, { recursive: true });
  if (EXPECTED) writeFileSync(EXPECTED, JSON.stringify(compared));
});

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

/** Options as the command has them. */
function flags(request) {
  const names = ["budget", "target", "reserve", "margin", "now", "provider", "tokenizer", "query"];
  const given = names.filter((name) => request[name] !== undefined).map((name) => `--${name}=${request[name]}`);
  return [...given, ...(request.slots ?? []).map((slot) => `--slot=${slot}`), ...(request.once ? ["--once"] : [])];
}

/** Runs the cases on all cores, and returns how many succeed. */
async function compare(cases) {
  let next = 0;
  let succeeded = 0;
  const work = async () => {
    while (next < cases.length) {
      const { args, ...one } = cases[next++];
      const expected = await command(args);
      assert.deepEqual(answer(one), expected, one.name);
      assert.ok(isExpected({ ...one, expected }), `${one.name}: the package gives something else`);
      compared.push({ ...one, expected });
      succeeded += expected.text === undefined ? 0 : 1;
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return succeeded;
}

test("every conformance vector", { skip }, async () => {
  const cases = Object.entries(vectors).map(([name, request], index) => {
    const [items, policy] = [join(folder, `${index}.jsonl`), join(folder, `${index}.json`)];
    writeFileSync(items, request.items.map((item) => `${JSON.stringify(item)}\n`).join(""));
    writeFileSync(policy, JSON.stringify(request.policy));
    const args = ["pack", items, "--format", "json", "--policy", policy, ...flags(request)];
    return { name, operation: "pack", request, args };
  });
  const succeeded = await compare(cases);
  console.log(`${cases.length} vectors, ${succeeded} of them with a selection`);
  assert.ok(cases.length > 500 && succeeded > 430);
});

test("generated chats", { skip }, async () => {
  const cases = Object.entries(chats).map(([name, request], index) => {
    const file = join(folder, `chat-${index}.json`);
    writeFileSync(file, request.transcript);
    return { name, operation: "chat", request, args: ["chat", file, ...flags(request)] };
  });
  const succeeded = await compare(cases);
  console.log(`${cases.length} chats, ${succeeded} of them fit`);
  assert.ok(cases.length >= 500 && succeeded > 400);
});

test("recalls of generated chats", { skip }, async () => {
  const cases = Object.entries(chats).flatMap(([name, request], index) => {
    const fitted = answer({ operation: "chat", request, form: "json" });
    const [cut] = (fitted.text && JSON.parse(fitted.text).cuts) ?? [];
    if (!cut) return [];
    const file = join(folder, `recall-${index}.json`);
    writeFileSync(file, request.transcript);
    const recall = { id: cut.id, session: request.transcript };
    return { name, operation: "recall", request: recall, args: ["chat", "recall", cut.id, "--session", file] };
  });
  const succeeded = await compare(cases);
  console.log(`${cases.length} recalls, ${succeeded} of them within the budget`);
  assert.ok(cases.length > 20 && succeeded > 20);
});
