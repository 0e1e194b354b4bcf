//! The kind of a file, by its path: prose, source code, or tests.

/// What a file contains, which ranking depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// Documentation, data and everything else that is not source code.
    Prose = 0,
    Code = 1,
    /// Source code that tests other code.
    Test = 2,
}

/// The extensions of source code.
const CODE: &[&str] = &[
    "bash", "c", "cc", "cjs", "cpp", "cs", "cts", "cxx", "go", "h", "hh", "hpp", "hxx", "java",
    "js", "jsx", "kt", "lua", "mjs", "mts", "php", "py", "pyi", "rb", "rs", "scala", "sh", "swift",
    "ts", "tsx",
];

/// The folders of tests.
const TEST_FOLDERS: &[&str] = &["__tests__", "spec", "specs", "test", "testing", "tests"];

impl FileKind {
    /// The number of kinds.
    pub(crate) const COUNT: usize = 3;

    pub(crate) fn of_path(path: &str) -> Self {
        let path = path.to_lowercase();
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let Some((stem, extension)) = name.rsplit_once('.') else { return Self::Prose };
        if !CODE.contains(&extension) {
            return Self::Prose;
        }
        let is_test = folders.split('/').any(|folder| TEST_FOLDERS.contains(&folder))
            || stem.starts_with("test_")
            || ["_test", ".test", "_spec", ".spec"].iter().any(|end| stem.ends_with(end));
        if is_test { Self::Test } else { Self::Code }
    }

    #[inline]
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Prose),
            1 => Some(Self::Code),
            2 => Some(Self::Test),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_kinds() {
        let kinds = [
            (
                FileKind::Prose,
                &["README", "tests/notes.md", "rs", "a.rs/b", "x.json", ".rs.txt"][..],
            ),
            (
                FileKind::Code,
                &["a.RS", "src/contest.py", "latest/a.ts", "attest.go", ".hidden/b.c"],
            ),
            (
                FileKind::Test,
                &["Tests/a.rs", "a/__tests__/b.ts", "test_a.py", "x/a_test.go", "a.spec.ts"],
            ),
        ];
        for (kind, paths) in kinds {
            for path in paths {
                assert_eq!(FileKind::of_path(path), kind, "{path}");
            }
            assert_eq!(FileKind::from_byte(kind as u8), Some(kind));
        }
        assert_eq!(FileKind::from_byte(3), None);
    }
}
