//! Random pools and budgets, poor in distinct values: what goes wrong goes wrong at ties.

use pannier_core::item::{MetadataValue, SliceBudget};
use pannier_core::layout::SectionId;
use pannier_core::slice::Candidate;
use pannier_core::{ContextBudget, ContextItem, ContextKind};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::descending;

/// Some of them in two spellings.
const KINDS: &[&str] =
    &["Message", "message", "Document", "DOCUMENT", "ToolOutput", "tooloutput", "Log"];

/// Some differ only in case, which outside ASCII is no likeness.
pub(crate) const TAGS: &[&str] = &["rust", "Rust", "RUST", "async", "Async", "é", "É", "log"];

/// Two of them are the same instant, and the last is in the future.
const TIMESTAMPS: &[&str] = &[
    "2024-12-29T12:00:00Z",
    "2024-12-31T12:00:00Z",
    "2025-01-01T06:00:00Z",
    "2025-01-01T07:00:00+01:00",
    "2025-01-01T11:59:59.5Z",
    "2025-01-01T12:00:00Z",
    "2025-01-02T00:00:00Z",
];

const SCORES: &[f64] = &[0.0, 0.1, 0.25, 0.3, 0.5, 0.5, 0.7, 0.9, 1.0];

const STRANGE_SCORES: &[f64] =
    &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 1e6, 1.5, 0.000_05, -0.0, -0.5];

/// An item before it is built.
#[derive(Clone, Debug)]
pub(crate) struct ItemPlan {
    pub(crate) content: String,
    pub(crate) tokens: i64,
    pub(crate) kind: &'static str,
    pub(crate) priority: Option<i64>,
    pub(crate) tags: Vec<String>,
    pub(crate) metadata: Vec<(&'static str, MetadataValue)>,
    pub(crate) timestamp: Option<&'static str>,
    pub(crate) hint: Option<f64>,
    pub(crate) pinned: bool,
    pub(crate) id: Option<String>,
    pub(crate) group: Option<String>,
}

impl ItemPlan {
    pub(crate) fn build(&self) -> ContextItem {
        let mut builder = ContextItem::builder(self.content.as_str(), self.tokens)
            .kind(kind(self.kind))
            .tags(self.tags.iter().cloned())
            .pinned(self.pinned);
        if let Some(priority) = self.priority {
            builder = builder.priority(priority);
        }
        for (key, value) in &self.metadata {
            builder = builder.metadata(*key, value.clone());
        }
        if let Some(timestamp) = self.timestamp {
            builder = builder.timestamp(timestamp.parse().unwrap());
        }
        if let Some(hint) = self.hint {
            builder = builder.future_relevance_hint(hint);
        }
        if let Some(id) = &self.id {
            builder = builder.id(id.as_str());
        }
        if let Some(group) = &self.group {
            builder = builder.group(group.as_str());
        }
        builder.build().unwrap()
    }
}

pub(crate) fn build_all(plans: &[ItemPlan]) -> Vec<ContextItem> {
    plans.iter().map(ItemPlan::build).collect()
}

pub(crate) fn kind(name: &str) -> ContextKind {
    ContextKind::new(name).unwrap()
}

fn content() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => select(&["alpha", "Alpha", "beta"][..]).prop_map(str::to_owned),
        2 => (0..40).prop_map(|number| format!("text {number}")),
    ]
}

fn tokens() -> impl Strategy<Value = i64> {
    select(&[0, 1, 2, 3, 5, 5, 7, 10, 10, 10, 20, 20, 30, 50][..])
}

fn hint() -> impl Strategy<Value = f64> {
    prop_oneof![12 => select(SCORES), 1 => select(STRANGE_SCORES)]
}

/// Now and then so long ago that 64 bits do not hold its nanoseconds.
fn timestamp() -> impl Strategy<Value = &'static str> {
    prop_oneof![60 => select(TIMESTAMPS), 1 => Just("1500-01-01T00:00:00Z")]
}

fn trust() -> impl Strategy<Value = MetadataValue> {
    let texts = &[
        "0.85",
        "0.0",
        "1.0",
        "1.5",
        "-0.1",
        "1e-1",
        "high",
        "",
        " 0.5",
        "0,5",
        "NaN",
        "+Infinity",
        "-Infinity",
        "inf",
    ];
    let numbers = &[0.25, -0.0, 3.5, f64::NAN, f64::INFINITY];
    prop_oneof![
        6 => select(&texts[..]).prop_map(MetadataValue::from),
        2 => select(&numbers[..]).prop_map(MetadataValue::from),
        1 => select(&[0, 1, 7, -3][..]).prop_map(|number: i64| MetadataValue::from(number)),
        1 => any_garbage(),
    ]
}

