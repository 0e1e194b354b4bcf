//! The snippets of all roots, as their indexes tell.
//!
//! SnippetIndexes are read first and looked into second, because a catalog borrows from their texts: a listing of ten thousand
//! snippets then costs little more than reading the file. What snippets require is only looked up for those that somebody
//! asks for.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::SystemTime;

use pannier_core::TokenCounter;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{DuplicateId, UnknownId};
use crate::id::{excerpt, is_id};
use crate::id_table::IdTable;
use crate::kind::{Scope, SnippetType};
use crate::reference;
use crate::root::{INDEX, MAX_INDEX_BYTES, ReadFailure, Reader, is_below};
use crate::suggest::similar_ids;
use crate::text::{Body, BodyReader};
use crate::yaml::{self, Entry, Index, List};
use crate::{Root, Roots, SnippetId, SnippetsError, Warning, scan};

/// For so many unknown ids, others that look like them are looked for.
const MAX_EXPLAINED_IDS: usize = 20;

/// The indexes of all roots, as they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnippetIndexes {
    roots: Roots,
    texts: Vec<String>,
    stamps: Vec<Option<FileStamp>>,
}

/// What tells a file from the one that was there before, without reading it. SnippetIndexes are replaced, not written over.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
    number: u64,
}

impl FileStamp {
    fn of(root: &Root) -> Option<Self> {
        let found = root.path().join(INDEX).metadata().ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let number = 0;
        Some(Self { bytes: found.len(), modified: found.modified().ok(), number })
    }
}

impl SnippetIndexes {
    /// RequiredReads the file `index.yaml` of every root.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::NoIndex`] if a root has none, [`SnippetsError::InvalidIndex`] if one cannot be read.
    pub fn read(roots: Roots) -> Result<Self, SnippetsError> {
        let mut texts = Vec::new();
        // PriorDelivery the texts: what changes meanwhile is then seen to have changed.
        let stamps = roots.iter().map(FileStamp::of).collect();
        for root in roots.iter() {
            let path = || root.path().join(INDEX);
            let text = Reader::new(root).read(INDEX, MAX_INDEX_BYTES);
            texts.push(text.map_err(|unread| match unread {
                ReadFailure::Missing => {
                    SnippetsError::NoIndex { path: path(), root: root.path().to_owned() }
                }
                ReadFailure::Refused(problem) => {
                    SnippetsError::InvalidIndex { path: path(), problem }
                }
            })?);
        }
        Ok(Self { roots, texts, stamps })
    }

    /// Takes these texts for those of the roots.
    pub(crate) fn from_texts(roots: Roots, texts: Vec<String>) -> Self {
        Self { roots, texts, stamps: Vec::new() }
    }

    /// Whether the files are still those that were read.
    pub fn is_current(&self) -> bool {
        self.roots.iter().map(FileStamp::of).eq(self.stamps.iter().cloned())
    }

    /// The roots they are of.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The snippets in them. An entry that cannot be one is left out, with a [warning](SnippetCatalog::warnings).
    ///
    /// # Errors
    ///
    /// [`SnippetsError::InvalidIndex`] if one cannot be read, [`SnippetsError::DuplicateIds`] if an id is there twice.
    pub fn catalog(&self) -> Result<SnippetCatalog<'_>, SnippetsError> {
        let mut catalog = SnippetCatalog {
            roots: &self.roots,
            snippets: Vec::new(),
            tokenizers: Vec::new(),
            baselines: Vec::new(),
            warnings: Vec::new(),
            names: OnceLock::new(),
            paths: OnceLock::new(),
        };
        for (place, (root, text)) in self.roots.iter().zip(&self.texts).enumerate() {
            let index = yaml::read(text).map_err(|problem| SnippetsError::InvalidIndex {
                path: root.path().join(INDEX),
                problem,
            })?;
            let Index { tokenizer, baseline, entries } = index;
            catalog.tokenizers.push(tokenizer);
            catalog.baselines.push(baseline);
            catalog.snippets.reserve(entries.len());
            for entry in entries {
                catalog.add(place, entry);
            }
        }
        // So they are in an index of ours.
        if catalog.snippets.is_sorted_by(|a, b| a.id < b.id) {
            return Ok(catalog);
        }
        catalog.snippets.sort_by(|a, b| (&a.id, a.root, &a.path).cmp(&(&b.id, b.root, &b.path)));
        let pairs = catalog.snippets.windows(2).filter(|pair| pair[0].id == pair[1].id);
        let ids: Vec<DuplicateId> = pairs
            .map(|pair| DuplicateId {
                id: pair[0].id.clone().into_owned(),
                path: catalog.display_path(&pair[0]),
                other: catalog.display_path(&pair[1]),
            })
            .collect();
        match ids.is_empty() {
            true => Ok(catalog),
            false => Err(SnippetsError::DuplicateIds { ids }),
        }
    }
}

