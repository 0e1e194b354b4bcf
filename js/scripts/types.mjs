// Writes requests.d.ts from the schemas of requests in docs/reference/openapi.json, which derive from the request types in Rust.
// usage: node scripts/types.mjs [--check]

import { readFileSync, writeFileSync } from "node:fs";

const REQUESTS = ["ChatRequest", "CountRequest", "PackRequest", "SmallestBudgetRequest", "LossRequest", "SweepRequest"];
const file = new URL("../requests.d.ts", import.meta.url);
const { schemas } = JSON.parse(readFileSync(new URL("../../docs/reference/openapi.json", import.meta.url), "utf8")).components;
const ITEM = schemas.PackRequest.properties.items.items;

// A package has no configuration: the names of a server's policies and tokenizers do not exist, nor do its templates.
const WITHOUT_SERVER = new Map([
  ["Name of a preset or of a policy of the server, or a policy", "Name of a preset, or a policy"],
  ["Model, encoding, or name of a tokenizer of the server", "Model or encoding"],
]);
const describe = (text) => WITHOUT_SERVER.get(text) ?? text;

const camelCase = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

function type(schema, indent) {
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (Array.isArray(schema.type)) return schema.type.map((one) => type({ ...schema, type: one }, indent)).join(" | ");
  switch (schema.type) {
    case "string":
      return "string";
    case "boolean":
      return "boolean";
    case "number":
      return "number";
    case "integer":
      return "number";
    case "array": {
      const item = type(schema.items, indent);
      return item.includes(" | ") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      return schema.properties ? `{\n${members(schema, `${indent}  `)}${indent}}` : "object";
    case undefined:
      return "unknown";
    default:
      throw new Error(`no type for ${JSON.stringify(schema)}`);
  }
}

function members(schema, indent) {
  const lines = Object.entries(schema.properties).map(([name, property]) => {
    const comment = property.description ? `${indent}/** ${describe(property.description)} */\n` : "";
    const mark = schema.required?.includes(name) ? "" : "?";
    // The token counts of a request may be written as in "128k".
    const text = property.type === "integer" && schema !== ITEM ? " | string" : "";
    return `${comment}${indent}${camelCase(name)}${mark}: ${type(property, indent)}${text};\n`;
  });
  return lines.join("");
}

const parts = [
  "// Written by scripts/types.mjs from docs/reference/openapi.json.\n",
  `/** An item that can be selected. */\nexport interface Item {\n${members(ITEM, "  ")}}\n`,
  ...REQUESTS.map((name) => {
    const { items: pool, template: _, ...properties } = schemas[name].properties;
    const item = pool ? `  /** ${pool.description} */\n  items?: Item[];\n` : "";
    return `export interface ${name} {\n${item}${members({ ...schemas[name], properties }, "  ")}}\n`;
  }),
];
const text = parts.join("\n");
if (text.includes("of the server")) throw new Error("a description speaks of a server");
if (process.argv.includes("--check")) {
  if (readFileSync(file, "utf8") !== text) {
    console.error("error: js/requests.d.ts is outdated; run node js/scripts/types.mjs");
    process.exit(1);
  }
} else {
  writeFileSync(file, text);
}
