import type {
  BlockPosition,
  BudgetAnswer,
  Explanation,
  FittedMessage,
  LossAnswer,
  PackTotals,
  Repair,
  ReusedPrefix,
  SweepAnswer,
} from "./answers.js";
import type {
  ChatRequest,
  CountRequest,
  Item,
  LossRequest,
  PackRequest,
  SmallestBudgetRequest,
  SweepRequest,
} from "./requests.js";

export type { Item } from "./requests.js";
export type * from "./answers.js";

/** The encodings of OpenAI's models. Counts for Claude and Gemini are upper bounds that need `o200k`. */
export type Encoding = "o200k" | "cl100k";

/** An error of the engine: what happened, and what to do. */
export class PannierError extends Error {
  /** A stable name: `invalid_input`, `budget_not_met` and others. */
  readonly code: string;
  /** What to do, unless the message says so. */
  readonly hint?: string;
  /** The smallest budget that suffices, if the budget is too small. */
  readonly needed?: number;
}

/** The name of a model or an encoding, which counts tokens. `tokenizer` is the command's name for it. */
interface Model {
  model?: string;
}

/** What is sent with a list of messages. It is counted, and not part of the result. */
interface Prompt {
  /** The tools, as the provider takes them. */
  tools?: readonly unknown[];
  /** The system prompt, as the provider takes it. */
  system?: unknown;
}

/** Options of `fitChat`. */
export type FitOptions = Omit<ChatRequest, "transcript" | "explain"> & Model & Prompt;
/** Options of a session. */
export type SessionOptions = Omit<FitOptions, "once" | "previous">;
/** Options of `pack`. Templates are files, which the command and the Python package read. */
export type PackOptions = Omit<PackRequest, "items" | "explain"> & Model;
/** Options of `count`. */
export type CountOptions = Omit<CountRequest, "texts"> & Model;

/** The part of a block to recall. Without `lines` and `grep`, it is the whole block. */
export interface RecallOptions extends Model {
  /** Lines to return, as in `10-40`. */
  lines?: string;
  /** Return only lines that contain a text. */
  grep?: string;
  /** Maximum tokens of the answer [default: 8k]. */
  budget?: number | string;
  tokenizer?: string;
}

/** Whether counts are exact. `assumed`: the model is not known. */
export type Exactness = "exact" | "estimate" | "upper bound" | "assumed";

/** A block that is sent in a shorter form. */
export interface Cut {
  /** The recall id, which the request contains. */
  id: string;
  /** The position of its message in the history. */
  message: number;
  /** The position of its part in the message. */
  part: number;
  /** `omitted`: its whole turn is left out. */
  form: "head-and-tail" | "first-line" | "duplicate" | "names" | "stub" | "short-input" | "beginning" | "omitted";
  /** Why it was cut. */
  reason: string;
  /** The tokens of the block. */
  tokens_before: number;
  /** The tokens that are sent. */
  tokens_after: number;
}

/** A chat that fits, and how it was fitted. */
export interface FittedChat<T> {
  /** The messages to send, or the request that contains them: what was given, in the same form. */
  transcript: T;
  /** The same as JSON, byte for byte as the command prints it. */
  text: string;
  /** The tokenizer that counted. */
  tokenizer: string;
  /** Whether its counts are exact. */
  exactness: Exactness;
  /** The changes to messages that the provider would reject. */
  repairs: Repair[];
  /** Problems that did not stop the run. */
  warnings: string[];
  /** Of a session: the tokens of the request. */
  tokens?: number;
  /** Of a session: the blocks that are sent in a shorter form. */
  cuts?: Cut[];
  /** Of a single request: the totals. */
  totals?: PackTotals;
  /** Of a session: whether blocks were cut that the previous request contained. */
  is_batch?: boolean;
  /** Of a session: the last block that the previous request contained, with all before it. */
  last_unchanged?: BlockPosition | null;
  /** With `previous`: the common prefix. */
  prefix?: ReusedPrefix;
  /** Explains how messages are sent, by id or position. Single requests explain them as items. */
  explain(...ids: (string | number)[]): FittedMessage[] | Explanation[];
  /** Returns a block that was cut, by its recall id: exactly as it was, or some lines of it. */
  recall(id: string, options?: RecallOptions): string;
  /** Returns the record of the run, which `pannier inspect replay` repeats. */
  receipt(): Receipt;
}

