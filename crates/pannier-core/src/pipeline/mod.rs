//! The six stages, in their fixed order: classify, score, deduplicate, sort, slice, place.
//!
//! Items are borrowed and never cloned. The stages hand on indices into the pool and scores, and the selection keeps
//! them. So every decision can be reported afterwards, and a run that nobody asks about pays nothing for it.
//!
//! The first four stages do not depend on the size of the budget. [`Prepared`] holds their results, for questions
//! about many budgets.

mod classify;
mod close;
mod deduplicate;
mod explain;
mod near;
mod place;
mod score;
mod selected;
mod selection;
mod sort;
mod units;

use std::fmt;
use std::sync::Arc;

pub use explain::{BudgetThreshold, Decision, Explanation, Rank, Rival};
pub use selected::{SelectionSummary, SelectionTotals};
pub use selection::Selection;

use crate::diagnostics::{
    ItemDecision, ItemEvent, NullTraceCollector, OverflowEvent, PipelineStage, TraceCollector,
    TraceDetailLevel,
};
use crate::layout::PlannedCosts;
use crate::{
    ChronologicalPlacer, ContextBudget, ContextItem, Deduplication, Error, GreedySlice, Layout,
    OverflowStrategy, Placer, Pool, Scorer, Slicer, Tally,
};
pub(crate) use close::{Certificate, Contest};
pub(crate) use selection::{PreparedRun, RunState};
use sort::Sorted;

type OverflowObserver = Arc<dyn Fn(&OverflowEvent<&ContextItem>) + Send + Sync>;

/// Selects and orders items within a budget.
///
/// A pipeline has no state of its own that changes: it may be shared between threads, and the same
/// items and budget give the same selection every time. A clone shares its components.
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
#[derive(Clone)]
pub struct Pipeline {
    scorer: Arc<dyn Scorer>,
    slicer: Arc<dyn Slicer>,
    placer: Arc<dyn Placer>,
    layout: Option<Arc<dyn Layout>>,
    closing: Closing,
    deduplication: Deduplication,
    overflow_strategy: OverflowStrategy,
    keep_groups_together: bool,
    overflow_observer: Option<OverflowObserver>,
}

