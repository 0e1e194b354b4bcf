//! Reads settings from lines of text.

use std::collections::BTreeMap;

/// The longest line that is read.
pub const MAX_LINE_BYTES: usize = 4096;

/// Why a line is not a setting.
#[derive(Debug, PartialEq)]
pub enum ParseError {
    NoEquals { line: usize },
    TooLong { line: usize },
}

/// Settings by name.
#[derive(Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
}

impl Settings {
    /// Parses one setting for each line.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut settings = Self::default();
        for (line, number) in text.lines().zip(1..) {
            let (name, value) = split(line, number)?;
            settings.values.insert(name.to_owned(), value.to_owned());
        }
        Ok(settings)
    }

    /// Returns the value of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }
}

fn split(line: &str, number: usize) -> Result<(&str, &str), ParseError> {
    if line.len() > MAX_LINE_BYTES {
        return Err(ParseError::TooLong { line: number });
    }
    line.split_once('=').ok_or(ParseError::NoEquals { line: number })
}

macro_rules! settings {
    ($($name:ident = $value:expr),*) => { [$((stringify!($name), $value)),*] };
}
