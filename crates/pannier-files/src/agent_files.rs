//! Files in which other tools instruct agents: `AGENTS.md` and its kin, rules of Cursor, and skills.
//!
//! [`find_agent_files`] lists them below a root, and [`AgentFront`] reads their front matter. Much of it is not strict YAML:
//! `globs: *.ts` is an alias in YAML, and `description: Rules: all` an error. So it is read line by line, and lines without
//! meaning are skipped.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The maximum number of files below a root.
pub const MAX_AGENT_FILES: usize = 500;

/// The maximum number of entries that are listed below a root.
const MAX_LISTED: usize = 20_000;

/// The maximum depth of folders below a folder of rules or skills.
const MAX_DEPTH: usize = 4;

/// The files that always apply, in reading order.
const INSTRUCTIONS: [&str; 4] =
    ["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md"];

/// The folder of Cursor's rules.
const RULES: &str = ".cursor/rules";

/// The folders with a folder for each skill.
const SKILLS: [&str; 7] = [
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
    ".cursor/skills",
    ".gemini/skills",
    ".github/skills",
    "skills",
];

/// The kind of a file that instructs agents, in reading order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentFileKind {
    /// Instructions that always apply, such as `AGENTS.md`.
    Instructions,
    /// A rule with the files that it applies to: `.cursor/rules/*.mdc`.
    Rule,
    /// A skill that an agent opens when it needs it: `SKILL.md` in a folder of its own.
    Skill,
}

/// A file that instructs agents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentFile {
    /// The kind.
    pub kind: AgentFileKind,
    /// The path below the root, with forward slashes.
    pub path: String,
}

/// The files below a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFiles {
    /// Instructions in reading order, then rules and skills by path.
    pub files: Vec<AgentFile>,
    /// The folders that could not be listed, each with the error of the operating system.
    pub unread: Vec<(String, String)>,
    /// Whether there are more than [`MAX_AGENT_FILES`].
    pub is_truncated: bool,
}

/// Lists the files below `root` that instruct agents. It does not open them, and follows no link to a folder outside of
/// `root`. A link to a file is listed: who reads it must check its target.
///
/// # Errors
///
/// The error of the operating system if `root` is not a folder.
pub fn find_agent_files(root: &Path) -> io::Result<AgentFiles> {
    let root = root.canonicalize()?;
    let mut found = AgentFiles::default();
    for path in INSTRUCTIONS {
        if fs::symlink_metadata(root.join(path)).is_ok() {
            found
                .files
                .push(AgentFile { kind: AgentFileKind::Instructions, path: path.to_owned() });
        }
    }
    let mut search =
        Search { root: &root, visited: BTreeSet::new(), listed: 0, unread: Vec::new() };
    let is_rule = |name: &str| name.ends_with(".mdc");
    let is_skill = |name: &str| name == "SKILL.md";
    let mut others = Vec::new();
    search.files(RULES, &is_rule, AgentFileKind::Rule, &mut others);
    for folder in SKILLS {
        search.files(folder, &is_skill, AgentFileKind::Skill, &mut others);
    }
    others.sort_unstable();
    found.files.append(&mut others);
    found.unread = search.unread;
    found.is_truncated = search.listed >= MAX_LISTED || found.files.len() > MAX_AGENT_FILES;
    found.files.truncate(MAX_AGENT_FILES);
    Ok(found)
}

struct Search<'r> {
    root: &'r Path,
    /// The canonical paths of listed folders. One folder may have several names by links.
    visited: BTreeSet<PathBuf>,
    listed: usize,
    unread: Vec<(String, String)>,
}

