//! Reading of items, policies, receipts and vectors. Input is untrusted: sizes are bounded, and errors name the file, the line
//! and the field.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use pannier_core::item::UncountedItem;
use pannier_docs::{DocsError, DocumentMetadata, ImportedVectors, parse_date, quantize};
use pannier_policy::{Policy, PolicyRegistry, Receipt};
use ruzstd::decoding::StreamingDecoder;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};

use crate::error::CliError;
use crate::output;

/// The maximum size of a line of items, of a policy or template, of a receipt, and of a metadata file.
const MAX_LINE_BYTES: u64 = 256 << 20;
/// The maximum size of a file that is an item.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
const MAX_SETTINGS_BYTES: u64 = 4 << 20;
const MAX_RECEIPT_BYTES: u64 = 1 << 30;
const MAX_METADATA_BYTES: u64 = 1 << 30;

/// The first bytes of a Zstandard frame. No UTF-8 text has them.
const ZSTANDARD_MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

/// The input of commands that select from items.
#[derive(Args, Debug)]
pub(crate) struct PathArguments {
    /// Files, folders or JSON items [default: standard input]
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<PathBuf>,

    /// Files in folders, e.g. '*.md'; '!' excludes
    #[arg(long = "glob", short, value_name = "GLOB")]
    globs: Vec<String>,

    /// Include hidden files
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    hidden: bool,

    /// Do not honor .gitignore and .ignore
    #[arg(long, help_heading = "Advanced", hide_short_help = true)]
    no_ignore: bool,
}

