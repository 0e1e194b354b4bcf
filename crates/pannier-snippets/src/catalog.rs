//! The snippets of all roots, from their indexes.
//!
//! [`SnippetIndexes`] owns the texts of the index files, and [`SnippetCatalog`] borrows from them. So listing 10,000
//! snippets costs little more than reading the file. References are only resolved for requested snippets.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;
use std::time::SystemTime;

use pannier_core::TokenCounter;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{DuplicateId, UnknownId};
use crate::id::{excerpt, is_id};
use crate::kind::{Scope, SnippetType};
use crate::reference::{self, Alias};
use crate::root::{INDEX, MAX_INDEX_BYTES, ReadFailure, Reader, is_below};
use crate::suggest::similar_ids;
use crate::text::{Body, BodyReader};
use crate::yaml::{self, Entry, Index, List};
use crate::{Root, Roots, SnippetId, SnippetsError, Warning, scan};

/// The maximum number of unknown ids with suggestions.
const MAX_EXPLAINED_IDS: usize = 20;

/// The texts of the indexes of all roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnippetIndexes {
    roots: Roots,
    texts: Vec<String>,
    stamps: Vec<Option<FileStamp>>,
}

/// Identifies a version of a file without reading it. Indexes are replaced, not overwritten, so the inode changes, too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
    inode: u64,
}

impl FileStamp {
    fn of(root: &Root) -> Option<Self> {
        let metadata = root.path().join(INDEX).metadata().ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Self { bytes: metadata.len(), modified: metadata.modified().ok(), inode })
    }
}

impl SnippetIndexes {
    /// Reads the file `index.yaml` of every root.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::NoIndex`] if a root has no index, [`SnippetsError::InvalidIndex`] if one cannot be read.
    pub fn read(roots: Roots) -> Result<Self, SnippetsError> {
        let mut texts = Vec::new();
        // Taken before the texts are read, so that a change in between makes the stamp differ.
        let stamps = roots.iter().map(FileStamp::of).collect();
        for root in roots.iter() {
            let path = || root.path().join(INDEX);
            let text = Reader::new(root).read(INDEX, MAX_INDEX_BYTES);
            texts.push(text.map_err(|failure| match failure {
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

    /// Uses these texts instead of the files of the roots.
    pub(crate) fn from_texts(roots: Roots, texts: Vec<String>) -> Self {
        Self { roots, texts, stamps: Vec::new() }
    }

    /// Returns whether the files are unchanged since they were read.
    pub fn is_current(&self) -> bool {
        self.roots.iter().map(FileStamp::of).eq(self.stamps.iter().cloned())
    }

    /// Sets the names of the roots in messages, as [`Roots::with_labels`].
    #[must_use]
    pub fn with_labels(self, label: impl Fn(&Path) -> Option<String>) -> Self {
        Self { roots: self.roots.with_labels(label), ..self }
    }

    /// Returns the roots of the indexes.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Parses the indexes. Omits invalid entries with a [warning](SnippetCatalog::warnings).
    ///
    /// # Errors
    ///
    /// [`SnippetsError::InvalidIndex`] if an index cannot be parsed, [`SnippetsError::DuplicateIds`] if an id appears
    /// twice.
    pub fn catalog(&self) -> Result<SnippetCatalog<'_>, SnippetsError> {
        let mut catalog = SnippetCatalog {
            roots: &self.roots,
            snippets: Vec::new(),
            tokenizers: Vec::new(),
            baselines: Vec::new(),
            aliases: self.roots.aliases().to_vec(),
            warnings: Vec::new(),
            paths: OnceLock::new(),
        };
        for (number, (root, text)) in self.roots.iter().zip(&self.texts).enumerate() {
            let invalid =
                |problem| SnippetsError::InvalidIndex { path: root.path().join(INDEX), problem };
            let Index { tokenizer, aliases, baseline, entries } =
                yaml::read(text).map_err(invalid)?;
            for alias in aliases.texts() {
                let alias = alias.parse::<Alias>().map_err(|error| invalid(error.to_string()))?;
                catalog.aliases.push(alias);
            }
            catalog.tokenizers.push(tokenizer);
            catalog.baselines.push(baseline);
            catalog.snippets.reserve(entries.len());
            for entry in entries {
                catalog.add(number, entry);
            }
        }
        // A single index that Pannier wrote is sorted.
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

/// The snippets of all roots, sorted by id.
#[derive(Debug)]
pub struct SnippetCatalog<'t> {
    roots: &'t Roots,
    snippets: Vec<Snippet<'t>>,
    /// The tokenizer of each index.
    tokenizers: Vec<Option<Cow<'t, str>>>,
    /// The references of the manifests of each root, if the index has them.
    baselines: Vec<Option<List<'t>>>,
    /// The aliases of the roots, then those of the indexes.
    aliases: Vec<Alias>,
    warnings: Vec<Warning>,
    /// The positions of the snippets, sorted by root and path, built on first use.
    paths: OnceLock<Vec<u32>>,
}

/// A snippet, as its index describes it.
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
    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the description.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the type.
    pub fn snippet_type(&self) -> &SnippetType {
        &self.kind
    }

    /// Returns the scope.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the path of the file, relative to the root.
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
        // Other tools write paths from the home folder, or absolute ones.
        let path = self.path_in(root, &path).map_or(path, Cow::Owned);
        let problem = if !is_id(&id) {
            "its id is invalid"
        } else if description.trim().is_empty() {
            "it has no description"
        } else if !is_below(&path) {
            "its path is outside of the root"
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
                (None, _) => "its type is not a word",
                (_, None) => "its scope is unknown",
            }
        };
        let index = self.roots.get(root).display_path(INDEX);
        let message = format!("{index}: the entry '{}' is left out: {problem}", excerpt(&id));
        self.warnings.push(Warning::Entry { message });
    }

    /// Returns the snippets, sorted by id.
    pub fn snippets(&self) -> &[Snippet<'t>] {
        &self.snippets
    }

    /// Returns a warning for each omitted entry.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the snippet with this id.
    pub fn snippet(&self, id: &str) -> Option<&Snippet<'t>> {
        self.snippets.get(self.find(id)? as usize)
    }

    /// Reads the text of a snippet, without its dependencies.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::Unreadable`] if its file cannot be read.
    pub fn text(&self, snippet: &Snippet<'_>) -> Result<Body, SnippetsError> {
        let read = BodyReader::new(self.roots).read(snippet);
        read.map_err(|failure| SnippetsError::Unreadable {
            id: snippet.id().to_owned(),
            path: self.display_path(snippet),
            problem: failure.problem().to_owned(),
        })
    }

    /// Returns the roots of the snippets.
    pub fn roots(&self) -> &'t Roots {
        self.roots
    }

