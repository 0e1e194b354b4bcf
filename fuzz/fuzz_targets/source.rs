//! Arbitrary bytes as the files of other tools, and as the text of a new entry. Every line is covered, a packet keeps its
//! budget, and an added entry is read back.

#![no_main]

use std::fs;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pannier_memory::{Folder, PacketBuilder, PacketOptions, Section, Sources, UserFolder};
use pannier_tokens::BytesOverFour;

const FILES: [&str; 5] = [
    "AGENTS.md",
    ".cursor/rules/a.mdc",
    ".claude/skills/a/SKILL.md",
    "user/NOTES.md",
    ".context/DECISIONS.md",
];

fuzz_target!(|data: &[u8]| {
    let folder = std::env::temp_dir().join(format!("pannier-fuzz-source-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join(".context")).expect("a folder");
    // A byte that is in no text is between two files.
    let mut parts = data.split(|byte| *byte == 0xff);
    let text = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    for (path, bytes) in FILES.into_iter().zip(parts) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    let found = Folder::find_project(&folder).expect("a project");
    let user = UserFolder::new(folder.join("user"), "~/user");
    let memory = found.read_with(Sources::User, Some(&user)).expect("a memory");
    for file in memory.coverage() {
        let covered = file.in_entries + file.headings + file.done + file.skipped;
        assert!(file.is_listed || covered + file.uncovered.len() == file.lines, "{file:?}");
    }
    let mut options = PacketOptions::new("2026-11-16T12:00:00Z".parse().expect("a time"));
    options.budget = data.iter().map(|byte| usize::from(*byte)).sum::<usize>() % 997;
    (options.sources, options.files) = (Sources::User, vec![text.clone()]);
    let budget = options.budget;
    let now = options.now;
    let builder = PacketBuilder::new(&memory, options, Arc::new(BytesOverFour)).expect("a builder");
    let packet = builder.packet().expect("a packet");
    assert!(packet.tokens_used <= budget || packet.is_over_budget);
    if let Ok(entry) = found.add(Section::Decisions, &text, now, &folder.join("locks")) {
        let memory = found.read().expect("a memory");
        let added = memory.entry(entry.id()).expect("the entry");
        assert_eq!((added.title(), added.text()), (entry.title(), entry.text()));
    }
});
