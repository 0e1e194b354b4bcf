//! The files of a context folder are foreign: whatever their bytes, something is made of them, every entry stands in a
//! line that is there, and no two have the same id. A packet of it keeps to its budget, or says that it does not.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pannier_memory::{Memory, PacketBuilder, PacketFormat, PacketOptions};
use pannier_tokens::BytesOverFour;

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
    for format in [PacketFormat::Markdown, PacketFormat::Json] {
        let mut options = PacketOptions::new("2026-11-16T12:00:00Z".parse().unwrap());
        options.budget = data.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 997;
        (options.format, options.query) = (format, Some("deploy the gateway".to_owned()));
        let budget = options.budget;
        let builder = PacketBuilder::new(&memory, options, Arc::new(BytesOverFour)).unwrap();
        let packet = builder.packet().unwrap();
        assert_eq!(packet.text.len().div_ceil(4), packet.tokens_used);
        assert_eq!(packet.is_over_budget, packet.tokens_used > budget);
        assert!(!packet.is_over_budget || packet.text.contains("over budget"));
        if format == PacketFormat::Json {
            serde_json::from_str::<serde_json::Value>(&packet.text).unwrap();
        }
    }
});
