//! The tool `memory_packet`.

use std::time::SystemTime;

use pannier::Shelf;
use pannier_memory::{Config, PacketBuilder, PacketFormat, PacketOptions};

use crate::arguments::{Packet, PacketForm};
use crate::counter::counter;
use crate::executor::CallControl;
use crate::tool_error::ToolError;
use crate::tool_output::ToolOutput;

/// Returns the output of `pannier packet`.
pub(super) fn packet(
    arguments: &Packet,
    shelf: &Shelf,
    control: &CallControl,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let folder = shelf.memory(arguments.context.as_deref())?;
    let counter = counter(arguments.tokenizer.as_deref())?;
    control.step("reading the project's memory")?;
    let config = Config::read(&folder)?;
    let memory = folder.read()?;
    let query = arguments.query.iter().chain(&arguments.files).map(String::as_str);
    let now = arguments.now.unwrap_or_else(|| SystemTime::now().into());
    let mut options = PacketOptions::new(now).with_config(&config).with_query(query);
    let budget = arguments.budget.or(shelf.packet_budget());
    options.budget = budget.unwrap_or(options.budget);
    options.include_timestamp = arguments.now.is_some();
    options.max_characters = arguments.max_chars;
    options.format = match arguments.format {
        PacketForm::Md => PacketFormat::Markdown,
        PacketForm::Json => PacketFormat::Json,
    };
    control.step("packing entries")?;
    let packet = PacketBuilder::new(&memory, options, counter)?.packet()?;
    control.step("serializing")?;
    let mut warnings: Vec<String> = memory.warnings().iter().map(ToString::to_string).collect();
    warnings.extend(packet.warnings());
    let output = match arguments.format {
        PacketForm::Md => ToolOutput::text("markdown", packet.text, max_bytes),
        PacketForm::Json => ToolOutput::from_json(packet.text, max_bytes),
    };
    output.map(|output| output.with_warnings(warnings))
}
