//! Work on many texts that takes milliseconds, on all cores.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The bytes for which a thread is started, and of a run that a thread takes at once.
const BYTES_PER_THREAD: usize = 256 * 1024;
const BYTES_PER_RUN: usize = 64 * 1024;

/// Returns the value of each item, in their order. Above half a megabyte, threads share the work.
pub fn parallel_map<T: Sync, V: Send>(
    items: &[T],
    bytes: impl Fn(&T) -> usize,
    value: impl Fn(&T) -> V + Sync,
) -> Vec<V> {
    let useful = items.iter().map(&bytes).sum::<usize>() / BYTES_PER_THREAD;
    if useful < 2 || cfg!(target_family = "wasm") {
        return items.iter().map(value).collect();
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(useful);
    map_runs(&runs(items, bytes, BYTES_PER_RUN), threads, value)
}

/// Splits items into runs of about `max` bytes. Neighbors share words, whose counts a thread caches.
fn runs<T>(items: &[T], bytes: impl Fn(&T) -> usize, max: usize) -> Vec<&[T]> {
    let mut rest = items;
    let mut runs = Vec::new();
    while !rest.is_empty() {
        let mut taken = 0;
        let is_full = |item: &T| {
            taken += bytes(item);
            taken >= max
        };
        let end = rest.iter().position(is_full).map_or(rest.len(), |last| last + 1);
        let run;
        (run, rest) = rest.split_at(end);
        runs.push(run);
    }
    runs
}

/// Lets each thread take the next run until there is none. This thread is one of them.
fn map_runs<T: Sync, V: Send>(
    runs: &[&[T]],
    threads: usize,
    value: impl Fn(&T) -> V + Sync,
) -> Vec<V> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done: Vec<(usize, Vec<V>)> = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = runs.get(index) else { return done };
            done.push((index, run.iter().map(&value).collect()));
        }
    };
    let mut done = thread::scope(|scope| {
        // Where the system starts no more threads, the others do the work.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let mut done = work();
        for thread in others {
            done.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().flat_map(|(_, values)| values).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn threads_change_neither_values_nor_order(
            items in proptest::collection::vec(".{0,9}", 0..20), max in 1..40_usize, threads in 1..5_usize
        ) {
            let runs = runs(&items, String::len, max);
            prop_assert_eq!(map_runs(&runs, threads, String::clone), items);
        }
    }

    #[test]
    fn large_texts_are_shared() {
        let items: Vec<String> = (0..300).map(|number| number.to_string().repeat(2_000)).collect();
        let lengths: Vec<usize> = items.iter().map(String::len).collect();
        assert_eq!(parallel_map(&items, String::len, String::len), lengths);
    }
}