impl Search<'_> {
    /// Adds the files of a folder and of those below it whose names are wanted.
    fn files(
        &mut self,
        folder: &str,
        is_wanted: &dyn Fn(&str) -> bool,
        kind: AgentFileKind,
        found: &mut Vec<AgentFile>,
    ) {
        let mut folders = vec![(folder.to_owned(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            let mut names = match self.names(&folder) {
                Ok(names) => names,
                Err(error) => {
                    self.unread.push((folder, error.to_string()));
                    continue;
                }
            };
            // Of several names of a folder, the first in order is used; the last folder is listed next.
            names.sort_unstable_by(|a, b| b.cmp(a));
            for name in names.into_iter().filter(|name| !name.contains(char::is_control)) {
                let path = format!("{folder}/{name}");
                if self.root.join(&path).is_dir() {
                    folders.extend((depth < MAX_DEPTH).then_some((path, depth + 1)));
                } else if is_wanted(&name) {
                    found.push(AgentFile { kind, path });
                }
            }
        }
    }

    /// Returns the names in a folder; none if it is missing, outside of the root or already listed.
    fn names(&mut self, folder: &str) -> io::Result<Vec<String>> {
        let real = match self.root.join(folder).canonicalize() {
            Ok(real) if real.starts_with(self.root) && real.is_dir() => real,
            Ok(_) => return Ok(Vec::new()),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        if !self.visited.insert(real.clone()) {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&real)?.take(MAX_LISTED - self.listed) {
            self.listed += 1;
            // Names that are not UTF-8 are skipped: nothing could show them.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }
}

/// The front matter of a rule or a skill, as far as it can be read.
///
/// ```
/// use pannier_files::AgentFront;
///
/// let front = AgentFront::parse("description: Boats: all of them\nglobs: *.rs,src/**/*.{ts,tsx}\nalwaysApply: false\n");
/// assert_eq!(front.description.as_deref(), Some("Boats: all of them"));
/// assert_eq!(front.globs, ["*.rs", "src/**/*.{ts,tsx}"]);
/// assert!(!front.always_apply);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFront {
    /// The name.
    pub name: Option<String>,
    /// The description, in one line.
    pub description: Option<String>,
    /// The patterns of files that a rule applies to.
    pub globs: Vec<String>,
    /// Whether a rule applies to every file.
    pub always_apply: bool,
}

impl AgentFront {
    /// Reads the text between the fences.
    pub fn parse(front: &str) -> Self {
        let mut parsed = Self::default();
        for (key, lines) in fields(front) {
            let one_line = || Some(one_line(&lines)).filter(|text| !text.is_empty());
            match key.to_ascii_lowercase().as_str() {
                "name" => parsed.name = one_line(),
                "description" => parsed.description = one_line(),
                "globs" => parsed.globs = list(&lines),
                "alwaysapply" => {
                    let value = one_line().unwrap_or_default();
                    let value = value.split_whitespace().next().unwrap_or_default();
                    parsed.always_apply = value.eq_ignore_ascii_case("true");
                }
                _ => {}
            }
        }
        parsed
    }
}

/// Returns the keys without indentation, each with its value and the lines below it, up to the next key.
fn fields(front: &str) -> Vec<(&str, Vec<&str>)> {
    let mut fields: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in front.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let key = line.split_once(':').filter(|(key, _)| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !key.is_empty() && !key.starts_with('-') && key.bytes().all(is_part)
        });
        match (key, fields.last_mut()) {
            (Some((key, value)), _) => fields.push((key, vec![value.trim()])),
            (None, Some((_, lines))) => lines.push(line.trim()),
            (None, None) => {}
        }
    }
    fields
}

/// Joins the lines of a value, without the mark of a block and without quotes.
fn one_line(lines: &[&str]) -> String {
    let is_block = |line: &&&str| {
        let rest = line.strip_prefix(['>', '|']);
        rest.is_some_and(|rest| rest.bytes().all(|byte| matches!(byte, b'+' | b'-' | b'0'..=b'9')))
    };
    let skipped = usize::from(lines.first().filter(is_block).is_some());
    let words = lines[skipped..].iter().flat_map(|line| line.split_whitespace());
    unquote(&words.collect::<Vec<_>>().join(" ")).to_owned()
}

/// Returns the elements of a list: in brackets, separated by commas, or one in each line.
fn list(lines: &[&str]) -> Vec<String> {
    let lines = lines.iter().map(|line| line.strip_prefix("- ").unwrap_or(line).trim());
    let lines = lines.map(|line| line.strip_prefix('[').unwrap_or(line));
    let lines = lines.map(|line| line.strip_suffix(']').unwrap_or(line));
    let mut elements = Vec::new();
    for line in lines {
        // Commas in braces belong to a pattern.
        let (mut depth, mut start) = (0_usize, 0);
        for (index, byte) in line.bytes().chain([b',']).enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                b',' if depth == 0 || index == line.len() => {
                    elements.push(unquote(line[start..index].trim()).to_owned());
                    start = index + 1;
                }
                _ => {}
            }
        }
    }
    elements.retain(|element| !element.is_empty());
    elements
}

