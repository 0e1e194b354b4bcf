//! The embedder over TLS: certificates are verified against the roots of the system.
//!
//! The roots are those of an environment variable, so each client is a process of its own. `tests/tls` has an authority, whose
//! key is not kept, and a certificate of it for `localhost`.

#![cfg(target_os = "linux")]

mod support;

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pannier_docs::Embedder;
use pannier_http::{Endpoint, HttpEmbedder, Limits};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use support::{Sent, Server, embeddings};

/// The variable with the address that a client connects to.
const ADDRESS: &str = "PANNIER_TEST_ADDRESS";

fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// Starts a server with a certificate for `localhost`, and addresses it by `host`.
fn start(host: &'static str) -> Server {
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let accept = move |stream: TcpStream| {
        let connection = ServerConnection::new(Arc::clone(&config)).ok()?;
        Some(StreamOwned::new(connection, stream))
    };
    let base = move |address: std::net::SocketAddr| format!("https://{host}:{}/v1", address.port());
    Server::start_with(base, accept, |_, received| Sent::json(&embeddings(received)))
}

/// Runs a client that trusts the certificates of a file, and returns its output.
fn run(server: &Server, roots: &Path) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "client", "--ignored", "--nocapture"])
        .env(ADDRESS, server.address("letters"))
        .env("SSL_CERT_FILE", roots)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
#[ignore = "a process that other tests start"]
fn client() {
    let endpoint = Endpoint::parse(&std::env::var(ADDRESS).unwrap()).unwrap();
    let mut limits = Limits::default();
    limits.connection_retries = 0;
    match HttpEmbedder::open(endpoint.with_key("sk-secret-0123").unwrap(), limits) {
        Ok(embedder) => assert_eq!(embedder.embed(&["a", "b"]).unwrap().len(), 2),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_server_with_a_trusted_certificate_is_used() {
    let server = start("localhost");
    let (is_ok, output) = run(&server, &file("authority.pem"));
    assert!(is_ok, "{output}");
    let received = server.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[1].authorization.as_deref(), Some("Bearer sk-secret-0123"));
}

#[test]
fn a_certificate_that_is_not_trusted_is_a_clear_error() {
    // The server's own certificate is no authority, and the certificate is for another host.
    for (host, roots) in [("localhost", "server.pem"), ("127.0.0.1", "authority.pem")] {
        let server = start(host);
        let (is_ok, output) = run(&server, &file(roots));
        assert!(!is_ok && output.contains("certificate"), "{output}");
        assert!(!output.contains("sk-secret-0123") && server.received().is_empty(), "{output}");
    }
}
