//! The command over a stream of JSONL: how long, and how much memory, next to reading the same items and
//! doing nothing with them.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pannier_core::ContextItem;

use crate::measure::{in_use, mebibytes, ratio, show};
use crate::pools;

pub(crate) fn run() {
    let Some(binary) = build() else {
        println!("\nThe command: skipped, it could not be built");
        return;
    };
    println!(
        "\nThe command, JSONL on stdin, policy chat, 128,000 tokens. The floor reads the same lines"
    );
    println!("into items and does nothing else; `items` is what they take in memory.\n");
    println!(
        "    items     stream   command     floor  x floor  growth       items   peak of the command"
    );
    let mut previous = None;
    for count in [100_000, 1_000_000] {
        let (stream, items) = write_stream(count);
        let mut times: Vec<(Duration, Duration, usize)> = (0..3)
            .map(|_| {
                let (time, peak) = select(&binary, &stream);
                (time, floor(&stream), peak)
            })
            .collect();
        times.sort_unstable();
        let (time, floor, peak) = times[1];
        let growth =
            previous.map_or_else(|| "-".to_owned(), |last| format!("{:.1}x", ratio(time, last)));
        let bytes = std::fs::metadata(&stream).map_or(0, |file| file.len() as usize);
        println!(
            "  {count:>7} {:>6.0} MiB {:>9} {:>9} {:>8.2} {growth:>7} {:>7.0} MiB {:>8.0} MiB ({:.2}x)",
            mebibytes(bytes),
            show(time),
            show(floor),
            ratio(time, floor),
            mebibytes(items),
            mebibytes(peak),
            peak as f64 / items as f64,
        );
        previous = Some(time);
        let _ = std::fs::remove_file(&stream);
    }
}

pub(crate) fn build() -> Option<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--package", "pannier-cli", "--locked"])
        .status()
        .ok()?;
    let here = std::env::current_exe().ok()?;
    status.success().then(|| here.with_file_name("pannier"))
}

/// Writes a stream of items, and tells how much memory they take when they are read.
fn write_stream(count: usize) -> (PathBuf, usize) {
    let path = std::env::temp_dir().join(format!("pannier-bench-{}.jsonl", std::process::id()));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a temporary file"));
    for item in pools::ours(&pools::raw(count)) {
        serde_json::to_writer(&mut file, &item).expect("an item");
        file.write_all(b"\n").expect("a line");
    }
    file.into_inner().expect("a whole file");
    let before = in_use();
    let items = read(&path);
    (path, in_use() - before - (items.capacity() - items.len()) * size_of::<ContextItem>())
}

fn read(stream: &PathBuf) -> Vec<ContextItem> {
    let file = BufReader::new(std::fs::File::open(stream).expect("the stream"));
    let lines = file.split(b'\n').map(|line| line.expect("a line"));
    lines.map(|line| serde_json::from_slice(&line).expect("an item")).collect()
}

fn floor(stream: &PathBuf) -> Duration {
    let start = Instant::now();
    std::hint::black_box(read(stream));
    start.elapsed()
}

/// Selects from a stream.
fn select(binary: &PathBuf, stream: &PathBuf) -> (Duration, usize) {
    let mut command = Command::new(binary);
    command.args(["pack", "--budget", "128000"]);
    watch(command.stdin(std::fs::File::open(stream).expect("the stream")))
}

/// Runs a command, and looks at its memory until it ends.
pub(crate) fn watch(command: &mut Command) -> (Duration, usize) {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().expect("the command");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        // The kernel keeps the peak, so that only the last moment can be missed.
        if let Ok(text) = std::fs::read_to_string(&status) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
            peak = peak.max(kibibytes.unwrap_or(0_usize) * 1_024);
        }
        if let Some(status) = child.try_wait().expect("a status") {
            assert!(status.success(), "the command failed");
            return (start.elapsed(), peak);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
