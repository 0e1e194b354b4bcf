//! Every scorer as a function of one item and all items.
//!
//! An item is named by its index, which is what "is the same item" means in the pseudocode.

use std::collections::BTreeSet;

use pannier_core::ContextItem;
use pannier_core::item::MetadataValue;
use pannier_core::score::MetadataTrustScorer;
use pannier_text::{for_each_term, is_stop_word};

use super::plan::{CurvePlan, ScorerPlan, now};
use super::same_name;

pub(crate) fn scores(plan: &ScorerPlan, items: &[&ContextItem]) -> Vec<f64> {
    (0..items.len()).map(|index| score(plan, index, items)).collect()
}

fn score(plan: &ScorerPlan, index: usize, items: &[&ContextItem]) -> f64 {
    let item = items[index];
    match plan {
        ScorerPlan::Recency => rank(item.timestamp(), items.iter().map(|item| item.timestamp())),
        ScorerPlan::Priority => rank(item.priority(), items.iter().map(|item| item.priority())),
        ScorerPlan::DefaultKind => kind(
            item,
            &[
                ("SystemPrompt", 1.0),
                ("Memory", 0.8),
                ("ToolOutput", 0.6),
                ("Document", 0.4),
                ("Message", 0.2),
            ],
        ),
        ScorerPlan::Kind(weights) => kind(item, weights),
        ScorerPlan::Tag { weights, fold_case } => tag(item, weights, *fold_case),
        ScorerPlan::Frequency => frequency(index, items),
        ScorerPlan::Reflexive => reflexive(item),
        ScorerPlan::RawHint => item.future_relevance_hint().unwrap_or(0.0),
        ScorerPlan::MetadataTrust { default_score } => metadata_trust(item, *default_score),
        ScorerPlan::Decay { curve, null_timestamp_score } => {
            decay(item, curve, *null_timestamp_score)
        }
        ScorerPlan::MetadataKey { key, value, boost } => metadata_key(item, key, value, *boost),
        ScorerPlan::Composite(children) => composite(children, index, items),
        ScorerPlan::Scaled(inner) => scaled(inner, index, items),
        ScorerPlan::Product(children) => {
            children.iter().map(|child| score(child, index, items)).product()
        }
        ScorerPlan::Sum(children) => {
            children.iter().fold(0.0, |sum, child| sum + score(child, index, items))
        }
        ScorerPlan::ByKind(entries, otherwise) => {
            by_kind(entries, otherwise.as_deref(), index, items)
        }
        ScorerPlan::Lexical(query) => lexical(query, index, items),
        ScorerPlan::Keyword { keywords, enough } => keyword(item, keywords, *enough),
    }
}

/// Recency and priority: how many are strictly lower, of those that have the field.
fn rank<T: PartialOrd>(own: Option<T>, all: impl Iterator<Item = Option<T>>) -> f64 {
    let Some(own) = own else {
        return 0.0;
    };
    let mut count = 0;
    let mut rank = 0;
    for other in all.flatten() {
        count += 1;
        if other < own {
            rank += 1;
        }
    }
    if count <= 1 {
        return 1.0;
    }
    f64::from(rank) / f64::from(count - 1)
}

fn kind(item: &ContextItem, weights: &[(&str, f64)]) -> f64 {
    for (kind, weight) in weights {
        if same_name(item.kind().as_str(), kind) {
            return *weight;
        }
    }
    0.0
}

fn tag(item: &ContextItem, weights: &[(&str, f64)], fold_case: bool) -> f64 {
    let mut total_weight = 0.0;
    for (_, weight) in weights {
        total_weight += weight;
    }
    if total_weight == 0.0 || item.tags().is_empty() {
        return 0.0;
    }
    let mut matched_sum = 0.0;
    for own in item.tags() {
        for (tag, weight) in weights {
            if own == tag || (fold_case && same_name(own, tag)) {
                matched_sum += weight;
            }
        }
    }
    f64::min(matched_sum / total_weight, 1.0)
}

fn frequency(index: usize, items: &[&ContextItem]) -> f64 {
    let own = items[index].tags();
    if own.is_empty() || items.len() <= 1 {
        return 0.0;
    }
    let mut matching_items = 0;
    for (other, item) in items.iter().enumerate() {
        if other != index && shares_any_tag(own, item.tags()) {
            matching_items += 1;
        }
    }
    f64::from(matching_items) / (items.len() - 1) as f64
}

fn shares_any_tag(left: &[String], right: &[String]) -> bool {
    left.iter().any(|own| right.iter().any(|other| same_name(own, other)))
}

fn reflexive(item: &ContextItem) -> f64 {
    match item.future_relevance_hint() {
        Some(value) if value.is_finite() => value.clamp(0.0, 1.0),
        _ => 0.0,
    }
}

fn metadata_trust(item: &ContextItem, default_score: f64) -> f64 {
    let value = match item.metadata().get(MetadataTrustScorer::KEY) {
        Some(MetadataValue::String(text)) => text.parse::<f64>().ok(),
        Some(MetadataValue::Integer(number)) => Some(*number as f64),
        Some(MetadataValue::Unsigned(number)) => Some(*number as f64),
        Some(MetadataValue::Float(number)) => Some(*number),
        _ => None,
    };
    match value {
        Some(value) if value.is_finite() => value.clamp(0.0, 1.0),
        _ => default_score,
    }
}

