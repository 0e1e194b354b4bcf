//! The byte pair encodings of OpenAI's models.
//!
//! A text is split into pieces, roughly words (`split.rs`), and each piece is encoded alone (`vocabulary.rs`). Counting is
//! linear in the text, also for hostile texts. With the feature `openai`, the vocabularies are part of the binary, and the
//! build script has compiled them; without, [`load_vocabulary`] compiles them from bytes.

mod classes;
mod compile;
mod split;
#[cfg(feature = "openai")]
mod subset;
mod vocabulary;

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::thread::LocalKey;

use pannier_core::TokenCounter;
use pannier_core::item::Exactness;
use pannier_text::Memo;

use crate::{TokenError, parallel_map};
use split::{Pieces, Rules};
use vocabulary::{Encoder, Scratch, Vocabulary};

/// Returns the counter of GPT-4o and all later models.
#[cfg(feature = "openai")]
pub fn o200k() -> impl TokenCounter + Copy {
    BpeCounter { encoding: &O200K }
}

/// Returns the counter of GPT-4 and GPT-3.5.
#[cfg(feature = "openai")]
pub fn cl100k() -> impl TokenCounter + Copy {
    BpeCounter { encoding: &CL100K }
}

/// Loads a vocabulary from the bytes of its file, and returns the name of its encoding.
///
/// The files are in the folder `vocabularies` of this crate. [`counter_by_name`](crate::counter_by_name) then finds the
/// encoding and the models that use it. A vocabulary that is already there stays.
///
/// # Errors
///
/// [`TokenError::Vocabulary`] if the bytes are not those of such a file.
pub fn load_vocabulary(bytes: impl Into<Cow<'static, [u8]>>) -> Result<&'static str, TokenError> {
    let (name, vocabulary) = Vocabulary::read(&bytes.into())?;
    let encoding = [&O200K, &CL100K].into_iter().find(|encoding| encoding.name == name);
    let encoding = encoding.ok_or(TokenError::Vocabulary { problem: "its encoding is unknown" })?;
    encoding.vocabulary.get_or_init(|| vocabulary);
    Ok(encoding.name)
}

/// Returns the counter of an encoding, or `None` if it has no vocabulary.
pub(crate) fn counter(encoding: &str) -> Option<Box<dyn TokenCounter>> {
    let encoding = if encoding == "o200k" { &O200K } else { &CL100K };
    let is_available = cfg!(feature = "openai") || encoding.vocabulary.get().is_some();
    is_available.then(|| Box::new(BpeCounter { encoding }) as Box<dyn TokenCounter>)
}

/// An encoding, and its vocabulary once it was needed or loaded.
struct Encoding {
    name: &'static str,
    rules: Rules,
    vocabulary: OnceLock<Vocabulary>,
    embedded: fn() -> Vocabulary,
    cache: &'static LocalKey<RefCell<Cache>>,
}

/// The counts of short pieces, and buffers.
#[derive(Default)]
struct Cache {
    counts: Memo<u8>,
    scratch: Scratch,
}

thread_local! {
    static O200K_CACHE: RefCell<Cache> = RefCell::default();
    static CL100K_CACHE: RefCell<Cache> = RefCell::default();
}

static O200K: Encoding = Encoding {
    name: "o200k",
    rules: Rules::O200k,
    vocabulary: OnceLock::new(),
    embedded: || embedded(O200K_TABLES),
    cache: &O200K_CACHE,
};

static CL100K: Encoding = Encoding {
    name: "cl100k",
    rules: Rules::Cl100k,
    vocabulary: OnceLock::new(),
    embedded: || embedded(CL100K_TABLES),
    cache: &CL100K_CACHE,
};

#[cfg(feature = "openai")]
const O200K_TABLES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.tables"));
#[cfg(feature = "openai")]
const CL100K_TABLES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cl100k.tables"));
#[cfg(not(feature = "openai"))]
const O200K_TABLES: &[u8] = &[];
#[cfg(not(feature = "openai"))]
const CL100K_TABLES: &[u8] = &[];

/// Returns the file of an embedded vocabulary, for programs that [load](load_vocabulary) it elsewhere.
#[cfg(feature = "openai")]
pub fn vocabulary_file(name: &str) -> Option<Vec<u8>> {
    let encoding = [&O200K, &CL100K].into_iter().find(|encoding| encoding.name == name)?;
    Some((encoding.embedded)().encoder().file(name))
}

/// Returns a vocabulary file with the tokens that texts of these parts can have, in any order: some percent of
/// [the whole](vocabulary_file). It counts other texts too high.
#[cfg(feature = "openai")]
pub fn vocabulary_subset<'p>(
    name: &str,
    parts: impl IntoIterator<Item = &'p str>,
) -> Option<Vec<u8>> {
    Some(subset::subset(name, &vocabulary_file(name)?, parts))
}

