//! Parses and writes index files.
//!
//! An index is YAML, so that other tools can read it. Pannier writes one canonical form: one line per field, strings in
//! double quotes as in JSON. A line parser reads the canonical form about as fast as the file itself. A YAML parser, many
//! times slower, reads everything else. The line parser only accepts byte-exact canonical text, so both parsers agree
//! where both succeed.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use crate::front_matter::{breach_problem, first_line};

const HEADER: &str =
    "# Written by `pannier snippets index` from the front matter of the files below this folder.\n";

/// A parsed index. Its values are not validated.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index<'t> {
    /// The tokenizer of the token counts.
    pub(crate) tokenizer: Option<Cow<'t, str>>,
    /// Other names for paths.
    pub(crate) aliases: List<'t>,
    /// The references of the manifests, if recorded.
    pub(crate) baseline: Option<List<'t>>,
    pub(crate) entries: Vec<Entry<'t>>,
}

/// An index in any YAML form.
#[derive(Deserialize)]
struct AnyIndex<'t> {
    tokenizer: Option<Cow<'t, str>>,
    aliases: Option<List<'t>>,
    baseline: Option<List<'t>>,
    snippets: Option<Vec<Entry<'t>>>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Entry<'t> {
    #[serde(deserialize_with = "or_default")]
    pub(crate) id: Cow<'t, str>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) description: Cow<'t, str>,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: Cow<'t, str>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) scope: Cow<'t, str>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) path: Cow<'t, str>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) requires: List<'t>,
    pub(crate) tokens: Option<usize>,
    /// XXH3 of the whole file.
    #[serde(deserialize_with = "any_hash")]
    pub(crate) hash: Option<u64>,
}

/// A list of strings. Most are never used, so canonical lists are kept unparsed.
#[derive(Clone, Debug)]
pub(crate) enum List<'t> {
    /// The text between the brackets of a canonical, non-empty list without escapes.
    Canonical(&'t str),
    Texts(Vec<String>),
}

impl Default for List<'_> {
    fn default() -> Self {
        Self::Texts(Vec::new())
    }
}

impl<'de> Deserialize<'de> for List<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::Texts)
    }
}

impl PartialEq for List<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.texts() == other.texts()
    }
}

impl Eq for List<'_> {}

impl<'t> List<'t> {
    pub(crate) fn texts(&self) -> Vec<Cow<'_, str>> {
        match self {
            Self::Texts(texts) => texts.iter().map(|text| Cow::Borrowed(text.as_str())).collect(),
            Self::Canonical(inside) => {
                inside.split(", ").map(|text| Cow::Borrowed(text.trim_matches('"'))).collect()
            }
        }
    }

    /// Parses a list in canonical form.
    fn parse_canonical(text: &'t str) -> Option<Self> {
        let inside = text.strip_prefix('[')?.strip_suffix(']')?;
        if inside.is_empty() {
            return Some(Self::Texts(Vec::new()));
        }
        if is_simple(inside.as_bytes()) {
            return Some(Self::Canonical(inside));
        }
        let list = Self::Texts(serde_json::from_str(text).ok()?);
        (quote_list(&list) == text).then_some(list)
    }
}

/// Returns whether `list` consists of quoted strings separated by a comma and a space, without escapes and spaces. Lists
/// of ids do.
fn is_simple(list: &[u8]) -> bool {
    let mut rest = list;
    loop {
        let Some(inside) = rest.strip_prefix(b"\"") else { return false };
        let is_plain = |byte: u8| matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'\\');
        let Some(end) = inside.iter().position(|byte| !is_plain(*byte)) else { return false };
        match &inside[end..] {
            [b'"'] => return true,
            [b'"', b',', b' ', after @ ..] => rest = after,
            _ => return false,
        }
    }
}

/// Writes an index in canonical form.
pub(crate) fn write(index: &Index<'_>) -> String {
    let mut text = HEADER.to_owned();
    let mut field = |name: &str, value: &str| {
        text.push_str(name);
        text.push_str(value);
        text.push('\n');
    };
    if let Some(tokenizer) = &index.tokenizer {
        field("tokenizer: ", &quote(tokenizer));
    }
    if !index.aliases.texts().is_empty() {
        field("aliases: ", &quote_list(&index.aliases));
    }
    if let Some(baseline) = &index.baseline {
        field("baseline: ", &quote_list(baseline));
    }
    field("snippets:", if index.entries.is_empty() { " []" } else { "" });
    for entry in &index.entries {
        field("  - id: ", &quote(&entry.id));
        field("    description: ", &quote(&entry.description));
        match is_word(&entry.kind) {
            true => field("    type: ", &entry.kind),
            false => field("    type: ", &quote(&entry.kind)),
        }
        field("    scope: ", &entry.scope);
        field("    path: ", &quote(&entry.path));
        field("    requires: ", &quote_list(&entry.requires));
        if let Some(tokens) = entry.tokens {
            field("    tokens: ", &tokens.to_string());
        }
        if let Some(hash) = entry.hash {
            field("    hash: ", &format!("\"{hash:016x}\""));
        }
    }
    text
}

