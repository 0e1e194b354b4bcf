//! Builds and writes the index of a root.
//!
//! An index depends only on the files below its root, not on other roots or on its location. A reference within the root
//! is written as the id of its target; other references are written as they are and resolved on use. The file is replaced
//! atomically, and only if its content changes, so that file watchers do not fire without a change.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pannier_core::TokenCounter;

use crate::error::DuplicateId;
use crate::reference;
use crate::root::{INDEX, MAX_INDEX_BYTES, Reader, Root};
use crate::scan::{Problem, Scan, ScannedSnippet, is_manifest, scan};
use crate::yaml::{self, Entry, List};
use crate::{Roots, SnippetsError};

/// The result of indexing a root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexSummary {
    /// The path of the index.
    pub path: PathBuf,
    /// The number of its snippets.
    pub snippets: usize,
    /// Whether the index was up to date and not written.
    pub is_unchanged: bool,
    /// The files that are not in the index, and the reasons.
    pub problems: Vec<Problem>,
}

/// Writes the index of every root from the front matter of its files, with the aliases of `roots`. Without any, those of the
/// old index stay. `counter` counts the tokens that `list` shows.
///
/// # Errors
///
/// [`SnippetsError::DuplicateIds`] if two snippets have the same id, or [`SnippetsError::InvalidIndex`] if an index would
/// exceed 64 MiB; nothing is written then. [`SnippetsError::Io`] if a root cannot be listed or its index cannot be
/// written.
pub fn index(
    roots: &Roots,
    counter: &dyn TokenCounter,
) -> Result<Vec<IndexSummary>, SnippetsError> {
    let mut scans = Vec::new();
    for root in roots.iter() {
        scans.push((root, scan(root, counter)?));
    }
    let ids = duplicates(&scans);
    if !ids.is_empty() {
        return Err(SnippetsError::DuplicateIds { ids });
    }
    let mut texts = Vec::new();
    for (root, scan) in &scans {
        let old = Reader::new(root).read(INDEX, MAX_INDEX_BYTES);
        let aliases = index_aliases(roots, old.as_deref().ok());
        let text = index_text(root, scan, counter.name(), aliases);
        if text.len() as u64 > MAX_INDEX_BYTES {
            let problem = format!(
                "it would exceed {MAX_INDEX_BYTES} bytes; shorten descriptions or split the root"
            );
            return Err(SnippetsError::InvalidIndex { path: root.path().join(INDEX), problem });
        }
        texts.push(text);
    }
    let mut indexed = Vec::new();
    for ((root, scan), text) in scans.into_iter().zip(texts) {
        let is_unchanged =
            Reader::new(root).read(INDEX, MAX_INDEX_BYTES).is_ok_and(|old| old == text);
        let path = root.path().join(INDEX);
        if !is_unchanged {
            pannier_files::replace_file(&root.real_path().join(INDEX), text.as_bytes())
                .map_err(|error| SnippetsError::io("write", &path, error))?;
        }
        let Scan { snippets, problems, .. } = scan;
        indexed.push(IndexSummary { path, snippets: snippets.len(), is_unchanged, problems });
    }
    Ok(indexed)
}

/// Returns duplicate ids, sorted, each with the first path and another one.
pub(crate) fn duplicates(scans: &[(&Root, Scan)]) -> Vec<DuplicateId> {
    let mut first: BTreeMap<&str, (&Root, &ScannedSnippet)> = BTreeMap::new();
    let mut duplicates = Vec::new();
    for (root, scan) in scans {
        for scanned in &scan.snippets {
            match first.get(scanned.id.as_str()) {
                None => _ = first.insert(&scanned.id, (root, scanned)),
                Some((other, before)) => duplicates.push(DuplicateId {
                    id: scanned.id.clone(),
                    path: other.display_path(&before.path),
                    other: root.display_path(&scanned.path),
                }),
            }
        }
    }
    duplicates.sort_by(|a, b| (&a.id, &a.path, &a.other).cmp(&(&b.id, &b.path, &b.other)));
    duplicates
}

/// Returns the aliases of an index: those of the roots, or else those that it has.
pub(crate) fn index_aliases(roots: &Roots, old: Option<&str>) -> List<'static> {
    let aliases: Vec<String> = roots.aliases().iter().map(ToString::to_string).collect();
    let old = old.filter(|_| aliases.is_empty()).and_then(|old| yaml::read(old).ok());
    let old = old.map(|old| old.aliases.texts().into_iter().map(Cow::into_owned).collect());
    List::Texts(old.unwrap_or(aliases))
}

/// Returns the text of the index of a root. It contains the first of several snippets with the same id.
pub(crate) fn index_text(
    root: &Root,
    scan: &Scan,
    tokenizer: &str,
    aliases: List<'static>,
) -> String {
    let mut snippets: Vec<&ScannedSnippet> = scan.snippets.iter().collect();
    snippets.sort_by(|a, b| (&a.id, &a.path).cmp(&(&b.id, &b.path)));
    snippets.dedup_by(|a, b| a.id == b.id);
    let resolver = ReferenceResolver::new(root, scan);
    let entries = snippets.iter().map(|scanned| Entry {
        id: Cow::Borrowed(&scanned.id),
        description: Cow::Borrowed(&scanned.description),
        kind: Cow::Borrowed(scanned.kind.name()),
        scope: Cow::Borrowed(scanned.scope.name()),
        path: Cow::Borrowed(&scanned.path),
        requires: resolver
            .resolve_all(scanned.requires.iter().map(|reference| reference.text.as_str())),
        tokens: Some(scanned.tokens),
        hash: Some(scanned.hash),
    });
    let entries = entries.collect();
    let baseline = scan.baseline.iter().map(|(_, reference)| reference.text.as_str());
    let baseline = resolver.resolve_all(baseline.filter(|reference| !is_manifest(reference)));
    yaml::write(&yaml::Index {
        tokenizer: Some(Cow::Borrowed(tokenizer)),
        aliases,
        baseline: Some(baseline),
        entries,
    })
}

/// Resolves references within a root.
pub(crate) struct ReferenceResolver<'a> {
    root: &'a Root,
    ids: BTreeSet<&'a str>,
    paths: BTreeMap<&'a str, &'a str>,
}

impl<'a> ReferenceResolver<'a> {
    pub(crate) fn new(root: &'a Root, scan: &'a Scan) -> Self {
        let ids = scan.snippets.iter().map(|scanned| scanned.id.as_str()).collect();
        Self { root, ids, paths: scan.by_path() }
    }

    /// Resolves references and removes duplicates.
    fn resolve_all<'r>(&self, references: impl Iterator<Item = &'r str>) -> List<'static> {
        let mut seen = BTreeSet::new();
        let resolved = references.map(|reference| self.resolve(reference));
        List::Texts(resolved.filter(|reference| seen.insert(reference.clone())).collect())
    }

    /// Returns the id of the target of a reference, or the reference itself if it has no target in the root.
    pub(crate) fn resolve(&self, reference: &str) -> String {
        let name = reference::name(reference);
        if self.ids.contains(name) {
            return name.to_owned();
        }
        let paths = reference::paths(self.root, name);
        let id = paths.iter().find_map(|path| self.paths.get(path.as_str()));
        id.map_or_else(|| reference.to_owned(), |id| (*id).to_owned())
    }
}
