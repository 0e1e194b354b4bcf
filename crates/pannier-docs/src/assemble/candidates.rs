//! The candidates of a context: search hits as items of the engine.
//!
//! Searching does not depend on the budget, so one search serves many budgets.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use pannier_core::item::{ContextItemBuilder, FormName, Passage};
use pannier_core::{
    ContextBudget, ContextItem, ContextKind, Layout, Pipeline, Selection, TokenCounter,
};
use pannier_layout::DocumentLayout;
use pannier_policy::{BudgetScope, PolicyRegistry, Receipt, ReceiptSource, RunConfig};

use super::window::{Window, windows};
use crate::chunk::{complete_fences, is_markdown, open_fence};
use crate::{
    AssembledContext, Assembler, AssemblyConfig, ContextChunk, DocsError, Hit, OmittedChunk,
    TokenBudget,
};

/// The end of a truncated passage.
const ELLIPSIS: &str = "...";

/// The hits of a search, ready to be packed for any budget.
#[derive(Debug)]
pub struct Candidates {
    config: AssemblyConfig,
    counter: Arc<dyn TokenCounter>,
    /// The version of the index.
    version: String,
    query: String,
    hits: Vec<Hit>,
    items: Vec<ContextItem>,
    /// The position of the best hit.
    best: usize,
    spans: PassageSpans,
}

/// The bytes of documents that passages have, whole or cut.
#[derive(Clone, Debug)]
pub struct PassageSpans(Arc<[Vec<Window>]>);

impl PassageSpans {
    /// Returns the spans of a passage that is cut to some sentences; none if it is not.
    pub fn get(&self, index: usize, sent: &ContextItem) -> Vec<Range<usize>> {
        let windows = self.0.get(index).map_or(&[][..], Vec::as_slice);
        let window = windows.iter().find(|window| window.text == sent.content());
        window.map(|window| window.spans.clone()).unwrap_or_default()
    }
}

impl Candidates {
    pub(crate) fn new(
        assembler: &Assembler<'_>,
        config: AssemblyConfig,
        query: &str,
        mut hits: Vec<Hit>,
    ) -> Result<Self, DocsError> {
        let groups = match assembler.config().neighbors {
            true => add_neighbors(assembler, &mut hits)?,
            false => BTreeMap::new(),
        };
        let texts: Vec<Cow<'_, str>> = hits.iter().map(|hit| complete(hit, &hit.text)).collect();
        let tokens: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let tokens = assembler.counter().count_each(&tokens);
        let best = hits.iter().map(|hit| hit.score).max().unwrap_or_default().max(1) as f64;
        let mut items = Vec::with_capacity(hits.len());
        let mut spans = Vec::with_capacity(hits.len());
        for ((hit, text), tokens) in hits.iter().zip(&texts).zip(tokens) {
            let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
            let mut item = new_item(hit, text, tokens, hit.score as f64 / best);
            let windows = match assembler.config().windows {
                true => fitted_windows(assembler, hit, tokens),
                false => Vec::new(),
            };
            for (window, tokens) in &windows {
                item = item.form(FormName::new(WINDOW)?, window.text.as_str(), *tokens);
            }
            spans.push(windows.into_iter().map(|(window, _)| window).collect());
            if let Some(group) = groups.get(&hit.id) {
                item = item.group(group);
            }
            items.push(item.build()?);
        }
        let is_best = |hit: &Hit| hit.score as f64 >= best;
        let best = hits.iter().position(is_best).unwrap_or_default();
        Ok(Self {
            config,
            counter: Arc::clone(assembler.counter()),
            version: assembler.index().manifest().version.clone(),
            query: query.to_owned(),
            hits,
            items,
            best,
            spans: PassageSpans(spans.into()),
        })
    }

    /// Returns the spans of passages that are cut.
    pub fn spans(&self) -> &PassageSpans {
        &self.spans
    }

    /// Returns the hits.
    pub fn hits(&self) -> &[Hit] {
        &self.hits
    }

    /// Returns the pipeline for the [pool](Self::pool) at the same budget.
    ///
    /// # Errors
    ///
    /// [`DocsError::Engine`] if the policy cannot be built.
    pub fn pipeline(&self, budget: &TokenBudget) -> Result<Pipeline, DocsError> {
        self.pipeline_with(budget, Arc::new(self.layout(budget)))
    }