fn any_garbage() -> impl Strategy<Value = MetadataValue> {
    select(vec![
        MetadataValue::Null,
        MetadataValue::Bool(true),
        MetadataValue::Unsigned(u64::MAX),
        MetadataValue::Array(vec![MetadataValue::Float(0.5)]),
        MetadataValue::Object([("cupel:trust".to_owned(), 0.5.into())].into()),
    ])
}

fn metadata() -> impl Strategy<Value = Vec<(&'static str, MetadataValue)>> {
    let priority = prop_oneof![
        4 => select(&["high", "normal", "High", "1", "true"][..]).prop_map(MetadataValue::from),
        1 => select(vec![MetadataValue::Integer(1), MetadataValue::Float(1.5)]),
        1 => any_garbage(),
    ];
    let entry = prop_oneof![
        trust().prop_map(|value| ("cupel:trust", value)),
        priority.prop_map(|value| ("cupel:priority", value)),
    ];
    vec(entry, 0..3)
}

/// An item without a group; with a negative count in rare cases.
pub(crate) fn item() -> impl Strategy<Value = ItemPlan> {
    let texts = (content(), select(KINDS), vec(select(TAGS), 0..4), metadata());
    let numbers = (
        prop_oneof![19 => tokens(), 1 => select(&[-1, -7][..])],
        option::of(-1..3_i64),
        option::of(hint()),
    );
    let rest = (option::weighted(0.7, timestamp()), prop::bool::weighted(0.08));
    (texts, numbers, rest).prop_map(|(texts, numbers, (timestamp, pinned))| {
        let (content, kind, tags, metadata) = texts;
        let (tokens, priority, hint) = numbers;
        ItemPlan {
            content,
            tokens,
            kind,
            priority,
            tags: tags.into_iter().map(str::to_owned).collect(),
            metadata,
            timestamp,
            hint,
            pinned,
            id: None,
            group: None,
        }
    })
}

/// Words in many spellings, glued together in many ways.
fn prose() -> impl Strategy<Value = String> {
    let word = select(
        &[
            "alpha",
            "ALPHA",
            "alphas",
            "text",
            "7",
            "größe",
            "GRÖSSE",
            "GRÖßE",
            "ΑΣ",
            "ας",
            "b_c",
            "B_C",
            "auth/login.rs",
            "Auth",
            "LOGIN",
            "two",
            "words",
            "_",
            "İ",
            "i",
            "ing_ing",
            "authLogin",
            "the",
        ][..],
    );
    let glue =
        select(&[" ", " ", " ", "  ", "\n", "\u{2003}", ".", ", ", "/", "_", "-", " (", "'"][..]);
    vec((word, glue), 0..12).prop_map(|words| {
        words.into_iter().flat_map(|(word, glue)| [word, glue]).collect::<String>() + "end"
    })
}

/// Items whose contents are more than a word or two.
pub(crate) fn pool_of_prose() -> impl Strategy<Value = Vec<ItemPlan>> {
    let item = (item(), prose()).prop_map(|(item, content)| ItemPlan { content, ..item });
    vec(item, 0..20)
}

/// An item that may belong to a group, of contents so few that groups can be equal.
fn member() -> impl Strategy<Value = ItemPlan> {
    let group = option::weighted(0.6, (0..10).prop_map(|number| format!("group {number}")));
    let content = select(&["alpha", "beta"][..]);
    (item(), group, content).prop_map(|(mut item, group, content)| {
        if group.is_some() {
            item.content = content.to_owned();
        }
        item.group = group;
        item
    })
}

pub(crate) fn pool() -> impl Strategy<Value = Vec<ItemPlan>> {
    vec(item(), 0..40)
}

pub(crate) fn pool_with_groups() -> impl Strategy<Value = Vec<ItemPlan>> {
    vec(member(), 0..40)
}

