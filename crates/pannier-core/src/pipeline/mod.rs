//! The six stages, in their fixed order: classify, score, deduplicate, sort, slice, place.
//!
//! Items are borrowed and never cloned. What the stages hand on are indices into the pool and scores,
//! and the selection keeps them, so that every decision can be told afterwards without having been
//! written down for anybody during the run.

mod classify;
mod deduplicate;
mod explain;
mod fit;
mod forms;
mod near;
mod place;
mod score;
mod selected;
mod selection;
mod slice;
mod sort;
mod units;

use std::fmt;

pub use explain::{Decision, Explanation, FoundBudget, Rank, Rival};
pub use selected::{Selected, Totals};
pub use selection::Selection;

use crate::diagnostics::{
    ItemDecision, ItemEvent, NullTraceCollector, OverflowEvent, PipelineStage, TraceCollector,
    TraceDetailLevel,
};
use crate::slicer::Candidate;
use crate::{
    ChronologicalPlacer, ContextBudget, ContextItem, Cost, Deduplication, Error, GreedySlice,
    InputOrder, Ledger, OverflowStrategy, Placed, Placer, Rendering, Scorer, Slicer,
};
pub(crate) use fit::{Fitting, fewest};
pub(crate) use forms::Forms;
pub(crate) use place::Merge;
pub(crate) use selection::Run;
use slice::Sliced;
use sort::Sorted;

type OverflowObserver = Box<dyn Fn(&OverflowEvent<&ContextItem>) + Send + Sync>;

/// Selects and orders items within a budget.
///
/// A pipeline has no state of its own that changes: it may be shared between threads, and the same
/// items and budget give the same selection every time.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, Pipeline, ReflexiveScorer};
///
/// let item = |content: &str, tokens, hint| {
///     ContextItem::builder(content, tokens).future_relevance_hint(hint).build()
/// };
/// let items = [
///     item("The invoice total is 1,240 EUR.", 11, 0.9)?,
///     item("Weather in Oslo: light rain.", 8, 0.1)?,
///     item("Invoices are due within 30 days.", 9, 0.7)?,
/// ];
/// let pipeline = Pipeline::builder(ReflexiveScorer).build();
/// let selection = pipeline.run(&items, &ContextBudget::new(20, 20)?)?;
///
/// let contents: Vec<_> = selection.items().map(ContextItem::content).collect();
/// assert_eq!(contents, [items[0].content(), items[2].content()]);
/// # Ok::<(), pannier_core::Error>(())
/// ```
pub struct Pipeline {
    scorer: Box<dyn Scorer>,
    slicer: Box<dyn Slicer>,
    placer: Box<dyn Placer>,
    deduplication: Deduplication,
    overflow_strategy: OverflowStrategy,
    keep_groups_together: bool,
    overflow_observer: Option<OverflowObserver>,
    rendering: Option<Box<dyn Rendering>>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("deduplication", &self.deduplication)
            .field("overflow_strategy", &self.overflow_strategy)
            .field("keep_groups_together", &self.keep_groups_together)
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Starts a pipeline from the scorer that judges its items.
    ///
    /// Unless told otherwise it fills with [`GreedySlice`], places with [`ChronologicalPlacer`], drops
    /// items with equal content, and fails on overflow.
    pub fn builder(scorer: impl Scorer + 'static) -> PipelineBuilder {
        PipelineBuilder(Self {
            scorer: Box::new(scorer),
            slicer: Box::new(GreedySlice),
            placer: Box::new(ChronologicalPlacer),
            deduplication: Deduplication::Exact,
            overflow_strategy: OverflowStrategy::default(),
            keep_groups_together: false,
            overflow_observer: None,
            rendering: None,
        })
    }

