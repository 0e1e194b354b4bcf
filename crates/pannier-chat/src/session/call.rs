//! What a tool call does, as far as the names of its arguments say.

use xxhash_rust::xxh3::xxh3_64;

use crate::json::{self, Object};
use crate::message::{Body, Part};

/// The arguments that name a file. They are sent whole.
pub(super) const PATHS: [&str; 4] = ["file_path", "path", "notebook_path", "filename"];

/// What a call does. Tools have many names, but their arguments have few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Read,
    Search,
    Command,
    Edit,
    /// Replaces a whole file.
    Write,
    /// Replaces a list of tasks.
    Plan,
    Other,
}

impl CallKind {
    /// Returns whether it changes a file.
    pub(super) fn is_edit(self) -> bool {
        matches!(self, Self::Edit | Self::Write)
    }

    fn from_arguments(has: impl Fn(&[&str]) -> bool) -> Self {
        match () {
            () if has(&["todos", "plan"]) => Self::Plan,
            () if has(&["new_string", "new_str", "old_str", "edits", "patch"]) => Self::Edit,
            () if has(&["content", "file_text"]) && has(&PATHS) => Self::Write,
            () if has(&["pattern", "query", "regex", "glob"]) => Self::Search,
            () if has(&PATHS) => Self::Read,
            () if has(&["command", "cmd", "script", "code"]) => Self::Command,
            () => Self::Other,
        }
    }
}

/// A tool call, by hashes.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) kind: CallKind,
    /// The tool and its arguments.
    pub(super) key: u64,
    pub(super) path: Option<u64>,
    /// Whether it reads a whole file.
    pub(super) is_whole_read: bool,
}

impl Call {
    pub(super) fn read(part: &Part<'_>) -> Self {
        let key = xxh3_64(part.text.as_bytes());
        let other = Self { kind: CallKind::Other, key, path: None, is_whole_read: false };
        let Some(arguments) = arguments(part) else {
            let is_patch = part.tool.contains("patch");
            return Self { kind: if is_patch { CallKind::Edit } else { CallKind::Other }, ..other };
        };
        let names = || arguments.0.iter().map(|(name, _)| &**name);
        let kind = CallKind::from_arguments(|known| names().any(|name| known.contains(&name)));
        let path = PATHS.iter().find_map(|name| arguments.get(name));
        let path = path.map(|path| xxh3_64(json::compact(path).as_bytes()));
        let is_whole = names().all(|name| PATHS.contains(&name) || name == "command");
        Self { kind, path, is_whole_read: kind == CallKind::Read && is_whole, ..other }
    }
}

/// Returns the arguments of a call, or `None` if they are not an object.
pub(super) fn arguments<'p>(part: &'p Part<'_>) -> Option<Object<'p>> {
    match part.body? {
        Body::Object(value) => json::object("", value).ok(),
        Body::ObjectString(_) => Object::parse(input(part)),
        Body::Text(_) | Body::Response(_) => None,
    }
}

/// Returns the arguments of a call as they are counted.
pub(super) fn input<'p>(part: &'p Part<'_>) -> &'p str {
    part.text.get(part.tool.len() + 1..).unwrap_or_default()
}