/// A pool for what has to do with tags: as large as `size`, with up to twelve tags an item, of a
/// vocabulary so small that nearly all items meet, or so large that few do.
pub(crate) fn tagged_pool(size: usize) -> impl Strategy<Value = Vec<ItemPlan>> {
    let shape = (select(&[3_usize, 8, 30, 200, 1_000][..]), 0..=12_usize);
    shape.prop_flat_map(move |(vocabulary, most_tags)| {
        let tag = (0..vocabulary, prop::bool::ANY)
            .prop_map(|(number, upper)| format!("{}{number}", if upper { 'T' } else { 't' }));
        let tags = vec(tag, 0..=most_tags);
        vec(tags, 0..=size).prop_map(|rows| {
            let plan = |tags| ItemPlan {
                content: "tagged".to_owned(),
                tokens: 1,
                kind: "Message",
                priority: None,
                tags,
                metadata: Vec::new(),
                timestamp: None,
                hint: None,
                pinned: false,
                id: None,
                group: None,
            };
            rows.into_iter().map(plan).collect()
        })
    })
}

/// Budgets mostly smaller than a pool, with everything that can be taken off them.
pub(crate) fn budget() -> impl Strategy<Value = ContextBudget> {
    let max = prop_oneof![1 => 0..20_i64, 4 => 20..200_i64, 2 => 200..600_i64];
    let target = prop_oneof![3 => Just(100), 2 => 30..=100_i64, 1 => 0..=30_i64];
    let reserve = prop_oneof![3 => Just(0), 2 => 0..40_i64, 1 => 0..=100_i64];
    let slots = prop_oneof![3 => Just(0), 2 => 0..25_i64, 1 => 0..200_i64];
    let margin = prop_oneof![3 => Just(0.0), 2 => select(&[0.1, 5.0, 10.0, 33.3, 100.0][..])];
    (max, target, reserve, (slots, 0..10_i64), margin).prop_map(
        |(max, target, reserve, (slots, more_slots), margin)| {
            ContextBudget::builder(max, max * target / 100)
                .output_reserve(max * reserve / 100)
                .reserved_slot(kind("Log"), slots)
                .reserved_slot(kind("Nowhere"), slots.min(more_slots))
                .estimation_safety_margin_percent(margin)
                .build()
                .unwrap()
        },
    )
}

/// A candidate before it has an item to borrow.
#[derive(Clone, Debug)]
pub(crate) struct CandidatePlan {
    pub(crate) item: ContextItem,
    pub(crate) score: f64,
    pub(crate) value: f64,
}

impl CandidatePlan {
    pub(crate) fn build(&self) -> Candidate<'_> {
        Candidate {
            item: &self.item,
            tokens: self.item.tokens(),
            section: SectionId::NONE,
            score: self.score,
            value: self.value,
        }
    }
}

/// Candidates as a slicer gets them: in order of score, now and then worth something else.
pub(crate) fn candidates() -> impl Strategy<Value = Vec<CandidatePlan>> {
    let one = (item(), tokens(), hint(), option::weighted(0.2, hint())).prop_map(
        |(mut item, tokens, score, value)| {
            item.tokens = tokens;
            CandidatePlan { item: item.build(), score, value: value.unwrap_or(score) }
        },
    );
    vec(one, 0..40).prop_map(sorted)
}

/// Many candidates for a table of many cells: worth anything, or just what they cost, which no
/// bound can decide; in small numbers or in large ones.
pub(crate) fn many_candidates() -> impl Strategy<Value = Vec<CandidatePlan>> {
    let size = prop_oneof![0..200_i64, select(&[12_i64, 24, 36][..])];
    let score = prop_oneof![(0..=1_000_u16).prop_map(|steps| f64::from(steps) / 1_000.0), hint()];
    let scale = select(&[1.0, 1_000_000.0][..]);
    (vec((size, score), 0..100), scale, prop::bool::ANY).prop_map(
        |(candidates, scale, worth_their_cost)| {
            let plan = |(tokens, score): (i64, f64)| {
                let score = if worth_their_cost { tokens as f64 / 200.0 } else { score };
                CandidatePlan {
                    item: ContextItem::new("any", tokens).unwrap(),
                    score: score * scale,
                    value: score * scale,
                }
            };
            sorted(candidates.into_iter().map(plan).collect())
        },
    )
}

fn sorted(mut candidates: Vec<CandidatePlan>) -> Vec<CandidatePlan> {
    candidates.sort_by(|left, right| descending(left.score, right.score));
    candidates
}

/// What is left for a slicer; a target of nothing, or less, among it.
pub(crate) fn slice_budget(largest: i64) -> impl Strategy<Value = SliceBudget> {
    let target = prop_oneof![1 => -3..=0_i64, 15 => 1..largest];
    (target, 0..100_i64).prop_map(|(target_tokens, more)| SliceBudget {
        max_tokens: target_tokens.max(0) + more,
        ..SliceBudget::new(target_tokens)
    })
}
