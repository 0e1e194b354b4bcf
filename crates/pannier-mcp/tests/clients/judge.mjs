// Evaluates the checks of a conformance scenario. Ignores checks that the suite calls untestable, because they need a tool that
// exists only for the suite. Usage: judge.mjs REVISION SCENARIO FOLDER

import { readFileSync, readdirSync } from "node:fs";

const [revision, scenario, folder] = process.argv.slice(2);
const [results] = readdirSync(folder);
const checks = JSON.parse(readFileSync(`${folder}/${results}/checks.json`, "utf8"));
const failed = checks.filter((check) => check.status === "FAILURE" || check.status === "WARNING");
const failures = failed.filter((check) => !check.details?.untestable);
const passed = checks.filter((check) => check.status === "SUCCESS").length;
for (const check of failures) console.error(`${check.id}: ${check.errorMessage}`);
const untestable = failed.length - failures.length;
const note = untestable > 0 ? `, ${untestable} need a tool of the suite` : "";
console.log(`conformance to ${revision}, ${scenario}: ${passed} checks passed${note}`);
process.exit(failures.length > 0 || passed === 0 ? 1 : 0);
