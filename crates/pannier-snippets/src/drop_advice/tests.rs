//! Compares the advice with all subsets of the requests, rendered and counted.

use pannier_core::TokenCounter;
use pannier_tokens::{BytesOverFour, o200k};
use proptest::prelude::*;

use super::*;
use crate::get::{ContextFormat, GetOptions};
use crate::test::Scratch;
use crate::{GetResponse, Roots, SnippetId, SnippetIndexes, SnippetsError, TextHash, index};

/// A snippet: the length of its id, its dependencies, and the length of its text.
type Written = (usize, Vec<usize>, usize);

fn corpus(most: usize) -> impl Strategy<Value = Vec<Written>> {
    let length = prop_oneof![1_usize..12, 1_usize..201];
    let requires = prop::collection::vec(0..most + 1, 0..3);
    let text = prop_oneof![0_usize..40, 0_usize..400];
    prop::collection::vec((length, requires, text), 2..most)
}

/// Requests with many shared dependencies, whose ids may be longer than the texts of those.
fn shared(requests: usize, most: usize) -> impl Strategy<Value = Vec<Written>> {
    let length = || prop_oneof![1_usize..6, 1_usize..201];
    let requires = prop::collection::vec(requests..most, 0..9);
    let text = prop_oneof![0_usize..40, 0_usize..800];
    let asking = prop::collection::vec((length(), requires, text), requests);
    let common = prop::collection::vec((length(), Just(Vec::new()), 0_usize..60), most - requests);
    (asking, common).prop_map(|(asking, common)| [asking, common].concat())
}

/// Returns an id of `length` bytes. The order of ids differs from the order of numbers.
fn id(number: usize, length: usize) -> String {
    let first = char::from(b'a' + u8::try_from((number * 7 + 3) % 26).unwrap());
    let others = "xy-z.".chars().cycle().take(length.saturating_sub(2));
    let last = (length > 1).then_some('0');
    std::iter::once(first).chain(others).chain(last).collect()
}

fn write(scratch: &Scratch, corpus: &[Written]) -> Vec<String> {
    let ids: Vec<String> =
        corpus.iter().enumerate().map(|(number, (length, ..))| id(number, *length)).collect();
    for (number, (_, requires, length)) in corpus.iter().enumerate() {
        let name = |to: &usize| ids.get(*to).map_or("nowhere", |id| id);
        let requires = requires.iter().map(|to| format!("  - \"{}\"\n", name(to)));
        let requires: String = requires.collect();
        let requires =
            if requires.is_empty() { requires } else { format!("requires:\n{requires}") };
        let scope = ["global", "domain", "project"][number % 3];
        let text = format!(
            "---\nid: \"{}\"\ndescription: D.\ntype: policy\nscope: {scope}\n{requires}---\n{}\n",
            ids[number],
            "word ".repeat(length / 5)
        );
        scratch.write(&format!("docs/{number}.md"), &text);
    }
    ids
}

