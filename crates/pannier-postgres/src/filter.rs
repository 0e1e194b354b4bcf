//! Filters in SQL: conditions that hold for every document that a filter allows, and a few more. The exact filter of
//! `pannier-docs` decides about the rest.

use pannier_core::Timestamp;
use pannier_docs::corpus::glob_matcher;
use pannier_docs::{DocsError, Filters};
use tokio_postgres::types::{ToSql, Type};

/// The value of a parameter.
pub(crate) type Parameter = (Box<dyn ToSql + Send + Sync>, Type);

/// The compiled filters of a search.
pub(crate) struct DocumentFilter {
    is_match: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// Lowercased strings that a chunk must contain.
    pub(crate) contains: Vec<String>,
    /// The conditions on a document `d`, as parts of SQL and their values.
    conditions: Vec<(&'static str, &'static str, Value)>,
    pub(crate) is_empty: bool,
}

#[derive(Clone)]
enum Value {
    Number(i64),
    Texts(Vec<String>),
    Text(String),
}

impl DocumentFilter {
    pub(crate) fn new(filters: &Filters) -> Result<Self, DocsError> {
        let Filters { paths, after, before, contains, .. } = filters;
        let mut conditions = Vec::new();
        // Dates are whole seconds.
        for (operator, bound) in [("d.date >= ", after), ("d.date < ", before)] {
            conditions.extend(bound.map(|bound| (operator, "", Value::Number(seconds(bound)))));
        }
        let is_match: Box<dyn Fn(&str) -> bool + Send + Sync> = match paths.is_empty() {
            true => Box::new(|_| true),
            false => {
                let matcher = glob_matcher(paths)?;
                let patterns = paths.iter().map(|path| regex(path)).collect();
                conditions.push(("d.path ~ ANY(", ")", Value::Texts(patterns)));
                Box::new(matcher)
            }
        };
        let contains: Vec<String> = contains.iter().map(|text| text.to_lowercase()).collect();
        for text in &contains {
            // Only ASCII is lowercased alike everywhere. Two other characters are lowercased to ASCII.
            let start = "position(";
            let end = " in lower(translate(convert_from(d.content, 'UTF8'), U&'\\212a\\0130', 'ki') COLLATE \"C\")) > 0";
            let ascii =
                text.split(|c: char| !c.is_ascii() || c == '\0').max_by_key(|part| part.len());
            let ascii = ascii.unwrap_or_default();
            if !ascii.is_empty() {
                conditions.push((start, end, Value::Text(ascii.to_owned())));
            }
        }
        let is_empty = conditions.is_empty() && contains.is_empty();
        Ok(Self { is_match, contains, conditions, is_empty })
    }

    /// Returns whether a path is allowed.
    pub(crate) fn allows(&self, path: &str) -> bool {
        (self.is_match)(path)
    }

    /// Returns whether a text contains all required strings.
    pub(crate) fn allows_text(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.contains.iter().all(|required| text.contains(required))
    }

    /// Returns the condition on a document `d`, and adds its values to the parameters.
    pub(crate) fn sql(&self, parameters: &mut Vec<Parameter>) -> String {
        let mut sql = String::from("true");
        for (start, end, value) in &self.conditions {
            parameters.push(match value.clone() {
                Value::Number(number) => (Box::new(number), Type::INT8),
                Value::Text(text) => (Box::new(text), Type::TEXT),
                Value::Texts(texts) => (Box::new(texts), Type::TEXT_ARRAY),
            });
            sql.push_str(&format!(" AND {start}${}{end}", parameters.len()));
        }
        sql
    }
}

/// Returns the first whole second that is not before a time.
fn seconds(time: Timestamp) -> i64 {
    let nanoseconds = time.unix_nanoseconds();
    let floor = nanoseconds.div_euclid(1_000_000_000);
    let is_whole = nanoseconds.rem_euclid(1_000_000_000) == 0;
    i64::try_from(floor + i128::from(!is_whole)).unwrap_or(i64::MAX)
}

/// Returns a regular expression that matches every path that a glob pattern matches: the literal beginning and end of the
/// pattern, up to the first special character from either side.
fn regex(pattern: &str) -> String {
    let whole = pattern.trim_start_matches('/');
    let is_special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | ',');
    let escape = |text: &str| -> String {
        let parts = text.chars().map(|c| match c.is_alphanumeric() || "/_-".contains(c) {
            true => c.to_string(),
            false => format!("\\U{:08x}", u32::from(c)),
        });
        parts.collect()
    };
    let has_folder = whole.contains('/');
    let Some(first) = whole.find(is_special) else {
        let start = if has_folder { "^" } else { "(^|/)" };
        return format!("{start}{}$", escape(whole));
    };
    let last = whole.rfind(is_special).unwrap_or(first);
    let start = match has_folder {
        true => format!("^{}", escape(&whole[..first])),
        false => format!("(^|/){}", escape(&whole[..first])),
    };
    // `{a,b}c` ends with c, but an escape or a class may have swallowed the beginning of the end.
    let after = whole[last..].chars().next().map_or(0, char::len_utf8);
    let is_simple = matches!(&whole[last..last + after], "*" | "?" | "}" | "]");
    // `**/x` matches x, too.
    let end = whole[last + after..].trim_start_matches('/');
    let end = if is_simple { escape(end) } else { String::new() };
    format!("{start}.*{end}$")
}
