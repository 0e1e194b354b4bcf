//! Files outside of the context folder that instruct agents, as entries.
//!
//! Instructions such as `AGENTS.md` are split at their headings of level 1 and 2, so that a packet can have the relevant
//! parts. A rule or a skill is one entry. The user's own folder has files of the same names, and other Markdown files, which
//! are read as instructions.

use std::fs;
use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use pannier_files::{
    AgentFile, AgentFileKind, AgentFiles, AgentFront, find_agent_files, split_front_matter,
};
use serde::{Deserialize, Serialize};

use crate::MemoryError;
use crate::entry::Draft;
use crate::file::read;
use crate::folder::unreadable;
use crate::line_map::{LineKind, LineMap};
use crate::markdown::{Outline, close_open_blocks};
use crate::memory::{Warning, is_page};
use crate::text::trimmed;

/// The maximum size of a file, and of all files together.
const MAX_FILE_BYTES: u64 = 1 << 20;
const MAX_TOTAL_BYTES: usize = 16 << 20;

const TOO_LONG: &str =
    "it has more than 1 MiB, or all such files more than 16 MiB, so it is not read";

/// Headings up to this level split instructions.
const MAX_SPLIT_LEVEL: u8 = 2;

/// The files that a memory is read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sources {
    /// The context folder.
    #[default]
    Folder,
    /// Also other files of the project, such as `AGENTS.md`.
    Project,
    /// Also those of the user.
    User,
}

impl Sources {
    pub(crate) fn is_folder(&self) -> bool {
        *self == Self::Folder
    }
}

/// A folder with files of the user, for all projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFolder {
    path: PathBuf,
    label: String,
}

impl UserFolder {
    /// Returns the folder at `path`, which packets call `label`.
    pub fn new(path: impl Into<PathBuf>, label: impl Into<String>) -> Self {
        Self { path: path.into(), label: label.into() }
    }
}

/// The file that an entry is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    kind: AgentFileKind,
    description: Option<String>,
    globs: Vec<String>,
    always_applies: bool,
}

impl Source {
    /// Returns what the file says about itself.
    pub(crate) fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns whether a packet only names the file.
    pub(crate) fn is_on_demand(&self, files: &[String]) -> bool {
        match self.kind {
            AgentFileKind::Instructions => false,
            AgentFileKind::Rule => !self.always_applies && !self.matches(files),
            AgentFileKind::Skill => true,
        }
    }

    /// Returns whether one of the files matches one of the patterns. A pattern without a slash matches names of files.
    pub(crate) fn matches(&self, files: &[String]) -> bool {
        self.globs.iter().any(|pattern| {
            let pattern = pattern.strip_prefix("./").unwrap_or(pattern).trim_start_matches('/');
            let pattern = match pattern.contains('/') {
                true => pattern.to_owned(),
                false => format!("**/{pattern}"),
            };
            let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
            // A pattern that is not one matches nothing.
            let Ok(glob) = glob.map(|glob| glob.compile_matcher()) else { return false };
            files.iter().any(|file| glob.is_match(file.strip_prefix("./").unwrap_or(file)))
        })
    }
}

/// A file and its bytes.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) kind: AgentFileKind,
    /// The path below the project root, or below the label of the user's folder.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

/// The files that were read, and those that were not.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles {
    pub(crate) files: Vec<SourceFile>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) unread: Vec<String>,
}

impl SourceFiles {
    /// Reads the files of a project and of the user.
    pub(crate) fn read(root: &Path, user: Option<&UserFolder>) -> Self {
        let mut found = Self::default();
        let files = find_agent_files(root).map_err(|error| MemoryError::io("list", root, error));
        match files {
            Ok(files) => found.read_all(root, None, files),
            Err(error) => found.warn(".", error.to_string()),
        }
        if let Some(UserFolder { path, label }) = user.filter(|user| user.path.is_dir()) {
            match user_files(path) {
                Ok((root, files)) => found.read_all(&root, Some(label), files),
                Err(error) => found.warn(label, error.to_string()),
            }
        }
        found
    }

    fn warn(&mut self, path: &str, problem: String) {
        self.warnings.push(Warning { path: path.to_owned(), line: None, problem });
    }