fn check(
    corpus: &[Written],
    requested: usize,
    share: usize,
    options: &mut GetOptions,
    delivered: &[usize],
    counter: &dyn TokenCounter,
    name: &str,
) -> Result<(), TestCaseError> {
    let scratch = Scratch::new(name);
    let ids = write(&scratch, corpus);
    let roots = || Roots::open([scratch.path().join("docs")], None).unwrap();
    index(&roots(), counter).unwrap();
    let indexes = SnippetIndexes::read(roots()).unwrap();
    let catalog = indexes.catalog().unwrap();
    for number in delivered.iter().filter(|number| **number < corpus.len()) {
        // Every other text has changed.
        let text = "word ".repeat(corpus[*number].2 / 5)
            + if number.is_multiple_of(2) { "\n" } else { "" };
        options.delivered.insert(ids[*number].clone(), TextHash::of(&text));
    }
    let ids: Vec<SnippetId> =
        ids.iter().take(requested).map(|id| SnippetId::new(id).unwrap()).collect();
    let count = ids.len();
    let get = |options: &GetOptions, kept: usize| {
        let kept = ids.iter().enumerate().filter(|(place, _)| kept & (1 << place) != 0);
        let kept: Vec<SnippetId> = kept.map(|(_, id)| id.clone()).collect();
        catalog.get(&kept, options, counter)
    };
    let all = (1_usize << count) - 1;
    let measure = |options: &GetOptions, kept: usize| match get(options, kept) {
        Ok(GetResponse::Snippets(context)) => {
            let printed = counter.count(&context.render(options.format));
            // Delivered dependencies remain in the response, but have no chain.
            let added = context.added.iter().map(|added| &added.id);
            let others = added.chain(&context.delivered).map(ToString::to_string);
            (printed, others.collect::<Vec<String>>())
        }
        other => panic!("{other:?}"),
    };
    let total = measure(options, all).0;
    let budget = total * share / 100;
    let comes_back = |kept: usize, added: &[String]| {
        ids.iter().enumerate().any(|(place, id)| {
            kept & (1 << place) == 0 && added.iter().any(|added| added == id.as_str())
        })
    };
    // The maximum number of requests that fit without another one among their dependencies.
    let mut most = None;
    for kept in 1..all {
        let (tokens, added) = measure(options, kept);
        if tokens <= budget && !comes_back(kept, &added) {
            most = most.max(Some(kept.count_ones() as usize));
        }
    }
    let numbers: Vec<u32> = ids.iter().map(|id| catalog.find(id.as_str()).unwrap()).collect();
    for max_exact in [MAX_EXACT_REQUESTS, 0] {
        let mut bodies = BodyStore::new(&catalog, options, counter);
        let bundle = catalog.bundle(&numbers, &mut bodies);
        let sizes = (total, budget);
        let over = over_budget(&catalog, &numbers, &mut bodies, &bundle, sizes, max_exact);
        if over.drop.is_empty() {
            prop_assert_eq!(most, None, "with {}", max_exact);
            prop_assert_eq!(over.is_smallest, max_exact > 0);
            continue;
        }
        // The token count is exact, and no dropped request remains as a dependency.
        let is_kept = |request: &usize| !over.drop.contains(&ids[*request].as_str().to_owned());
        let kept: usize = (0..count).filter(is_kept).map(|request| 1 << request).sum();
        let (tokens, added) = measure(options, kept);
        prop_assert_eq!(tokens, over.tokens_without);
        prop_assert!(tokens <= budget);
        prop_assert!(!comes_back(kept, &added));
        let fewest = count - most.unwrap();
        if max_exact > 0 {
            prop_assert!(over.is_smallest);
            prop_assert_eq!(over.drop.len(), fewest);
        } else {
            // Nothing that is dropped could be kept, too.
            for more in (0..count).filter(|request| !is_kept(request)) {
                let (tokens, added) = measure(options, kept | 1 << more);
                prop_assert!(tokens > budget || comes_back(kept | 1 << more, &added));
            }
            prop_assert!(!over.is_smallest || over.drop.len() == fewest);
        }
    }
    // The same through the public API.
    options.budget = Some(budget);
    let answer = get(options, all);
    match answer {
        Err(SnippetsError::OverBudget(over)) => {
            let texts: usize = over.snippets.iter().map(|snippet| snippet.tokens).sum();
            prop_assert_eq!(over.tokens_around() + texts as i128, total as i128);
            prop_assert_eq!(over.drop.is_empty(), most.is_none());
        }
        other => prop_assert!(false, "{:?}", other),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_advice_is_optimal(
        corpus in corpus(14),
        requested in 2_usize..9,
        share in 5_usize..100,
        is_json in any::<bool>(),
        delivered in prop::collection::vec(0_usize..14, 0..4),
        is_exact in any::<bool>(),
    ) {
        let format = if is_json { ContextFormat::Json } else { ContextFormat::Text };
        let mut options = GetOptions { format, ..GetOptions::default() };
        let counter: &dyn TokenCounter = if is_exact { &o200k() } else { &BytesOverFour };
        check(&corpus, requested, share, &mut options, &delivered, counter, "advice")?;
    }

    #[test]
    fn the_advice_is_optimal_with_shared_dependencies(
        (requested, corpus) in (3_usize..8).prop_flat_map(|count| (Just(count), shared(count, 20))),
        share in 30_usize..100,
        is_exact in any::<bool>(),
    ) {
        let counter: &dyn TokenCounter = if is_exact { &o200k() } else { &BytesOverFour };
        let mut options = GetOptions::default();
        check(&corpus, requested, share, &mut options, &[], counter, "shared")?;
    }
}
