//! Passages that are cut to their best sentences, and what contexts cite.

use std::sync::Arc;

use pannier_core::TokenCounter;
use pannier_docs::{AssembledContext, Assembler, AssemblyConfig, QueryVector, TokenBudget};
use pannier_policy::{PolicyRegistry, Replay};
use pannier_tokens::BytesOverFour;
use proptest::prelude::*;
use support::Folder;

mod support;

fn assemble(folder: &Folder, query: &str, budget: usize) -> AssembledContext {
    let index = folder.open();
    let assembler = Assembler::new(&index, AssemblyConfig::default());
    assembler.assemble(query, &TokenBudget::available(budget), QueryVector::None).unwrap()
}

#[test]
fn the_best_sentences_stay_where_the_passage_does_not_fit() {
    let folder = Folder::new();
    let filler = "A sentence about nothing in particular goes here. ".repeat(6);
    let text = format!(
        "{filler}The zeppelin lands at noon. {filler}Its captain is Ada. The zeppelin is blue."
    );
    folder.write("a.md", &text);
    folder.build();
    let context = assemble(&folder, "when does the zeppelin land?", 30);
    assert_eq!(
        context.text,
        "[DOC: a.md]\n[…] The zeppelin lands at noon. […] The zeppelin is blue.\n"
    );
    let quoted: Vec<&str> = context.chunks[0].spans().into_iter().map(|span| &text[span]).collect();
    assert_eq!(quoted, ["The zeppelin lands at noon.", "The zeppelin is blue."]);
    assert_eq!(assemble(&folder, "zeppelin", 400).text, format!("[DOC: a.md]\n{text}\n"));
}

#[test]
fn one_of_the_two_best_passages_is_cut_before_others_are_taken() {
    let folder = Folder::new();
    let filler = "More words of another kind follow in this place. ".repeat(9);
    folder.write("a.md", format!("The zeppelin landed by the old lighthouse. {filler}"));
    folder.write("b.md", "A zeppelin.");
    folder.write("c.md", "Some lighthouse.");
    folder.build();
    let paths = |budget| -> Vec<String> {
        let context = assemble(&folder, "zeppelin lighthouse landed", budget);
        context.chunks.into_iter().map(|chunk| chunk.document_path).collect()
    };
    // The two short passages would fit whole.
    for budget in [45, 60, 100] {
        assert_eq!(paths(budget)[0], "a.md");
    }
}

#[test]
fn a_receipt_of_cut_passages_replays() {
    let folder = Folder::new();
    folder.write("a.md", "# A\n\nThe zeppelin lands. Nothing else happens there.\n\n# B\n\nOther words.\n\n# C\n\nThe zeppelin starts. Nobody sees it.\n");
    folder.build();
    let index = folder.open();
    let assembler = Assembler::new(&index, AssemblyConfig::default());
    let candidates = assembler.candidates("zeppelin", QueryVector::None).unwrap();
    for budget in [24, 30, 40, 60] {
        let budget = TokenBudget::available(budget);
        let receipt = candidates.receipt(&budget).unwrap();
        let pool = candidates.pool_from_receipt(&receipt).unwrap();
        let counter: Arc<dyn TokenCounter> = Arc::new(BytesOverFour);
        let replay = receipt.replay(&pool, &PolicyRegistry::default(), &counter).unwrap();
        assert_eq!(replay, Replay::Identical);
    }
    let text = candidates.assemble(&TokenBudget::available(60)).unwrap().text;
    assert!(text.contains("there.\n\n[…]\n# C"), "{text}");
}

/// Returns whether a text ends inside a fenced code block, by the rules of Markdown.
fn ends_in_fence(text: &str) -> bool {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let line = line.trim_start_matches(['>', ' ']);
        let mark = line.chars().next().unwrap_or_default();
        let length = line.chars().take_while(|letter| *letter == mark).count();
        let is_bare = line[length * mark.len_utf8()..].trim().is_empty();
        match open {
            None if matches!(mark, '`' | '~') && length >= 3 => open = Some((mark, length)),
            Some((other, least)) if mark == other && length >= least && is_bare => open = None,
            _ => {}
        }
    }
    open.is_some()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Every span is in the text, no fence is left open, and no budget is exceeded.
    #[test]
    fn contexts_quote_documents(
        documents in prop::collection::vec(
            prop::collection::vec(
                prop_oneof![
                    "[k-p]q [k-p]q is here\\. ", Just("# Title\n\n".to_owned()), Just("\n\n".to_owned()),
                    Just(format!("\n```rust\n{}```\n", "let kq = lq;\n".repeat(12))), Just("- kq\n- lq\n".to_owned()),
                    Just(format!("\n```sh\n{}```\n", "echo mq and more of it\n".repeat(120))), Just("Straße kq? ".to_owned()),
                    Just("Nothing of note. ".repeat(30)),
                    Just(format!("\n````md\n```sh\necho kq\n```\n{}````\n", "Then lq is it. ".repeat(9))),
                    Just(format!("\n~~~\n```\n{}~~~\n", "let kq = mq;\n".repeat(150))),
                    Just(format!("\n> ```sh\n{}> ```\n", "> echo lq\n".repeat(20))),
                ],
                1..12,
            ),
            1..5,
        ),
        query in prop::collection::vec("[k-p]q", 1..4),
        budget in 0..700_usize,
        extension in prop::sample::select(vec!["md", "mdx"]),
    ) {
        let folder = Folder::new();
        let texts: Vec<String> = documents.iter().map(|parts| parts.concat()).collect();
        for (i, text) in texts.iter().enumerate() {
            folder.write(&format!("{i}.{extension}"), text);
        }
        folder.build();
        let context = assemble(&folder, &query.join(" "), budget);
        prop_assert!(BytesOverFour.count(&context.text) <= budget, "{}", context.text);
        for chunk in &context.chunks {
            let number: usize = chunk.document_path.split('.').next().unwrap().parse().unwrap();
            for span in chunk.spans() {
                let quoted = texts[number].get(span).unwrap().trim();
                prop_assert!(context.text.contains(quoted), "{quoted}\n--\n{}", context.text);
            }
        }
        prop_assert!(!ends_in_fence(&context.text), "{}", context.text);
    }
}
