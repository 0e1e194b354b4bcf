//! Reads the files of snippets.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use pannier_files::split_front_matter;
use serde::{Serialize, Serializer};

use crate::Roots;
use crate::catalog::Snippet;
use crate::root::{MAX_FILE_BYTES, ReadFailure, Reader};

/// The text after the front matter of a file, byte for byte. Cloning is cheap: clones share the text.
#[derive(Clone)]
pub struct Body {
    file: Arc<String>,
    start: usize,
}

impl Body {
    fn new(file: String) -> Self {
        let start = file.len() - split_front_matter(&file).body.len();
        Self { file: Arc::new(file), start }
    }

    /// Returns the whole file, including the front matter.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }
}

impl Deref for Body {
    type Target = str;

    fn deref(&self) -> &str {
        &self.file[self.start..]
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Body {}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

/// Reads the bodies of snippets of all roots.
#[derive(Debug)]
pub(crate) struct BodyReader<'r> {
    roots: &'r Roots,
    readers: Vec<Reader<'r>>,
}

impl<'r> BodyReader<'r> {
    pub(crate) fn new(roots: &'r Roots) -> Self {
        Self { roots, readers: roots.iter().map(Reader::new).collect() }
    }

    /// Reads the body of a snippet. Other tools write paths that start with the name of the root, so those are
    /// accepted, too.
    pub(crate) fn read(&mut self, snippet: &Snippet<'_>) -> Result<Body, ReadFailure> {
        let (root, path) = (snippet.root(), snippet.path());
        let Some(reader) = self.readers.get_mut(root) else { return Err(ReadFailure::Missing) };
        let file = match reader.read(path, MAX_FILE_BYTES) {
            Err(ReadFailure::Missing) => match self.roots.get(root).without_name(path) {
                Some(rest) => reader.read(rest, MAX_FILE_BYTES),
                None => Err(ReadFailure::Missing),
            },
            file => file,
        };
        file.map(Body::new)
    }
}
