//! The memory packet next to what it cannot do without: reading the files' Markdown.

use std::sync::Arc;

use pannier_core::Timestamp;
use pannier_memory::{Memory, PacketBuilder, PacketFormat, PacketOptions};
use pannier_tokens::BytesOverFour;

use crate::measure::{ratio, show, side_by_side};

pub(crate) fn run() {
    println!("\nMemory: packets of large folders, against reading their Markdown alone.\n");
    println!("    entries  budget     format       read      packet    in all");
    for count in [100, 1_000] {
        let files = folder(count);
        let read = || Memory::from_files(files.iter().map(|(name, text)| (*name, text)));
        for (budget, format, query) in [
            (8_000, PacketFormat::Markdown, None),
            (8_000, PacketFormat::Json, None),
            (8_000, PacketFormat::Markdown, Some("roll back the gateway")),
            (100_000, PacketFormat::Markdown, None),
            (10_000_000, PacketFormat::Markdown, None),
        ] {
            let pack = || {
                let memory = read();
                let now: Timestamp = "2026-11-16T12:00:00Z".parse().expect("a time");
                let mut options = PacketOptions::new(now);
                (options.budget, options.format) = (budget, format);
                options.query = query.map(str::to_owned);
                let packer = PacketBuilder::new(&memory, options, Arc::new(BytesOverFour));
                packer.and_then(|packer| packer.packet()).expect("a packet").tokens_used
            };
            let (all, read) = side_by_side(pack, read);
            let format = match (format, query) {
                (PacketFormat::Json, _) => "json",
                (_, Some(_)) => "md, query",
                _ => "md",
            };
            let entries = format!("3 x {count}");
            println!(
                "    {entries:<8} {budget:<10} {format:<9} {:>9}  {:>9}  {:>6.2}x",
                show(read),
                show(all.saturating_sub(read)),
                ratio(all, read)
            );
        }
    }
}

/// Makes `count` tasks, decisions and learnings, each of a few lines.
fn folder(count: usize) -> Vec<(&'static str, String)> {
    let words = ["gateway", "deploy", "retry", "cache", "token", "login", "queue", "shard"];
    let sentence = |number: usize, length: usize| {
        let word = |place: usize| words[(number * 31 + place * place * 7) % words.len()];
        let text: Vec<&str> = (0..length).map(word).collect();
        text.join(" ") + "."
    };
    let dated = |name: &str| -> String {
        let entry = |number: usize| {
            let (month, day) = (1 + number % 11, 1 + number % 28);
            format!(
                "## [2026-{month:02}-{day:02}-{:06}] {name} {number}: {}\n\n**Context**: {}\n\n**Decision**: {}\n\n---\n\n",
                number % 240_000,
                sentence(number, 5),
                sentence(number + 1, 30),
                sentence(number + 2, 30),
            )
        };
        (0..count).map(entry).collect()
    };
    let task = |number: usize| {
        format!(
            "- [ ] Task {number}: {} #added:2026-05-{:02}\n  {}\n  - [ ] {}\n",
            sentence(number, 8),
            1 + number % 28,
            sentence(number + 3, 12),
            sentence(number + 4, 6),
        )
    };
    vec![
        ("CONSTITUTION.md", "- [ ] Never row alone.\n".to_owned()),
        ("TASKS.md", (0..count).map(task).collect()),
        ("DECISIONS.md", dated("Decision")),
        ("LEARNINGS.md", dated("Learning")),
    ]
}
