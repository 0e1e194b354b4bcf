//! Passages of documents: which are taken, where they stand, and that their text keeps the budget.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use pannier_core::{item::*, layout::*, place::*, report::*, slice::*, *};
use pannier_layout::DocumentLayout;
use proptest::prelude::*;
use support::*;

fn passage(content: &str, tokens: i64, score: f64, document: &str, sequence: u64) -> ContextItem {
    let start = sequence * 1_000;
    let range = start..start + content.len() as u64;
    scored(content, tokens, score).passage(&Passage { document, sequence, range }).build().unwrap()
}

fn assembling(packing: Packing) -> PipelineBuilder {
    let builder = pipeline().slicer(packing.slicer()).layout(packing.layout(10));
    match packing {
        Packing::Greedy => builder.placer(DocumentPlacer),
        _ => builder.placer(SliceOrderPlacer),
    }
}

fn counted(packing: Packing) -> DocumentLayout {
    DocumentLayout::new(Arc::new(BytesOverFour)).with_headings(packing.headings())
}

#[test]
fn a5_the_packing_vector_holds_as_one_document_and_as_four() {
    let names = ["one.md", "two.md", "three.md", "four.md"];
    for documents in [["one.md"; 4], names] {
        let sizes = [("A", 50, 0.9), ("B", 100, 0.85), ("C", 30, 0.8), ("D", 80, 0.75)];
        let items: Vec<_> = sizes
            .into_iter()
            .zip(documents)
            .zip(0..)
            .map(|(((content, tokens, score), document), at)| {
                passage(content, tokens, score, document, at)
            })
            .collect();
        for packing in Packing::ALL {
            let selection = assembling(packing).build().run(&items, &budget(150)).unwrap();
            assert_eq!(placed(&selection), ["A", "C"], "{documents:?} {packing:?}");
            assert_eq!(selection.tokens(), 80);
        }
    }
}

#[test]
fn a1_the_grouping_vector_is_selected_by_rank_and_laid_out_by_document() {
    let items = [
        passage("Chunk 1", 2, 0.9, "a.md", 1),
        passage("Chunk one", 3, 0.88, "b.md", 1),
        passage("Chunk 2", 2, 0.85, "a.md", 2),
        passage("Chunk two", 3, 0.82, "b.md", 2),
    ];
    let text = |packing| {
        let rendering = counted(packing);
        let pipeline = assembling(packing).build().with_layout(rendering.clone());
        rendering.render(pipeline.run(&items, &budget(150)).unwrap().items())
    };
    assert_eq!(
        text(Packing::Greedy),
        "[DOC: a.md]\nChunk 1\nChunk 2\n\n[DOC: b.md]\nChunk one\nChunk two\n"
    );
    let in_turns = "[DOC: a.md]\nChunk 1\n\n[DOC: b.md]\nChunk one\n\n[DOC: a.md]\nChunk 2\n\n\
                    [DOC: b.md]\nChunk two\n";
    assert_eq!(text(Packing::Interleaved), in_turns);
    assert_eq!(text(Packing::ScoreWeighted), in_turns);
}

