//! The six stages, in their fixed order: classify, score, deduplicate, sort, slice, place. A pipeline with a relevance floor
//! drops items between deduplication and sort.
//!
//! Items are borrowed and never cloned. The stages pass on indices into the pool and scores, and the selection keeps
//! them. It can report every decision afterwards, and a run without a report pays nothing for diagnostics.
//!
//! The first four stages do not depend on the size of the budget. [`Prepared`] holds their results, for runs with
//! several budgets. The time is that of the scorer and the slicer, plus one hash and two sorts of `n` items.

mod classify;
mod close;
mod deduplicate;
mod explain;
mod floor;
mod near_duplicates;
mod place;
mod score;
mod selection;
mod sort;
mod units;

use std::sync::Arc;

pub use explain::{BudgetThreshold, Decision, Explanation, Rank, Rival, SentForm};
pub use selection::Selection;

use crate::diagnostics::{
    ItemDecision, ItemEvent, NullTraceCollector, OverflowEvent, PipelineStage, TraceCollector,
    TraceDetailLevel, with_collector,
};
use crate::layout::PlannedCosts;
use crate::{
    ChronologicalPlacer, ContextBudget, ContextItem, ContextKind, Deduplication, Error, Floor,
    FormWorths, GreedySlice, Layout, OverflowStrategy, Placer, Pool, Scorer, Slicer,
    SlicerProperties, Tally,
};
pub(crate) use close::{Certificate, Contest, Counts};
use deduplicate::UnitContents;
use floor::FloorCut;
pub(crate) use selection::{PreparedRun, RunState};
use sort::Sorted;

type OverflowObserver = Arc<dyn Fn(&OverflowEvent<&ContextItem>) + Send + Sync>;

/// Selects and orders items within a budget.
///
/// A pipeline never changes: threads may share it, and the same items and budget always give the same selection. A
/// clone shares its components.
///
/// ```
/// use pannier_core::{ContextBudget, ContextItem, Pipeline};
/// use pannier_core::score::ReflexiveScorer;
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
    floor: Option<Floor>,
    form_worths: FormWorths,
    keep_duplicates: Vec<ContextKind>,
    overflow_strategy: OverflowStrategy,
    keep_groups_together: bool,
    overflow_observer: Option<OverflowObserver>,
}

/// How the pipeline closes the difference between a layout's plan and its measured tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closing {
    /// Drops items above the target, and fills tokens that the plan overestimated.
    #[default]
    Fill,
    /// Only drops. Replays of receipts from before `Fill` existed use it.
    DropOnly,
}

impl Pipeline {
    /// Starts a pipeline with its scorer.
    ///
    /// Defaults: [`GreedySlice`], [`ChronologicalPlacer`], [`Deduplication::Exact`], [`OverflowStrategy::Throw`].
    pub fn builder(scorer: impl Scorer + 'static) -> PipelineBuilder {
        PipelineBuilder(Self {
            scorer: Arc::new(scorer),
            slicer: Arc::new(GreedySlice),
            placer: Arc::new(ChronologicalPlacer),
            layout: None,
            closing: Closing::Fill,
            deduplication: Deduplication::Exact,
            floor: None,
            form_worths: FormWorths::default(),
            keep_duplicates: Vec::new(),
            overflow_strategy: OverflowStrategy::default(),
            keep_groups_together: false,
            overflow_observer: None,
        })
    }

    /// Returns a builder with the components of this pipeline.
    pub fn into_builder(self) -> PipelineBuilder {
        PipelineBuilder(self)
    }

    /// Sets the layout; see [`PipelineBuilder::layout`].
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

    pub(crate) fn overflow_strategy(&self) -> OverflowStrategy {
        self.overflow_strategy
    }

    /// Returns the properties of the slicer.
    pub fn slicer_properties(&self) -> SlicerProperties {
        self.slicer.properties()
    }

