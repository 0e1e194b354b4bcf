//! Updating an index: which files are selected, what an update reports, and that segments do not change answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use pannier_docs::{
    BuildOptions, BuildSummary, DocsError, DocumentIndex, DocumentMetadata, DocumentSource,
    Embedder, EmbedderError, FileRules, Manifest, Model, QueryVector, RemovalReason, SearchMode,
    SearchOptions, SkipReason, VectorSource, build, remove_drafts, verify,
};
use proptest::prelude::*;
use support::{FROM_SCRATCH, Folder, Letters};

mod support;

fn update(folder: &Folder, source: &DocumentSource) -> BuildSummary {
    build(source, &folder.cache(), &BuildOptions::default(), &mut |_| {}).unwrap()
}

fn all(folder: &Folder) -> DocumentSource {
    DocumentSource::new(folder.0.join("docs"))
}

fn paths(folder: &Folder) -> Vec<String> {
    let index = folder.open();
    (0..index.len()).map(|number| index.document_info(number).unwrap().path).collect()
}

fn rules(globs: &[&str], hidden: bool, no_ignore: bool, strict: bool) -> FileRules {
    let mut rules = FileRules::default();
    rules.globs = globs.iter().map(|glob| (*glob).to_owned()).collect();
    (rules.hidden, rules.no_ignore, rules.strict) = (hidden, no_ignore, strict);
    rules
}

#[test]
fn files_are_selected_as_ripgrep_does() {
    let folder = Folder::new();
    let files = [
        "a.md",
        ".hidden/b.md",
        "c.txt",
        "d/e.txt",
        "d/f.rs",
        "target/g.md",
        "log.tmp",
        ".git/x.md",
        "d/.git/config",
    ];
    for path in files {
        folder.write(path, path);
    }
    folder.write(".gitignore", "target\n");
    folder.write("d/.ignore", "*.rs\n");
    folder.write("log.bin", b"\0\x01");
    let select = |rules: FileRules| {
        update(&folder, &all(&folder).rules(rules));
        paths(&folder)
    };
    assert_eq!(select(FileRules::default()), ["a.md", "c.txt", "d/e.txt", "log.tmp"]);
    assert_eq!(select(rules(&["*.md", "!a.*"], true, false, false)), [".hidden/b.md"]);
    assert_eq!(
        select(rules(&["!*.txt", "!log.*"], false, true, false)),
        ["a.md", "d/f.rs", "target/g.md"]
    );
    assert_eq!(
        select(rules(&["*.txt", "d/*.rs"], false, true, false)),
        ["c.txt", "d/e.txt", "d/f.rs"]
    );
    let everything = select(FileRules::all());
    assert_eq!(everything.len(), 9, "{everything:?}");
    assert!(everything.iter().all(|path| !path.contains(".git/")));
    let invalid = all(&folder).patterns(["[a"]);
    let error = build(&invalid, &folder.0.join("new"), &BuildOptions::default(), &mut |_| {});
    assert!(matches!(error, Err(DocsError::Pattern { .. })));
    assert!(!folder.0.join("new").exists());
    // The index itself is not a document, wherever it is.
    let inside = folder.0.join("docs/index");
    build(&all(&folder), &inside, &BuildOptions::default(), &mut |_| {}).unwrap();
    let again = build(&all(&folder), &inside, &BuildOptions::default(), &mut |_| {}).unwrap();
    assert!(again.is_unchanged && again.documents == 4);
}