/// Uses embedded tables. Where nothing is embedded, no counter exists before its vocabulary.
fn embedded(tables: &'static [u8]) -> Vocabulary {
    match tables.is_empty() {
        true => Vocabulary::default(),
        false => Vocabulary::new(tables.into()),
    }
}

#[derive(Clone, Copy)]
struct BpeCounter {
    encoding: &'static Encoding,
}

impl BpeCounter {
    /// Calls `run` with the pieces of `text`, the encoder and the cache of this thread.
    fn with<'t, R>(
        self,
        text: &'t str,
        run: impl FnOnce(Pieces<'t>, Encoder<'_>, &mut Cache) -> R,
    ) -> R {
        let vocabulary = self.encoding.vocabulary.get_or_init(self.encoding.embedded);
        let pieces = Pieces::new(text, self.encoding.rules);
        self.encoding.cache.with_borrow_mut(|cache| run(pieces, vocabulary.encoder(), cache))
    }
}

impl Cache {
    /// Counts the tokens of a piece. A token has at least one byte, so the count of a cached piece fits a byte.
    fn count(&mut self, piece: &[u8], encoder: Encoder<'_>) -> usize {
        let Self { counts, scratch } = self;
        match piece.len() <= Memo::<u8>::MAX_WORD_BYTES {
            true => counts.get(piece, |piece| encoder.count(piece, scratch) as u8).into(),
            false => encoder.count(piece, scratch),
        }
    }

    /// Counts the tokens of a piece unless they exceed `limit`.
    fn count_up_to(&mut self, piece: &[u8], encoder: Encoder<'_>, limit: usize) -> Option<usize> {
        if piece.len() > limit.saturating_mul(encoder.max_token_bytes()) {
            return None;
        }
        Some(self.count(piece, encoder)).filter(|count| *count <= limit)
    }
}

impl TokenCounter for BpeCounter {
    fn name(&self) -> &str {
        self.encoding.name
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn count(&self, text: &str) -> usize {
        self.with(text, |pieces, encoder, cache| {
            pieces.map(|piece| cache.count(piece.as_bytes(), encoder)).sum()
        })
    }

    fn count_up_to(&self, text: &str, limit: usize) -> Option<usize> {
        self.with(text, |mut pieces, encoder, cache| {
            pieces.try_fold(0, |count, piece| {
                Some(count + cache.count_up_to(piece.as_bytes(), encoder, limit - count)?)
            })
        })
    }

    /// A token has at least one byte.
    fn max_count(&self, bytes: usize) -> Option<usize> {
        Some(bytes)
    }

    /// Counts many texts on all cores.
    fn count_distinct(&self, texts: &[&str]) -> Vec<usize> {
        parallel_map(texts, |text| text.len(), |text| self.count(text))
    }

    /// Cuts after the last token that fits, moves back to a character boundary and counts again, because the shorter
    /// text may be split into other pieces.
    fn truncate<'t>(&self, text: &'t str, limit: usize) -> &'t str {
        let mut end = self.with(text, |pieces, encoder, cache| {
            let (mut count, mut end) = (0, 0);
            for piece in pieces.map(str::as_bytes) {
                let remaining = limit - count;
                let Some(added) = cache.count_up_to(piece, encoder, remaining) else {
                    let tokens = encoder.encode(piece, &mut cache.scratch);
                    let kept = tokens.iter().take(remaining);
                    return end + kept.map(|token| encoder.token_bytes(*token)).sum::<usize>();
                };
                count += added;
                end += piece.len();
            }
            end
        });
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