    /// Selects the items that fit `budget`, in the order they should be sent.
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
        with_collector(|collector| match collector {
            None => self.run_traced(items, budget, &mut NullTraceCollector),
            Some(collector) => self.run_traced(items, budget, collector),
        })
    }

    /// Runs the pipeline as [`run`](Self::run) does, observed by a collector.
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
        let prepared = self.prepare_run(items, Some(budget), collector);
        let result =
            prepared.and_then(|prepared| self.finish(Arc::new(prepared), budget, collector));
        if let Ok(selection) = &result {
            self.observe(selection);
        }
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
    /// use pannier_core::{ContextBudget, ContextItem, Pipeline};
    /// use pannier_core::score::RecencyScorer;
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
        let data = self.prepare_run(items, None, &mut NullTraceCollector)?;
        Ok(Prepared { pipeline: self, data: Arc::new(data) })
    }

    fn prepare_run<'a, C: TraceCollector + ?Sized>(
        &self,
        items: Vec<&'a ContextItem>,
        budget: Option<&ContextBudget>,
        collector: &mut C,
    ) -> Result<PreparedRun<'a>, Error> {
        if u32::try_from(items.len()).is_err() {
            return Err(Error::PoolTooLarge { items: items.len() });
        }
        let item_count = items.len();
        let mut run = PreparedRun { items, ..PreparedRun::default() };

        start_stage(collector, &PipelineStage::Classify, item_count);
        if let Some(layout) = self.layout() {
            let plan = layout.plan(&Pool::borrowed(&run.items))?;
            run.costs = PlannedCosts::new(plan, &run.items);
        }
        run.costs.worths.clone_from(&self.form_worths);
        run.classified = classify::classify(&run.items, &run.costs);
        if let Some(budget) = budget {
            run.check_pinned(budget)?;
        }
        let (pinned, scoreable) = (&run.classified.pinned, &run.classified.scoreable);
        let (pinned_items, scored_items) = (pinned.item_count(), scoreable.item_count());
        let counts = (item_count, pinned_items + scored_items);
        end_stage(collector, &PipelineStage::Classify, counts, &run, None);

        start_stage(collector, &PipelineStage::Score, scored_items);
        run.scores = score::score(&run.items, scoreable, &*self.scorer)?;
        for index in &*pinned.in_pool_order() {
            run.scores[*index as usize] = 1.0;
        }
        end_stage(collector, &PipelineStage::Score, (scored_items, scored_items), &run, None);

        start_stage(collector, &PipelineStage::Deduplicate, scored_items);
        let contents = self.unit_contents(&run);
        run.duplicates = deduplicate::deduplicate(&contents, &run.scores, self.deduplication);
        let counts = (scored_items, run.unique_items());
        end_stage(collector, &PipelineStage::Deduplicate, counts, &run, None);

        if let Some(floor) = self.floor {
            let unique_items = run.unique_items();
            start_stage(collector, &PipelineStage::Floor, unique_items);
            run.floor = Some(FloorCut::new(floor, &run, &run.scores, &run.duplicates));
            let counts = (unique_items, run.competing_items());
            end_stage(collector, &PipelineStage::Floor, counts, &run, None);
        }

        let Sorted { units, offers } =
            sort::sort(&run, &run.scores, &run.duplicates, run.floor.as_ref());
        (run.sorted, run.offers) = (units, offers);
        Ok(run)
    }

    /// Returns the contents that deduplication compares.
    fn unit_contents<'r>(&'r self, run: &'r PreparedRun<'_>) -> UnitContents<'r> {
        let (items, units) = (&run.items[..], &run.classified.scoreable);
        UnitContents { items, units, keep: &self.keep_duplicates }
    }

    /// Calls the observer if the selection overflowed.
    fn observe(&self, selection: &Selection<'_>) {
        if let (Some(observer), Some(event)) = (&self.overflow_observer, selection.overflow()) {
            observer(&event);
        }
    }

    /// Runs the stages that depend on the size of the budget.
    fn finish<'a, C: TraceCollector + ?Sized>(
        &self,
        prepared: Arc<PreparedRun<'a>>,
        budget: &ContextBudget,
        collector: &mut C,
    ) -> Result<Selection<'a>, Error> {
        let mut run = RunState::new(prepared, budget);
        let prepared = &*Arc::clone(&run.prepared);
        let contest = Contest::of(prepared, Counts::AnyForm);
        let competing_items = prepared.competing_items();
        start_stage(collector, &PipelineStage::Slice, competing_items);
        let mut tally = Tally::new(&prepared.offers, run.effective);
        self.slicer.slice(&mut tally)?;
        let layout = self.layout();
        let closed = layout.map(|layout| self.close(layout, &contest, &mut tally, budget));
        let closed = closed.transpose()?;
        let decided = tally.into_decisions();
        (run.verdicts, run.shortfalls) = (decided.verdicts, decided.shortfalls);
        (run.notes, run.gap) = (decided.notes, decided.gap);
        let sliced_items = run.sliced_items();
        let counts = (competing_items, sliced_items);
        end_stage(collector, &PipelineStage::Slice, counts, prepared, Some(&run));

        let merged_items = prepared.classified.pinned.item_count() + sliced_items;
        start_stage(collector, &PipelineStage::Place, merged_items);
        let outcome = match closed {
            Some(outcome) => outcome,
            None => self.place_plain(&contest, &decided.moves, budget)?,
        };
        if !outcome.keeps_slice() {
            run.gap = None;
        }
        run.set_outcome(outcome, self.layout.is_some(), self.overflow_strategy);
        let counts = (merged_items, run.placed.len());
        end_stage(collector, &PipelineStage::Place, counts, prepared, Some(&run));
        Ok(Selection { run })
    }
}

/// A pool that is classified, scored, deduplicated and sorted. Any budget can follow.
#[derive(Clone)]
pub struct Prepared<'p, 'a> {
    pub(crate) pipeline: &'p Pipeline,
    pub(crate) data: Arc<PreparedRun<'a>>,
}

