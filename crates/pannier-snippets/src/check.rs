//! Everything that is wrong with the snippets of some roots, for people to put right.
//!
//! The files are what counts, not the indexes: indexes are made in memory, what is wrong is found by the same code that
//! answers requests, and then the indexes on the disk are compared with them.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::DuplicateId;
use crate::graph::DependencyClosure;
use crate::id::excerpt;
use crate::index::{ReferenceResolver, duplicates, index_text};
use crate::root::{INDEX, MAX_INDEX_BYTES, ReadFailure, Reader, Root};
use crate::scan::{Problem, Scan, ScannedSnippet, is_manifest, scan};
use crate::{Roots, SnippetIndexes, SnippetsError, Warning, yaml};

/// Looks for everything that is wrong with the snippets of these roots: fields that are missing or wrong, ids that are
/// there twice, requirements that lead nowhere or in a circle, files that cannot be read, and indexes that are missing or
/// out of date. In the order of paths and lines.
///
/// # Errors
///
/// [`SnippetsError::Io`] if a root cannot be looked into.
pub fn check(roots: &Roots) -> Result<Vec<Problem>, SnippetsError> {
    let mut scans: Vec<(&Root, Scan)> = Vec::new();
    let mut problems = Vec::new();
    for root in roots.iter() {
        let old = Reader::new(root).read(INDEX, MAX_INDEX_BYTES);
        // Tokens are those of whatever counted them.
        let tokenizer = old.as_deref().ok().and_then(|text| yaml::read(text).ok()?.tokenizer);
        let counter = tokenizer.and_then(|name| pannier_tokens::builtin_counter(&name).ok());
        let counter = counter.unwrap_or_else(|| Box::new(pannier_tokens::BytesOverFour));
        let scan = scan(root, &*counter)?;
        let text = index_text(root, &scan, counter.name());
        let problem = match &old {
            Ok(old) if *old == text => None,
            Ok(_) => Some("it is out of date; index the root again".to_owned()),
            Err(ReadFailure::Missing) => Some("it is missing; index the root".to_owned()),
            Err(unread) => Some(unread.problem().to_owned()),
        };
        let path = root.display_path(INDEX);
        problems.extend(problem.map(|problem| Problem { path, line: None, problem }));
        problems.extend(scan.problems.iter().chain(&scan.doubts).cloned());
        scans.push((root, scan));
    }
    let ids = duplicates(&scans);
    let all =
        scans.iter().flat_map(|(root, scan)| scan.snippets.iter().map(|found| (*root, found)));
    // Only the paths of those that are there twice are needed.
    let all = all.filter(|_| !ids.is_empty());
    let lines: BTreeMap<String, usize> =
        all.map(|(root, found)| (root.display_path(&found.path), found.id_line)).collect();
    for DuplicateId { id, path: first, other } in ids {
        let line = lines.get(&other).copied();
        let problem = format!("the id '{id}' is that of {first}, too; rename one");
        problems.push(Problem { path: other, line, problem });
    }
    keep_first(&mut scans);
    problems.extend(requirements(roots, &scans)?);
    problems.sort_unstable();
    problems.dedup();
    Ok(problems)
}

/// Of snippets with the same id, keeps the first, so that the rest can be looked at.
fn keep_first(scans: &mut [(&Root, Scan)]) {
    let mut seen = BTreeSet::new();
    for (_, scan) in scans {
        scan.snippets.retain(|found| seen.insert(found.id.clone()));
    }
}

/// What is wrong with requirements and manifests.
fn requirements(roots: &Roots, scans: &[(&Root, Scan)]) -> Result<Vec<Problem>, SnippetsError> {
    let texts = scans.iter().map(|(root, scan)| index_text(root, scan, "")).collect();
    let indexes = SnippetIndexes::from_texts(roots.clone(), texts);
    let catalog = indexes.catalog()?;
    let all: Vec<u32> = (0..).take(catalog.snippets().len()).collect();
    let closure = DependencyClosure::new(&catalog, &all);
    let snippet = |node: u32| &catalog.snippets()[closure.snippets[node as usize] as usize];
    let found =
        scans.iter().flat_map(|(root, scan)| scan.snippets.iter().map(|found| (*root, found)));
    let found: BTreeMap<&str, (&Root, &ScannedSnippet)> =
        found.map(|(root, found)| (found.id.as_str(), (root, found))).collect();
    let mut problems = Vec::new();
    // They come snippet by snippet.
    let mut lines: Option<(u32, BTreeMap<&str, usize>)> = None;
    for (node, reference) in &closure.dangling {
        let Some((root, found)) = found.get(snippet(*node).id()) else { continue };
        if lines.as_ref().is_none_or(|(last, _)| last != node) {
            let first = found.requires.iter().rev();
            let first = first.map(|reference| (reference.text.as_str(), reference.line));
            lines = Some((*node, first.collect()));
        }
        let line = lines.as_ref().and_then(|(_, lines)| lines.get(&**reference).copied());
        let shown = excerpt(reference);
        let problem = format!("it requires '{shown}', which is no snippet of these roots");
        problems.push(Problem { path: root.display_path(&found.path), line, problem });
    }
    let meanings = scans.iter().map(|(root, scan)| (*root, ReferenceResolver::new(root, scan)));
    let meanings: Vec<(&Root, ReferenceResolver<'_>)> = meanings.collect();
    for cycle in closure.order(|node| snippet(node).scope() as usize).cycles {
        let ids: Vec<&str> = cycle.iter().map(|node| snippet(*node).id()).collect();
        let (Some(first), next) = (ids.first(), ids.get(1).or(ids.first())) else { continue };
        let Some((root, found)) = found.get(first) else { continue };
        let meaning = meanings.iter().find(|(other, _)| other == root).map(|(_, meaning)| meaning);
        let mut same = found.requires.iter().filter(|reference| {
            meaning.is_some_and(|meaning| Some(&meaning.of(&reference.text).as_str()) == next)
        });
        let line = same.next().map(|reference| reference.line);
        let problem = Warning::cycle(&ids).message().to_owned();
        problems.push(Problem { path: root.display_path(&found.path), line, problem });
    }
    for (place, (root, scan)) in scans.iter().enumerate() {
        for (path, reference) in &scan.baseline {
            if is_manifest(&reference.text) || catalog.resolve(place, &reference.text).is_some() {
                continue;
            }
            let shown = excerpt(&reference.text);
            let problem = format!("it refers to '{shown}', which is no snippet of these roots");
            problems.push(Problem {
                path: root.display_path(path),
                line: Some(reference.line),
                problem,
            });
        }
    }
    Ok(problems)
}