#[test]
fn files_that_are_not_text_are_skipped_or_fail_a_strict_build() {
    let folder = Folder::new();
    folder.write("a.md", "Text.");
    folder.write("b.png", b"\x89PNG\0");
    folder.write("c.txt", b"caf\xe9");
    folder.write("Case.md", "One.");
    folder.write("case.md", "Two.");
    fs::File::create(folder.0.join("docs/huge.txt")).unwrap().set_len((64 << 20) + 1).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("..", folder.0.join("docs/loop")).unwrap();
    let built = update(&folder, &all(&folder));
    assert_eq!(paths(&folder), ["a.md", "Case.md"]);
    let skipped: Vec<(SkipReason, u32, &str)> = built
        .skipped
        .iter()
        .map(|(reason, skipped)| (*reason, skipped.count, skipped.paths[0].as_str()))
        .collect();
    assert_eq!(
        skipped,
        [
            (SkipReason::Binary, 1, "b.png"),
            (SkipReason::NotUtf8, 1, "c.txt"),
            (SkipReason::TooLarge, 1, "huge.txt"),
            (SkipReason::Name, 1, "case.md"),
            #[cfg(unix)]
            (SkipReason::Link, 1, "loop"),
        ]
    );
    let json = serde_json::to_value(&built).unwrap();
    assert_eq!(json["skipped"]["not-utf8"]["paths"][0], "c.txt");
    // The same again, from stamps or not.
    for _ in 0..2 {
        let again = update(&folder, &all(&folder));
        assert!(again.is_unchanged);
        assert_eq!(again.skipped, built.skipped);
        let _ = fs::remove_file(folder.cache().join("stamps"));
    }
    let strict = all(&folder).rules(rules(&[], false, false, true));
    let fail =
        || build(&strict, &folder.cache(), &BuildOptions::default(), &mut |_| {}).unwrap_err();
    let message = fail().to_string();
    assert!(message.contains("case.md: its name and Case.md differ only in case"), "{message}");
    fs::remove_file(folder.0.join("docs/case.md")).unwrap();
    let message = fail().to_string();
    for part in
        ["b.png: it is binary", "c.txt: it is not UTF-8 at byte 3", "huge.txt: it is larger"]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(paths(&folder), ["a.md", "Case.md"], "the index is unchanged");
}

