// Gives hosts the registrations of docs/reference/mcp.md, in folders of their own: Claude Code must connect, and Codex must read what it
// is given. Usage: register.mjs PROGRAM FOLDER CLAUDE CODEX, where a host that is not there is `none`

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

const [program, served, claude, codex] = process.argv.slice(2);
const document = readFileSync(new URL("../../../../docs/reference/mcp.md", import.meta.url), "utf8");
const project = `${served}/project`;
const home = `${served}/home`;
mkdirSync(`${home}/.codex`, { recursive: true });
cpSync(`${served}/examples/snippets`, `${project}/docs`, { recursive: true });
cpSync(`${served}/examples/harbour/.context`, `${project}/.context`, { recursive: true });
const env = {
  ...process.env,
  HOME: home,
  CLAUDE_CONFIG_DIR: `${home}/.claude`,
  CODEX_HOME: `${home}/.codex`,
  PATH: `${dirname(program)}:${process.env.PATH}`,
};
const run = (file, ...words) =>
  execFileSync(file, words, { cwd: project, env, encoding: "utf8", timeout: 60_000, stdio: ["ignore", "pipe", "pipe"] });
run(program, "build", "--sources", "docs", "--cache", ".cache/docs");

if (claude !== "none") {
  const [, words] = document.match(/^claude (mcp add pannier -- .*)$/m);
  run(claude, ...words.split(" "));
  const listed = run(claude, "mcp", "list");
  assert.match(listed, /pannier: .*Connected/);
  console.log("Claude Code: the command of the document registers the server, and it connects");
}
if (codex !== "none") {
  const [, settings] = document.match(/```toml\n([\s\S]*?)```/);
  writeFileSync(`${home}/.codex/config.toml`, settings);
  const [entry] = JSON.parse(run(codex, "mcp", "list", "--json"));
  assert.equal(entry.name, "pannier");
  assert.ok(entry.enabled);
  assert.equal(entry.transport.command, "pannier");
  assert.deepEqual(entry.transport.args.slice(0, 3), ["mcp", "--cache", ".cache/docs"]);
  console.log("Codex: the settings of the document are read");
}
