//! The inspector page at `/`, for files that people open in it.

use std::sync::LazyLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};
use pannier_inspector::Page;

/// The page does not change while a server runs. With the vocabulary of o200k, it counts texts, too.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let page = Page::default();
    match pannier_tokens::vocabulary_file("o200k") {
        Some(vocabulary) => page.with_vocabulary(&vocabulary).html(),
        None => page.html(),
    }
});

/// Answers with the page.
pub(crate) async fn page() -> (HeaderMap, &'static str) {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (HeaderMap::from_iter(headers), &PAGE)
}
