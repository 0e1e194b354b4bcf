//! Time and memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The system's allocator, which also knows how much is in use and how much ever was.
pub(crate) struct CountingAllocator;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator cannot be written without; all work is the system's")]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(in_use, Relaxed);
        // SAFETY: the caller's promises are passed on as they are.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(in_use, Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// How much memory is in use.
pub(crate) fn in_use() -> usize {
    IN_USE.load(Relaxed)
}

/// The most memory that `work` had in use at once, beyond what was in use before.
pub(crate) fn peak_memory<T>(work: impl FnOnce() -> T) -> usize {
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    drop(std::hint::black_box(work()));
    PEAK.load(Relaxed) - before
}

/// The median time of several runs: as many as fit half a second, at least `runs`.
pub(crate) fn median<T>(runs: usize, mut work: impl FnMut() -> T) -> Duration {
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < runs || start.elapsed() < Duration::from_millis(500) {
        let start = Instant::now();
        std::hint::black_box(work());
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// The median times of two workloads, measured in turns, so that a slow moment of the machine falls
/// on both.
pub(crate) fn side_by_side<A, B>(
    mut ours: impl FnMut() -> A,
    mut theirs: impl FnMut() -> B,
) -> (Duration, Duration) {
    let mut times: Vec<(Duration, Duration)> =
        (0..5).map(|_| (burst(&mut ours), burst(&mut theirs))).collect();
    times.sort_unstable_by_key(|(ours, _)| *ours);
    let ours = times[2].0;
    times.sort_unstable_by_key(|(_, theirs)| *theirs);
    (ours, times[2].1)
}

/// The median time of as many runs as fit a tenth of a second, at least one.
fn burst<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut times = Vec::new();
    let start = Instant::now();
    while times.is_empty() || start.elapsed() < Duration::from_millis(100) {
        let start = Instant::now();
        std::hint::black_box(work());
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// A duration for people.
pub(crate) fn show(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

pub(crate) fn ratio(slow: Duration, fast: Duration) -> f64 {
    slow.as_secs_f64() / fast.as_secs_f64()
}

pub(crate) fn mebibytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