/// How the difference between a layout's plan and its measure is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closing {
    /// Drops what makes the whole too large, and fills what the plan over-estimated.
    #[default]
    Fill,
    /// Only drops. Selections that were recorded before closing could fill are replayed so.
    DropOnly,
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
    /// Defaults: [`GreedySlice`], [`ChronologicalPlacer`], items with equal content are dropped, and overflow is an
    /// error.
    pub fn builder(scorer: impl Scorer + 'static) -> PipelineBuilder {
        PipelineBuilder(Self {
            scorer: Arc::new(scorer),
            slicer: Arc::new(GreedySlice),
            placer: Arc::new(ChronologicalPlacer),
            layout: None,
            closing: Closing::Fill,
            deduplication: Deduplication::Exact,
            overflow_strategy: OverflowStrategy::default(),
            keep_groups_together: false,
            overflow_observer: None,
        })
    }

    /// Returns a builder with the components of this pipeline.
    pub fn into_builder(self) -> PipelineBuilder {
        PipelineBuilder(self)
    }

    /// Sets how selections are sent; see [`PipelineBuilder::layout`].
    #[must_use]
    pub fn with_layout(self, layout: impl Layout + 'static) -> Self {
        self.into_builder().layout(layout).build()
    }

    pub(crate) fn layout(&self) -> Option<&dyn Layout> {
        self.layout.as_deref()
    }

    pub(crate) fn slicer(&self) -> &dyn Slicer {
        &*self.slicer
    }

    /// Selects from `items` what fits `budget`, in the order it should be sent.
    ///
    /// # Errors
    ///
    /// [`Error::PinnedOverBudget`], [`Error::OverTarget`], [`Error::OverWindow`] or
    /// [`Error::RequiredTextOverBudget`] if the budget cannot be met, and any error of a component.
    pub fn run<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        budget: &ContextBudget,
    ) -> Result<Selection<'a>, Error> {
        self.run_stages(
            items.into_iter().collect(),
            budget,
            &mut Trace::none(&mut NullTraceCollector),
        )
    }

    /// As [`run`](Self::run), watched by a collector.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_traced<'a, C: TraceCollector + ?Sized>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
        budget: &ContextBudget,
        collector: &mut C,
    ) -> Result<Selection<'a>, Error> {
        let items: Vec<&'a ContextItem> = items.into_iter().collect();
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

    /// Runs the stages that do not depend on the size of the budget, for several budgets or questions.
    ///
    /// ```
    /// use pannier_core::{ContextBudget, ContextItem, Pipeline, RecencyScorer};
    ///
    /// let items = [ContextItem::new("one", 10)?, ContextItem::new("two", 20)?];
    /// let pipeline = Pipeline::builder(RecencyScorer).build();
    /// let prepared = pipeline.prepare(&items)?;
    /// for (tokens, selected) in [(5, 0), (10, 1), (30, 2)] {
    ///     let selection = prepared.select(&ContextBudget::new(tokens, tokens)?)?;
    ///     assert_eq!(selection.len(), selected);
    /// }
    /// # Ok::<(), pannier_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::PoolTooLarge`], and any error of the scorer or the layout.
    pub fn prepare<'a>(
        &self,
        items: impl IntoIterator<Item = &'a ContextItem>,
    ) -> Result<Prepared<'_, 'a>, Error> {
        let items = items.into_iter().collect();
        let mut nobody = NullTraceCollector;
        let data = self.prepare_run(items, None, &mut Trace::none(&mut nobody))?;
        Ok(Prepared { pipeline: self, data: Arc::new(data) })
    }

    fn prepare_run<'a, C: TraceCollector + ?Sized>(
        &self,
        items: Vec<&'a ContextItem>,
        budget: Option<&ContextBudget>,
        trace: &mut Trace<'_, C>,
    ) -> Result<PreparedRun<'a>, Error> {
        if u32::try_from(items.len()).is_err() {
            return Err(Error::PoolTooLarge { items: items.len() });
        }
        let item_count = items.len();
        let mut run = PreparedRun { items, ..PreparedRun::default() };

        trace.start(&PipelineStage::Classify, item_count);
        if let Some(layout) = self.layout() {
            let plan = layout.plan(&Pool::borrowed(&run.items))?;
            run.costs = PlannedCosts::new(plan, &run.items);
        }
        run.classified = classify::classify(&run.items, &run.costs);
        if let Some(budget) = budget {
            run.check_pinned(budget)?;
        }
        let (pinned, scoreable) = (&run.classified.pinned, &run.classified.scoreable);
        let (pinned_items, scored_items) = (pinned.item_count(), scoreable.item_count());
        trace.end(&PipelineStage::Classify, item_count, pinned_items + scored_items, (&run, None));

        trace.start(&PipelineStage::Score, scored_items);
        run.scores = score::score(&run.items, scoreable, &*self.scorer)?;
        for index in &*pinned.in_pool_order() {
            run.scores[*index as usize] = 1.0;
        }
        trace.end(&PipelineStage::Score, scored_items, scored_items, (&run, None));

        trace.start(&PipelineStage::Deduplicate, scored_items);
        run.duplicates =
            deduplicate::deduplicate(&run.items, scoreable, &run.scores, self.deduplication);
        trace.end(&PipelineStage::Deduplicate, scored_items, run.unique_items(), (&run, None));

        let Sorted { units, offers } = sort::sort(&run, &run.scores, &run.duplicates);
        (run.sorted, run.offers) = (units, offers);
        Ok(run)
    }

    fn run_stages<'a, C: TraceCollector + ?Sized>(
        &self,
        items: Vec<&'a ContextItem>,
        budget: &ContextBudget,
        trace: &mut Trace<'_, C>,
    ) -> Result<Selection<'a>, Error> {
        let prepared = Arc::new(self.prepare_run(items, Some(budget), trace)?);
        Ok(self.observe(self.finish(prepared, budget, trace)?))
    }

    /// Calls the observer if the selection overflowed.
    fn observe<'a>(&self, selection: Selection<'a>) -> Selection<'a> {
        if let (Some(observer), Some(event)) = (&self.overflow_observer, selection.overflow()) {
            observer(&event);
        }
        selection
    }

    /// The stages that depend on the size of the budget.
    fn finish<'a, C: TraceCollector + ?Sized>(
        &self,
        prepared: Arc<PreparedRun<'a>>,
        budget: &ContextBudget,
        trace: &mut Trace<'_, C>,
    ) -> Result<Selection<'a>, Error> {
        let mut run = RunState::new(prepared, budget);
        let prepared = &*Arc::clone(&run.prepared);
        let contest = Contest::of(prepared);
        let unique_items = prepared.unique_items();
        trace.start(&PipelineStage::Slice, unique_items);
        let mut tally = Tally::new(&prepared.offers, run.effective);
        self.slicer.slice(&mut tally)?;
        let layout = self.layout();
        let closed = layout.map(|layout| self.close(layout, &contest, &mut tally, budget));
        let closed = closed.transpose()?;
        let moves;
        (run.verdicts, moves, run.shortfalls) = tally.into_parts();
        let sliced_items = run.sliced_items();
        trace.end(&PipelineStage::Slice, unique_items, sliced_items, (prepared, Some(&run)));

        let merged_items = prepared.classified.pinned.item_count() + sliced_items;
        trace.start(&PipelineStage::Place, merged_items);
        let outcome = match closed {
            Some(outcome) => outcome,
            None => self.place_plain(&contest, &moves, budget)?,
        };
        run.set_outcome(outcome, self.layout.is_some(), self.overflow_strategy);
        trace.end(&PipelineStage::Place, merged_items, run.placed.len(), (prepared, Some(&run)));
        Ok(Selection::new(run))
    }
}

