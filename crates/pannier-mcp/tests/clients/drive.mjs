// Drives the server with the TypeScript SDK: its present line in both eras, and the line before it, over the server's pipes
// and over HTTP. The text of every answer must be the bytes that the command prints. Usage: drive.mjs PROGRAM FOLDER URL PACKAGES

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [program, folder, url, packages] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(new URL("cases.json", import.meta.url), "utf8"));
const resolve = createRequire(pathToFileURL(`${packages}/package.json`)).resolve;
const load = (name) => import(pathToFileURL(resolve(name)).href);
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));

const present = { ...(await load("@modelcontextprotocol/client")), ...(await load("@modelcontextprotocol/client/stdio")) };
const before = {
  ...(await load("@modelcontextprotocol/sdk/client/index.js")),
  ...(await load("@modelcontextprotocol/sdk/client/stdio.js")),
  ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
};

const args = ["mcp", "--cache", "handbook", "--docs", "examples/snippets", "--context", "examples/harbour"];
const transports = (sdk) => [
  ["stdio", () => new sdk.StdioClientTransport({ command: program, args, cwd: folder, stderr: "pipe" })],
  ["HTTP", () => new sdk.StreamableHTTPClientTransport(new URL(url))],
];

const printed = (command) => execFileSync(program, command, { cwd: folder, stdio: "pipe" }).toString();
async function drive(client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert.ok(cases.every(({ tool }) => tools.some(({ name }) => name === tool)));
  assert.ok(tools.every((tool) => /^[a-zA-Z0-9_-]{1,64}$/.test(tool.name)));
  for (const example of cases) {
    const result = await client.callTool({ name: example.tool, arguments: example.arguments });
    assert.ok(!result.isError, JSON.stringify(result));
    assert.equal(result.content[0].text, printed(example.command));
    assert.equal(result.structuredContent, undefined);
  }
  const wrong = await client.callTool({ name: "search_docs", arguments: { budget: 1 } });
  assert.ok(wrong.isError && JSON.parse(wrong.content[0].text).hint);
  await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }));
  const { resources } = await client.listResources();
  assert.equal(resources.length, 10);
  const { contents } = await client.readResource({ uri: resources[0].uri });
  assert.match(contents[0].text, /^# Deploy/);
  await assert.rejects(client.readResource({ uri: "pannier://handbook/docs/none.md" }));
  const many = await Promise.all(
    Array.from({ length: 40 }, (_, number) => {
      const { tool, arguments: given } = cases[number % cases.length];
      return client.callTool({ name: tool, arguments: given });
    }),
  );
  assert.ok(many.every((result) => !result.isError));
  await client.close();
}

const who = { name: "drive", version: "1.0.0" };
for (const [name, sdk, options] of [
  ["TypeScript SDK 2, 2026-07-28", present, { versionNegotiation: { mode: "auto" } }],
  ["TypeScript SDK 2, older handshake", present, { versionNegotiation: { mode: "legacy" } }],
  ["TypeScript SDK 1, older handshake", before, {}],
]) {
  for (const [over, transport] of transports(sdk)) {
    await drive(new sdk.Client(who, options), transport());
    console.log(`${name}, ${over}: ${cases.length} tools' answers are the command's`);
  }
}
assert.deepEqual(warnings, []);
process.exit(0);
