//! The packet settings in `.ctxrc`, the file next to a context folder.
//!
//! Other tools share the file, so unknown keys are ignored. Invalid values of known keys are errors: a mistyped budget must
//! not silently become the default.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::file::read;
use crate::{Folder, MemoryError};

const NAME: &str = ".ctxrc";

/// The maximum size of the file.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The settings of `.ctxrc` for packets; `None` where the file has no such key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The maximum number of tokens of a packet.
    pub token_budget: Option<usize>,
    /// The share of tasks, from 0 to 1.
    pub task_budget_pct: Option<f64>,
    /// The share of conventions, from 0 to 1.
    pub convention_budget_pct: Option<f64>,
    /// The share of decisions, from 0 to 1.
    pub decision_budget_pct: Option<f64>,
    /// The share of learnings, from 0 to 1.
    pub learning_budget_pct: Option<f64>,
    /// The minimum time between two packets of a session, in minutes.
    pub agent_cooldown_minutes: Option<u64>,
}

/// A YAML value.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Value {
    Integer(u64),
    Float(f64),
    Bool(bool),
    String(String),
    Other(IgnoredAny),
}

impl Config {
    /// Reads the file `.ctxrc` at the root of a project. Returns the default if there is none.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Config`] if it is not YAML, [`MemoryError::ConfigValue`] if a value is invalid,
    /// [`MemoryError::TooLong`] above 64 KiB, and [`MemoryError::Io`] if it cannot be read.
    pub fn read(folder: &Folder) -> Result<Self, MemoryError> {
        let path = folder.root().join(NAME);
        let problem =
            |problem: &str| MemoryError::Config { path: path.clone(), problem: problem.to_owned() };
        match read(folder.root(), &path, MAX_FILE_BYTES)? {
            Ok(None) => Ok(Self::default()),
            Err(refusal) => Err(problem(refusal)),
            Ok(Some(bytes)) => {
                let text = str::from_utf8(&bytes).map_err(|_| problem("it is not UTF-8"))?;
                Self::parse(&path, text)
            }
        }
    }

    /// Parses the text of a `.ctxrc` file. Errors name `path`.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Config`] if it is not YAML, [`MemoryError::ConfigValue`] if a value is invalid.
    pub fn parse(path: &Path, text: &str) -> Result<Self, MemoryError> {
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: 32, max_nodes: 20_000, max_documents: 1 },
        };
        let keys =
            serde_saphyr::from_str_with_options::<Option<BTreeMap<String, Value>>>(text, options);
        let keys = keys.map_err(|error| MemoryError::Config {
            path: path.to_owned(),
            problem: match error.without_snippet() {
                serde_saphyr::Error::Budget { .. } => {
                    "it is too long, nests too deep or has aliases; make it flat".to_owned()
                }
                error => first_line(&error.to_string()),
            },
        })?;
        let keys = Keys { path, keys: keys.unwrap_or_default() };
        Ok(Self {
            token_budget: keys.parse_integer("token_budget")?,
            task_budget_pct: keys.parse_fraction("task_budget_pct")?,
            convention_budget_pct: keys.parse_fraction("convention_budget_pct")?,
            decision_budget_pct: keys.parse_fraction("decision_budget_pct")?,
            learning_budget_pct: keys.parse_fraction("learning_budget_pct")?,
            agent_cooldown_minutes: keys.parse_integer("agent_cooldown_minutes")?,
        })
    }
}

struct Keys<'a> {
    path: &'a Path,
    keys: BTreeMap<String, Value>,
}

