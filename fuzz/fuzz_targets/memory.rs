//! Arbitrary bytes as the files of a context folder. The memory holds its invariants, and a packet of it keeps its budget or
//! reports that it does not.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pannier_memory::{PacketBuilder, PacketFormat, PacketOptions};
use pannier_tokens::BytesOverFour;

#[path = "../../crates/pannier-memory/tests/support/invariants.rs"]
mod invariants;

fuzz_target!(|data: &[u8]| {
    // 0xff is not in any UTF-8 text, so it separates files.
    let files: Vec<(&str, &[u8])> =
        invariants::NAMES.into_iter().zip(data.split(|byte| *byte == 0xff)).collect();
    let memory = invariants::check(&files);
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