    /// The same pipeline, for selections that are rendered.
    ///
    /// What the rendering has whatever is selected is taken off the budget first, and what it puts around an item is
    /// taken for a part of it. Once items are placed, the
    /// whole is counted, and while it is above the target, the unit with the lowest rank goes, for the reason
    /// [`RenderedOverBudget`](crate::ExclusionReason::RenderedOverBudget). Pinned items stay. If the strategy is
    /// to proceed on overflow, it may go up to the window.
    pub fn rendered_by(mut self, rendering: impl Rendering + 'static) -> Self {
        self.rendering = Some(Box::new(rendering));
        self
    }

    pub(crate) fn rendering(&self) -> Option<&dyn Rendering> {
        self.rendering.as_deref()
    }

    pub(crate) fn slicer(&self) -> &dyn Slicer {
        &*self.slicer
    }

    /// Selects from `items` what fits `budget`, in the order it should be sent.
    ///
    /// # Errors
    ///
    /// [`Error::PinnedOverBudget`], [`Error::OverTarget`], [`Error::OverWindow`] or
    /// [`Error::FixedOverBudget`] if the budget cannot be met, and whatever keeps the slicer from deciding.
    pub fn run<'a>(
        &self,
        items: &'a [ContextItem],
        budget: &ContextBudget,
    ) -> Result<Selection<'a>, Error> {
        self.run_traced(items, budget, &mut NullTraceCollector)
    }

    /// As [`run`](Self::run), watched by a collector.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_traced<'a, C: TraceCollector + ?Sized>(
        &self,
        items: &'a [ContextItem],
        budget: &ContextBudget,
        collector: &mut C,
    ) -> Result<Selection<'a>, Error> {
        let enabled = collector.is_enabled();
        if enabled {
            collector.run_started(items.len(), budget);
        }
        let result = self.run_stages(items, budget, &mut Trace { enabled, collector });
        if enabled {
            match &result {
                Ok(selection) => collector.run_ended(selection),
                Err(error) => collector.run_failed(error),
            }
        }
        result
    }

    /// The stages that do not depend on how large the budget is.
    pub(crate) fn prepare<'a, C: TraceCollector + ?Sized>(
        &self,
        items: &'a [ContextItem],
        budget: &ContextBudget,
        trace: &mut Trace<'_, C>,
    ) -> Result<Prepared<'a>, Error> {
        if u32::try_from(items.len()).is_err() {
            return Err(Error::PoolTooLarge { items: items.len() });
        }
        let mut run = Run::new(items, budget);

        trace.start(&PipelineStage::Classify, items.len());
        run.classified = classify::classify(items, budget, self.rendering())?;
        run.fixed_tokens = self
            .rendering()
            .map_or(0, |rendering| rendering.cost(&Placed::new(items, &[], Forms::WHOLE)).total());
        if let Some(rendering) = self.rendering() {
            let framing = |(index, item)| rendering.framing(index, item).max(0);
            run.framing = items.iter().enumerate().map(framing).collect();
            let short = |(index, item): (usize, &ContextItem)| {
                item.short_form().map_or(0, |short| rendering.short_framing(index, short).max(0))
            };
            run.short_framing = items.iter().enumerate().map(short).collect();
            let heading = |(index, item)| rendering.heading(index, item).max(0);
            run.headings = items.iter().enumerate().map(heading).collect();
        }
        run.effective = budget.effective(run.committed_tokens());
        let (pinned, scoreable) = (&run.classified.pinned, &run.classified.scoreable);
        let (pinned_items, scored_items) = (pinned.item_count(), scoreable.item_count());
        trace.end(&PipelineStage::Classify, items.len(), pinned_items + scored_items, &run);

        trace.start(&PipelineStage::Score, scored_items);
        run.scores = score::score(items, scoreable, &*self.scorer);
        for index in &*pinned.in_pool_order() {
            run.scores[*index as usize] = 1.0;
        }
        trace.end(&PipelineStage::Score, scored_items, scored_items, &run);

        trace.start(&PipelineStage::Deduplicate, scored_items);
        run.duplicates =
            deduplicate::deduplicate(items, scoreable, &run.scores, self.deduplication);
        trace.end(&PipelineStage::Deduplicate, scored_items, run.unique_items(), &run);

        let Sorted { units, candidates } = sort::sort(&run, &run.scores, &run.duplicates);
        run.sorted = units;
        Ok(Prepared { run, candidates })
    }

    fn run_stages<'a, C: TraceCollector + ?Sized>(
        &self,
        items: &'a [ContextItem],
        budget: &ContextBudget,
        trace: &mut Trace<'_, C>,
    ) -> Result<Selection<'a>, Error> {
        let Prepared { run, candidates } = self.prepare(items, budget, trace)?;
        let selection = self.finish(run, &candidates, trace)?;
        if let (Some(observer), Some(event)) = (&self.overflow_observer, selection.overflow()) {
            observer(&event);
        }
        Ok(selection)
    }

    /// The stages that do.
    fn finish<'a, C: TraceCollector + ?Sized>(
        &self,
        mut run: Run<'a>,
        candidates: &[Candidate<'_>],
        trace: &mut Trace<'_, C>,
    ) -> Result<Selection<'a>, Error> {
        let (items, budget) = (run.items, run.budget.clone());
        let (pinned, scoreable) = (&run.classified.pinned, &run.classified.scoreable);
        let pinned_items = pinned.item_count();

        let unique_items = run.unique_items();
        trace.start(&PipelineStage::Slice, unique_items);
        let Sliced { verdicts, shortfalls, units: sliced, taken, forms, is_known_to_fit } =
            self.slice(&run, &run.sorted, candidates, &run.scores, &budget)?;
        (run.verdicts, run.shortfalls) = (verdicts, shortfalls);
        let sliced_items = sliced.iter().map(|unit| scoreable.members(*unit).len()).sum();
        trace.end(&PipelineStage::Slice, unique_items, sliced_items, &run);

        trace.start(&PipelineStage::Place, pinned_items + sliced_items);
        let pinned_tokens = run.classified.pinned_tokens;
        let scores = &run.scores;
        let sorted = &run.sorted;
        let mut merge =
            Merge { items, scores, pinned, pinned_tokens, scoreable, sliced, sorted, taken, forms };
        if !is_known_to_fit {
            run.overflow = merge.handle_overflow(&budget, self.overflow_strategy)?;
        }
        run.placed = self.place(&merge)?;
        if run.overflow.tokens_over_budget.is_some() {
            run.merged = merge.indices();
        }
        if let Some(rendering) = self.rendering() {
            let fitting = Fitting::new(&merge, &run.placed, rendering);
            let (left, out) = fitting.fit(&budget, self.overflow_strategy)?;
            (run.placed, run.rendered_out) = (left.placed, out);
        }
        run.forms = merge.forms;
        run.ledger = self.ledger(&run);
        let over = run.ledger.sent().saturating_sub(budget.target_tokens());
        let is_rendered = self.rendering().is_some();
        if is_rendered && over > 0 && self.overflow_strategy == OverflowStrategy::Proceed {
            run.overflow.tokens_over_budget = Some(over);
            run.merged.clone_from(&run.placed);
        }
        trace.end(&PipelineStage::Place, pinned_items + sliced_items, run.placed.len(), &run);
        Ok(Selection::new(run))
    }
}