/// The snippets of all roots, in the order of their ids.
#[derive(Debug)]
pub struct SnippetCatalog<'t> {
    roots: &'t Roots,
    snippets: Vec<Snippet<'t>>,
    /// What counted the tokens, by root.
    tokenizers: Vec<Option<Cow<'t, str>>>,
    /// What the manifests refer to, by root, where the index says.
    baselines: Vec<Option<List<'t>>>,
    warnings: Vec<Warning>,
    /// The numbers of the snippets, by id. Made when the first is looked up.
    names: OnceLock<IdTable>,
    /// The numbers of the snippets, by root and path. Made when the first path is looked up.
    paths: OnceLock<Vec<u32>>,
}

/// A snippet, as an index tells.
#[derive(Clone, Debug)]
pub struct Snippet<'t> {
    id: Cow<'t, str>,
    description: Cow<'t, str>,
    kind: SnippetType,
    scope: Scope,
    path: Cow<'t, str>,
    root: usize,
    requires: List<'t>,
    tokens: Option<usize>,
    hash: Option<u64>,
}

impl Snippet<'_> {
    /// What it is called.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it is about.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What sort of thing it is.
    pub fn snippet_type(&self) -> SnippetType {
        self.kind
    }

    /// How far it reaches.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Its file, below its root.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn root(&self) -> usize {
        self.root
    }

    pub(crate) fn requires(&self) -> &List<'_> {
        &self.requires
    }
}

impl<'t> SnippetCatalog<'t> {
    fn add(&mut self, root: usize, entry: Entry<'t>) {
        let Entry { id, description, kind, scope, path, requires, tokens, hash } = entry;
        let problem = if !is_id(&id) {
            "its id cannot be one"
        } else if description.trim().is_empty() {
            "it has no description"
        } else if !is_below(&path) {
            "its path leads out of the root"
        } else {
            match (SnippetType::find(&kind), Scope::find(&scope)) {
                (Some(kind), Some(scope)) => {
                    return self.snippets.push(Snippet {
                        id,
                        description,
                        kind,
                        scope,
                        path,
                        root,
                        requires,
                        tokens,
                        hash,
                    });
                }
                (None, _) => "it has no known type",
                (_, None) => "it has no known scope",
            }
        };
        let index = self.roots.get(root).display_path(INDEX);
        let message = format!("{index}: the entry '{}' is left out: {problem}", excerpt(&id));
        self.warnings.push(Warning::Entry { message });
    }

    /// The snippets.
    pub fn snippets(&self) -> &[Snippet<'t>] {
        &self.snippets
    }

