//! The inspector page at `/`: for requests to this server, and for files that people open in it.
//!
//! A browser sends no bearer token when it opens an address, so the page needs none. It is a constant of the build, without
//! data. People paste their token into it, and the page sends it with each request. The alternatives are worse: a token in
//! the address is written into histories and logs, and a cookie is sent with requests of other pages, too.

use std::sync::LazyLock;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};
use pannier_inspector::{Live, Page};

/// The page does not change while a server runs. With the vocabulary of o200k, it counts texts, too.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let page = Page::live(Live::Server);
    match pannier_tokens::vocabulary_file("o200k") {
        Some(vocabulary) => page.with_vocabulary(&vocabulary).html(),
        None => page.html(),
    }
});

/// Answers with the page.
pub(crate) async fn page() -> (HeaderMap, &'static str) {
    (page_headers(), &PAGE)
}

/// Returns the headers of an inspector page: no other page may show it in a frame.
pub fn page_headers() -> HeaderMap {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    HeaderMap::from_iter(headers.map(|(name, value)| (name, HeaderValue::from_static(value))))
}
