//! Each scorer by itself, and how it grows.

use std::time::Duration;

use pannier_core::score::{
    CompositeScorer, DecayCurve, DecayScorer, FrequencyScorer, KindScorer, MetadataKeyScorer,
    MetadataTrustScorer, Pool, PriorityScorer, ProductScorer, RecencyScorer, ReflexiveScorer,
    ScaledScorer, TagScorer,
};
use pannier_core::{ContextItem, Scorer, Timestamp};

use crate::measure::{median, ratio, show};
use crate::pools::{self, Numbers, tag_weights};

pub(crate) fn run() {
    scaled_recency();
    growth();
    many_tags();
}

fn scaled_recency() {
    println!("Scaled(recency), 1,000 items: scores equal within 1e-9, then timed.\n");
    let raw = pools::raw(1_000);
    let (items, peer) = (pools::ours(&raw), pools::theirs(&raw));
    let ours = ScaledScorer::new(RecencyScorer);
    let theirs = cupel::ScaledScorer::new(Box::new(cupel::RecencyScorer));
    let their_scores =
        || peer.iter().map(|item| cupel::Scorer::score(&theirs, item, &peer)).collect::<Vec<_>>();
    let expected = their_scores();
    for (ours, theirs) in Pool::new(&items).scores(&ours).expect("it scores").iter().zip(&expected)
    {
        assert!((ours - theirs).abs() < 1e-9);
    }
    let our_time = median(5, || Pool::new(&items).scores(&ours));
    let their_time = median(3, their_scores);
    println!(
        "  pannier {}   cupel {}   ratio {:.0}x\n",
        show(our_time),
        show(their_time),
        ratio(their_time, our_time)
    );
}

fn scorers() -> Vec<(&'static str, Box<dyn Scorer>)> {
    let now: Timestamp = Timestamp::from_unix_seconds(1_780_000_000).expect("it is in range");
    let day = Duration::from_secs(24 * 60 * 60);
    let decay = DecayScorer::new(now, DecayCurve::exponential(day).expect("it is not zero"));
    let composite = CompositeScorer::builder().add(RecencyScorer, 1.0).add(PriorityScorer, 1.0);
    let product = ProductScorer::builder().factor(RecencyScorer).factor(ReflexiveScorer);
    vec![
        ("reflexive", Box::new(ReflexiveScorer)),
        ("recency", Box::new(RecencyScorer)),
        ("priority", Box::new(PriorityScorer)),
        ("kind", Box::new(KindScorer::default())),
        ("tag", Box::new(TagScorer::new(tag_weights()).expect("they are valid"))),
        ("frequency", Box::new(FrequencyScorer)),
        ("composite", Box::new(composite.build().expect("it is valid"))),
        ("scaled", Box::new(ScaledScorer::new(RecencyScorer))),
        ("metadata-trust", Box::new(MetadataTrustScorer::default())),
        ("decay", Box::new(decay)),
        ("metadata-key", Box::new(MetadataKeyScorer::new("a", "b", 1.5).expect("it is valid"))),
        ("product", Box::new(product.build().expect("it is not empty"))),
    ]
}

fn growth() {
    println!(
        "Every scorer, 0 to 3 tags an item. n log n grows 12x from 100,000 to 1,000,000 items; the"
    );
    println!("first line reads one field of each item, and shows what leaving the caches adds.\n");
    let (small, large) = (pools::ours(&pools::raw(100_000)), pools::ours(&pools::raw(1_000_000)));
    head("scorer", &small, &large);
    for (name, scorer) in scorers() {
        row(name, &*scorer, &small, &large);
    }
    println!();
}

fn many_tags() {
    println!(
        "Frequency with other tag lists. n log n grows 12x from 100,000 to 1,000,000 items.\n"
    );
    for (name, tags, distinct) in
        [("8 of 40 tags", 8, 40), ("8 of 1,000", 8, 1_000), ("8 of 100,000", 8, 100_000)]
    {
        let (small, large) = (tagged(100_000, tags, distinct), tagged(1_000_000, tags, distinct));
        if distinct == 40 {
            head("tags", &small, &large);
        }
        row(name, &FrequencyScorer, &small, &large);
    }
    println!();
}

fn head(what: &str, small: &[ContextItem], large: &[ContextItem]) {
    let (small, large) = (small.len(), large.len());
    println!("{what:>16} {small:>11} {large:>11} {:>8} {:>9}", "growth", "ns/item");
}

fn row(name: &str, scorer: &dyn Scorer, small: &[ContextItem], large: &[ContextItem]) {
    let small_time = median(5, || Pool::new(small).scores(scorer));
    let large_time = median(3, || Pool::new(large).scores(scorer));
    println!(
        "{:>16} {:>11} {:>11} {:>8} {:>9.1}",
        name,
        show(small_time),
        show(large_time),
        format!("{:.1}x", ratio(large_time, small_time)),
        large_time.as_nanos() as f64 / large.len() as f64,
    );
}

fn tagged(count: usize, tags: usize, distinct: u64) -> Vec<ContextItem> {
    let mut numbers = Numbers::new(3);
    let items = (0..count).map(|i| {
        let tags: Vec<String> =
            (0..tags).map(|_| format!("t{}", numbers.below(distinct))).collect();
        ContextItem::builder(format!("item {i}"), 1).tags(tags).build()
    });
    items.collect::<Result<_, _>>().expect("the pool is valid")
}
