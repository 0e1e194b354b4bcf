// The AI SDK: `prepareStep` fits the messages of each step into a budget. Needs `ai` 7 (Node 22 or later).

import { loadEncoding, ChatSession } from "pannier";
import type { ModelMessage, PrepareStepFunction, ToolSet } from "ai";

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

/** The message with the texts of its fitted form: shorter tool results are the bulk of what is saved. */
function withTexts(message: ModelMessage, fitted: ChatMessage[]): ModelMessage {
  if (typeof message.content === "string") return { ...message, content: fitted[0]?.content ?? "" } as ModelMessage;
  if (message.role !== "tool") return message;
  const content = message.content.map((part) => {
    const result = part.type === "tool-result" && fitted.find(({ tool_call_id }) => tool_call_id === part.toolCallId);
    return result ? { ...part, output: { type: "text" as const, value: result.content ?? "" } } : part;
  });
  return { ...message, content };
}

/** Returns a `prepareStep` that sends at most `budget` tokens of messages. */
export async function fitSteps(budget: number, model = "gpt-5"): Promise<PrepareStepFunction<ToolSet>> {
  await loadEncoding("o200k");
  const session = new ChatSession({ budget, model, provider: "openai" });
  return ({ messages }) => {
    const chats = messages.map(toChat);
    const fitted = session.fit(chats.flat()).transcript;
    if (fitted.length !== chats.flat().length) return {};
    let position = 0;
    return {
      messages: messages.map((message, index) => {
        const before = chats[index] ?? [];
        const after = fitted.slice(position, (position += before.length));
        return JSON.stringify(before) === JSON.stringify(after) ? message : withTexts(message, after);
      }),
    };
  };
}
