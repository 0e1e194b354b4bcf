// Runs examples/ai-sdk.ts with the AI SDK and its mock of a language model: an agent whose tool results exceed the budget.
// usage: node ai-sdk.mjs    (Node 22.18 or later, where `pannier`, `ai` and the example are installed)

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const resolve = (name) => pathToFileURL(createRequire(join(process.cwd(), "package.json")).resolve(name)).href;
const { asSchema, generateText, isStepCount, jsonSchema, tool } = await import(resolve("ai"));
const { MockLanguageModelV4 } = await import(resolve("ai/test"));
const { count } = await import(pathToFileURL(join(process.cwd(), "node_modules/pannier/index.js")).href);
const { fitSteps } = await import(pathToFileURL(join(process.cwd(), "examples/ai-sdk.ts")).href);

const STEPS = 30;
const usage = { inputTokens: { total: 1, noCache: 1 }, outputTokens: { total: 1, text: 1 } };
const log = (number) => Array.from({ length: 150 }, (_, line) => `${number}.${line}: request ${number * line} took ${line} ms`).join("\n");

const INSTRUCTIONS = "Answer in one sentence, and name the log. ".repeat(5);
const read = tool({
  description: "Reads a log, of which there are thirty. ".repeat(5),
  inputSchema: jsonSchema({ type: "object", properties: { log: { type: "number" } }, required: ["log"] }),
  execute: async (input) => log(input.log),
});

/** Runs an agent that reads a log at each step, and returns the prompts that its model gets. */
async function prompts(prepareStep) {
  const model = new MockLanguageModelV4({
    doGenerate: Array.from({ length: STEPS + 1 }, (_, step) => ({
      content:
        step === STEPS
          ? [{ type: "text", text: "All is well." }]
          : [{ type: "tool-call", toolCallId: `call_${step}`, toolName: "read", input: JSON.stringify({ log: step }) }],
      finishReason: { unified: step === STEPS ? "stop" : "tool-calls", raw: undefined },
      usage,
      warnings: [],
    })),
  });
  const result = await generateText({
    model,
    tools: { read },
    instructions: INSTRUCTIONS,
    prompt: "Is the service healthy? Read all logs.",
    stopWhen: isStepCount(STEPS + 1),
    ...(prepareStep ? { prepareStep } : {}),
  });
  assert.equal(result.text, "All is well.");
  return model.doGenerateCalls.map(({ prompt }) => prompt);
}

const parts = (prompt) => prompt.filter(({ role }) => role !== "system").flatMap(({ content }) => content);
const texts = (prompt) =>
  parts(prompt).map((part) => part.text ?? part.output?.value ?? JSON.stringify(part.input));
const fixed = [INSTRUCTIONS, read.description, JSON.stringify(await asSchema(read.inputSchema).jsonSchema)];
const tokens = (prompt) => count([...fixed, ...texts(prompt)], { model: "gpt-5" }).reduce((sum, own) => sum + own, 0);

const whole = await prompts();
for (const budget of [20_000, 4_000, 900]) {
  const sent = await prompts(await fitSteps(budget, { read }));
  assert.equal(sent.length, STEPS + 1);
  let omitted = 0;
  sent.forEach((prompt, step) => {
    assert.ok(tokens(prompt) <= budget, `step ${step}: ${tokens(prompt)} of ${budget}`);
    assert.match(texts(prompt)[0], /^Is the service healthy\? Read all logs\./);
    // Every result follows its call.
    const ids = (type) => parts(prompt).filter((part) => part.type === type).map(({ toolCallId }) => toolCallId);
    assert.deepEqual(ids("tool-call"), ids("tool-result"));
    omitted = step - ids("tool-call").length;
    if (step > 0) assert.match(texts(prompt).at(-1), new RegExp(`^(${step - 1}\\.0: request|\\[\\d+ tokens left out)`));
  });
  const unchanged = sent.filter((prompt, step) => JSON.stringify(prompt) === JSON.stringify(whole[step])).length;
  console.log(`AI SDK, ${budget} tokens: ${STEPS + 1} steps, ${unchanged} unchanged, the last of ${tokens(sent.at(-1))} tokens without ${omitted} turns`);
  assert.ok(tokens(whole.at(-1)) > 20_000 && unchanged < sent.length);
  // A small budget also omits whole turns.
  assert.equal(omitted > 0, budget < 1_000);
}
