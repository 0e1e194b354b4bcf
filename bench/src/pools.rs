//! The same pools for everybody, made from a fixed sequence of numbers.

use chrono::DateTime;
use pannier_core::{ContextItem, ContextKind, Timestamp};

/// SplitMix64: the same numbers on every machine.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const KINDS: [&str; 5] = ["Message", "Document", "ToolOutput", "Memory", "SystemPrompt"];
const TAGS: u64 = 40;

/// Tags and weights that a tag scorer looks for. Weights add up exactly in any order.
pub(crate) fn tag_weights() -> impl Iterator<Item = (String, f64)> {
    (0..8).map(|tag| (format!("tag-{tag}"), 0.25 * f64::from(tag + 1)))
}

/// One item, before it takes the form of an engine.
pub(crate) struct Raw {
    pub(crate) content: String,
    pub(crate) tokens: i64,
    pub(crate) kind: &'static str,
    pub(crate) seconds: i64,
    pub(crate) priority: Option<i64>,
    pub(crate) tags: Vec<String>,
    pub(crate) hint: f64,
}

/// Items with contents of 200 bytes, 2 % of them repeated, 0 to 3 of 40 tags, and 20 to 79 tokens.
pub(crate) fn raw(count: usize) -> Vec<Raw> {
    let mut numbers = Numbers::new(count as u64);
    let mut items: Vec<Raw> = Vec::with_capacity(count);
    for i in 0..count {
        let content = if i > 0 && numbers.below(100) < 2 {
            items[numbers.below(i as u64) as usize].content.clone()
        } else {
            let mut content = format!("item {i}: ");
            while content.len() < 200 {
                content.push_str(&format!("{:x} ", numbers.below(1 << 24)));
            }
            content.truncate(200);
            content
        };
        let tags = (0..numbers.below(4)).map(|_| format!("tag-{}", numbers.below(TAGS))).collect();
        items.push(Raw {
            content,
            tokens: 20 + numbers.below(60) as i64,
            kind: KINDS[numbers.below(5) as usize],
            seconds: 1_750_000_000 + numbers.below(30_000_000) as i64,
            priority: (numbers.below(10) < 7).then(|| numbers.below(20) as i64),
            tags,
            hint: numbers.unit(),
        });
    }
    items
}

/// The items in our form.
pub(crate) fn ours(raw: &[Raw]) -> Vec<ContextItem> {
    let build = |raw: &Raw| {
        let mut item = ContextItem::builder(raw.content.as_str(), raw.tokens)
            .kind(ContextKind::new(raw.kind)?)
            .timestamp(Timestamp::from_unix_seconds(raw.seconds)?)
            .tags(raw.tags.iter().map(String::as_str))
            .future_relevance_hint(raw.hint);
        if let Some(priority) = raw.priority {
            item = item.priority(priority);
        }
        item.build()
    };
    raw.iter().map(|raw| build(raw).expect("the pool is valid")).collect()
}

/// The items in the peer's form.
pub(crate) fn theirs(raw: &[Raw]) -> Vec<cupel::ContextItem> {
    let build = |raw: &Raw| {
        let mut item = cupel::ContextItemBuilder::new(raw.content.as_str(), raw.tokens)
            .kind(cupel::ContextKind::new(raw.kind)?)
            .timestamp(DateTime::from_timestamp(raw.seconds, 0).unwrap_or_default())
            .tags(raw.tags.clone())
            .future_relevance_hint(raw.hint);
        if let Some(priority) = raw.priority {
            item = item.priority(priority);
        }
        item.build()
    };
    raw.iter().map(|raw| build(raw).expect("the pool is valid")).collect()
}
