// Calls a provider with the SDKs of OpenAI and Anthropic, and prints what they return as JSON.
//
// usage: node drive.mjs BASE_URL

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dwn4GBgQEABQYCAbZ9bJkAAAAASUVORK5CYII=";
const LONG = Array.from({ length: 4_000 }, (_, number) => `word${number}`).join(" ");
const TOOL = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

const base = process.argv[2];
const results = [];

const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: "key-openai", maxRetries: 0 });
const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } };
for (const content of ["Hello, Grüße 😀", [{ type: "text", text: "What is this?" }, image]]) {
  const messages = [{ role: "user", content }];
  const tools = [{ type: "function", function: { name: "weather", parameters: TOOL } }];
  const answer = await openai.chat.completions.create({ model: "gpt-5", messages, tools });
  results.push(answer.choices[0].message.content);
  const parts = [];
  const stream = await openai.chat.completions.create({ model: "gpt-5", messages, tools, stream: true });
  for await (const chunk of stream) parts.push(chunk.choices[0].delta.content);
  results.push(parts);
}
const functions = [{ type: "function", name: "weather", parameters: TOOL, strict: false }];
const picture = { type: "input_image", image_url: `data:image/png;base64,${PIXEL}`, detail: "low" };
const question = { role: "user", content: [{ type: "input_text", text: "What is this?" }, picture] };
for (const input of ["Hello", [question]]) {
  const response = await openai.responses.create({ model: "gpt-5", input, tools: functions });
  results.push(response.output_text);
  const events = [];
  const stream = await openai.responses.create({ model: "gpt-5", input, tools: functions, stream: true });
  for await (const event of stream) events.push([event.type, event.delta ?? null]);
  results.push(events);
}
// Histories that must be cut, one for each protocol.
const task = { role: "user", content: "Fix it." };
const [chats, items, blocks] = [[task], [task], [task]];
for (let number = 0; number < 6; number++) {
  const [id, name, output] = [`c${number}`, "weather", `${number} ${LONG}`];
  const args = '{"city": "Oslo"}';
  chats.push({ role: "assistant", tool_calls: [{ id, type: "function", function: { name, arguments: args } }] });
  chats.push({ role: "tool", tool_call_id: id, content: output });
  items.push({ type: "function_call", call_id: id, name, arguments: args });
  items.push({ type: "function_call_output", call_id: id, output });
  blocks.push({ role: "assistant", content: [{ type: "tool_use", id, name, input: JSON.parse(args) }] });
  blocks.push({ role: "user", content: [{ type: "tool_result", tool_use_id: id, content: output }] });
}
const fitted = await openai.chat.completions.create({ model: "gpt-5", messages: chats });
results.push(fitted.choices[0].message.content);
results.push((await openai.responses.create({ model: "gpt-5", input: items, tools: functions })).output_text);

const anthropic = new Anthropic({ baseURL: base, apiKey: "key-anthropic", maxRetries: 0 });
const source = { type: "base64", media_type: "image/png", data: PIXEL };
for (const content of ["Hello", [{ type: "text", text: "What is this?" }, { type: "image", source }]]) {
  const options = {
    model: "claude-x",
    max_tokens: 50,
    messages: [{ role: "user", content }],
    tools: [{ name: "weather", input_schema: TOOL }],
  };
  results.push((await anthropic.messages.create(options)).content[0].text);
  const parts = [];
  for await (const event of anthropic.messages.stream(options)) {
    if (event.type === "content_block_delta") parts.push(event.delta.text);
  }
  results.push(parts);
}
const cut = await anthropic.messages.create({ model: "claude-x", max_tokens: 50, messages: blocks });
results.push(cut.content[0].text);
try {
  await anthropic.messages.create({ model: "fail", max_tokens: 5, messages: [{ role: "user", content: "x" }] });
} catch (error) {
  results.push([error.status, error.error, error.headers.get("retry-after")]);
}
console.log(JSON.stringify(results));
