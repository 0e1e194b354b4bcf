//! Policies for common work, to begin with.

use super::{Packing, PlacerPolicy, Policy, ScorerPolicy, SlicerPolicy};
use pannier_core::Deduplication;
use pannier_layout::DocumentLayout;

/// All presets, in order of their names.
pub(super) fn presets() -> [Policy; 9] {
    use PlacerPolicy::{Chronological, UShaped};
    use ScorerPolicy::{Frequency, Priority, Recency, Reflexive, Stability};
    let kind = || ScorerPolicy::Kind { weights: None };
    let exact = || SlicerPolicy::Knapsack { bucket_size: 1 };
    let greedy = || SlicerPolicy::Greedy;
    let preset = |name: &str, description: &str, scorers: Vec<_>, slicer, placer| Policy {
        name: Some(name.to_owned()),
        description: Some(description.to_owned()),
        slicer,
        placer,
        // By time, a call comes before its result; by score, anything may come between.
        keep_groups_together: placer == UShaped,
        ..Policy::new(scorers)
    };
    [
        Policy {
            // Four fifths of a passage in a better one: the rest is not worth its tokens.
            deduplication: Deduplication::Near { threshold: 800 },
            ..preset(
                "assemble",
                "Passages of documents: the most relevant, under headings, each document as it reads.",
                vec![(Reflexive, 1.0)],
                SlicerPolicy::Document {
                    packing: Packing::Greedy,
                    overhead: DocumentLayout::MIN_HEADING_TOKENS,
                    max_per_document: None,
                },
                PlacerPolicy::Document,
            )
        },
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
        Policy {
            // Two messages that say "yes" are two messages.
            deduplication: Deduplication::Off,
            ..preset(
                "transcript",
                "Messages to a provider: the latest, and the beginning of what was sent before.",
                // The square falls where the bonus still stands, so that what goes is in the middle; and what is new
                // always counts for more than what is old.
                vec![
                    (ScorerPolicy::Product { children: vec![Recency, Recency] }, 2.0),
                    (Stability, 1.0),
                ],
                SlicerPolicy::Rank,
                Chronological,
            )
        },
    ]
}
