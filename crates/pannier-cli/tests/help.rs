//! Short help fits a screen.

use std::process::Command;

fn help(words: &[String], flag: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
    let output = command.args(words).arg(flag).env("COLUMNS", "80").output().unwrap();
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

/// Returns all commands and their subcommands. The overview lists its commands by purpose.
fn commands() -> Vec<Vec<String>> {
    let top = "pack chat docs memory snippets serve inspect policy tokens eval completions man";
    let mut commands: Vec<Vec<String>> = top.split(' ').map(|name| vec![name.to_owned()]).collect();
    let mut index = 0;
    while index < commands.len() {
        let words = commands[index].clone();
        let below = listed(&help(&words, "-h")).into_iter();
        commands.extend(below.map(|name| [words.clone(), vec![name]].concat()));
        index += 1;
    }
    commands
}

#[test]
fn every_short_help_fits_a_screen() {
    let commands = commands();
    assert!(commands.len() > 30, "{commands:?}");
    for words in commands.iter().chain([&Vec::new()]) {
        let text = help(words, "-h");
        let is_flag = |line: &&str| {
            let line = line.trim_start();
            line.starts_with('-') && !line.contains("--help")
        };
        assert!(text.lines().count() <= 24, "{words:?}: {} lines", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{words:?}");
        assert!(text.lines().filter(is_flag).count() <= 12, "{words:?}");
        for global in ["--output", "--quiet", "--verbose", "--color"] {
            assert!(!text.contains(global), "{words:?} {global}");
        }
    }
}

#[test]
fn long_help_has_the_global_flags() {
    for words in commands() {
        let text = help(&words, "--help");
        for global in ["--output", "--quiet", "--verbose", "--color"] {
            assert!(text.contains(global), "{words:?} {global}");
        }
    }
}
