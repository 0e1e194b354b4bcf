//! Embedding and reranking servers, from the command line.

#[path = "../../pannier-http/tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::{Received, Sent, Server, embeddings, scores};

const KEY: &str = "sk-very-secret-4711";

/// A project with documents, removed at the end.
struct Project(PathBuf);

impl Project {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pannier-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("docs")).unwrap();
        for (name, text) in [
            ("adzes.md", "# Adzes\n\nAn adze has a sharp edge. xx"),
            ("bread.md", "# Bread\n\nBad bread is hard bread, and an edge of it is x."),
            ("cheese.md", "# Cheese\n\nEach cheese has an edge. xxx"),
            ("deeds.md", "# Deeds\n\nA deed is indeed dead."),
        ] {
            fs::write(folder.join("docs").join(name), text).unwrap();
        }
        Self(folder)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pannier"));
        for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(proxy);
        }
        command.args(arguments).current_dir(&self.0).env("MODEL_KEY", KEY).output().unwrap()
    }

    /// Runs a command that succeeds, and returns its output.
    fn good(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, error) = texts(&output);
        assert!(output.status.success(), "{arguments:?}: {out}{error}");
        out
    }

    /// Runs a command that fails, and returns its exit code and errors.
    fn bad(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.run(arguments);
        (output.status.code(), texts(&output).1)
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the output and the errors, which never have the key.
fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(!out.contains(KEY) && !error.contains(KEY), "{out}{error}");
    (out, error)
}

/// Returns the contents of all files below a folder.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    files.sort();
    files
}

fn good_server() -> Server {
    Server::start(|_, received| match received.path.as_str() {
        "/v1/embeddings" => Sent::json(&embeddings(received)),
        "/v1/rerank" => Sent::json(&scores(received)),
        _ => Sent::text(404, ""),
    })
}

#[test]
fn an_index_has_vectors_of_a_server() {
    let (project, server) = (Project::new("http-index"), good_server());
    let address = server.address("letters");
    let keyed = ["--embedder", &address, "--embedder-key-env", "MODEL_KEY"];
    let index = ["docs", "index", "docs"];
    let out = project.good(&[&index[..], &keyed].concat());
    assert!(out.contains("4 new vectors"), "{out}");
    assert!(project.good(&[&index[..], &keyed].concat()).contains("nothing has changed"));
    let out =
        project.good(&[&["docs", "search", "deed", "--mode", "semantic"][..], &keyed].concat());
    assert!(out.starts_with("## deeds.md") || out.contains("A deed is indeed dead"), "{out}");
    assert!(
        server
            .received()
            .iter()
            .all(|one| one.authorization.as_deref() == Some("Bearer sk-very-secret-4711"))
    );
    for (path, bytes) in files(&project.0.join(".pannier")) {
        let has_key = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!has_key, "{}", path.display());
    }
    let stats: Value =
        serde_json::from_str(&project.good(&["docs", "stats", "-f", "json"])).unwrap();
    let model = &stats["model"];
    assert_eq!((&model["name"], &model["dimensions"]), (&"letters".into(), &9.into()), "{stats}");
    assert!(project.good(&["docs", "verify"]).contains("sound"));

    // Another model on the server, and an update with it.
    let other = Server::start(|_, received| {
        let mut answer = embeddings(received);
        for one in answer["data"].as_array_mut().unwrap() {
            one["embedding"].as_array_mut().unwrap().reverse();
        }
        Sent::json(&answer)
    });
    let other = other.address("letters");
    let (code, error) = project.bad(&["docs", "search", "deed", "--embedder", &other]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("use the embedder of the index, or build the index again"), "{error}");
    let out = project.good(&[&index[..], &["--embedder", &other]].concat());
    assert!(out.contains("4 new vectors"), "{out}");
    project.good(&["docs", "search", "deed", "--embedder", &other]);
}