    fn read_all(&mut self, root: &Path, label: Option<&str>, found: AgentFiles) {
        let shown = |path: String| match label {
            Some(label) => format!("{label}/{path}"),
            None => path,
        };
        for (path, problem) in found.unread {
            self.warn(&shown(path.clone()), format!("it cannot be read: {problem}"));
            self.unread.push(shown(path));
        }
        if found.is_truncated {
            let problem = "it has too many rules and skills, so the last are not read".to_owned();
            self.warn(label.unwrap_or("."), problem);
        }
        for AgentFile { kind, path } in found.files {
            let shown = shown(path.clone());
            let total: usize = self.files.iter().map(|file| file.bytes.len()).sum();
            let max_bytes = MAX_FILE_BYTES.min((MAX_TOTAL_BYTES - total) as u64);
            match read(root, &root.join(&path), max_bytes) {
                Ok(Ok(bytes)) => {
                    self.files.extend(bytes.map(|bytes| SourceFile { kind, path: shown, bytes }));
                }
                // Other tools' files must not cost the packet.
                failed => {
                    let problem = match failed {
                        Ok(Err(refusal)) => refusal.to_owned(),
                        Err(MemoryError::TooLong { .. }) => TOO_LONG.to_owned(),
                        Err(error) => unreadable(&error),
                        Ok(Ok(_)) => continue,
                    };
                    self.warn(&shown, problem);
                    self.unread.push(shown);
                }
            }
        }
    }
}

/// Returns the canonical path of the user's folder, and its files.
fn user_files(path: &Path) -> Result<(PathBuf, AgentFiles), MemoryError> {
    let failed = |error| MemoryError::io("list", path, error);
    let root = path.canonicalize().map_err(failed)?;
    let mut found = find_agent_files(&root).map_err(failed)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&root).map_err(failed)?.take(pannier_files::MAX_AGENT_FILES) {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.retain(|name| is_page(name) && found.files.iter().all(|file| file.path != *name));
    names.sort_unstable();
    let kind = AgentFileKind::Instructions;
    let names = names.into_iter().map(|path| AgentFile { kind, path });
    found.files.splice(0..0, names);
    found.files.sort_by_key(|file| file.kind);
    Ok((root, found))
}

/// Splits front matter from a file. Blank lines replace it, so that lines keep their numbers. Also returns how many of its
/// lines are not blank.
pub(crate) fn blank_front_matter(text: &str) -> (AgentFront, String, usize) {
    let split = split_front_matter(text);
    let Some(front) = split.front else {
        return (AgentFront::default(), text.to_owned(), 0);
    };
    let lines = &text[..text.len() - split.body.len()];
    let blank = "\n".repeat(lines.matches('\n').count());
    let count = lines.lines().filter(|line| !line.trim().is_empty()).count();
    (AgentFront::parse(front), blank + split.body, count)
}

/// Returns the entries of a file.
pub(crate) fn entries(
    kind: AgentFileKind,
    path: &str,
    front: AgentFront,
    outline: &Outline,
    lines: &mut LineMap,
) -> Vec<Draft> {
    let AgentFront { name, description, globs, always_apply } = front;
    let source = Source { kind, description, globs, always_applies: always_apply };
    if kind == AgentFileKind::Instructions {
        return parts(path, &source, outline, lines);
    }
    let all = 0..outline.text().len();
    let text = close_open_blocks(trimmed(&outline.without_comments(all.clone())));
    if text.is_empty() && source.description.is_none() {
        return Vec::new();
    }
    lines.mark(outline, &all, LineKind::Entry);
    let mut names = path.rsplit('/');
    let own = match kind {
        // The name of a skill is that of its folder.
        AgentFileKind::Skill => names.nth(1),
        _ => names.next().map(|name| name.strip_suffix(".mdc").unwrap_or(name)),
    };
    let title = name.or_else(|| own.map(str::to_owned)).unwrap_or_else(|| path.to_owned());
    let end_line = outline.line(outline.trimmed_end(&all).max(1) - 1);
    vec![Draft { title, text, line: 1, end_line, source: Some(source), ..Draft::default() }]
}

/// Returns the parts of instructions: the text below each heading that splits, and the text above the first.
fn parts(path: &str, source: &Source, outline: &Outline, lines: &mut LineMap) -> Vec<Draft> {
    let splits = outline.headings.iter().filter(|heading| heading.level <= MAX_SPLIT_LEVEL);
    let mut starts: Vec<(usize, usize)> = vec![(0, 0)];
    starts.extend(splits.map(|heading| (heading.range.start, heading.range.end)));
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([outline.text().len()]);
    let mut drafts = Vec::new();
    for ((start, body), end) in starts.iter().copied().zip(ends) {
        let text = close_open_blocks(trimmed(&outline.without_comments(body..end)));
        // A heading without text groups those below it.
        if text.is_empty() {
            continue;
        }
        let heading = outline.without_comments(start..body);
        let heading = heading.trim().trim_start_matches('#').trim_end_matches('#').trim();
        let title = if heading.is_empty() { path } else { heading };
        lines.mark(outline, &(start..end), LineKind::Entry);
        let first =
            outline.text()[start..end].len() - outline.text()[start..end].trim_start().len();
        drafts.push(Draft {
            title: title.to_owned(),
            text,
            line: outline.line(start + first),
            end_line: outline.line(outline.trimmed_end(&(start..end)).max(1) - 1),
            source: Some(source.clone()),
            ..Draft::default()
        });
    }
    drafts
}
