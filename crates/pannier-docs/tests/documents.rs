//! Building, resolving and verifying an index: determinism, damage and concurrency.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use pannier_core::ContextBudget;
use pannier_docs::{
    BuildOptions, DocsError, DocumentIndex, DocumentSource, QueryVector, Resolved, SearchOptions,
    VectorSource, build, resolve_policy, verify,
};
use pannier_policy::PolicyRegistry;
use proptest::prelude::*;
use support::{FROM_SCRATCH, Folder, Letters};

mod support;

fn json(resolved: &Resolved) -> String {
    serde_json::to_string(resolved).unwrap()
}

/// The specification's pseudocode.
fn pseudocode(documents: &[(String, String)], query: &str, budget: u64) -> Vec<(String, f32, u64)> {
    let terms: Vec<String> = query.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let mut scored: Vec<(f32, String, u64)> = documents
        .iter()
        .map(|(path, content)| {
            let content_words = content.to_lowercase();
            let words: Vec<&str> = content_words.split_whitespace().collect();
            let matches =
                words.iter().filter(|word| terms.iter().any(|term| term == **word)).count();
            let score = if words.is_empty() { 0.0 } else { matches as f32 / words.len() as f32 };
            (score, path.to_lowercase(), content.len().div_ceil(4) as u64)
        })
        .collect();
    scored.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then_with(|| a.1.cmp(&b.1)));
    let (mut selected, mut used) = (Vec::new(), 0);
    for (score, id, tokens) in scored {
        if budget > 0 && used + tokens <= budget {
            used += tokens;
            selected.push((id, score, tokens));
        }
    }
    selected
}

fn contents() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-d]{1,2}",
        "[A-D]{1,2}",
        Just("Σας".to_owned()),
        Just("ΣΑΣ".to_owned()),
        Just("straße".to_owned()),
        Just("İx".to_owned()),
        Just("漢字".to_owned()),
        Just("a,".to_owned()),
    ];
    let blank = prop_oneof![Just(" "), Just("\n\n"), Just("\u{2003}"), Just("\u{85}"), Just("\t")];
    prop::collection::vec((word, blank), 0..20)
        .prop_map(|words| words.into_iter().map(|(word, blank)| word + blank).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn resolve_equals_the_pseudocode_and_the_engine(
        documents in prop::collection::btree_map("[a-c]{1,2}(/[a-c]{1,2}){0,2}", contents(), 0..24),
        query in contents(),
        budgets in prop::collection::vec(0..60_u64, 5),
        force: bool,
    ) {
        let folder = Folder::new();
        let documents: Vec<(String, String)> =
            documents.into_iter().map(|(path, content)| (format!("{path}.md"), content)).collect();
        // Written from the last to the first.
        documents.iter().rev().for_each(|(path, content)| folder.write(path, content));
        let built = folder.build();
        prop_assert_eq!(built.documents as usize, documents.len());
        if force {
            let again = build(&folder.sources(), &folder.cache(), &FROM_SCRATCH, &mut |_| {}).unwrap();
            prop_assert_eq!(&again.version, &built.version);
        }
        prop_assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
        let cache = folder.open();
        let items = cache.pool(&query).unwrap();
        let pipeline = PolicyRegistry::default().pipeline(&resolve_policy(), None).unwrap();
        for budget in budgets {
            let resolved = cache.resolve(&query, budget).unwrap();
            let found: Vec<(String, f32, u64)> =
                resolved.documents.iter().map(|found| (found.id.clone(), found.score, found.tokens)).collect();
            prop_assert_eq!(&found, &pseudocode(&documents, &query, budget));
            prop_assert!(resolved.selection.tokens_used <= budget);
            for found in &resolved.documents {
                let original = documents.iter().find(|(path, _)| path.to_lowercase() == found.id).unwrap();
                prop_assert_eq!(&original.1, &found.content);
            }
            let tokens = budget as i64;
            let selection = pipeline.run(&items, &ContextBudget::new(tokens, tokens).unwrap()).unwrap();
            let selected: Vec<_> = selection.items().map(|item| item.id().unwrap().to_owned()).collect();
            prop_assert_eq!(selected, found.into_iter().map(|(id, ..)| id).collect::<Vec<_>>());
        }
    }

    /// A damaged index returns the right answer or an error, and never panics.
    #[test]
    fn damage_is_detected_or_has_no_effect(
        file in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        damage in prop_oneof![
            (1..=255_u8).prop_map(Damage::Flip),
            Just(Damage::Cut),
            prop::collection::vec(any::<u8>(), 1..9).prop_map(Damage::Add),
            Just(Damage::Remove),
            Just(Damage::Empty),
        ],
    ) {
        let folder = small();
        let letters = Letters::new();
        folder.build_with(VectorSource::Embedder(&letters)).unwrap();
        // A second segment, and a deleted document in the first.
        folder.write("A.md", "# Deploy\n\nDeploy the thing.\n\n## Then\n\nRest x x.");
        folder.build_with(VectorSource::Embedder(&letters)).unwrap();
        prop_assert_eq!(folder.open().manifest().segments.len(), 2);
        let search = |cache: &DocumentIndex| {
            cache.search("\"the thing\" deploy", &SearchOptions::default(), QueryVector::Embedder(&letters))
        };
        let before = json(&folder.open().resolve("deploy x", 40).unwrap());
        let hits = search(&folder.open()).unwrap();
        prop_assert_eq!(hits.len(), 3);
        let files = folder.files();
        let file = &files[file.index(files.len())];
        let mut bytes = fs::read(file).unwrap();
        match &damage {
            Damage::Flip(bits) => {
                let place = place.index(bytes.len());
                bytes[place] ^= bits;
            }
            Damage::Cut => bytes.truncate(place.index(bytes.len())),
            Damage::Add(more) => bytes.extend(more),
            Damage::Empty => bytes.clear(),
            Damage::Remove => {}
        }
        if matches!(damage, Damage::Remove) { fs::remove_file(file).unwrap() } else { fs::write(file, bytes).unwrap() }

        let open = || DocumentIndex::open(folder.cache());
        let answer = open().and_then(|cache| cache.resolve("deploy x", 40));
        let found = open().and_then(|cache| search(&cache));
        let mut errors = Vec::new();
        match answer {
            Ok(answer) => prop_assert_eq!(json(&answer), before),
            Err(error) => errors.push(error),
        }
        match found {
            Ok(found) => prop_assert_eq!(found, hits),
            Err(error) => errors.push(error),
        }
        for error in errors {
            prop_assert!(matches!(error, DocsError::Invalid { .. }), "{}", error);
            let name = file.file_name().unwrap().to_str().unwrap();
            // The manifest says what the others should be, so damage to it may show in another.
            prop_assert!(error.to_string().contains(name) || name == "manifest.json", "{}: {}", name, error);
        }
        let problems = verify(&folder.cache()).unwrap();
        prop_assert!(!problems.is_empty(), "{:?} of {:?}", damage, file);
        // Building again heals it.
        folder.build_with(VectorSource::Embedder(&letters)).unwrap();
        prop_assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
    }
}

