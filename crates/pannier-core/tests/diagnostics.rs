//! What a run tells while it runs: order, levels, clocks, callbacks, failures.

mod support;

use std::cell::Cell;
use std::time::Duration;

use pannier_core::{report::*, *};
use support::*;

fn pool() -> Vec<ContextItem> {
    vec![
        scored("pin", 10, 0.0).pinned(true).build().unwrap(),
        item("a", 40, 0.9),
        item("a", 40, 0.2),
        item("large", 90, 0.5),
        item("invalid", -3, 0.5),
    ]
}

#[test]
fn an_item_without_tokens_has_a_reason_at_a_target_of_zero() {
    let items = [item("free", 0, 0.5), item("one", 1, 0.5)];
    let reasons = |tokens| {
        let selection = pipeline().build().run(&items, &budget(tokens)).unwrap();
        let excluded = selection.report().excluded.into_iter();
        excluded.map(|entry| entry.reason.to_string()).collect::<Vec<_>>()
    };
    let free = "BudgetExceeded: 0 tokens requested, 0 available; a budget of 0 selects nothing";
    assert_eq!(reasons(0), [free, "BudgetExceeded: 1 tokens requested, 0 available"]);
    assert_eq!(reasons(1), [""; 0]);
}

#[test]
fn a_ledger_has_lines_for_slots_and_margin() {
    let pinned = scored("pinned", 20, 0.5).pinned(true).build().unwrap();
    let items = [pinned, item("other", 30, 0.5)];
    let ledger = |slot, percent| {
        let budget = ContextBudget::builder(100, 100)
            .output_reserve(10)
            .reserved_slot(kind("Memory"), slot)
            .estimation_safety_margin_percent(percent)
            .build()
            .unwrap();
        pipeline().build().run(&items, &budget).unwrap().ledger().clone()
    };
    // 90 less the pinned 20 and the slot of 10 are 60, of which the margin keeps 10 %.
    let kept = ledger(10, 10.0);
    assert_eq!((kept.slots, kept.margin, kept.items, kept.unused), (10, 6, 50, 24));
    assert_eq!(kept.output_reserve + kept.slots + kept.margin + kept.sent() + kept.unused, 100);
    let free = ledger(0, 0.0);
    assert_eq!((free.slots, free.margin, free.unused), (0, 0, 40));
}

#[test]
fn c25_every_stage_ends_once_with_what_entered_it() {
    let items = pool();
    let mut collector = DiagnosticTraceCollector::new(TraceDetailLevel::Stage);
    let pipeline = pipeline().build();
    let selection = pipeline.run_traced(&items, &budget(100), &mut collector).unwrap();
    let events: Vec<_> =
        collector.events().iter().map(|event| (event.stage.name(), event.item_count)).collect();
    assert_eq!(
        events,
        [("Classify", 5), ("Score", 3), ("Deduplicate", 3), ("Slice", 2), ("Place", 2)]
    );
    assert!(collector.events().iter().all(|event| event.duration_ms == 0.0));
    assert!(collector.events().iter().all(|event| event.message.is_none()));
    let report = selection.report_with(collector.into_events());
    let stages: Vec<_> =
        report.stages.iter().map(|count| (count.items_in, count.items_out)).collect();
    assert_eq!(stages, [(5, 4), (3, 3), (3, 2), (2, 1), (2, 2)]);
    assert_eq!(report.events.len(), 5);
    assert_eq!((report.total_candidates, report.total_tokens_considered), (5, 177));
}

#[test]
fn an_empty_pool_has_all_its_events() {
    let mut collector = DiagnosticTraceCollector::new(TraceDetailLevel::Item);
    pipeline().build().run_traced(&[], &budget(100), &mut collector).unwrap();
    assert_eq!(collector.events().len(), 5);
    assert!(collector.events().iter().all(|event| event.item_count == 0));
}

