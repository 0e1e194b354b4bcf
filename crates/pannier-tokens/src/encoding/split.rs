//! Splits a text into the pieces that are encoded alone: words, up to three digits, punctuation, white space.
//!
//! The encodings define pieces by regular expressions. Each function here states the alternatives that it stands for;
//! the first alternative that matches wins, with greedy repetitions that give back. All scan a character at most a few
//! times, so splitting is linear.
//!
//! `o200k`, where `U` is `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `L` is `[\p{Ll}\p{Lm}\p{Lo}\p{M}]` and `C` is
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)`:
//!
//! ```text
//! [^\r\n\p{L}\p{N}]?U*L+C?  |  [^\r\n\p{L}\p{N}]?U+L*C?  |  \p{N}{1,3}  |   ?[^\s\p{L}\p{N}]+[\r\n/]*
//! \s*[\r\n]+  |  \s+$  |  \s+(?!\S)  |  \s+
//! ```
//!
//! `cl100k`:
//!
//! ```text
//! C  |  [^\r\n\p{L}\p{N}]?\p{L}+  |  \p{N}{1,3}  |   ?[^\s\p{L}\p{N}]+[\r\n]*
//! \s*[\r\n]+  |  \s+$  |  \s+(?!\S)  |  \s+
//! ```

use super::classes::{
    ANY_SPACE, CLASSES, LETTER, LINE_END, LOWERCASE, MARK, NUMBER, OTHER_LETTER, UPPERCASE,
};

/// The rules of an encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    O200k,
    Cl100k,
}

/// The pieces of a text. Together they are the text.
pub(super) struct Pieces<'t> {
    text: &'t str,
    position: usize,
    rules: Rules,
    classes: &'static [u8],
    /// The classes of ASCII characters, which most texts consist of.
    ascii: &'static [u8; 128],
}

impl<'t> Pieces<'t> {
    pub(super) fn new(text: &'t str, rules: Rules) -> Self {
        let classes: &[u8] = &CLASSES;
        let ascii = classes.first_chunk().unwrap_or(&[0; 128]);
        Self { text, position: 0, rules, classes, ascii }
    }

    /// Returns the class and the end of the character at `start`, or `None` at the end of the text.
    #[inline]
    fn class_at(&self, start: usize) -> Option<(u8, usize)> {
        let byte = *self.text.as_bytes().get(start)?;
        match self.ascii.get(usize::from(byte)) {
            Some(class) => Some((*class, start + 1)),
            None => self.other_class_at(start),
        }
    }

    /// As [`Self::class_at`], for characters beyond ASCII. It is a function of its own, so that the other can be inlined.
    #[inline(never)]
    fn other_class_at(&self, start: usize) -> Option<(u8, usize)> {
        let character = self.text[start..].chars().next()?;
        Some((self.classes[character as usize], start + character.len_utf8()))
    }

    /// Returns the end of the run of characters from `start` whose class has a bit of `mask`.
    #[inline]
    fn run(&self, mut start: usize, mask: u8) -> usize {
        let is_ascii =
            |byte: &&u8| self.ascii.get(usize::from(**byte)).is_some_and(|class| class & mask != 0);
        loop {
            let rest = self.text.as_bytes().get(start..).unwrap_or_default();
            start += rest.iter().take_while(is_ascii).count();
            match self.class_at(start) {
                Some((class, end)) if class & mask != 0 => start = end,
                _ => return start,
            }
        }
    }

    fn o200k_end(&self, start: usize, first: u8, second: usize) -> usize {
        if first & LETTER != 0 {
            let (word, run) = self.cased_word(start);
            return self.contraction(word.unwrap_or(run));
        }
        if first & (NUMBER | LINE_END) == 0 {
            let (word, run) = self.cased_word(second);
            // A mark is a word itself. That comes before a word of uppercase letters with the mark as its prefix.
            let own = (first == MARK).then_some(second);
            let upper = (run > second).then_some(run);
            if let Some(end) = word.or(own).or(upper) {
                return self.contraction(end);
            }
        }
        self.other_end(start, first, second)
    }

