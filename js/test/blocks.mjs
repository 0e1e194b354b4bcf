// Runs the JavaScript blocks of Markdown files where the package is installed, and compares what they print with their comments.
// usage: node blocks.mjs [--by RUNTIME] FILE...    (RUNTIME as in "deno run --allow-read")

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** Returns the blocks of a file: their code, and the lines that they print. */
export function blocks(file) {
  return Array.from(readFileSync(file, "utf8").matchAll(/^```js\n(.*?)^```$/gms), ([, code]) => {
    const expected = code.split("\n").filter((line) => line.startsWith("// ")).map((line) => line.slice(3));
    return { file, code, expected };
  });
}

function main(files) {
  const [program, ...options] = files[0] === "--by" ? files.splice(0, 2)[1].split(" ") : [process.execPath];
  const all = files.flatMap(blocks);
  for (const { file, code, expected } of all) {
    writeFileSync("block.mjs", code);
    const { status, stdout, stderr } = spawnSync(program, [...options, "block.mjs"], { encoding: "utf8" });
    if (status !== 0 || stdout !== expected.map((line) => `${line}\n`).join("")) {
      console.error(`error: ${file}: a block prints\n${stdout}${stderr}instead of\n${expected.join("\n")}\n\n${code}`);
      process.exit(1);
    }
  }
  console.log(`${all.length} blocks print what they say`);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) main(process.argv.slice(2));