#[derive(Clone, Debug)]
enum Damage {
    Flip(u8),
    Cut,
    Add(Vec<u8>),
    Remove,
    Empty,
}

fn small() -> Folder {
    let folder = Folder::new();
    folder.write("A.md", "# Deploy\n\nDeploy the thing.\n\n## Then\n\nRest x.");
    folder.write("b/c.md", "Nothing to deploy here x x.");
    folder.write("b/d.md", "");
    folder.build();
    folder
}

#[test]
fn the_version_does_not_depend_on_order_or_threads() {
    let documents: Vec<(String, String)> = (0..300)
        .map(|i| {
            (
                format!("part-{}/Document {i}.md", i % 7),
                format!("# Title {i}\n\nword {} again\n", i * 31 % 17),
            )
        })
        .collect();
    let mut versions = Vec::new();
    for (threads, is_reversed) in [(1, false), (4, true)] {
        let folder = Folder::new();
        let mut order: Vec<_> = documents.iter().collect();
        if is_reversed {
            order.reverse();
        }
        order.iter().for_each(|(path, content)| folder.write(path, content));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let built = pool.install(|| folder.build());
        let files: Vec<Vec<u8>> =
            folder.files().iter().map(|file| fs::read(file).unwrap()).collect();
        let answer = json(&folder.open().resolve("word 5 again", 100).unwrap());
        versions.push((built.version, files, answer));
    }
    assert_eq!(versions[0], versions[1]);
}

