//! Scans a root for snippets and manifests.
//!
//! A Markdown file is meant to be a snippet if its front matter has an id, a type or a scope. If a required field is
//! missing or invalid, the scan omits the file and reports the problem. Other Markdown files are ignored, except those
//! that resemble a snippet: they are reported, because they would be missing silently. `baseline.md` is always a
//! manifest, never a snippet.
//!
//! Skills (`SKILL.md`) and rules of Cursor (`*.mdc`) are snippets, too, also in the hidden folders of their tools. Their ids
//! follow from their paths.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use pannier_core::TokenCounter;
use pannier_files::{
    AgentFileKind, AgentFiles, AgentFront, SplitDocument, find_agent_files, split_front_matter,
};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::SnippetsError;
use crate::front_matter::{Field, Fields, line_of, near_miss};
use crate::id::{MAX_ID_BYTES, excerpt, is_id};
use crate::kind::{Scope, SnippetType, scope_names, type_names};
use crate::required_reads::{Reference, RequiredReads, manifest, required_reads};
use crate::root::{MAX_FILE_BYTES, Reader, Root, is_below};

/// The maximum length of a reference; ids and paths are shorter.
const MAX_REFERENCE_BYTES: usize = 4_096;

/// The maximum number of references of a snippet.
const MAX_REFERENCES: usize = 10_000;

/// The number of lines that are searched for the next reference in front matter.
const MAX_LOOKAHEAD_LINES: usize = 16;

/// The file name of manifests.
const MANIFEST: &str = "baseline.md";

/// A problem with a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The path of the file.
    pub path: String,
    /// The line, from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The problem and its fix.
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

/// A snippet, as its file declares it.
#[derive(Debug)]
pub(crate) struct ScannedSnippet {
    /// Relative to the root.
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) id_line: usize,
    pub(crate) description: String,
    pub(crate) kind: SnippetType,
    pub(crate) scope: Scope,
    pub(crate) requires: Vec<Reference>,
    pub(crate) tokens: usize,
    /// XXH3 of the whole file.
    pub(crate) hash: u64,
}

/// The fields of a snippet.
struct Declared {
    id: String,
    description: String,
    kind: SnippetType,
    scope: Scope,
    requires: Vec<Reference>,
}

/// The snippets, manifests and problems of a root.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Sorted by path.
    pub(crate) snippets: Vec<ScannedSnippet>,
    /// Problems that omit nothing from the index; only `check` reports them.
    pub(crate) minor_problems: Vec<Problem>,
    /// The references of manifests, each with the path of its manifest.
    pub(crate) baseline: Vec<(String, Reference)>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads all Markdown files below a root except hidden files and symbolic links.
pub(crate) fn scan(root: &Root, counter: &dyn TokenCounter) -> Result<Scan, SnippetsError> {
    let mut scan = Scan::default();
    let mut reader = Reader::new(root);
    for path in files(root, &mut scan.problems)? {
        let text = match reader.read(&path, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(failure) => {
                scan.push_problem(root, &path, None, failure.problem());
                continue;
            }
        };
        if path.rsplit('/').next() == Some(MANIFEST) {
            let front = split_front_matter(&text).front.and_then(|front| Fields::read(front).ok());
            if front.is_some_and(|fields| fields.resembles_snippet()) {
                let problem = "a file of this name is a manifest, not a snippet; rename it";
                scan.push_problem(root, &path, Some(1), problem);
            }
            let references = manifest(&text).into_iter();
            scan.baseline.extend(references.map(|reference| (path.clone(), reference)));
        } else {
            scan.add(root, path, &text, counter);
        }
    }
    scan.problems.sort_unstable();
    scan.minor_problems.sort_unstable();
    Ok(scan)
}

/// Parses a file as a snippet, without counting its tokens exactly.
pub(crate) fn parse_snippet(root: &Root, path: &str, text: &str) -> Option<ScannedSnippet> {
    let mut scan = Scan::default();
    scan.add(root, path.to_owned(), text, &pannier_tokens::BytesOverFour);
    scan.snippets.pop()
}