    /// What was left out.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The snippet with this id.
    pub fn snippet(&self, id: &str) -> Option<&Snippet<'t>> {
        self.snippets.get(self.find(id)? as usize)
    }

    /// The text of a snippet, by itself, without what it requires.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::Unreadable`] if its file cannot be read.
    pub fn text(&self, snippet: &Snippet<'_>) -> Result<Body, SnippetsError> {
        let read = BodyReader::new(self.roots).read(snippet);
        read.map_err(|unread| SnippetsError::Unreadable {
            id: snippet.id().to_owned(),
            path: self.display_path(snippet),
            problem: unread.problem().to_owned(),
        })
    }

    /// The roots they are in.
    pub fn roots(&self) -> &'t Roots {
        self.roots
    }

    /// How many tokens the text of a snippet has, if this counter counted them when the index was made.
    pub(crate) fn recorded_tokens(&self, snippet: &Snippet<'_>, counter: &str) -> Option<usize> {
        let tokenizer = self.tokenizers.get(snippet.root)?.as_deref()?;
        snippet.tokens.filter(|_| tokenizer == counter)
    }

    /// Whether the file of a snippet says something else about it than the index. The text may have changed; that is no
    /// matter of the index.
    pub(crate) fn is_stale(&self, snippet: &Snippet<'_>, file: &str) -> bool {
        // An index of another tool does not tell; and most files are what they were.
        if snippet.hash.is_none_or(|hash| hash == xxh3_64(file.as_bytes())) {
            return false;
        }
        let root = self.roots.get(snippet.root);
        let Some(told) = scan::parse_snippet(root, &snippet.path, file) else { return true };
        let meant = |references: &mut dyn Iterator<Item = &str>| -> BTreeSet<Result<u32, String>> {
            let of = |text: &str| self.resolve(snippet.root, text).ok_or_else(|| text.to_owned());
            references.map(of).collect()
        };
        let requires = told.requires.iter().map(|reference| reference.text.as_str());
        (&*told.id, &*told.description) != (&*snippet.id, &*snippet.description)
            || (told.kind, told.scope) != (snippet.kind, snippet.scope)
            || meant(&mut { requires })
                != meant(&mut snippet.requires.texts().iter().map(|text| &**text))
    }

    pub(crate) fn baseline(&self, root: usize) -> Option<&List<'t>> {
        self.baselines.get(root)?.as_ref()
    }

    pub(crate) fn display_path(&self, snippet: &Snippet<'_>) -> String {
        self.roots.get(snippet.root).display_path(&snippet.path)
    }

    /// The number of the snippet with this id.
    pub(crate) fn find(&self, id: &str) -> Option<u32> {
        let names = self.names.get_or_init(|| IdTable::new(self.snippets.iter().map(Snippet::id)));
        names.find(id, |number| self.snippets[number as usize].id())
    }

    /// The ids that are meant by what somebody wrote: an id, or a reference to a snippet as files have them, with `@` or a
    /// path.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::InvalidId`] for the first that cannot be one, [`SnippetsError::UnknownIds`] for those that are not
    /// there, all of them.
    pub fn resolve_ids<'i>(
        &self,
        names: impl IntoIterator<Item = &'i str>,
    ) -> Result<Vec<SnippetId>, SnippetsError> {
        let (mut ids, mut unknown) = (Vec::new(), Vec::new());
        for name in names {
            let name = reference::name(name.trim());
            let found = self.resolve(0, name).map(|number| self.snippets[number as usize].id());
            match SnippetId::new(found.unwrap_or(name)) {
                Ok(id) if found.is_some() => ids.push(id),
                Ok(id) => unknown.push(id),
                Err(SnippetsError::InvalidId { id, .. }) => {
                    return Err(SnippetsError::InvalidId { id, close: similar_ids(self, name) });
                }
                Err(error) => return Err(error),
            }
        }
        match unknown.is_empty() {
            true => Ok(ids),
            false => Err(self.unknown(unknown.iter().map(SnippetId::as_str))),
        }
    }

    /// Says that these are not there, and which may be meant.
    pub(crate) fn unknown<'i>(&self, ids: impl Iterator<Item = &'i str>) -> SnippetsError {
        let ids = ids.enumerate().map(|(place, id)| UnknownId {
            id: id.to_owned(),
            close: if place < MAX_EXPLAINED_IDS { similar_ids(self, id) } else { Vec::new() },
        });
        SnippetsError::UnknownIds { ids: ids.collect() }
    }

    /// What counted the tokens that the indexes tell, if it was the same for all, and is none that a file makes: an index
    /// may be anybody's.
    pub fn counter(&self) -> Option<Box<dyn TokenCounter>> {
        let mut tokenizers = self.tokenizers.iter().map(Option::as_deref);
        let first = tokenizers.next()??;
        let is_same = tokenizers.all(|other| other == Some(first));
        is_same.then(|| pannier_tokens::builtin_counter(first).ok()).flatten()
    }

    /// The snippet that a reference in a file of this root means.
    pub(crate) fn resolve(&self, root: usize, reference: &str) -> Option<u32> {
        let name = reference::name(reference);
        if let Some(found) = self.find(name) {
            return Some(found);
        }
        let count = self.tokenizers.len();
        if let Some(rest) = name.strip_prefix("~/") {
            let home = self.roots.home()?;
            return (0..count).find_map(|place| {
                let path = reference::path_from_home(self.roots.get(place), home, rest)?;
                self.find_path(place, &path)
            });
        }
        // The root of the file first; among the others, the order of where they are.
        let others = (0..count).filter(|place| *place != root);
        std::iter::once(root).chain(others).find_map(|place| {
            let root = self.roots.get(place);
            let paths = reference::paths(root, name);
            paths.iter().find_map(|path| {
                // Other tools write paths with the name of the root at their beginning.
                let named = root.names().iter().map(|name| format!("{name}/{path}"));
                let found = self.find_path(place, path);
                found.or_else(|| named.into_iter().find_map(|path| self.find_path(place, &path)))
            })
        })
    }

    fn find_path(&self, root: usize, path: &str) -> Option<u32> {
        let key = |number: u32| {
            let snippet = self.snippets.get(number as usize);
            snippet.map(|snippet| (snippet.root, &*snippet.path))
        };
        let paths = self.paths.get_or_init(|| {
            let mut paths: Vec<u32> = (0..).take(self.snippets.len()).collect();
            paths.sort_unstable_by_key(|number| (key(*number), *number));
            paths
        });
        let place = paths.partition_point(|number| key(*number) < Some((root, path)));
        paths.get(place).copied().filter(|number| key(*number) == Some((root, path)))
    }
}

