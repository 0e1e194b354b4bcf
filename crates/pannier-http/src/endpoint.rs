//! The address of a server, its model and its key.

use std::fmt;

use crate::HttpError;

/// Returns an address without its scheme, which may be in capitals.
fn without_scheme(text: &str) -> Option<&str> {
    let after = |scheme: &str| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    after("http://").or_else(|| after("https://"))
}

/// A model on a server, and the key for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    base: String,
    model: String,
    key: Option<Key>,
}

/// A key; its debug form does not show it.
#[derive(Clone, PartialEq, Eq)]
struct Key(String);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Endpoint {
    /// Parses `http://HOST/v1#MODEL` or `https://HOST/v1#MODEL`.
    ///
    /// ```
    /// let endpoint = pannier_http::Endpoint::parse("http://localhost:11434/v1#nomic-embed-text")?;
    /// assert_eq!(endpoint.model(), "nomic-embed-text");
    /// assert_eq!(endpoint.url("embeddings"), "http://localhost:11434/v1/embeddings");
    /// # Ok::<(), pannier_http::HttpError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`HttpError::Address`] if there is no model or no host, or if the address has a user, a password or a query.
    pub fn parse(text: &str) -> Result<Self, HttpError> {
        let invalid = |problem| HttpError::Address { problem };
        let rest = without_scheme(text)
            .ok_or_else(|| invalid("it begins with neither http:// nor https://"))?;
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(invalid("it has white space"));
        }
        let (rest, model) = rest.split_once('#').ok_or_else(|| invalid("it has no #MODEL"))?;
        let authority = rest.split('/').next().unwrap_or_default();
        let problem = match () {
            () if model.is_empty() => "it has no model after #",
            () if rest.contains('@') => "it has a user or password; put the key into a variable",
            () if rest.contains('?') => "it has a query",
            () if authority.is_empty() => "it has no host",
            () => {
                let base = &text[..text.len() - model.len() - 1];
                return Ok(Self {
                    base: base.trim_end_matches('/').to_owned(),
                    model: model.to_owned(),
                    key: None,
                });
            }
        };
        Err(invalid(problem))
    }

    /// Adds the key that an environment variable has.
    ///
    /// # Errors
    ///
    /// [`HttpError::Key`] if the name is not that of a variable, or the variable is not set or has no valid key.
    pub fn with_key_from(self, variable: &str) -> Result<Self, HttpError> {
        let invalid = |problem| HttpError::Key { problem };
        let is_name =
            !variable.is_empty() && variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(invalid("has an invalid name; give the name of a variable, not the key"));
        }
        let key = std::env::var(variable)
            .map_err(|_| invalid("is not set; set it to the key, and give its name"))?;
        self.with_key(key.trim())
    }

    /// Adds a key.
    ///
    /// # Errors
    ///
    /// [`HttpError::Key`] if it is empty, or has characters that a header cannot have.
    pub fn with_key(mut self, key: &str) -> Result<Self, HttpError> {
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(HttpError::Key { problem: "has no valid key; set it to the key" });
        }
        self.key = Some(Key(key.to_owned()));
        Ok(self)
    }

    /// Returns the name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the address of a call.
    pub fn url(&self, call: &str) -> String {
        format!("{}/{call}", self.base)
    }

    /// Returns the header that authorizes a call.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.key.as_ref().map(|Key(key)| format!("Bearer {key}"))
    }

    /// Returns a text of the server for an error: one short line, without the key.
    pub(crate) fn quote(&self, text: &str) -> String {
        const MAX_CHARS: usize = 200;
        let text = match &self.key {
            Some(Key(key)) => text.replace(key, "[key]"),
            None => text.to_owned(),
        };
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|w| !w.is_empty())
            .collect();
        let line = words.join(" ");
        match line.char_indices().nth(MAX_CHARS) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_server_and_a_model() {
        for (text, base, model) in [
            ("http://localhost:8080#m", "http://localhost:8080", "m"),
            (
                "https://api.openai.com/v1/#text-embedding-3-small",
                "https://api.openai.com/v1",
                "text-embedding-3-small",
            ),
            ("http://[::1]:80/v1#BAAI/bge#x", "http://[::1]:80/v1", "BAAI/bge#x"),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!((endpoint.base.as_str(), endpoint.model()), (base, model));
        }
        for (text, problem) in [
            ("ftp://user:secret@host#m", "neither http:// nor https://"),
            ("http://host/v1", "no #MODEL"),
            ("http://host/v1#", "no model"),
            ("http:///v1#m", "no host"),
            ("http://user:secret@host/v1#m", "user or password"),
            ("http://host/v1?key=secret#m", "a query"),
            ("http://host/v1 #m", "white space"),
            ("http://host/v1#m\r\nX: secret", "white space"),
        ] {
            let error = Endpoint::parse(text).unwrap_err().to_string();
            assert!(error.contains(problem) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn keys_are_never_shown() {
        let endpoint = Endpoint::parse("http://host/v1#m").unwrap();
        for key in ["", "a b", "ä", "a\nb"] {
            assert!(endpoint.clone().with_key(key).is_err());
        }
        for variable in ["sk-secret", "", "A B", "PANNIER_HTTP_TEST_UNSET_secret"] {
            let error = endpoint.clone().with_key_from(variable).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let endpoint = endpoint.with_key("sk-secret").unwrap();
        assert!(!format!("{endpoint:?}").contains("secret"));
        assert_eq!(endpoint.quote("no\n\u{1b}[1m sk-secret !"), "no [1m [key] !");
        assert_eq!(endpoint.quote(&"x".repeat(300)).chars().count(), 201);
        assert_eq!(endpoint.authorization().as_deref(), Some("Bearer sk-secret"));
    }
}
