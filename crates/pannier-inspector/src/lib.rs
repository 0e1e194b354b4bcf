//! The inspector page: a selection, its reasons and other budgets, with the engine inside.
//!
//! `page/inspector.html` is the page without engine and data; `inspector/build.mjs` writes it from `inspector/src`.
//! `page/engine.wasm.gz` is the engine; `.ci/inspector --engine` writes it from `inspector/engine`. Both are checked in, so that
//! a build needs neither Node nor a compiler for WebAssembly.
//!
//! The page's Content-Security-Policy names its script and its style sheet by their hashes. Engine, vocabularies and data are
//! data blocks, which do not run, so filling them in changes no hash.
//!
//! ```
//! use pannier_inspector::{Page, PageFile};
//!
//! let report = r#"{"included":[],"excluded":[]}"#.to_owned();
//! let html = Page::new([PageFile { name: "report.json".to_owned(), text: report }]).html();
//! assert!(html.starts_with("<!doctype html>"));
//! ```

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

const PAGE: &str = include_str!("../page/inspector.html");
const ENGINE: &[u8] = include_bytes!("../page/engine.wasm.gz");

/// A file that the page opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageFile {
    /// The name, for people.
    pub name: String,
    /// The contents: a file of Pannier.
    pub text: String,
}

/// A page with the files that it shows at first. Without files, people open their own.
#[derive(Clone, Debug, Default)]
pub struct Page {
    files: Vec<PageFile>,
    /// Compressed, each with its class.
    vocabularies: Vec<(Vec<u8>, &'static str)>,
}

impl Page {
    /// Creates a page that shows a file, or a receipt with its items.
    pub fn new(files: impl IntoIterator<Item = PageFile>) -> Self {
        Self { files: files.into_iter().collect(), vocabularies: Vec::new() }
    }

    /// Adds the vocabulary of an encoding, for runs whose text is counted.
    #[must_use]
    pub fn with_vocabulary(self, file: &[u8]) -> Self {
        self.with_class(file, "vocabulary")
    }

    /// Adds the part of a vocabulary that the files of the page need. For other files, the page does not use it.
    #[must_use]
    pub fn with_partial_vocabulary(self, file: &[u8]) -> Self {
        self.with_class(file, "vocabulary partial")
    }

    fn with_class(mut self, file: &[u8], class: &'static str) -> Self {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        // Writing to memory does not fail.
        if packed.write_all(file).is_ok()
            && let Ok(packed) = packed.finish()
        {
            self.vocabularies.push((packed, class));
        }
        self
    }

    /// Writes the page.
    pub fn html(&self) -> String {
        #[derive(Serialize)]
        struct Data<'p> {
            files: &'p [PageFile],
        }

        let vocabularies = self.vocabularies.iter().map(|(packed, class)| {
            let text = STANDARD.encode(packed);
            format!("<script type=\"application/octet-stream\" class=\"{class}\">{text}</script>\n")
        });
        let data = match self.files.is_empty() {
            true => String::new(),
            // Plain data serializes. A `<` stands only in texts, and could end the block.
            false => serde_json::to_string(&Data { files: &self.files })
                .unwrap_or_default()
                .replace('<', "\\u003c"),
        };
        let blocks = [
            ("@ENGINE@", STANDARD.encode(ENGINE)),
            ("@VOCABULARIES@\n", vocabularies.collect()),
            ("@DATA@", data),
        ];
        let mut html = String::with_capacity(PAGE.len() + ENGINE.len() * 2);
        let mut rest = PAGE;
        for (mark, block) in blocks {
            if let Some((before, after)) = rest.split_once(mark) {
                html.push_str(before);
                html.push_str(&block);
                rest = after;
            }
        }
        html.push_str(rest);
        html
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_cannot_end_their_block() {
        let text = "</script><script>alert(1)</script><!--".to_owned();
        let html = Page::new([PageFile { name: "<b>".to_owned(), text }]).html();
        let empty = Page::default().html();
        assert_eq!(html.matches("<script").count(), empty.matches("<script").count());
        assert_eq!(html.matches("</script").count(), empty.matches("</script").count());
        assert!(!html.contains("<b>") && html.contains("\\u003cb>"));
    }

    #[test]
    fn every_mark_is_replaced() {
        let page = Page::default().with_vocabulary(b"x");
        let html = page.with_partial_vocabulary(b"y").html();
        for mark in ["@ENGINE@", "@VOCABULARIES@", "@DATA@", "@CSP@", "@SCRIPT@"] {
            assert!(!html.contains(mark), "{mark}");
        }
        assert_eq!(html.matches("class=\"vocabulary\"").count(), 1);
        assert_eq!(html.matches("class=\"vocabulary partial\"").count(), 1);
    }

    #[test]
    fn the_policy_allows_no_request() {
        let policy = PAGE.split_once("Content-Security-Policy\" content=\"");
        let (policy, _) = policy.and_then(|(_, rest)| rest.split_once('"')).unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        for source in ["http", "'unsafe-inline'", "'unsafe-eval'", "connect-src", "*"] {
            assert!(!policy.contains(source), "{source}");
        }
    }
}
