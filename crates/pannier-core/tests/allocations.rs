//! A run allocates for itself, not for its items: at most 64 + n/100 times for n items.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pannier_core::place::{ChronologicalPlacer, UShapedPlacer};
use pannier_core::score::{
    CompositeScorer, FrequencyScorer, KindScorer, PriorityScorer, RecencyScorer, ReflexiveScorer,
    ScaledScorer, TagScorer,
};
use pannier_core::slice::KnapsackSlice;
use pannier_core::{ContextBudget, ContextItem, ContextKind, Pipeline, PipelineBuilder, Timestamp};

struct CountingAllocator;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator cannot be written without; all work is the system's")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promises are passed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A pool with duplicates, pinned items and up to four tags an item.
fn pool(count: usize) -> Vec<ContextItem> {
    let kinds = [ContextKind::MESSAGE, ContextKind::DOCUMENT, ContextKind::new("Note").unwrap()];
    let item = |i: usize| {
        let scrambled = i.wrapping_mul(2_654_435_761) % 1_000_003;
        ContextItem::builder(
            format!("content {}", scrambled % (count - count / 50)),
            5 + (i % 90) as i64,
        )
        .kind(kinds[i % 3].clone())
        .timestamp(Timestamp::from_unix_seconds(1_750_000_000 + scrambled as i64).unwrap())
        .priority((scrambled % 17) as i64)
        .tags((0..scrambled % 5).map(|tag| format!("tag {}", (scrambled + tag * 7) % 40)))
        .future_relevance_hint(scrambled as f64 / 1_000_003.0)
        .pinned(i % 1_000 == 999)
        .build()
        .unwrap()
    };
    (0..count).map(item).collect()
}

fn all_relative_scorers() -> PipelineBuilder {
    let scorer = CompositeScorer::builder()
        .add(RecencyScorer, 3.0)
        .add(PriorityScorer, 2.0)
        .add(KindScorer::default(), 1.0)
        .add(TagScorer::new([("tag 1", 1.0), ("tag 2", 2.0)]).unwrap(), 1.0)
        .add(FrequencyScorer, 1.0)
        .add(ScaledScorer::new(ReflexiveScorer), 1.0)
        .build();
    Pipeline::builder(scorer.unwrap())
}

/// One test, because the count is of the whole process.
#[test]
fn a_run_of_n_items_allocates_at_most_64_plus_a_hundredth_of_n_times() {
    let budget = ContextBudget::new(30_000, 30_000).unwrap();
    let pipelines = [
        ("greedy, u-shaped", all_relative_scorers().placer(UShapedPlacer).build()),
        (
            "knapsack, chronological",
            all_relative_scorers()
                .slicer(KnapsackSlice::exact())
                .placer(ChronologicalPlacer)
                .build(),
        ),
    ];
    for count in [100, 1_000, 10_000] {
        let items = pool(count);
        for (name, pipeline) in &pipelines {
            let before = ALLOCATIONS.load(Relaxed);
            let selection = pipeline.run(&items, &budget).unwrap();
            let allocations = ALLOCATIONS.load(Relaxed) - before;
            assert!(!selection.is_empty());
            let limit = 64 + count / 100;
            assert!(allocations <= limit, "{name}, {count} items: {allocations} > {limit}");
        }
    }
}
