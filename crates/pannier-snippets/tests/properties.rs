//! Properties of random corpora, and hostile files.

mod helper;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use helper::{Scratch, fetch, get, ids, options, sent, snippet};
use pannier_core::TokenCounter;
use pannier_snippets::{
    ContextFormat, GetResponse, ListOptions, Roots, SnippetIndexes, SnippetsError, check, index,
};
use pannier_tokens::{BytesOverFour, o200k};
use proptest::prelude::*;

const SCOPES: [&str; 3] = ["global", "domain", "project"];

/// Snippets by number: dependencies and scope.
type Corpus = Vec<(Vec<usize>, usize)>;

fn corpus() -> impl Strategy<Value = Corpus> {
    prop::collection::vec((prop::collection::vec(0_usize..14, 0..4), 0_usize..3), 1..12)
}

fn name(number: usize) -> String {
    format!("s{number:02}")
}

/// Writes a corpus to two roots, in any file order, with all kinds of references.
fn write(scratch: &Scratch, corpus: &Corpus, order: &[usize]) {
    for position in order {
        let number = position % corpus.len();
        let (requires, scope) = &corpus[number];
        let (first, rest) = requires.split_at(requires.len() / 2);
        let first: Vec<String> = first.iter().map(|number| name(*number)).collect();
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        let reads: String = rest
            .iter()
            .map(|number| match number % 3 {
                0 => format!("- @{}\n", name(*number)),
                1 => format!("@docs/{}.md\n", name(*number)),
                _ => format!("- @{}.md\n", name(*number)),
            })
            .collect();
        let body =
            format!("\n# S{number}\n\n## Required reads\n\n{reads}\n## Text\n\nText {number}.\n");
        let root = if number.is_multiple_of(2) { "one/docs" } else { "two/docs" };
        let path = format!("{root}/{}.md", name(number));
        scratch.write(&path, snippet(&name(number), SCOPES[*scope], &first, &body));
    }
    for root in ["one/docs", "two/docs"] {
        fs::create_dir_all(scratch.path(root)).unwrap();
    }
}

fn roots(scratch: &Scratch) -> Roots {
    Roots::open([scratch.path("two/docs"), scratch.path("one/docs")], None).unwrap()
}