    /// `U*L+` from `start`, and the end of `U*` alone.
    fn cased_word(&self, start: usize) -> (Option<usize>, usize) {
        let (mut run, mut word) = (start, None);
        while let Some((class, end)) = self.class_at(run) {
            if class == LOWERCASE {
                return (Some(self.run(end, LOWERCASE | OTHER_LETTER | MARK)), run);
            }
            if class & (UPPERCASE | OTHER_LETTER | MARK) == 0 {
                break;
            }
            // If no lowercase letter follows, `U*` gives back up to the last character that `L` matches, too.
            if class != UPPERCASE {
                word = Some(end);
            }
            run = end;
        }
        (word, run)
    }

    fn cl100k_end(&self, start: usize, first: u8, second: usize) -> usize {
        let end = self.contraction(start);
        if end > start {
            return end;
        }
        if first & LETTER != 0 {
            return self.run(second, LETTER);
        }
        if first & (NUMBER | LINE_END) == 0 {
            let end = self.run(second, LETTER);
            if end > second {
                return end;
            }
        }
        self.other_end(start, first, second)
    }

    /// `C?` from `start`. `ſ` is a lowercase `s`.
    fn contraction(&self, start: usize) -> usize {
        let [b'\'', rest @ ..] = &self.text.as_bytes()[start..] else { return start };
        let length = match rest {
            [b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D', ..] => 1,
            [b'r' | b'R' | b'v' | b'V', b'e' | b'E', ..]
            | [b'l' | b'L', b'l' | b'L', ..]
            | [0xc5, 0xbf, ..] => 2,
            _ => return start,
        };
        start + 1 + length
    }

    /// Numbers, punctuation and white space, which both encodings split alike.
    fn other_end(&self, start: usize, first: u8, second: usize) -> usize {
        if first == NUMBER {
            let third = self.run_of_one(second, NUMBER);
            return self.run_of_one(third, NUMBER);
        }
        if first & ANY_SPACE == 0 {
            return self.punctuation_end(second);
        }
        if self.text.as_bytes()[start] == b' '
            && let Some((class, end)) = self.class_at(second)
            && class & (LETTER | NUMBER | ANY_SPACE) == 0
        {
            return self.punctuation_end(end);
        }
        self.space_end(start)
    }

    /// Skips at most one character.
    fn run_of_one(&self, start: usize, mask: u8) -> usize {
        match self.class_at(start) {
            Some((class, end)) if class & mask != 0 => end,
            _ => start,
        }
    }

    /// `[^\s\p{L}\p{N}]*[\r\n/]*` from `start`; `cl100k` has no slash.
    fn punctuation_end(&self, mut start: usize) -> usize {
        while let Some((class, end)) = self.class_at(start)
            && class & (LETTER | NUMBER | ANY_SPACE) == 0
        {
            start = end;
        }
        let trailing = &self.text.as_bytes()[start..];
        let is_trailing = |byte: &&u8| match byte {
            b'\r' | b'\n' => true,
            b'/' => self.rules == Rules::O200k,
            _ => false,
        };
        start + trailing.iter().take_while(is_trailing).count()
    }

    /// White space from `start`: up to its last line end; or all at the end of the text; or all but the last character,
    /// which belongs to the next piece; or one character.
    fn space_end(&self, start: usize) -> usize {
        let (mut position, mut last, mut line_end) = (start, start, None);
        while let Some((class, end)) = self.class_at(position)
            && class & ANY_SPACE != 0
        {
            if class == LINE_END {
                line_end = Some(end);
            }
            last = position;
            position = end;
        }
        match line_end {
            Some(end) => end,
            None if position == self.text.len() || last == start => position,
            None => last,
        }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = &'t str;

    #[inline]
    fn next(&mut self) -> Option<&'t str> {
        let start = self.position;
        let (first, second) = self.class_at(start)?;
        self.position = match self.rules {
            Rules::O200k => self.o200k_end(start, first, second),
            Rules::Cl100k => self.cl100k_end(start, first, second),
        };
        Some(&self.text[start..self.position])
    }
}
