//! Writes `docs/reference/cli.md` from the declarations of the commands.
//!
//! `PANNIER_BLESS=1 cargo test -p pannier-cli --lib reference` writes the page.

#![cfg(all(feature = "inspector", feature = "schema", feature = "server"))]

use clap::{Arg, Command};

use crate::arguments::command;
use crate::error::EXIT_CODES;
use crate::interrupt::INTERRUPTED;

const INTRODUCTION: &str = "\
# The command line

The tests write this page from the declarations of the commands; `pannier COMMAND --help` prints the same. A number of tokens may be written `8000`, `8k`, `1.5m` or `200_000`. \
[Configuration](configuration.md) has the keys of `pannier.toml` and the variables.
";

const FORMER: &str = "
## Commands of the specifications

`build`, `resolve`, `assemble`, `inspect --cache`, `agent` and `mcp` keep the names, flags, defaults and output of their specifications. They ignore `pannier.toml` and the variables; \
only `mcp` reads `[serve]`. `pannier COMMAND --help` prints their flags.
";

#[test]
fn the_page_lists_all_commands() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    let page = page();
    if std::env::var_os("PANNIER_BLESS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == page, "docs/reference/cli.md is outdated; see this test");
}

fn page() -> String {
    let mut root = command();
    root.build();
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## All commands\n\n");
    push_options(&mut page, root.get_arguments().filter(|arg| arg.is_global_set()));
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        push_command(&mut page, "pannier", command);
    }
    page.push_str(FORMER);
    page.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    page.push_str("| 0 | success, also for an empty selection |\n");
    for (_, code, description) in EXIT_CODES {
        page.push_str(&format!("| {code} | {description} |\n"));
    }
    page.push_str(&format!(
        "| {INTERRUPTED} | interrupted during a search; the known part is printed |\n\n\
         A reader that closes the pipe (`pannier pack … \\| head -1`) is not an error.\n"
    ));
    page
}

fn push_command(page: &mut String, parent: &str, command: &Command) {
    let name = format!("{parent} {}", command.get_name());
    let shown = |command: &&Command| !command.is_hide_set();
    page.push_str(&format!("\n## {name}\n\n"));
    let about = command.get_long_about().or(command.get_about());
    page.push_str(&sentences(&about.map(ToString::to_string).unwrap_or_default()));
    let options = || command.get_arguments().filter(|arg| !arg.is_global_set());
    let is_parent = command.get_subcommands().any(|command| shown(&command));
    // A command such as `memory` can do something itself.
    if !is_parent || options().any(is_listed) {
        let usage = command.clone().render_usage().to_string();
        page.push_str(&format!("\n```text\n{}\n```\n\n", usage.trim_start_matches("Usage: ")));
        push_options(page, options());
    }
    if let Some(examples) = command.get_after_help() {
        let text = examples.to_string();
        let lines = text.lines().skip(1).map(|line| line.strip_prefix("  ").unwrap_or(line));
        let lines: Vec<&str> = lines.collect();
        page.push_str(&format!("\n```text\n{}\n```\n", lines.join("\n")));
    }
    for command in command.get_subcommands().filter(shown) {
        push_command(page, &name, command);
    }
}

fn is_listed(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version" | "otlp")
}

fn push_options<'a>(page: &mut String, options: impl Iterator<Item = &'a Arg>) {
    let rows: Vec<String> = options.filter(|arg| is_listed(arg)).map(row).collect();
    if !rows.is_empty() {
        page.push_str(&format!("| option | meaning |\n|---|---|\n{}", rows.concat()));
    }
}

fn row(arg: &Arg) -> String {
    let values: Vec<String> =
        arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let value =
        if arg.get_num_args().is_some_and(|count| count.takes_values()) && !values.is_empty() {
            format!(" {}", values.join(" "))
        } else {
            String::new()
        };
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (Some(short), None) => format!("-{short}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        (None, None) => values.join(" "),
    };
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let possible: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !possible.is_empty()
        && !arg.is_hide_possible_values_set()
        && arg.get_num_args().is_some_and(|count| count.takes_values())
    {
        help.push_str(&format!(": {}", possible.join(", ")));
    }
    let defaults = arg.get_default_values();
    if !defaults.is_empty()
        && !arg.is_hide_default_value_set()
        && arg.get_num_args().is_some_and(|count| count.takes_values())
    {
        let defaults: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        help.push_str(&format!(" [default: {}]", defaults.join(",")));
    }
    format!(
        "| `{}` | {} |\n",
        name.replace('|', "\\|"),
        help.replace('|', "\\|").replace('\n', " ")
    )
}

/// The first line of a description has no period.
fn sentences(about: &str) -> String {
    let paragraphs = about.split("\n\n").map(|paragraph| {
        let paragraph = paragraph.replace('\n', " ");
        if paragraph.ends_with(['.', ':', '?']) { paragraph } else { format!("{paragraph}.") }
    });
    let paragraphs: Vec<String> = paragraphs.collect();
    paragraphs.join("\n\n") + "\n"
}
