//! The shorter forms of blocks. Each contains the recall id of its block, unless that is empty: then nobody can recall it.

use std::ops::Range;

use pannier_core::TokenCounter;

use super::call::{PATHS, arguments, input};
use super::terms::{MIN_DIGITS, is_identifier};
use crate::json;
use crate::message::{Body, Part};

/// The maximum bytes of a name in a list, and the bytes of a name and its separator per token. Counting every name would
/// take longer than counting the history.
const MAX_NAME_BYTES: usize = 40;
const BYTES_PER_TOKEN: usize = 4;

/// The separator of names in a list, and the bytes of the shortest name with it.
const SEPARATOR: &str = ", ";
const MIN_LISTED_BYTES: usize = MIN_DIGITS + SEPARATOR.len();

/// The tokens that the line in place of the omitted ones takes, and the rounds to meet a cap.
const OMISSION_TOKENS: i64 = 24;
const MAX_ROUNDS: usize = 4;

/// The maximum characters of a first line.
const MAX_FIRST_LINE: usize = 160;

/// Returns the first `max` characters of a text.
fn first_chars(text: &str, max: usize) -> &str {
    match text.as_bytes().get(..max) {
        Some(first) if first.is_ascii() => &text[..max],
        _ => text.char_indices().nth(max).map_or(text, |(end, _)| &text[..end]),
    }
}

/// Returns how to recall a block, after what is said about it.
pub(super) fn recall(id: &str) -> String {
    if id.is_empty() { String::new() } else { ["; recall ", id].concat() }
}

/// Returns the mark at the end of a text that is cut.
fn mark(id: &str) -> String {
    if id.is_empty() { "[…]".to_owned() } else { format!("[… recall {id}]") }
}

/// A block of `tokens` tokens by its recall id.
pub(super) fn stub(id: &str, tokens: i64) -> String {
    stub_with_names(id, tokens, &[])
}

/// A stub that lists names.
pub(super) fn stub_with_names(id: &str, tokens: i64, names: &[&str]) -> String {
    let mut text = ["[", &tokens.to_string(), " tokens left out", &recall(id)].concat();
    for (index, name) in names.iter().enumerate() {
        text.push_str(if index == 0 { "; names: " } else { SEPARATOR });
        text.push_str(name);
    }
    text.push(']');
    text
}

/// Returns whether a text is a stub. Two results may have the same one.
pub(super) fn is_stub(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']') && text.contains(" tokens left out")
}

/// A result that equals an earlier one.
pub(super) fn duplicate(id: &str) -> String {
    format!("[same as an earlier result{}]", recall(id))
}

/// The first line of a text of several lines.
pub(super) fn first_line(id: &str, text: &str) -> Option<String> {
    let (line, _) = text.split_once('\n')?;
    Some(format!("{} {}", first_chars(line.trim_end(), MAX_FIRST_LINE), mark(id)))
}

/// The first `max` characters of a text.
pub(super) fn beginning(id: &str, text: &str, max: usize) -> String {
    format!("{} {}", first_chars(text, max), mark(id))
}

/// Returns the beginning and the end of a text, in at most `cap` tokens, and their tokens. They end at line breaks if lines
/// are short.
pub(super) fn head_and_tail(
    id: &str,
    text: &str,
    tokens: i64,
    cap: i64,
    head_percent: usize,
    counter: &dyn TokenCounter,
) -> Option<(String, i64)> {
    // Slightly less usually meets the cap at once.
    let mut budget = cap - OMISSION_TOKENS;
    budget -= budget / 32;
    for _ in 0..MAX_ROUNDS {
        if budget <= 0 || tokens <= 0 {
            return None;
        }
        let bytes = text.len() as i128 * i128::from(budget) / i128::from(tokens);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(text.len());
        let head = head(text, bytes / 100 * head_percent + bytes % 100 * head_percent / 100);
        let tail = tail(&text[head.len()..], bytes.saturating_sub(head.len()));
        let omitted = &text[head.len()..text.len() - tail.len()];
        if omitted.is_empty() {
            return None;
        }
        let (lines, all) = (omitted.lines().count(), text.lines().count());
        let separator = if head.ends_with('\n') { "" } else { "\n" };
        let recall = recall(id);
        let form =
            format!("{head}{separator}[… {lines} of {all} lines left out{recall} …]\n{tail}");
        let count = i64::try_from(counter.count(&form)).unwrap_or(i64::MAX);
        if count <= cap {
            return Some((form, count));
        }
        budget = i64::try_from(i128::from(budget) * i128::from(cap) / i128::from(count))
            .unwrap_or_default()
            - 1;
    }
    None
}

/// Returns at most `max` bytes from the beginning of a text, up to a line break if that keeps half of them.
fn head(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    let text = &text[..end.unwrap_or_default()];
    match text.rfind('\n') {
        Some(end) if end + 1 >= max / 2 => &text[..=end],
        _ => text,
    }
}

