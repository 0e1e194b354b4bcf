// The AI SDK: `prepareStep` fits the messages of each step into a budget. Needs `ai` 7 (Node 22 or later).

import { ChatSession, loadEncoding } from "pannier";
import { asSchema } from "ai";
import type { Instructions, ModelMessage, PrepareStepFunction, ToolSet } from "ai";

interface ChatMessage {
  role: string;
  content?: string | null;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

/** A message of the AI SDK as messages of the Chat Completions API. Other parts, such as images, count as their JSON. */
function toChat(message: ModelMessage): ChatMessage[] {
  if (typeof message.content === "string") return [{ role: message.role, content: message.content }];
  const texts: string[] = [];
  const calls: NonNullable<ChatMessage["tool_calls"]> = [];
  const results: ChatMessage[] = [];
  for (const part of message.content) {
    if (part.type === "text") {
      texts.push(part.text);
    } else if (part.type === "tool-call") {
      const call = { name: part.toolName, arguments: JSON.stringify(part.input) };
      calls.push({ id: part.toolCallId, type: "function", function: call });
    } else if (part.type === "tool-result") {
      const { output } = part;
      const content = output.type === "text" ? output.value : JSON.stringify(output);
      results.push({ role: "tool", tool_call_id: part.toolCallId, content });
    } else {
      texts.push(JSON.stringify(part));
    }
  }
  if (results.length > 0) return results;
  const content = texts.length > 0 ? texts.join("\n") : null;
  return [calls.length > 0 ? { role: message.role, content, tool_calls: calls } : { role: message.role, content }];
}

/** The message with the texts, inputs and results of its fitted form. */
function withFitted(message: ModelMessage, given: ChatMessage[], fitted: ChatMessage[]): ModelMessage {
  const text = fitted[0]?.content ?? "";
  if (typeof message.content === "string") return { ...message, content: text } as ModelMessage;
  const results = new Map(fitted.map((result) => [result.tool_call_id, result.content ?? ""]));
  const inputs = new Map(fitted[0]?.tool_calls?.map((call) => [call.id, call.function.arguments]));
  const parts = message.content.map((part) => {
    if (part.type === "tool-call") return { ...part, input: JSON.parse(inputs.get(part.toolCallId) ?? "{}") };
    if (part.type !== "tool-result") return part;
    return { ...part, output: { type: "text", value: results.get(part.toolCallId) ?? "" } };
  });
  if (message.role === "tool" || given[0]?.content === fitted[0]?.content) return { ...message, content: parts } as ModelMessage;
  const calls = parts.filter(({ type }) => type === "tool-call");
  return { ...message, content: [{ type: "text", text }, ...calls] } as ModelMessage;
}

/** The tools as the Chat Completions API has them. */
function toTools(tools: ToolSet): Promise<object[]> {
  const own = Object.entries(tools).map(async ([name, { description, inputSchema }]) => {
    const parameters = await asSchema(inputSchema).jsonSchema;
    return { type: "function", function: { name, description: typeof description === "string" ? description : "", parameters } };
  });
  return Promise.all(own);
}

function toSystem(instructions: Instructions | undefined): string | undefined {
  if (instructions === undefined || typeof instructions === "string") return instructions;
  return [instructions].flat().map(({ content }) => content).join("\n");
}

/** Returns a `prepareStep` that sends at most `budget` tokens: instructions, tools and messages together. */
export async function fitSteps(budget: number, given: ToolSet = {}, model = "gpt-5"): Promise<PrepareStepFunction<ToolSet>> {
  await loadEncoding("o200k");
  const tools = await toTools(given);
  const session = new ChatSession({ budget, model, provider: "openai" });
  return ({ messages, instructions }) => {
    const chats = messages.map(toChat);
    const system = toSystem(instructions);
    const { transcript, cuts = [] } = session.fit(chats.flat(), { ...(tools.length > 0 && { tools }), ...(system && { system }) });
    // Whole turns are omitted; all other messages are sent, in their order.
    const omitted = new Set(cuts.filter(({ form }) => form === "omitted").map(({ message }) => message));
    const sent: ModelMessage[] = [];
    let [position, next] = [0, 0];
    messages.forEach((message, index) => {
      const given = chats[index] ?? [];
      const isOmitted = omitted.has(position);
      position += given.length;
      if (isOmitted) return;
      const fitted = transcript.slice(next, (next += given.length));
      sent.push(JSON.stringify(given) === JSON.stringify(fitted) ? message : withFitted(message, given, fitted));
    });
    if (next !== transcript.length) throw new Error("the messages were repaired, so they cannot be sent back to the AI SDK");
    return { messages: sent };
  };
}
