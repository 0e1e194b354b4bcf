//! The secrets of clients, and the names under which logs mention them.

use std::fmt;
use std::sync::Arc;

use axum::http::HeaderValue;

use crate::HttpError;

/// The tokens that a server accepts. Only their hashes are kept; hashes are compared in constant time.
///
/// ```
/// use pannier_server::BearerTokens;
///
/// let tokens = BearerTokens::parse("# one client per line\nci 0123456789abcdef\n")?;
/// assert_eq!(format!("{tokens:?}"), r#"BearerTokens(["ci"])"#);
/// # Ok::<(), pannier_server::HttpError>(())
/// ```
#[derive(Clone, Default)]
pub struct BearerTokens(Vec<(Arc<str>, blake3::Hash)>);

impl fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| &**name).collect();
        f.debug_tuple("BearerTokens").field(&names).finish()
    }
}

impl BearerTokens {
    /// Parses a file of tokens: on each line a name and a token, or only a token. Empty lines and lines that start with `#`
    /// are ignored.
    ///
    /// # Errors
    ///
    /// [`HttpError::Token`] if a token does not have 16 to 4096 printable ASCII characters, [`HttpError::TokenName`] if a
    /// name is invalid or occurs twice, [`HttpError::NoToken`] if there is no token.
    pub fn parse(text: &str) -> Result<Self, HttpError> {
        let mut tokens = Self::default();
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (name, token) = match text.split_once(char::is_whitespace) {
                Some((name, token)) => (name.to_owned(), token.trim_start()),
                None => (format!("token-{}", tokens.0.len() + 1), text),
            };
            let is_token = (16..=4096).contains(&token.len())
                && token.bytes().all(|byte| byte.is_ascii_graphic());
            if !is_token {
                return Err(HttpError::Token { line, bytes: token.len() });
            }
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            let is_name = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
            if !is_name || tokens.0.iter().any(|(other, _)| **other == *name) {
                return Err(HttpError::TokenName { line });
            }
            tokens.0.push((name.into(), blake3::hash(token.as_bytes())));
        }
        match tokens.0.is_empty() {
            true => Err(HttpError::NoToken),
            false => Ok(tokens),
        }
    }

    /// Returns whether no token is needed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name of the client that sent this `Authorization` header.
    pub fn client(&self, header: Option<&HeaderValue>) -> Option<Arc<str>> {
        let (scheme, token) = header?.to_str().ok()?.split_once(' ')?;
        let hash = blake3::hash(token.trim().as_bytes());
        // Compares with every token, each in constant time.
        let client = self.0.iter().fold(None, |client, (name, own)| match *own == hash {
            true => Some(name),
            false => client,
        });
        client.filter(|_| scheme.eq_ignore_ascii_case("bearer")).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_match_exactly() {
        let tokens = BearerTokens::parse("0123456789abcdef\n\n# x\nci fedcba9876543210\n").unwrap();
        let client = |text: &str| {
            let name = tokens.client(Some(&HeaderValue::from_str(text).unwrap()));
            name.map(|name| name.to_string())
        };
        assert_eq!(client("Bearer 0123456789abcdef").as_deref(), Some("token-1"));
        assert_eq!(client("bearer fedcba9876543210").as_deref(), Some("ci"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Bearer ci fedcba9876543210",
        ] {
            assert_eq!(client(wrong), None, "{wrong}");
        }
        assert_eq!(tokens.client(None), None);
        let long = "x".repeat(4097);
        for wrong in
            ["", "\n# x\n", "short", "ci with a space in it", &long, "a/b 0123456789abcdef"]
        {
            assert!(BearerTokens::parse(wrong).is_err(), "{wrong}");
        }
        let twice = "a 0123456789abcdef\na fedcba9876543210";
        assert!(matches!(BearerTokens::parse(twice), Err(HttpError::TokenName { line: 2 })));
    }
}
