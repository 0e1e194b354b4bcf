// Compares the engine in Deno or Bun with the answers of the command.
// usage: RUNTIME runtime.mjs CASES    (CASES is the file EXPECTED of command.test.js)

import { readFileSync } from "node:fs";

import { differences } from "./same.js";

const cases = JSON.parse(readFileSync(process.argv[2], "utf8"));
const names = differences(cases);
const runtime = globalThis.Deno ? `Deno ${Deno.version.deno}` : globalThis.Bun ? `Bun ${Bun.version}` : `Node ${process.version}`;
console.log(`${runtime}: ${cases.length} cases, ${names.length} differ from the command ${names.slice(0, 5).join(", ")}`.trim());
process.exitCode = names.length === 0 && cases.length > 1_000 ? 0 : 1;
