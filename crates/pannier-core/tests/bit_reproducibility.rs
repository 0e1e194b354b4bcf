//! Scores and selections have the same bits on every machine: the digest below was computed once, and
//! must come out wherever this test runs, regardless of processor and optimization.

use std::time::Duration;

use pannier_core::place::UShapedPlacer;
use pannier_core::score::{
    CompositeScorer, DecayCurve, DecayScorer, FrequencyScorer, KindScorer, MetadataTrustScorer,
    Pool, PriorityScorer, ProductScorer, RecencyScorer, ReflexiveScorer, ScaledScorer, TagScorer,
};
use pannier_core::slice::KnapsackSlice;
use pannier_core::{ContextBudget, ContextItem, ContextKind, Pipeline, Timestamp};

/// SplitMix64: the same numbers everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn pool() -> Vec<ContextItem> {
    let mut numbers = Numbers(42);
    let kinds = [ContextKind::MESSAGE, ContextKind::MEMORY, ContextKind::new("Note").unwrap()];
    let item = |i| {
        let seconds = 1_700_000_000 + numbers.below(100_000_000) as i64;
        ContextItem::builder(format!("item {i}"), 1 + numbers.below(200) as i64)
            .timestamp(Timestamp::from_unix_seconds(seconds).unwrap())
            .priority(numbers.below(30) as i64 - 15)
            .kind(kinds[numbers.below(3) as usize].clone())
            .tags((0..numbers.below(5)).map(|_| format!("t{}", numbers.below(12))))
            .future_relevance_hint(numbers.below(1_000_003) as f64 / 1_000_003.0)
            .metadata("cupel:trust", format!("0.{}", numbers.below(1_000_000)))
            .build()
            .unwrap()
    };
    (0..2_000).map(item).collect()
}

fn scorer() -> CompositeScorer {
    let now = Timestamp::from_unix_seconds(1_800_000_000).unwrap();
    let curve = DecayCurve::exponential(Duration::from_secs(7_777_777)).unwrap();
    let product = ProductScorer::builder()
        .factor(MetadataTrustScorer::default())
        .factor(DecayScorer::new(now, curve));
    CompositeScorer::builder()
        .add(RecencyScorer, 0.7)
        .add(PriorityScorer, 1.1)
        .add(KindScorer::default(), 0.3)
        .add(TagScorer::new([("t1", 0.1), ("t2", 0.2), ("t3", 0.3)]).unwrap(), 0.9)
        .add(FrequencyScorer, 0.6)
        .add(ScaledScorer::new(ReflexiveScorer), 1.3)
        .add(product.build().unwrap(), 0.8)
        .build()
        .unwrap()
}

/// FNV-1a over 64-bit words.
fn digest(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        word.to_le_bytes()
            .iter()
            .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
    })
}

#[test]
fn scores_have_the_same_bits_everywhere() {
    let items = pool();
    let scores = Pool::new(&items).scores(&scorer()).unwrap();
    assert_eq!(digest(scores.iter().map(|score| score.to_bits())), 1_086_289_656_291_947_898);
}

#[test]
fn selections_are_the_same_everywhere() {
    let items = pool();
    let pipeline =
        Pipeline::builder(scorer()).slicer(KnapsackSlice::exact()).placer(UShapedPlacer).build();
    let selection = pipeline.run(&items, &ContextBudget::new(20_000, 20_000).unwrap()).unwrap();
    assert_eq!(digest(selection.indices().map(|index| index as u64)), 18_300_734_807_819_478_374);
}
