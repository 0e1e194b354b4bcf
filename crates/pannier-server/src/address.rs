//! The address to listen at.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use crate::HttpError;

/// The address to listen at.
///
/// ```
/// use pannier_server::Address;
///
/// let address: Address = "8642".parse()?;
/// assert_eq!(address.to_string(), "127.0.0.1:8642");
/// # Ok::<(), pannier_server::HttpError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub(crate) SocketAddr);

impl Address {
    pub(crate) fn ip(&self) -> IpAddr {
        self.0.ip()
    }

    /// Returns whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.0.ip().is_loopback()
    }
}

impl FromStr for Address {
    type Err = HttpError;

    /// Parses a port of this machine, or an address and a port.
    fn from_str(text: &str) -> Result<Self, HttpError> {
        if let Ok(port) = text.parse() {
            return Ok(Self((Ipv4Addr::LOCALHOST, port).into()));
        }
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        text.parse().map(Self).map_err(|_| HttpError::Address { text })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_default_to_loopback() {
        for (text, address) in [
            ("8642", "127.0.0.1:8642"),
            ("localhost:1", "127.0.0.1:1"),
            ("[::1]:7", "[::1]:7"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), address);
        }
        for text in ["", "x", "example.org:80", "70000", ":80"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
