// Written by scripts/types.mjs from docs/reference/openapi.json.

import type { Cut } from "./index.js";
import type { Item } from "./requests.js";

/** Why an item is in or out. */
export interface Explanation {
  decision: Decision;
  /** The score per token. */
  density?: number | null;
  index: number;
  /** False if the search was stopped. */
  is_complete?: boolean | null;
  item: Item;
  /** The items it lost to. */
  lost_to: Rival[];
  /** The largest number of tokens with which it is selected. */
  max_item_tokens?: number | null;
  rank?: Rank | null;
  score?: ScoreExplanation | null;
  smaller_budget?: BudgetThreshold | null;
  smallest_budget?: BudgetThreshold | null;
  /** The smallest score that selects it. */
  smallest_score?: number | null;
  /** The stage that decided about it. */
  stage: string;
}

/** What was decided about an item, and why. */
export interface Decision {
  decision: DecisionName;
  form?: { [key: string]: unknown } | null;
  /** The place in the selection, from 0. */
  position?: number | null;
  reason: Reason;
}

export type DecisionName = "included" | "excluded";

/** A reason by its name, with its figures. */
export interface Reason {
  reason: string;
  [key: string]: unknown;
}

/** A rank among the scored items. */
export interface Rank {
  of: number;
  rank: number;
}

/** An item that was preferred. */
export interface Rival {
  index: number;
  item: Item;
  score: number;
}

/** A score, and the scores it was computed from. */
export interface ScoreExplanation {
  children?: ScoreExplanation[] | null;
  score: number;
  scorer: string;
  /** The weight as a share of all weights. */
  share?: number | null;
  weight?: number | null;
}

/** A budget that selects an item. */
export interface BudgetThreshold {
  is_proven: boolean;
  max_tokens: number;
  target_tokens: number;
}

/** How a message of a session is sent. */
export interface FittedMessage {
  /** Its blocks that are sent in a shorter form. */
  cuts: Cut[];
  /** The id of the message, or the field of the request. */
  id: string;
  /** Whether it is sent. */
  included: boolean;
  /** The rule by which the provider would reject it. */
  rejection?: string | null;
  /** The tokens as it is sent. */
  tokens_after: number;
  /** The tokens of the whole message. */
  tokens_before: number;
}

/** A change to a message that could not be sent as it was. */
export interface Repair {
  message: number;
  problem: string;
}

/** The position of a content block in the sent request. */
export interface BlockPosition {
  block: number;
  message: number;
}

/** The common prefix with the previous transcript. */
export interface ReusedPrefix {
  messages: number;
  of_messages: number;
  of_tokens: number;
  tokens: number;
}

/** The totals of a selection. */
export interface PackTotals {
  /** The budget. */
  budget: Budget;
  /** The number of items in the pool. */
  candidates: number;
  /** The token breakdown of the window. */
  ledger: Ledger;
  /** Remarks on how the items were chosen, where that differs from what the policy asks for. */
  notes?: Note[];
  /** The number of selected items. */
  selected: number;
  /** The sum of their tokens. */
  tokens: number;
}

/** A budget. */
export interface Budget {
  estimationSafetyMarginPercent?: number | null;
  maxTokens: number;
  outputReserve?: number | null;
  reservedSlots?: { [key: string]: number } | null;
  targetTokens: number;
}

/** Where the tokens of a window go. The window is the sum of all others. */
export interface Ledger {
  /** Tokens that are sent with any selection. */
  fixed: number;
  /** Tokens around and between the items. */
  framing: number;
  items: number;
  /** Tokens of the whole beyond its parts. */
  joins: number;
  /** Tokens kept free by the safety margin. */
  margin?: number | null;
  output_reserve: number;
  /** Tokens left over. */
  slack: number;
  /** Tokens kept free by reserved slots. */
  slots?: number | null;
  window: number;
}

/** A remark on how items were chosen. */
export interface Note {
  note: string;
  [key: string]: unknown;
}

/** The smallest budget that selects an item. */
export interface BudgetAnswer {
  /** The largest budget that was allowed. */
  ceiling: number;
  /** The id, if there is one. */
  id?: string | null;
  /** The index in the pool. */
  index: number;
  /** `false` if not all smaller budgets were tried; otherwise absent. */
  is_proven?: boolean | null;
  /** The smallest budget that was found. */
  min_budget?: number | null;
  /** The tokens. */
  tokens: number;
  /** The largest budget that was tried, if the search did not come to its end. */
  tried_to?: number | null;
}

/** The items that a smaller budget drops. */
export interface LossAnswer {
  /** The items, in pool order. */
  items: PoolItem[];
  /** The tokens that are removed from the budget. */
  slack_tokens: number;
}

/** An item of the pool, by its position. */
export interface PoolItem {
  /** The id, if there is one. */
  id?: string | null;
  /** The index in the pool. */
  index: number;
  /** The tokens. */
  tokens: number;
}

/** The budgets that select each item. */
export interface SweepAnswer {
  /** The smallest budget. */
  from: number;
  /** The items, in pool order. */
  items: SweptItem[];
  /** The largest budget for which the answer is known. */
  to: number;
}

/** The budgets that select one item. */
export interface SweptItem {
  /** The first and the last budget of each range. */
  budgets: number[][];
  /** The id, if there is one. */
  id?: string | null;
  /** The index in the pool. */
  index: number;
  /** The tokens. */
  tokens: number;
}