impl PathArguments {
    /// Creates arguments without hidden and ignored files.
    #[cfg(feature = "inspector")]
    pub(crate) fn new(paths: Vec<PathBuf>, globs: Vec<String>) -> Self {
        Self { paths, globs, hidden: false, no_ignore: false }
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads the items of all paths in order. `-`, or no path, is standard input.
    pub(crate) fn read(&self) -> Result<Vec<UncountedItem>, CliError> {
        let mut items = Vec::new();
        let stdin = [PathBuf::from("-")];
        for path in if self.paths.is_empty() { &stdin } else { &self.paths[..] } {
            let is_json = path.extension().is_some_and(|extension| {
                ["json", "jsonl", "ndjson"].iter().any(|json| extension.eq_ignore_ascii_case(json))
            });
            if path.is_dir() {
                self.read_folder(path, &mut items)?;
            } else if path.as_os_str() == "-" || is_json || !path.is_file() {
                items.append(&mut read_items(std::slice::from_ref(path))?);
            } else {
                items.push(document(path, &read_text(path, MAX_DOCUMENT_BYTES)?)?);
            }
        }
        Ok(items)
    }

    /// Reads the text files of a folder as documents, in order of their paths. Skips binary files.
    fn read_folder(&self, folder: &Path, items: &mut Vec<UncountedItem>) -> Result<(), CliError> {
        let mut overrides = OverrideBuilder::new(folder);
        for glob in &self.globs {
            let added = overrides.add(glob);
            added.map_err(|error| CliError::Usage(format!("--glob '{glob}': {error}")))?;
        }
        let overrides = overrides.build().map_err(|error| CliError::Usage(error.to_string()))?;
        let walk = WalkBuilder::new(folder)
            .hidden(!self.hidden)
            .ignore(!self.no_ignore)
            .git_ignore(!self.no_ignore)
            .git_exclude(!self.no_ignore)
            .git_global(false)
            .require_git(false)
            .overrides(overrides)
            .sort_by_file_path(Path::cmp)
            .build();
        let mut skipped = 0_usize;
        for entry in walk {
            let entry = entry.map_err(|error| {
                let message = error.to_string();
                CliError::io(
                    "read",
                    folder,
                    error.into_io_error().unwrap_or_else(|| io::Error::other(message)),
                )
            })?;
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            match read_text(entry.path(), MAX_DOCUMENT_BYTES) {
                Ok(text) if text.is_empty() || text.contains('\0') => skipped += 1,
                Ok(text) => items.push(document(entry.path(), &text)?),
                Err(CliError::Input { .. }) => skipped += 1,
                Err(error) => return Err(error),
            }
        }
        if skipped > 0 {
            let folder = folder.display();
            output::hint(&format!(
                "{skipped} empty, binary or very large files of {folder} are skipped"
            ));
        }
        Ok(())
    }
}

/// Returns a file as an item.
fn document(path: &Path, text: &str) -> Result<UncountedItem, CliError> {
    let id = path.display().to_string().replace('\\', "/");
    let item = serde_json::json!({
        "content": text, "kind": "Document", "id": id.strip_prefix("./").unwrap_or(&id),
    });
    serde_json::from_value(item).map_err(|error| CliError::input(path, error.to_string()))
}

/// Reads the items of all files in order. `-`, or no file, is standard input.
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
    /// Reads one item per line, or a JSON array, by the first character.
    fn read(&mut self, source: impl Read) -> Result<(), CliError> {
        let mut source = BufReader::with_capacity(64 * 1_024, source);
        let mut line_number = 1;
        let first = self.skip_whitespace(&mut source, &mut line_number)?;
        if first == Some(b'[') {
            return self.read_array(source, line_number);
        }
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = source.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
            let read = read.map_err(|error| self.read_error(error))?;
            if read == 0 {
                return Ok(());
            }
            if read as u64 == MAX_LINE_BYTES {
                let problem = format!("the line exceeds {MAX_LINE_BYTES} bytes; split the item");
                return Err(self.invalid(format!(", line {line_number}"), problem));
            }
            let text = line.trim_ascii();
            if !text.is_empty() {
                self.read_line(text, line_number)?;
            }
            line_number += 1;
        }
    }

    /// Skips a byte order mark and whitespace, and returns the next byte.
    fn skip_whitespace(
        &self,
        source: &mut impl BufRead,
        line_number: &mut usize,
    ) -> Result<Option<u8>, CliError> {
        let byte_order_mark = "\u{feff}".as_bytes();
        let mut is_start = true;
        loop {
            let buffer = source.fill_buf().map_err(|error| self.read_error(error))?;
            if std::mem::take(&mut is_start) && buffer.starts_with(byte_order_mark) {
                source.consume(byte_order_mark.len());
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
            // Parse again with path tracking, to report the field.
            let read = &mut serde_json::Deserializer::from_slice(line);
            let problem = match serde_path_to_error::deserialize::<_, UncountedItem>(read) {
                Err(error) => item_problem(&error),
                Ok(_) => "data follows the item; write one item per line".to_owned(),
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
                return Err(self.read_error(error.into_inner().into()));
            }
            Err(error) => {
                // An error about an item as a whole is detected at its end, so the line would mislead.
                let is_whole_item = error.inner().is_data() && error.path().iter().count() == 1;
                let position = if is_whole_item { String::new() } else { line(error.inner()) };
                return Err(self.invalid(position, item_problem(&error)));
            }
        }
        read.end().map_err(|error| {
            self.invalid(line(&error), "data follows the array; remove it".to_owned())
        })
    }

    fn read_error(&self, error: io::Error) -> CliError {
        CliError::Io { action: "read", path: self.path.map(Path::to_owned), error }
    }

    fn invalid(&self, position: String, problem: String) -> CliError {
        CliError::Input { path: self.path.map(Path::to_owned), position, problem }
    }
}

/// Collects the items of a JSON array.
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

/// Returns the message of a JSON error with the path of the field. Callers add the line.
fn problem(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let inner = error.inner();
    let mut problem = inner.to_string();
    let suffix = format!(" at line {} column {}", inner.line(), inner.column());
    problem.truncate(problem.strip_suffix(&suffix).unwrap_or(&problem).len());
    let path = error.path().to_string();
    match path.as_str() {
        "." | "?" => problem,
        // The message already names the field.
        _ if problem.contains(&format!("unknown field `{}`", last_segment(&path))) => problem,
        path => format!("{path}: {problem}"),
    }
}

