//! Resolves references to paths below a root.
//!
//! A reference is an id or a path relative to the root of the file that contains it. The path may start with the last
//! folders of the root's path: in a root `docs`, `@docs/a.md` and `@a.md` are the same file. Paths are
//! only compared with the paths of snippets, never looked up on disk, so a reference cannot escape the root. An
//! [alias](Alias) replaces the start of a reference.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use crate::SnippetsError;
use crate::root::{Root, is_below};

/// Another name for a path, as in `@~/handbook=docs/global`. References and paths that start with it mean that path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    prefix: String,
    target: String,
}

impl Alias {
    /// Replaces the prefix of a path, without its `@`.
    pub(crate) fn apply(&self, name: &str) -> Option<String> {
        let rest = name.strip_prefix(&self.prefix)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", self.target))
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}={}", self.prefix, self.target)
    }
}

impl FromStr for Alias {
    type Err = SnippetsError;

    fn from_str(text: &str) -> Result<Self, SnippetsError> {
        let parts = text.split_once('=').map(|(prefix, target)| {
            [name(prefix.trim()), target.trim()].map(|part| part.trim_end_matches('/'))
        });
        let is_path = |part: &&str| {
            !part.is_empty() && part.len() <= 4_096 && !part.contains(char::is_control)
        };
        match parts.filter(|parts| parts.iter().all(is_path)) {
            Some([prefix, target]) => {
                Ok(Self { prefix: prefix.to_owned(), target: target.to_owned() })
            }
            None => Err(SnippetsError::InvalidAlias { alias: crate::id::excerpt(text) }),
        }
    }
}

/// Strips the `@` of a reference.
pub(crate) fn name(reference: &str) -> &str {
    reference.strip_prefix('@').unwrap_or(reference)
}

/// Returns the paths below `root` that a reference can stand for, in order of preference.
pub(crate) fn paths(root: &Root, name: &str) -> Vec<String> {
    let mut segments: Vec<&str> = Vec::new();
    for segment in name.split('/') {
        match segment {
            // A path outside of the root matches nothing.
            ".." if segments.pop().is_none() => return Vec::new(),
            "." | ".." => {}
            segment => segments.push(segment),
        }
    }
    let path = segments.join("/");
    let without_name = root.without_name(&path).map(str::to_owned);
    let mut paths: Vec<String> = [path].into_iter().chain(without_name).collect();
    paths.retain(|path| is_below(path));
    paths
}

/// Resolves a reference `~/rest` against the home folder. Returns its path below `root`, if it is there.
pub(crate) fn path_from_home(root: &Root, home: &Path, rest: &str) -> Option<String> {
    let mut path = PathBuf::from(home);
    for component in Path::new(rest).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => _ = path.pop(),
            Component::Prefix(_) | Component::RootDir => return None,
        }
    }
    root.strip_root(&path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Roots;
    use crate::test::Scratch;

    #[test]
    fn paths_are_relative_to_the_root_with_or_without_its_name() {
        let scratch = Scratch::new("references");
        scratch.write("docs/a.md", "");
        let roots = Roots::open([scratch.path().join("docs")], None).unwrap();
        let resolved = |name: &str| paths(roots.get(0), name).join(" ");
        assert_eq!(resolved("a.md"), "a.md");
        assert_eq!(resolved("docs/a.md"), "docs/a.md a.md");
        assert_eq!(resolved("./b/../a.md"), "a.md");
        assert_eq!(resolved("docs/docs/a.md"), "docs/docs/a.md docs/a.md");
        for outside in
            ["../a.md", "docs/../../docs/a.md", "/etc/passwd", "", "a\0b", "docs", "a//b"]
        {
            assert!(!resolved(outside).contains("passwd"), "{outside}");
            assert!(matches!(&*resolved(outside), "" | "docs"), "{outside}: {}", resolved(outside));
        }
        let above = scratch.path().file_name().unwrap().to_str().unwrap();
        assert_eq!(resolved(&format!("{above}/docs/a.md")).split(' ').nth(1), Some("a.md"));
        let home = roots.get(0).real_path().parent().unwrap();
        let from_home = |rest: &str| path_from_home(roots.get(0), home, rest);
        assert_eq!(from_home("docs/b/a.md").as_deref(), Some("b/a.md"));
        assert_eq!(from_home("x/../docs/a.md").as_deref(), Some("a.md"));
        for outside in ["a.md", "docs", "../docs/a.md", "/etc/passwd", "docs/../a.md", ""] {
            assert_eq!(from_home(outside), None, "{outside}");
        }
    }

    #[test]
    fn aliases_replace_whole_segments() {
        let alias: Alias = "@~/.tool/docs/=docs/global/".parse().unwrap();
        assert_eq!(alias.to_string(), "@~/.tool/docs=docs/global");
        assert_eq!(alias.apply("~/.tool/docs/a.md").as_deref(), Some("docs/global/a.md"));
        assert_eq!(alias.apply("~/.tool/docs").as_deref(), Some("docs/global"));
        assert_eq!(alias.apply("~/.tool/docs2/a.md"), None);
        for invalid in ["", "a", "=b", "@=b", "a=", "a=/", "a=b\nc"] {
            assert!(invalid.parse::<Alias>().is_err(), "{invalid}");
        }
    }
}
