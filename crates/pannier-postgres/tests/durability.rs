//! Several writers and readers, writers and servers that are killed, and connections by TLS.
#![cfg(unix)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pannier_docs::{BuildOptions, Corpus, DocsError, DocumentSource, QueryVector, SearchOptions};
use pannier_postgres::Database;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use support::{Numbers, Scratch, Server, database, has_programs, is_long};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
    if !has_programs() {
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
    if !has_programs() {
        return;
    }
    let mut server = Server::start().unwrap();
    let address = server.database();
    let scratch = Scratch::new();
    let documents = if is_long() { 4_000 } else { 400 };
    (0..documents).for_each(|path| scratch.write(&format!("{path}.md"), &revision(path, 0)));
    let mut numbers = Numbers(17);
    let is_over = Arc::new(AtomicBool::new(false));
    // Searches also see whole documents while a loader or the server ends. Errors are those of a server that is away.
    let reader = {
        let (address, is_over) = (address.clone(), Arc::clone(&is_over));
        std::thread::spawn(move || {
            let database = Database::new(&address).unwrap();
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                let found = database.snapshot().and_then(|snapshot| {
                    let mut options = SearchOptions::default();
                    (options.lexical_k, options.top_k) = (50_000, 50_000);
                    snapshot.search("path7 path300", &options, QueryVector::None)
                });
                match found {
                    Ok(hits) => {
                        check_revisions(&hits);
                        count += 1;
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
            }
            count
        })
    };
    // In turn: the loader and the server.
    let rounds = if is_long() { 40 } else { 20 };
    let mut interrupted = 0;
    for round in 0..rounds {
        // Each round changes some, so that there is work.
        for path in (round..documents).step_by(3) {
            scratch.write(&format!("{path}.md"), &revision(path, round));
        }
        let mut child = loader(&address, &scratch.docs());
        let pause = if is_long() { 1_500 } else { 300 };
        std::thread::sleep(Duration::from_millis(50 + numbers.next(pause) as u64));
        match round % 2 {
            0 => child.kill().unwrap(),
            _ => server.crash(),
        }
        interrupted += usize::from(!child.wait().unwrap().success());
        let database = Database::new(&address).unwrap();
        match database.snapshot() {
            Ok(snapshot) => {
                check_revisions(&search(&snapshot, "marker path7 path300 path1200"));
                assert_eq!(snapshot.verify().unwrap(), [""; 0], "round {round}");
            }
            // The first loader may not have begun.
            Err(error) => assert!(matches!(error, DocsError::NoIndex { .. }), "{round}: {error}"),
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let searches = reader.join().unwrap();
    assert!(searches > 0);
    eprintln!("{interrupted} of {rounds} loads were interrupted; {searches} searches");
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
        assert!(error.contains("sslrootcert") && !error.contains("hunter2"), "{error}");
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

/// The number of rows that belong to no collection.
fn orphans(address: &str) -> String {
    let tables = ["document", "posting", "delta"].map(|table| {
        format!("(SELECT count(*) FROM pannier.{table} WHERE collection NOT IN (SELECT id FROM pannier.collection))")
    });
    let chunks = "(SELECT count(*) FROM pannier.chunk WHERE document NOT IN (SELECT id FROM pannier.document))";
    let sql = format!("SELECT {} + {chunks}", tables.join(" + "));
    support::server().unwrap().sql(address, &sql).trim().to_owned()
}

#[test]
fn one_build_at_a_time_replaces_a_collection() {
    let Some((database, address)) = database() else { return };
    let scratch = Scratch::new();
    (0..30).for_each(|path| scratch.write(&format!("{path}.md"), &revision(path, 0)));
    let source = DocumentSource::new(scratch.docs());
    let first = database.build(&source, &BuildOptions::default(), &mut |_| {}).unwrap();
    let again = || BuildOptions { from_scratch: true, ..BuildOptions::default() };
    let mut other = None;
    // The first build has its draft when it reports its progress.
    let built = database.build(&source, &again(), &mut |_| {
        if other.is_some() {
            return;
        }
        let error = database.build(&source, &again(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, DocsError::Busy { .. }), "{error}");
        let (database, source) = (database.clone(), source.clone());
        other = Some(std::thread::spawn(move || {
            let options = BuildOptions { waits: true, ..again() };
            database.build(&source, &options, &mut |_| {})
        }));
    });
    let other = other.unwrap().join().unwrap().unwrap();
    for built in [built.unwrap(), other] {
        assert_eq!((built.documents, &built.version), (30, &first.version));
    }
    assert_eq!(database.snapshot().unwrap().verify().unwrap(), [""; 0]);
    let collections = "SELECT count(*) FROM pannier.collection";
    assert_eq!(support::server().unwrap().sql(&address, collections).trim(), "1");
    assert_eq!(orphans(&address), "0");
}

#[test]
fn writers_whose_collection_is_replaced_or_removed_start_again() {
    let Some((database, address)) = database() else { return };
    let scratch = Scratch::new();
    let write = |from: usize, revised: usize| {
        (from..20).for_each(|path| scratch.write(&format!("{path}.md"), &revision(path, revised)));
    };
    let source = DocumentSource::new(scratch.docs());
    let again = BuildOptions { from_scratch: true, ..BuildOptions::default() };
    let replace = || drop(database.build(&source, &again, &mut |_| {}).unwrap());
    let remove = || database.drop_collection().unwrap();
    let options = [BuildOptions::default(), BuildOptions::default(), again];
    let interruptions: [&dyn Fn(); 3] = [&replace, &remove, &remove];
    for (number, (options, interrupt)) in options.iter().zip(interruptions).enumerate() {
        write(0, 10 * number);
        database.build(&source, &BuildOptions::default(), &mut |_| {}).unwrap();
        write(5, 10 * number + 1);
        let mut is_first = true;
        let mut progress = |_| {
            if std::mem::take(&mut is_first) {
                interrupt();
            }
        };
        let built = database.build(&source, options, &mut progress).unwrap();
        assert_eq!(built.documents, 20);
        let snapshot = database.snapshot().unwrap();
        assert_eq!(snapshot.verify().unwrap(), [""; 0]);
        assert_eq!(search(&snapshot, &format!("revision{}", 10 * number + 1)).len(), 45);
        assert_eq!(orphans(&address), "0");
    }
}

#[test]
fn single_writes_add_up_the_statistics() {
    let Some((database, address)) = database() else { return };
    let scratch = Scratch::new();
    scratch.write("0.md", "word1");
    database
        .build(&DocumentSource::new(scratch.docs()), &BuildOptions::default(), &mut |_| {})
        .unwrap();
    for number in 0..120 {
        let text = format!("word{number}");
        database.put(&[("0.md", &text)], &BuildOptions::default()).unwrap();
    }
    let rows = support::server().unwrap().sql(&address, "SELECT count(*) FROM pannier.delta");
    assert!(rows.trim().parse::<u32>().unwrap() <= 101, "{rows}");
    assert_eq!(database.snapshot().unwrap().verify().unwrap(), [""; 0]);
}

/// The recovery of a replica cancels searches with the error that a policy raises here, once for each session.
#[test]
fn searches_try_again_after_a_conflict() {
    let Some((database, address)) = database() else { return };
    let server = support::server().unwrap();
    let scratch = Scratch::new();
    scratch.write("0.md", &revision(0, 0));
    let source = DocumentSource::new(scratch.docs());
    database.build(&source, &BuildOptions::default(), &mut |_| {}).unwrap();
    let once = |key: u32| {
        format!(
            "CREATE FUNCTION once{key}() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                 IF NOT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = {key} AND pid = pg_backend_pid()) THEN
                     PERFORM pg_advisory_lock({key});
                     RAISE EXCEPTION 'secret detail' USING ERRCODE = 'serialization_failure';
                 END IF;
                 RETURN true;
             END $$;"
        )
    };
    let tables = ["posting", "chunk"].iter().zip(7_001..).map(|(table, key)| {
        format!(
            "{} ALTER TABLE pannier.{table} ENABLE ROW LEVEL SECURITY;
             CREATE POLICY once ON pannier.{table} USING (once{key}());",
            once(key)
        )
    });
    let role = "CREATE ROLE conflicted LOGIN; GRANT USAGE ON SCHEMA pannier TO conflicted;
        GRANT SELECT ON ALL TABLES IN SCHEMA pannier TO conflicted;";
    server.sql(&address, &format!("{role}{}", tables.collect::<String>()));
    let reader = Database::new(&address.replace("pannier@", "conflicted@")).unwrap();
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(search(&snapshot, "revision0").len(), 3);
    // Another version would not be that of the snapshot.
    drop(snapshot);
    let reader = Database::new(&address.replace("pannier@", "conflicted@")).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let text = revision(0, 1);
    database.put(&[("0.md", &text)], &BuildOptions::default()).unwrap();
    let error = snapshot.search("revision0", &SearchOptions::default(), QueryVector::None);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("try again") && !error.contains("secret"), "{error}");
    drop((snapshot, reader));
    server.sql(&address, "DROP OWNED BY conflicted; DROP ROLE conflicted");
}

/// A server that accepts connections, and answers the request for TLS or nothing.
fn fake_server(answer: &'static [u8]) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = std::io::Read::read(&mut stream, &mut [0; 8]);
            let _ = std::io::Write::write_all(&mut stream, answer);
            open.push(stream);
        }
    });
    port
}

