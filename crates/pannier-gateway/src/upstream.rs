//! The providers, and which of their requests are chats.

use axum::http::header::AUTHORIZATION;
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderMap, HeaderValue, Uri};
use pannier_chat::Provider;

use crate::GatewayError;

/// The addresses of the providers: at most one for each protocol, and one for everything else. A request never goes to the
/// provider of the other protocol, because its key would.
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
    default: Option<Upstream>,
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
    /// Parses base URLs: `URL`, `anthropic=URL` or `openai=URL`.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Upstream`] if a URL is invalid or named twice, [`GatewayError::NoUpstream`] without a URL.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self, GatewayError> {
        let (mut anthropic, mut openai, mut default) = (None, None, None);
        for text in texts {
            let (slot, url) = match text.split_once('=') {
                Some(("anthropic", url)) => (&mut anthropic, url),
                Some(("openai", url)) => (&mut openai, url),
                _ => (&mut default, text),
            };
            let upstream = Upstream::parse(url)?;
            if slot.replace(upstream).is_some() {
                let (text, problem) = (without_password(text), "it is named twice");
                return Err(GatewayError::Upstream { text, problem });
            }
        }
        if anthropic.is_none() && openai.is_none() && default.is_none() {
            return Err(GatewayError::NoUpstream);
        }
        Ok(Self { anthropic, openai, default })
    }

    /// Returns the base URL for a request, by the protocol of its path or else of its headers.
    pub(crate) fn of(
        &self,
        provider: Option<Provider>,
        headers: &HeaderMap,
    ) -> Result<&Upstream, NoUpstream> {
        let named = match provider {
            Some(Provider::Anthropic) => &self.anthropic,
            Some(_) => &self.openai,
            None => match Keys::of(headers) {
                Keys::Both if self.anthropic.is_some() && self.openai.is_some() => {
                    return Err(NoUpstream::TwoKeys);
                }
                Keys::Anthropic | Keys::Both => &self.anthropic,
                Keys::OpenAi => &self.openai,
                Keys::None => &None,
            },
        };
        named.as_ref().or(self.default.as_ref()).ok_or(NoUpstream::NotNamed)
    }
}

/// Why a request has no provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoUpstream {
    NotNamed,
    TwoKeys,
}

/// The providers whose keys are in the headers of a request. No header says so for certain.
enum Keys {
    None,
    Anthropic,
    OpenAi,
    Both,
}

impl Keys {
    fn of(headers: &HeaderMap) -> Self {
        let is_anthropic = |name: &str| name == "x-api-key" || name.starts_with("anthropic-");
        let is_anthropic = headers.keys().any(|name| is_anthropic(name.as_str()));
        let mut keys = headers.get_all(AUTHORIZATION).iter().peekable();
        if keys.peek().is_none() {
            return if is_anthropic { Self::Anthropic } else { Self::None };
        }
        // Anthropic's own bearer tokens have this prefix.
        let is_own = |value: &HeaderValue| {
            let token = value.as_bytes().split_at_checked(7);
            token.is_some_and(|(scheme, token)| {
                scheme.eq_ignore_ascii_case(b"bearer ")
                    && token.trim_ascii_start().starts_with(b"sk-ant-")
            })
        };
        match (keys.all(is_own), headers.contains_key("x-api-key"), is_anthropic) {
            (true, ..) | (false, false, true) => Self::Anthropic,
            (false, true, _) => Self::Both,
            (false, false, false) => Self::OpenAi,
        }
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

/// A kind of requests with a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chat {
    pub(crate) provider: Provider,
    /// The path as a static text.
    pub(crate) route: &'static str,
    /// Whether the provider only counts the tokens.
    pub(crate) is_count: bool,
}

/// Returns the kind of the chats that are sent to a path. The version may be part of the provider's base URL.
pub(crate) fn chat(path: &str) -> Option<Chat> {
    let chats = [
        ("/v1/messages", Provider::Anthropic, false),
        ("/v1/messages/count_tokens", Provider::Anthropic, true),
        ("/v1/chat/completions", Provider::OpenAi, false),
        ("/v1/responses", Provider::Responses, false),
    ];
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let is_path = |route: &str| route.strip_prefix("/v1") == Some(path);
    let found = chats.into_iter().find(|(route, ..)| is_path(route));
    found.map(|(route, provider, is_count)| Chat { provider, route, is_count })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where a request goes.
    fn url(upstreams: &Upstreams, path: &str, header: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        if !header.is_empty() {
            headers.insert(header, "secret".parse().unwrap());
        }
        let uri: Uri = path.parse().unwrap();
        let provider = chat(uri.path()).map(|chat| chat.provider);
        let upstream = upstreams.of(provider, &headers).ok()?;
        Some(upstream.url(&uri).unwrap().to_string())
    }

    #[test]
    fn requests_go_to_the_provider_of_their_protocol() {
        let urls = ["http://a.example/base/", "anthropic=https://b.example:8443"];
        let upstreams = Upstreams::parse(urls).unwrap();
        let url = |path: &str| url(&upstreams, path, "").unwrap();
        assert_eq!(url("/v1/messages?beta=true"), "https://b.example:8443/v1/messages?beta=true");
        assert_eq!(url("/v1/chat/completions"), "http://a.example/base/v1/chat/completions");
        assert_eq!(url("/chat/completions"), "http://a.example/base/chat/completions");
        assert_eq!(url("/v1/models"), "http://a.example/base/v1/models");
        assert_eq!(chat("/responses").unwrap().route, "/v1/responses");
        for other in
            ["", "/", "/v1", "/v1/v1/messages", "/v2/messages", "/v1/messages/", "/messagesx"]
        {
            assert_eq!(chat(other), None, "{other}");
        }
    }

    #[test]
    fn headers_name_the_provider_of_other_paths() {
        let of = |urls: &[&str], headers: &[(&'static str, &str)]| {
            let upstreams = Upstreams::parse(urls.iter().copied()).unwrap();
            let headers = headers.iter().map(|(name, value)| {
                (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap())
            });
            let headers: HeaderMap = headers.collect();
            upstreams.of(None, &headers).map(|upstream| upstream.authority.to_string())
        };
        let both = ["anthropic=http://a", "openai=http://o"];
        let (key, version) = (("x-api-key", "k"), ("anthropic-version", "1"));
        let (own, other) = (("authorization", "Bearer sk-ant-1"), ("authorization", "Bearer sk-1"));
        for (headers, expected) in [
            (&[key][..], Ok("a")),
            (&[version], Ok("a")),
            (&[("anthropic-beta", "files")], Ok("a")),
            (&[own], Ok("a")),
            (&[own, key], Ok("a")),
            (&[version, other], Ok("a")),
            (&[other], Ok("o")),
            (&[key, other], Err(NoUpstream::TwoKeys)),
            (&[key, other, version], Err(NoUpstream::TwoKeys)),
            (&[], Err(NoUpstream::NotNamed)),
        ] {
            assert_eq!(
                of(&both, headers).as_deref().map_err(|error| *error),
                expected,
                "{headers:?}"
            );
        }
        let one = ["openai=http://o"];
        for headers in [&[key][..], &[own], &[key, other]] {
            assert_eq!(of(&one, headers), Err(NoUpstream::NotNamed), "{headers:?}");
        }
        assert_eq!(of(&["anthropic=http://a", "http://d"], &[other]).unwrap(), "d");
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
