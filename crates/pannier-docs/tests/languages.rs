//! Chunks of source code in every language: whole items with their comments, enclosing names, symbols and lines.
//!
//! `tests/languages` has a file for each grammar. A row of a table is a chunk: its lines, the names that enclose it, and the
//! symbols that it defines.

#![cfg(feature = "syntax")]

mod support;

use pannier_docs::{BuildOptions, Chunk, ChunkSizes, build};
use support::Folder;

/// Small enough that classes are divided into their members.
const MAX_TOKENS: usize = 96;

type Row<'r> = (&'r str, &'r str, &'r str);

fn check(name: &str, text: &str, expected: &[Row<'_>]) {
    let folder = Folder::new();
    folder.write(name, text);
    let sizes = Some(ChunkSizes::new(32, MAX_TOKENS));
    let options = BuildOptions { chunk_sizes: sizes, ..BuildOptions::default() };
    let sources = folder.sources().patterns(["*"]);
    build(&sources, &folder.cache(), &options, &mut |_| {}).unwrap();
    let chunks = folder.open().chunks(0).unwrap();
    let rows: Vec<(String, &str, &str)> = chunks.iter().map(|chunk| row(text, chunk)).collect();
    let rows: Vec<Row<'_>> = rows.iter().map(|(lines, a, b)| (lines.as_str(), *a, *b)).collect();
    assert_eq!(rows, expected, "{name}");
    // The chunks are the file, and each has the names that it defines.
    let joined: String = chunks.iter().map(|chunk| &text[chunk.range.clone()]).collect();
    assert_eq!(joined, text);
    for (index, chunk) in chunks.iter().enumerate() {
        let own = &text[chunk.range.clone()];
        // A long item has several chunks.
        let is_continued = index > 0 && chunks[index - 1].symbols == chunk.symbols;
        let has_all = chunk.symbols.split(' ').all(|symbol| own.contains(symbol));
        assert!(is_continued || has_all, "{name}: {own}");
    }
}

/// Returns the lines of a chunk without empty ones at its end, its enclosing names and its symbols.
fn row<'c>(text: &str, chunk: &'c Chunk) -> (String, &'c str, &'c str) {
    let own = text[chunk.range.clone()].trim_end();
    let last = chunk.line + own.matches('\n').count();
    (format!("{}-{last}", chunk.line), &chunk.heading_path, &chunk.symbols)
}

#[test]
fn damaged_and_huge_files_are_split_by_lines() {
    let line = "fn repeated() { call(1); }\n";
    let huge = line.repeat((1 << 20) / line.len() + 1);
    let damaged = format!("{}fn whole() {{}}\n", "))) ??? ((( not } code at all {{{\n".repeat(400));
    // The errors are below a class.
    let nested = format!(
        "class A {{\n    int first() {{ return 1; }}\n{}}}\n",
        "    ))) ??? ((( not code at all @@@\n".repeat(400)
    );
    for (name, text) in [("huge.rs", huge), ("damaged.rs", damaged), ("A.java", nested)] {
        let folder = Folder::new();
        folder.write(name, &text);
        folder.build_all_files();
        let chunks = folder.open().chunks(0).unwrap();
        assert!(chunks.len() > 1, "{name}");
        for chunk in &chunks {
            assert_eq!(chunk.symbols, "", "{name}");
            assert!(text[..chunk.range.end].ends_with('\n'), "{name}");
        }
    }
}

#[test]
fn sh() {
    check(
        "backup.sh",
        include_str!("languages/backup.sh"),
        &[
            ("1-3", "", ""),
            ("5-6", "", ""),
            ("8-11", "", "log_message"),
            ("13-19", "", "copy_folder"),
            ("21-26", "", "remove_old_copies"),
            ("28-29", "", ""),
        ],
    );
}

#[test]
fn c() {
    check(
        "ring.c",
        include_str!("languages/ring.c"),
        &[
            ("1-4", "", ""),
            ("6-11", "", "ring"),
            ("13-13", "", "ring_status"),
            ("15-18", "", "ring_index"),
            ("20-29", "", "ring_push"),
            ("31-38", "", "ring_copy"),
        ],
    );
}

#[test]
fn cs() {
    check(
        "Inventory.cs",
        include_str!("languages/Inventory.cs"),
        &[
            ("1-2", "", ""),
            ("4-5", "", "Shop.Stock"),
            ("6-7", "Shop.Stock", "Product"),
            ("9-12", "Shop.Stock", "IInventory Count"),
            ("14-16", "Shop.Stock", "Inventory"),
            ("17-17", "Shop.Stock > Inventory", ""),
            ("19-25", "Shop.Stock > Inventory", "Inventory"),
            ("27-27", "Shop.Stock > Inventory", "Total"),
            ("29-33", "Shop.Stock > Inventory", "Count"),
            ("35-46", "Shop.Stock > Inventory", "Take"),
        ],
    );
}

