//! Counting without a vocabulary.

use pannier_core::{Exactness, TokenCounter};

/// A quarter of the bytes, rounded up.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesOverFour;

impl TokenCounter for BytesOverFour {
    fn name(&self) -> &str {
        "bytes/4"
    }

    fn exactness(&self) -> Exactness {
        Exactness::Estimate
    }

    fn count(&self, text: &str) -> usize {
        text.len().div_ceil(4)
    }

    fn truncate<'t>(&self, text: &'t str, limit: usize) -> &'t str {
        let mut end = limit.saturating_mul(4).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        &text[..end]
    }
}

/// An estimate that looks at what a text is made of.
///
/// A vocabulary has whole words of Latin scripts, groups of digits, common runs of signs and of white space, and most
/// single characters of East Asian scripts. So a text is cut into such runs, and each run costs what a run of its
/// sort and length costs on average in `o200k`. One pass, no table but the costs below.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptEstimate;

/// What a run is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// ASCII letters of one case, with a leading capital.
    Word,
    /// Letters of other alphabets.
    Letters,
    /// Characters that are a word, or nearly.
    Ideographs,
    Digits,
    Blanks,
    LineEnds,
    Signs,
    /// Pictures and everything else.
    Rare,
}

impl Sort {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' | 'A'..='Z' => Self::Word,
            '0'..='9' => Self::Digits,
            ' ' | '\t' => Self::Blanks,
            '\n' | '\r' => Self::LineEnds,
            '!'..='~' | '\u{2000}'..='\u{206f}' => Self::Signs,
            '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' => {
                Self::Ideographs
            }
            '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{3ffff}' => Self::Ideographs,
            _ if character.is_alphabetic() => Self::Letters,
            _ if character.is_whitespace() => Self::Blanks,
            _ => Self::Rare,
        }
    }

    /// The cost of a run of so many characters, in thousandths of a token.
    fn cost(self, length: usize) -> usize {
        match self {
            // Short words are one token; long ones come in pieces.
            Self::Word => match length {
                0..=5 => 1_000,
                6..=9 => 1_150,
                _ => 300 + 130 * length,
            },
            Self::Letters => 420 + 240 * length,
            Self::Ideographs => 780 * length,
            Self::Digits => length.div_ceil(3) * 1_000,
            // A single blank belongs to the word behind it.
            Self::Blanks => {
                if length == 1 {
                    0
                } else {
                    1_000
                }
            }
            Self::LineEnds => 700,
            Self::Signs => match length {
                1 => 850,
                2..=3 => 1_050,
                _ => 600 + 250 * length.min(16) + 30 * length.saturating_sub(16),
            },
            Self::Rare => 2_000 * length,
        }
    }
}

impl ScriptEstimate {
    /// The cost of a text in thousandths of a token, as far as it is not above a limit.
    fn cost_up_to(text: &str, limit: usize) -> Option<usize> {
        let mut total = 0_usize;
        let mut run: Option<(Sort, usize)> = None;
        let mut was_lower = false;
        for character in text.chars() {
            let sort = Sort::of(character);
            // Inside an identifier, a capital begins a word.
            let begins = was_lower && character.is_ascii_uppercase();
            was_lower = character.is_ascii_lowercase();
            match &mut run {
                Some((current, length)) if *current == sort && !begins => *length += 1,
                _ => {
                    if let Some((sort, length)) = run.replace((sort, 1)) {
                        total = total.saturating_add(sort.cost(length));
                    }
                    if total > limit {
                        return None;
                    }
                }
            }
        }
        if let Some((sort, length)) = run {
            total = total.saturating_add(sort.cost(length));
        }
        (total <= limit).then_some(total)
    }
}

impl TokenCounter for ScriptEstimate {
    fn name(&self) -> &str {
        "script"
    }

    fn exactness(&self) -> Exactness {
        Exactness::Estimate
    }

    fn count(&self, text: &str) -> usize {
        Self::cost_up_to(text, usize::MAX).unwrap_or(usize::MAX).div_ceil(1_000)
    }

    fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        let cost = Self::cost_up_to(text, limit.saturating_mul(1_000))?;
        Some(cost.div_ceil(1_000))
    }
}