    /// Returns the token count in the index, if the tokenizer `counter` counted it.
    pub(crate) fn recorded_tokens(&self, snippet: &Snippet<'_>, counter: &str) -> Option<usize> {
        let tokenizer = self.tokenizers.get(snippet.root)?.as_deref()?;
        snippet.tokens.filter(|_| tokenizer == counter)
    }

    /// Returns whether the front matter or the references of a file differ from the index. Changes of the remaining text
    /// do not matter.
    pub(crate) fn is_stale(&self, snippet: &Snippet<'_>, file: &str) -> bool {
        // Fast path: most files are unchanged. Indexes of other tools have no hashes.
        if snippet.hash.is_none_or(|hash| hash == xxh3_64(file.as_bytes())) {
            return false;
        }
        let root = self.roots.get(snippet.root);
        let Some(parsed) = scan::parse_snippet(root, &snippet.path, file) else { return true };
        let resolved =
            |references: &mut dyn Iterator<Item = &str>| -> BTreeSet<Result<u32, String>> {
                let resolve =
                    |text: &str| self.resolve(snippet.root, text).ok_or_else(|| text.to_owned());
                references.map(resolve).collect()
            };
        let requires = parsed.requires.iter().map(|reference| reference.text.as_str());
        (&*parsed.id, &*parsed.description) != (&*snippet.id, &*snippet.description)
            || (&parsed.kind, parsed.scope) != (&snippet.kind, snippet.scope)
            || resolved(&mut { requires })
                != resolved(&mut snippet.requires.texts().iter().map(|text| &**text))
    }

