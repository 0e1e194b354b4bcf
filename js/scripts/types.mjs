// Writes requests.d.ts from the schemas of requests in docs/reference/openapi.json, which derive from the request types in Rust.
// usage: node scripts/types.mjs [--check]

import { readFileSync, writeFileSync } from "node:fs";

const REQUESTS = ["ChatRequest", "CountRequest", "PackRequest", "SmallestBudgetRequest", "LossRequest", "SweepRequest"];
const file = new URL("../requests.d.ts", import.meta.url);
const { schemas } = JSON.parse(readFileSync(new URL("../../docs/reference/openapi.json", import.meta.url), "utf8")).components;
const ITEM = schemas.PackRequest.properties.items.items;

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
    const comment = property.description ? `${indent}/** ${property.description} */\n` : "";
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
    const { items: pool, ...properties } = schemas[name].properties;
    const item = pool ? `  /** ${pool.description} */\n  items?: Item[];\n` : "";
    return `export interface ${name} {\n${item}${members({ ...schemas[name], properties }, "  ")}}\n`;
  }),
];
const text = parts.join("\n");
if (process.argv.includes("--check")) {
  if (readFileSync(file, "utf8") !== text) {
    console.error("error: js/requests.d.ts is outdated; run node js/scripts/types.mjs");
    process.exit(1);
  }
} else {
  writeFileSync(file, text);
}
