//! Reading items, policies and receipts. What comes in is foreign until it has been checked: sizes are
//! bounded, and an error says where and what.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use pannier_core::UncountedItem;
use pannier_docs::{DocsError, DocumentMetadata, ImportedVectors, parse_date, quantize};
use pannier_layout::Template;
use pannier_policy::{Policy, PolicyRegistry, Receipt};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};

use crate::error::CliError;

/// The longest line of items that is read, and the largest policy or template.
const LONGEST_LINE: u64 = 256 << 20;
const LARGEST_SETTINGS: u64 = 4 << 20;
const LARGEST_RECEIPT: u64 = 1 << 30;
const LARGEST_ABOUT: u64 = 1 << 30;

/// Reads the items of all files, one after the other; `-`, or no file at all, is standard input.
pub(crate) fn read_items(paths: &[PathBuf]) -> Result<Vec<UncountedItem>, CliError> {
    let mut items = Vec::new();
    let stdin = [PathBuf::from("-")];
    for path in if paths.is_empty() { &stdin } else { paths } {
        if path.as_os_str() == "-" {
            Reader { path: None, items: &mut items }.read(io::stdin().lock())?;
        } else {
            let file = File::open(path).map_err(|error| CliError::io("read", path, error))?;
            Reader { path: Some(path), items: &mut items }.read(file)?;
        }
    }
    Ok(items)
}

struct Reader<'r> {
    path: Option<&'r Path>,
    items: &'r mut Vec<UncountedItem>,
}

impl Reader<'_> {
    /// Reads one item a line, or one JSON array: its bracket tells them apart.
    fn read(&mut self, source: impl Read) -> Result<(), CliError> {
        let mut source = BufReader::with_capacity(64 * 1_024, source);
        let mut line_number = 1;
        let first = self.skip_blanks(&mut source, &mut line_number)?;
        if first == Some(b'[') {
            return self.read_array(source, line_number);
        }
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = source.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            let read = read.map_err(|error| self.unreadable(error))?;
            if read == 0 {
                return Ok(());
            }
            if read as u64 == LONGEST_LINE {
                let problem =
                    format!("the line is longer than {LONGEST_LINE} bytes; split the item");
                return Err(self.invalid(format!(", line {line_number}"), problem));
            }
            let text = line.trim_ascii();
            if !text.is_empty() {
                self.read_line(text, line_number)?;
            }
            line_number += 1;
        }
    }

    /// Goes to the first byte that says something, past a byte order mark and what is blank.
    fn skip_blanks(
        &self,
        source: &mut impl BufRead,
        line_number: &mut usize,
    ) -> Result<Option<u8>, CliError> {
        let mark = "\u{feff}".as_bytes();
        let mut is_start = true;
        loop {
            let buffer = source.fill_buf().map_err(|error| self.unreadable(error))?;
            if std::mem::take(&mut is_start) && buffer.starts_with(mark) {
                source.consume(mark.len());
                continue;
            }
            let Some(first) = buffer.first().copied() else {
                return Ok(None);
            };
            if !first.is_ascii_whitespace() {
                return Ok(Some(first));
            }
            *line_number += usize::from(first == b'\n');
            source.consume(1);
        }
    }

    fn read_line(&mut self, line: &[u8], line_number: usize) -> Result<(), CliError> {
        let Ok(item) = serde_json::from_slice::<UncountedItem>(line) else {
            // Once more, slowly, to see where it went wrong.
            let read = &mut serde_json::Deserializer::from_slice(line);
            let problem = match serde_path_to_error::deserialize::<_, UncountedItem>(read) {
                Err(error) => item_problem(&error),
                Ok(_) => "there is something after the item; write one item a line".to_owned(),
            };
            return Err(self.invalid(format!(", line {line_number}"), problem));
        };
        self.items.push(item);
        Ok(())
    }

    fn read_array(&mut self, source: impl Read, first_line: usize) -> Result<(), CliError> {
        let mut read = serde_json::Deserializer::from_reader(source);
        let line =
            |error: &serde_json::Error| format!(", line {}", first_line + error.line().max(1) - 1);
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(&mut read, &mut track);
        let result = tracked.deserialize_seq(Elements(self.items));
        match result.map_err(|error| serde_path_to_error::Error::new(track.path(), error)) {
            Ok(()) => {}
            Err(error) if error.inner().is_io() => {
                return Err(self.unreadable(error.into_inner().into()));
            }
            Err(error) => {
                // What concerns a whole item is noticed when it has been read, and the parser is further on.
                let is_whole_item = error.inner().is_data() && error.path().iter().count() == 1;
                let place = if is_whole_item { String::new() } else { line(error.inner()) };
                return Err(self.invalid(place, item_problem(&error)));
            }
        }
        read.end().map_err(|error| {
            self.invalid(line(&error), "there is something after the array; remove it".to_owned())
        })
    }

    fn unreadable(&self, error: io::Error) -> CliError {
        CliError::Io { action: "read", path: self.path.map(Path::to_owned), error }
    }

    fn invalid(&self, place: String, problem: String) -> CliError {
        CliError::Input { path: self.path.map(Path::to_owned), position: place, problem }
    }
}

/// The items of a JSON array.
struct Elements<'r>(&'r mut Vec<UncountedItem>);

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(item) = elements.next_element()? {
            self.0.push(item);
        }
        Ok(())
    }
}

/// What is wrong with a JSON text, with the path to the field. Line numbers are the caller's to tell.
fn problem(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let inner = error.inner();
    let mut problem = inner.to_string();
    let place = format!(" at line {} column {}", inner.line(), inner.column());
    problem.truncate(problem.strip_suffix(&place).unwrap_or(&problem).len());
    let path = error.path().to_string();
    match path.as_str() {
        "." | "?" => problem,
        // The message names the field already.
        _ if problem.contains(&format!("unknown field `{}`", last_segment(&path))) => problem,
        path => format!("{path}: {problem}"),
    }
}

