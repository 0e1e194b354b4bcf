//! Checks before a request is read: `Host`, `Origin`, token and content type.
//!
//! Every page in a developer's browser can reach a server on that machine. So requests for a foreign `Host` (DNS rebinding)
//! or from a foreign `Origin` are rejected, also with a valid token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::problem::Problem;

/// The names of this machine.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The name of a client: that of its token, or its address.
#[derive(Clone, Debug)]
pub(crate) struct Client(pub(crate) Arc<str>);

/// The address of a client, which the listener adds to each request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// The hosts and origins that a server accepts.
#[derive(Debug)]
pub(crate) struct Allowed {
    hosts: Vec<String>,
    /// Besides those of this machine.
    origins: Vec<HeaderValue>,
}

impl Allowed {
    pub(crate) fn new(own: IpAddr, hosts: &[String], origins: &[HeaderValue]) -> Self {
        let own = (!own.is_unspecified()).then(|| own.to_string());
        let local = LOCAL_HOSTS.map(str::to_owned).into_iter();
        let hosts = local.chain(own).chain(hosts.iter().map(|host| host.to_ascii_lowercase()));
        Self { hosts: hosts.collect(), origins: origins.to_vec() }
    }

    /// Returns whether a request is for this server, and `None` if it has not exactly one `Host`.
    fn is_host(&self, headers: &HeaderMap, uri: &Uri) -> Option<bool> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
        let host = host.to_str().ok()?.parse().ok()?;
        Some(
            self.has_host(&host)
                && uri.authority().is_none_or(|authority| self.has_host(authority)),
        )
    }

    fn has_host(&self, authority: &Authority) -> bool {
        let whole = authority.as_str().to_ascii_lowercase();
        let name = bare_host(authority.host());
        !whole.contains('@') && self.hosts.iter().any(|host| *host == name || *host == whole)
    }

    /// Returns whether a request comes from a program, from a page of this server or this machine, or from an allowed
    /// origin. Its host is an allowed one.
    fn is_origin(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => true,
            (Some(origin), None) => {
                self.origins.contains(origin)
                    || is_local_page(origin)
                    || headers.get(HOST).is_some_and(|host| is_page_of(host, origin))
            }
            _ => false,
        }
    }
}

/// Returns whether a request names this machine as its host, and comes from a program or from a page of this machine.
pub fn is_local_request(headers: &HeaderMap, uri: &Uri) -> bool {
    let allowed = Allowed::new(std::net::Ipv4Addr::LOCALHOST.into(), &[], &[]);
    allowed.is_host(headers, uri) == Some(true) && allowed.is_origin(headers)
}

/// Returns whether a request comes from a web page of another machine, or of one that hides its origin. Applications with
/// an embedded browser have origins of other schemes.
pub fn is_foreign_page(headers: &HeaderMap) -> bool {
    let is_foreign = |origin: &HeaderValue| {
        let bytes = origin.as_bytes();
        let is_page = ["null", "http://", "https://"].iter().any(|page| {
            bytes.get(..page.len()).is_some_and(|start| start.eq_ignore_ascii_case(page.as_bytes()))
        });
        is_page && !is_local_page(origin)
    };
    headers.get_all(ORIGIN).iter().any(is_foreign)
}

/// Returns the host without the brackets of an IPv6 address.
fn bare_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

/// Returns whether an origin is that of a host, also behind a proxy with TLS.
fn is_page_of(host: &HeaderValue, origin: &HeaderValue) -> bool {
    let origin = origin.as_bytes();
    let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_bytes()))
}

fn is_local_page(origin: &HeaderValue) -> bool {
    let authority = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
    let authority = authority.and_then(|authority| authority.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        !authority.as_str().contains('@') && LOCAL_HOSTS.contains(&&*bare_host(authority.host()))
    })
}

/// Returns whether a content type is JSON.
fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Returns why a request is not one for this server.
fn foreign(app: &App, request: &Request) -> Option<Problem> {
    match app.allowed.is_host(request.headers(), request.uri()) {
        Some(true) => {}
        Some(false) => {
            let problem = Problem::new(StatusCode::FORBIDDEN, "forbidden", "this is another host");
            return Some(
                problem.hint("use the server's own address, or start it with --allow-host"),
            );
        }
        None => {
            let message = "the request has no valid Host header, or two of them";
            let problem = Problem::new(StatusCode::BAD_REQUEST, "invalid_input", message);
            return Some(problem.hint("send one"));
        }
    }
    if app.allowed.is_origin(request.headers()) {
        return None;
    }
    let message = "the request comes from a page of another origin";
    let problem = Problem::new(StatusCode::FORBIDDEN, "forbidden", message);
    Some(problem.hint("start the server with --allow-origin"))
}