impl Pipeline {
    /// Whether the order of what is selected follows from more than what is selected.
    pub(crate) fn places_as_taken(&self) -> bool {
        self.placer.input_order() == InputOrder::Taken
    }

    /// The order of what was merged.
    pub(crate) fn place(&self, merge: &Merge<'_>) -> Result<Vec<u32>, Error> {
        match self.keep_groups_together {
            true => merge.place_units(&*self.placer),
            false => merge.place_items(&*self.placer),
        }
    }

    fn ledger(&self, run: &Run<'_>) -> Ledger {
        let placed = Placed::new(run.items, &run.placed, &run.forms);
        let plain = || Cost { items: placed.tokens(), ..Cost::default() };
        let cost = self.rendering().map_or_else(plain, |rendering| rendering.cost(&placed));
        Ledger::new(&run.budget, cost)
    }
}

/// A run up to the sort stage.
pub(crate) struct Prepared<'a> {
    pub(crate) run: Run<'a>,
    /// The units that compete for the budget, in the order of `run.sorted`.
    pub(crate) candidates: Vec<Candidate<'a>>,
}

/// The collector, and whether it is to be called.
pub(crate) struct Trace<'t, C: ?Sized> {
    enabled: bool,
    collector: &'t mut C,
}

impl<'t> Trace<'t, NullTraceCollector> {
    /// Nobody watches.
    pub(crate) fn none(collector: &'t mut NullTraceCollector) -> Self {
        Self { enabled: false, collector }
    }
}