fn quote_list(list: &List<'_>) -> String {
    let texts: Vec<String> = list.texts().iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// Quotes a string so that JSON and YAML parse it alike.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            _ if is_escaped(character) => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns whether YAML forbids a character in strings or treats it as a line break.
fn is_escaped(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Unescapes the text between quotes, if it is canonical.
fn unescape(text: &str) -> Option<Cow<'_, str>> {
    // Fast path for printable ASCII, without branches so that it vectorizes.
    let is_simple = text
        .bytes()
        .fold(true, |is, byte| is & matches!(byte, b' '..=b'~') & (byte != b'"') & (byte != b'\\'));
    let is_plain = is_simple
        || text.chars().all(|character| !matches!(character, '"' | '\\') && !is_escaped(character));
    if is_plain {
        return Some(Cow::Borrowed(text));
    }
    let quoted = format!("\"{text}\"");
    let plain: String = serde_json::from_str(&quoted).ok()?;
    (quote(&plain) == quoted).then_some(Cow::Owned(plain))
}

/// Parses an index. The error is a one-line problem.
pub(crate) fn read(text: &str) -> Result<Index<'_>, String> {
    match parse_canonical(text) {
        Some(index) => Ok(index),
        None => parse_any_yaml(text),
    }
}

/// Parses an index in canonical form.
pub(crate) fn parse_canonical(text: &str) -> Option<Index<'_>> {
    let mut lines = Lines(text.strip_prefix(HEADER)?);
    let mut index = Index {
        tokenizer: Some(lines.quoted("tokenizer: ")?),
        aliases: lines.list("aliases: ")?,
        baseline: Some(List::parse_canonical(lines.field("baseline: ")?)?),
        entries: Vec::new(),
    };
    match lines.field("snippets:")? {
        " []" if lines.0.is_empty() => return Some(index),
        "" if !lines.0.is_empty() => {}
        _ => return None,
    }
    index.entries.reserve(text.len() / 512);
    while !lines.0.is_empty() {
        index.entries.push(Entry {
            id: lines.quoted("  - id: ")?,
            description: lines.quoted("    description: ")?,
            kind: lines.word_or_quoted("    type: ")?,
            scope: lines.word("    scope: ")?,
            path: lines.quoted("    path: ")?,
            requires: List::parse_canonical(lines.field("    requires: ")?)?,
            tokens: Some(number(lines.field("    tokens: ")?)?),
            hash: Some(hash(&lines.quoted("    hash: ")?)?),
        });
    }
    Some(index)
}

struct Lines<'t>(&'t str);

impl<'t> Lines<'t> {
    fn field(&mut self, name: &str) -> Option<&'t str> {
        let rest = self.0.strip_prefix(name)?;
        let (value, rest) = rest.split_once('\n')?;
        self.0 = rest;
        Some(value)
    }

    /// Parses a list that is missing if it is empty.
    fn list(&mut self, name: &str) -> Option<List<'t>> {
        if !self.0.starts_with(name) {
            return Some(List::default());
        }
        List::parse_canonical(self.field(name)?).filter(|list| !list.texts().is_empty())
    }

    fn quoted(&mut self, name: &str) -> Option<Cow<'t, str>> {
        unescape(self.field(name)?.strip_prefix('"')?.strip_suffix('"')?)
    }

    fn word(&mut self, name: &str) -> Option<Cow<'t, str>> {
        let word = self.field(name)?;
        is_word(word).then_some(Cow::Borrowed(word))
    }

    fn word_or_quoted(&mut self, name: &str) -> Option<Cow<'t, str>> {
        if self.0.strip_prefix(name)?.starts_with('"') {
            return self.quoted(name).filter(|text| !is_word(text));
        }
        self.word(name)
    }
}

/// Returns whether YAML reads a text as a string without quotes.
fn is_word(word: &str) -> bool {
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    // YAML reads these words as other types.
    is_word && !matches!(word, "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n")
}

fn number(digits: &str) -> Option<usize> {
    let number: usize = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Parses 16 lowercase hexadecimal digits.
fn hash(digits: &str) -> Option<u64> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_hash = digits.len() == 16 && digits.bytes().all(is_digit);
    is_hash.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Reads a missing value and `null` alike.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a hash. One of another tool counts as missing.
fn any_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|digits| hash(&digits)))
}