/** A hash record of a run. */
export type Receipt = { [key: string]: unknown };

/** The selected items, and why. */
export interface Selection<T = Item> {
  /** The selected items, in the order to send them. */
  items: (T & { tokens: number })[];
  /** The totals. */
  totals: PackTotals;
  /** The items as one text, byte for byte as the command prints it. */
  text: string;
  /** Problems that did not stop the run. */
  warnings: string[];
  /** Explains why items are in or out, by id or position. */
  explain(...ids: (string | number)[]): Explanation[];
  /** Answers a question about other budgets. */
  whatIf<Q extends Question>(question: Q): AnswerTo<Q>;
  /** Returns the record of the run, which `pannier inspect replay` repeats. */
  receipt(): Receipt;
}

type Pool = "items" | "query" | "tokenizer" | "now" | "policy" | "reserve" | "margin" | "slots" | "budget" | "target";
/** The smallest budget that selects an item. */
export type SmallestBudget = Omit<SmallestBudgetRequest, Pool | "item"> & {
  /** Id or position of the item. */
  item: string | number;
};
/** The items that fewer tokens would drop. */
export type Loss = Omit<LossRequest, Pool>;
/** The budgets that select each item. */
export type Sweep = Omit<SweepRequest, Pool>;
/** The selection with another budget. */
export type OtherBudget = { budget: number | string };
/** A question about other budgets. */
export type Question = SmallestBudget | Loss | Sweep | OtherBudget;
/** The answer to a question. */
export type AnswerTo<Q> = Q extends OtherBudget
  ? Pick<Selection, "items" | "totals">
  : Q extends SmallestBudget
    ? BudgetAnswer
    : Q extends Loss
      ? LossAnswer
      : SweepAnswer;

/** Loads the vocabulary of an encoding: from this package, a URL, or bytes. Exact counts need it. */
export function loadEncoding(name: Encoding, source?: string | URL | ArrayBuffer | Uint8Array): Promise<void>;

/** Counts the tokens of a text, or of each text of a list. */
export function count(text: string, options?: CountOptions): number;
export function count(texts: readonly string[], options?: CountOptions): number[];

/** Fits a chat into a token budget: a list of messages, a request, a session log, or the JSON text of any of them. */
export function fitChat(chat: string, options?: FitOptions): FittedChat<unknown>;
export function fitChat<T extends object>(chat: T, options?: FitOptions): FittedChat<T>;

/** The requests of one session, each with the prefix of the one before, so that the provider's prompt cache hits. */
export class ChatSession {
  constructor(options?: SessionOptions);
  /** Fits the next request of the session: all messages so far. */
  fit(chat: string, options?: SessionOptions): FittedChat<unknown>;
  fit<T extends object>(chat: T, options?: SessionOptions): FittedChat<T>;
  /** Returns a block that the last request cut, by its recall id: exactly as it was, or some lines of it. */
  recall(id: string, options?: RecallOptions): string;
}

/** Returns a block that a request of a chat cut, by its recall id. The chat is the whole history, as for `fitChat`. */
export function recall(chat: string | object, id: string, options?: RecallOptions): string;

/** Packs items into a token budget. A string is an item with that content. */
export function pack<T extends Item = Item>(items: Iterable<T | string> & object, options?: PackOptions): Selection<T>;

/** Explains why items are in or out, by id or position. */
export function explain(
  items: Iterable<Item | string> & object,
  ids: string | number | (string | number)[],
  options?: PackOptions,
): Explanation[];

/** Answers a question about other budgets. */
export function whatIf<Q extends Question>(items: Iterable<Item | string> & object, question: Q, options?: PackOptions): AnswerTo<Q>;