fn reach(corpus: &Corpus, start: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut stack = corpus[start].0.clone();
    while let Some(number) = stack.pop() {
        if number < corpus.len() && seen.insert(number) {
            stack.extend(&corpus[number].0);
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn closures_are_complete_and_in_order(corpus in corpus(), seed in any::<u64>()) {
        let scratch = Scratch::new("closures");
        let forward: Vec<usize> = (0..corpus.len()).collect();
        write(&scratch, &corpus, &forward);
        index(&roots(&scratch), &BytesOverFour).unwrap();
        let indexes = SnippetIndexes::read(roots(&scratch)).unwrap();
        let catalog = indexes.catalog().unwrap();
        let requested: BTreeSet<usize> =
            [seed % 97, seed % 89].iter().map(|number| *number as usize % corpus.len()).collect();
        let names: Vec<String> = requested.iter().map(|number| name(*number)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let fetched = get(&catalog, &names);

        // Complete, without duplicates.
        let reaches: Vec<BTreeSet<usize>> = forward.iter().map(|start| reach(&corpus, *start)).collect();
        let mut expected = requested.clone();
        requested.iter().for_each(|start| expected.extend(&reaches[*start]));
        let order = sent(&fetched);
        let positions: BTreeMap<&str, usize> =
            order.iter().enumerate().map(|(position, id)| (*id, position)).collect();
        prop_assert_eq!(order.len(), expected.len());
        for number in &expected {
            prop_assert!(positions.contains_key(&*name(*number)));
        }
        // Sorted by scope, and topologically within a scope, except for cycles.
        let scope = |number: usize| corpus[number].1;
        prop_assert!(fetched.bundle.snippets.is_sorted_by_key(|snippet| snippet.scope));
        for number in &expected {
            for required in &reaches[*number] {
                if scope(*number) == scope(*required) && !reaches[*required].contains(number) {
                    prop_assert!(positions[&*name(*required)] < positions[&*name(*number)]);
                }
            }
        }
        // Each snippet of a chain requires the next.
        for added in &fetched.bundle.added {
            let chain = added.chain.iter().chain([&added.id]).map(AsRef::as_ref);
            let chain: Vec<&str> = chain.collect();
            prop_assert!(fetched.bundle.requested.iter().any(|id| id == chain[0]));
            for pair in chain.windows(2) {
                let number = |id: &str| id[1..].parse::<usize>().unwrap();
                prop_assert!(corpus[number(pair[0])].0.contains(&number(pair[1])));
            }
        }
        prop_assert_eq!(fetched.bundle.added.len() + requested.len(), order.len());
        // Chains are shortest paths.
        let mut level = requested.clone();
        let mut far: BTreeMap<usize, usize> = BTreeMap::new();
        for length in 0..corpus.len() {
            level.retain(|number| *number < corpus.len() && !far.contains_key(number));
            far.extend(level.iter().map(|number| (*number, length)));
            level = level.iter().flat_map(|number| corpus[*number].0.clone()).collect();
        }
        for added in &fetched.bundle.added {
            let number: usize = added.id[1..].parse().unwrap();
            prop_assert_eq!(added.chain.len() + added.chain_omitted, far[&number]);
        }
        // Both `get` and `check` report dangling references and cycles.
        let dangling = expected.iter().any(|number| corpus[*number].0.iter().any(|to| *to >= corpus.len()));
        let warnings = fetched.bundle.warnings.iter().map(|warning| warning.to_string());
        let warnings: Vec<String> = warnings.collect();
        prop_assert_eq!(warnings.iter().any(|warning| warning.contains("in no index")), dangling);
        let has_cycle = expected.iter().any(|number| reaches[*number].contains(number));
        prop_assert_eq!(warnings.iter().any(|warning| warning.contains("dependency cycle")), has_cycle);
        let problems = check(&roots(&scratch)).unwrap().problems;
        prop_assert!(problems.len() >= warnings.len(), "{:?} {:?}", problems, warnings);
    }

    #[test]
    fn the_order_of_files_does_not_matter(
        corpus in corpus(),
        order in prop::collection::vec(0_usize..12, 40),
    ) {
        let (one, other) = (Scratch::new("order-one"), Scratch::new("order-other"));
        let forward: Vec<usize> = (0..corpus.len()).collect();
        let shuffled: Vec<usize> = order.into_iter().chain(forward.iter().rev().copied()).collect();
        let texts = [(&one, &forward), (&other, &shuffled)].map(|(scratch, order)| {
            write(scratch, &corpus, order);
            index(&roots(scratch), &BytesOverFour).unwrap();
            let indexes = SnippetIndexes::read(roots(scratch)).unwrap();
            let catalog = indexes.catalog().unwrap();
            let all: Vec<String> = forward.iter().map(|number| name(*number)).collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let listing = catalog.list(&ListOptions::default(), &BytesOverFour).unwrap().text();
            let texts = ["one/docs/index.yaml", "two/docs/index.yaml"].map(|path| scratch.read(path));
            (texts, listing, get(&catalog, &all).text)
        });
        prop_assert_eq!(&texts[0], &texts[1]);
    }

    #[test]
    fn the_budget_is_exact_and_the_advice_optimal(
        corpus in corpus(),
        budget in 20_usize..260,
        is_json in any::<bool>(),
    ) {
        let scratch = Scratch::new("budgets");
        write(&scratch, &corpus, &(0..corpus.len()).collect::<Vec<_>>());
        index(&roots(&scratch), &BytesOverFour).unwrap();
        let indexes = SnippetIndexes::read(roots(&scratch)).unwrap();
        let catalog = indexes.catalog().unwrap();
        let requested: Vec<String> = (0..corpus.len().min(6)).map(name).collect();
        let counter = o200k();
        let mut options = options();
        options.format = if is_json { ContextFormat::Json } else { ContextFormat::Text };
        options.budget = Some(budget);
        let get = |names: &[&str]| catalog.get(&ids(names), &options, &counter);
        let names: Vec<&str> = requested.iter().map(String::as_str).collect();
        match get(&names) {
            Ok(GetResponse::Snippets(bundle)) => {
                prop_assert!(bundle.tokens.unwrap() <= budget);
                prop_assert_eq!(bundle.tokens, Some(counter.count(&bundle.render(options.format))));
            }
            Err(SnippetsError::OverBudget(over)) => {
                prop_assert!(over.tokens > budget);
                // By definition: all subsets of the requests.
                let fits = |kept: usize| {
                    let kept = names.iter().enumerate().filter(|(position, _)| kept & (1 << position) != 0);
                    let kept: Vec<&str> = kept.map(|(_, name)| *name).collect();
                    get(&kept).is_ok()
                };
                let sets = (1..1_usize << names.len()).filter(|kept| fits(*kept));
                let most = sets.map(usize::count_ones).max();
                match most {
                    None => prop_assert!(over.drop.is_empty()),
                    Some(most) => {
                        prop_assert!(over.is_smallest);
                        prop_assert_eq!(over.drop.len() + most as usize, names.len());
                        let kept: Vec<&str> =
                            names.iter().filter(|name| !over.drop.iter().any(|id| id == *name)).copied().collect();
                        let Ok(GetResponse::Snippets(rest)) = get(&kept) else { panic!("it does not fit") };
                        prop_assert_eq!(rest.tokens, Some(over.tokens_without));
                    }
                }
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn many_requests_over_budget_get_advice() {
    let scratch = Scratch::new("many");
    let names: Vec<String> = (0..40).map(name).collect();
    for name in &names {
        scratch.snippet(name, "global", &[], &"word ".repeat(20));
    }
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut options = options();
    options.budget = Some(600);
    let Err(SnippetsError::OverBudget(over)) = fetch(&catalog, &names, &options) else { panic!() };
    // All snippets have the same size, so any subset of the maximum size fits.
    let most = (1..40).rev().find(|kept| fetch(&catalog, &names[..*kept], &options).is_ok());
    assert_eq!(over.drop.len(), 40 - most.unwrap(), "{over}");
    assert!(!over.is_smallest && over.tokens_without <= 600, "{over}");
    assert!(over.to_string().contains("(fewer may do)"));
    assert!(names.iter().all(|name| over.to_string().contains(&format!("  {name} (requested)\n"))));
    let kept: Vec<&str> =
        names.into_iter().filter(|name| !over.drop.iter().any(|id| id == name)).collect();
    assert_eq!(fetch(&catalog, &kept, &options).unwrap().tokens, over.tokens_without);
}

#[test]
fn hundreds_of_requests_over_budget_get_advice() {
    let scratch = Scratch::new("hundreds");
    let names: Vec<String> = (0..900).map(name).collect();
    // Each second one requires the next, so 900 requests with 1,350 nodes and edges exceed the limit for groups.
    for (position, name) in names.iter().enumerate() {
        let next = names.get(position + 1).map(String::as_str).into_iter();
        let next: Vec<&str> = next.filter(|_| position.is_multiple_of(2)).collect();
        scratch.snippet(name, "global", &next, "word\n");
    }
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut options = options();
    for budget in [40, 1_000, 5_000] {
        options.budget = Some(budget);
        let Err(SnippetsError::OverBudget(over)) = fetch(&catalog, &names, &options) else {
            panic!()
        };
        let dropped = over.drop.iter().map(String::as_str).collect::<BTreeSet<&str>>();
        assert!(!dropped.is_empty() && !over.is_smallest, "{over}");
        let kept: Vec<&str> =
            names.iter().copied().filter(|name| !dropped.contains(name)).collect();
        let rest = fetch(&catalog, &kept, &options).unwrap();
        assert_eq!(rest.tokens, over.tokens_without);
        assert!(rest.bundle.added.is_empty(), "nothing comes back");
        assert!(over.tokens_without + 100 > budget.min(over.tokens) || budget == 40);
    }
    options.budget = Some(1);
    let Err(SnippetsError::OverBudget(over)) = fetch(&catalog, &names, &options) else { panic!() };
    assert!(over.drop.is_empty() && !over.is_smallest);
    assert!(over.to_string().ends_with("request fewer snippets, or raise the budget"), "{over}");
}

#[test]
fn long_ids_in_chains_do_not_hide_a_request_that_fits() {
    let scratch = Scratch::new("long-id");
    let long = "domain/procedure/customer-refund-and-chargeback-handling";
    let policies: Vec<String> =
        (0..30).map(|number| format!("global/policy/p{number:02}")).collect();
    let required: Vec<&str> = policies.iter().map(String::as_str).collect();
    for policy in &required {
        scratch.snippet(policy, "global", &[], &"word ".repeat(16));
    }
    scratch.snippet(long, "domain", &required, "Long.\n");
    scratch.snippet("domain/spec/pay", "domain", &required, "Pay.\n");
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let mut options = options();
    let alone = fetch(&catalog, &["domain/spec/pay"], &options).unwrap();
    options.budget = Some(alone.tokens);
    let Err(SnippetsError::OverBudget(over)) =
        fetch(&catalog, &[long, "domain/spec/pay"], &options)
    else {
        panic!()
    };
    assert_eq!((over.drop.as_slice(), over.is_smallest), (&[long.to_owned()][..], true));
    assert_eq!(over.tokens_without, alone.tokens);
}

#[test]
fn a_single_fitting_request_among_many_is_found() {
    // All chains start with a long id; without it, they are short.
    let scratch = Scratch::new("one-of-many");
    let long = format!("a/{}", "x".repeat(190));
    let required: Vec<String> = (0..30).map(|number| format!("p{number:02}")).collect();
    let required: Vec<&str> = required.iter().map(String::as_str).collect();
    required.iter().for_each(|id| scratch.snippet(id, "global", &[], "word word\n"));
    let others: Vec<String> = (0..80).map(name).collect();
    scratch.snippet("z", "global", &required, "Z\n");
    scratch.snippet(&long, "global", &required, "A\n");
    others.iter().for_each(|id| scratch.snippet(id, "global", &[], &"word ".repeat(2_000)));
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let mut options = options();
    options.budget = Some(fetch(&catalog, &["z"], &options).unwrap().tokens);
    let mut all: Vec<&str> = others.iter().map(String::as_str).collect();
    all.extend([&long, "z"]);
    let Err(SnippetsError::OverBudget(over)) = fetch(&catalog, &all, &options) else { panic!() };
    assert_eq!((over.drop.len(), Some(over.tokens_without)), (81, options.budget));
    assert!(!over.drop.contains(&"z".to_owned()));
}

#[test]
fn dependencies_of_kept_requests_are_not_dropped() {
    let scratch = Scratch::new("comes-back");
    let names: Vec<String> = (0..30).map(name).collect();
    // Each requires the next, so only the first ones can be dropped; the first three are large.
    for (position, name) in names.iter().enumerate() {
        let next: Vec<&str> = names.get(position + 1).map(String::as_str).into_iter().collect();
        scratch.snippet(
            name,
            "global",
            &next,
            &"word ".repeat(if position < 3 { 400 } else { 20 }),
        );
    }
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut options = options();
    options.budget = Some(fetch(&catalog, &names, &options).unwrap().tokens - 1_100);
    let Err(SnippetsError::OverBudget(over)) = fetch(&catalog, &names, &options) else { panic!() };
    assert_eq!(over.drop, names[..3]);
}

#[test]
fn a_chain_of_100_000_snippets_is_fetched() {
    let scratch = Scratch::new("chain");
    let count = 100_000;
    scratch.write("docs/a.md", "x\n");
    index(&scratch.roots(), &BytesOverFour).unwrap();
    let mut text = scratch.read("docs/index.yaml").replace("snippets: []", "snippets:");
    for number in 0..count {
        let next = number + 1;
        text.push_str(&format!(
            "  - id: \"s{number}\"\n    description: \"x\"\n    type: spec\n    scope: project\n    path: \"a.md\"\n    requires: [\"s{next}\"]\n    tokens: 1\n"
        ));
    }
    scratch.write("docs/index.yaml", text);
    let indexes = SnippetIndexes::read(scratch.roots()).unwrap();
    let catalog = indexes.catalog().unwrap();
    let fetched = get(&catalog, &["s0"]);
    assert_eq!(fetched.bundle.snippets.len(), count);
    assert_eq!(fetched.bundle.snippets[0].id, "s99999");
    let last = fetched.bundle.added.iter().find(|added| added.id == "s99999").unwrap();
    assert_eq!((last.chain.len(), last.chain_omitted), (8, 99_991));
    assert_eq!((&*last.chain[0], &*last.chain[7]), ("s0", "s99998"));
    assert!(fetched.text.contains("required by s0 -> (99991 more) -> s99992 -> "));
}

#[test]
fn hostile_files_are_rejected_or_harmless() {
    let scratch = Scratch::new("hostile");
    let long = format!("---\nid: a\ndescription: {}\n---\n", "x".repeat(100 << 10));
    scratch.write("docs/long.md", long);
    let mut bomb = "---\nid: b\na: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, before) in ('b'..='z').zip('a'..='y') {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(",")));
    }
    scratch.write("docs/bomb.md", bomb + "---\n");
    scratch.write("docs/deep.md", format!("---\nid: {}\n---\n", "[".repeat(60_000)));
    scratch.write(
        "docs/control.md",
        "---\nid: \"a\\e[31m\\0\"\ndescription: x\ntype: spec\nscope: global\n---\n",
    );
    scratch
        .write("docs/fences.md", snippet("fences", "global", &[], &"```\n<!--\n".repeat(50_000)));
    scratch.write(
        "docs/bullets.md",
        snippet(
            "bullets",
            "global",
            &[],
            &format!("## Required reads\n{}\n", "- ".repeat(100_000)),
        ),
    );
    let reads = "## Required reads\n@../secret.md\n@/etc/passwd\n@~/secret.md\n@docs/../../secret.md\n@a\0b\n@..\n@~\n@/\n@\u{1b}[31m\n";
    scratch.write(
        "docs/paths.md",
        snippet("paths", "global", &["../secret.md", "/etc/passwd"], reads),
    );
    scratch.write("secret.md", snippet("secret", "global", &[], "secret\n"));
    scratch.write("docs/big.md", vec![b'x'; (8 << 20) + 1]);
    let indexes = scratch.indexes();
    let catalog = indexes.catalog().unwrap();
    let ids: Vec<&str> = catalog.snippets().iter().map(|snippet| snippet.id()).collect();
    assert_eq!(ids, ["bullets", "fences", "paths"]);
    let fetched = get(&catalog, &["paths"]);
    assert_eq!(sent(&fetched), ["paths"]);
    assert_eq!(fetched.bundle.warnings.len(), 11, "{:?}", helper::warnings(&fetched));
    let header = fetched.text.split("[SNIPPET").next().unwrap();
    assert!(!header.contains(['\0', '\u{1b}']), "{header:?}");
    for problem in check(&scratch.roots()).unwrap().problems {
        assert!(
            !problem.to_string().contains(|character: char| character.is_control()),
            "{problem:?}"
        );
    }
}

#[cfg(unix)]
#[test]
fn an_index_cannot_escape_its_root() {
    use std::os::unix::fs::symlink;

    let scratch = Scratch::new("escape");
    scratch.write("secret.md", "secret\n");
    scratch.write("docs/in.md", "inside\n");
    symlink(scratch.path("secret.md"), scratch.path("docs/link.md")).unwrap();
    symlink(scratch.path(""), scratch.path("docs/up")).unwrap();
    let entry = |id: &str, path: &str| {
        format!("- {{id: {id}, description: x, type: spec, scope: global, path: {path:?}}}\n")
    };
    let entries = [
        entry("a", "../secret.md"),
        entry("b", &scratch.path("secret.md").display().to_string()),
        entry("c", "link.md"),
        entry("d", "up/secret.md"),
        entry("e", "in.md"),
        entry("f", "x/../../secret.md"),
        entry("g", "."),
    ];
    scratch.write("docs/index.yaml", format!("snippets:\n{}", entries.concat()));
    let indexes = SnippetIndexes::read(scratch.roots()).unwrap();
    let catalog = indexes.catalog().unwrap();
    let fetched = get(&catalog, &["c", "d", "e"]);
    assert_eq!(sent(&fetched), ["e"]);
    assert!(!fetched.text.contains("secret\n"));
    for rejected in ["a", "b", "f", "g"] {
        assert!(catalog.get(&ids(&[rejected]), &options(), &BytesOverFour).is_err(), "{rejected}");
    }
    // The index itself is a link to a target outside of the root.
    scratch.write("index.yaml", scratch.read("docs/index.yaml"));
    fs::remove_file(scratch.path("docs/index.yaml")).unwrap();
    symlink(scratch.path("index.yaml"), scratch.path("docs/index.yaml")).unwrap();
    assert!(matches!(
        SnippetIndexes::read(scratch.roots()),
        Err(SnippetsError::InvalidIndex { .. })
    ));
}