#[test]
fn an_update_reports_what_changed_and_why() {
    let folder = Folder::new();
    for path in ["a.md", "b.rs", "c.rs", "d.rs", "e.md"] {
        folder.write(path, path);
    }
    let first = update(&folder, &all(&folder));
    assert_eq!((first.added.count, first.unchanged), (5, 0));
    assert_eq!(first.added.paths, ["a.md", "b.rs", "c.rs", "d.rs", "e.md"]);
    folder.write("a.md", "other");
    folder.write("f.md", "new");
    folder.write("e.md", b"\0");
    fs::remove_file(folder.0.join("docs/d.rs")).unwrap();
    let second = update(&folder, &all(&folder));
    assert_eq!((&second.added.paths[0][..], &second.changed.paths[0][..]), ("f.md", "a.md"));
    let removed: Vec<_> =
        second.removed.iter().map(|(why, which)| (*why, &which.paths[0][..])).collect();
    assert_eq!(removed, [(RemovalReason::Deleted, "d.rs"), (RemovalReason::Skipped, "e.md")]);
    assert_eq!(second.unchanged, 2);
    // Other patterns do not drop documents silently.
    let fewer = update(&folder, &all(&folder).patterns(["*.rs"]));
    assert_eq!(fewer.removed[&RemovalReason::Excluded].paths, ["a.md", "f.md"]);
    // The index remembers them.
    let manifest = Manifest::open(&folder.cache()).unwrap();
    let remembered = manifest.document_source(&folder.cache());
    assert_eq!(remembered.file_rules(), &rules(&["*.rs"], false, false, false));
    assert_eq!(
        remembered.root().canonicalize().unwrap(),
        folder.0.join("docs").canonicalize().unwrap()
    );
    assert!(update(&folder, &remembered).is_unchanged);
    let other = folder.0.join("other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("b.rs"), "b.rs").unwrap();
    let moved = update(&folder, &DocumentSource::new(&other));
    assert_eq!(moved.removed[&RemovalReason::OtherFolder].paths, ["c.rs"]);
    assert_eq!(moved.unchanged, 1);
}

#[test]
fn given_titles_stay_until_others_are_given() {
    let folder = Folder::new();
    folder.write("a.md", "---\ntitle: Front\n---\nText.");
    folder.write("b.md", "Text.");
    let mut given = DocumentMetadata::default();
    given.title = Some("Given".to_owned());
    let metadata = BTreeMap::from([("a.md".to_owned(), given)]);
    let titled = update(&folder, &all(&folder).metadata(metadata.clone()));
    let title = |number| folder.open().document_info(number).unwrap().metadata.title;
    assert_eq!(title(0).as_deref(), Some("Given"));
    assert!(update(&folder, &all(&folder)).is_unchanged);
    assert!(update(&folder, &all(&folder).metadata(metadata)).is_unchanged);
    folder.write("a.md", "---\ntitle: Front\n---\nOther text.");
    update(&folder, &all(&folder));
    assert_eq!(title(0).as_deref(), Some("Given"));
    let plain = update(&folder, &all(&folder).metadata(BTreeMap::new()));
    assert_eq!((plain.changed.count, title(0).as_deref()), (1, Some("Front")));
    assert_ne!(plain.version, titled.version);
}

/// Sets the time of a file's last change as far back as a program can.
fn age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn edits_are_seen_though_size_and_time_are_equal() {
    let folder = Folder::new();
    let path = folder.0.join("docs/a.md");
    folder.write("a.md", "one");
    age(&path, 1_000);
    let first = update(&folder, &all(&folder)).version;
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    // Immediately after the build: the file's change is as recent as its stamp.
    folder.write("a.md", "two");
    fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    let second = update(&folder, &all(&folder));
    assert_ne!(second.version, first);
    if cfg!(unix) {
        // Long after it: the inode's own time differs.
        std::thread::sleep(Duration::from_millis(2_200));
        assert!(update(&folder, &all(&folder)).is_unchanged);
        let stamps = fs::read(folder.cache().join("stamps")).unwrap();
        assert!(stamps.windows(4).any(|part| part == b"a.md"), "the file is old enough");
        folder.write("a.md", "one");
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_eq!(update(&folder, &all(&folder)).version, first);
    }
}

/// A stamp saves reading: content that changes behind its back is not seen. Without stamps, it is.
#[cfg(unix)]
#[test]
fn a_stamp_is_used_and_only_a_hint() {
    let folder = Folder::new();
    folder.write("a.md", "one");
    folder.write("b.md", "binary");
    let first = update(&folder, &all(&folder)).version;
    std::thread::sleep(Duration::from_millis(2_200));
    assert!(update(&folder, &all(&folder)).is_unchanged);
    let file = folder.cache().join("stamps");
    let bytes = fs::read(&file).unwrap();
    // A stamp with another hash is believed.
    let position = bytes.windows(4).position(|part| part == b"a.md").unwrap();
    let mut forged = bytes[..bytes.len() - 8].to_vec();
    forged[position + 4 + 33] ^= 1;
    let check = xxhash(&forged);
    forged.extend_from_slice(&check);
    fs::write(&file, forged).unwrap();
    assert_eq!(update(&folder, &all(&folder)).changed.count, 0);
    // A damaged or missing file of stamps is not.
    for damage in [None, Some(&b"pannier"[..]), Some(&bytes[..bytes.len() - 3])] {
        match damage {
            Some(bytes) => fs::write(&file, bytes).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let again = update(&folder, &all(&folder));
        assert!(again.is_unchanged && again.version == first);
    }
}

#[cfg(unix)]
fn xxhash(bytes: &[u8]) -> [u8; 8] {
    xxhash_rust::xxh3::xxh3_64(bytes).to_le_bytes()
}

/// Everything that an index answers, as text.
fn answers(index: &DocumentIndex, letters: &Letters, queries: &[String]) -> Vec<String> {
    let mut answers = Vec::new();
    for query in queries {
        for mode in [SearchMode::Lexical, SearchMode::Hybrid, SearchMode::Semantic] {
            let mut options = SearchOptions::default();
            (options.mode, options.top_k) = (mode, 12);
            options.lexical_k = 8;
            let hits = index.search(query, &options, QueryVector::Embedder(letters)).unwrap();
            // Debug prints all bits of a number.
            answers.extend(hits.iter().map(|hit| format!("{hit:?}")));
        }
        answers.push(serde_json::to_string(&index.resolve(query, 60).unwrap()).unwrap());
    }
    answers.extend(index.all_chunks().unwrap().map(|chunk| format!("{:?}", chunk.unwrap())));
    for number in 0..index.len() {
        answers.push(format!("{:?} {:?}", index.document(number), index.document_info(number)));
    }
    answers
}

#[derive(Clone, Debug)]
enum Edit {
    Write(usize, String),
    Remove(usize),
    Rename(usize, usize),
}

fn edits() -> impl Strategy<Value = Vec<Vec<Edit>>> {
    let words = prop::collection::vec("[a-e]{1,2}|deploy|\n\n# Deploy it\n\n", 0..30)
        .prop_map(|words| words.join(" "));
    let edit = prop_oneof![
        4 => (0..12_usize, words).prop_map(|(file, text)| Edit::Write(file, text)),
        1 => (0..12_usize).prop_map(Edit::Remove),
        1 => (0..12_usize, 0..12_usize).prop_map(|(from, to)| Edit::Rename(from, to)),
    ];
    prop::collection::vec(prop::collection::vec(edit, 1..4), 1..10)
}

fn name(number: usize) -> String {
    format!("{}/{}.md", ["a", "B", "c"][number % 3], ["x", "Y", "z", "q"][number / 3])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    /// Whatever the sequence of edits, an index answers as one that is built anew.
    #[test]
    fn an_updated_index_equals_a_fresh_one(updates in edits()) {
        let folder = Folder::new();
        let letters = Letters::new();
        let queries =
            ["a deploy", "\"deploy it\" b", "c d e a b", "ab", "x"].map(str::to_owned);
        for edits in updates {
            for edit in edits {
                let path = |number| folder.0.join("docs").join(name(number));
                match edit {
                    Edit::Write(file, text) => folder.write(&name(file), text),
                    Edit::Remove(file) => _ = fs::remove_file(path(file)),
                    Edit::Rename(from, to) => {
                        fs::create_dir_all(path(to).parent().unwrap()).unwrap();
                        let _ = fs::rename(path(from), path(to));
                    }
                }
            }
            let updated = folder.build_with(VectorSource::Embedder(&letters)).unwrap();
            let fresh = folder.0.join("fresh");
            let _ = fs::remove_dir_all(&fresh);
            let options =
                BuildOptions { vectors: VectorSource::Embedder(&letters), ..BuildOptions::default() };
            let built = build(&folder.sources(), &fresh, &options, &mut |_| {}).unwrap();
            prop_assert_eq!(&updated.version, &built.version);
            prop_assert_eq!(updated.documents, built.documents);
            let (index, fresh) = (folder.open(), DocumentIndex::open(&fresh).unwrap());
            prop_assert_eq!(answers(&index, &letters, &queries), answers(&fresh, &letters, &queries));
            prop_assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
            let changed = updated.added.count + updated.changed.count + updated.unchanged;
            prop_assert_eq!(changed, updated.documents);
            let segments = fs::read_dir(folder.cache().join("segments")).unwrap().count();
            prop_assert_eq!(segments, index.manifest().segments.len());
            prop_assert!(segments <= 6);
        }
    }
}

#[test]
fn an_edit_writes_a_small_segment() {
    let folder = Folder::new();
    for number in 0..200 {
        folder.write(&format!("{number}.md"), format!("word{number} common"));
    }
    folder.build();
    let segments = |folder: &Folder| -> Vec<u32> {
        let manifest = Manifest::open(&folder.cache()).unwrap();
        manifest.segments.iter().map(|segment| segment.documents).collect()
    };
    assert_eq!(segments(&folder), [200]);
    for (number, expected) in
        [&[200, 1][..], &[200, 1, 1], &[200, 1, 1, 1], &[200, 4]].iter().enumerate()
    {
        folder.write(&format!("{number}.md"), "edited common");
        let built = folder.build();
        assert_eq!((built.changed.count, built.unchanged), (1, 199));
        assert_eq!(segments(&folder), *expected);
    }
    // Deletions write no segment, until most of one is deleted.
    for number in 50..140 {
        fs::remove_file(folder.0.join(format!("docs/{number}.md"))).unwrap();
    }
    folder.build();
    assert_eq!(segments(&folder), [200, 4]);
    for number in 140..160 {
        fs::remove_file(folder.0.join(format!("docs/{number}.md"))).unwrap();
    }
    folder.build();
    assert_eq!(segments(&folder), [4, 86]);
    assert_eq!(
        folder.open().search("common", &SearchOptions::default(), QueryVector::None).unwrap().len(),
        50
    );
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
}

#[test]
fn an_update_that_trusts_the_index_reads_damaged_documents_again() {
    let folder = Folder::new();
    for number in 0..3 {
        folder.write(&format!("{number}.md"), format!("word{number}"));
    }
    folder.build();
    let contents = folder.files().into_iter().find(|file| file.ends_with("contents")).unwrap();
    fs::write(&contents, "damaged by x xx").unwrap();
    // Two of three documents are deleted, so the third is rewritten.
    fs::remove_file(folder.0.join("docs/0.md")).unwrap();
    fs::remove_file(folder.0.join("docs/1.md")).unwrap();
    let options = BuildOptions { trusts_index: true, ..BuildOptions::default() };
    build(&folder.sources(), &folder.cache(), &options, &mut |_| {}).unwrap();
    assert_eq!(folder.open().document(0).unwrap().content, "word2");
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
}

#[test]
fn an_index_of_another_format_is_an_error_and_is_rebuilt() {
    let folder = Folder::new();
    folder.write("a.md", "x");
    folder.build();
    let manifest = folder.files().into_iter().find(|file| file.ends_with("manifest.json")).unwrap();
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"pannier_cache\": 5", "\"pannier_cache\": 4")).unwrap();
    let error = DocumentIndex::open(folder.cache()).unwrap_err().to_string();
    assert!(error.contains("its format is 4, but this version of Pannier reads 5"), "{error}");
    assert_eq!(folder.build().added.count, 1);
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
}

