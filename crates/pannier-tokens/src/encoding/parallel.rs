//! Counting on several threads, for texts that take milliseconds.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

/// The bytes for which a thread is started: some milliseconds of counting.
const BYTES_PER_THREAD: usize = 256 * 1024;

/// Returns the value of each text, in their order.
pub(super) fn map(texts: &[&str], value: impl Fn(&str) -> usize + Copy + Send) -> Vec<usize> {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let useful = bytes / BYTES_PER_THREAD;
    if useful < 2 || cfg!(target_family = "wasm") {
        return texts.iter().map(|text| value(text)).collect();
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(useful);
    map_runs(&runs(texts, bytes.div_ceil(threads)), value)
}

/// Splits texts into runs of about `bytes`. Neighbors share words, whose counts a thread caches.
fn runs<'a, 't>(mut texts: &'a [&'t str], bytes: usize) -> Vec<&'a [&'t str]> {
    let mut runs = Vec::new();
    while !texts.is_empty() {
        let mut taken = 0;
        let is_full = |text: &&str| {
            taken += text.len();
            taken >= bytes
        };
        let end = texts.iter().position(is_full).map_or(texts.len(), |last| last + 1);
        let run;
        (run, texts) = texts.split_at(end);
        runs.push(run);
    }
    runs
}

/// Gives each run to a thread, and the first to this one.
fn map_runs(runs: &[&[&str]], value: impl Fn(&str) -> usize + Copy + Send) -> Vec<usize> {
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    let all = move |run: &[&str]| run.iter().map(|text| value(text)).collect::<Vec<_>>();
    thread::scope(|scope| {
        let start = |run| thread::Builder::new().spawn_scoped(scope, move || all(run));
        let threads: Vec<_> = others.iter().map(|run| (*run, start(*run))).collect();
        let mut values = all(first);
        for (run, thread) in threads {
            values.extend(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // The system starts no more threads.
                Err(_) => all(run),
            });
        }
        values
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn threads_change_no_value(texts in proptest::collection::vec(".{0,9}", 0..20), bytes in 1..40_usize) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let expected: Vec<usize> = texts.iter().map(|text| text.len()).collect();
            prop_assert_eq!(map_runs(&runs(&texts, bytes), str::len), expected);
        }
    }
}
