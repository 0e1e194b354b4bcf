//! Presets: policies for common tasks.

use pannier_core::Deduplication;
use pannier_layout::DocumentLayout;

use crate::{
    DocumentOptions, KindOptions, KnapsackOptions, Packing, PlacerPolicy, Policy, ProductOptions,
    ScorerPolicy, SlicerPolicy,
};

/// Returns all presets, in order of their names.
pub(crate) fn presets() -> [Policy; 9] {
    use PlacerPolicy::{Chronological, UShaped};
    use ScorerPolicy::{Frequency, PrefixStability, Priority, Recency, Reflexive};
    let kind = || ScorerPolicy::Kind(KindOptions { weights: None });
    let exact = || KnapsackOptions::EXACT.into();
    let greedy = || SlicerPolicy::Greedy;
    let preset = |name: &str,
                  description: &str,
                  scorers: Vec<(ScorerPolicy, f64)>,
                  slicer: SlicerPolicy,
                  placer| {
        // By time, a call precedes its result; by score, anything may come between them.
        let together = placer == UShaped;
        let policy = Policy::new(scorers).with_name(name).with_description(description);
        policy.with_slicer(slicer).with_placer(placer).with_groups_together(together)
    };
    [
        preset(
            "assemble",
            "Passages of documents: the most relevant, under headings, each document as it reads.",
            vec![(Reflexive, 1.0)],
            DocumentOptions {
                packing: Packing::Greedy,
                overhead: DocumentLayout::MIN_HEADING_TOKENS,
                max_per_document: None,
            }
            .into(),
            PlacerPolicy::Document,
        )
        // The fifth of a passage that a better one lacks is not worth the tokens of the whole.
        .with_deduplication(Deduplication::Near { threshold: 800 }),
        preset(
            "chat",
            "Conversation: recent messages first, in the order they were said.",
            vec![(Recency, 3.0), (kind(), 1.0)],
            greedy(),
            Chronological,
        ),
        preset(
            "code-review",
            "Review of a change: what sort of thing it is and how important weigh alike.",
            vec![(kind(), 2.0), (Priority, 2.0), (Recency, 1.0)],
            greedy(),
            Chronological,
        ),
        preset(
            "debugging",
            "Hunting a fault: importance first, then tool outputs and memories.",
            vec![(Priority, 3.0), (kind(), 2.0), (Recency, 1.0)],
            greedy(),
            Chronological,
        ),
        preset(
            "document-qa",
            "Questions about documents: the most relevant combination that fits, best at both ends.",
            vec![(kind(), 2.0), (Reflexive, 2.0), (Priority, 1.0)],
            exact(),
            UShaped,
        ),
        preset(
            "long-running",
            "Long sessions: recent items, and those whose topics recur.",
            vec![(Recency, 3.0), (Frequency, 1.0), (kind(), 1.0)],
            greedy(),
            Chronological,
        ),
        preset(
            "rag",
            "Retrieval: the retriever's own relevance decides, best at both ends.",
            vec![(Reflexive, 3.0), (kind(), 1.0)],
            greedy(),
            UShaped,
        ),
        preset(
            "tool-use",
            "Agents with tools: recent outputs and what sort of thing they are.",
            vec![(kind(), 2.0), (Recency, 2.0), (Priority, 1.0)],
            greedy(),
            Chronological,
        ),
        preset(
            "transcript",
            "Messages to a provider: the latest, and the beginning of what was sent before.",
            // The square of recency falls faster than the bonus for the prefix, so items in the middle are dropped first,
            // and new items always score above old ones.
            vec![
                (ProductOptions { children: vec![Recency, Recency] }.into(), 2.0),
                (PrefixStability, 1.0),
            ],
            SlicerPolicy::Rank,
            Chronological,
        )
        // Two messages that say "yes" are two messages.
        .with_deduplication(false),
    ]
}
