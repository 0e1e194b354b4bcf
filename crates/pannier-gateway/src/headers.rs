//! Headers that a gateway must not forward.

use axum::http::header::{
    CONNECTION, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use axum::http::{HeaderMap, HeaderName};

/// The header by which a client names its session.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("pannier-session");

/// The headers of one connection (RFC 9110, 7.6.1), which are not those of the next one.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes the headers of one connection, and those that `Connection` names.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    // A provider may send trailers only to clients that accept them.
    let accepts_trailers = headers.get(TE).is_some_and(|value| value == "trailers");
    for name in named.into_iter().chain(HOP_BY_HOP) {
        headers.remove(name);
    }
    headers.remove(TE);
    if accepts_trailers {
        headers.insert(TE, axum::http::HeaderValue::from_static("trailers"));
    }
}

/// Removes what a provider must not get: headers of the connection, and our own.
pub(crate) fn clean_request(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    // The next connection has another host. The body was asked for already.
    for name in [HOST, EXPECT, SESSION] {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_connection_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-private"),
            ("x-private", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("host", "localhost"),
            ("pannier-session", "7"),
            ("x-api-key", "k"),
            ("accept-encoding", "gzip"),
        ] {
            headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        }
        clean_request(&mut headers);
        let names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        for name in ["te", "x-api-key", "accept-encoding"] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
