//! Runs every command in the documents and compares the output.
//!
//! `TRYCMD=overwrite cargo test -p pannier-cli --test documents` rewrites the documents;
//! look at `git diff` before you keep it.

use std::fs;
use std::path::Path;

#[test]
fn documents_show_what_commands_print() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // A writable copy of the examples.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents");
    let _ = fs::remove_dir_all(&folder);
    for below in ["examples", "conformance/required/scoring", "crates/pannier-cli/tests/commands"] {
        copy(&root.join(below), &folder.join(below));
    }
    std::env::set_current_dir(&folder).unwrap();
    let cases = trycmd::TestCases::new();
    cases.default_bin_name("pannier").env("NO_COLOR", "1");
    cases.env("XDG_CONFIG_HOME", folder.join("config").display().to_string());
    for document in [
        "docs/reference/tokenizers.md",
        "docs/reference/chat-formats.md",
        "docs/reference/evaluate-sessions.md",
        "docs/reference/inspector.md",
        "docs/reference/documents.md",
        "docs/reference/memory-format.md",
        "docs/reference/snippet-format.md",
        "docs/reference/mcp.md",
        "crates/pannier-cli/tests/commands/*.md",
    ] {
        cases.case(root.join(document));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if entry.is_dir() { copy(&entry, &to) } else { _ = fs::copy(&entry, &to).unwrap() }
    }
}