#[test]
fn a_collector_may_ask_for_what_was_dropped_alone() {
    let items = pool();
    let mut dropped = DiagnosticTraceCollector::new(TraceDetailLevel::Exclusion);
    let mut everything = DiagnosticTraceCollector::new(TraceDetailLevel::Item);
    let mut both = FanOutTraceCollector::new([
        &mut dropped as &mut dyn TraceCollector,
        &mut everything as &mut dyn TraceCollector,
    ]);
    let pipeline = pipeline().build();
    let selection = pipeline.run_traced(&items, &budget(100), &mut both).unwrap();
    let event_count = |collector: &DiagnosticTraceCollector<'_>| {
        collector.events().iter().filter(|event| event.message.is_some()).count()
    };
    assert_eq!((event_count(&dropped), event_count(&everything)), (3, 3 + 3 + 2));
    use ExclusionVariant::*;
    let counts: Vec<_> = selection.exclusion_counts().into_iter().collect();
    assert_eq!(counts, [(BudgetExceeded, 1), (Deduplicated, 1), (NegativeTokens, 1)]);
}

#[test]
fn c25_item_events_come_before_the_event_of_their_stage() {
    let items = pool();
    let mut collector = DiagnosticTraceCollector::new(TraceDetailLevel::Item);
    pipeline().build().run_traced(&items, &budget(100), &mut collector).unwrap();
    let lines: Vec<String> = collector
        .events()
        .iter()
        .map(|event| {
            let message = event.message.as_deref().unwrap_or("-");
            format!("{} {} {message}", event.stage, event.item_count)
        })
        .collect();
    assert_eq!(
        lines,
        [
            "Classify 1 NegativeTokens: -3 tokens",
            "Classify 5 -",
            "Score 1 Scored: 0.9",
            "Score 1 Scored: 0.2",
            "Score 1 Scored: 0.5",
            "Score 3 -",
            "Deduplicate 1 Deduplicated: another item with the same content was kept",
            "Deduplicate 3 -",
            // The pin leaves a target of 90, which the item would fit, had nothing else been taken.
            "Slice 1 BudgetExceeded: 90 tokens requested, 50 available",
            "Slice 2 -",
            "Place 1 Included: Pinned",
            "Place 1 Included: Scored",
            "Place 2 -",
        ]
    );
}

#[test]
fn c27_the_collector_owns_the_clock() {
    let items = pool();
    let ticks = Cell::new(0);
    let clock = || {
        ticks.set(ticks.get() + 5);
        Duration::from_millis(ticks.get())
    };
    let mut collector = DiagnosticTraceCollector::new(TraceDetailLevel::Stage).with_clock(clock);
    pipeline().build().run_traced(&items, &budget(100), &mut collector).unwrap();
    assert!(collector.events().iter().all(|event| event.duration_ms == 5.0));
    // Read at the start and the end of each stage, and nowhere else.
    assert_eq!(ticks.get(), 5 * 2 * 5);
}

#[test]
fn telling_of_items_is_not_the_stages_time() {
    let items = pool();
    let ticks = Cell::new(0);
    let clock = || Duration::from_millis(ticks.get());
    let mut collector = DiagnosticTraceCollector::new(TraceDetailLevel::Item)
        .with_clock(clock)
        .with_callback(|_| ticks.set(ticks.get() + 100));
    pipeline().build().run_traced(&items, &budget(100), &mut collector).unwrap();
    assert!(collector.events().iter().all(|event| event.duration_ms == 0.0));
}

#[test]
fn a_collector_starts_again_with_a_new_run_and_survives_a_clock_that_goes_back() {
    let items = pool();
    let now = Cell::new(1_000);
    let clock = || {
        now.set(now.get() - 1);
        Duration::from_millis(now.get())
    };
    let mut collector = DiagnosticTraceCollector::new(TraceDetailLevel::Stage).with_clock(clock);
    for _ in 0..2 {
        pipeline().build().run_traced(&items, &budget(100), &mut collector).unwrap();
        assert_eq!(collector.events().len(), 5);
        assert!(collector.events().iter().all(|event| event.duration_ms == 0.0));
    }
}

#[test]
fn the_callback_sees_every_event_as_it_is_recorded() {
    let items = pool();
    let mut seen = Vec::new();
    let mut collector = DiagnosticTraceCollector::new(TraceDetailLevel::Item)
        .with_callback(|event| seen.push(event.clone()));
    pipeline().build().run_traced(&items, &budget(100), &mut collector).unwrap();
    let events = collector.into_events();
    assert_eq!(seen, events);
}