/// The same about items, with what to do.
fn item_problem(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let mut problem = problem(error);
    if error.inner().is_eof() || error.inner().is_syntax() {
        problem.push_str("; write one JSON object a line, or one JSON array");
    } else if problem.contains("unknown field `role`")
        || problem.contains("unknown field `messages`")
    {
        problem.push_str("; for messages to a provider, there is `pannier chat`");
    } else if problem.contains("unknown field") {
        problem.push_str("; data of your own goes into `metadata`");
    }
    problem
}

fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// A text file of bounded size; `-` is standard input.
pub(crate) fn read_text_or_stdin(path: &Path, largest: u64) -> Result<String, CliError> {
    match path.as_os_str() == "-" {
        true => read_all(None, io::stdin().lock(), largest),
        false => read_text(path, largest),
    }
}

/// A text file of bounded size.
pub(crate) fn read_text(path: &Path, largest: u64) -> Result<String, CliError> {
    let file = File::open(path).map_err(|error| CliError::io("read", path, error))?;
    read_all(Some(path), file, largest)
}

fn read_all(path: Option<&Path>, source: impl Read, largest: u64) -> Result<String, CliError> {
    let path = path.map(Path::to_owned);
    let bytes = match pannier_files::read_bounded(source, largest) {
        Ok(bytes) => bytes,
        Err(error) => return Err(CliError::Io { action: "read", path, error }),
    };
    let invalid = |problem: String| CliError::Input { path, position: String::new(), problem };
    let Some(bytes) = bytes else {
        return Err(invalid(format!(
            "it is larger than {largest} bytes, which is more than is read"
        )));
    };
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        invalid(format!("it is not UTF-8 at byte {place}; save it as UTF-8"))
    })
}

/// A policy by the name of a preset, or from a file.
pub(crate) fn read_policy(registry: &PolicyRegistry, name: &str) -> Result<Policy, CliError> {
    let unknown = match registry.policy(name) {
        Ok(policy) => return Ok(policy.clone()),
        Err(error) => error,
    };
    let path = Path::new(name);
    if !path.exists() && !name.contains(['/', '\\', '.']) {
        return Err(CliError::Usage(format!("{unknown}; or name a .toml or .json file")));
    }
    read_policy_file(path)
}

/// A policy from a file.
pub(crate) fn read_policy_file(path: &Path) -> Result<Policy, CliError> {
    read_settings(path)
}

/// A template from a file.
pub(crate) fn read_template(path: &Path) -> Result<Template, CliError> {
    read_settings(path)
}

/// What a person has written into a file: JSON by its extension, otherwise TOML.
fn read_settings<T: DeserializeOwned>(path: &Path) -> Result<T, CliError> {
    let text = read_text(path, LARGEST_SETTINGS)?;
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let settings = if is_json {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text).map_err(|error| error.to_string())
    };
    settings.map_err(|problem| CliError::input(path, problem.trim_end()))
}

/// A receipt from a file.
pub(crate) fn read_receipt(path: &Path) -> Result<Receipt, CliError> {
    let text = read_text(path, LARGEST_RECEIPT)?;
    let invalid = |line: usize, problem: String| CliError::input_line(path, line.max(1), problem);
    let mut read = serde_json::Deserializer::from_str(&text);
    let receipt = serde_path_to_error::deserialize(&mut read)
        .map_err(|error| invalid(error.inner().line(), problem(&error)))?;
    read.end().map_err(|error| {
        invalid(error.line(), "there is something after the receipt; remove it".to_owned())
    })?;
    Ok(receipt)
}

/// Vectors of chunks from a file.
pub(crate) fn read_vectors(path: &Path) -> Result<ImportedVectors, CliError> {
    let file = File::open(path).map_err(|error| CliError::io("read", path, error))?;
    ImportedVectors::read(BufReader::new(file)).map_err(|error| match error {
        DocsError::Io { error, .. } => CliError::io("read", path, error),
        error => CliError::LibraryAt { path: Some(path.to_owned()), failure: error.into() },
    })
}

/// The vector of a query from a file: a JSON array of numbers.
pub(crate) fn read_vector(path: &Path) -> Result<Vec<i16>, CliError> {
    let text = read_text(path, LARGEST_SETTINGS)?;
    let vector: Option<Vec<f32>> = serde_json::from_str(&text).ok();
    let problem =
        "it is no vector; write an array of numbers that are not all 0, as in [0.1, -0.2]";
    vector.and_then(|vector| quantize(&vector)).ok_or_else(|| CliError::input(path, problem))
}

/// What is known about documents from a file: a JSON object of paths, each with a title and a date.
pub(crate) fn read_about(path: &Path) -> Result<BTreeMap<String, DocumentMetadata>, CliError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Said {
        title: Option<String>,
        date: Option<String>,
    }
    let text = read_text(path, LARGEST_ABOUT)?;
    let said: BTreeMap<String, Said> = serde_json::from_str(&text).map_err(|error| {
        let form = r#"{"a.md": {"title": "A", "date": "2026-03-01"}}"#;
        let problem = format!("it does not say something about documents; write it as in {form}");
        CliError::input_line(path, error.line(), problem)
    })?;
    let read = |(document, Said { title, date }): (String, Said)| {
        let mut about = DocumentMetadata::default();
        about.title = title;
        if let Some(date) = date {
            let problem = format!("'{date}' of {document} is no date; write one as in 2026-03-01");
            about.date = Some(parse_date(&date).ok_or_else(|| CliError::input(path, problem))?);
        }
        Ok((document, about))
    };
    said.into_iter().map(read).collect()
}