/// Adds the line of each reference in front matter, as far as a text search finds it.
fn locate_references(front: &str, requires: Vec<String>) -> Vec<Reference> {
    let first = line_of(front, "requires");
    let mut lines = (2..).zip(front.lines()).skip_while(|(line, _)| *line < first).peekable();
    let mut references = Vec::new();
    for text in requires {
        let text = text.trim().to_owned();
        if text.is_empty() {
            continue;
        }
        // References are in line order, and one line may contain several.
        let mut ahead = lines.clone().take(MAX_LOOKAHEAD_LINES);
        let offset = ahead.position(|(_, line)| line.contains(&text));
        if let Some(offset) = offset.filter(|offset| *offset > 0) {
            lines.nth(offset - 1);
        }
        let line = offset.and_then(|_| lines.peek()).map_or(first, |(line, _)| *line);
        references.push(Reference { text, line });
    }
    references
}

/// Returns the references of the manifests below a root.
pub(crate) fn baseline(root: &Root) -> Result<Vec<String>, SnippetsError> {
    let mut reader = Reader::new(root);
    let paths = files(root, &mut Vec::new())?;
    let manifests = paths.iter().filter(|path| path.rsplit('/').next() == Some(MANIFEST));
    let texts = manifests.filter_map(|path| reader.read(path, MAX_FILE_BYTES).ok());
    Ok(texts.flat_map(|text| manifest(&text)).map(|reference| reference.text).collect())
}

/// Returns whether a reference points to a manifest. Every manifest is read anyway.
pub(crate) fn is_manifest(reference: &str) -> bool {
    reference.trim_start_matches('@').rsplit('/').next() == Some(MANIFEST)
}

/// Returns the Markdown files below a root, sorted by path regardless of the order of directory entries.
fn files(root: &Root, problems: &mut Vec<Problem>) -> Result<Vec<String>, SnippetsError> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let directory = root.real_path().join(&folder);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if folder.is_empty() => {
                return Err(SnippetsError::io("list", root.path(), error));
            }
            Err(error) => {
                let problem = format!("it cannot be listed: {error}");
                problems.push(Problem { path: root.display_path(&folder), line: None, problem });
                continue;
            }
        };
        for entry in entries {
            let entry = entry.map_err(|error| SnippetsError::io("list", &directory, error))?;
            let name = entry.file_name();
            let lossy = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else { continue };
            let is_file = kind.is_file() && (is_markdown(&lossy) || is_rule(&lossy));
            // Links are not followed: their targets are outside of the root, or found anyway.
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
    // Those in hidden folders.
    let found = find_agent_files(root.real_path()).unwrap_or_else(|error| AgentFiles {
        unread: vec![(".".to_owned(), error.to_string())],
        ..AgentFiles::default()
    });
    let others = found.files.into_iter().filter(|file| file.kind > AgentFileKind::Instructions);
    files.extend(others.map(|file| file.path).filter(|path| is_below(path)));
    for (path, error) in found.unread {
        let problem = format!("its rules and skills cannot be listed: {error}");
        problems.push(Problem { path: root.display_path(&path), line: None, problem });
    }
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// Returns whether a file name is that of a rule of Cursor.
fn is_rule(name: &str) -> bool {
    name.ends_with(".mdc")
}

/// Returns the id, description and type of a skill or a rule, unless it has the front matter of a snippet.
fn foreign(
    root: &Root,
    path: &str,
    front: &str,
    body: &str,
) -> Option<(String, String, SnippetType)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (kind, own) = match name {
        "SKILL.md" => ("skill", path.strip_suffix(name)?.trim_end_matches('/')),
        _ if is_rule(name) => ("rule", path.strip_suffix(".mdc")?),
        _ => return None,
    };
    if ["id:", "scope:"].iter().any(|key| front.lines().any(|line| line.starts_with(key))) {
        return None;
    }
    let own =
        if own.is_empty() { root.names().first().map_or("root", String::as_str) } else { own };
    let segments = own.split('/').filter(|segment| !matches!(*segment, "skills" | "rules"));
    let id = segments.fold(kind.to_owned(), |id, segment| id + "/" + &slug(segment));
    let front = AgentFront::parse(front);
    let lines = body.lines().map(|line| line.trim().trim_start_matches('#').trim());
    let description = front.description.or_else(|| match front.globs.as_slice() {
        [] => lines.into_iter().find(|line| !line.is_empty()).map(str::to_owned),
        globs => Some(format!("For {}.", globs.join(", "))),
    });
    let description = description.or(front.name).unwrap_or_else(|| id.clone());
    Some((id, description, SnippetType::find(kind)?)).filter(|(id, ..)| is_id(id))
}