impl<'a> Prepared<'_, 'a> {
    /// Selects the items that fit a budget, as [`Pipeline::run`] does.
    ///
    /// # Errors
    ///
    /// As [`Pipeline::run`].
    pub fn select(&self, budget: &ContextBudget) -> Result<Selection<'a>, Error> {
        let selection = self.select_unobserved(budget)?;
        self.pipeline.observe(&selection);
        Ok(selection)
    }

    /// Selects without calling the overflow observer.
    fn select_unobserved(&self, budget: &ContextBudget) -> Result<Selection<'a>, Error> {
        self.data.check_pinned(budget)?;
        self.pipeline.finish(Arc::clone(&self.data), budget, &mut NullTraceCollector)
    }
}

opaque_debug!(Prepared<'p, 'a>);

fn start_stage<C>(collector: &mut C, stage: &PipelineStage, items_in: usize)
where
    C: TraceCollector + ?Sized,
{
    if collector.is_enabled() {
        collector.stage_started(stage, items_in);
    }
}

/// Reports the decisions of a stage in the detail that the collector wants, and the end of the stage.
fn end_stage<C: TraceCollector + ?Sized>(
    collector: &mut C,
    stage: &PipelineStage,
    (items_in, items_out): (usize, usize),
    prepared: &PreparedRun<'_>,
    run: Option<&RunState<'_>>,
) {
    if !collector.is_enabled() {
        return;
    }
    let level = collector.detail_level();
    if level >= TraceDetailLevel::Exclusion {
        let mut record = |index: u32, decision: ItemDecision<'_>| {
            let index = index as usize;
            let score = prepared.scores.get(index).copied().unwrap_or_default();
            let item = prepared.items[index];
            collector.record_item(&ItemEvent { stage, index, item, score, decision });
        };
        let all_items = level >= TraceDetailLevel::Item;
        if all_items && *stage == PipelineStage::Score {
            let scored = prepared.classified.scoreable.in_pool_order();
            scored.iter().for_each(|index| record(*index, ItemDecision::Scored));
        }
        let mut exclude = |index, reason| record(index, ItemDecision::Excluded(&reason));
        match run {
            Some(run) => run.for_each_excluded(stage, exclude),
            None => prepared.for_each_excluded(stage, &mut exclude),
        }
        if let Some(run) = run.filter(|_| all_items && *stage == PipelineStage::Place) {
            run.for_each_included(|index, reason| record(index, ItemDecision::Included(reason)));
        }
    }
    collector.stage_ended(stage, items_in, items_out);
}

/// Builds a [`Pipeline`]; see [`Pipeline::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct PipelineBuilder(Pipeline);

impl PipelineBuilder {
    setters! {
        /// Sets the scorer.
        scorer: impl Scorer + 'static => Arc::new(scorer);
        /// Sets the slicer, which chooses the items that fit.
        slicer: impl Slicer + 'static => Arc::new(slicer);
        /// Sets the placer, which orders the selected items.
        placer: impl Placer + 'static => Arc::new(placer);
        /// Sets the layout, which renders selections. The budget then limits the rendered text, not only the items.
        ///
        /// The pipeline subtracts the layout's fixed tokens from the budget, and charges an item for the text around it. If
        /// the layout measures the rendered text, the pipeline drops items above the target, for the reason
        /// [`RenderedOverBudget`](crate::ExclusionReason::RenderedOverBudget), and fills overestimated tokens. It never drops
        /// pinned items. With [`OverflowStrategy::Proceed`], the limit is the window instead of the target.
        layout: impl Layout + 'static => Some(Arc::new(layout));
        /// Sets how the difference between a layout's plan and its measured tokens is closed.
        closing: Closing => closing;
        /// Sets which duplicates are dropped. Default: [`Deduplication::Exact`].
        ///
        /// Deduplication compares contents only: of two chat messages "yes", it drops one. Where that matters, switch it off,
        /// or [keep the duplicates](Self::keep_duplicates) of messages.
        deduplication: impl Into<Deduplication> => deduplication.into();
        /// Sets the score below which items are dropped, for the reason
        /// [`BelowFloor`](crate::ExclusionReason::BelowFloor). Kept and pinned items stay. Default: no floor.
        floor: Floor => Some(floor);
        /// Sets what forms are worth that do not state it.
        form_worths: FormWorths => form_worths;
        /// Sets the kinds whose duplicates are kept. Items of these kinds, and groups with a member of them, are not compared
        /// with others. Default: none.
        keep_duplicates: impl IntoIterator<Item = ContextKind> => keep_duplicates.into_iter().collect();
        /// Sets the strategy for a selection above its target.
        overflow_strategy: OverflowStrategy => overflow_strategy;
        /// Places the members of a group together, in pool order, at the position of their best member. Default: off.
        keep_groups_together: bool => keep_groups_together;
    }

    /// Calls a function if a selection exceeds its target and the strategy is to proceed.
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

opaque_debug!(Pipeline, PipelineBuilder);