/// A pool after the stages that do not depend on the size of the budget: classified, scored, deduplicated, sorted.
#[derive(Clone)]
pub struct Prepared<'p, 'a> {
    pub(crate) pipeline: &'p Pipeline,
    pub(crate) data: Arc<PreparedRun<'a>>,
}

impl<'a> Prepared<'_, 'a> {
    /// Selects what fits a budget, as [`Pipeline::run`] does.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::run`].
    pub fn select(&self, budget: &ContextBudget) -> Result<Selection<'a>, Error> {
        Ok(self.pipeline.observe(self.select_unobserved(budget)?))
    }

    /// As [`select`](Self::select), without calling the overflow observer.
    fn select_unobserved(&self, budget: &ContextBudget) -> Result<Selection<'a>, Error> {
        self.data.check_pinned(budget)?;
        let mut nobody = NullTraceCollector;
        self.pipeline.finish(Arc::clone(&self.data), budget, &mut Trace::none(&mut nobody))
    }
}

opaque_debug!(Prepared<'p, 'a>);

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

    fn end(
        &mut self,
        stage: &PipelineStage,
        items_in: usize,
        items_out: usize,
        (prepared, run): (&PreparedRun<'_>, Option<&RunState<'_>>),
    ) {
        if !self.enabled {
            return;
        }
        let level = self.collector.detail_level();
        if level >= TraceDetailLevel::Exclusion {
            let mut record = |index: u32, decision: ItemDecision<'_>| {
                let index = index as usize;
                let score = prepared.scores.get(index).copied().unwrap_or_default();
                let item = prepared.items[index];
                self.collector.record_item(&ItemEvent { stage, index, item, score, decision });
            };
            if level >= TraceDetailLevel::Item && *stage == PipelineStage::Score {
                let scored = prepared.classified.scoreable.in_pool_order();
                scored.iter().for_each(|index| record(*index, ItemDecision::Scored));
            }
            let mut exclude = |index, reason| record(index, ItemDecision::Excluded(&reason));
            match run {
                Some(run) => run.for_each_excluded(stage, exclude),
                None => prepared.for_each_excluded(stage, &mut exclude),
            }
            if let Some(run) = run
                && level >= TraceDetailLevel::Item
                && *stage == PipelineStage::Place
            {
                run.for_each_included(|index, reason| {
                    record(index, ItemDecision::Included(reason));
                });
            }
        }
        self.collector.stage_ended(stage, items_in, items_out);
    }
}

/// Builds a [`Pipeline`]; see [`Pipeline::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct PipelineBuilder(Pipeline);

impl PipelineBuilder {
    /// Sets the scorer.
    pub fn scorer(mut self, scorer: impl Scorer + 'static) -> Self {
        self.0.scorer = Arc::new(scorer);
        self
    }

    /// Sets the slicer, which decides which items fit.
    pub fn slicer(mut self, slicer: impl Slicer + 'static) -> Self {
        self.0.slicer = Arc::new(slicer);
        self
    }

    /// Sets the placer, which orders the selection.
    pub fn placer(mut self, placer: impl Placer + 'static) -> Self {
        self.0.placer = Arc::new(placer);
        self
    }

    /// Sets how selections are sent. The budget then bounds everything that is sent.
    ///
    /// Tokens that the layout sends with any selection are taken off the budget first, and what it sends around an
    /// item is charged to the item. Where the layout counts the whole, the pipeline drops what is too much, for the
    /// reason [`RenderedOverBudget`](crate::ExclusionReason::RenderedOverBudget), and fills what was over-estimated.
    /// Pinned items stay. If the strategy is to proceed on overflow, the whole may go up to the window.
    pub fn layout(mut self, layout: impl Layout + 'static) -> Self {
        self.0.layout = Some(Arc::new(layout));
        self
    }

    /// Sets how the difference between a layout's plan and its measure is closed.
    pub fn closing(mut self, closing: Closing) -> Self {
        self.0.closing = closing;
        self
    }

    /// Drops all but the best of items with equal content, or not; or near-duplicates, too.
    ///
    /// Only contents are compared: in a chat, of two messages that say "yes", one is dropped. Switch it off
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
        self.0.overflow_observer = Some(Arc::new(observer));
        self
    }

    /// Returns the pipeline.
    pub fn build(self) -> Pipeline {
        self.0
    }
}

opaque_debug!(PipelineBuilder);
