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

/// The start of the policy. It allows no connections.
const POLICY: &str = "default-src 'none';";
const ENGINE: &[u8] = include_bytes!("../page/engine.wasm.gz");

/// A file that the page opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageFile {
    /// The name, for people.
    pub name: String,
    /// The contents: a file of Pannier.
    pub text: String,
}

/// The server that a page is from, and that it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Live {
    /// `pannier serve`: the page sends requests, and shows their answers.
    Server,
    /// The inspector's address of `pannier gateway`: the page shows the running sessions.
    Gateway,
}

/// A page with the files that it shows at first. Without files, people open their own.
#[derive(Clone, Debug, Default)]
pub struct Page {
    files: Vec<PageFile>,
    live: Option<Live>,
    /// Compressed, each with its class.
    vocabularies: Vec<(Vec<u8>, &'static str)>,
}

impl Page {
    /// Creates a page that shows a file, or a receipt with its items.
    pub fn new(files: impl IntoIterator<Item = PageFile>) -> Self {
        Self { files: files.into_iter().collect(), ..Self::default() }
    }

    /// Creates a page that asks the server that it is from. Only such a page may connect, and only to that server.
    pub fn live(live: Live) -> Self {
        Self { live: Some(live), ..Self::default() }
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
            #[serde(skip_serializing_if = "Option::is_none")]
            live: Option<Live>,
        }

        let vocabularies = self.vocabularies.iter().map(|(packed, class)| {
            let text = STANDARD.encode(packed);
            format!("<script type=\"application/octet-stream\" class=\"{class}\">{text}</script>\n")
        });
        let data = match self.files.is_empty() && self.live.is_none() {
            true => String::new(),
            // Plain data serializes. A `<` stands only in texts, and could end the block.
            false => serde_json::to_string(&Data { files: &self.files, live: self.live })
                .unwrap_or_default()
                .replace('<', "\\u003c"),
        };
        let policy = match self.live {
            Some(_) => format!("{POLICY} connect-src 'self';"),
            None => POLICY.to_owned(),
        };
        let blocks = [
            (POLICY, policy),
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

    fn policy(html: &str) -> &str {
        let policy = html.split_once("Content-Security-Policy\" content=\"");
        policy.and_then(|(_, rest)| rest.split_once('"')).unwrap().0
    }

    #[test]
    fn the_policy_allows_no_request() {
        let html = Page::default().html();
        let policy = policy(&html);
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        for source in ["http", "'unsafe-inline'", "'unsafe-eval'", "connect-src", "'self'", "*"] {
            assert!(!policy.contains(source), "{source}");
        }
    }

    #[test]
    fn a_live_page_may_ask_its_own_server_only() {
        let file = Page::default().html();
        for (live, data) in [(Live::Server, "server"), (Live::Gateway, "gateway")] {
            let html = Page::live(live).html();
            let policy = policy(&html);
            assert_eq!(policy.replace(" connect-src 'self';", ""), super::tests::policy(&file));
            assert_eq!(policy.matches("'self'").count(), 1, "{policy}");
            let data = format!("id=\"data\">{{\"files\":[],\"live\":\"{data}\"}}</script>");
            assert!(html.contains(&data));
        }
    }
}
