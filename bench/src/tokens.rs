//! Token counting: how far estimates are off, how fast the exact encodings are next to a peer, and what hostile
//! texts cost.

use std::path::Path;

use pannier_tokens::{BytesOverFour, ScriptEstimate, TokenCounter, cl100k, o200k};

use crate::measure::{ratio, show, side_by_side};

pub(crate) fn run() {
    let texts = texts();
    errors(&texts);
    speed(&texts);
    hostile(&texts);
}

struct Sample {
    name: String,
    /// Pieces of about a kilobyte, as items are.
    pieces: Vec<String>,
}

/// Prose and code of this repository, and paragraphs in several languages.
fn texts() -> Vec<Sample> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut prose = String::new();
    let mut code = String::new();
    let mut folders = vec![root.join("docs"), root.join("crates"), root.join("bench/src")];
    let mut files = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    for file in files {
        let extension = file.extension().and_then(|extension| extension.to_str());
        let text = || std::fs::read_to_string(&file).expect("a text");
        match extension {
            Some("md") => prose.push_str(&text()),
            Some("rs") => code.push_str(&text()),
            _ => {}
        }
    }
    let mut samples = vec![
        Sample { name: "prose".to_owned(), pieces: cut(&prose) },
        Sample { name: "Rust".to_owned(), pieces: cut(&code) },
    ];
    let languages = include_str!("../samples/languages.txt");
    for line in languages.lines().filter(|line| !line.starts_with('#')) {
        let (name, text) = line.split_once(": ").expect("a language and its text");
        samples.push(Sample { name: name.to_owned(), pieces: vec![text.to_owned()] });
    }
    samples
}

/// Prose and code, in pieces of about a kilobyte.
pub(crate) fn prose_and_code() -> Vec<String> {
    texts().into_iter().take(2).flat_map(|sample| sample.pieces).collect()
}

fn cut(text: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for line in text.split_inclusive('\n') {
        if pieces.last().is_some_and(|piece| piece.len() > 1_000) {
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(line);
        }
    }
    pieces
}

fn errors(samples: &[Sample]) {
    println!(
        "\nEstimates against o200k, in percent of the true count: over all pieces, and the worst"
    );
    println!("piece below and above.\n");
    println!("    text  pieces    tokens       bytes/4                   script");
    let estimates: [&dyn TokenCounter; 2] = [&BytesOverFour, &ScriptEstimate];
    let exact = o200k();
    for sample in samples {
        let truth: Vec<usize> = sample.pieces.iter().map(|piece| exact.count(piece)).collect();
        let all: usize = truth.iter().sum();
        let mut line = format!("{:>8} {:>7} {all:>9} ", sample.name, sample.pieces.len());
        for estimate in estimates {
            let counts: Vec<usize> =
                sample.pieces.iter().map(|piece| estimate.count(piece)).collect();
            let error = |count: usize, truth: usize| 100.0 * (count as f64 / truth as f64 - 1.0);
            let each = counts.iter().zip(&truth).map(|(count, truth)| error(*count, *truth));
            let (worst, best) = each
                .fold((f64::MAX, f64::MIN), |(low, high), error| (low.min(error), high.max(error)));
            let mean = error(counts.iter().sum(), all);
            line.push_str(&format!("   {mean:>+5.0} ({worst:>+4.0} to {best:>+4.0})"));
        }
        println!("{line}");
    }
}

fn speed(samples: &[Sample]) {
    println!(
        "\nCounting, MB/s, next to tiktoken-rs 0.12.1 (its ordinary encoding); counts are equal.\n"
    );
    println!("    text  encoding   pannier  tiktoken-rs   ratio");
    let languages: String =
        samples[2..].iter().flat_map(|sample| &sample.pieces).cloned().collect();
    let cjk: String = samples
        .iter()
        .filter(|sample| ["zh", "ja", "ko"].contains(&sample.name.as_str()))
        .flat_map(|sample| &sample.pieces)
        .cloned()
        .collect();
    let prose: String = samples[0].pieces.concat();
    let code: String = samples[1].pieces.concat();
    let workloads =
        [("prose", prose), ("Rust", code), ("CJK", drawn(&cjk)), ("mixed", languages.repeat(30))];
    let peers: [(&str, Box<dyn TokenCounter>, &tiktoken_rs::CoreBPE); 2] = [
        ("o200k", Box::new(o200k()), tiktoken_rs::o200k_base_singleton()),
        ("cl100k", Box::new(cl100k()), tiktoken_rs::cl100k_base_singleton()),
    ];
    for (encoding, ours, theirs) in &peers {
        for (name, text) in &workloads {
            let count = theirs.encode_ordinary(text).len();
            assert_eq!(ours.count(text), count, "{name} in {encoding}");
            let (mine, peer) =
                side_by_side(|| ours.count(text), || theirs.encode_ordinary(text).len());
            let speed = |time: std::time::Duration| text.len() as f64 / 1e6 / time.as_secs_f64();
            println!(
                "{name:>8} {encoding:>9} {:>9.1} {:>12.1} {:>7.2}",
                speed(mine),
                speed(peer),
                ratio(peer, mine)
            );
        }
    }
}

/// Sentences drawn from the characters of a text, so that few words come twice.
fn drawn(text: &str) -> String {
    let letters: Vec<char> = text.chars().filter(|letter| letter.is_alphabetic()).collect();
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut drawn = String::new();
    while drawn.len() < 500_000 {
        for _ in 0..1 + draw(12) {
            drawn.push(letters[draw(letters.len())]);
        }
        drawn.push(['，', '。', '、', '\n'][draw(4)]);
    }
    drawn
}

fn hostile(samples: &[Sample]) {
    println!("\nOne megabyte of each shape, against one megabyte of prose (o200k).\n");
    const MEGABYTE: usize = 1 << 20;
    let prose = samples[0].pieces.concat();
    let prose: String = prose.chars().cycle().take(MEGABYTE).collect();
    let letters = |i: usize| char::from(b'a' + ((i * i + i / 7) % 26) as u8);
    let shapes: Vec<(&str, String)> = vec![
        ("one letter", "a".repeat(MEGABYTE)),
        ("letters, no spaces", (0..MEGABYTE).map(letters).collect()),
        ("spaces", " ".repeat(MEGABYTE)),
        ("line ends", "\n".repeat(MEGABYTE)),
        ("digits", "1234567890".repeat(MEGABYTE / 10)),
        ("operators", "=-+*/%&|^~!?".repeat(MEGABYTE / 12)),
        ("one ideograph", "漢".repeat(MEGABYTE / 3)),
        ("emoji with joiners", "👩\u{200d}👩\u{200d}👧".repeat(MEGABYTE / 18)),
        ("combining marks", "e\u{301}\u{323}".repeat(MEGABYTE / 5)),
        ("mixed scripts", "aя漢あ한ع९".repeat(MEGABYTE / 17)),
        ("base64", (0..MEGABYTE).map(|i| letters(i * 31).to_ascii_uppercase()).collect()),
        ("special tokens", "<|endoftext|>".repeat(MEGABYTE / 13)),
    ];
    let counter = o200k();
    for (name, text) in &shapes {
        let (shape, floor) = side_by_side(|| counter.count(text), || counter.count(&prose));
        println!("{name:>20} {:>10} {:>7.2} x prose", show(shape), ratio(shape, floor));
    }
}