#[test]
fn a_failed_build_changes_nothing_and_can_be_repeated() {
    let (project, server) = (Project::new("http-fail"), good_server());
    let build = |address: &str| {
        let arguments =
            ["docs", "index", "docs", "--embedder", address, "--embedder-key-env", "MODEL_KEY"];
        project.run(&arguments)
    };
    assert!(build(&server.address("letters")).status.success());
    fs::write(project.0.join("docs/eggs.md"), "# Eggs\n\nA bad egg.").unwrap();
    let before = files(&project.0.join(".pannier/index"));
    for (kind, code, problem) in [
        ("refused", 6, "the connection failed"),
        ("status", 2, "answered 400 (bad [key])"),
        ("dimension", 2, "an embedding has 2 dimensions instead of 9"),
        ("truncated", 2, "EOF while parsing"),
        ("NaN", 2, "expected value"),
    ] {
        let address = match kind {
            "refused" => "http://127.0.0.1:9/v1#letters".to_owned(),
            kind => {
                // The first request is for the fingerprint.
                let broken = Server::start(move |number, received| match (number, kind) {
                    (0, _) => Sent::json(&embeddings(received)),
                    (_, "status") => Sent::text(400, &format!("{{\"message\":\"bad {KEY}\"}}")),
                    (_, "dimension") => {
                        Sent::text(200, "{\"data\":[{\"index\":0,\"embedding\":[1,2]}]}")
                    }
                    (_, "NaN") => Sent::text(200, "{\"data\":[{\"index\":0,\"embedding\":[NaN]}]}"),
                    _ => Sent::text(200, "{\"data\":[{\"index\":0,\"embedd"),
                });
                broken.address("letters")
            }
        };
        let output = build(&address);
        let (_, error) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{kind}: {error}");
        assert!(error.contains(problem), "{kind}: {error}");
        let after = files(&project.0.join(".pannier/index"));
        let intact = before.iter().all(|file| after.contains(file));
        assert!(intact, "{kind}: the index has changed");
        assert!(
            !project.good(&["docs", "search", "egg edge", "--mode", "lexical"]).contains("eggs.md")
        );
    }
    let (out, _) = texts(&build(&server.address("letters")));
    assert!(out.contains("1 new vector\n"), "{out}");
}

#[test]
fn a_build_that_failed_resumes_after_its_last_good_batch() {
    let project = Project::new("http-resume");
    for number in 0..196 {
        let text = format!("# Page {number}\n\nThe edge of page {number} is bad.");
        fs::write(project.0.join(format!("docs/page-{number:03}.md")), text).unwrap();
    }
    let texts_of = |received: &[Received]| -> Vec<String> {
        let texts = received.iter().flat_map(|one| one.body["input"].as_array().unwrap().clone());
        texts
            .map(|text| text.as_str().unwrap().to_owned())
            .filter(|text| text.contains("# "))
            .collect()
    };
    // The first request is for the fingerprint.
    let broken = Server::start(|number, received| match number {
        6.. => Sent::text(400, ""),
        _ => Sent::json(&embeddings(received)),
    });
    let address = broken.address("letters");
    let (code, error) = project.bad(&["docs", "index", "docs", "--embedder", &address]);
    assert!(code == Some(2) && error.contains("answered 400"), "{error}");
    let done = texts_of(&broken.received()[..6]);
    assert!(done.len() > 16 && done.len() < 200, "{}", done.len());

    let good = good_server();
    let out = project.good(&["docs", "index", "docs", "--embedder", &good.address("letters")]);
    let resumed = texts_of(&good.received());
    assert!(out.contains(&format!("200 chunks, {} new vectors", resumed.len())), "{out}");
    // Only the batches that were sent together with the failing one are sent again.
    let twice = resumed.iter().filter(|text| done.contains(text)).count();
    assert!(twice < 64 && done.len() + resumed.len() == 200 + twice, "{twice} twice");
    assert!(resumed.len() <= 200 - 64, "{} sent again", resumed.len());
    assert!(project.good(&["docs", "verify"]).contains("sound"));
    let index = files(&project.0.join(".pannier/index"));
    assert!(index.iter().all(|(path, _)| !path.ends_with("vector-log")));
    project.good(&["docs", "search", "edge", "--embedder", &good.address("letters")]);
}

