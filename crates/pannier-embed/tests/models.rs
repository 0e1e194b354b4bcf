//! Vectors of real models, compared to the bit with those of other processors.
//!
//! The weights are too large for a repository. `.ci/models` downloads them, and `PANNIER_MODELS` names their folder; without
//! it the tests are skipped.

use std::io::Write;
use std::path::PathBuf;

use pannier_docs::Embedder;
use pannier_embed::{MiniLmEmbedder, StaticEmbedder};

const FOX: &str = "The quick brown fox";

/// Prints what is skipped, even where the output of tests is captured.
fn print_skipped(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// Returns the folder of a model, or prints why it is skipped.
fn folder(name: &str) -> Option<PathBuf> {
    let Some(models) = std::env::var_os("PANNIER_MODELS") else {
        print_skipped(
            "skipped: run .ci/models and set PANNIER_MODELS to the full path of target/models",
        );
        return None;
    };
    let folder = PathBuf::from(models).join(name);
    if !folder.is_dir() {
        print_skipped(&format!("skipped: there is no {}; run .ci/models", folder.display()));
        return None;
    }
    Some(folder)
}

/// The number of texts for MiniLM without optimization, where all of them would take minutes.
const DEBUG_TEXTS: usize = 8;

/// Returns texts in many scripts and formats, a few short ones first.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        " \t\n",
        FOX,
        "a",
        "A",
        "Deploy on Fridays",
        "How do I roll back a release?",
        "the canteen closes at two",
        "THE CANTEEN CLOSES AT TWO",
        "unaffable antidisestablishmentarianism",
        "fn main() { println!(\"{:?}\", vec![1, 2, 3]); }",
        "SELECT id FROM items WHERE price >= 10.50 ORDER BY id;",
        "https://example.com/a/b?c=d&e=f#g",
        "naïve café, Straße, İstanbul, ΟΔΟΣ",
        "Привет, мир",
        "今日は良い天気ですね",
        "我们在星期五部署",
        "안녕하세요",
        "مرحبا بالعالم",
        "नमस्ते दुनिया",
        "👩‍👩‍👧‍👦 🎉 🇪🇺",
        "e\u{301} and é",
        "zero\u{200b}width\u{feff} and \u{0} control",
        "[CLS] [SEP] <s> </s> [MASK]",
        "0 1 2 3 10 100 3.14159 1e-12 0xdeadbeef",
        "----====____....!!!!",
        "a\r\nb\rc\nd",
        "\u{fffd}\u{10ffff}",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push("x".repeat(300));
    texts.push("word ".repeat(40));
    texts.push((0..300).map(|number| format!("{number} ")).collect());
    texts
}

/// Returns BLAKE3 of all vectors, as little-endian numbers.
fn hash(embedder: &dyn Embedder, texts: &[String]) -> String {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = embedder.embed(&texts).unwrap();
    let mut hasher = blake3::Hasher::new();
    for (text, vector) in texts.iter().zip(vectors) {
        assert_eq!(vector.len(), embedder.model().dimensions as usize);
        // A table may have a row for whitespace.
        let is_empty =
            text.is_empty() || text.trim().is_empty() && embedder.model().name == "minilm";
        assert_eq!(vector.iter().all(|&number| number == 0), is_empty, "{text:?}");
        vector.iter().for_each(|number| {
            hasher.update(&number.to_le_bytes());
        });
    }
    hasher.finalize().to_hex().to_string()
}

#[test]
fn minilm_vectors_are_reproducible() {
    let Some(folder) = folder("minilm") else { return };
    let minilm = MiniLmEmbedder::open(folder).unwrap();
    assert_eq!(minilm.model().dimensions, 384);
    let fox = minilm.embed(&[FOX]).unwrap().remove(0);
    assert_eq!(fox[..8], [91, 1090, -22, 1409, 1184, -1092, 1819, -3434]);
    let texts = texts();
    let expected = "e3b8e2f8aad85ea031d04c9bcfeb7d1db554bbd080bffc8fdd205b97d58f93d2";
    assert_eq!(hash(&minilm, &texts[..DEBUG_TEXTS]), expected);
    if cfg!(debug_assertions) {
        let (left, all) = (texts.len() - DEBUG_TEXTS, texts.len());
        print_skipped(&format!("skipped: {left} of {all} texts for MiniLM; add --release"));
        return;
    }
    let expected = "4eb04127569c5fd358f0e942f6e9b93fb12326b253ca5544e823b7f086460c9c";
    assert_eq!(hash(&minilm, &texts), expected);
}

#[test]
fn static_vectors_are_reproducible() {
    let Some(folder) = folder("wordllama") else { return };
    let table = StaticEmbedder::open(folder).unwrap();
    assert_eq!(table.model().dimensions, 256);
    let expected = "e70d482d1d49a574e128f2e54d25ac7df1c5b4249828097ac1d4461c8b866b7a";
    assert_eq!(hash(&table, &texts()), expected);
}

/// Returns the CPU time of this process in milliseconds, where Linux reports it.
fn cpu_ms() -> Option<f64> {
    const MS_PER_TICK: f64 = 10.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The fields after the name: the state is the first, user and system time are the twelfth and thirteenth.
    let mut times = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<f64>().ok();
    Some((next()? + next()?) * MS_PER_TICK)
}

/// `PANNIER_MODELS=… cargo test --release -p pannier-embed --test models -- --ignored --nocapture speed`
#[test]
#[ignore = "a benchmark without assertions on speed"]
fn speed_of_minilm() {
    const TEXTS: usize = 20;
    let Some(folder) = folder("minilm") else { return };
    let minilm = MiniLmEmbedder::open(folder).unwrap();
    for pieces in [64, 128, 200, 256] {
        let text = "word ".repeat(pieces - 2);
        let before = cpu_ms();
        for _ in 0..TEXTS {
            assert_eq!(minilm.embed(&[&text]).unwrap().len(), 1);
        }
        if let (Some(before), Some(after)) = (before, cpu_ms()) {
            let each = (after - before) / TEXTS as f64;
            print_skipped(&format!("{pieces} word pieces: {each:.1} ms of CPU time a text"));
        }
    }
}
