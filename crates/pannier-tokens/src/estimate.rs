//! Estimates that need no vocabulary. Both are linear in the text and allocate nothing.

use pannier_core::TokenCounter;
use pannier_core::item::Exactness;

/// The length in UTF-8 bytes divided by four, rounded up.
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

    fn max_count(&self, bytes: usize) -> Option<usize> {
        Some(bytes.div_ceil(4))
    }

    fn count_each(&self, texts: &[&str]) -> Vec<usize> {
        texts.iter().map(|text| self.count(text)).collect()
    }

    fn truncate<'t>(&self, text: &'t str, limit: usize) -> &'t str {
        let mut end = limit.saturating_mul(4).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        &text[..end]
    }
}

/// An estimate that knows words, code, digits and scripts.
///
/// BPE vocabularies contain whole words of Latin scripts, groups of digits, common runs of punctuation and whitespace,
/// and most single characters of East Asian scripts. The estimate splits a text into such runs and adds the average
/// cost in `o200k` of a run of that class and length.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptEstimate;

/// The class of a character. A run has characters of one class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    /// Latin letters. Within identifiers, an uppercase letter starts a new run.
    Latin,
    /// Letters of another alphabet, with the cost per letter in thousandths of a token.
    Letters(usize),
    /// Characters of scripts in which one character is about one word.
    Ideographs,
    Digits,
    Whitespace,
    LineEnds,
    Punctuation,
    /// Box-drawing characters and block elements.
    BoxDrawing,
    /// Emoji and everything else.
    Rare,
}

impl CharClass {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Self::Latin,
            '0'..='9' => Self::Digits,
            ' ' | '\t' => Self::Whitespace,
            '\n' | '\r' => Self::LineEnds,
            '!'..='~' | '\u{2000}'..='\u{206f}' => Self::Punctuation,
            '\u{2500}'..='\u{259f}' => Self::BoxDrawing,
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
            _ if character.is_whitespace() => Self::Whitespace,
            _ => Self::Rare,
        }
    }
}

/// Consecutive characters of one class.
#[derive(Clone, Copy)]
struct Run {
    class: CharClass,
    length: usize,
    /// The additional cost of its accented letters, in thousandths of a token.
    accents: usize,
}

impl Run {
    fn new(class: CharClass, character: char) -> Self {
        Self { class, length: 1, accents: accent_cost(character) }
    }

    /// Returns the cost in thousandths of a token.
    fn cost(self) -> usize {
        let length = self.length;
        match self.class {
            // Short words are one token; long words consist of several.
            CharClass::Latin => {
                let word = match length {
                    0..=5 => 1_000,
                    6..=9 => 1_170,
                    _ => 250 + 135 * length,
                };
                word + self.accents
            }
            CharClass::Letters(each) => 420 + each * length,
            CharClass::Ideographs => 800 * length,
            CharClass::Digits => length.div_ceil(3) * 1_000,
            // A single space is part of the token of the following word.
            CharClass::Whitespace => usize::from(length > 1) * 900,
            CharClass::LineEnds => 700,
            CharClass::Punctuation => match length {
                1 => 820,
                2..=3 => 1_000,
                _ => 600 + 230 * length.min(16) + 30 * length.saturating_sub(16),
            },
            CharClass::BoxDrawing => 900 + 120 * length,
            CharClass::Rare => 2_000 * length,
        }
    }
}

/// Returns the additional cost of an accented Latin letter, in thousandths of a token. The rarer its language in
/// training data, the higher the cost.
fn accent_cost(character: char) -> usize {
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
    /// Returns the cost of `text` in thousandths of a token, or `None` if it exceeds `limit`.
    fn cost_up_to(text: &str, limit: usize) -> Option<usize> {
        let mut total = 0_usize;
        let mut run: Option<Run> = None;
        let mut was_lower = false;
        for character in text.chars() {
            let class = CharClass::of(character);
            // camelCase: an uppercase letter starts a new word.
            let starts_word = was_lower && character.is_ascii_uppercase();
            was_lower = character.is_ascii_lowercase();
            match &mut run {
                Some(run) if run.class == class && !starts_word => {
                    run.length += 1;
                    run.accents += accent_cost(character);
                }
                _ => {
                    let ended = run.replace(Run::new(class, character));
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