impl Keys<'_> {
    fn parse_integer<T: TryFrom<u64>>(&self, key: &'static str) -> Result<Option<T>, MemoryError> {
        self.value(key, "a whole number from 0 on", |value| match value {
            Value::Integer(number) => T::try_from(*number).ok(),
            _ => None,
        })
    }

    fn parse_fraction(&self, key: &'static str) -> Result<Option<f64>, MemoryError> {
        let fraction = |number: f64| (0.0..=1.0).contains(&number).then_some(number);
        self.value(key, "a number from 0 to 1", |value| match value {
            Value::Integer(number) => fraction(*number as f64),
            Value::Float(number) => fraction(*number),
            _ => None,
        })
    }

    fn value<T>(
        &self,
        key: &'static str,
        allowed: &'static str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, MemoryError> {
        let Some(value) = self.keys.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| MemoryError::ConfigValue {
            path: self.path.to_owned(),
            key,
            value: value.display_value(),
            allowed,
        })
    }
}

impl Value {
    fn display_value(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::String(text) => format!("'{}'", text.chars().take(40).collect::<String>()),
            Self::Other(IgnoredAny) => "empty, or a list or a mapping".to_owned(),
        }
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::Scratch;

    fn parse(text: &str) -> Result<Config, MemoryError> {
        Config::parse(Path::new(".ctxrc"), text)
    }

    #[test]
    fn known_keys_are_read_and_unknown_keys_ignored() {
        let text = "# mine\ncontext_dir: .context\ntoken_budget: 4000\ntask_budget_pct: 0.25\nconvention_budget_pct: 1\nagent_cooldown_minutes: 0\npriority_order:\n  - A\n  - {b: [c]}\n";
        let config = parse(text).unwrap();
        assert_eq!(config.token_budget, Some(4_000));
        assert_eq!(config.task_budget_pct, Some(0.25));
        assert_eq!(config.convention_budget_pct, Some(1.0));
        assert_eq!(config.agent_cooldown_minutes, Some(0));
        for empty in ["", "# nothing\n", "---\n", "other: 1\n"] {
            assert_eq!(parse(empty).unwrap(), Config::default(), "{empty}");
        }
    }

    #[test]
    fn invalid_value_error_names_key_value_and_allowed_range() {
        for (text, value) in [
            ("token_budget: lots", "'lots'"),
            ("token_budget: -1", "-1"),
            ("token_budget: 1.5", "1.5"),
            ("token_budget: '4000'", "'4000'"),
            ("token_budget:", "empty, or a list or a mapping"),
            ("token_budget: [1]", "empty, or a list or a mapping"),
            ("token_budget: true", "true"),
            ("agent_cooldown_minutes: 2.5", "2.5"),
            ("task_budget_pct: 40", "40"),
            ("task_budget_pct: -0.1", "-0.1"),
            ("convention_budget_pct: 20%", "'20%'"),
        ] {
            let error = parse(text).unwrap_err();
            let key = text.split(':').next().unwrap();
            let message = error.to_string();
            assert!(
                message.starts_with(&format!(".ctxrc: {key} is {value} but must be ")),
                "{message}"
            );
        }
    }

    #[test]
    fn invalid_yaml_is_an_error() {
        for text in
            ["token_budget: [", "just words", "- a\n- b\n", "a: 1\na: 2\n", "task_budget_pct: .nan"]
        {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, MemoryError::Config { .. }), "{text}: {error}");
        }
        let bomb = format!("a: &a [x]\nb: {}\n", "[".repeat(1_000));
        assert!(parse(&bomb).is_err());
        let deep = format!("a: {}{}\n", "[".repeat(40), "]".repeat(40));
        let error = parse(&deep).unwrap_err().to_string();
        assert!(error.starts_with(".ctxrc: it is too long, nests too deep"), "{error}");
    }

    #[test]
    fn the_file_is_read_from_the_project_root() {
        let scratch = Scratch::new("config");
        scratch.write(".context/TASKS.md", "");
        let folder = Folder::find(scratch.path()).unwrap();
        assert_eq!(Config::read(&folder).unwrap(), Config::default());
        scratch.write(".ctxrc", "token_budget: 10\n");
        assert_eq!(Config::read(&folder).unwrap().token_budget, Some(10));
        scratch.write(".ctxrc", &"#".repeat(1 + (64 << 10)));
        assert!(matches!(Config::read(&folder).unwrap_err(), MemoryError::TooLong { .. }));
    }
}
