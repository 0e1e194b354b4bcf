//! Counts files with an encoding of this crate and with `bpe-openai`, which must agree, and compares their times.
//!
//! usage: cargo run --release -p pannier-tokens --features openai --example compare -- o200k|cl100k ours|theirs|both FILE...
//!
//! With `ours` or `theirs`, it counts once: for `valgrind --tool=callgrind`, or for the time of the first count.

#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use bpe_openai::Tokenizer;
use pannier_text::Memo;
use pannier_tokens::{TokenCounter, cl100k, o200k};

/// Rounds for each file. The fastest counts: others use the machine, too.
const ROUNDS: usize = 7;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [encoding, who, paths @ ..] = &arguments[..] else {
        panic!("usage: compare o200k|cl100k ours|theirs|both FILE...");
    };
    let is_o200k = encoding == "o200k";
    let ours: Box<dyn TokenCounter> = if is_o200k { Box::new(o200k()) } else { Box::new(cl100k()) };
    let load = || if is_o200k { bpe_openai::o200k_base() } else { bpe_openai::cl100k_base() };
    let mut memo = Memo::default();
    let mut both = [Duration::ZERO; 2];
    let mut tokens = 0;
    for path in paths {
        let text = String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned();
        match who.as_str() {
            "ours" => println!("{path}: {} tokens", ours.count(&text)),
            "theirs" => println!("{path}: {} tokens", count(load(), &mut memo, &text)),
            _ => {
                let (mut mine, mut peer) = (Duration::MAX, Duration::MAX);
                for _ in 0..ROUNDS {
                    let (time, counted) = timed(|| ours.count(&text));
                    let (peer_time, expected) = timed(|| count(load(), &mut memo, &text));
                    assert_eq!(counted, expected, "{path}");
                    (mine, peer) = (mine.min(time), peer.min(peer_time));
                    tokens += counted;
                }
                both = [both[0] + mine, both[1] + peer];
            }
        }
    }
    if who == "both" {
        let [mine, peer] = both.map(|time| time.as_secs_f64());
        println!(
            "{encoding}: {} files, {} tokens, all equal; ours {mine:.3} s, bpe-openai {peer:.3} s, ratio {:.2}",
            paths.len(),
            tokens / ROUNDS,
            peer / mine
        );
    }
}

/// Counts as this crate did with `bpe-openai`: with a cache of short pieces.
fn count(tokenizer: &Tokenizer, memo: &mut Memo<u8>, text: &str) -> usize {
    let pieces = tokenizer.split(text).map(str::as_bytes);
    let counts = pieces.map(|piece| match piece.len() <= Memo::<u8>::MAX_WORD_BYTES {
        true => memo.get(piece, |piece| tokenizer.bpe.count(piece) as u8).into(),
        false => tokenizer.bpe.count(piece),
    });
    counts.sum()
}

fn timed(run: impl FnOnce() -> usize) -> (Duration, usize) {
    let start = Instant::now();
    let result = run();
    (start.elapsed(), result)
}
