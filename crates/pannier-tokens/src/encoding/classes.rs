//! The classes of characters that the rules of encodings distinguish, by the general categories of Unicode.

use std::sync::LazyLock;

/// Lu and Lt.
pub(super) const UPPERCASE: u8 = 1;
/// Ll.
pub(super) const LOWERCASE: u8 = 2;
/// Lm and Lo.
pub(super) const OTHER_LETTER: u8 = 4;
/// M.
pub(super) const MARK: u8 = 8;
/// N.
pub(super) const NUMBER: u8 = 16;
/// White space except line ends.
pub(super) const SPACE: u8 = 32;
/// Carriage return and line feed.
pub(super) const LINE_END: u8 = 64;
/// L.
pub(super) const LETTER: u8 = UPPERCASE | LOWERCASE | OTHER_LETTER;
/// Characters of no other class, such as punctuation, have no bit.
pub(super) const ANY_SPACE: u8 = SPACE | LINE_END;

/// The runs of characters of one class, in the order of code points: a class, and a length of two bytes, little-endian.
/// `tests/vocabularies.rs` writes them.
const RUNS: &[u8] = include_bytes!("classes.bin");

/// The class of each code point. The table is sparse: the system keeps only the pages in use in memory.
pub(super) static CLASSES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut classes = vec![0; char::MAX as usize + 1];
    let mut start = 0;
    for [class, low, high] in RUNS.as_chunks::<3>().0 {
        let end = start + usize::from(u16::from_le_bytes([*low, *high]));
        if *class != 0 {
            classes[start..end].fill(*class);
        }
        start = end;
    }
    classes
});
