//! Several writers and readers, writers and servers that are killed, and connections by TLS.
#![cfg(unix)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pannier_docs::{BuildOptions, Corpus, DocumentSource, QueryVector, SearchOptions};
use pannier_postgres::Database;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use support::{Numbers, Scratch, Server, database};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Whether the longer form of a test runs.
fn is_long() -> bool {
    std::env::var_os("PANNIER_LONG").is_some_and(|long| !long.is_empty())
}

fn search(corpus: &dyn Corpus, query: &str) -> Vec<pannier_docs::Hit> {
    let mut options = SearchOptions::default();
    // All of them: a cut would leave a part of a document out.
    (options.lexical_k, options.top_k) = (50_000, 50_000);
    corpus.search(query, &options, QueryVector::None).unwrap()
}

/// A document of several chunks that all name its revision.
fn revision(path: usize, revision: usize) -> String {
    let section = |part: usize| {
        format!(
            "# Part {part}\n\nmarker path{path} revision{revision} {}\n\n",
            "filler ".repeat(120)
        )
    };
    (0..3).map(section).collect()
}

/// Checks that all hits of a document are of one revision, and that each has all chunks.
fn check_revisions(hits: &[pannier_docs::Hit]) {
    let mut seen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for hit in hits {
        let start = hit.text.find("revision").unwrap();
        let revision = hit.text[start..].split_whitespace().next().unwrap();
        seen.entry(&hit.path).or_default().push(revision);
    }
    for (path, revisions) in seen {
        assert_eq!(revisions.len(), 3, "{path}");
        assert!(revisions.iter().all(|own| *own == revisions[0]), "{path}: {revisions:?}");
    }
}

#[test]
fn readers_see_one_version_of_each_document_while_two_write() {
    let Some((database, _)) = database() else { return };
    let scratch = Scratch::new();
    (0..12).for_each(|path| scratch.write(&format!("{path}.md"), &revision(path, 0)));
    database
        .build(&DocumentSource::new(scratch.docs()), &BuildOptions::default(), &mut |_| {})
        .unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let duration = Duration::from_secs(if is_long() { 60 } else { 4 });
    let mut threads = Vec::new();
    for writer in 0..2_usize {
        let (database, is_over) = (database.clone(), Arc::clone(&is_over));
        threads.push(std::thread::spawn(move || {
            let (mut numbers, mut count) = (Numbers(writer as u64 + 5), 0);
            while !is_over.load(Ordering::Relaxed) {
                // Both write the same documents, sometimes new ones.
                let paths: Vec<usize> = (0..3).map(|_| numbers.next(14)).collect();
                count += 1;
                let texts: Vec<(String, String)> = paths
                    .iter()
                    .map(|path| (format!("{path}.md"), revision(*path, 2 * count + writer)))
                    .collect();
                let texts: Vec<(&str, &str)> =
                    texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
                database.put(&texts, &BuildOptions::default()).unwrap();
                if count % 5 == 0 {
                    database.remove(&["12.md", "13.md"]).unwrap();
                }
            }
            count
        }));
    }
    for _ in 0..10 {
        let (database, is_over) = (database.clone(), Arc::clone(&is_over));
        threads.push(std::thread::spawn(move || {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                let snapshot = database.snapshot().unwrap();
                let hits = search(&snapshot, "marker");
                assert!(hits.len() >= 36);
                check_revisions(&hits);
                assert_eq!(snapshot.manifest().chunks as usize, hits.len());
                count += 1;
            }
            count
        }));
    }
    std::thread::sleep(duration);
    is_over.store(true, Ordering::Relaxed);
    let counts: Vec<usize> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    eprintln!("writes {:?}, searches {:?}", &counts[..2], &counts[2..]);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(database.snapshot().unwrap().verify().unwrap(), [""; 0]);
}