fn unquote(text: &str) -> &str {
    let quoted = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    quoted('"').or_else(|| quoted('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_store::tests::Scratch;

    fn write(scratch: &Scratch, path: &str) {
        let path = scratch.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    fn paths(scratch: &Scratch) -> Vec<String> {
        let found = find_agent_files(&scratch.0).unwrap();
        assert!(!found.is_truncated);
        found.files.into_iter().map(|file| file.path).collect()
    }

    #[test]
    fn files_are_found_in_reading_order() {
        let scratch = Scratch::new("agent-files");
        assert!(paths(&scratch).is_empty());
        for path in [
            "AGENTS.md",
            "docs/AGENTS.md",
            ".github/copilot-instructions.md",
            ".cursor/rules/b.mdc",
            ".cursor/rules/a/c.mdc",
            ".cursor/rules/notes.md",
            ".claude/skills/row/SKILL.md",
            ".claude/skills/row/more.md",
            "skills/sail/SKILL.md",
        ] {
            write(&scratch, path);
        }
        assert_eq!(
            paths(&scratch),
            [
                "AGENTS.md",
                ".github/copilot-instructions.md",
                ".cursor/rules/a/c.mdc",
                ".cursor/rules/b.mdc",
                ".claude/skills/row/SKILL.md",
                "skills/sail/SKILL.md",
            ]
        );
    }

    #[test]
    fn too_many_files_are_truncated() {
        let scratch = Scratch::new("agent-many");
        for number in 0..=MAX_AGENT_FILES {
            write(&scratch, &format!(".cursor/rules/{number}.mdc"));
        }
        let found = find_agent_files(&scratch.0).unwrap();
        assert!(found.is_truncated && found.files.len() == MAX_AGENT_FILES);
    }

    #[cfg(unix)]
    #[test]
    fn linked_folders_outside_the_root_are_not_listed() {
        use std::os::unix::fs::symlink;

        let scratch = Scratch::new("agent-links");
        write(&scratch, "outside/skills/row/SKILL.md");
        write(&scratch, "root/shared/sail/SKILL.md");
        let root = scratch.0.join("root");
        fs::create_dir_all(root.join("skills")).unwrap();
        symlink(scratch.0.join("outside/skills"), root.join("skills/out")).unwrap();
        symlink("../shared", root.join("skills/in")).unwrap();
        symlink("..", root.join("skills/up")).unwrap();
        let found = find_agent_files(&root).unwrap();
        let paths: Vec<&str> = found.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["skills/in/sail/SKILL.md"]);
    }

    #[test]
    fn front_matter_need_not_be_yaml() {
        let globs = |front: &str| AgentFront::parse(front).globs;
        assert_eq!(globs("globs: *.ts, **/*.{js,jsx}\n"), ["*.ts", "**/*.{js,jsx}"]);
        assert_eq!(globs("globs: [\"*.ts\", 'b/**']\n"), ["*.ts", "b/**"]);
        assert_eq!(globs("globs:\n  - \"*.ts\"\n  - b\nx: y\n"), ["*.ts", "b"]);
        assert_eq!(globs("globs:\n- *.ts\n- **/*\n"), ["*.ts", "**/*"]);
        assert!(globs("globs:\nalwaysApply: true\n").is_empty());
        assert_eq!(globs("globs: {a,b\n"), ["{a,b"]);
        let description = |front: &str| AgentFront::parse(front).description.unwrap_or_default();
        for front in [
            "description: >-\n  Use it: always,\n  when you row.\nname: x\n",
            "description: |\n  Use it: always,\n\n  when you row.\n",
            "description: Use it: always, when you row.\n",
            "# c\ndescription: \"Use it: always, when you row.\"\n",
            "description: Use it: always,\n  when you row.\n",
        ] {
            assert_eq!(description(front), "Use it: always, when you row.", "{front}");
        }
        assert_eq!(description("description:\n"), "");
        assert!(AgentFront::parse("alwaysApply: true # c\n").always_apply);
        assert_eq!(AgentFront::parse("words\n: x\n- a: b\n  name: x\n"), AgentFront::default());
    }

    proptest::proptest! {
        #[test]
        fn any_front_matter_is_read(front in "(name|globs|description|-|: |[a-z:>|\\-\\[\\]{},'\" \n\u{e9}]){0,80}") {
            let AgentFront { name, description, globs, .. } = AgentFront::parse(&front);
            proptest::prop_assert!(name.iter().chain(&description).chain(&globs).all(|text| !text.contains('\n')));
        }
    }
}
