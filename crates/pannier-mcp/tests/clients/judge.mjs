// Judges a scenario of the conformance suite by its checks. One that the suite itself calls untestable, because it wants a tool
// that only exists for it, says nothing about a server. Usage: judge.mjs REVISION SCENARIO FOLDER

import { readFileSync, readdirSync } from "node:fs";

const [revision, scenario, folder] = process.argv.slice(2);
const [results] = readdirSync(folder);
const checks = JSON.parse(readFileSync(`${folder}/${results}/checks.json`, "utf8"));
const failed = checks.filter((check) => check.status === "FAILURE" || check.status === "WARNING");
const wrong = failed.filter((check) => !check.details?.untestable);
const passed = checks.filter((check) => check.status === "SUCCESS").length;
for (const check of wrong) console.error(`${check.id}: ${check.errorMessage}`);
const apart = failed.length - wrong.length;
const left = apart > 0 ? `, ${apart} that want a tool of the suite's own` : "";
console.log(`conformance to ${revision}, ${scenario}: ${passed} checks passed${left}`);
process.exit(wrong.length > 0 || passed === 0 ? 1 : 0);
