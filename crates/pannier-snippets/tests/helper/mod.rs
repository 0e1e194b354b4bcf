//! Helpers of the tests of this crate.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use pannier_snippets::{
    GetOptions, GetResponse, Roots, SnippetBundle, SnippetCatalog, SnippetId, SnippetIndexes,
    SnippetsError, index,
};
use pannier_tokens::{BytesOverFour, TokenCounter};

/// A temporary folder that is removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("pannier-snippets-test-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap()
    }

    /// Writes a snippet to `docs/ID.md`.
    pub(crate) fn snippet(&self, id: &str, scope: &str, requires: &[&str], body: &str) {
        self.write(&format!("docs/{id}.md"), snippet(id, scope, requires, body));
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::open([self.path("docs")], None).unwrap()
    }

    /// Writes and reads the index of `docs`.
    pub(crate) fn indexes(&self) -> SnippetIndexes {
        index(&self.roots(), &BytesOverFour).unwrap();
        SnippetIndexes::read(self.roots()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A bundle and its rendered text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fetched<'c> {
    pub(crate) bundle: SnippetBundle<'c>,
    pub(crate) text: String,
    pub(crate) tokens: usize,
}

/// Returns the file of a snippet.
pub(crate) fn snippet(id: &str, scope: &str, requires: &[&str], body: &str) -> String {
    let requires: String = requires.iter().map(|id| format!("  - {id}\n")).collect();
    let requires = if requires.is_empty() { requires } else { format!("requires:\n{requires}") };
    format!(
        "---\nid: {id}\ndescription: What {id} is.\ntype: policy\nscope: {scope}\n{requires}---\n{body}"
    )
}

pub(crate) fn ids(ids: &[&str]) -> Vec<SnippetId> {
    ids.iter().map(|id| SnippetId::new(id).unwrap()).collect()
}

pub(crate) fn options() -> GetOptions {
    GetOptions::default()
}

/// Fetches these snippets with default options.
pub(crate) fn get<'c>(catalog: &'c SnippetCatalog<'_>, requested: &[&str]) -> Fetched<'c> {
    fetch(catalog, requested, &options()).unwrap()
}

pub(crate) fn fetch<'c>(
    catalog: &'c SnippetCatalog<'_>,
    requested: &[&str],
    options: &GetOptions,
) -> Result<Fetched<'c>, SnippetsError> {
    match catalog.get(&ids(requested), options, &BytesOverFour)? {
        GetResponse::Snippets(mut bundle) => {
            let text = bundle.render(options.format);
            let tokens = BytesOverFour.count(&text);
            if let Some(counted) = bundle.tokens.take() {
                assert_eq!(counted, tokens);
            }
            Ok(Fetched { bundle: *bundle, text, tokens })
        }
        GetResponse::Discovery { .. } => panic!("a response of phase 1"),
    }
}

pub(crate) fn sent<'f>(fetched: &'f Fetched<'_>) -> Vec<&'f str> {
    fetched.bundle.snippets.iter().map(|snippet| &*snippet.id).collect()
}

pub(crate) fn warnings(fetched: &Fetched<'_>) -> Vec<String> {
    fetched.bundle.warnings.iter().map(ToString::to_string).collect()
}

pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