    /// Returns the pipeline with another layout.
    ///
    /// # Errors
    ///
    /// As [`pipeline`](Self::pipeline).
    pub fn pipeline_with(
        &self,
        budget: &TokenBudget,
        layout: Arc<dyn Layout>,
    ) -> Result<Pipeline, DocsError> {
        let policy = self.config.policy(budget.per_doc_overhead);
        let pipeline = PolicyRegistry::default().pipeline(&policy, None)?;
        Ok(pipeline.with_layout(layout))
    }

    /// Returns the layout of passages as text.
    pub fn layout(&self, budget: &TokenBudget) -> DocumentLayout {
        let min_heading_tokens = i64::try_from(budget.per_doc_overhead).unwrap_or(i64::MAX);
        DocumentLayout::new(Arc::clone(&self.counter))
            .with_headings(self.config.packing.headings())
            .with_gap_marks(self.config.windows)
            .with_min_heading_tokens(min_heading_tokens)
    }

    /// Returns the items of the engine. If none fits the budget whole, the best is truncated.
    ///
    /// # Errors
    ///
    /// As [`assemble`](Self::assemble).
    pub fn pool(&self, budget: &TokenBudget) -> Result<Cow<'_, [ContextItem]>, DocsError> {
        self.select(budget, |pool, _| match std::ptr::eq(pool, &self.items[..]) {
            true => Cow::Borrowed(&self.items[..]),
            false => Cow::Owned(pool.to_vec()),
        })
    }

    /// Selects, and if nothing fits, selects again with the best passage truncated. Calls `f` with the pool and the selection.
    ///
    /// # Errors
    ///
    /// As [`assemble`](Self::assemble).
    pub fn select<T>(
        &self,
        budget: &TokenBudget,
        f: impl FnOnce(&[ContextItem], &Selection<'_>) -> T,
    ) -> Result<T, DocsError> {
        let (pipeline, tokens) = (self.pipeline(budget)?, budget.context_budget()?);
        let selection = pipeline.run(&self.items, &tokens)?;
        if !selection.is_empty() || budget.available_tokens() == 0 || self.items.is_empty() {
            return Ok(f(&self.items, &selection));
        }
        match self.truncate_best(budget)? {
            Some(truncated) => {
                let mut pool = self.items.clone();
                pool[self.best] = truncated;
                let selection = pipeline.run(&pool, &tokens)?;
                Ok(f(&pool, &selection))
            }
            None => Ok(f(&self.items, &selection)),
        }
    }

    /// Returns the best passage alone, truncated to fit with its heading, or `None` if nothing of it fits.
    fn truncate_best(&self, budget: &TokenBudget) -> Result<Option<ContextItem>, DocsError> {
        let (item, hit) = (&self.items[self.best], &self.hits[self.best]);
        let layout = self.layout(budget);
        let heading = usize::try_from(layout.heading_tokens(item)).unwrap_or(usize::MAX);
        let Some(room) = budget.available_tokens().checked_sub(heading) else { return Ok(None) };
        if item.group().is_some() && item.tokens() <= i64::try_from(room).unwrap_or(i64::MAX) {
            // Without its neighbors it fits.
            return Ok(Some(new_item(hit, item.content(), item.tokens(), 1.0).build()?));
        }
        // Tokens merge across the ellipsis, so shorter prefixes are tried until one fits.
        for limit in (1..=room).rev().take(16) {
            if let Some(cut) = self.cut_best(limit)?
                && self.counter.count(&format!("{}\n", cut.content())) <= room
            {
                return Ok(Some(cut));
            }
        }
        Ok(None)
    }

    /// Returns the best passage alone, cut to this many tokens and an ellipsis; `None` if nothing is left of it.
    fn cut_best(&self, limit: usize) -> Result<Option<ContextItem>, DocsError> {
        let (item, hit) = (&self.items[self.best], &self.hits[self.best]);
        let kept = self.counter.truncate(&hit.text, limit).trim_end();
        if kept.is_empty() {
            return Ok(None);
        }
        let text = format!("{kept}{ELLIPSIS}");
        let text = complete(hit, &text);
        let tokens = i64::try_from(self.counter.count(&text)).unwrap_or(i64::MAX);
        let cut = new_item(hit, &text, tokens, 1.0).original_tokens(item.tokens());
        let end = (hit.range.start + kept.len()) as u64;
        Ok(Some(cut.metadata("end", end).build()?))
    }

    /// Returns the items for a [pipeline with another layout](Self::pipeline_with). If none fits the budget whole, the best
    /// is truncated as far as that fits.
    ///
    /// # Errors
    ///
    /// [`DocsError::Engine`] if the engine cannot select.
    pub fn pool_for(
        &self,
        pipeline: &Pipeline,
        budget: &ContextBudget,
    ) -> Result<Cow<'_, [ContextItem]>, DocsError> {
        let mut pool = Cow::Borrowed(&self.items[..]);
        if self.items.is_empty() || !pipeline.run(&self.items, budget)?.is_empty() {
            return Ok(pool);
        }
        let (item, hit) = (&self.items[self.best], &self.hits[self.best]);
        let mut fits = |cut: Option<ContextItem>| -> Result<bool, DocsError> {
            let Some(cut) = cut else { return Ok(false) };
            let mut changed = self.items.clone();
            changed[self.best] = cut;
            let fits = !pipeline.run(&changed, budget)?.is_empty();
            if fits {
                pool = Cow::Owned(changed);
            }
            Ok(fits)
        };
        // Without its neighbors it may fit whole.
        if item.group().is_some()
            && fits(Some(new_item(hit, item.content(), item.tokens(), 1.0).build()?))?
        {
            return Ok(pool);
        }
        let (mut low, mut high) = (0, usize::try_from(item.tokens()).unwrap_or_default());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(self.cut_best(middle)?)? { low = middle } else { high = middle }
        }
        Ok(pool)
    }

    /// Assembles the context for a budget.
    ///
    /// # Errors
    ///
    /// [`DocsError::Engine`] if the engine cannot select.
    pub fn assemble(&self, budget: &TokenBudget) -> Result<AssembledContext, DocsError> {
        self.select(budget, |pool, selection| self.context(pool, selection, budget))
    }

    fn context(
        &self,
        pool: &[ContextItem],
        selection: &Selection<'_>,
        budget: &TokenBudget,
    ) -> AssembledContext {
        let include_metadata = self.config.include_metadata;
        let chunks: Vec<ContextChunk> = selection
            .sent()
            .map(|sent| {
                let (item, spans) = (sent.item(), self.spans.get(sent.index, sent.item()));
                ContextChunk::new(&self.hits[sent.index], item, spans, include_metadata)
            })
            .collect();
        let truncated = selection.indices().any(|index| pool[index].original_tokens().is_some());
        let excluded = selection.report().excluded.into_iter();
        let omitted = excluded.filter_map(|excluded| {
            let hit = excluded.index.and_then(|index| self.hits.get(index))?;
            Some(OmittedChunk::new(hit, excluded, pool))
        });
        let text = self.layout(budget).render(selection.items());
        let count = |tokens: i64| usize::try_from(tokens).unwrap_or_default();
        let total_tokens = count(selection.tokens());
        AssembledContext {
            query_hash: blake3::hash(self.query.as_bytes()).to_hex().to_string(),
            state_root: self.version.clone(),
            available_tokens: budget.available_tokens(),
            total_tokens,
            overhead_tokens: self.overhead(selection, budget),
            truncated,
            chunks,
            omitted: omitted.collect(),
            text,
        }
    }

    /// Returns the tokens of headings and separators: those charged, as far as the budget has them, or those of the
    /// rendered text if they are more.
    fn overhead(&self, selection: &Selection<'_>, budget: &TokenBudget) -> usize {
        let layout = self.layout(budget);
        let mut last = None;
        let mut overhead = 0_i64;
        for item in selection.items() {
            let document = Passage::from_item(item).map(|passage| passage.document.to_owned());
            if document != last {
                overhead = overhead.saturating_add(layout.heading_tokens(item));
            }
            last = document;
        }
        let rest = selection.ledger().sent().saturating_sub(selection.tokens());
        let available = i64::try_from(budget.available_tokens()).unwrap_or(i64::MAX);
        let charged = overhead.min(available.saturating_sub(selection.tokens()));
        usize::try_from(charged.max(rest)).unwrap_or_default()
    }

    /// Returns the configuration that receipts record.
    pub fn run_config(&self, budget: &TokenBudget) -> RunConfig {
        let config = &self.config;
        let mut run_config = RunConfig::new(config.policy(budget.per_doc_overhead));
        run_config.tokenizer = self.counter.name().to_owned();
        run_config.budget_scope = BudgetScope::Documents;
        run_config.source = Some(ReceiptSource {
            kind: KIND.to_owned(),
            version: self.version.clone(),
            query: Some(self.query.clone()),
            options: serde_json::to_value(config)
                .ok()
                .and_then(|value| serde_json::from_value(value).ok()),
        });
        run_config
    }

    /// Creates the receipt of a context, which can be replayed.
    ///
    /// # Errors
    ///
    /// As [`assemble`](Self::assemble).
    pub fn receipt(&self, budget: &TokenBudget) -> Result<Receipt, DocsError> {
        let run_config = self.run_config(budget);
        self.select(budget, |_, selection| Receipt::new(selection, run_config))
    }

    /// Returns the pool that a receipt was created from.
    ///
    /// # Errors
    ///
    /// As [`assemble`](Self::assemble).
    pub fn pool_from_receipt(&self, receipt: &Receipt) -> Result<Vec<ContextItem>, DocsError> {
        Ok(self.pool(&TokenBudget::from_receipt(receipt))?.into_owned())
    }
}

