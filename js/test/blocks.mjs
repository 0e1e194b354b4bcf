// Runs the JavaScript blocks of Markdown files where the package is installed, and compares what they print with their comments.
// usage: node blocks.mjs FILE...

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

let count = 0;
for (const file of process.argv.slice(2)) {
  for (const [, code] of readFileSync(file, "utf8").matchAll(/^```js\n(.*?)^```$/gms)) {
    const expected = code.split("\n").filter((line) => line.startsWith("// ")).map((line) => line.slice(3));
    writeFileSync("block.mjs", code);
    const { status, stdout, stderr } = spawnSync(process.execPath, ["block.mjs"], { encoding: "utf8" });
    if (status !== 0 || stdout !== expected.map((line) => `${line}\n`).join("")) {
      console.error(`error: ${file}: a block prints\n${stdout}${stderr}instead of\n${expected.join("\n")}\n\n${code}`);
      process.exit(1);
    }
    count++;
  }
}
console.log(`${count} blocks print what they say`);
