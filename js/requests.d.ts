// Written by scripts/types.mjs from docs/reference/openapi.json.

/** An item that can be selected. */
export interface Item {
  content: string;
  /** Shorter forms. */
  forms?: { [key: string]: unknown }[];
  /** From 0 to 1. */
  futureRelevanceHint?: number;
  /** Kept or dropped together. */
  group?: string;
  id?: string;
  /** Whether some form is sent at any budget. */
  keep?: boolean;
  /** Message, Document, ToolOutput, Memory or SystemPrompt. */
  kind?: string;
  metadata?: { [key: string]: unknown };
  /** The tokens of the whole item, if this is a shorter form. */
  originalTokens?: number;
  /** Always select. */
  pinned?: boolean;
  /** Higher is more important. */
  priority?: number;
  /** The only shorter form. */
  shortForm?: { [key: string]: unknown };
  source?: string;
  tags?: string[];
  /** RFC 3339. */
  timestamp?: string;
  /** Counted if absent. */
  tokens?: number;
}

export interface ChatRequest {
  /** Token budget, e.g. 8000 or 128k */
  budget?: number | string;
  /** Move cache_control to the last unchanged block (Anthropic) */
  cacheControl?: boolean;
  /** Explain why a message is in or out; repeatable */
  explain?: string[];
  /** Agent that wrote the log: claude-code or codex [default: detected] */
  from?: "claude-code" | "codex";
  /** Safety margin for estimated token counts, in percent [default: 0] */
  margin?: number;
  /** Reference time, e.g. 2026-03-01T12:00:00Z */
  now?: string;
  /** Fit the request alone, not as one of a session */
  once?: boolean;
  /** Always keep a message, by id or position; repeatable */
  pin?: string[];
  /** Name of a preset, or a policy */
  policy?: string | object;
  /** Previous request; keep its prefix so the prompt cache still hits */
  previous?: unknown;
  /** Provider: openai, anthropic, responses or gemini [default: detected] */
  provider?: "openai" | "anthropic" | "responses" | "gemini";
  /** Keep what is relevant to a text longer */
  query?: string;
  /** Tokens kept free for the model's output [default: 0] */
  reserve?: number | string;
  /** Tokens kept free for items of a kind that you add, e.g. Document=500 */
  slots?: string[];
  /** Token count of the selection [default: budget minus reserve] */
  target?: number | string;
  /** Model or encoding */
  tokenizer?: string;
  /** Messages, a request that contains them, or a session log: JSON, or a string with its text */
  transcript: unknown;
}

export interface CountRequest {
  /** Texts to count */
  texts: string[];
  /** Model or encoding */
  tokenizer?: string;
}

export interface PackRequest {
  /** Candidates */
  items?: Item[];
  /** Token budget, e.g. 8000 or 128k */
  budget?: number | string;
  /** Explain why an item is in or out; repeatable */
  explain?: string[];
  /** Safety margin for estimated token counts, in percent [default: 0] */
  margin?: number;
  /** Reference time, e.g. 2026-03-01T12:00:00Z */
  now?: string;
  /** Name of a preset, or a policy */
  policy?: string | object;
  /** Rank items by relevance to this text */
  query?: string;
  /** Tokens kept free for the model's output [default: 0] */
  reserve?: number | string;
  /** Tokens kept free for items of a kind that you add, e.g. Document=500 */
  slots?: string[];
  /** Token count of the selection [default: budget minus reserve] */
  target?: number | string;
  /** Model or encoding */
  tokenizer?: string;
}

export interface SmallestBudgetRequest {
  /** Candidates */
  items?: Item[];
  /** Id or index of the item */
  item: string;
  /** Safety margin for estimated token counts, in percent [default: 0] */
  margin?: number;
  /** Largest budget to try [default: four times all items] */
  max?: number | string;
  /** Reference time, e.g. 2026-03-01T12:00:00Z */
  now?: string;
  /** Name of a preset, or a policy */
  policy?: string | object;
  /** Rank items by relevance to this text */
  query?: string;
  /** Tokens kept free for the model's output [default: 0] */
  reserve?: number | string;
  /** Tokens kept free for items of a kind that you add, e.g. Document=500 */
  slots?: string[];
  /** Model or encoding */
  tokenizer?: string;
}

export interface LossRequest {
  /** Candidates */
  items?: Item[];
  /** Token budget, e.g. 8000 or 128k */
  budget?: number | string;
  /** Safety margin for estimated token counts, in percent [default: 0] */
  margin?: number;
  /** Reference time, e.g. 2026-03-01T12:00:00Z */
  now?: string;
  /** Name of a preset, or a policy */
  policy?: string | object;
  /** Rank items by relevance to this text */
  query?: string;
  /** Tokens kept free for the model's output [default: 0] */
  reserve?: number | string;
  /** Tokens kept free for items of a kind that you add, e.g. Document=500 */
  slots?: string[];
  /** Token count of the selection [default: budget minus reserve] */
  target?: number | string;
  /** Model or encoding */
  tokenizer?: string;
  /** Tokens to remove from the budget */
  tokens: number | string;
}

export interface SweepRequest {
  /** Candidates */
  items?: Item[];
  /** Safety margin for estimated token counts, in percent [default: 0] */
  margin?: number;
  /** Largest budget [default: the tokens of all items] */
  max?: number | string;
  /** Smallest budget [default: 0] */
  min?: number | string;
  /** Reference time, e.g. 2026-03-01T12:00:00Z */
  now?: string;
  /** Name of a preset, or a policy */
  policy?: string | object;
  /** Rank items by relevance to this text */
  query?: string;
  /** Tokens kept free for the model's output [default: 0] */
  reserve?: number | string;
  /** Tokens kept free for items of a kind that you add, e.g. Document=500 */
  slots?: string[];
  /** Model or encoding */
  tokenizer?: string;
}