#[test]
fn cpp() {
    check(
        "matrix.cpp",
        include_str!("languages/matrix.cpp"),
        &[
            ("1-4", "", "linear"),
            ("6-8", "linear", "Matrix"),
            ("9-9", "linear > Matrix", ""),
            ("10-11", "linear > Matrix", "Matrix"),
            ("13-19", "linear > Matrix", "at"),
            ("21-23", "linear > Matrix", "rows"),
            ("24-27", "linear > Matrix", ""),
            ("29-31", "linear", "Shape"),
            ("33-42", "linear", "scale"),
            ("44-46", "", "linear_version"),
        ],
    );
}

#[test]
fn go() {
    check(
        "limiter.go",
        include_str!("languages/limiter.go"),
        &[
            ("1-8", "", ""),
            ("10-11", "", "ErrBusy"),
            ("13-19", "", "Limiter"),
            ("21-24", "", "Clock"),
            ("26-29", "", "New"),
            ("31-41", "", "Allow"),
            ("43-46", "", "refill"),
        ],
    );
}

#[test]
fn java() {
    check(
        "Scheduler.java",
        include_str!("languages/Scheduler.java"),
        &[
            ("1-5", "", ""),
            ("7-10", "", "Scheduler"),
            ("11-12", "Scheduler", ""),
            ("14-17", "Scheduler", "Scheduler"),
            ("19-22", "Scheduler", "toString"),
            ("24-33", "Scheduler", "drain"),
            ("35-36", "Scheduler", "Priority"),
            ("38-40", "", "JobListener finished"),
        ],
    );
}

#[test]
fn js() {
    check(
        "emitter.js",
        include_str!("languages/emitter.js"),
        &[
            ("1-1", "", ""),
            ("3-3", "", "MAX_LISTENERS"),
            ("5-6", "", "Emitter"),
            ("7-7", "Emitter", ""),
            ("9-17", "Emitter", "on"),
            ("19-23", "Emitter", "off"),
            ("25-33", "", "once"),
            ("35-41", "", "debounce"),
        ],
    );
}

#[test]
fn php() {
    check(
        "Router.php",
        include_str!("languages/Router.php"),
        &[
            ("1-5", "", "App\\Http"),
            ("7-11", "", "Handler handle"),
            ("13-17", "", "Router"),
            ("18-18", "Router", "$routes"),
            ("20-27", "Router", "add"),
            ("29-34", "Router", "dispatch"),
            ("36-40", "", "join_path"),
        ],
    );
}

#[test]
fn py() {
    check(
        "cache.py",
        include_str!("languages/cache.py"),
        &[
            ("1-4", "", ""),
            ("6-6", "", ""),
            ("9-14", "", "Statistics"),
            ("17-17", "", "Cache"),
            ("18-18", "Cache", ""),
            ("20-23", "Cache", "__init__"),
            ("25-33", "Cache", "get"),
            ("35-37", "Cache", "is_full"),
            ("40-43", "", "load"),
        ],
    );
}

#[test]
fn rb() {
    check(
        "ledger.rb",
        include_str!("languages/ledger.rb"),
        &[
            ("1-4", "", "Books"),
            ("5-5", "Books", "Overdrawn"),
            ("7-8", "Books", "Account"),
            ("9-9", "Books > Account", ""),
            ("11-14", "Books > Account", "initialize"),
            ("16-22", "Books > Account", "post"),
            ("24-26", "Books > Account", "balance"),
            ("28-33", "Books > Account", "open"),
        ],
    );
}

#[test]
fn rs() {
    check(
        "parser.rs",
        include_str!("languages/parser.rs"),
        &[
            ("1-3", "", ""),
            ("5-6", "", "MAX_LINE_BYTES"),
            ("8-13", "", "ParseError"),
            ("15-19", "", "Settings"),
            ("21-21", "", "Settings"),
            ("22-30", "Settings", "parse"),
            ("32-36", "Settings", "get"),
            ("38-43", "", "split"),
            ("45-47", "", "settings"),
        ],
    );
}

#[test]
fn ts() {
    check(
        "store.ts",
        include_str!("languages/store.ts"),
        &[
            ("1-1", "", ""),
            ("3-8", "", "Entry"),
            ("10-10", "", "Listener"),
            ("12-15", "", "Mode"),
            ("17-18", "", "Store"),
            ("19-19", "Store", ""),
            ("21-21", "Store", "constructor"),
            ("23-29", "Store", "load"),
            ("31-34", "Store", "get"),
            ("36-37", "Store", ""),
            ("39-42", "", "isExpired"),
            ("44-46", "", "save"),
        ],
    );
}

#[test]
fn tsx() {
    check(
        "List.tsx",
        include_str!("languages/List.tsx"),
        &[
            ("1-1", "", ""),
            ("3-6", "", "ListProps"),
            ("8-9", "", "List"),
            ("10-19", "", "List"),
            ("21-21", "", "Empty"),
        ],
    );
}
