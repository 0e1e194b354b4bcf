//! Who sent a request, as keyed hashes: the gateway holds no credential longer than a request takes.

use std::collections::BTreeSet;
use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::headers::SESSION;

/// The headers whose values are keys of a provider.
const KEYS: [&str; 2] = ["x-api-key", "api-key"];

/// The headers that select one of several accounts of a key.
const ACCOUNTS: [&str; 2] = ["openai-organization", "openai-project"];

/// The random key of all hashes. Without it, nobody can find out by hashing what a client has sent.
#[derive(Clone)]
pub(crate) struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A credential: the keyed hash of all keys in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Credential([u8; 32]);

impl Credential {
    /// Returns the name of its folder.
    pub(crate) fn digits(&self) -> String {
        hex(&self.0[..16])
    }
}

/// A client: a credential with its account, and the session that a header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client([u8; 32]);

impl Client {
    /// Returns a key for hashes that belong to this client and this purpose alone.
    pub(crate) fn key(&self, purpose: &str) -> [u8; 32] {
        blake3::keyed_hash(&self.0, purpose.as_bytes()).into()
    }
}

impl Secret {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the credential of a request, or `None` if it has no key.
    ///
    /// Agents send a key as `X-Api-Key`, and their tools send the same one as a bearer token. So only the values count.
    pub(crate) fn credential(&self, headers: &HeaderMap) -> Option<Credential> {
        let bearer = |value: &'_ [u8]| match value.split_at_checked(7) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => {
                token.trim_ascii().to_vec()
            }
            // Another scheme is part of the credential.
            _ => [b"\0", value].concat(),
        };
        let authorization = headers.get_all(AUTHORIZATION).iter();
        let mut keys: BTreeSet<Vec<u8>> =
            authorization.map(|value| bearer(value.as_bytes())).collect();
        for name in KEYS {
            keys.extend(headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()));
        }
        let mut hasher = self.hasher("credential");
        keys.iter().for_each(|key| add(&mut hasher, key));
        (!keys.is_empty()).then(|| Credential(hasher.finalize().into()))
    }

    /// Returns the client of a request. All requests without a key are one client.
    pub(crate) fn client(&self, headers: &HeaderMap) -> Client {
        let mut hasher = self.hasher("client");
        if let Some(Credential(credential)) = self.credential(headers) {
            add(&mut hasher, &credential);
        }
        for name in ACCOUNTS.into_iter().chain([SESSION.as_str()]) {
            let values = headers.get_all(name);
            hasher.update(&(values.iter().count() as u64).to_le_bytes());
            values.iter().for_each(|value| add(&mut hasher, value.as_bytes()));
        }
        Client(hasher.finalize().into())
    }

    fn hasher(&self, purpose: &str) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        add(&mut hasher, purpose.as_bytes());
        hasher
    }
}

fn add(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        values.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn clients_differ_by_keys_accounts_and_sessions() {
        let secret = Secret::random().unwrap();
        let all = [
            headers(&[]),
            headers(&[("x-api-key", "a")]),
            headers(&[("x-api-key", "b")]),
            headers(&[("authorization", "a")]),
            headers(&[("authorization", "Basic a")]),
            headers(&[("x-api-key", "a"), ("api-key", "b")]),
            headers(&[("x-api-key", "a"), ("openai-organization", "o")]),
            headers(&[("x-api-key", "a"), ("openai-project", "o")]),
            headers(&[("x-api-key", "a"), ("pannier-session", "1")]),
        ];
        for (index, one) in all.iter().enumerate() {
            for other in &all[..index] {
                assert_ne!(secret.client(one), secret.client(other), "{one:?} {other:?}");
            }
        }
        let other = Secret::random().unwrap();
        assert_ne!(secret.client(&all[1]), other.client(&all[1]), "the hashes are keyed");
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    #[test]
    fn a_key_is_the_same_credential_in_all_headers() {
        let secret = Secret::random().unwrap();
        let credential = |values| secret.credential(&headers(values));
        let key = credential(&[("x-api-key", "k")]);
        assert!(key.is_some());
        assert_eq!(key, credential(&[("authorization", "Bearer k")]));
        assert_eq!(key, credential(&[("api-key", "k"), ("authorization", "bearer k")]));
        assert_eq!(key, credential(&[("x-api-key", "k"), ("pannier-session", "1")]));
        assert_ne!(key, credential(&[("x-api-key", "other")]));
        assert_eq!(credential(&[("pannier-session", "1")]), None);
        assert_eq!(key.unwrap().digits().len(), 32);
    }
}