#[test]
fn a_build_waits_for_another_and_drafts_of_dead_builds_are_removed() {
    let folder = Folder::new();
    folder.write("a.md", "x");
    folder.build();
    let lock = fs::File::options().write(true).open(folder.cache().join("LOCK")).unwrap();
    lock.lock().unwrap();
    let drafts = ["versions/draft-1", "segments/draft-1"].map(|name| folder.cache().join(name));
    drafts.iter().for_each(|draft| fs::create_dir_all(draft).unwrap());
    remove_drafts(&folder.cache());
    assert!(drafts.iter().all(|draft| draft.exists()), "its build may be running");
    let is_released = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let options = BuildOptions { waits: true, ..FROM_SCRATCH };
            build(&folder.sources(), &folder.cache(), &options, &mut |_| {}).unwrap();
            assert!(is_released.load(Ordering::SeqCst), "the lock was held");
        });
        std::thread::sleep(Duration::from_millis(200));
        is_released.store(true, Ordering::SeqCst);
        lock.unlock().unwrap();
    });
    assert!(drafts.iter().all(|draft| !draft.exists()));
    drafts.iter().for_each(|draft| fs::create_dir_all(draft).unwrap());
    remove_drafts(&folder.cache());
    assert!(drafts.iter().all(|draft| !draft.exists()));
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
}

