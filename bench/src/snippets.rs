//! Snippets: what both phases take next to reading the same files and doing nothing with them.
//!
//! The corpus has more than five requirements for each snippet, forty layers deep, with cycles and with dangling
//! requirements. The floor of `list` reads the index as YAML and, next to it, its lines as texts; that of `get` reads the
//! index and the files that are printed, each as one text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pannier_snippets::{
    ContextFormat, GetOptions, GetResponse, ListOptions, Roots, SnippetId, SnippetIndexes, check,
    index,
};
use pannier_tokens::BytesOverFour;

use crate::measure::{mebibytes, ratio, show, side_by_side};

const LAYERS: usize = 40;

pub(crate) fn run() {
    println!(
        "\nSnippets of about 3 KB, five requirements each, {LAYERS} deep, with cycles and dangling ones. The floors of list"
    );
    println!(
        "read the index, by a YAML parser and as lines; that of get the index, and the files that are printed, as texts.\n"
    );
    println!("    snippets  what                   time      floor  x floor  growth of both");
    let root = std::env::temp_dir().join(format!("pannier-bench-snippets-{}", std::process::id()));
    let mut before: Vec<(Duration, Duration)> = Vec::new();
    for count in [1_000, 10_000] {
        let (docs, requires) = corpus(&root.join(count.to_string()), count);
        assert!(requires >= 5 * count, "{requires} requirements");
        let roots = || Roots::open([&docs], None).expect("a root");
        let indexed = index(&roots(), &BytesOverFour).expect("an index");
        assert_eq!(indexed[0].snippets, count);
        assert!(
            !check(&roots()).expect("an answer").problems.is_empty(),
            "there is something to tell"
        );
        let mut times = Vec::new();
        let mut tell = |what: &str, (time, floor): (Duration, Duration)| {
            let growth = before.get(times.len()).map_or_else(String::new, |before| {
                format!("{:.1}x, {:.1}x", ratio(time, before.0), ratio(floor, before.1))
            });
            println!(
                "    {count:>8}  {what:<16} {:>10} {:>10} {:>8.2}  {growth}",
                show(time),
                show(floor),
                ratio(time, floor)
            );
            times.push((time, floor));
        };
        let path = docs.join("index.yaml");
        tell("list, YAML", side_by_side(|| list(roots()), || parse(&path)));
        tell("list, lines", side_by_side(|| list(roots()), || read_lines(&path)));
        // The last one is in the deepest layer, and leads to nearly everything.
        let some = [vec![id(count - 1)], (0..count).step_by(10).map(id).collect()];
        for ids in some.into_iter().chain([(0..count).map(id).collect()]) {
            let what = format!("get {}", ids.len());
            let printed = get(roots(), &ids);
            let files: Vec<PathBuf> = printed.iter().map(|path| docs.join(path)).collect();
            let both = side_by_side(
                || get(roots(), &ids),
                || (read(&path), files.iter().map(|file| read(file)).collect::<Vec<_>>()),
            );
            tell(&format!("{what}: {}", files.len()), both);
        }
        let bytes = fs::metadata(&path).map_or(0, |file| file.len() as usize);
        let (listed, whole) = side_by_side(|| list(roots()), || read(&path));
        println!(
            "              index of {:.1} MiB with {requires} requirements; as one text {}, list is {:.0} times that",
            mebibytes(bytes),
            show(whole),
            ratio(listed, whole),
        );
        before = times;
    }
    let _ = fs::remove_dir_all(&root);
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

fn read_lines(path: &Path) -> Vec<String> {
    read(path).lines().map(str::to_owned).collect()
}

/// The index as any program would read it.
fn parse(path: &Path) -> usize {
    #[derive(serde::Deserialize)]
    struct Index {
        snippets: Vec<BTreeMap<String, Field>>,
    }

    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Field {
        Texts(Vec<String>),
        Text(String),
        Number(usize),
    }

    let index: Index = serde_saphyr::from_str(&read(path)).expect("an index");
    let lengths = index.snippets.iter().flat_map(BTreeMap::values).map(|field| match field {
        Field::Texts(texts) => texts.len(),
        Field::Text(text) => text.len(),
        Field::Number(number) => *number,
    });
    lengths.sum()
}

fn list(roots: Roots) -> String {
    let indexes = SnippetIndexes::read(roots).expect("an index");
    let catalog = indexes.catalog().expect("snippets");
    catalog.list(&ListOptions::default(), &BytesOverFour).expect("a listing").text()
}

/// Prints snippets to nowhere, and tells their paths.
fn get(roots: Roots, ids: &[SnippetId]) -> Vec<String> {
    let indexes = SnippetIndexes::read(roots).expect("an index");
    let catalog = indexes.catalog().expect("snippets");
    let answer = catalog.get(ids, &GetOptions::default(), &BytesOverFour).expect("an answer");
    let GetResponse::Snippets(context) = answer else { panic!("there is no session") };
    let mut nowhere = fs::File::options().write(true).open("/dev/null").expect("nowhere");
    context.write(ContextFormat::Text, &mut nowhere).expect("it is written");
    context.snippets.iter().map(|snippet| snippet.path.to_string()).collect()
}

fn id(number: usize) -> SnippetId {
    SnippetId::new(&name(number)).expect("an id")
}

fn name(number: usize) -> String {
    format!("part-{:02}/topic-{}/snippet-{number:05}", number % 50, number % 7)
}

/// Makes `count` snippets, and returns how many requirements they have. Each requires six of the layer before its own; some also one of
/// the last layer, which makes a cycle, and some one that is not there.
fn corpus(folder: &Path, count: usize) -> (PathBuf, usize) {
    let docs = folder.join("docs");
    let width = count / LAYERS;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut all = 0;
    for number in 0..count {
        let layer = number / width;
        let mut requires: Vec<String> = Vec::new();
        if layer > 0 {
            requires.extend((0..6).map(|_| name((layer - 1) * width + random(width))));
            requires.sort_unstable();
            requires.dedup();
        }
        if number % 500 == 250 {
            requires.push(name(count - 1 - random(width)));
        }
        if number % 200 == 100 {
            requires.push(format!("gone/{number}"));
        }
        all += requires.len();
        let scope = ["global", "domain", "project"][layer * 3 / LAYERS];
        let kind = ["policy", "concept", "design", "spec"][number % 4];
        let requires: String = requires.iter().map(|id| format!("  - {id}\n")).collect();
        let requires =
            if requires.is_empty() { requires } else { format!("requires:\n{requires}") };
        let mut text = format!(
            "---\nid: {}\ndescription: What to know about topic {number}, in about a line of words.\ntype: {kind}\nscope: {scope}\n{requires}---\n\n# Snippet {number}\n\n",
            name(number)
        );
        while text.len() < 3_000 {
            text.push_str(&format!("w{} ", random(5_000)));
        }
        let path = docs.join(format!("{}.md", name(number)));
        if number < 350 {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        }
        fs::write(path, text).expect("a file");
    }
    (docs, all)
}