/// Returns the message of a JSON error in an item, with advice.
fn item_problem(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let mut problem = problem(error);
    if error.inner().is_eof() || error.inner().is_syntax() {
        problem.push_str(
            "; write one JSON object per line, or a JSON array; use `pannier chat` for a chat",
        );
    } else if problem.contains("unknown field `role`")
        || problem.contains("unknown field `messages`")
    {
        problem.push_str("; use `pannier chat` for messages of a provider");
    } else if problem.contains("unknown field") {
        problem.push_str("; put custom data into `metadata`");
    }
    problem
}

fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Reads a text file of at most `max_bytes`; `-` is standard input.
pub(crate) fn read_text_or_stdin(path: &Path, max_bytes: u64) -> Result<String, CliError> {
    match path.as_os_str() == "-" {
        true => read_all(None, io::stdin().lock(), max_bytes),
        false => read_text(path, max_bytes),
    }
}

/// Reads a text file of at most `max_bytes`.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<String, CliError> {
    let file = File::open(path).map_err(|error| CliError::io("read", path, error))?;
    read_all(Some(path), file, max_bytes)
}

fn read_all(path: Option<&Path>, source: impl Read, max_bytes: u64) -> Result<String, CliError> {
    let path = path.map(Path::to_owned);
    let bytes = match read_decompressed(source, max_bytes) {
        Ok(bytes) => bytes,
        Err(error) => return Err(CliError::Io { action: "read", path, error }),
    };
    let invalid = |problem: String| CliError::Input { path, position: String::new(), problem };
    let Some(bytes) = bytes else {
        return Err(invalid(format!("it exceeds the limit of {max_bytes} bytes")));
    };
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        invalid(format!("it is not UTF-8 at byte {offset}; save it as UTF-8"))
    })
}

/// Reads `source` to its end and decompresses it if it is compressed, as Codex compresses its older logs. Returns `None` if
/// it has more than `max_bytes`, compressed or not.
fn read_decompressed(source: impl Read, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(bytes) = pannier_files::read_bounded(source, max_bytes)? else { return Ok(None) };
    if !bytes.starts_with(&ZSTANDARD_MAGIC) {
        return Ok(Some(bytes));
    }
    let (mut frames, mut content) = (bytes.as_slice(), Vec::new());
    while !frames.is_empty() {
        let frame = StreamingDecoder::new(&mut frames).map_err(io::Error::other)?;
        let remaining = max_bytes - content.len() as u64;
        let Some(part) = pannier_files::read_bounded(frame, remaining)? else { return Ok(None) };
        content.extend(part);
    }
    Ok(Some(content))
}

/// Returns a preset by name, or reads a policy file.
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

/// Reads a policy file.
pub(crate) fn read_policy_file(path: &Path) -> Result<Policy, CliError> {
    read_settings(path)
}

/// Reads a settings file: JSON if the extension is `.json`, otherwise TOML.
fn read_settings<T: DeserializeOwned>(path: &Path) -> Result<T, CliError> {
    let text = read_text(path, MAX_SETTINGS_BYTES)?;
    let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let settings = if is_json {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text).map_err(|error| error.to_string())
    };
    settings.map_err(|problem| CliError::input(path, problem.trim_end()))
}

/// Reads a receipt file.
pub(crate) fn read_receipt(path: &Path) -> Result<Receipt, CliError> {
    let text = read_text(path, MAX_RECEIPT_BYTES)?;
    let invalid = |line: usize, problem: String| CliError::input_line(path, line.max(1), problem);
    let mut read = serde_json::Deserializer::from_str(&text);
    let receipt = serde_path_to_error::deserialize(&mut read)
        .map_err(|error| invalid(error.inner().line(), problem(&error)))?;
    read.end()
        .map_err(|error| invalid(error.line(), "data follows the receipt; remove it".to_owned()))?;
    Ok(receipt)
}

/// Reads a file with vectors of chunks.
pub(crate) fn read_vectors(path: &Path) -> Result<ImportedVectors, CliError> {
    let file = File::open(path).map_err(|error| CliError::io("read", path, error))?;
    ImportedVectors::read(BufReader::new(file)).map_err(|error| match error {
        DocsError::Io { error, .. } => CliError::io("read", path, error),
        error => CliError::LibraryAt { path: Some(path.to_owned()), failure: error.into() },
    })
}