    pub(crate) fn baseline(&self, root: usize) -> Option<&List<'t>> {
        self.baselines.get(root)?.as_ref()
    }

    pub(crate) fn display_path(&self, snippet: &Snippet<'_>) -> String {
        self.roots.get(snippet.root).display_path(&snippet.path)
    }

    /// Returns the position of the snippet with this id.
    pub(crate) fn find(&self, id: &str) -> Option<u32> {
        let position = self.snippets.binary_search_by(|snippet| snippet.id().cmp(id)).ok()?;
        u32::try_from(position).ok()
    }

    /// Resolves user input to ids. Each name is an id or a reference as in files: an id with `@`, or a path.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::InvalidId`] for the first invalid name, [`SnippetsError::UnknownIds`] with all unknown names.
    pub fn resolve_ids<'i>(
        &self,
        names: impl IntoIterator<Item = &'i str>,
    ) -> Result<Vec<SnippetId>, SnippetsError> {
        let (mut ids, mut unknown) = (Vec::new(), Vec::new());
        for name in names {
            let name = reference::name(name.trim());
            let known = self.resolve(0, name).map(|number| self.snippets[number as usize].id());
            match SnippetId::new(known.unwrap_or(name)) {
                Ok(id) if known.is_some() => ids.push(id),
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

    /// Builds the error for unknown ids, with suggestions for the first [`MAX_EXPLAINED_IDS`].
    pub(crate) fn unknown<'i>(&self, ids: impl Iterator<Item = &'i str>) -> SnippetsError {
        let ids = ids.enumerate().map(|(position, id)| UnknownId {
            id: id.to_owned(),
            close: if position < MAX_EXPLAINED_IDS { similar_ids(self, id) } else { Vec::new() },
        });
        SnippetsError::UnknownIds { ids: ids.collect() }
    }

    /// Returns the counter of the tokens in the indexes, if all indexes have the same. Never opens a tokenizer file,
    /// because indexes are untrusted.
    pub fn counter(&self) -> Option<Box<dyn TokenCounter>> {
        let mut tokenizers = self.tokenizers.iter().map(Option::as_deref);
        let first = tokenizers.next()??;
        let is_same = tokenizers.all(|other| other == Some(first));
        is_same.then(|| pannier_tokens::builtin_counter(first).ok()).flatten()
    }

    /// Returns the position of the snippet that a reference in a file of `root` points to.
    pub(crate) fn resolve(&self, root: usize, reference: &str) -> Option<u32> {
        let name = reference::name(reference);
        if let Some(position) = self.find(name) {
            return Some(position);
        }
        let count = self.tokenizers.len();
        let aliased = self.aliases.iter().find_map(|alias| alias.apply(name));
        let name = aliased.as_deref().unwrap_or(name);
        if name.starts_with("~/") || name.starts_with('/') {
            return (0..count).find_map(|number| {
                let path = self.path_in(number, name)?;
                self.find_path(number, &path)
            });
        }
        // The root of the file first, then the others in order.
        let others = (0..count).filter(|number| *number != root);
        std::iter::once(root).chain(others).find_map(|number| {
            let root = self.roots.get(number);
            let paths = reference::paths(root, name);
            paths.iter().find_map(|path| {
                // Other tools write paths that start with the name of the root.
                let mut named = root.names().iter().map(|name| format!("{name}/{path}"));
                let position = self.find_path(number, path);
                position.or_else(|| named.find_map(|path| self.find_path(number, &path)))
            })
        })
    }

    /// Returns a path from the home folder, by an alias, or an absolute one as a path below `root`, if it is there.
    fn path_in(&self, root: usize, path: &str) -> Option<String> {
        let root = self.roots.get(root);
        let name = reference::name(path);
        let aliased = self.aliases.iter().find_map(|alias| alias.apply(name));
        let name = aliased.as_deref().unwrap_or(name);
        match name.strip_prefix("~/") {
            Some(rest) => reference::path_from_home(root, self.roots.home()?, rest),
            None if name.starts_with('/') => {
                reference::path_from_home(root, Path::new("/"), name.trim_start_matches('/'))
            }
            None => reference::paths(root, aliased.as_deref()?).pop(),
        }
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
        let index = paths.partition_point(|number| key(*number) < Some((root, path)));
        paths.get(index).copied().filter(|number| key(*number) == Some((root, path)))
    }
}

#[cfg(test)]
mod tests {
    use pannier_tokens::BytesOverFour;

    use super::*;
    use crate::test::Scratch;

    #[test]
    fn changed_indexes_are_detected_and_text_excludes_dependencies() {
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
        let snippet = catalog.snippet("b").unwrap();
        assert_eq!(&*catalog.text(snippet).unwrap(), "b!\n");
        assert!(catalog.snippet("c").is_none());
        std::fs::remove_file(scratch.path().join("docs/b.md")).unwrap();
        let error = catalog.text(snippet).unwrap_err();
        assert!(matches!(&error, SnippetsError::Unreadable { id, .. } if id == "b"), "{error}");
        crate::index(&roots(), &BytesOverFour).unwrap();
        assert!(!indexes.is_current());
        assert!(SnippetIndexes::read(roots()).unwrap().is_current());
        std::fs::remove_file(scratch.path().join("docs/index.yaml")).unwrap();
        assert!(!indexes.is_current());
    }
}