/// The variable that names the folder of a build to be killed.
const KILLED: &str = "PANNIER_TEST_KILLED_BUILD";
/// The maximum number of texts that are embedded at once.
const BATCH: usize = 64;

/// An embedder that notes each text before it computes, slowly.
#[derive(Debug)]
struct Noting {
    letters: Letters,
    log: PathBuf,
    pause: Duration,
    batches: AtomicUsize,
}

impl Noting {
    fn new(folder: &Path, pause: Duration) -> Self {
        let (letters, log) = (Letters::new(), folder.join("embedded"));
        Self { letters, log, pause, batches: AtomicUsize::new(0) }
    }
}

impl Embedder for Noting {
    fn model(&self) -> &Model {
        self.letters.model()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        assert!(texts.len() <= BATCH);
        let lines: String = texts.iter().map(|text| text.to_string() + "\n").collect();
        fs::File::options()
            .append(true)
            .create(true)
            .open(&self.log)?
            .write_all(lines.as_bytes())?;
        self.batches.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.pause);
        self.letters.embed(texts)
    }
}

/// Does nothing, unless the next test starts it in a process of its own.
#[test]
fn killed_build() {
    let Some(folder) = std::env::var_os(KILLED).map(PathBuf::from) else { return };
    let noting = Noting::new(&folder, Duration::from_millis(40));
    let options =
        BuildOptions { vectors: VectorSource::Embedder(&noting), ..BuildOptions::default() };
    build(&DocumentSource::new(folder.join("docs")), &folder.join("cache"), &options, &mut |_| {})
        .unwrap();
}

