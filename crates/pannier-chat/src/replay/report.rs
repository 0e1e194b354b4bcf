//! The figures of a replay, and their summary.

use serde::Serialize;

use super::{Faults, ReplayRequest};

/// The prices of input tokens, relative to input without a cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prices {
    /// The price of a token that is read from the cache.
    pub read: f64,
    /// The price of any other token.
    pub write: f64,
}

impl Prices {
    /// Creates prices.
    pub fn new(read: f64, write: f64) -> Self {
        Self { read, write }
    }

    pub(super) fn cost(self, read: i64, written: i64) -> f64 {
        self.read * read as f64 + self.write * written as f64
    }
}

/// Anthropic's prices: a tenth for a read, a quarter more for a write.
impl Default for Prices {
    fn default() -> Self {
        Self::new(0.1, 1.25)
    }
}

/// The counts of one session under one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// The requests.
    pub requests: u64,
    /// The requests whose whole history exceeds the budget.
    pub requests_over_budget: u64,
    /// The requests that the policy refused.
    pub refused: u64,
    /// Those whose whole history exceeds the budget.
    pub refused_over_budget: u64,
    /// The reason of the last refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The requests above the budget, and their tokens above it.
    pub overruns: u64,
    /// The tokens above the budget.
    pub overrun_tokens: i64,
    /// The requests that a provider would reject.
    pub invalid: u64,
    /// The broken rules, and how often.
    pub faults: Faults,
    /// The tokens that the cache has.
    pub read: i64,
    /// All other tokens.
    pub written: i64,
    /// The cached tokens if everything is sent.
    pub everything_read: i64,
    /// All other tokens if everything is sent.
    pub everything_written: i64,
    /// The tokens that recalls read again.
    pub recall_read: i64,
    /// The tokens that recalls add.
    pub recall_written: i64,
    /// The needles.
    pub needles: u64,
    /// The lost needles.
    pub lost_needles: u64,
    /// The needles that only older results have.
    pub hard_needles: u64,
    /// The lost hard needles.
    pub lost_hard_needles: u64,
    /// The needles that were sent in their line.
    pub needles_in_line: u64,
    /// The hard needles that were sent in their line.
    pub hard_needles_in_line: u64,
    /// The lost needles whose source a recall id of the request gives back, or which the request names if the policy has no recall.
    pub recallable: u64,
    /// The requests that lost a needle.
    pub lossy_requests: u64,
    /// The most needles that one request lost.
    pub max_lost_needles: u64,
    /// The requests that do not start with the previous one.
    pub prefix_edits: u64,
    /// The most tokens that one edit of the prefix rewrote.
    pub max_rewritten_tokens: i64,
    /// The changed requests at or below the pressure point.
    pub changed_without_pressure: u64,
    /// The requests over budget that have the whole task.
    pub task_kept: u64,
    /// The requests over budget that have the last three edits whole.
    pub edits_kept: u64,
    /// The provider's record of its cache.
    pub cache: CacheReads,
}

/// Cache reads of the recorded requests: as the provider reported them, and as the referee predicts them.
///
/// The log lacks the system prompt and the tools, and the provider counts with its own tokenizer. Their size is estimated
/// from the first recorded request. The shares of cached tokens are comparable, the counts are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheReads {
    /// The requests with a recorded usage.
    pub requests: u64,
    /// The input tokens that the provider counted.
    pub recorded_input: i64,
    /// Those that it read from its cache.
    pub recorded_read: i64,
    /// The input tokens that the referee counts, with the estimated prefix.
    pub predicted_input: i64,
    /// Those that it expects in the cache.
    pub predicted_read: i64,
    #[serde(skip)]
    prefix: Option<i64>,
}

impl CacheReads {
    pub(super) fn add(&mut self, request: &ReplayRequest, tokens: i64, previous_tokens: i64) {
        let Some(usage) = request.usage else { return };
        let input = usage
            .input_tokens
            .saturating_add(usage.cache_write_tokens)
            .saturating_add(usage.cache_read_tokens);
        let is_first = self.prefix.is_none();
        let prefix = *self.prefix.get_or_insert(input.saturating_sub(tokens).max(0));
        self.requests += 1;
        self.recorded_input += input;
        self.recorded_read += usage.cache_read_tokens;
        self.predicted_input += tokens + prefix;
        if !is_first {
            self.predicted_read += previous_tokens + prefix;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.recorded_input += other.recorded_input;
        self.recorded_read += other.recorded_read;
        self.predicted_input += other.predicted_input;
        self.predicted_read += other.predicted_read;
    }

    /// Returns the recorded and the predicted share of input tokens that the cache had.
    pub fn shares(&self) -> Option<(f64, f64)> {
        let share = |read: i64, input: i64| read as f64 / input.max(1) as f64;
        (self.requests > 0).then(|| {
            (
                share(self.recorded_read, self.recorded_input),
                share(self.predicted_read, self.predicted_input),
            )
        })
    }
}

impl Figures {
    /// Returns the cost relative to sending everything.
    pub fn cost(&self, prices: Prices) -> f64 {
        self.relative(prices, prices.cost(self.read, self.written))
    }

    fn relative(&self, prices: Prices, cost: f64) -> f64 {
        let everything = prices.cost(self.everything_read, self.everything_written);
        if everything > 0.0 { cost / everything } else { 0.0 }
    }

