//! The byte pair encodings of OpenAI's models.
//!
//! The vocabularies are part of the binary; the first count unpacks them. Counting is linear in the text, also for
//! hostile texts.

use std::cell::RefCell;
use std::thread::LocalKey;

use bpe_openai::Tokenizer;
use pannier_core::TokenCounter;
use pannier_core::item::Exactness;
use pannier_text::Memo;

/// Returns the counter of GPT-4o and all later models.
pub fn o200k() -> impl TokenCounter + Copy {
    thread_local!(static MEMO: RefCell<Memo<u8>> = RefCell::default());
    BpeCounter { name: "o200k", load: bpe_openai::o200k_base, memo: &MEMO }
}

/// Returns the counter of GPT-4 and GPT-3.5.
pub fn cl100k() -> impl TokenCounter + Copy {
    thread_local!(static MEMO: RefCell<Memo<u8>> = RefCell::default());
    BpeCounter { name: "cl100k", load: bpe_openai::cl100k_base, memo: &MEMO }
}

#[derive(Clone, Copy)]
struct BpeCounter {
    name: &'static str,
    load: fn() -> &'static Tokenizer,
    memo: &'static LocalKey<RefCell<Memo<u8>>>,
}

/// Counts the tokens of a piece. A token has at least one byte, so the count of a cached piece fits a byte.
fn count_piece(piece: &[u8], tokenizer: &Tokenizer, memo: &mut Memo<u8>) -> usize {
    match piece.len() <= Memo::<u8>::MAX_WORD_BYTES {
        true => memo.get(piece, |piece| tokenizer.bpe.count(piece) as u8).into(),
        false => tokenizer.bpe.count(piece),
    }
}

impl TokenCounter for BpeCounter {
    fn name(&self) -> &str {
        self.name
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn count(&self, text: &str) -> usize {
        let tokenizer = (self.load)();
        self.memo.with_borrow_mut(|memo| {
            let pieces = tokenizer.split(text).map(str::as_bytes);
            pieces.map(|piece| count_piece(piece, tokenizer, memo)).sum()
        })
    }

    fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        let tokenizer = (self.load)();
        self.memo.with_borrow_mut(|memo| {
            tokenizer.split(text).map(str::as_bytes).try_fold(0, |count, piece| {
                let remaining = limit - count;
                let added = match piece.len() <= remaining {
                    // A piece has at most as many tokens as bytes, so this one fits.
                    true => count_piece(piece, tokenizer, memo),
                    false => tokenizer.bpe.count_till_limit(piece, remaining)?,
                };
                Some(count + added)
            })
        })
    }

    /// Cuts after the last token that fits, moves back to a character boundary and counts again, because the shorter
    /// text may be split into other pieces.
    fn truncate<'t>(&self, text: &'t str, limit: usize) -> &'t str {
        let tokenizer = (self.load)();
        let (mut count, mut end) = (0, 0);
        for piece in tokenizer.split(text) {
            let remaining = limit - count;
            if let Some(added) = tokenizer.bpe.count_till_limit(piece.as_bytes(), remaining) {
                count += added;
                end += piece.len();
                continue;
            }
            let tokens = tokenizer.bpe.encode_via_backtracking(piece.as_bytes());
            end += tokens
                .iter()
                .take(remaining)
                .map(|token| tokenizer.bpe.token_len(*token))
                .sum::<usize>();
            break;
        }
        loop {
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            if self.count_up_to(&text[..end], limit).is_some() {
                return &text[..end];
            }
            end -= 1;
        }
    }
}
