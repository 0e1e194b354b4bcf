//! Reading the files of snippets.

use crate::catalogue::Snippet;
use crate::root::{Reader, Unread};
use crate::{Catalogue, Roots};

/// Reads files of all roots.
#[derive(Debug)]
pub(crate) struct Texts<'r> {
    roots: &'r Roots,
    readers: Vec<Reader<'r>>,
}

impl<'r> Texts<'r> {
    pub(crate) fn new(catalogue: &Catalogue<'r>) -> Self {
        let roots = catalogue.roots();
        Self { roots, readers: roots.iter().map(Reader::new).collect() }
    }

    /// The file of a snippet. Other tools write paths with the name of the root at their beginning.
    pub(crate) fn read(&mut self, snippet: &Snippet<'_>, most: u64) -> Result<String, Unread> {
        let (place, path) = (snippet.root(), snippet.path());
        let Some(reader) = self.readers.get_mut(place) else { return Err(Unread::Missing) };
        let text = reader.read(path, most);
        match path.split_once('/') {
            Some((name, rest)) if text == Err(Unread::Missing) => {
                if name != self.roots.get(place).name() {
                    return text;
                }
                reader.read(rest, most)
            }
            _ => text,
        }
    }
}
