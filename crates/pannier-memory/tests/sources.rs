//! Files outside of the context folder: instructions, rules, skills, and the user's own folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_memory::{
    Folder, Memory, MemoryError, PacketBuilder, PacketFormat, PacketOptions, Section, Sources,
    UserFolder, render_entries,
};
use pannier_tokens::BytesOverFour;
use proptest::prelude::*;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("pannier-sources-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self) -> Memory {
        Folder::find_project(&self.0).unwrap().read_with(Sources::Project, None).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options(budget: usize) -> PacketOptions {
    let mut options = PacketOptions::new("2026-11-16T09:30:00Z".parse().unwrap());
    (options.budget, options.sources) = (budget, Sources::Project);
    options
}

fn pack(memory: &Memory, options: PacketOptions) -> String {
    PacketBuilder::new(memory, options, Arc::new(BytesOverFour)).unwrap().packet().unwrap().text
}

const AGENTS: &str = "# Boats\n\nRow east.\n\n## Testing\n\nRun `make test`.\n\n### Slow tests\n\nAt night.\n\n## Style <!-- x -->\n";
const RULE: &str = "---\ndescription: Queries: how to write them\nglobs: *.sql,src/db/**\nalwaysApply: false\n---\n\nName every column.\n";
const SKILL: &str = "---\nname: release\ndescription: >-\n  Cut a release.\n  Use it for tags.\n---\n# Release\n\nPush the tag.\n";

fn project(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.write("AGENTS.md", AGENTS);
    scratch.write(".cursor/rules/sql.mdc", RULE);
    scratch.write(".cursor/rules/all.mdc", "---\nalwaysApply: true\n---\nBe brief.\n");
    scratch.write(".claude/skills/release/SKILL.md", SKILL);
    scratch
}

#[test]
fn files_alone_give_a_packet() {
    let scratch = project("alone");
    assert!(matches!(Folder::find(&scratch.0), Err(MemoryError::NoFolder { .. })));
    let memory = scratch.read();
    assert_eq!(memory.warnings(), []);
    let text = pack(&memory, options(1_000));
    let body = text.split_once("tokens\n\n").unwrap().1;
    let skill = memory.section(Section::Skills)[0].short_id();
    let rule = memory.entries().iter().find(|entry| entry.title() == "sql").unwrap().short_id();
    assert!(
        body.starts_with(&format!(
            "## Instructions\n\n### AGENTS.md: Boats\n\nRow east.\n\n### AGENTS.md: Testing\n\nRun `make test`.\n\n#### Slow tests\n\nAt night.\n\n\
             ### .cursor/rules/all.mdc: all\n\nBe brief.\n\n\
             ## Also noted\n\nOpen an entry by its id: `pannier memory get ID`, or the tool `get_memory` with `ids`.\n\n\
             Skills and rules:\n\n\
             - {rule} sql: Queries: how to write them (.cursor/rules/sql.mdc)\n\
             - {skill} release: Cut a release. Use it for tags. (.claude/skills/release/SKILL.md)\n"
        )),
        "{text}"
    );
    // Bodies on demand.
    let whole = render_entries(&[memory.entry(skill).unwrap()], 500, &BytesOverFour);
    assert!(
        whole.contains(
            "release\n\n.claude/skills/release/SKILL.md:1\n\n#### Release\n\nPush the tag.\n"
        ),
        "{whole}"
    );
    for coverage in memory.coverage() {
        assert_eq!(coverage.uncovered, [0; 0], "{coverage:?}");
        assert_eq!(coverage.lines, coverage.in_entries + coverage.headings + coverage.skipped);
    }
}

#[test]
fn patterns_match_files() {
    let scratch = project("globs");
    let memory = scratch.read();
    let has_rule = |files: &[&str]| {
        let mut options = options(1_000);
        options.files = files.iter().map(|file| (*file).to_owned()).collect();
        pack(&memory, options).contains("### .cursor/rules/sql.mdc: sql\n\nName every column.\n")
    };
    for files in [&["a.sql"][..], &["x.rs", "deep/b.sql"], &["src/db/deep/a.rs"], &["./src/db/a"]] {
        assert!(has_rule(files), "{files:?}");
    }
    for files in [&[][..], &["src/a.rs"], &["other/src/db/a.rs"], &["sql"]] {
        assert!(!has_rule(files), "{files:?}");
    }
}

#[test]
fn sources_follow_the_rules_and_share_the_budget() {
    let scratch = Scratch::new("share");
    let parts: String = (0..60)
        .map(|number| format!("## Part {number}\n\n{}\n\n", "Words of a long file. ".repeat(20)))
        .collect();
    scratch.write("CLAUDE.md", parts);
    scratch.write(".context/CONSTITUTION.md", "- Never row alone.\n");
    let tasks: String =
        (0..200).map(|number| format!("- [ ] Task {number} about the pier\n")).collect();
    scratch.write(".context/TASKS.md", tasks);
    let memory = scratch.read();
    let text = pack(&memory, options(2_000));
    let position =
        |heading: &str| text.find(heading).unwrap_or_else(|| panic!("{heading}: {text}"));
    assert!(position("## Constitution") < position("## Instructions"));
    assert!(position("## Instructions") < position("## Current Tasks"));
    assert!(position("## Current Tasks") < position("Instructions:\n\n- i"));
    // A query finds a part, whole.
    let text = pack(&memory, options(2_000).with_query(["part 47"]));
    assert!(text.contains("### CLAUDE.md: Part 47\n"), "{text}");
    // The specification's packets have none of it.
    let mut seed = options(8_000);
    seed.policy = "packet-seed".parse().unwrap();
    assert!(!pack(&memory, seed).contains("Part"));
}

#[test]
fn packets_are_within_the_budget_and_keep_whole_entries() {
    let scratch = project("bounds");
    scratch.write(".context/TASKS.md", "- [ ] Paint the oars\n".repeat(30));
    for number in 0..30 {
        let skill = format!(
            "---\nname: s{number}\ndescription: {}\n---\nx\n",
            "Use it. ".repeat(number * 3)
        );
        scratch.write(&format!("skills/s{number}/SKILL.md"), skill);
    }
    let memory = scratch.read();
    let o200k: Arc<dyn TokenCounter> = Arc::from(pannier_tokens::counter_by_name("o200k").unwrap());
    let estimate: Arc<dyn TokenCounter> = Arc::new(BytesOverFour);
    for (counter, step) in [(estimate, 31), (o200k, 151)] {
        for format in [PacketFormat::Markdown, PacketFormat::Json] {
            let (mut before, mut steps, mut kept) = (BTreeSet::new(), 0, 0);
            for budget in (0..2_500).step_by(step) {
                let mut options = options(budget);
                options.format = format;
                let builder = PacketBuilder::new(&memory, options, Arc::clone(&counter)).unwrap();
                let packet = builder.packet().unwrap();
                assert_eq!(counter.count(&packet.text), packet.tokens_used);
                assert!(packet.tokens_used <= budget || budget < packet.min_tokens, "at {budget}");
                if format == PacketFormat::Json {
                    serde_json::from_str::<serde_json::Value>(&packet.text).unwrap();
                }
                let whole = builder.whole_indices().unwrap();
                steps += 1;
                kept += usize::from(before.is_subset(&whole));
                before = whole;
            }
            assert!(kept * 100 >= steps * 95, "{kept} of {steps} steps, {format:?}");
        }
    }
}

#[test]
fn a_user_folder_is_named_with_its_label() {
    let scratch = project("user");
    let home = Scratch::new("home");
    home.write("NOTES.md", "Answer in French.\n");
    home.write("CONVENTIONS.md", "# Conventions\n\n- Tabs\n");
    home.write("skills/tidy/SKILL.md", "Tidy up.\n");
    home.write("more/x.md", "not read\n");
    let user = UserFolder::new(&home.0, "~/mine");
    let folder = Folder::find_project(&scratch.0).unwrap();
    let memory = folder.read_with(Sources::User, Some(&user)).unwrap();
    let text = pack(&memory, options(1_000));
    assert!(text.contains("### ~/mine/NOTES.md\n\nAnswer in French.\n"), "{text}");
    assert!(text.contains("### ~/mine/CONVENTIONS.md: Conventions\n\n- Tabs\n"), "{text}");
    assert!(text.contains(" tidy (~/mine/skills/tidy/SKILL.md)\n"), "{text}");
    assert!(!text.contains("not read"), "{text}");
    let without = folder.read_with(Sources::Project, Some(&user)).unwrap();
    assert!(!pack(&without, options(1_000)).contains("mine"));
    let missing = UserFolder::new(home.0.join("none"), "~/none");
    assert_eq!(folder.read_with(Sources::User, Some(&missing)).unwrap(), without);
}

#[test]
fn equal_files_are_read_once() {
    let scratch = Scratch::new("equal");
    scratch.write("AGENTS.md", "Row east.\n");
    scratch.write("CLAUDE.md", "Row east.\n");
    let memory = scratch.read();
    assert_eq!(memory.entries().len(), 1);
    assert_eq!(memory.coverage()[1].same_as.as_deref(), Some("AGENTS.md"));
}

#[test]
fn a_project_ends_at_git() {
    let scratch = Scratch::new("git");
    scratch.write("AGENTS.md", "Row.\n");
    scratch.write("a/b/x", "");
    scratch.write("c/.git/x", "");
    scratch.write("c/d/x", "");
    let root = |path: &str| {
        Folder::find_project(scratch.0.join(path)).map(|found| found.root().to_owned())
    };
    assert_eq!(root("a/b").unwrap(), scratch.0.canonicalize().unwrap());
    assert!(root("c/d").is_err());
    // The skills of a folder above are not those of the project.
    let home = Scratch::new("skills");
    home.write(".claude/skills/x/SKILL.md", "x");
    home.write("project/x", "");
    assert!(Folder::find_project(&home.0).is_ok());
    assert!(Folder::find_project(home.0.join("project")).is_err());
}

#[cfg(unix)]
#[test]
fn links_out_of_the_project_and_long_files_are_not_read() {
    use std::os::unix::fs::symlink;

    let scratch = Scratch::new("escape");
    scratch.write("secret.md", "secret\n");
    scratch.write("project/.cursor/rules/x.mdc", "Be brief.\n");
    scratch.write("project/GEMINI.md", vec![b'x'; (1 << 20) + 1]);
    let project = scratch.0.join("project");
    symlink(scratch.0.join("secret.md"), project.join("AGENTS.md")).unwrap();
    symlink(scratch.0.join("secret.md"), project.join(".cursor/rules/y.mdc")).unwrap();
    let pipe = project.join("CLAUDE.md");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let memory = Folder::find_project(&project).unwrap().read_with(Sources::Project, None).unwrap();
    let titles: Vec<&str> = memory.entries().iter().map(|entry| entry.title()).collect();
    assert_eq!(titles, ["x"]);
    assert_eq!(memory.unread(), ["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursor/rules/y.mdc"]);
    let warnings: Vec<&str> =
        memory.warnings().iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(warnings, ["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursor/rules/y.mdc"]);
    assert!(pack(&memory, options(500)).contains("Not read: AGENTS.md, CLAUDE.md, GEMINI.md, .cursor"));
}

/// Reads one file as bytes of a project.
fn read_bytes(scratch: &Scratch, path: &str, bytes: &[u8]) -> Memory {
    let _ = fs::remove_dir_all(&scratch.0);
    fs::create_dir_all(&scratch.0).unwrap();
    scratch.write(path, bytes);
    scratch.read()
}

fn check_coverage(memory: &Memory) -> Result<(), TestCaseError> {
    for coverage in memory.coverage() {
        let covered = coverage.in_entries + coverage.headings + coverage.skipped + coverage.done;
        prop_assert_eq!(coverage.lines, covered + coverage.uncovered.len(), "{:?}", coverage);
        prop_assert!(coverage.uncovered.is_empty(), "{:?}", coverage);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300), file in 0..3_usize) {
        let path = ["AGENTS.md", ".cursor/rules/a.mdc", ".claude/skills/a/SKILL.md"][file];
        let scratch = Scratch::new(&format!("bytes-{file}"));
        let memory = read_bytes(&scratch, path, &bytes);
        let text = pack(&memory, options(300));
        prop_assert!(text.len() <= 1_200 || memory.entries().is_empty());
    }

    #[test]
    fn every_line_is_covered(
        lines in prop::collection::vec("(---|# A|## B|name: x|globs: \\*|- a|> q|```|<!-- c -->|<b>|\\| a \\||words|    code|)", 0..40),
        file in 0..3_usize,
    ) {
        let path = ["AGENTS.md", ".cursor/rules/a.mdc", ".claude/skills/a/SKILL.md"][file];
        let scratch = Scratch::new(&format!("lines-{file}"));
        check_coverage(&read_bytes(&scratch, path, lines.join("\n").as_bytes()))?;
    }
}
