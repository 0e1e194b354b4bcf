//! What a reference means.
//!
//! A reference is an id, or a path below the root of the file it stands in, whose own name may come first: `@docs/a.md` and
//! `@a.md` are the same file of a root called `docs`. The working directory has nothing to do with it. Only the paths of
//! snippets are compared; nothing is looked up on the disk, so there is nowhere that a path could lead.

use std::path::{Component, Path, PathBuf};

use crate::root::{Root, is_below};

/// A reference without the sign that marks it in a text.
pub(crate) fn name(reference: &str) -> &str {
    reference.strip_prefix('@').unwrap_or(reference)
}

/// The paths below a root that a reference may mean, the likelier first.
pub(crate) fn paths(root: &Root, name: &str) -> Vec<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            // What leads out of the root means nothing.
            ".." if parts.pop().is_none() => return Vec::new(),
            "." | ".." => {}
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let without_name = root.without_name(&path).map(str::to_owned);
    let mut paths: Vec<String> = [path].into_iter().chain(without_name).collect();
    paths.retain(|path| is_below(path));
    paths
}

/// The path below a root, if a reference that begins with `~/` leads there.
pub(crate) fn path_from_home(root: &Root, home: &Path, rest: &str) -> Option<String> {
    let mut path = PathBuf::from(home);
    for part in Path::new(rest).components() {
        match part {
            Component::Normal(part) => path.push(part),
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
    fn paths_are_below_the_root_whose_name_may_come_first() {
        let scratch = Scratch::new("references");
        scratch.write("docs/a.md", "");
        let roots = Roots::open([scratch.path().join("docs")], None).unwrap();
        let meant = |name: &str| paths(roots.get(0), name).join(" ");
        assert_eq!(meant("a.md"), "a.md");
        assert_eq!(meant("docs/a.md"), "docs/a.md a.md");
        assert_eq!(meant("./b/../a.md"), "a.md");
        assert_eq!(meant("docs/docs/a.md"), "docs/docs/a.md docs/a.md");
        for nowhere in
            ["../a.md", "docs/../../docs/a.md", "/etc/passwd", "", "a\0b", "docs", "a//b"]
        {
            assert!(!meant(nowhere).contains("passwd"), "{nowhere}");
            assert!(matches!(&*meant(nowhere), "" | "docs"), "{nowhere}: {}", meant(nowhere));
        }
        let home = roots.get(0).real_path().parent().unwrap();
        let from_home = |rest: &str| path_from_home(roots.get(0), home, rest);
        assert_eq!(from_home("docs/b/a.md").as_deref(), Some("b/a.md"));
        assert_eq!(from_home("x/../docs/a.md").as_deref(), Some("a.md"));
        for nowhere in ["a.md", "docs", "../docs/a.md", "/etc/passwd", "docs/../a.md", ""] {
            assert_eq!(from_home(nowhere), None, "{nowhere}");
        }
    }
}
