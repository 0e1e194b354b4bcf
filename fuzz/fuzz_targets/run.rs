//! Items and a budget as JSON, through every slicer: no panic, every item in one list, no budget
//! exceeded, and a report that reads back as it was written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pannier_core::{*, item::*, layout::*, place::*, report::*, score::*, slice::*, whatif::*};

#[derive(serde::Deserialize)]
struct Input {
    items: Vec<ContextItem>,
    budget: ContextBudget,
}

fn slicers() -> Vec<Box<dyn Slicer>> {
    let kind = ContextKind::DOCUMENT;
    let quota = Quota { kind: kind.clone(), require_percent: 20.0, cap_percent: 60.0 };
    let entry = CountQuotaEntry::new(kind.clone(), 1, 3).unwrap();
    let capped = Tier { cap_percent: 40.0, ..Tier::new([ContextKind::MESSAGE]) };
    let shared = Tier { floor_percent: 30.0, drop_zero_score: true, ..Tier::new([kind, ContextKind::MEMORY]) };
    let knapsack = KnapsackSlice::new(3).unwrap().with_memory_limit(1 << 24);
    let degrade = ScarcityBehavior::Degrade;
    vec![
        Box::new(GreedySlice),
        Box::new(knapsack),
        Box::new(QuotaSlice::new([quota], GreedySlice).unwrap()),
        Box::new(CountQuotaSlice::new([entry.clone()], GreedySlice, degrade).unwrap()),
        Box::new(CountConstrainedKnapsackSlice::new([entry], knapsack, degrade).unwrap()),
        Box::new(TieredSlice::new([capped, shared]).unwrap()),
    ]
}

fn scorer() -> CompositeScorer {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let curve = DecayCurve::exponential(std::time::Duration::from_secs(3_600)).unwrap();
    CompositeScorer::builder()
        .add(RecencyScorer, 1.0)
        .add(PriorityScorer, 1.0)
        .add(KindScorer::default(), 1.0)
        .add(TagScorer::case_insensitive([("a", 1.0), ("b", 2.0)]).unwrap(), 1.0)
        .add(FrequencyScorer, 1.0)
        .add(ScaledScorer::new(ReflexiveScorer), 1.0)
        .add(MetadataTrustScorer::default(), 1.0)
        .add(DecayScorer::new(now, curve), 1.0)
        .build()
        .unwrap()
}

fuzz_target!(|text: &[u8]| {
    let Ok(Input { items, budget }) = serde_json::from_slice(text) else {
        return;
    };
    for slicer in slicers() {
        let pipeline = Pipeline::builder(scorer())
            .slicer(slicer)
            .placer(UShapedPlacer)
            .overflow_strategy(OverflowStrategy::Truncate)
            .build();
        let Ok(selection) = pipeline.run(&items, &budget) else {
            continue;
        };
        assert!(selection.tokens() <= budget.input_tokens());
        let report = selection.report();
        let mut indices: Vec<_> = report.included.iter().filter_map(|entry| entry.index).collect();
        indices.extend(report.excluded.iter().filter_map(|entry| entry.index));
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..items.len()));
        let written = serde_json::to_string(&report).unwrap();
        let read: SelectionReport = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), written);
        if !items.is_empty() && items.len() < 8 {
            let answer = pipeline.explain(&items, &budget, items.len() / 2).unwrap();
            serde_json::to_string(&answer).unwrap();
        }
    }
});