#[test]
fn connecting_says_what_is_missing() {
    let Some((database, address)) = database() else { return };
    let error = |url: &str| Database::new(url).unwrap().snapshot().unwrap_err().to_string();
    let (silent, plain) = (fake_server(b""), fake_server(b"N"));
    for mode in ["disable", "require"] {
        let url =
            format!("postgres://me:hunter2@127.0.0.1:{silent}/db?connect_timeout=1&sslmode={mode}");
        let silent = error(&url);
        assert!(silent.contains("has not answered for 1 s"), "{silent}");
    }
    let plain = error(&format!("postgres://me:hunter2@127.0.0.1:{plain}/db?sslmode=require"));
    assert!(plain.contains("has no TLS") && plain.contains("sslmode=disable"), "{plain}");
    // A server that wants the password of one user.
    let server = support::server().unwrap();
    server.sql(&address, "CREATE ROLE secret LOGIN PASSWORD 'hunter2'");
    let file = server.folder.join("data/pg_hba.conf");
    let rules = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("local all secret scram-sha-256\n{rules}")).unwrap();
    server.sql(&address, "SELECT pg_reload_conf()");
    let secret = address.replace("pannier@", "secret@");
    let mut missing = error(&secret);
    // The server reads its rules again soon. Without them, there is no collection.
    for _ in 0..600 {
        if missing.contains("password") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        missing = error(&secret);
    }
    assert!(missing.contains("set PGPASSWORD"), "{missing}");
    let wrong = error(&address.replace("pannier@", "secret:hunter3@"));
    assert!(wrong.contains("rejects the user or the password"), "{wrong}");
    let right = error(&address.replace("pannier@", "secret:hunter2@"));
    assert!(right.contains("there is no index"), "{right}");
    drop(database);
    server.sql(&address, "DROP ROLE secret");
}

#[test]
fn a_server_that_stops_answering_ends_a_search() {
    let Some((database, address)) = database() else { return };
    let server = support::server().unwrap();
    let scratch = Scratch::new();
    scratch.write("a.md", "word1");
    database
        .build(&DocumentSource::new(scratch.docs()), &BuildOptions::default(), &mut |_| {})
        .unwrap();
    let database = database.with_search_limit(Duration::from_secs(5)).unwrap();
    let snapshot = database.snapshot().unwrap();
    // Another session locks the table until its input ends.
    let mut holder = server.psql(&address);
    let lock = b"BEGIN; LOCK TABLE pannier.posting IN ACCESS EXCLUSIVE MODE; SELECT 'locked';\n";
    std::io::Write::write_all(holder.stdin.as_mut().unwrap(), lock).unwrap();
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    let error = snapshot.search("word1", &SearchOptions::default(), QueryVector::None);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("has not answered for 5 s"), "{error}");
    drop(snapshot);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    // The pool is not stuck.
    assert_eq!(search(&database.snapshot().unwrap(), "word1").len(), 1);
}