#[test]
fn unchanged_documents_are_reused() {
    let folder = small();
    let current = fs::metadata(folder.cache().join("CURRENT")).unwrap().modified().unwrap();
    let again = folder.build();
    assert!(again.is_unchanged && again.unchanged == 3);
    assert_eq!(fs::metadata(folder.cache().join("CURRENT")).unwrap().modified().unwrap(), current);

    folder.write("A.md", "# Deploy\n\nOtherwise.");
    let changed = folder.build();
    assert!(!changed.is_unchanged && changed.version != again.version);
    assert_eq!((changed.unchanged, changed.changed.count, changed.documents), (2, 1, 3));
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());

    // A new name is a new state.
    fs::rename(folder.0.join("docs/b/c.md"), folder.0.join("docs/b/e.md")).unwrap();
    let renamed = folder.build();
    assert!(renamed.version != changed.version);
    assert_eq!(
        fs::read_dir(folder.cache().join("versions")).unwrap().count(),
        1,
        "old versions are gone"
    );
}

#[test]
fn invalid_documents_are_named_and_the_index_stays() {
    let folder = small();
    let before = json(&folder.open().resolve("deploy", 40).unwrap());
    folder.write("bad.md", b"\xff\xfe");
    folder.write("worse.md", b"fine until \xc3(");
    let error = build(&folder.sources(), &folder.cache(), &BuildOptions::default(), &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, DocsError::Sources { .. }));
    let message = error.to_string();
    assert!(
        message.contains("bad.md: it is not UTF-8 at byte 0")
            && message.contains("worse.md: it is not UTF-8 at byte 11"),
        "{message}"
    );
    assert_eq!(json(&folder.open().resolve("deploy", 40).unwrap()), before);
    assert_eq!(
        fs::read_dir(folder.cache().join("versions")).unwrap().count(),
        1,
        "nothing is left behind"
    );

    fs::remove_file(folder.0.join("docs/bad.md")).unwrap();
    fs::remove_file(folder.0.join("docs/worse.md")).unwrap();
    folder.write("a.MD.md", "x");
    folder.write("A.md.md", "y");
    let clash = build(&folder.sources(), &folder.cache(), &BuildOptions::default(), &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(clash.contains("a.MD.md: its name and A.md.md differ only in case"), "{clash}");
}

#[test]
fn r2_r6_repeated_terms_count_once_and_equal_documents_are_two() {
    let folder = Folder::new();
    folder.write("a.md", "deploy it");
    folder.write("b.md", "deploy it");
    folder.build();
    let answer = folder.open().resolve("deploy deploy IT it", 100).unwrap();
    let found: Vec<_> =
        answer.documents.iter().map(|found| (found.id.as_str(), found.score)).collect();
    assert_eq!(found, [("a.md", 1.0), ("b.md", 1.0)]);
    assert_eq!(answer.documents[0].why.query_terms, ["deploy", "deploy", "it", "it"]);
}

#[test]
fn r7_r10_budgets_at_the_limits() {
    let folder = small();
    let index = folder.open();
    let ids = |query: &str, budget: u64| -> Vec<String> {
        let resolved = index.resolve(query, budget).unwrap();
        assert_eq!(resolved.selection.budget, budget);
        resolved.documents.into_iter().map(|document| document.id).collect()
    };
    assert!(ids("x", 0).is_empty());
    assert_eq!(ids("x", 1), ["b/d.md"], "an empty document costs nothing");
    for budget in [100, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        assert_eq!(ids("x", budget), ["b/c.md", "a.md", "b/d.md"]);
        assert_eq!(ids("", budget), ["a.md", "b/c.md", "b/d.md"]);
    }
}

#[cfg(unix)]
#[test]
fn links_and_paths_out_of_the_index_are_rejected() {
    let folder = small();
    folder.write("secret.txt", "secret");
    std::os::unix::fs::symlink(folder.0.join("docs/secret.txt"), folder.0.join("docs/link.md"))
        .unwrap();
    assert_eq!(folder.build().documents, 3, "links are not followed");

    let current = folder.cache().join("CURRENT");
    let name = fs::read_to_string(&current).unwrap();
    for wrong in [
        "../../x",
        "..",
        "",
        "/etc",
        &"0".repeat(64),
        &format!("{}/../x", name.trim()),
        &format!("../../x {}", "0".repeat(16)),
    ] {
        fs::write(&current, wrong).unwrap();
        let error = DocumentIndex::open(folder.cache()).unwrap_err();
        assert!(matches!(error, DocsError::Invalid { .. }), "{wrong}: {error}");
        assert!(!verify(&folder.cache()).unwrap().is_empty());
    }
    fs::write(&current, &name).unwrap();
    let contents = folder.files().into_iter().find(|file| file.ends_with("contents")).unwrap();
    let elsewhere = folder.0.join("elsewhere");
    fs::rename(&contents, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &contents).unwrap();
    assert!(matches!(DocumentIndex::open(folder.cache()), Err(DocsError::Invalid { .. })));
    fs::remove_file(&contents).unwrap();
    fs::rename(&elsewhere, &contents).unwrap();
    fs::write(contents.with_file_name("more"), "x").unwrap();
    assert!(verify(&folder.cache()).unwrap()[0].contains("more: it does not belong to the index"));
}

