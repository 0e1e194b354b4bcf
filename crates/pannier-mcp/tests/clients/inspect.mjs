// Drives the server with the Inspector's command line, over its pipes and over HTTP, and asks it whether the schemas of the
// tools would trouble any client. Also hands it the registration of docs/reference/mcp.md. Usage: inspect.mjs PROGRAM FOLDER URL PACKAGES

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const [program, folder, url, packages] = process.argv.slice(2);
const inspector = `${packages}/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js`;
const document = readFileSync(new URL("../../../../docs/reference/mcp.md", import.meta.url), "utf8");

function inspect(config, ...words) {
  const path = `${folder}/inspector.json`;
  writeFileSync(path, JSON.stringify(config));
  const args = [inspector, "--cli", "--config", path, "--server", "pannier", ...words];
  const env = { ...process.env, MCP_INSPECTOR_SECRET_STORE: "memory" };
  const ran = spawnSync(process.execPath, args, { cwd: folder, env, encoding: "utf8", timeout: 60_000 });
  assert.equal(ran.status, 0, `${words}: ${ran.stdout}${ran.stderr}`);
  // What it says about itself is not about the server.
  const warnings = ran.stderr.split("\n").filter((line) => line.trim() && !line.startsWith("[mcp-inspector]"));
  return [JSON.parse(ran.stdout), warnings];
}

// What the document says for hosts that read `mcpServers`, with the paths of this machine.
const [, shown] = document.match(/```json\n(\{\s*"mcpServers"[\s\S]*?)```/);
const registered = JSON.parse(shown);
const entry = registered.mcpServers.pannier;
assert.equal(entry.command, "pannier");
entry.command = program;
entry.cwd = folder;
entry.args = ["mcp", "--cache", "handbook", "--docs", "examples/snippets", "--context", "examples/harbour"];
const overHttp = { mcpServers: { pannier: { type: "streamable-http", url } } };

for (const [over, config] of [["stdio", registered], ["HTTP", overHttp]]) {
  const [{ tools }, warnings] = inspect(config, "--method", "tools/list", "--strict");
  assert.ok(tools.length >= 5);
  assert.deepEqual(warnings, []);
  const call = ["--method", "tools/call", "--tool-name", "search_docs", "--tool-arg", "query=deploy", "budget=1000"];
  const [result] = inspect(config, ...call);
  const args = ["docs", "search", "deploy", "--index", "handbook", "--budget", "1000"];
  const printed = spawnSync(program, args, { cwd: folder, encoding: "utf8" }).stdout;
  assert.equal(result.content[0].text, printed);
  const [{ resources }] = inspect(config, "--method", "resources/list");
  assert.equal(resources.length, 10);
  const [{ contents }] = inspect(config, "--method", "resources/read", "--uri", resources[0].uri);
  assert.match(contents[0].text, /^# Deploy/);
  const [{ prompts }] = inspect(config, "--method", "prompts/list");
  assert.equal(prompts.length, 1);
  console.log(`Inspector, ${over}: tools without a word about their schemas, a call, resources and prompts`);
}