    fn merge(&mut self, other: &Self) {
        let Self { refusal, faults, cache, max_lost_needles, max_rewritten_tokens, .. } = other;
        for (sum, count) in [
            (&mut self.requests, other.requests),
            (&mut self.requests_over_budget, other.requests_over_budget),
            (&mut self.refused, other.refused),
            (&mut self.refused_over_budget, other.refused_over_budget),
            (&mut self.overruns, other.overruns),
            (&mut self.invalid, other.invalid),
            (&mut self.needles, other.needles),
            (&mut self.lost_needles, other.lost_needles),
            (&mut self.hard_needles, other.hard_needles),
            (&mut self.lost_hard_needles, other.lost_hard_needles),
            (&mut self.needles_in_line, other.needles_in_line),
            (&mut self.hard_needles_in_line, other.hard_needles_in_line),
            (&mut self.recallable, other.recallable),
            (&mut self.lossy_requests, other.lossy_requests),
            (&mut self.prefix_edits, other.prefix_edits),
            (&mut self.changed_without_pressure, other.changed_without_pressure),
            (&mut self.task_kept, other.task_kept),
            (&mut self.edits_kept, other.edits_kept),
        ] {
            *sum += count;
        }
        for (sum, tokens) in [
            (&mut self.overrun_tokens, other.overrun_tokens),
            (&mut self.read, other.read),
            (&mut self.written, other.written),
            (&mut self.everything_read, other.everything_read),
            (&mut self.everything_written, other.everything_written),
            (&mut self.recall_read, other.recall_read),
            (&mut self.recall_written, other.recall_written),
        ] {
            *sum += tokens;
        }
        self.max_lost_needles = self.max_lost_needles.max(*max_lost_needles);
        self.max_rewritten_tokens = self.max_rewritten_tokens.max(*max_rewritten_tokens);
        if self.refusal.is_none() {
            self.refusal.clone_from(refusal);
        }
        for (fault, count) in faults {
            *self.faults.entry(fault.clone()).or_default() += count;
        }
        self.cache.merge(cache);
    }
}

/// The figures of several sessions as ratios. Shares are fractions from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The sessions.
    pub sessions: usize,
    /// The requests.
    pub requests: u64,
    /// The requests whose whole history exceeds the budget.
    pub requests_over_budget: u64,
    /// The requests that the policy refused.
    pub refused: u64,
    /// The reason of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The requests above the budget.
    pub overruns: u64,
    /// The requests that a provider would reject.
    pub invalid: u64,
    /// The broken rules, and how often.
    pub faults: Faults,
    /// The cost relative to sending everything.
    pub cost: f64,
    /// The cost with recalls.
    pub cost_with_recalls: f64,
    /// The largest cost of a session.
    pub worst_cost: f64,
    /// The share of needles that were sent.
    pub needles: f64,
    /// The share of hard needles that were sent.
    pub hard_needles: f64,
    /// The share of needles that were sent in their line.
    pub needles_in_line: f64,
    /// The share of hard needles that were sent in their line.
    pub hard_needles_in_line: f64,
    /// The share of lost needles whose source the request names.
    pub recallable: f64,
    /// The share of requests over budget that lost a needle.
    pub lossy_requests: f64,
    /// The most needles that one request lost.
    pub max_lost_needles: u64,
    /// The prefix edits of a session, on average.
    pub prefix_edits: f64,
    /// The most tokens that one edit of the prefix rewrote.
    pub max_rewritten_tokens: i64,
    /// The changed requests at or below the pressure point.
    pub changed_without_pressure: u64,
    /// The share of requests over budget with the whole task.
    pub task_kept: f64,
    /// The share of requests over budget with the last three edits whole.
    pub edits_kept: f64,
    /// The share of input tokens that the provider read from its cache, if the sessions record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_cache_reads: Option<f64>,
    /// The share that the referee predicts for the same requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_cache_reads: Option<f64>,
}

impl Summary {
    /// Summarizes the figures of several sessions.
    pub fn new<'f>(figures: impl IntoIterator<Item = &'f Figures>, prices: Prices) -> Self {
        let (mut total, mut sessions, mut worst_cost) = (Figures::default(), 0, 0.0_f64);
        for figures in figures {
            total.merge(figures);
            sessions += 1;
            worst_cost = worst_cost.max(figures.cost(prices));
        }
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let share_or_all = |part: u64, of: u64| if of == 0 { 1.0 } else { share(part, of) };
        let answered = total.requests_over_budget - total.refused_over_budget;
        let with_recalls =
            prices.cost(total.read + total.recall_read, total.written + total.recall_written);
        let cache = total.cache.shares();
        Self {
            sessions,
            requests: total.requests,
            requests_over_budget: total.requests_over_budget,
            refused: total.refused,
            overruns: total.overruns,
            invalid: total.invalid,
            cost: total.cost(prices),
            cost_with_recalls: total.relative(prices, with_recalls),
            worst_cost,
            needles: 1.0 - share(total.lost_needles, total.needles),
            hard_needles: 1.0 - share(total.lost_hard_needles, total.hard_needles),
            needles_in_line: share_or_all(total.needles_in_line, total.needles),
            hard_needles_in_line: share_or_all(total.hard_needles_in_line, total.hard_needles),
            recallable: share_or_all(total.recallable, total.lost_needles),
            lossy_requests: share(total.lossy_requests, answered),
            max_lost_needles: total.max_lost_needles,
            prefix_edits: share(total.prefix_edits, sessions as u64),
            max_rewritten_tokens: total.max_rewritten_tokens,
            changed_without_pressure: total.changed_without_pressure,
            task_kept: share(total.task_kept, answered),
            edits_kept: share(total.edits_kept, answered),
            recorded_cache_reads: cache.map(|(recorded, _)| recorded),
            predicted_cache_reads: cache.map(|(_, predicted)| predicted),
            refusal: total.refusal,
            faults: total.faults,
        }
    }
}