/// Returns at most `max` bytes from the end of a text, from a line break on if that keeps half of them.
fn tail(text: &str, max: usize) -> &str {
    let start = (text.len().saturating_sub(max)..).find(|start| text.is_char_boundary(*start));
    let text = &text[start.unwrap_or(text.len())..];
    match text.find('\n') {
        Some(end) if text.len() - end > max / 2 => &text[end + 1..],
        _ => text,
    }
}

/// Returns those of the different `names` of a text that are listed in a stub, in about `max_tokens`: identifiers before
/// words. Both the names and the list are in the order of the text.
pub(super) fn names<'t>(
    text: &'t str,
    names: &(impl Iterator<Item = Range<usize>> + Clone),
    max_tokens: i64,
) -> Vec<&'t str> {
    let mut listed: Vec<(usize, &str)> = Vec::new();
    let mut remaining = usize::try_from(max_tokens).unwrap_or_default() * BYTES_PER_TOKEN;
    for is_listed_first in [true, false] {
        for range in names.clone() {
            if remaining < MIN_LISTED_BYTES {
                break;
            }
            let (start, name) = (range.start, &text[range]);
            let bytes = name.len() + SEPARATOR.len();
            let is_part =
                |(_, other): &(usize, &str)| other.len() >= name.len() && other.contains(name);
            if bytes <= remaining
                && name.len() <= MAX_NAME_BYTES
                && is_identifier(name) == is_listed_first
                && !listed.iter().any(is_part)
            {
                remaining -= bytes;
                listed.push((start, name));
            }
        }
    }
    listed.sort_unstable();
    listed.into_iter().map(|(_, name)| name).collect()
}

/// Returns whether no argument of a call can be long: none is longer than all of them.
pub(super) fn is_short_input(part: &Part<'_>, max: usize) -> bool {
    part.text.len() <= 2 * max
}

/// Returns the arguments of a call with each long value cut to its first `max` characters, or `None` if none is long.
/// Paths stay whole, and the arguments stay an object.
pub(super) fn short_input(id: &str, part: &Part<'_>, max: usize) -> Option<String> {
    if matches!(part.body?, Body::Text(_)) {
        let text = input(part);
        return (text.chars().count() > 2 * max).then(|| beginning(id, text, max));
    }
    let arguments = arguments(part)?;
    let mut is_cut = false;
    let mut object = String::new();
    let mut separator = "{";
    for (name, value) in &arguments.0 {
        object.push_str(separator);
        separator = ", ";
        json::write_string(name, &mut object);
        object.push_str(": ");
        let text = json::string(name, *value).unwrap_or_else(|_| json::spaced(*value));
        let length = text.chars().count();
        if length > 2 * max && !PATHS.contains(&&**name) {
            is_cut = true;
            let (first, recall) = (first_chars(&text, max), recall(id));
            let cut = format!("{first} [… {length} characters{recall}]");
            json::write_string(&cut, &mut object);
        } else {
            object.push_str(&json::spaced(*value));
        }
    }
    object.push('}');
    is_cut.then_some(object)
}

#[cfg(test)]
mod tests {
    use pannier_tokens::BytesOverFour;

    use super::*;
    use crate::session::terms::for_each_name;

    #[test]
    fn head_and_tail_stay_below_the_cap_and_end_at_lines() {
        let text: String = (0..200).map(|line| format!("line number {line}\n")).collect();
        let tokens = BytesOverFour.count(&text) as i64;
        for cap in 30..400 {
            let form = head_and_tail("0a", &text, tokens, cap, 80, &BytesOverFour);
            let Some((form, count)) = form else {
                continue;
            };
            assert_eq!(BytesOverFour.count(&form) as i64, count);
            assert!(count <= cap, "{cap}");
            assert!(form.starts_with("line"), "{form}");
            assert!(form.contains("of 200 lines left out; recall 0a …]"));
            if cap > 100 {
                assert!(form.ends_with("line number 199\n"), "{form}");
            }
        }
        assert_eq!(head_and_tail("0a", &text, tokens, 10, 80, &BytesOverFour), None);
        let words = "word ".repeat(300);
        let (form, _) = head_and_tail("0a", &words, 375, 100, 60, &BytesOverFour).unwrap();
        assert!(form.starts_with("word word"));
    }

    #[test]
    fn names_are_in_order_and_within_their_tokens() {
        let text = "problem read_file main.rs/read_file 4711 read";
        let mut ranges = Vec::new();
        for_each_name(text, |range| ranges.push(range));
        let listed = |max| names(text, &ranges.iter().cloned(), max);
        assert_eq!(listed(100), ["problem", "read_file", "main.rs/read_file", "4711"]);
        assert_eq!(listed(6), ["read_file", "4711"]);
    }
}
