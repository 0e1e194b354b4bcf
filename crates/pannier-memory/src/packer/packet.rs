//! A packet, and what is said about it.

/// The text that an agent receives, with its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packet {
    /// The text, with its final newline.
    pub text: String,
    /// The number of tokens of the text.
    pub tokens_used: usize,
    /// The budget that the entries were selected for. A character limit may make it smaller than the requested one.
    pub budget: usize,
    /// The tokens of the frame alone; if the packet is over budget, the smallest budget that fits the frame.
    pub min_tokens: usize,
    /// Whether it shows nothing: no rule, no entry and no file to read. Then it has no instruction, either.
    pub is_empty: bool,
    /// Whether the text exceeds the budget. Only the frame can cause this.
    pub is_over_budget: bool,
    /// Whether the text exceeds the character limit. Only the frame can cause this.
    pub is_over_characters: bool,
    /// The requested budget and character limit.
    pub(super) requested: (usize, Option<usize>),
}

impl Packet {
    /// Returns a message for each limit that the packet exceeds, for users rather than the model.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let (budget, max_characters) = self.requested;
        let tokens = self.is_over_budget.then(|| {
            format!(
                "the packet has {} tokens, above the budget of {budget}: the rules, the files to read and the \
                 instruction are in every packet; raise the budget to {}, or shorten the constitution",
                self.tokens_used, self.min_tokens
            )
        });
        let characters = max_characters.filter(|_| self.is_over_characters).map(|limit| {
            format!(
                "the packet has {} characters, above the limit of {limit}: the rules are in every packet; shorten the \
                 constitution",
                self.text.chars().count()
            )
        });
        tokens.into_iter().chain(characters)
    }
}
