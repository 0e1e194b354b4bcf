//! What the files below a root say about themselves.
//!
//! A file with front matter that names an id, a type or a scope is meant to be a snippet. If it lacks one of the four
//! fields, or says something that cannot be, it is left out and the problem is told: a snippet without a scope has no place
//! in an order, and one without a type is in no area. Other Markdown files are none of our business, unless it looks as if
//! somebody meant them to be snippets: those that would go missing in silence are told. A file called `baseline.md` is a
//! manifest, never a snippet.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use pannier_core::TokenCounter;
use pannier_files::{SplitDocument, split_front_matter};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::SnippetsError;
use crate::front_matter::{Field, Fields, line_of, near_miss};
use crate::id::{MAX_ID_BYTES, excerpt, is_id};
use crate::kind::{Scope, SnippetType, scope_names, type_names};
use crate::required_reads::{Reference, RequiredReads, manifest, required_reads};
use crate::root::{MAX_FILE_BYTES, Reader, Root, is_below};

/// Longer references are none: ids and paths are shorter.
const MAX_REFERENCE_BYTES: usize = 4_096;

/// So many others may be required by one snippet.
const MAX_REFERENCES: usize = 10_000;

/// From one that is required to the next, so many lines are looked at.
const MAX_LOOKAHEAD_LINES: usize = 16;

/// What a manifest is called.
const MANIFEST: &str = "baseline.md";

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file.
    pub path: String,
    /// The line, from 1, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, problem } = self;
        match line {
            Some(line) => write!(f, "{path}:{line}: {problem}"),
            None => write!(f, "{path}: {problem}"),
        }
    }
}

/// A snippet, as its file tells.
#[derive(Debug)]
pub(crate) struct ScannedSnippet {
    /// Below the root.
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) id_line: usize,
    pub(crate) description: String,
    pub(crate) kind: SnippetType,
    pub(crate) scope: Scope,
    pub(crate) requires: Vec<Reference>,
    pub(crate) tokens: usize,
    /// Of the whole file.
    pub(crate) hash: u64,
}

/// All that was found below a root.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// In the order of their paths.
    pub(crate) snippets: Vec<ScannedSnippet>,
    /// What is wrong, but leaves nothing out of the index. `check` tells.
    pub(crate) doubts: Vec<Problem>,
    /// The references of manifests, with the paths of these.
    pub(crate) baseline: Vec<(String, Reference)>,
    pub(crate) problems: Vec<Problem>,
}

/// RequiredReads all Markdown files below a root, but for hidden ones and links.
pub(crate) fn scan(root: &Root, counter: &dyn TokenCounter) -> Result<Scan, SnippetsError> {
    let mut scan = Scan::default();
    let mut reader = Reader::new(root);
    for path in files(root, &mut scan.problems)? {
        let text = match reader.read(&path, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(unread) => {
                scan.push_problem(root, &path, None, unread.problem());
                continue;
            }
        };
        if path.rsplit('/').next() == Some(MANIFEST) {
            let front = split_front_matter(&text).front.and_then(|front| Fields::read(front).ok());
            if front.is_some_and(|fields| fields.resembles_snippet()) {
                let problem = "a file of this name is a manifest, no snippet; rename it";
                scan.push_problem(root, &path, Some(1), problem);
            }
            let references = manifest(&text).into_iter();
            scan.baseline.extend(references.map(|reference| (path.clone(), reference)));
        } else {
            scan.read(root, path, &text, counter);
        }
    }
    scan.problems.sort_unstable();
    scan.doubts.sort_unstable();
    Ok(scan)
}

/// What a file says about itself, if it is a snippet.
pub(crate) fn parse_snippet(root: &Root, path: &str, text: &str) -> Option<ScannedSnippet> {
    let mut scan = Scan::default();
    scan.read(root, path.to_owned(), text, &pannier_tokens::BytesOverFour);
    scan.snippets.pop()
}

/// What front matter requires, each with its line, as far as that can be found.
fn required(front: &str, requires: Vec<String>) -> Vec<Reference> {
    let first = line_of(front, "requires");
    let mut lines = (2..).zip(front.lines()).skip_while(|(line, _)| *line < first).peekable();
    let mut references = Vec::new();
    for text in requires {
        let text = text.trim().to_owned();
        if text.is_empty() {
            continue;
        }
        // They come in the order of the lines; several may stand in one.
        let mut ahead = lines.clone().take(MAX_LOOKAHEAD_LINES);
        let found = ahead.position(|(_, line)| line.contains(&text));
        if let Some(found) = found.filter(|found| *found > 0) {
            lines.nth(found - 1);
        }
        let line = found.and_then(|_| lines.peek()).map_or(first, |(line, _)| *line);
        references.push(Reference { text, line });
    }
    references
}

/// The references of the manifests below a root.
pub(crate) fn baseline(root: &Root) -> Result<Vec<String>, SnippetsError> {
    let mut reader = Reader::new(root);
    let paths = files(root, &mut Vec::new())?;
    let manifests = paths.iter().filter(|path| path.rsplit('/').next() == Some(MANIFEST));
    let texts = manifests.filter_map(|path| reader.read(path, MAX_FILE_BYTES).ok());
    Ok(texts.flat_map(|text| manifest(&text)).map(|reference| reference.text).collect())
}

/// Whether a reference is to another manifest, which is read anyway.
pub(crate) fn is_manifest(reference: &str) -> bool {
    reference.trim_start_matches('@').rsplit('/').next() == Some(MANIFEST)
}