/// The kind of source that receipts record.
pub(crate) const KIND: &str = "passages";

/// The name of forms that are windows.
const WINDOW: &str = "sentences";

/// Returns the windows of a passage with their tokens, which fall strictly.
fn fitted_windows(assembler: &Assembler<'_>, hit: &Hit, whole: i64) -> Vec<(Window, i64)> {
    let chunks = assembler.index().manifest().chunks;
    let mut windows = windows(hit, usize::try_from(chunks).unwrap_or(usize::MAX));
    for window in &mut windows {
        window.text = complete(hit, &window.text).into_owned();
    }
    let texts: Vec<&str> = windows.iter().map(|window| window.text.as_str()).collect();
    let counts = assembler.counter().count_each(&texts).into_iter();
    let counts: Vec<i64> = counts.map(|count| i64::try_from(count).unwrap_or(i64::MAX)).collect();
    let mut last = whole;
    let mut fitted: Vec<(Window, i64)> = windows.into_iter().zip(counts).collect();
    fitted.retain(|(_, tokens)| {
        let is_shorter = (1..last).contains(tokens);
        last = if is_shorter { *tokens } else { last };
        is_shorter
    });
    fitted
}

/// Returns a text of a passage with its fences opened and closed.
fn complete<'t>(hit: &Hit, text: &'t str) -> Cow<'t, str> {
    let is_complete = !is_markdown(&hit.path) || hit.fence.is_empty() && open_fence(text).is_none();
    match is_complete {
        true => text.into(),
        false => complete_fences(&hit.fence, text).into(),
    }
}