#[test]
fn a_reranker_orders_passages_and_a_replay_needs_no_server() {
    let (project, server) = (Project::new("http-rerank"), good_server());
    let (embedder, reranker) = (server.address("letters"), server.address("judge"));
    project.good(&["docs", "index", "docs", "--embedder", &embedder]);
    let search = ["docs", "search", "edge", "--embedder", &embedder, "--layout", "ranked"];
    let reranked =
        [&search[..], &["--reranker", &reranker, "--reranker-key-env", "MODEL_KEY"]].concat();
    let ids = |out: &str| -> Vec<String> {
        let answer: Value = serde_json::from_str(out).unwrap();
        let passages = answer["passages"].as_array().unwrap();
        passages.iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect()
    };
    let plain = ids(&project.good(&[&search[..], &["-f", "json"]].concat()));
    let ordered = ids(&project.good(&[&reranked[..], &["-f", "json"]].concat()));
    assert_ne!(plain, ordered);
    // The test server counts the letter x.
    assert_eq!(ordered[..3], ["cheese.md", "adzes.md", "bread.md"]);

    for format in ["text", "json"] {
        project.good(&[&reranked[..], &["-f", format, "--receipt", "run.json"]].concat());
        let requests = server.received().len();
        assert_eq!(project.good(&["inspect", "replay", "run.json"]), "identical\n");
        assert_eq!(server.received().len(), requests);
        let receipt: Value =
            serde_json::from_slice(&fs::read(project.0.join("run.json")).unwrap()).unwrap();
        let reranking = &receipt["source"]["options"]["reranking"];
        assert_eq!(reranking["model"], "judge");
        assert_eq!(reranking["scores"].as_array().unwrap().len(), 4);
        let changed = receipt.to_string().replace("0.03", "0.001");
        fs::write(project.0.join("changed.json"), changed).unwrap();
        let (code, error) = project.bad(&["inspect", "replay", "changed.json"]);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("it was changed after it was written"), "{error}");
    }
    let out = project.good(&[&reranked[..], &["--explain", "0"]].concat());
    assert!(out.contains("Reranker: rank 1 instead of "), "{out}");
    assert!(out.contains(", score 0.0300 by judge"), "{out}");
    let out = project.good(&[&reranked[..], &["--explain", "0", "-f", "json"]].concat());
    let explained: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(explained[0]["reranker"]["score"], 0.03, "{explained}");

    let refused = [&search[..], &["--reranker", "http://127.0.0.1:9/v1#judge"]].concat();
    let (code, error) = project.bad(&refused);
    assert_eq!(code, Some(6), "{error}");
    assert!(error.contains("the reranker failed: http://127.0.0.1:9/v1/rerank"), "{error}");
    assert!(error.contains("search without --reranker"), "{error}");
}

#[test]
fn addresses_and_keys_are_checked_and_not_shown() {
    let project = Project::new("http-address");
    let address = format!("http://me:{KEY}@localhost/v1#m");
    for (arguments, problem) in [
        (&["--embedder", &address][..], "it has a user or password"),
        (&["--embedder", "http://localhost/v1"], "it has no #MODEL"),
        (&["--embedder", "nothing"], "minilm:FOLDER or http://HOST/v1#MODEL"),
        (
            &["--embedder", "http://localhost/v1#m", "--embedder-key-env", KEY],
            "give the name of a variable, not the key",
        ),
        (
            &["--embedder", "http://localhost/v1#m", "--embedder-key-env", "NO_SUCH_KEY"],
            "is not set",
        ),
        (&["--embedder", "none", "--embedder-key-env", "MODEL_KEY"], "only a server has a key"),
    ] {
        let (code, error) = project.bad(&[&["docs", "index", "docs"], arguments].concat());
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(problem), "{error}");
        assert!(!project.0.join(".pannier").exists());
    }
}
