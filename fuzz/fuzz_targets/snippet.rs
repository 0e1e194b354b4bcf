//! Files of snippets and their indexes are foreign: whatever their bytes, nothing is sent that is not the text of a file
//! below the root, and what one index is made of makes the same index again.

#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use pannier_snippets::{
    GetResponse, GetOptions, SnippetIndexes, ListOptions, Roots, SnippetId, check, index,
};
use pannier_tokens::BytesOverFour;

fuzz_target!(|data: &[u8]| {
    let folder = std::env::temp_dir().join(format!("pannier-fuzz-snippet-{}", std::process::id()));
    let docs = folder.join("docs");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(docs.join("sub")).expect("a folder");
    // A byte that is in no text is between two files; the first is an index that somebody wrote.
    let mut files = data.split(|byte| *byte == 0xff);
    fs::write(docs.join("index.yaml"), files.next().unwrap_or_default()).expect("an index");
    for (name, bytes) in ["a.md", "sub/b.md", "sub/baseline.md", "sub/SKILL.md", "c.mdc"].into_iter().zip(files) {
        fs::write(docs.join(name), bytes).expect("a file");
    }
    let roots = || Roots::open([&docs], Some(folder.clone())).expect("a root");
    look(roots());
    check(&roots()).expect("an answer");
    if index(&roots(), &BytesOverFour).is_ok() {
        assert!(index(&roots(), &BytesOverFour).expect("an index")[0].is_unchanged);
        let report = check(&roots()).expect("an answer");
        assert!(report.problems.iter().all(|problem| !problem.problem.contains("out of date")));
        look(roots());
    }
});

/// Lists everything, and fetches it.
fn look(roots: Roots) {
    let Ok(indexes) = SnippetIndexes::read(roots) else { return };
    let Ok(catalog) = indexes.catalog() else { return };
    let mut options = ListOptions::default();
    options.baseline_only = true;
    options.query = Some("a b".to_owned());
    catalog.list(&options, &BytesOverFour).expect("a listing").text();
    let ids = catalog.snippets().iter().map(|snippet| SnippetId::new(snippet.id()));
    let ids = ids.collect::<Result<Vec<_>, _>>().expect("ids");
    let answer = catalog.get(&ids, &GetOptions::default(), &BytesOverFour).expect("an answer");
    let GetResponse::Snippets(context) = answer else { panic!("there is no session") };
    assert!(context.added.is_empty() && context.requested.len() == ids.len());
    assert!(context.snippets.len() <= ids.len());
}
