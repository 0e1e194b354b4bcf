//! The document cache next to the published `context` command: the same corpus, the same queries, one run.
//!
//! The peer is installed below the target folder when it is first needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::measure::{median, ratio, show};

const PEER_VERSION: &str = "0.1.0";

pub(crate) fn run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/documents-bench");
    fs::create_dir_all(&root).expect("a folder");
    let Some(ours) = crate::command::build() else {
        println!("\nDocuments: skipped, the command cannot be built");
        return;
    };
    let Some(peer) = peer(&root) else {
        println!(
            "\nDocuments: skipped, the crate context-cli {PEER_VERSION} cannot be installed here"
        );
        return;
    };
    same_bytes(&root, &ours, &peer);
    let small = corpus(&root.join("4k"), 4_000);
    println!(
        "\nDocuments: 4,000 of about 2 KB; the command next to `context` {PEER_VERSION}. Answers are compared byte by byte.\n"
    );
    let build = |program: &Path, cache: &Path| {
        let _ = fs::remove_dir_all(cache);
        let start = Instant::now();
        call(program, &["build", "--sources", path(&small), "--cache", path(cache)]);
        start.elapsed()
    };
    let (our_cache, peer_cache) = (root.join("4k-ours"), root.join("4k-peer"));
    let (mine, theirs) = (build(&ours, &our_cache), build(&peer, &peer_cache));
    println!(
        "    build     pannier {:>10}   context {:>10}   {:>7.0}x",
        show(mine),
        show(theirs),
        ratio(theirs, mine)
    );
    let queries = ["needle", "w17 w3", "w1", "absent", ""];
    for query in queries {
        for budget in ["0", "500", "4000", "100000"] {
            let answer = |program: &Path, cache: &Path| resolve(program, cache, query, budget);
            assert!(answer(&ours, &our_cache) == answer(&peer, &peer_cache), "{query} at {budget}");
        }
    }
    let mine = median(9, || resolve(&ours, &our_cache, "needle", "4000"));
    let start = Instant::now();
    resolve(&peer, &peer_cache, "needle", "4000");
    let theirs = start.elapsed();
    println!(
        "    resolve   pannier {:>10}   context {:>10}   {:>7.0}x",
        show(mine),
        show(theirs),
        ratio(theirs, mine)
    );

    let large = corpus(&root.join("40k"), 40_000);
    let large_cache = root.join("40k-ours");
    let _ = fs::remove_dir_all(&large_cache);
    call(&ours, &["build", "--sources", path(&large), "--cache", path(&large_cache)]);
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        few.push(timed(|| resolve(&ours, &our_cache, "needle", "4000")));
        many.push(timed(|| resolve(&ours, &large_cache, "needle", "4000")));
    }
    few.sort_unstable();
    many.sort_unstable();
    println!(
        "\n    40 documents match: among 4,000 {}, among 40,000 {}, growth {:.2}",
        show(few[10]),
        show(many[10]),
        ratio(many[10], few[10])
    );
}

/// Small documents in several scripts, every budget from nothing to everything: the same bytes as the peer's.
fn same_bytes(root: &Path, ours: &Path, peer: &Path) {
    let folder = root.join("unicode");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("Sub/.hidden")).expect("a folder");
    let contents = [
        "",
        "\n",
        "Deploy deploy DEPLOY deploy.",
        "ΑΣ Σας ΟΔΟΣ σ",
        "straße STRASSE",
        "İstanbul i̇stanbul ıstanbul",
        "漢字 かな 漢字",
        "a\u{2003}b\u{85}c\u{a0}d",
        "\u{feff}deploy",
        "e\u{301} é É",
        "🏳️‍🌈 deploy",
        "x",
    ];
    for (number, content) in contents.iter().enumerate() {
        let below = ["", "Sub/", "Sub/.hidden/"][number % 3];
        fs::write(folder.join(format!("{below}Dokument-{number}.md")), content)
            .expect("a document");
    }
    let (our_cache, peer_cache) = (root.join("unicode-ours"), root.join("unicode-peer"));
    for (program, cache) in [(ours, &our_cache), (peer, &peer_cache)] {
        let _ = fs::remove_dir_all(cache);
        call(program, &["build", "--sources", path(&folder), "--cache", path(cache)]);
    }
    let all = contents.iter().map(|content| content.len().div_ceil(4)).sum::<usize>() + 2;
    // Not a term twice: the peer then counts its words twice, against its own document.
    let queries =
        ["", "deploy", "ΣΑΣ οδος", "STRASSE", "İSTANBUL", "漢字", "é b", "\u{feff}deploy nothing"];
    for query in queries {
        // At 0, the peer takes the empty document; its document says that nothing is.
        for budget in 1..=all {
            let budget = budget.to_string();
            let same = resolve(ours, &our_cache, query, &budget)
                == resolve(peer, &peer_cache, query, &budget);
            assert!(same, "{query:?} at {budget}");
        }
    }
    println!(
        "\nDocuments: {} answers in several scripts have the same bytes as the peer's.",
        queries.len() * all
    );
}

