//! A support chat that has outgrown its window: 120 tokens for eleven candidates.
//!
//! `cargo run -p pannier-core --example support_chat`

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use pannier_core::{
    CompositeScorer, ContextBudget, ContextItem, ContextKind, Error, KindScorer, Pipeline,
    RecencyScorer, TagScorer,
};

fn main() -> Result<(), Error> {
    let items = candidates()?;
    let budget = ContextBudget::builder(160, 120).output_reserve(40).build()?;

    let scorer = CompositeScorer::builder()
        .add(RecencyScorer, 3.0)
        .add(TagScorer::new([("refund", 3.0), ("order-1187", 2.0)])?, 6.0)
        .add(KindScorer::default(), 1.0)
        .build()?;
    let pipeline = Pipeline::builder(scorer).build();

    let selection = pipeline.run(&items, &budget)?;
    let report = selection.report();

    let (used, target) = (selection.tokens(), budget.target_tokens());
    println!("In, in the order to send ({used} of {target} tokens):");
    for entry in &report.included {
        let (item, score, reason) = (entry.item, entry.score, entry.reason);
        println!("  {score:.2}  {:>3}  {reason:<6}  {}", item.tokens(), item.content());
    }
    println!("\nOut, best first:");
    for entry in &report.excluded {
        let (item, score) = (entry.item, entry.score);
        println!("  {score:.2}  {:>3}  {}", item.tokens(), item.content());
        println!("             {}", entry.reason);
    }
    Ok(())
}

fn candidates() -> Result<Vec<ContextItem>, Error> {
    let message = |minute: u8, tokens, content: &str| {
        let at = format!("2026-03-01T12:{minute:02}:00Z").parse()?;
        ContextItem::builder(content, tokens).timestamp(at).build()
    };
    let document = |tokens, tags: &[&str], content: &str| {
        let item = ContextItem::builder(content, tokens).kind(ContextKind::DOCUMENT);
        item.tags(tags.iter().copied()).build()
    };
    Ok(vec![
        ContextItem::builder("You are the support assistant of a bicycle shop.", 12)
            .kind(ContextKind::SYSTEM_PROMPT)
            .timestamp("2026-03-01T12:00:00Z".parse()?)
            .pinned(true)
            .build()?,
        message(1, 9, "Hi! I have a question about an order.")?,
        message(2, 11, "Of course. Which order is it about?")?,
        message(3, 14, "1187, the blue panniers. One clip is broken.")?,
        ContextItem::builder("order-1187: 2 panniers, blue, 89.00 EUR, shipped 2026-02-11", 24)
            .kind(ContextKind::TOOL_OUTPUT)
            .timestamp("2026-03-01T12:04:00Z".parse()?)
            .tags(["order-1187"])
            .build()?,
        message(5, 16, "I am sorry to hear that. Would you like a refund or a new one?")?,
        message(6, 10, "A refund, please. How long does it take?")?,
        document(
            38,
            &["refund"],
            "Refunds: within 30 days of delivery; the money is back in 5 days.",
        )?,
        document(
            38,
            &["refund"],
            "Refunds: within 30 days of delivery; the money is back in 5 days.",
        )?,
        document(
            96,
            &["catalogue"],
            "Catalogue: panniers, racks, lights, locks, pumps and tools ...",
        )?,
        ContextItem::builder("The customer prefers short answers.", 8)
            .kind(ContextKind::MEMORY)
            .build()?,
    ])
}