#[cfg(test)]
mod tests {
    use pannier_tokens::BytesOverFour;

    use super::*;
    use crate::test::Scratch;

    #[test]
    fn a_changed_index_is_seen_and_a_text_stands_by_itself() {
        let scratch = Scratch::new("current");
        let file = |id: &str, rest: &str| {
            format!("---\nid: {id}\ndescription: d\ntype: spec\nscope: global\n{rest}---\n{id}!\n")
        };
        scratch.write("docs/a.md", &file("a", ""));
        scratch.write("docs/b.md", &file("b", "requires: [a]\n"));
        let roots = || Roots::open([scratch.path().join("docs")], None).unwrap();
        crate::index(&roots(), &BytesOverFour).unwrap();
        let indexes = SnippetIndexes::read(roots()).unwrap();
        assert!(indexes.is_current());
        let catalog = indexes.catalog().unwrap();
        let found = catalog.snippet("b").unwrap();
        assert_eq!(&*catalog.text(found).unwrap(), "b!\n");
        assert!(catalog.snippet("c").is_none());
        std::fs::remove_file(scratch.path().join("docs/b.md")).unwrap();
        let error = catalog.text(found).unwrap_err();
        assert!(matches!(&error, SnippetsError::Unreadable { id, .. } if id == "b"), "{error}");
        crate::index(&roots(), &BytesOverFour).unwrap();
        assert!(!indexes.is_current());
        assert!(SnippetIndexes::read(roots()).unwrap().is_current());
        std::fs::remove_file(scratch.path().join("docs/index.yaml")).unwrap();
        assert!(!indexes.is_current());
    }
}
