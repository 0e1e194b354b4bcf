// Writes requests.d.ts and answers.d.ts from the schemas in docs/reference/openapi.json, which derive from the types in Rust.
// usage: node scripts/types.mjs [--check]

import { readFileSync, writeFileSync } from "node:fs";

const REQUESTS = ["ChatRequest", "CountRequest", "PackRequest", "SmallestBudgetRequest", "LossRequest", "SweepRequest"];
const ANSWERS = [
  "Explanation", "Decision", "DecisionName", "Reason", "Rank", "Rival", "ScoreExplanation", "BudgetThreshold", "FittedMessage", "Repair",
  "BlockPosition", "ReusedPrefix", "PackTotals", "Budget", "Ledger", "Note", "BudgetAnswer", "LossAnswer", "PoolItem", "SweepAnswer", "SweptItem",
];
// Written by hand in index.d.ts, or above.
const IMPORTS = { "./index.js": ["Cut"], "./requests.js": ["Item"] };
const { schemas } = JSON.parse(readFileSync(new URL("../../docs/reference/openapi.json", import.meta.url), "utf8")).components;
const ITEM = schemas.PackRequest.properties.items.items;
// An answer has all fields of an item. A request describes the usual ones.
for (const [name, property] of Object.entries(schemas.Item.properties)) {
  const types = [property.type].flat().filter((one) => one !== "null");
  ITEM.properties[name] ??= { ...property, type: types[0] };
}
ITEM.properties = Object.fromEntries(Object.entries(ITEM.properties).sort(([one], [other]) => (one < other ? -1 : 1)));

// A package has no configuration: the names of a server's policies and tokenizers do not exist, nor do its templates.
const WITHOUT_SERVER = new Map([
  ["Name of a preset or of a policy of the server, or a policy", "Name of a preset, or a policy"],
  ["Model, encoding, or name of a tokenizer of the server", "Model or encoding"],
]);
const describe = (text) => WITHOUT_SERVER.get(text) ?? text;

const camelCase = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

function type(schema, indent) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map((one) => type(one, indent)).join(" | ");
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
    case "null":
      return "null";
    case "array": {
      const item = type(schema.items, indent);
      return item.includes(" | ") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      if (schema.properties) return `{\n${members(schema, `${indent}  `)}${indent}}`;
      return schema.additionalProperties ? `{ [key: string]: ${any(schema.additionalProperties, indent)} }` : "object";
    case undefined:
      return "unknown";
    default:
      throw new Error(`no type for ${JSON.stringify(schema)}`);
  }
}

const any = (schema, indent) => (schema === true ? "unknown" : type(schema, indent));

function members(schema, indent, named = camelCase) {
  const lines = Object.entries(schema.properties).map(([name, property]) => {
    const comment = property.description ? `${indent}/** ${describe(property.description)} */\n` : "";
    const mark = schema.required?.includes(name) ? "" : "?";
    // The token counts of a request may be written as in "128k".
    const text = property.type === "integer" && schema !== ITEM && named === camelCase ? " | string" : "";
    return `${comment}${indent}${named(name)}${mark}: ${type(property, indent)}${text};\n`;
  });
  if (schema.additionalProperties && named !== camelCase) lines.push(`${indent}[key: string]: ${any(schema.additionalProperties, indent)};\n`);
  return lines.join("");
}

const requests = [
  "// Written by scripts/types.mjs from docs/reference/openapi.json.\n",
  `/** An item that can be selected. */\nexport interface Item {\n${members(ITEM, "  ")}}\n`,
  ...REQUESTS.map((name) => {
    const { items: pool, template: _, ...properties } = schemas[name].properties;
    const item = pool ? `  /** ${pool.description} */\n  items?: Item[];\n` : "";
    return `export interface ${name} {\n${item}${members({ ...schemas[name], properties }, "  ")}}\n`;
  }),
];
const imports = Object.entries(IMPORTS).map(([from, names]) => `import type { ${names.join(", ")} } from "${from}";\n`);
const answers = [
  "// Written by scripts/types.mjs from docs/reference/openapi.json.\n",
  imports.join(""),
  ...ANSWERS.map((name) => {
    const { description, ...schema } = schemas[name];
    const comment = description ? `/** ${description} */\n` : "";
    if (!schema.properties) return `${comment}export type ${name} = ${type(schema, "")};\n`;
    // Fields of answers have the names of the command's JSON.
    return `${comment}export interface ${name} {\n${members(schema, "  ", (field) => field)}}\n`;
  }),
];
const known = new Set([...ANSWERS, ...Object.values(IMPORTS).flat()]);
const names = ANSWERS.flatMap((name) => JSON.stringify(schemas[name]).match(/schemas\/\w+/g) ?? []);
const unknown = names.filter((name) => !known.has(name.slice("schemas/".length)));
if (unknown.length > 0) throw new Error(`no type for ${unknown.join(", ")}`);
for (const [name, parts] of Object.entries({ requests, answers })) {
  const [file, text] = [new URL(`../${name}.d.ts`, import.meta.url), parts.join("\n")];
  if (text.includes("of the server")) throw new Error("a description speaks of a server");
  if (!process.argv.includes("--check")) {
    writeFileSync(file, text);
  } else if (readFileSync(file, "utf8") !== text) {
    console.error(`error: js/${name}.d.ts is outdated; run node js/scripts/types.mjs`);
    process.exit(1);
  }
}
