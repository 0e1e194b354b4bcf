//! Making the index of a root.
//!
//! An index depends on the files below its root and on nothing else, neither on other roots nor on where it lies: a
//! reference within the root is written as the id that it means, any other one as it stands, to be looked up when it is
//! needed. It is replaced at once, and only if it changes, so that whatever watches it is not woken for nothing.

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

/// What became of the index of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexSummary {
    /// The index.
    pub path: PathBuf,
    /// How many snippets it has.
    pub snippets: usize,
    /// Whether it is the same as before, and was not written.
    pub is_unchanged: bool,
    /// Files that are left out, and why.
    pub problems: Vec<Problem>,
}

/// Writes the index of every root from the front matter of its files. The counter counts what `list` tells.
///
/// # Errors
///
/// [`SnippetsError::DuplicateIds`] if two snippets have the same id, [`SnippetsError::InvalidIndex`] if an index would be
/// too long to be read again, and then nothing is written;
/// [`SnippetsError::Io`] if a root cannot be looked into, or its index not be written.
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
        let text = index_text(root, scan, counter.name());
        if text.len() as u64 > MAX_INDEX_BYTES {
            let problem = format!(
                "it would have more than {MAX_INDEX_BYTES} bytes; shorten descriptions, or part the root"
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

/// Ids that are there more than once, in their order, each with the first path and another one.
pub(crate) fn duplicates(scans: &[(&Root, Scan)]) -> Vec<DuplicateId> {
    let mut first: BTreeMap<&str, (&Root, &ScannedSnippet)> = BTreeMap::new();
    let mut duplicates = Vec::new();
    for (root, scan) in scans {
        for found in &scan.snippets {
            match first.get(found.id.as_str()) {
                None => _ = first.insert(&found.id, (root, found)),
                Some((other, before)) => duplicates.push(DuplicateId {
                    id: found.id.clone(),
                    path: other.display_path(&before.path),
                    other: root.display_path(&found.path),
                }),
            }
        }
    }
    duplicates.sort_by(|a, b| (&a.id, &a.path, &a.other).cmp(&(&b.id, &b.path, &b.other)));
    duplicates
}

/// The index of a root. Of snippets with the same id, it has the first.
pub(crate) fn index_text(root: &Root, scan: &Scan, tokenizer: &str) -> String {
    let mut snippets: Vec<&ScannedSnippet> = scan.snippets.iter().collect();
    snippets.sort_by(|a, b| (&a.id, &a.path).cmp(&(&b.id, &b.path)));
    snippets.dedup_by(|a, b| a.id == b.id);
    let meaning = ReferenceResolver::new(root, scan);
    let entries = snippets.iter().map(|found| Entry {
        id: Cow::Borrowed(&found.id),
        description: Cow::Borrowed(&found.description),
        kind: Cow::Borrowed(found.kind.name()),
        scope: Cow::Borrowed(found.scope.name()),
        path: Cow::Borrowed(&found.path),
        requires: meaning.of_all(found.requires.iter().map(|reference| reference.text.as_str())),
        tokens: Some(found.tokens),
        hash: Some(found.hash),
    });
    let entries = entries.collect();
    let baseline = scan.baseline.iter().map(|(_, reference)| reference.text.as_str());
    let baseline = meaning.of_all(baseline.filter(|reference| !is_manifest(reference)));
    yaml::write(&yaml::Index {
        tokenizer: Some(Cow::Borrowed(tokenizer)),
        baseline: Some(baseline),
        entries,
    })
}

/// What references mean within a root.
pub(crate) struct ReferenceResolver<'a> {
    root: &'a Root,
    ids: BTreeSet<&'a str>,
    paths: BTreeMap<&'a str, &'a str>,
}

impl<'a> ReferenceResolver<'a> {
    pub(crate) fn new(root: &'a Root, scan: &'a Scan) -> Self {
        let ids = scan.snippets.iter().map(|found| found.id.as_str()).collect();
        Self { root, ids, paths: scan.by_path() }
    }

    /// What each of these means, once.
    fn of_all<'r>(&self, references: impl Iterator<Item = &'r str>) -> List<'static> {
        let mut seen = BTreeSet::new();
        let meant = references.map(|reference| self.of(reference));
        List::Texts(meant.filter(|meant| seen.insert(meant.clone())).collect())
    }

    /// The id that a reference means, or else the reference.
    pub(crate) fn of(&self, reference: &str) -> String {
        let name = reference::name(reference);
        if self.ids.contains(name) {
            return name.to_owned();
        }
        let paths = reference::paths(self.root, name);
        let id = paths.iter().find_map(|path| self.paths.get(path.as_str()));
        id.map_or_else(|| reference.to_owned(), |id| (*id).to_owned())
    }
}