#[test]
fn a_build_killed_50_times_embeds_each_text_once_and_a_batch_for_each_kill() {
    let folder = Folder::new();
    let texts = 30 * BATCH;
    for number in 0..texts {
        folder.write(&format!("{}/{number}.md", number % 7), format!("text {number} abc"));
    }
    let log = folder.0.join("embedded");
    let count = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let mut kills = 0;
    while kills < 50 {
        let before = count();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed_build"])
            .env(KILLED, &folder.0)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Within the first batch, or within the second.
        let batches = 1 + kills % 2;
        while count() < before + batches * BATCH && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    let noting = Noting::new(&folder.0, Duration::ZERO);
    let options =
        BuildOptions { vectors: VectorSource::Embedder(&noting), ..BuildOptions::default() };
    let built = build(&all(&folder), &folder.cache(), &options, &mut |_| {}).unwrap();
    assert_eq!(built.documents as usize, texts);
    let text = fs::read_to_string(&log).unwrap();
    let distinct: BTreeSet<&str> = text.lines().collect();
    assert_eq!(distinct.len(), texts);
    let repeated = text.lines().count() - texts;
    eprintln!("{kills} kills, {texts} texts, {repeated} embedded again");
    assert!(repeated <= kills * BATCH, "{repeated}");
    assert!(noting.batches.load(Ordering::Relaxed) < 20, "the last build resumed");
    assert!(!folder.cache().join("vector-log").exists());
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
    let fresh = folder.0.join("fresh");
    let letters = Letters::new();
    let options =
        BuildOptions { vectors: VectorSource::Embedder(&letters), ..BuildOptions::default() };
    let again = build(&all(&folder), &fresh, &options, &mut |_| {}).unwrap();
    assert_eq!(again.version, built.version);
    let nearest = |index: &DocumentIndex| {
        let mut options = SearchOptions::default();
        options.mode = SearchMode::Semantic;
        index.search("text abc", &options, QueryVector::Embedder(&letters)).unwrap()
    };
    assert_eq!(nearest(&folder.open()), nearest(&DocumentIndex::open(&fresh).unwrap()));
}