#[test]
fn documents_take_turns_in_the_order_of_their_best() {
    let items = [
        passage("a1", 10, 0.9, "a.md", 1),
        passage("a2", 10, 0.8, "a.md", 2),
        item("alone", 10, 0.75),
        passage("b1", 10, 0.7, "b.md", 1),
        passage("a3", 10, 0.6, "a.md", 3),
        passage("b2", 10, 0.5, "b.md", 2),
    ];
    let order = |packing, tokens| {
        let pipeline = assembling(packing).build();
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        placed(&selection).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(order(Packing::Interleaved, 500), ["a1", "alone", "b1", "a2", "b2", "a3"]);
    assert_eq!(order(Packing::ScoreWeighted, 500), ["a1", "a2", "alone", "b1", "a3", "b2"]);
    assert_eq!(order(Packing::Greedy, 500), ["a1", "a2", "a3", "alone", "b1", "b2"]);
    // 20 for a1, 10 for what stands alone, 20 for b1, and a2 needs a heading again, unless headings come once.
    assert_eq!(order(Packing::Interleaved, 69), ["a1", "alone", "b1", "b2"]);
    assert_eq!(order(Packing::Greedy, 70), ["a1", "a2", "a3", "alone", "b1"]);
}

#[test]
fn a_document_may_have_only_so_many() {
    let items = [
        passage("a1", 10, 0.9, "a.md", 1),
        passage("a2", 10, 0.8, "a.md", 2),
        item("alone", 10, 0.7),
        item("also alone", 10, 0.6),
    ];
    let slicer = FillSlice::default().with_max_per_section(1);
    let selection = pipeline().slicer(slicer).layout(Packing::Greedy.layout(10)).build();
    let selection = selection.run(&items, &budget(100)).unwrap();
    assert_eq!(placed(&selection), ["a1", "alone", "also alone"]);
    let report = selection.report();
    let expected =
        ExclusionReason::DocumentCapExceeded { document: "a.md".to_owned(), cap: 1, count: 1 };
    assert_eq!(report.excluded[0].reason, expected);
    assert_eq!(
        expected.to_string(),
        "DocumentCapExceeded: 1 of document a.md selected, its cap is 1"
    );
}

#[test]
fn a_heading_costs_what_it_is_known_to_cost() {
    let long = "a/very/long/path/that/costs/more/than/ten/tokens/to/write/down.md";
    let items = [passage("text", 1, 0.9, long, 0)];
    let rendering = counted(Packing::Greedy);
    let heading = rendering.heading_tokens(&items[0]);
    assert_eq!(heading, BytesOverFour.count(&format!("\n[DOC: {long}]\n")) as i64);
    let pipeline = assembling(Packing::Greedy).layout(rendering);
    // By the plan alone: where it over-estimates, closing would fill.
    let pipeline = pipeline.closing(Closing::DropOnly).build();
    assert_eq!(pipeline.run(&items, &budget(heading + 1)).unwrap().len(), 1);
    let selection = pipeline.run(&items, &budget(heading)).unwrap();
    let reason = &selection.report().excluded[0].reason;
    assert_eq!(reason.to_string(), "BudgetExceeded: 1 tokens requested, 0 available");
}

/// The definition, with nothing remembered but what was taken.
fn oracle(
    candidates: &[Candidate<'_>],
    packing: Packing,
    heading_of: impl Fn(&str) -> i64,
    cap: Option<usize>,
    target: i64,
) -> (Vec<Verdict>, Vec<u32>) {
    let document =
        |position: usize| Passage::from_item(candidates[position].item).map(|p| p.document);
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    if packing == Packing::Interleaved {
        let mut queues: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
        for position in 0..candidates.len() {
            let name = document(position);
            match queues.iter_mut().find(|(other, _)| name.is_some() && *other == name) {
                Some((_, queue)) => queue.push(position),
                None => queues.push((name, vec![position])),
            }
        }
        order.clear();
        for round in 0..candidates.len() {
            order.extend(queues.iter().filter_map(|(_, queue)| queue.get(round)));
        }
    }
    let mut verdicts = vec![Verdict::Left { available_tokens: 0 }; candidates.len()];
    let mut taken: Vec<u32> = Vec::new();
    let mut used = 0;
    if target <= 0 {
        return (verdicts, taken);
    }
    for position in order {
        let name = document(position);
        let of_document =
            taken.iter().filter(|other| name.is_some() && document(**other as usize) == name);
        let count = of_document.count();
        if let (Some(name), Some(cap)) = (name, cap)
            && count >= cap
        {
            let document = name.to_owned();
            let reason = ExclusionReason::DocumentCapExceeded { document, cap, count };
            verdicts[position] = Verdict::Excluded(Arc::new(reason));
            continue;
        }
        let opens = name.is_some()
            && match packing {
                Packing::Greedy => count == 0,
                _ => taken.last().is_none_or(|last| document(*last as usize) != name),
            };
        let candidate = &candidates[position];
        let heading = if opens { name.map_or(0, &heading_of) } else { 0 };
        if used + heading + candidate.tokens <= target {
            used += heading + candidate.tokens;
            taken.push(position as u32);
            verdicts[position] = Verdict::WHOLE;
        } else {
            let available_tokens = (target - used - heading).max(0);
            verdicts[position] = Verdict::Left { available_tokens };
        }
    }
    (verdicts, taken)
}

fn packings() -> impl Strategy<Value = Packing> {
    prop::sample::select(Packing::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn documents_are_sliced_as_defined(
        candidates in prop::collection::vec((0..40_i64, prop::option::weighted(0.8, 0..5_u8)), 0..25),
        headings in prop::collection::vec(0..30_i64, 5),
        packing in packings(),
        overhead in 0..25_i64,
        cap in prop::option::of(0..4_usize),
        target in -2..400_i64,
    ) {
        let items: Vec<ContextItem> = candidates
            .iter()
            .map(|(tokens, document)| match document {
                Some(document) => passage("text", *tokens, 0.5, &format!("{document}.md"), 0),
                None => item("text", *tokens, 0.5),
            })
            .collect();
        let heading_of = |document: &str| {
            let number: usize = document.trim_end_matches(".md").parse().unwrap();
            headings[number].max(overhead)
        };
        let candidates: Vec<Candidate<'_>> = items
            .iter()
            .zip(&candidates)
            .map(|(item, (tokens, document))| Candidate {
                item,
                tokens: *tokens,
                score: 0.5,
                value: 0.5,
                section: document.map_or(SectionId::NONE, |document| SectionId::new(document.into())),
            })
            .collect();
        let tokens: Vec<i64> = headings.iter().map(|heading| (*heading).max(overhead)).collect();
        let offers = Offers::new(candidates.iter().copied()).with_headings(tokens, packing.headings());
        let mut slicer = packing.slicer();
        if let Some(cap) = cap {
            slicer = slicer.with_max_per_section(cap);
        }
        let sliced = |target: i64| {
            let budget = SliceBudget { max_tokens: target.max(0), ..SliceBudget::new(target) };
            let mut tally = Tally::new(&offers, budget);
            slicer.slice(&mut tally).unwrap();
            tally
        };
        let tally = sliced(target);
        let (verdicts, taken) = oracle(&candidates, packing, heading_of, cap, target);
        prop_assert_eq!(tally.verdicts(), verdicts);
        prop_assert_eq!(support::taken(&tally), taken.iter().map(|position| *position as usize).collect::<Vec<_>>());

        // Nothing changes below the certificate.
        for larger in target..(target + 40).min(tally.holds_below()) {
            prop_assert!(target <= 0 || sliced(larger).moves() == tally.moves(), "{} {}", target, larger);
        }
    }

    #[test]
    fn the_text_of_documents_is_never_over_the_budget(
        texts in prop::collection::vec("[a-d\n ]{0,60}[a-d]\n?", 1..4),
        cuts in prop::collection::vec((0..4_usize, 0..60_usize, 1..40_usize, 0..=20_u8, 0..20_u8), 0..14),
        others in prop::collection::vec(("[a-z]{1,20}\n?", 0..=20_u8), 0..3),
        packing in packings(),
        near in any::<bool>(),
        tokens in 0..120_i64,
    ) {
        let cut = |(text, start, length, score, pin): &(usize, usize, usize, u8, u8)| {
            let text_index = text % texts.len();
            let text = &texts[text_index];
            let start = start % text.len();
            let end = (start + length).min(text.len());
            let content = &text[start..end];
            let range = start as u64..end as u64;
            // Sometimes cut short, sometimes without its line break.
            let content = match score % 5 {
                0 => content.strip_suffix('\n').unwrap_or(content),
                1 => &content[..content.len().div_ceil(2)],
                _ => content,
            };
            let content = if content.is_empty() { "\n" } else { content };
            let document = format!("docs/{text_index}.md");
            scored(content, content.len().div_ceil(4) as i64, f64::from(*score) / 20.0)
                .passage(&Passage { document: &document, sequence: start as u64, range })
                .pinned(*pin == 0)
                .build()
                .unwrap()
        };
        let mut items: Vec<ContextItem> = cuts.iter().map(cut).collect();
        items.extend(others.iter().map(|(content, score)| {
            item(content, content.len().div_ceil(4) as i64, f64::from(*score) / 20.0)
        }));
        let rendering = counted(packing);
        let deduplication =
            if near { Deduplication::NearDuplicates { threshold: 0.8 } } else { Deduplication::Exact };
        let pipeline = assembling(packing).deduplication(deduplication).build();
        let pipeline = pipeline.with_layout(rendering.clone());
        let Ok(selection) = pipeline.run(&items, &budget(tokens)) else {
            // Pinned items alone may be too much.
            prop_assert!(items.iter().any(ContextItem::is_pinned));
            return Ok(());
        };
        let text = rendering.render(selection.items());
        let count = BytesOverFour.count(&text) as i64;
        prop_assert!(count <= tokens, "{count} of {tokens}: {text:?}");
        prop_assert_eq!(selection.ledger().sent(), count);
        // A heading for each document, or for each change of document.
        let documents: Vec<_> = selection.items().map(Passage::from_item).collect();
        let names = documents.iter().map(|passage| passage.as_ref().map(|passage| passage.document));
        let names: Vec<_> = names.collect();
        let mut changes = 0;
        let mut last = None;
        for name in &names {
            changes += usize::from(name.is_some() && *name != last);
            last = *name;
        }
        prop_assert_eq!(text.matches("[DOC: ").count(), changes);
        if packing == Packing::Greedy {
            let distinct: BTreeMap<_, ()> = names.iter().flatten().map(|name| (*name, ())).collect();
            prop_assert_eq!(changes, distinct.len());
        }
    }
}

#[test]
fn what_is_dropped_for_the_text_leaves_the_order_as_it_was_taken() {
    // Counts that are too low, so that the text is over and the worst must go.
    let items = [
        passage("aaaa aaaa", 1, 0.9, "a.md", 1),
        passage("bbbb bbbb", 1, 0.8, "b.md", 1),
        passage("cccc cccc", 1, 0.7, "a.md", 2),
        passage("dddd dddd", 1, 0.2, "c.md", 1),
    ];
    let packing = Packing::Interleaved;
    let rendering = counted(packing).with_min_heading_tokens(0);
    let pipeline = pipeline().slicer(packing.slicer()).layout(packing.layout(0));
    let pipeline = pipeline.placer(SliceOrderPlacer).build();
    let plain = pipeline.run(&items, &budget(100)).unwrap();
    assert_eq!(placed(&plain), ["aaaa aaaa", "bbbb bbbb", "dddd dddd", "cccc cccc"]);
    let pipeline = pipeline.with_layout(rendering);
    for tokens in 0..40 {
        let selection = pipeline.run(&items, &budget(tokens)).unwrap();
        let order: Vec<usize> = selection.indices().collect();
        let in_turns = [0, 1, 3, 2].into_iter().filter(|index| order.contains(index));
        assert_eq!(order, in_turns.collect::<Vec<_>>());
        let swept = pipeline.budget_sweep(&items, &budget(100), tokens..=tokens).unwrap();
        let expected: Vec<bool> = (0..4).map(|index| order.contains(&index)).collect();
        assert_eq!(swept.iter().map(|ranges| !ranges.is_empty()).collect::<Vec<_>>(), expected);
    }
}
