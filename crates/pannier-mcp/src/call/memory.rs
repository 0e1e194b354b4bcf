//! The call about what a project remembers.

use std::time::SystemTime;

use pannier_memory::{Config, PacketBuilder, PacketFormat, PacketOptions};

use crate::answer::Answer;
use crate::arguments::{Packet, PacketForm};
use crate::tool_error::ToolError;
use pannier::Shelf;

use crate::counter::counter;
use crate::work::Watch;

/// As `pannier packet`.
pub(super) fn packet(
    arguments: &Packet,
    shelf: &Shelf,
    watch: &Watch,
    most: usize,
) -> Result<Answer, ToolError> {
    let folder = shelf.memory(arguments.context.as_deref())?;
    let counter = counter(arguments.tokenizer.as_deref())?;
    watch.step("reading what the project remembers")?;
    let config = Config::read(folder)?;
    let memory = folder.read()?;
    let asked = arguments.query.iter().chain(&arguments.files).map(String::as_str);
    let now = arguments.now.unwrap_or_else(|| SystemTime::now().into());
    let mut options = PacketOptions::new(now).with_config(&config).with_query(asked);
    let budget = arguments.budget.or(shelf.packet_budget());
    options.budget = budget.unwrap_or(options.budget);
    options.include_timestamp = arguments.now.is_some();
    options.max_characters = arguments.max_chars;
    options.format = match arguments.format {
        PacketForm::Md => PacketFormat::Markdown,
        PacketForm::Json => PacketFormat::Json,
    };
    watch.step("packing")?;
    let packet = PacketBuilder::new(&memory, options, counter)?.packet()?;
    watch.step("writing the answer")?;
    let mut warnings: Vec<String> = memory.warnings().iter().map(ToString::to_string).collect();
    warnings.extend(packet.warnings());
    let answer = match arguments.format {
        PacketForm::Md => Answer::text("markdown", packet.text, most),
        PacketForm::Json => Answer::written(packet.text, most),
    };
    answer.map(|answer| answer.warn(warnings))
}