/// The Markdown files below a root, in the order of their paths, whatever the order of the folders.
fn files(root: &Root, problems: &mut Vec<Problem>) -> Result<Vec<String>, SnippetsError> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let place = root.real_path().join(&folder);
        let entries = match fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) if folder.is_empty() => {
                return Err(SnippetsError::io("look into", root.path(), error));
            }
            Err(error) => {
                let problem = format!("it cannot be looked into: {error}");
                problems.push(Problem { path: root.display_path(&folder), line: None, problem });
                continue;
            }
        };
        for entry in entries {
            let entry = entry.map_err(|error| SnippetsError::io("look into", &place, error))?;
            let name = entry.file_name();
            let lossy = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else { continue };
            let is_file = kind.is_file() && is_markdown(&lossy);
            // Links are not followed: what they lead to may lie outside, or is found anyway.
            if lossy.starts_with('.') || !(kind.is_dir() || is_file) {
                continue;
            }
            let path =
                if folder.is_empty() { lossy.into_owned() } else { format!("{folder}/{lossy}") };
            if name.to_str().is_none() || !is_below(&path) {
                let problem =
                    "its name is not UTF-8, or has a backslash or a line break; rename it";
                let problem = problem.to_owned();
                problems.push(Problem { path: root.display_path(&path), line: None, problem });
            } else if is_file {
                files.push(path);
            } else {
                folders.push(path);
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Whether a file of this name has Markdown in it.
fn is_markdown(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    ["md", "markdown"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}

impl Scan {
    fn push_problem(
        &mut self,
        root: &Root,
        path: &str,
        line: Option<usize>,
        problem: impl Into<String>,
    ) {
        self.problems.push(Problem {
            path: root.display_path(path),
            line,
            problem: problem.into(),
        });
    }

    fn read(&mut self, root: &Root, path: String, text: &str, counter: &dyn TokenCounter) {
        let SplitDocument { front, body } = split_front_matter(text);
        let Some(front) = front else {
            if let Some(problem) = near_miss(text) {
                self.push_problem(root, &path, Some(1), problem);
            }
            return;
        };
        let fields = match Fields::read(front) {
            Ok(fields) => fields,
            Err((line, problem)) => {
                let problem = format!("its front matter cannot be read: {problem}");
                return self.push_problem(root, &path, line.or(Some(1)), problem);
            }
        };
        if !fields.resembles_snippet() {
            return;
        }
        let before = self.problems.len();
        let Fields { id, description, kind, scope, requires } = fields;
        let mut field = |key: &str, field: Field| match field {
            Field::Text(text) if !text.trim().is_empty() => Some(text),
            Field::Missing => {
                self.push_problem(root, &path, Some(1), format!("it has no '{key}'; add one"));
                None
            }
            Field::Text(_) | Field::Other => {
                let line = line_of(front, key);
                let problem = format!(
                    "its '{key}' is no text; write one, in quotes if it looks like something else"
                );
                self.push_problem(root, &path, Some(line), problem);
                None
            }
        };
        let (id, description) = (field("id", id), field("description", description));
        let (kind, scope) = (field("type", kind), field("scope", scope));
        let mut wrong = |key: &str, problem: String| {
            self.push_problem(root, &path, Some(line_of(front, key)), problem);
        };
        if let Some(id) = id.as_deref().filter(|id| !is_id(id)) {
            let id = excerpt(id);
            wrong(
                "id",
                format!(
                    "'{id}' cannot be an id; use up to {MAX_ID_BYTES} lower-case letters, digits, '.', '_' and '-', with single slashes between them"
                ),
            );
        }
        let known_type = kind.as_deref().and_then(SnippetType::find);
        if let (Some(kind), None) = (kind.as_deref().map(excerpt), known_type) {
            wrong("type", format!("there is no type '{kind}'; there are {}", type_names()));
        }
        let known_scope = scope.as_deref().and_then(Scope::find);
        if let (Some(scope), None) = (scope.as_deref().map(excerpt), known_scope) {
            wrong("scope", format!("there is no scope '{scope}'; there are {}", scope_names()));
        }
        if requires.is_none() {
            wrong("requires", "its 'requires' is no list of texts; write one".to_owned());
        }
        let (Some(id), Some(description), Some(kind), Some(scope), Some(requires)) =
            (id, description, known_type, known_scope, requires)
        else {
            return;
        };
        if self.problems.len() > before {
            return;
        }
        let mut references = required(front, requires);
        // Between the front matter and the body is the line that ends the one, and before it the line that begins it.
        let before_body = front.lines().count() + 2;
        let RequiredReads { references: reads, missed } = required_reads(body);
        references.extend(
            reads.into_iter().map(|read| Reference { line: read.line + before_body, ..read }),
        );
        for (line, problem) in missed {
            let (path, line) = (root.display_path(&path), Some(line + before_body));
            self.doubts.push(Problem { path, line, problem: problem.to_owned() });
        }
        if let Some(long) = references.iter().find(|other| other.text.len() > MAX_REFERENCE_BYTES) {
            let problem = format!(
                "it requires something of more than {MAX_REFERENCE_BYTES} bytes; remove that"
            );
            return self.push_problem(root, &path, Some(long.line), problem);
        }
        if references.len() > MAX_REFERENCES {
            let problem = format!("it requires more than {MAX_REFERENCES} others; remove some");
            return self.push_problem(root, &path, None, problem);
        }
        self.snippets.push(ScannedSnippet {
            id_line: line_of(front, "id"),
            id,
            description,
            kind,
            scope,
            requires: references,
            tokens: counter.count(body),
            hash: xxh3_64(text.as_bytes()),
            path,
        });
    }

    /// The ids of snippets by their paths.
    pub(crate) fn by_path(&self) -> BTreeMap<&str, &str> {
        self.snippets.iter().map(|found| (found.path.as_str(), found.id.as_str())).collect()
    }
}