fn decay(item: &ContextItem, curve: &CurvePlan, null_timestamp_score: f64) -> f64 {
    const SECOND: i128 = 1_000_000_000;
    let Some(timestamp) = item.timestamp() else {
        return null_timestamp_score;
    };
    let age = i128::max(0, now().unix_nanoseconds() - timestamp.unix_nanoseconds());
    match curve {
        CurvePlan::Exponential { half_life } => {
            let seconds = age as f64 / SECOND as f64;
            // Not `pow`, which differs in the last bit: where sums of scores tie but for rounding, that
            // bit decides their order. That both agree is tested beside the curve.
            libm::exp2(-(seconds / *half_life as f64))
        }
        CurvePlan::Step { windows } => {
            for (max_age, score) in windows {
                if i128::from(*max_age) * SECOND > age {
                    return *score;
                }
            }
            windows[windows.len() - 1].1
        }
        CurvePlan::Window { max_age } => {
            if age < i128::from(*max_age) * SECOND {
                1.0
            } else {
                0.0
            }
        }
    }
}

fn metadata_key(item: &ContextItem, key: &str, value: &str, boost: f64) -> f64 {
    let raw = match item.metadata().get(key) {
        Some(MetadataValue::String(text)) => text.clone(),
        Some(MetadataValue::Bool(truth)) => truth.to_string(),
        Some(MetadataValue::Integer(number)) => number.to_string(),
        Some(MetadataValue::Unsigned(number)) => number.to_string(),
        Some(MetadataValue::Float(number)) => number.to_string(),
        _ => return 1.0,
    };
    if raw == value { boost } else { 1.0 }
}

fn composite(children: &[(ScorerPlan, f64)], index: usize, items: &[&ContextItem]) -> f64 {
    let mut total_weight = 0.0;
    for (_, weight) in children {
        total_weight += weight;
    }
    let mut result = 0.0;
    for (child, weight) in children {
        result += score(child, index, items) * (weight / total_weight);
    }
    result
}

fn scaled(inner: &ScorerPlan, index: usize, items: &[&ContextItem]) -> f64 {
    let mut raw_score = f64::NAN;
    let mut min = f64::INFINITY;
    let mut max = f64::NEG_INFINITY;
    for other in 0..items.len() {
        let score = score(inner, other, items);
        if score < min {
            min = score;
        }
        if score > max {
            max = score;
        }
        if other == index {
            raw_score = score;
        }
    }
    if max == min {
        return 0.5;
    }
    (raw_score - min) / (max - min)
}

fn by_kind(
    entries: &[(Vec<&str>, ScorerPlan)],
    otherwise: Option<&ScorerPlan>,
    index: usize,
    items: &[&ContextItem],
) -> f64 {
    let entry_of = |item: &ContextItem| {
        let lists = |kinds: &[&str]| kinds.iter().any(|kind| same_name(kind, item.kind().as_str()));
        entries.iter().position(|(kinds, _)| lists(kinds))
    };
    let own = entry_of(items[index]);
    let Some(child) = own.map(|entry| &entries[entry].1).or(otherwise) else {
        return 0.0;
    };
    let mut pool = Vec::new();
    let mut place = 0;
    for (other, item) in items.iter().enumerate() {
        if other == index {
            place = pool.len();
        }
        if entry_of(item) == own {
            pool.push(*item);
        }
    }
    score(child, place, &pool)
}

fn keyword(item: &ContextItem, keywords: &[&str], enough: usize) -> f64 {
    let trim = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let mut words = BTreeSet::new();
    for word in item.content().split_whitespace() {
        let word = trim(word);
        for part in word.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            words.insert(part.to_lowercase());
        }
        words.insert(word.to_lowercase());
    }
    words.remove("");
    let keywords: BTreeSet<String> =
        keywords.iter().map(|keyword| trim(keyword).to_lowercase()).collect();
    let matches = keywords.intersection(&words).count();
    f64::min(matches as f64 / enough as f64, 1.0)
}

/// What terms are is not the scorer's business, and is the one thing taken from the engine.
fn lexical(query: &str, index: usize, items: &[&ContextItem]) -> f64 {
    let query: Vec<String> =
        terms(query).0.into_iter().filter(|term| !is_stop_word(term)).collect();
    let mut distinct = query.clone();
    distinct.sort();
    distinct.dedup();
    if distinct.is_empty() {
        return 0.0;
    }
    let texts: Vec<(Vec<String>, u32)> = items.iter().map(|item| terms(item.content())).collect();
    let mut all_words = 0.0;
    for (_, words) in &texts {
        all_words += f64::from(*words);
    }
    let mean = f64::max(1.0, all_words / items.len() as f64);
    let mut sums = vec![0.0; items.len()];
    for term in distinct {
        let count = |terms: &[String]| terms.iter().filter(|other| **other == term).count() as f64;
        let having = texts.iter().filter(|(terms, _)| terms.contains(&term)).count() as f64;
        let idf = libm::log(1.0 + (items.len() as f64 - having + 0.5) / (having + 0.5));
        for (sum, (own, words)) in sums.iter_mut().zip(&texts) {
            let length = 1.2 * (1.0 - 0.75 + 0.75 * (f64::from(*words) / mean));
            *sum += count(&query) * idf * (count(own) * (1.2 + 1.0) / (count(own) + length));
        }
    }
    let best = sums.iter().copied().fold(0.0, f64::max);
    if best == 0.0 { 0.0 } else { sums[index] / best }
}

/// The terms of a text, each once for each place, and how many words there are.
fn terms(text: &str) -> (Vec<String>, u32) {
    let mut terms = BTreeSet::new();
    let words = for_each_term(text, 0, |term| {
        terms.insert((term.position, term.text.to_owned()));
    });
    (terms.into_iter().map(|(_, term)| term).collect(), words)
}