/// Parses an index in any YAML form.
pub(crate) fn parse_any_yaml(text: &str) -> Result<Index<'_>, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 16,
            max_nodes: 8_000_000,
            max_events: 16_000_000,
            max_documents: 1,
        },
    };
    let index = serde_saphyr::from_str_with_options::<Option<AnyIndex<'_>>>(text, options);
    let index = index.map_err(|error| match error.without_snippet() {
        serde_saphyr::Error::Budget { breach, .. } => breach_problem(breach).to_owned(),
        other => first_line(&other.to_string()),
    })?;
    let AnyIndex { tokenizer, aliases, baseline, snippets } = index.ok_or("it is empty")?;
    let entries = snippets.ok_or("it has no list 'snippets'")?;
    Ok(Index { tokenizer, aliases: aliases.unwrap_or_default(), baseline, entries })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index<'t>(texts: &'t [String], tokens: usize) -> Index<'t> {
        let list = |texts: &[String]| List::Texts(texts.to_vec());
        let text = |i: usize| Cow::Borrowed(texts.get(i).map_or("", String::as_str));
        let entry = |i: usize| Entry {
            id: text(i),
            description: text(i + 1),
            kind: if i.is_multiple_of(2) { Cow::Borrowed("policy") } else { text(i) },
            scope: Cow::Borrowed("global"),
            path: text(i + 2),
            requires: list(&texts[i..]),
            tokens: Some(tokens),
            hash: Some(tokens as u64 * 0x1_0000_0001),
        };
        Index {
            tokenizer: Some(text(0)),
            aliases: list(if tokens.is_multiple_of(2) { texts } else { &[] }),
            baseline: Some(list(texts)),
            entries: (0..texts.len()).map(entry).collect(),
        }
    }

    fn malformed_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            prop::sample::select(vec![
                "\"",
                "\\",
                "\", \"",
                "\n",
                "\r",
                "\t",
                "\0",
                "\u{7f}",
                "\u{85}",
                "\u{9f}",
                "\u{a0}",
                "\u{2028}",
                "\u{2029}",
                "\u{feff}",
                "\u{fffe}",
                "\u{ffff}",
                "\u{1fffe}",
                "\\u0041",
                "]",
                "[",
                "#",
                " #",
                ": ",
                "- ",
                "'",
                "&a",
                "*a",
                "!",
                "%",
                "@",
                "`",
                "null",
                "~",
                "1",
                " ",
                "ä",
                "漢",
                "🏳",
                "---",
                "...",
                "\u{1b}[31m",
                ",",
                "{",
                "\\\"",
                "\u{202e}",
            ])
            .prop_map(str::to_owned),
            any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn both_parsers_read_the_canonical_form(
            texts in prop::collection::vec(malformed_text(), 0..4),
            tokens in any::<u32>(),
        ) {
            let index = index(&texts, tokens as usize);
            let text = write(&index);
            let canonical = parse_canonical(&text);
            prop_assert_eq!(canonical.as_ref(), Some(&index), "{}", &text);
            let any = parse_any_yaml(&text);
            prop_assert_eq!(any.as_ref(), Ok(&index), "{}", &text);
        }

        #[test]
        fn both_parsers_agree_on_mutated_text(
            texts in prop::collection::vec(malformed_text(), 0..3),
            position in any::<prop::sample::Index>(),
            inserted in malformed_text(),
        ) {
            let mut text = write(&index(&texts, 7));
            let mut position = position.index(text.len() + 1);
            while !text.is_char_boundary(position) {
                position -= 1;
            }
            text.insert_str(position, &inserted);
            if let Some(canonical) = parse_canonical(&text) {
                prop_assert_eq!(parse_any_yaml(&text), Ok(canonical), "{}", &text);
            }
        }
    }

    #[test]
    fn other_yaml_forms_are_parsed() {
        let text = "project: x\nsnippets:\n- description: >-\n    one\n    two\n  id: a/b\n  type: policy\n  scope: global\n  path: docs/a/b.md\n  more: {x: y}\n  requires:\n  - c\n  - '@d.md'\n- id: c\n";
        assert!(parse_canonical(text).is_none());
        let index = read(text).unwrap();
        assert_eq!(index.entries.len(), 2);
        assert_eq!(index.entries[0].description, "one two");
        assert_eq!(index.entries[0].requires.texts(), ["c", "@d.md"]);
        assert_eq!(index.entries[1].path, "");
        assert_eq!((index.tokenizer, index.baseline), (None, None));
        for bad in ["", "snippets:", "snippets: x", "a: [", "- a", "{}", "snippets:\n- id: [x]\n"] {
            let problem = read(bad).unwrap_err();
            assert!(!problem.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn alias_bombs_and_deep_nesting_are_errors() {
        let mut text = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (name, before) in ('b'..='z').zip('a'..='y') {
            let nine = vec![format!("*{before}"); 9].join(",");
            text.push_str(&format!("{name}: &{name} [{nine}]\n"));
        }
        text.push_str("snippets: *z\n");
        assert!(read(&text).is_err());
        assert!(read(&format!("snippets: {}", "[".repeat(100_000))).is_err());
    }
}
