//! The providers, and which of their requests are chats.

use axum::http::Uri;
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use pannier_chat::Provider;

use crate::GatewayError;

/// The addresses of the providers: at most one for each protocol, and one for everything else.
///
/// ```
/// use pannier_gateway::Upstreams;
///
/// let upstreams = Upstreams::parse(["https://api.example", "anthropic=http://localhost:9000/claude"])?;
/// # Ok::<(), pannier_gateway::GatewayError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Upstreams {
    anthropic: Option<Upstream>,
    openai: Option<Upstream>,
    default: Upstream,
}

/// A base URL.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    scheme: Scheme,
    authority: Authority,
    /// Before the path of a request; without a final slash.
    path: String,
}

impl Upstreams {
    /// Parses base URLs: `URL`, `anthropic=URL` or `openai=URL`. Without a URL for everything else, the first one gets it.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Upstream`] if a URL is invalid or named twice, [`GatewayError::NoUpstream`] without a URL.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, GatewayError> {
        let (mut anthropic, mut openai, mut default, mut first) = (None, None, None, None);
        for text in texts {
            let (slot, url) = match text.split_once('=') {
                Some(("anthropic", url)) => (&mut anthropic, url),
                Some(("openai", url)) => (&mut openai, url),
                _ => (&mut default, text),
            };
            let upstream = Upstream::parse(url)?;
            first.get_or_insert_with(|| upstream.clone());
            if slot.replace(upstream).is_some() {
                let (text, problem) = (without_password(text), "it is named twice");
                return Err(GatewayError::Upstream { text, problem });
            }
        }
        let default = default.or(first).ok_or(GatewayError::NoUpstream)?;
        Ok(Self { anthropic, openai, default })
    }

    /// Returns the base URL for a request.
    pub(crate) fn of(&self, provider: Option<Provider>) -> &Upstream {
        let named = match provider {
            Some(Provider::Anthropic) => &self.anthropic,
            Some(_) => &self.openai,
            None => &None,
        };
        named.as_ref().unwrap_or(&self.default)
    }
}

impl Upstream {
    fn parse(text: &str) -> Result<Self, GatewayError> {
        let invalid = |problem| GatewayError::Upstream { text: without_password(text), problem };
        let uri: Uri = text.parse().map_err(|_| invalid("it is not a URL"))?;
        let scheme =
            uri.scheme().filter(|scheme| **scheme == Scheme::HTTP || **scheme == Scheme::HTTPS);
        let scheme = scheme.ok_or_else(|| invalid("it does not begin with http:// or https://"))?;
        let authority = uri.authority().ok_or_else(|| invalid("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("it has a password; clients send their own keys"));
        }
        if uri.query().is_some() {
            return Err(invalid("it has a query"));
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { scheme: scheme.clone(), authority: authority.clone(), path })
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the URL of a request at this provider.
    pub(crate) fn url(&self, request: &Uri) -> Option<Uri> {
        let rest = request.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = format!("{}{rest}", self.path);
        let url = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        url.path_and_query(path).build().ok()
    }
}

/// Errors are printed and logged.
fn without_password(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}***{}", &text[..start + 3], &text[end..])
        }
        _ => text.to_owned(),
    }
}

/// Returns the provider whose chats are sent to a path.
pub(crate) fn provider(path: &str) -> Option<Provider> {
    match path {
        "/v1/messages" | "/v1/messages/count_tokens" => Some(Provider::Anthropic),
        "/v1/chat/completions" => Some(Provider::OpenAi),
        "/v1/responses" => Some(Provider::Responses),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_to_the_provider_of_their_protocol() {
        let urls = ["http://a.example/base/", "anthropic=https://b.example:8443"];
        let upstreams = Upstreams::parse(urls).unwrap();
        let url = |text: &str| {
            let uri: Uri = text.parse().unwrap();
            upstreams.of(provider(uri.path())).url(&uri).unwrap().to_string()
        };
        assert_eq!(url("/v1/messages?beta=true"), "https://b.example:8443/v1/messages?beta=true");
        assert_eq!(url("/v1/chat/completions"), "http://a.example/base/v1/chat/completions");
        assert_eq!(url("/v1/models"), "http://a.example/base/v1/models");
        let upstreams = Upstreams::parse(["openai=http://c.example"]).unwrap();
        assert_eq!(upstreams.of(None).authority(), "c.example");
    }

    #[test]
    fn invalid_addresses_say_why_and_hide_passwords() {
        for text in [
            "",
            "api.example",
            "ftp://a",
            "http://",
            "http://a/?q",
            "http://user:secret@a",
            "gemini=http://a",
        ] {
            let error = Upstreams::parse([text]).unwrap_err().to_string();
            assert!(!error.contains("secret") && error.contains("as in https://"), "{error}");
        }
        assert!(Upstreams::parse([]).is_err());
        assert!(Upstreams::parse(["http://a", "http://b"]).is_err());
    }
}
