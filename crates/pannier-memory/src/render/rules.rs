//! The rules of the constitution, which are in every packet.

use super::markdown::{bullet, content};
use super::{PacketFormat, json_element};
use crate::{Entry, Memory, PacketOptions, PacketPolicy, Section};

/// Renders the rules of `memory` in their order. Those of one list follow its introduction, and those of one section its
/// heading: without `Never` above it, a rule would state the opposite. The specification's packets have no headings.
pub(super) fn rules(memory: &Memory, options: &PacketOptions) -> Vec<String> {
    let policy = options.policy;
    let rules = memory.section(Section::Constitution).iter();
    let rules = rules.filter(|rule| policy.includes(rule));
    let headed = rules.map(|rule| (rule, rule.phase().filter(|_| policy == PacketPolicy::Memory)));
    match options.format {
        PacketFormat::Markdown => markdown(headed),
        PacketFormat::Json => headed.map(|(rule, heading)| json(rule, heading)).collect(),
    }
}

fn json(rule: &Entry, heading: Option<&str>) -> String {
    match heading {
        Some(heading) => json_element(&format!("[{heading}] {}", content(rule))),
        None => json_element(&content(rule)),
    }
}

fn markdown<'m>(rules: impl Iterator<Item = (&'m Entry, Option<&'m str>)>) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut last_heading, mut last_intro) = (None, None);
    for (rule, heading) in rules {
        if heading != last_heading {
            let separator = if lines.is_empty() { "" } else { "\n" };
            // Rules of a further file without headings must not seem to follow the last one.
            lines.push(format!("{separator}### {}\n\n", heading.unwrap_or(rule.path())));
            (last_heading, last_intro) = (heading, None);
        }
        let intro = rule.list_intro();
        lines.push(match intro {
            None => bullet("- ", rule.text()),
            Some(_) if intro == last_intro => bullet("  - ", rule.text()),
            Some(intro) => bullet("- ", intro) + &bullet("  - ", rule.text()),
        });
        last_intro = intro;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_further_file_do_not_follow_the_last_heading() {
        let first = Memory::from_files([("CONSTITUTION.md", "## Never\n\n- Row alone.\n")]);
        let second = Memory::from_files([("CONSTITUTION.md", "- Count heads.\n")]);
        let rules = first.entries().iter().chain(second.entries());
        let path = second.entries()[0].path();
        let text = markdown(rules.map(|rule| (rule, rule.phase()))).concat();
        assert_eq!(text, format!("### Never\n\n- Row alone.\n\n### {path}\n\n- Count heads.\n"));
    }
}