/// Two transactions at the isolation level of serializable ones fail each other; a batch is written again then.
#[test]
fn writers_try_again_after_a_serialization_failure() {
    let Some((database, address)) = database() else { return };
    let server = support::server().unwrap();
    let scratch = Scratch::new();
    scratch.write("0.md", &revision(0, 0));
    database
        .build(&DocumentSource::new(scratch.docs()), &BuildOptions::default(), &mut |_| {})
        .unwrap();
    // The first two attempts fail as if they had met another writer.
    server.sql(
        &address,
        "CREATE SEQUENCE attempts;
         CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('attempts') <= 2 THEN
                 RAISE EXCEPTION 'secret detail' USING ERRCODE = 'serialization_failure';
             END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER fail AFTER INSERT ON pannier.delta EXECUTE FUNCTION fail();",
    );
    let text = revision(0, 1);
    database.put(&[("0.md", &text)], &BuildOptions::default()).unwrap();
    assert_eq!(server.sql(&address, "SELECT last_value FROM attempts").trim(), "3");
    let snapshot = database.snapshot().unwrap();
    check_revisions(&search(&snapshot, "revision1"));
    assert_eq!(search(&snapshot, "revision1").len(), 3);
    assert_eq!(snapshot.verify().unwrap(), [""; 0]);
    drop(snapshot);
    // Any other error ends the batch, and is not shown as it is.
    server.sql(
        &address,
        "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'secret detail'; END $$",
    );
    let text = revision(0, 2);
    let error = database.put(&[("0.md", &text)], &BuildOptions::default()).unwrap_err().to_string();
    assert!(error.contains("error P0001") && !error.contains("secret"), "{error}");
    assert_eq!(search(&database.snapshot().unwrap(), "revision1").len(), 3);
}