/// Converts a hit into an item of the engine.
fn new_item(hit: &Hit, text: &str, tokens: i64, hint: f64) -> ContextItemBuilder {
    let passage = Passage {
        document: &hit.path,
        sequence: hit.sequence.into(),
        range: hit.range.start as u64..hit.range.end as u64,
    };
    let item = ContextItem::builder(text, tokens)
        .kind(ContextKind::DOCUMENT)
        .id(&hit.id)
        .passage(&passage)
        .future_relevance_hint(hint);
    match hit.date {
        Some(date) => item.timestamp(date),
        None => item,
    }
}

/// Adds the neighbors of each hit, and returns the group of each chunk. A neighbor that is a hit itself keeps its own group, and
/// one between two hits joins the better one.
fn add_neighbors(
    assembler: &Assembler<'_>,
    hits: &mut Vec<Hit>,
) -> Result<BTreeMap<String, String>, DocsError> {
    let mut known: BTreeSet<String> = hits.iter().map(|hit| hit.id.clone()).collect();
    let mut groups = BTreeMap::new();
    let mut all = Vec::with_capacity(hits.len() * 3);
    // All at once: a corpus may be on another machine.
    let neighbors = assembler.index().neighbors(hits)?;
    let neighbors: BTreeMap<(u32, u32), Hit> =
        neighbors.into_iter().map(|hit| ((hit.document, hit.sequence), hit)).collect();
    for hit in hits.drain(..) {
        let mut add = |sequence: Option<u32>| {
            let neighbor = neighbors.get(&(hit.document, sequence?))?;
            let is_new = !neighbor.text.trim().is_empty() && known.insert(neighbor.id.clone());
            is_new.then(|| {
                groups.insert(hit.id.clone(), hit.id.clone());
                groups.insert(neighbor.id.clone(), hit.id.clone());
                neighbor.clone()
            })
        };
        let before = add(hit.sequence.checked_sub(1));
        let after = add(hit.sequence.checked_add(1));
        all.extend(before.into_iter().chain([hit]).chain(after));
    }
    *hits = all;
    Ok(groups)
}