/// A million small documents: time and memory.
pub(crate) fn million() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/documents-bench");
    let (docs, cache) = (root.join("million"), root.join("million-ours"));
    let Some(ours) = crate::command::build() else { return };
    let _ = fs::remove_dir_all(&cache);
    for part in 0..1_000 {
        let folder = docs.join(format!("part-{part:03}"));
        fs::create_dir_all(&folder).expect("a folder");
        for number in part * 1_000..(part + 1) * 1_000_u64 {
            let (a, b) = (number % 977, number * 7 % 5_003);
            let text = format!(
                "# Doc {number}\n\nw{a} w{b} common words of document {number} needle{}\n",
                number % 25_000
            );
            fs::write(folder.join(format!("{number}.md")), text).expect("a document");
        }
    }
    println!("\nA million small documents.\n");
    let tell = |what: &str, arguments: &[&str]| {
        let (time, peak) = crate::command::watch(Command::new(&ours).args(arguments));
        println!(
            "    {what:<24} {:>10}   {:>6.0} MiB at most",
            show(time),
            crate::measure::mebibytes(peak)
        );
    };
    tell("build", &["build", "--sources", path(&docs), "--cache", path(&cache)]);
    tell("build, nothing changed", &["build", "--sources", path(&docs), "--cache", path(&cache)]);
    for (what, query) in [("resolve, 40 match", "needle77"), ("resolve, all match", "common")] {
        tell(what, &["resolve", "--cache", path(&cache), "--query", query, "--budget", "4000"]);
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

fn call(program: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(arguments).output().expect("a program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn resolve(program: &Path, cache: &Path, query: &str, budget: &str) -> Vec<u8> {
    call(program, &["resolve", "--cache", path(cache), "--query", query, "--budget", budget])
}

/// The peer's command, installed below the target folder.
fn peer(root: &Path) -> Option<PathBuf> {
    let program = root.join("peer/bin/context");
    if !program.exists() {
        println!("\nInstalling context-cli {PEER_VERSION} ...");
        let folder = root.join("peer");
        let arguments = [
            "install",
            "context-cli",
            "--version",
            PEER_VERSION,
            "--root",
            path(&folder),
            "--quiet",
        ];
        let status = Command::new(env!("CARGO")).args(arguments).status().ok()?;
        if !status.success() {
            return None;
        }
    }
    Some(program)
}

/// Makes `count` different documents of about two kilobytes, 40 of which have a needle in them.
fn corpus(folder: &Path, count: u64) -> PathBuf {
    let _ = fs::remove_dir_all(folder);
    let step = count / 40;
    for number in 0..count {
        let below = folder.join(format!("part-{:02}", number % 50));
        if number < 50 {
            fs::create_dir_all(&below).expect("a folder");
        }
        let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut text = format!("# Document {number}\n\n");
        while text.len() < 2_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.push_str(&format!("w{} ", state % 5_000));
        }
        if number % step == 0 {
            text.push_str("Needle\n");
        }
        fs::write(below.join(format!("document-{number:05}.md")), text).expect("a document");
    }
    folder.to_owned()
}