/// Writes down every call.
#[derive(Default)]
struct Diary {
    detail_level: TraceDetailLevel,
    disabled: bool,
    lines: Vec<String>,
}

impl TraceCollector for Diary {
    fn is_enabled(&self) -> bool {
        !self.disabled
    }

    fn detail_level(&self) -> TraceDetailLevel {
        self.detail_level
    }

    fn run_started(&mut self, candidates: usize, budget: &ContextBudget) {
        self.lines.push(format!("run {candidates} {}", budget.max_tokens()));
    }

    fn stage_started(&mut self, stage: &PipelineStage, items_in: usize) {
        self.lines.push(format!("> {stage} {items_in}"));
    }

    fn record_item(&mut self, event: &ItemEvent<'_>) {
        self.lines.push(format!("  {} {event}", event.item.content()));
    }

    fn stage_ended(&mut self, stage: &PipelineStage, items_in: usize, items_out: usize) {
        self.lines.push(format!("< {stage} {items_in} {items_out}"));
    }

    fn run_ended(&mut self, selection: &Selection<'_>) {
        self.lines.push(format!("end {}", selection.len()));
    }

    fn run_failed(&mut self, error: &Error) {
        self.lines.push(format!("failed: {error}"));
    }
}

#[test]
fn c27_a_collector_is_told_of_starts_ends_and_failure() {
    let items = pool();
    let mut diary = Diary::default();
    pipeline().build().run_traced(&items, &budget(100), &mut diary).unwrap();
    assert_eq!(
        diary.lines,
        [
            "run 5 100",
            "> Classify 5",
            "< Classify 5 4",
            "> Score 3",
            "< Score 3 3",
            "> Deduplicate 3",
            "< Deduplicate 3 2",
            "> Slice 2",
            "< Slice 2 1",
            "> Place 2",
            "< Place 2 2",
            "end 2",
        ]
    );

    let mut diary = Diary::default();
    let error = pipeline().build().run_traced(&items, &budget(5), &mut diary).unwrap_err();
    let message = "pinned items require 10 tokens, but only 5 are available \
                   (maxTokens less outputReserve); unpin items, or raise the budget";
    assert_eq!(error.to_string(), message);
    assert_eq!(diary.lines, ["run 5 5", "> Classify 5", &format!("failed: {message}")]);
}

#[test]
fn several_collectors_are_each_told_what_they_want() {
    let items = pool();
    let mut coarse = Diary::default();
    let mut fine = Diary { detail_level: TraceDetailLevel::Item, ..Diary::default() };
    let mut asleep =
        Diary { disabled: true, detail_level: TraceDetailLevel::Item, ..Diary::default() };
    let mut all =
        FanOutTraceCollector::new([&mut coarse as &mut dyn TraceCollector, &mut fine, &mut asleep]);
    pipeline().build().run_traced(&items, &budget(100), &mut all).unwrap();
    assert_eq!(coarse.lines.len(), 12);
    assert_eq!(fine.lines.len(), 12 + 8);
    assert!(asleep.lines.is_empty());

    let mut nobody = FanOutTraceCollector::default();
    assert!(!nobody.is_enabled());
    pipeline().build().run_traced(&items, &budget(100), &mut nobody).unwrap();
}

/// Would record everything, if it were asked to.
struct Asleep;

impl TraceCollector for Asleep {
    fn is_enabled(&self) -> bool {
        false
    }

    fn record_item(&mut self, _: &ItemEvent<'_>) {
        panic!("a collector that is not enabled must not be called");
    }

    fn stage_ended(&mut self, _: &PipelineStage, _: usize, _: usize) {
        panic!("a collector that is not enabled must not be called");
    }
}

#[test]
fn nothing_is_built_for_a_collector_that_is_not_enabled() {
    let items = pool();
    pipeline().build().run_traced(&items, &budget(100), &mut Asleep).unwrap();
    let mut null = NullTraceCollector;
    assert!(!null.is_enabled());
    pipeline().build().run_traced(&items, &budget(100), &mut null).unwrap();
}
