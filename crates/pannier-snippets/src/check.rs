//! Everything that is wrong with the snippets of some roots, for people to put right.
//!
//! The files are what counts, not the indexes: indexes are made in memory, what is wrong is found by the same code that
//! answers requests, and then the indexes on the disk are compared with them.

use std::collections::BTreeMap;

use crate::graph::Closure;
use crate::index::{duplicates, index_text, meanings};
use crate::root::{INDEX, LONGEST_INDEX, Reader, Root, Unread};
use crate::scan::{Found, Problem, Scan, is_manifest, scan};
use crate::{Indexes, Roots, SnippetsError, Warning, yaml};

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
        let old = Reader::new(root).read(INDEX, LONGEST_INDEX);
        // Tokens are those of whatever counted them.
        let tokenizer = old.as_deref().ok().and_then(|text| yaml::read(text).ok()?.tokenizer);
        let counter = tokenizer.and_then(|name| pannier_tokens::counter(&name).ok());
        let counter = counter.unwrap_or_else(|| Box::new(pannier_tokens::BytesOverFour));
        let scan = scan(root, &*counter)?;
        let text = index_text(root, &scan, counter.name());
        let problem = match &old {
            Ok(old) if *old == text => None,
            Ok(_) => Some("it is out of date; run `pannier snippets index`".to_owned()),
            Err(Unread::Missing) => {
                Some("it is not there; make it with `pannier snippets index`".to_owned())
            }
            Err(unread) => Some(unread.problem().to_owned()),
        };
        let path = root.shown(INDEX);
        problems.extend(problem.map(|problem| Problem { path, line: None, problem }));
        problems.extend(scan.problems.iter().cloned());
        scans.push((root, scan));
    }
    let ids = duplicates(&scans);
    for duplicate in &ids {
        let (id, other) = (&duplicate.id, &duplicate.path);
        let line = line_of_id(&scans, &duplicate.other);
        let problem = format!("the id '{id}' is that of {other}, too; rename one");
        problems.push(Problem { path: duplicate.other.clone(), line, problem });
    }
    keep_first(&mut scans);
    problems.extend(requirements(roots, &scans)?);
    problems.sort_unstable();
    problems.dedup();
    Ok(problems)
}

fn line_of_id(scans: &[(&Root, Scan)], shown: &str) -> Option<usize> {
    let all =
        scans.iter().flat_map(|(root, scan)| scan.snippets.iter().map(|found| (*root, found)));
    let mut same = all.filter(|(root, found)| root.shown(&found.path) == shown);
    same.next().map(|(_, found)| found.id_line)
}

/// Of snippets with the same id, keeps the first, so that the rest can be looked at.
fn keep_first(scans: &mut [(&Root, Scan)]) {
    let mut seen = std::collections::BTreeSet::new();
    for (_, scan) in scans {
        scan.snippets.retain(|found| seen.insert(found.id.clone()));
    }
}

/// What is wrong with requirements and manifests.
fn requirements(roots: &Roots, scans: &[(&Root, Scan)]) -> Result<Vec<Problem>, SnippetsError> {
    let texts = scans.iter().map(|(root, scan)| index_text(root, scan, "")).collect();
    let indexes = Indexes::from_texts(roots.clone(), texts);
    let catalogue = indexes.catalogue()?;
    let all: Vec<u32> = (0..).take(catalogue.snippets().len()).collect();
    let closure = Closure::new(&catalogue, &all);
    let snippet = |node: u32| &catalogue.snippets()[closure.snippets[node as usize] as usize];
    let found =
        scans.iter().flat_map(|(root, scan)| scan.snippets.iter().map(|found| (*root, found)));
    let found: BTreeMap<&str, (&Root, &Found)> =
        found.map(|(root, found)| (found.id.as_str(), (root, found))).collect();
    let mut problems = Vec::new();
    for (node, reference) in &closure.dangling {
        let Some((root, found)) = found.get(snippet(*node).id()) else { continue };
        let Warning::Dangling { requires, .. } = Warning::dangling(&found.id, reference) else {
            continue;
        };
        let lines = found.requires.iter().filter(|other| other.text == requires);
        let shown = crate::id::beginning(reference);
        let problem = format!("it requires '{shown}', which is not there");
        let line = lines.map(|reference| reference.line).next();
        problems.push(Problem { path: root.shown(&found.path), line, problem });
    }
    for cycle in closure.order(|node| snippet(node).scope() as usize).cycles {
        let ids: Vec<&str> = cycle.iter().map(|node| snippet(*node).id()).collect();
        let (Some(first), next) = (ids.first(), ids.get(1).or(ids.first())) else { continue };
        let Some((root, found)) = found.get(first) else { continue };
        let scan = scans.iter().find(|(other, _)| other == root).map(|(_, scan)| scan);
        let line = scan.and_then(|scan| {
            let meant = meanings(
                root,
                scan,
                found.requires.iter().map(|reference| reference.text.as_str()),
            );
            let place = meant.iter().position(|meant| Some(&meant.as_str()) == next)?;
            found.requires.get(place).map(|reference| reference.line)
        });
        let problem = Warning::cycle(&ids).message().to_owned();
        problems.push(Problem { path: root.shown(&found.path), line, problem });
    }
    for (place, (root, scan)) in scans.iter().enumerate() {
        for (path, reference) in &scan.baseline {
            if is_manifest(&reference.text) || catalogue.resolve(place, &reference.text).is_some() {
                continue;
            }
            let shown = crate::id::beginning(&reference.text);
            let problem = format!("it refers to '{shown}', which is not there");
            problems.push(Problem { path: root.shown(path), line: Some(reference.line), problem });
        }
    }
    Ok(problems)
}