impl<C: TraceCollector + ?Sized> Trace<'_, C> {
    fn start(&mut self, stage: &PipelineStage, items_in: usize) {
        if self.enabled {
            self.collector.stage_started(stage, items_in);
        }
    }

    fn end(&mut self, stage: &PipelineStage, items_in: usize, items_out: usize, run: &Run<'_>) {
        if !self.enabled {
            return;
        }
        let level = self.collector.detail_level();
        if level >= TraceDetailLevel::Exclusion {
            let mut tell = |index: u32, decision: ItemDecision<'_>| {
                let index = index as usize;
                let score = run.scores.get(index).copied().unwrap_or_default();
                let item = &run.items[index];
                self.collector.record_item(&ItemEvent { stage, index, item, score, decision });
            };
            if level >= TraceDetailLevel::Item && *stage == PipelineStage::Score {
                let scored = run.classified.scoreable.in_pool_order();
                scored.iter().for_each(|index| tell(*index, ItemDecision::Scored));
            }
            run.each_excluded(stage, |index, reason| tell(index, ItemDecision::Excluded(&reason)));
            if level >= TraceDetailLevel::Item && *stage == PipelineStage::Place {
                run.each_included(|index, reason| tell(index, ItemDecision::Included(reason)));
            }
        }
        self.collector.stage_ended(stage, items_in, items_out);
    }
}

/// Builds a [`Pipeline`]; see [`Pipeline::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct PipelineBuilder(Pipeline);

impl PipelineBuilder {
    /// Sets what decides which items fit.
    pub fn slicer(mut self, slicer: impl Slicer + 'static) -> Self {
        self.0.slicer = Box::new(slicer);
        self
    }

    /// Sets what orders the selection.
    pub fn placer(mut self, placer: impl Placer + 'static) -> Self {
        self.0.placer = Box::new(placer);
        self
    }

    /// Drops all but the best of items with equal content, or not; or of those, too, that are nearly equal.
    ///
    /// Only contents are compared: in a chat, of two messages that say "yes", one goes. Switch it off
    /// where that matters.
    pub fn deduplication(mut self, deduplication: impl Into<Deduplication>) -> Self {
        self.0.deduplication = deduplication.into();
        self
    }

    /// Sets what happens to a selection above its target.
    pub fn overflow_strategy(mut self, strategy: OverflowStrategy) -> Self {
        self.0.overflow_strategy = strategy;
        self
    }

    /// Places the members of a group together, in pool order, where their best member belongs.
    pub fn keep_groups_together(mut self, together: bool) -> Self {
        self.0.keep_groups_together = together;
        self
    }

    /// Calls a function when a selection goes over its target and the strategy is to proceed.
    pub fn on_overflow(
        mut self,
        observer: impl Fn(&OverflowEvent<&ContextItem>) + Send + Sync + 'static,
    ) -> Self {
        self.0.overflow_observer = Some(Box::new(observer));
        self
    }

    /// Returns the pipeline.
    pub fn build(self) -> Pipeline {
        self.0
    }
}

opaque_debug!(PipelineBuilder);
