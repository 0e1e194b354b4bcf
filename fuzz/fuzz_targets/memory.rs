//! The files of a context folder are foreign: whatever their bytes, something is made of them, every entry stands in a
//! line that is there, and no two have the same id.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::fuzz_target;
use pannier_memory::Memory;

const NAMES: [&str; 7] = [
    "CONSTITUTION.md",
    "TASKS.md",
    "CONVENTIONS.md",
    "DECISIONS.md",
    "LEARNINGS.md",
    "decisions/a.md",
    "learnings/a.md",
];

fuzz_target!(|data: &[u8]| {
    // A byte that is in no text is between two files.
    let files: Vec<(&str, &[u8])> =
        NAMES.into_iter().zip(data.split(|byte| *byte == 0xff)).collect();
    let memory = Memory::from_files(files.clone());
    let lines = files.iter().map(|(name, bytes)| {
        let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
        (format!(".context/{name}"), 1 + text.matches(['\n', '\r']).count())
    });
    let lines: BTreeMap<String, usize> = lines.collect();
    let mut ids = BTreeSet::new();
    for entry in memory.entries() {
        assert!((1..=lines[entry.path()]).contains(&entry.line()));
        assert!(ids.insert(entry.id()));
        assert!(!entry.title().trim().is_empty());
        // A decision may be a heading and nothing else.
        assert!(entry.section().is_dated() || !entry.text().trim().is_empty());
    }
});