/// Returns a name as a segment of an id.
fn slug(name: &str) -> String {
    let slug: String = name
        .to_lowercase()
        .chars()
        .map(|part| match part {
            'a'..='z' | '0'..='9' | '.' | '_' | '-' => part,
            _ => '-',
        })
        .collect();
    let slug = slug.trim_matches(['.', '-']);
    if slug.is_empty() { "x".to_owned() } else { slug.to_owned() }
}

/// Returns whether a file name has a Markdown extension.
fn is_markdown(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    ["md", "markdown"].iter().any(|known| extension.eq_ignore_ascii_case(known))
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

    /// Adds the snippet in `text`, or the problems that prevent it.
    fn add(&mut self, root: &Root, path: String, text: &str, counter: &dyn TokenCounter) {
        let SplitDocument { front, body } = split_front_matter(text);
        if let Some((id, description, kind)) = foreign(root, &path, front.unwrap_or_default(), body)
        {
            let declared =
                Declared { id, description, kind, scope: Scope::Project, requires: Vec::new() };
            return self.push(root, path, text, declared, counter);
        }
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
        let problems_before = self.problems.len();
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
                    "its '{key}' is not a string; write one, in quotes if YAML reads it as another type"
                );
                self.push_problem(root, &path, Some(line), problem);
                None
            }
        };
        let (id, description) = (field("id", id), field("description", description));
        let (kind, scope) = (field("type", kind), field("scope", scope));
        let mut push_invalid = |key: &str, problem: String| {
            self.push_problem(root, &path, Some(line_of(front, key)), problem);
        };
        if let Some(id) = id.as_deref().filter(|id| !is_id(id)) {
            let id = excerpt(id);
            push_invalid(
                "id",
                format!(
                    "'{id}' is not a valid id; use up to {MAX_ID_BYTES} lowercase letters, digits, '.', '_' and '-', in segments separated by '/'"
                ),
            );
        }
        let known_type = kind.as_deref().and_then(SnippetType::find);
        if let (Some(kind), None) = (kind.as_deref().map(excerpt), &known_type) {
            let names = type_names();
            push_invalid("type", format!("'{kind}' is not a type; use one word, such as {names}"));
        }
        let known_scope = scope.as_deref().and_then(Scope::find);
        if let (Some(scope), None) = (scope.as_deref().map(excerpt), known_scope) {
            push_invalid("scope", format!("unknown scope '{scope}'; use one of {}", scope_names()));
        }
        if requires.is_none() {
            push_invalid(
                "requires",
                "its 'requires' is not a list of strings; write one".to_owned(),
            );
        }
        let (Some(id), Some(description), Some(kind), Some(scope), Some(requires)) =
            (id, description, known_type, known_scope, requires)
        else {
            return;
        };
        if self.problems.len() > problems_before {
            return;
        }
        let requires = locate_references(front, requires);
        self.push(root, path, text, Declared { id, description, kind, scope, requires }, counter);
    }

    /// Adds a snippet with the required reads of its body.
    fn push(
        &mut self,
        root: &Root,
        path: String,
        text: &str,
        declared: Declared,
        counter: &dyn TokenCounter,
    ) {
        let Declared { id, description, kind, scope, requires: mut references } = declared;
        let SplitDocument { front, body } = split_front_matter(text);
        // The front matter and its two fences.
        let lines_before_body = front.map_or(0, |front| front.lines().count() + 2);
        let RequiredReads { references: reads, near_misses } = required_reads(body);
        references.extend(
            reads.into_iter().map(|read| Reference { line: read.line + lines_before_body, ..read }),
        );
        for (line, problem) in near_misses {
            let (path, line) = (root.display_path(&path), Some(line + lines_before_body));
            self.minor_problems.push(Problem { path, line, problem: problem.to_owned() });
        }
        if let Some(long) = references.iter().find(|other| other.text.len() > MAX_REFERENCE_BYTES) {
            let problem =
                format!("it has a reference longer than {MAX_REFERENCE_BYTES} bytes; remove it");
            return self.push_problem(root, &path, Some(long.line), problem);
        }
        if references.len() > MAX_REFERENCES {
            let problem = format!("it requires more than {MAX_REFERENCES} snippets; remove some");
            return self.push_problem(root, &path, None, problem);
        }
        self.snippets.push(ScannedSnippet {
            id_line: line_of(front.unwrap_or_default(), "id"),
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

    /// Returns the ids of snippets by path.
    pub(crate) fn by_path(&self) -> BTreeMap<&str, &str> {
        self.snippets.iter().map(|snippet| (snippet.path.as_str(), snippet.id.as_str())).collect()
    }
}