#[test]
fn readers_and_builds_do_not_disturb_each_other() {
    let folder = small();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let answer =
                        DocumentIndex::open(folder.cache()).unwrap().resolve("deploy", 40).unwrap();
                    assert!(!answer.documents.is_empty());
                }
            });
        }
        for _ in 0..60 {
            build(&folder.sources(), &folder.cache(), &FROM_SCRATCH, &mut |_| {}).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
}

#[test]
fn other_folders_are_not_overwritten() {
    let folder = Folder::new();
    folder.write("a.md", "x");
    let other = folder.0.join("other");
    for name in ["versions/1.0", "LOCK", "CURRENT"] {
        fs::create_dir_all(other.join(name)).unwrap();
    }
    let refused = |cache: &Path| {
        let error = build(&folder.sources(), cache, &FROM_SCRATCH, &mut |_| {}).unwrap_err();
        assert!(matches!(error, DocsError::NotAnIndex { .. }), "{error}");
    };
    refused(&other);
    assert!(other.join("versions/1.0").exists());
    #[cfg(unix)]
    {
        let (photos, cache) = (folder.0.join("photos"), folder.cache());
        fs::create_dir_all(photos.join("album")).unwrap();
        folder.build();
        fs::remove_dir_all(cache.join("versions")).unwrap();
        std::os::unix::fs::symlink(&photos, cache.join("versions")).unwrap();
        refused(&cache);
        assert!(photos.join("album").exists());
        fs::remove_file(cache.join("versions")).unwrap();
        let victim = folder.0.join("victim");
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, cache.join("CURRENT.next")).unwrap();
        folder.build();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    }
    // Nothing is made where nothing can be built from.
    let nowhere = DocumentSource::new(folder.0.join("nowhere"));
    assert!(build(&nowhere, &folder.0.join("new"), &BuildOptions::default(), &mut |_| {}).is_err());
    assert!(!folder.0.join("new").exists());
}

#[test]
fn a_failed_build_keeps_unnamed_versions() {
    let folder = small();
    fs::write(folder.cache().join("CURRENT"), "damaged").unwrap();
    folder.write("bad.md", b"\xff");
    assert!(
        build(&folder.sources(), &folder.cache(), &BuildOptions::default(), &mut |_| {}).is_err()
    );
    assert_eq!(fs::read_dir(folder.cache().join("versions")).unwrap().count(), 1);
    fs::remove_file(folder.0.join("docs/bad.md")).unwrap();
    folder.build();
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
}

#[test]
fn open_indexes_stay_and_concurrent_builds_are_rejected() {
    let folder = small();
    let open = folder.open();
    folder.write("A.md", "New words.");
    folder.build();
    let old = open.resolve("deploy", 100).unwrap();
    assert!(old.documents.iter().any(|document| document.content.contains("Deploy the thing")));
    assert!(folder.open().resolve("new", 100).unwrap().documents[0].content == "New words.");

    let lock = fs::File::options().write(true).open(folder.cache().join("LOCK")).unwrap();
    lock.lock().unwrap();
    let error = build(&folder.sources(), &folder.cache(), &FROM_SCRATCH, &mut |_| {}).unwrap_err();
    assert!(matches!(error, DocsError::Busy { .. }), "{error}");
}

#[test]
fn missing_and_damaged_indexes_are_distinct_errors() {
    let folder = Folder::new();
    assert!(matches!(DocumentIndex::open(folder.cache()), Err(DocsError::NoIndex { .. })));
    assert!(matches!(verify(&folder.cache()), Err(DocsError::NoIndex { .. })));
    let nowhere = DocumentSource::new(folder.0.join("nowhere"));
    assert!(matches!(
        build(&nowhere, &folder.cache(), &BuildOptions::default(), &mut |_| {}),
        Err(DocsError::NoSources { .. })
    ));
    let error =
        build(&folder.sources(), &folder.0, &BuildOptions::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, DocsError::NotAnIndex { .. }), "{error}");
    // An index may have no documents.
    assert_eq!(folder.build().documents, 0);
    let empty = folder.open();
    assert!(empty.is_empty() && empty.resolve("x", 10).unwrap().documents.is_empty());
    assert_eq!(verify(&folder.cache()).unwrap(), Vec::<String>::new());
}
