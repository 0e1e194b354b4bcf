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
    /// Latin letters; in identifiers, up to the next capital.
    Latin,
    /// Letters of another alphabet, with what each of them costs.
    Letters(usize),
    /// Characters that are a word, or nearly.
    Ideographs,
    Digits,
    Blanks,
    LineEnds,
    Signs,
    /// Lines and blocks, as tables are drawn with.
    Drawing,
    /// Pictures and everything else.
    Rare,
}

impl Sort {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Self::Latin,
            '0'..='9' => Self::Digits,
            ' ' | '\t' => Self::Blanks,
            '\n' | '\r' => Self::LineEnds,
            '!'..='~' | '\u{2000}'..='\u{206f}' => Self::Signs,
            '\u{2500}'..='\u{259f}' => Self::Drawing,
            '\u{2e80}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff00}'..='\u{ffef}'
            | '\u{20000}'..='\u{3ffff}' => Self::Ideographs,
            '\u{ac00}'..='\u{d7af}' => Self::Letters(740),
            '\u{400}'..='\u{52f}' => Self::Letters(240),
            '\u{600}'..='\u{77f}' => Self::Letters(300),
            '\u{900}'..='\u{dff}' => Self::Letters(262),
            '\u{e00}'..='\u{eff}' => Self::Letters(425),
            _ if character.is_alphabetic() => Self::Letters(355),
            _ if character.is_whitespace() => Self::Blanks,
            _ => Self::Rare,
        }
    }
}

/// A stretch of characters of one sort.
#[derive(Clone, Copy)]
struct Run {
    sort: Sort,
    length: usize,
    /// What its accented letters add.
    accents: usize,
}

impl Run {
    fn new(sort: Sort, character: char) -> Self {
        Self { sort, length: 1, accents: accent(character) }
    }

    /// What it costs, in thousandths of a token.
    fn cost(self) -> usize {
        let length = self.length;
        match self.sort {
            // Short words are one token; long ones come in pieces.
            Sort::Latin => {
                let word = match length {
                    0..=5 => 1_000,
                    6..=9 => 1_170,
                    _ => 250 + 135 * length,
                };
                word + self.accents
            }
            Sort::Letters(each) => 420 + each * length,
            Sort::Ideographs => 800 * length,
            Sort::Digits => length.div_ceil(3) * 1_000,
            // A single blank belongs to the word behind it.
            Sort::Blanks => usize::from(length > 1) * 900,
            Sort::LineEnds => 700,
            Sort::Signs => match length {
                1 => 820,
                2..=3 => 1_000,
                _ => 600 + 230 * length.min(16) + 30 * length.saturating_sub(16),
            },
            Sort::Drawing => 900 + 120 * length,
            Sort::Rare => 2_000 * length,
        }
    }
}

/// What an accented Latin letter adds to its word: the rarer its language among what vocabularies are made
/// from, the more.
fn accent(character: char) -> usize {
    match character {
        '\u{c0}'..='\u{ff}' => 300,
        // Vietnamese.
        '\u{1e00}'..='\u{1eff}'
        | '\u{102}'
        | '\u{103}'
        | '\u{110}'
        | '\u{111}'
        | '\u{1a0}'..='\u{1b0}' => 180,
        '\u{100}'..='\u{24f}' => 1_500,
        _ => 0,
    }
}

impl ScriptEstimate {
    /// The cost of a text in thousandths of a token, if it is not above a limit.
    fn cost_up_to(text: &str, limit: usize) -> Option<usize> {
        let mut total = 0_usize;
        let mut run: Option<Run> = None;
        let mut was_lower = false;
        for character in text.chars() {
            let sort = Sort::of(character);
            // Inside an identifier, a capital begins a word.
            let begins = was_lower && character.is_ascii_uppercase();
            was_lower = character.is_ascii_lowercase();
            match &mut run {
                Some(run) if run.sort == sort && !begins => {
                    run.length += 1;
                    run.accents += accent(character);
                }
                _ => {
                    let ended = run.replace(Run::new(sort, character));
                    total = total.saturating_add(ended.map_or(0, Run::cost));
                    if total > limit {
                        return None;
                    }
                }
            }
        }
        total = total.saturating_add(run.map_or(0, Run::cost));
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
