//! Reports all problems with the snippets of some roots.
//!
//! The check builds the indexes in memory from the files, runs the code that serves requests on them, and compares them
//! with the indexes on disk.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::DuplicateId;
use crate::graph::DependencyClosure;
use crate::id::excerpt;
use crate::index::{ReferenceResolver, duplicates, index_aliases, index_text};
use crate::reference::Alias;
use crate::root::{INDEX, MAX_INDEX_BYTES, ReadFailure, Reader, Root};
use crate::scan::{Problem, Scan, ScannedSnippet, is_manifest, scan};
use crate::yaml::List;
use crate::{Roots, SnippetIndexes, SnippetsError, Warning, yaml};

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The problems, sorted by path and line.
    pub problems: Vec<Problem>,
    /// The number of files that were read as snippets.
    pub snippets: usize,
}

/// Checks the snippets of these roots.
///
/// Problems are missing and invalid fields, duplicate ids, dangling references, dependency cycles, unreadable files, and
/// missing or stale indexes. A root without snippets needs no index.
///
/// # Errors
///
/// [`SnippetsError::Io`] if a root cannot be listed.
pub fn check(roots: &Roots) -> Result<CheckReport, SnippetsError> {
    let mut scans: Vec<(&Root, Scan)> = Vec::new();
    let mut problems = Vec::new();
    for root in roots.iter() {
        let old = Reader::new(root).read(INDEX, MAX_INDEX_BYTES);
        // The token counts of an index depend on its tokenizer.
        let tokenizer = old.as_deref().ok().and_then(|text| yaml::read(text).ok()?.tokenizer);
        let counter = tokenizer.and_then(|name| pannier_tokens::builtin_counter(&name).ok());
        let counter = counter.unwrap_or_else(|| Box::new(pannier_tokens::BytesOverFour));
        let scan = scan(root, &*counter)?;
        let aliases = index_aliases(roots, old.as_deref().ok());
        let text = index_text(root, &scan, counter.name(), aliases);
        let problem = match &old {
            Ok(old) if *old == text => None,
            Ok(_) => Some("it is out of date; index the root again".to_owned()),
            Err(ReadFailure::Missing) if scan.snippets.is_empty() => None,
            Err(ReadFailure::Missing) => Some("it is missing; index the root".to_owned()),
            Err(failure) => Some(failure.problem().to_owned()),
        };
        let path = root.display_path(INDEX);
        problems.extend(problem.map(|problem| Problem { path, line: None, problem }));
        problems.extend(scan.problems.iter().chain(&scan.minor_problems).cloned());
        scans.push((root, scan));
    }
    let snippets = scans.iter().map(|(_, scan)| scan.snippets.len()).sum();
    let ids = duplicates(&scans);
    let all =
        scans.iter().flat_map(|(root, scan)| scan.snippets.iter().map(|scanned| (*root, scanned)));
    // Lines are only needed for duplicate ids.
    let all = all.filter(|_| !ids.is_empty());
    let lines: BTreeMap<String, usize> =
        all.map(|(root, scanned)| (root.display_path(&scanned.path), scanned.id_line)).collect();
    for DuplicateId { id, path: first, other } in ids {
        let line = lines.get(&other).copied();
        let problem = format!("the id '{id}' is also the id of {first}; rename one");
        problems.push(Problem { path: other, line, problem });
    }
    keep_first(&mut scans);
    problems.extend(check_requirements(roots, &scans)?);
    problems.sort_unstable();
    problems.dedup();
    Ok(CheckReport { problems, snippets })
}

/// Keeps the first of several snippets with the same id, so that the others can be checked.
fn keep_first(scans: &mut [(&Root, Scan)]) {
    let mut seen = BTreeSet::new();
    for (_, scan) in scans {
        scan.snippets.retain(|scanned| seen.insert(scanned.id.clone()));
    }
}

/// Returns the problems with requirements and manifests.
fn check_requirements(
    roots: &Roots,
    scans: &[(&Root, Scan)],
) -> Result<Vec<Problem>, SnippetsError> {
    let text = |(root, scan): &(&Root, Scan)| {
        let old = Reader::new(root).read(INDEX, MAX_INDEX_BYTES);
        // Invalid aliases of an index are reported as a difference.
        let aliases = index_aliases(roots, old.as_deref().ok());
        let is_valid = aliases.texts().iter().all(|alias| alias.parse::<Alias>().is_ok());
        index_text(root, scan, "", if is_valid { aliases } else { List::default() })
    };
    let texts = scans.iter().map(text).collect();
    let indexes = SnippetIndexes::from_texts(roots.clone(), texts);
    let catalog = indexes.catalog()?;
    let every: Vec<u32> = (0..).take(catalog.snippets().len()).collect();
    let closure = DependencyClosure::new(&catalog, &every);
    let snippet = |node: u32| &catalog.snippets()[closure.snippets[node as usize] as usize];
    let all =
        scans.iter().flat_map(|(root, scan)| scan.snippets.iter().map(|scanned| (*root, scanned)));
    let by_id: BTreeMap<&str, (&Root, &ScannedSnippet)> =
        all.map(|(root, scanned)| (scanned.id.as_str(), (root, scanned))).collect();
    let mut problems = Vec::new();
    // Dangling references are grouped by node, so one map of lines at a time is enough.
    let mut lines: Option<(u32, BTreeMap<&str, usize>)> = None;
    for (node, reference) in &closure.dangling {
        let Some((root, scanned)) = by_id.get(snippet(*node).id()) else { continue };
        if lines.as_ref().is_none_or(|(last, _)| last != node) {
            let first = scanned.requires.iter().rev();
            let first = first.map(|reference| (reference.text.as_str(), reference.line));
            lines = Some((*node, first.collect()));
        }
        let line = lines.as_ref().and_then(|(_, lines)| lines.get(&**reference).copied());
        let text = excerpt(reference);
        let problem = format!("it requires '{text}', which is not a snippet of these roots");
        problems.push(Problem { path: root.display_path(&scanned.path), line, problem });
    }
    let resolvers = scans.iter().map(|(root, scan)| (*root, ReferenceResolver::new(root, scan)));
    let resolvers: Vec<(&Root, ReferenceResolver<'_>)> = resolvers.collect();
    for cycle in closure.order(|node| snippet(node).scope() as usize).cycles {
        let ids: Vec<&str> = cycle.iter().map(|node| snippet(*node).id()).collect();
        let (Some(first), next) = (ids.first(), ids.get(1).or(ids.first())) else { continue };
        let Some((root, scanned)) = by_id.get(first) else { continue };
        let resolver =
            resolvers.iter().find(|(other, _)| other == root).map(|(_, resolver)| resolver);
        let mut edges = scanned.requires.iter().filter(|reference| {
            resolver
                .is_some_and(|resolver| Some(&resolver.resolve(&reference.text).as_str()) == next)
        });
        let line = edges.next().map(|reference| reference.line);
        let problem = Warning::cycle(&ids).message().to_owned();
        problems.push(Problem { path: root.display_path(&scanned.path), line, problem });
    }
    for (number, (root, scan)) in scans.iter().enumerate() {
        for (path, reference) in &scan.baseline {
            if is_manifest(&reference.text) || catalog.resolve(number, &reference.text).is_some() {
                continue;
            }
            let text = excerpt(&reference.text);
            let problem = format!("it refers to '{text}', which is not a snippet of these roots");
            problems.push(Problem {
                path: root.display_path(path),
                line: Some(reference.line),
                problem,
            });
        }
    }
    Ok(problems)
}