/// Rejects a request that is not for this server. The page needs no token.
#[cfg(feature = "inspector")]
pub(crate) async fn check_page(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    match foreign(&app, &request) {
        Some(problem) => problem.into(),
        None => next.run(request).await,
    }
}

/// Rejects a request that is not for this server, not allowed, or not JSON; otherwise adds its [`Client`].
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(problem) = foreign(&app, &request) {
        return problem.into();
    }
    let headers = request.headers();
    let client = match app.tokens.is_empty() {
        true => request.extensions().get::<PeerAddress>().map_or_else(
            || Arc::from("unknown"),
            |PeerAddress(address)| address.ip().to_string().into(),
        ),
        false => match app.tokens.client(headers.get(AUTHORIZATION)) {
            Some(client) => client,
            None => {
                let message = "a bearer token is required";
                let mut response: Response =
                    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
                        .hint("send the header Authorization: Bearer TOKEN")
                        .into();
                let scheme = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
                return response;
            }
        },
    };
    if request.method() == Method::POST && !headers.get(CONTENT_TYPE).is_some_and(is_json) {
        let message = "the content type is not application/json";
        return Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_input", message)
            .hint("send the header Content-Type: application/json")
            .into();
    }
    if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let message = "the body is compressed";
        return Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_input", message)
            .hint("send it without Content-Encoding")
            .into();
    }
    request.extensions_mut().insert(Client(Arc::clone(&client)));
    let mut response = next.run(request).await;
    // For the log.
    response.extensions_mut().insert(Client(client));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &axum::http::HeaderName, values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|value| (name.clone(), value.parse().unwrap()));
        values.collect()
    }

    #[test]
    fn requests_name_one_allowed_host() {
        let hosts = ["Box.example".to_owned(), "other.example:80".to_owned()];
        let allowed = Allowed::new([10, 0, 0, 1].into(), &hosts, &[]);
        let check = |hosts: &[&str], uri: &str| {
            allowed.is_host(&headers(&HOST, hosts), &uri.parse().unwrap())
        };
        let is_host = |hosts: &[&str], uri: &str| check(hosts, uri) == Some(true);
        for host in [
            "localhost",
            "LOCALHOST:8642",
            "127.0.0.1:1",
            "[::1]:8642",
            "10.0.0.1:8642",
            "box.example",
            "other.example:80",
        ] {
            assert!(is_host(&[host], "/mcp"), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "a@localhost",
            "other.example:81",
            "other.example",
            "10.0.0.2",
        ] {
            assert!(!is_host(&[host], "/mcp"), "{host}");
        }
        assert_eq!((check(&[], "/mcp"), check(&["localhost", "localhost"], "/mcp")), (None, None));
        assert!(!is_host(&["localhost"], "http://evil.example/mcp"));
        assert!(is_host(&["localhost"], "http://localhost/mcp"));
    }

    #[test]
    fn pages_need_an_allowed_origin() {
        let page = HeaderValue::from_static("https://app.example");
        let allowed = Allowed::new([127, 0, 0, 1].into(), &[], &[page]);
        let is_origin = |origins: &[&str]| allowed.is_origin(&headers(&ORIGIN, origins));
        assert!(is_origin(&[]));
        for origin in ["http://localhost:1234", "http://[::1]", "https://app.example"] {
            assert!(is_origin(&[origin]), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "http://localhost.evil.example",
            "null",
            "x",
            "http://a@localhost",
        ] {
            assert!(!is_origin(&[origin]), "{origin}");
        }
        assert!(!is_origin(&["http://localhost", "http://localhost"]));
        for (origin, expected) in [
            ("http://localhost:3000", false),
            ("app://notes", false),
            ("null", true),
            ("http://evil.example", true),
            ("HTTPS://evil.example", true),
        ] {
            assert_eq!(is_foreign_page(&headers(&ORIGIN, &[origin])), expected, "{origin}");
        }
        assert!(is_foreign_page(&headers(&ORIGIN, &["http://localhost", "http://evil.example"])));
        assert!(!is_foreign_page(&HeaderMap::new()));
        // The page of the server itself.
        let own = |host: &str, origin: &str| {
            let mut headers = headers(&ORIGIN, &[origin]);
            headers.insert(HOST, host.parse().unwrap());
            allowed.is_origin(&headers)
        };
        assert!(own("box.example:8642", "http://box.example:8642"));
        assert!(own("box.example", "https://Box.example"));
        for origin in ["http://box.example:1", "http://evil.example", "ftp://box.example", "null"] {
            assert!(!own("box.example", origin), "{origin}");
        }
    }
}