/// Reads the vector of a query: a JSON array of numbers.
pub(crate) fn read_vector(path: &Path) -> Result<Vec<f32>, CliError> {
    let text = read_text(path, MAX_SETTINGS_BYTES)?;
    let vector: Option<Vec<f32>> = serde_json::from_str(&text).ok();
    let problem =
        "it is not a vector; write an array of numbers that are not all 0, as in [0.1, -0.2]";
    let vector = vector.filter(|vector| quantize(vector).is_some());
    vector.ok_or_else(|| CliError::input(path, problem))
}

/// Reads a metadata file: a JSON object from paths to title and date.
pub(crate) fn read_about(path: &Path) -> Result<BTreeMap<String, DocumentMetadata>, CliError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct MetadataEntry {
        title: Option<String>,
        date: Option<String>,
    }
    let text = read_text(path, MAX_METADATA_BYTES)?;
    let entries: BTreeMap<String, MetadataEntry> =
        serde_json::from_str(&text).map_err(|error| {
            let form = r#"{"a.md": {"title": "A", "date": "2026-03-01"}}"#;
            let problem = format!("it is not an object of documents; write {form}");
            CliError::input_line(path, error.line(), problem)
        })?;
    let read = |(document, MetadataEntry { title, date }): (String, MetadataEntry)| {
        let mut about = DocumentMetadata::default();
        about.title = title;
        if let Some(date) = date {
            let problem =
                format!("'{date}' of {document} is not a date; write one as in 2026-03-01");
            about.date = Some(parse_date(&date).ok_or_else(|| CliError::input(path, problem))?);
        }
        Ok((document, about))
    };
    entries.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// A frame with a checksum, as `zstd -19` writes it.
    const FRAME: [u8; 80] = [
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x68, 0x1d, 0x02, 0x00, 0xf2, 0x83, 0x0d, 0x11, 0xa0, 0x3d,
        0x30, 0xfe, 0x10, 0x8f, 0x3c, 0xb3, 0x68, 0xa8, 0x37, 0xf7, 0x5a, 0xb2, 0xdf, 0x33, 0x23,
        0x60, 0xae, 0xf8, 0x67, 0x34, 0xf5, 0x52, 0xef, 0xad, 0xa8, 0x0b, 0x73, 0x05, 0x03, 0x62,
        0xeb, 0x19, 0x65, 0xf5, 0x1a, 0x17, 0xd9, 0xb1, 0xdf, 0xfc, 0xed, 0x67, 0xc3, 0x36, 0x76,
        0x6f, 0xc7, 0x32, 0xf3, 0xb6, 0x32, 0x03, 0x00, 0x4f, 0xed, 0x4a, 0xb3, 0x32, 0x7c, 0x95,
        0x32, 0x99, 0xe9, 0x9a, 0xcc,
    ];
    const LINE: &str = "{\"role\":\"user\",\"content\":\"Fix the build, the whole build, and nothing but the build.\"}\n";

    #[test]
    fn compressed_texts_are_read_frame_by_frame_and_within_the_limit() {
        let frames = FRAME.repeat(2);
        let limit = 2 * LINE.len() as u64;
        assert_eq!(read_all(None, &FRAME[..], limit).unwrap(), LINE);
        assert_eq!(read_all(None, &frames[..], limit).unwrap(), LINE.repeat(2));
        let error = read_all(None, &frames[..], limit - 1).unwrap_err().to_string();
        assert!(error.contains("exceeds the limit"), "{error}");
        for end in 4..FRAME.len() {
            read_all(None, &FRAME[..end], limit).unwrap_err();
        }
        // 4 MB of zeros in less than a kilobyte.
        let zeros = compress_to_vec(&vec![0; 4 << 20][..], CompressionLevel::Fastest);
        assert!(zeros.len() < 1 << 10, "{}", zeros.len());
        let error = read_all(None, &zeros[..], 1 << 20).unwrap_err().to_string();
        assert!(error.contains("exceeds the limit"), "{error}");
    }
}
