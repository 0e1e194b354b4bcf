// Calls a provider with the SDKs of OpenAI and Anthropic, and prints what they return as JSON.
//
// usage: node drive.mjs BASE_URL

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dwn4GBgQEABQYCAbZ9bJkAAAAASUVORK5CYII=";
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
  const stream = await openai.chat.completions.create({ model: "gpt-5", messages, stream: true });
  for await (const chunk of stream) parts.push(chunk.choices[0].delta.content);
  results.push(parts);
}
const response = await openai.responses.create({ model: "gpt-5", input: "Hello" });
results.push(response.output_text);

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
try {
  await anthropic.messages.create({ model: "fail", max_tokens: 5, messages: [{ role: "user", content: "x" }] });
} catch (error) {
  results.push([error.status, error.error, error.headers.get("retry-after")]);
}
console.log(JSON.stringify(results));