/// Searches read from a standby that replicates the server, and indexing writes to the server itself.
#[test]
fn searches_read_from_a_replica() {
    if std::env::var_os("PANNIER_POSTGRES").is_none() {
        eprintln!("skipped: PANNIER_POSTGRES is not set; see .ci/postgres");
        return;
    }
    let primary = Server::start().unwrap();
    let replica = primary.replicate();
    let address = primary.database();
    let name = address.split('/').nth(3).unwrap().split('?').next().unwrap();
    let other = replica.address(name);
    let scratch = Scratch::new();
    scratch.write("0.md", &revision(0, 0));
    let source = DocumentSource::new(scratch.docs());
    let database = Database::new(&address).unwrap();
    let wait = || {
        let position = primary.sql(&address, "SELECT pg_current_wal_lsn()");
        let reached = format!("SELECT pg_last_wal_replay_lsn() >= '{}'", position.trim());
        for _ in 0..600 {
            if replica.sql(&replica.address("postgres"), &reached).trim() == "t" {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the replica does not follow");
    };
    database.build(&source, &BuildOptions::default(), &mut |_| {}).unwrap();
    wait();
    let database = database.with_replica(&other).unwrap();
    assert_eq!(search(&database.snapshot().unwrap(), "revision0").len(), 3);
    // The replica is read-only, and says where to index.
    let text = revision(0, 1);
    let error = Database::new(&other).unwrap().put(&[("0.md", &text)], &BuildOptions::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("read-only") && error.contains("primary"), "{error}");
    // It has the version that it has, until it has caught up.
    let pause = replica.address("postgres");
    replica.sql(&pause, "SELECT pg_wal_replay_pause()");
    database.put(&[("0.md", &text)], &BuildOptions::default()).unwrap();
    assert_eq!(search(&database.snapshot().unwrap(), "revision1").len(), 0);
    replica.sql(&pause, "SELECT pg_wal_replay_resume()");
    wait();
    let snapshot = database.snapshot().unwrap();
    assert_eq!(search(&snapshot, "revision1").len(), 3);
    assert_eq!(snapshot.verify().unwrap(), [""; 0]);
    // Searches go on while the primary is away, and indexing says so.
    drop(primary);
    assert_eq!(search(&database.snapshot().unwrap(), "revision1").len(), 3);
    let error = database.put(&[("0.md", &text)], &BuildOptions::default()).unwrap_err().to_string();
    assert!(error.contains("the server is away") || error.contains("closed"), "{error}");
}

/// Loads a folder in a process of its own, which a test kills.
#[test]
#[ignore = "a part of another test"]
fn child_loader() {
    let Ok(address) = std::env::var("PANNIER_TEST_ADDRESS") else { return };
    let folder = std::env::var("PANNIER_TEST_FOLDER").unwrap();
    let database = Database::new(&address).unwrap();
    database.build(&DocumentSource::new(folder), &BuildOptions::default(), &mut |_| {}).unwrap();
}

fn loader(address: &str, folder: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_loader", "--ignored"])
        .env("PANNIER_TEST_ADDRESS", address)
        .env("PANNIER_TEST_FOLDER", folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_loader_or_server_leaves_whole_documents() {
    if std::env::var_os("PANNIER_POSTGRES").is_none() {
        eprintln!("skipped: PANNIER_POSTGRES is not set; see .ci/postgres");
        return;
    }
    let mut server = Server::start().unwrap();
    let address = server.database();
    let scratch = Scratch::new();
    let documents = if is_long() { 4_000 } else { 1_500 };
    (0..documents).for_each(|path| scratch.write(&format!("{path}.md"), &revision(path, 0)));
    let mut numbers = Numbers(17);
    // In turn: the loader and the server.
    let rounds = if is_long() { 40 } else { 4 };
    let mut interrupted = 0;
    for round in 0..rounds {
        // Each round changes some, so that there is work.
        for path in (round..documents).step_by(3) {
            scratch.write(&format!("{path}.md"), &revision(path, round));
        }
        let mut child = loader(&address, &scratch.docs());
        std::thread::sleep(Duration::from_millis(100 + numbers.next(1_500) as u64));
        match round % 2 {
            0 => child.kill().unwrap(),
            _ => server.crash(),
        }
        interrupted += usize::from(!child.wait().unwrap().success());
        let database = Database::new(&address).unwrap();
        if let Ok(snapshot) = database.snapshot() {
            check_revisions(&search(&snapshot, "marker path7 path300 path1200"));
            assert_eq!(snapshot.verify().unwrap(), [""; 0], "round {round}");
        }
    }
    eprintln!("{interrupted} of {rounds} loads were interrupted");
    assert!(interrupted > 0);
    assert!(loader(&address, &scratch.docs()).wait().unwrap().success());
    let database = Database::new(&address).unwrap();
    let snapshot = database.snapshot().unwrap();
    assert_eq!(snapshot.manifest().documents as usize, documents);
    assert_eq!(snapshot.verify().unwrap(), [""; 0]);
}

/// A proxy that adds TLS to a server on a socket, as the protocol asks for it.
fn tls_proxy(socket: std::path::PathBuf) -> u16 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tls");
    let certificates = CertificateDer::pem_file_iter(folder.join("server.pem")).unwrap();
    let certificates = certificates.collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((mut client, _)) = listener.accept().await {
                let (acceptor, socket) = (acceptor.clone(), socket.clone());
                tokio::spawn(async move {
                    let mut request = [0; 8];
                    client.read_exact(&mut request).await.unwrap();
                    assert_eq!(request[4..], 80_877_103_u32.to_be_bytes());
                    client.write_all(b"S").await.unwrap();
                    // A client that does not trust the certificate ends here.
                    let Ok(mut client) = acceptor.accept(client).await else { return };
                    let mut server = tokio::net::UnixStream::connect(socket).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
    });
    port
}

#[test]
fn tls_is_verified_in_every_mode() {
    let Some((database, address)) = database() else { return };
    let scratch = Scratch::new();
    scratch.write("a.md", "word1");
    database
        .build(&DocumentSource::new(scratch.docs()), &BuildOptions::default(), &mut |_| {})
        .unwrap();
    let server = support::server().unwrap();
    let port = tls_proxy(server.folder.join(".s.PGSQL.5432"));
    let name = address.split('/').nth(3).unwrap().split('?').next().unwrap();
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/tls/ca.pem");
    let open = |host: &str, options: &str| {
        let url = format!("postgres://pannier:hunter2@{host}:{port}/{name}?{options}");
        Database::new(&url).and_then(|database| database.snapshot())
    };
    let trusted = format!("sslrootcert={}", authority.display());
    for mode in ["sslmode=require", "sslmode=prefer", "sslmode=verify-full"] {
        let snapshot = open("localhost", &format!("{mode}&{trusted}")).unwrap();
        assert_eq!(search(&snapshot, "word1").len(), 1);
    }
    // Another authority, another host, and no TLS where it is needed.
    for (host, options) in [
        ("localhost", "sslmode=require".to_owned()),
        ("localhost", "sslmode=prefer".to_owned()),
        ("127.0.0.1", format!("sslmode=require&{trusted}")),
        ("localhost", "sslmode=require&sslrootcert=/nowhere.pem".to_owned()),
    ] {
        let error = open(host, &options).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn snapshots_wait_for_a_connection() {
    let Some((database, address)) = database() else { return };
    let scratch = Scratch::new();
    scratch.write("a.md", "word1");
    database
        .build(&DocumentSource::new(scratch.docs()), &BuildOptions::default(), &mut |_| {})
        .unwrap();
    // More snapshots than connections wait for each other.
    let open: Vec<_> = (0..16).map(|_| database.snapshot().unwrap()).collect();
    let waiting = {
        let database = database.clone();
        std::thread::spawn(move || database.snapshot().unwrap().manifest().documents)
    };
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished());
    drop(open);
    assert_eq!(waiting.join().unwrap(), 1);
    let server = support::server().unwrap();
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pannier' AND datname = current_database()";
    assert!(server.sql(&address, open).trim().parse::<usize>().unwrap() <= 16);
}
