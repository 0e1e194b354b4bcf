//! The invariants of a memory read from any bytes. The fuzz target `memory` includes this file, too.

use std::collections::{BTreeMap, BTreeSet};

use pannier_memory::Memory;

pub(crate) const NAMES: [&str; 7] = [
    "CONSTITUTION.md",
    "TASKS.md",
    "CONVENTIONS.md",
    "DECISIONS.md",
    "LEARNINGS.md",
    "decisions/a.md",
    "learnings/a.md",
];

/// Reads files and checks the invariants that hold for any of them.
pub(crate) fn check<B: AsRef<[u8]> + Clone>(files: &[(&str, B)]) -> Memory {
    let memory = Memory::from_files(files.to_vec());
    let lines = files.iter().map(|(name, bytes)| {
        let text = String::from_utf8_lossy(bytes.as_ref()).replace("\r\n", "\n");
        (format!(".context/{name}"), 1 + text.matches(['\n', '\r']).count())
    });
    let lines: BTreeMap<String, usize> = lines.collect();
    let mut ids = BTreeSet::new();
    for entry in memory.entries() {
        assert!((1..=lines[entry.path()]).contains(&entry.line()), "{entry:?}");
        assert!(ids.insert(entry.id()), "duplicate id {}", entry.id());
        assert!(!entry.title().trim().is_empty() && !entry.title().contains('\n'), "{entry:?}");
        // A decision may be a heading and nothing else.
        assert!(entry.section().is_dated() || !entry.text().trim().is_empty(), "{entry:?}");
        assert!(!entry.text().contains('\r') && entry.text() == entry.text().trim_end());
    }
    assert!(memory.entries().is_sorted_by_key(|entry| entry.section()));
    memory
}
