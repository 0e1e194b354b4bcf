//! The Porter stemmer (1980), with one later revision.
//!
//! Five steps remove or replace suffixes, each only if the remaining stem is long enough. The length of a stem is its
//! measure: the number of vowel-consonant sequences. The steps are tables that follow the paper. The time
//! is linear in the word. Most words end with no suffix of a table, which their last two letters show.

use std::cell::RefCell;

use crate::Memo;

/// Reduces a word to its stem. Words with characters other than `a` to `z` do not change.
pub(super) fn stem(word: &mut Vec<u8>) {
    // A stem is not longer than its word, so that of a cached word has at most 15 bytes, and its length fills the last one.
    thread_local!(static MEMO: RefCell<Memo<[u8; 16]>> = RefCell::default());
    if word.len() < 3 || !word.iter().all(u8::is_ascii_lowercase) {
        return;
    }
    if word.len() > 15 {
        return compute(word);
    }
    let cached = MEMO.with_borrow_mut(|memo| {
        memo.get(word, |word| {
            let (mut stem, mut cached) = (word.to_vec(), [0; 16]);
            compute(&mut stem);
            cached[..stem.len()].copy_from_slice(&stem);
            cached[15] = stem.len() as u8;
            cached
        })
    });
    word.clear();
    word.extend_from_slice(&cached[..usize::from(cached[15])]);
}

fn compute(word: &mut Vec<u8>) {
    step_1a(word);
    step_1b(word);
    step_1c(word);
    STEP_2.apply(word);
    STEP_3.apply(word);
    STEP_4.apply(word);
    step_5(word);
}

/// A step that replaces the first suffix that a word has, if the remaining stem is long enough.
struct Step {
    /// Pairs of a suffix and its replacement. Longer suffixes come first.
    suffixes: &'static [[&'static str; 2]],
    /// The last letters of the suffixes; for each, a bit for every letter before it.
    endings: [u32; 26],
    /// The minimum measure of the stem.
    min_measure: usize,
}

impl Step {
    const fn new(min_measure: usize, pairs: &'static [&'static str]) -> Self {
        let (suffixes, _) = pairs.as_chunks();
        let (mut endings, mut index) = ([0; 26], 0);
        while index < suffixes.len() {
            if let [.., before, last] = suffixes[index][0].as_bytes() {
                endings[(*last - b'a') as usize] |= 1 << (*before - b'a');
            }
            index += 1;
        }
        Self { suffixes, endings, min_measure }
    }

    fn find(&self, word: &[u8]) -> Option<[&'static str; 2]> {
        let [.., before, last] = word else { return None };
        let is_ending = self.endings[usize::from(last - b'a')] >> (before - b'a') & 1 == 1;
        let mut suffixes = self.suffixes.iter().filter(|_| is_ending).copied();
        suffixes.find(|[suffix, _]| word.ends_with(suffix.as_bytes()))
    }

    fn apply(&self, word: &mut Vec<u8>) {
        let Some([suffix, replacement]) = self.find(word) else { return };
        let stem = &word[..word.len() - suffix.len()];
        let is_allowed = suffix != "ion" || matches!(stem.last(), Some(b's' | b't'));
        if is_allowed && measure(stem) >= self.min_measure {
            replace(word, suffix.len(), replacement.as_bytes());
        }
    }
}

static STEP_2: Step = Step::new(
    1,
    &[
        "ational", "ate", "ization", "ize", "iveness", "ive", "fulness", "ful", "ousness", "ous",
        "tional", "tion", "biliti", "ble", "entli", "ent", "ousli", "ous", "ation", "ate", "alism",
        "al", "aliti", "al", "iviti", "ive", "enci", "ence", "anci", "ance", "izer", "ize", "abli",
        "able", "alli", "al", "ator", "ate", "eli", "e",
    ],
);

static STEP_3: Step = Step::new(
    1,
    &[
        "icate", "ic", "ative", "", "alize", "al", "iciti", "ic", "ical", "ic", "ness", "", "ful",
        "",
    ],
);

static STEP_4: Step = Step::new(
    2,
    &[
        "ement", "", "ance", "", "ence", "", "able", "", "ible", "", "ment", "", "ant", "", "ent",
        "", "ion", "", "ism", "", "ate", "", "iti", "", "ous", "", "ive", "", "ize", "", "al", "",
        "er", "", "ic", "", "ou", "",
    ],
);

/// Step 1c as Porter revised it later: not after a vowel, so that `deploy` and `deployment` have one stem.
fn step_1c(word: &mut [u8]) {
    if let [_, .., before, last @ b'y'] = word
        && !matches!(before, b'a' | b'e' | b'i' | b'o' | b'u')
    {
        *last = b'i';
    }
}

/// Plurals.
fn step_1a(word: &mut Vec<u8>) {
    match word[..] {
        [.., b's', b's', b'e', b's'] | [.., b'i', b'e', b's'] => replace(word, 2, b""),
        [.., b's', b's'] => {}
        [.., b's'] => replace(word, 1, b""),
        _ => {}
    }
}

/// Past forms and gerunds.
fn step_1b(word: &mut Vec<u8>) {
    let suffix_len = match &word[..] {
        [stem @ .., b'e', b'e', b'd'] if measure(stem) > 0 => return replace(word, 1, b""),
        [.., b'e', b'e', b'd'] => return,
        [stem @ .., b'e', b'd'] if has_vowel(stem) => 2,
        [stem @ .., b'i', b'n', b'g'] if has_vowel(stem) => 3,
        _ => return,
    };
    replace(word, suffix_len, b"");
    if matches!(word[..], [.., b'a', b't'] | [.., b'b', b'l'] | [.., b'i', b'z']) {
        word.push(b'e');
    } else if ends_double(word) && !matches!(word.last(), Some(b'l' | b's' | b'z')) {
        word.pop();
    } else if measure(word) == 1 && ends_short(word) {
        word.push(b'e');
    }
}

/// A final `e`, and one of two final `l`.
fn step_5(word: &mut Vec<u8>) {
    if let [stem @ .., b'e'] = &word[..] {
        let measure = measure(stem);
        if measure > 1 || measure == 1 && !ends_short(stem) {
            word.pop();
        }
    }
    if matches!(word[..], [.., b'l', b'l']) && measure(word) > 1 {
        word.pop();
    }
}

fn replace(word: &mut Vec<u8>, suffix_len: usize, replacement: &[u8]) {
    word.truncate(word.len() - suffix_len);
    word.extend_from_slice(replacement);
}

/// A `y` is a vowel after a consonant, so in a run of them every other one is a vowel.
fn is_consonant(word: &[u8], index: usize) -> bool {
    let is_vowel = |letter: u8| matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u');
    if word[index] != b'y' {
        return !is_vowel(word[index]);
    }
    let before = word[..index].iter().rev().take_while(|letter| **letter == b'y').count();
    let first = index - before;
    let is_first = first == 0 || is_vowel(word[first - 1]);
    is_first == before.is_multiple_of(2)
}

fn has_vowel(word: &[u8]) -> bool {
    (0..word.len()).any(|index| !is_consonant(word, index))
}

/// Counts the vowel-consonant sequences of a stem.
fn measure(word: &[u8]) -> usize {
    let (mut measure, mut was_vowel, mut was_consonant) = (0, false, false);
    for (index, letter) in word.iter().enumerate() {
        let is_consonant = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => index == 0 || !was_consonant,
            _ => true,
        };
        measure += usize::from(was_vowel && is_consonant);
        (was_vowel, was_consonant) = (!is_consonant, is_consonant);
    }
    measure
}

fn ends_double(word: &[u8]) -> bool {
    matches!(word, [.., a, b] if a == b) && is_consonant(word, word.len() - 1)
}

/// Returns whether a stem ends with consonant, vowel, consonant, the last of which is not w, x or y.
fn ends_short(word: &[u8]) -> bool {
    let Some(last) = word.len().checked_sub(1).filter(|last| *last >= 2) else { return false };
    is_consonant(word, last)
        && !is_consonant(word, last - 1)
        && is_consonant(word, last - 2)
        && !matches!(word[last], b'w' | b'x' | b'y')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stemmed(word: &str) -> String {
        let mut bytes = word.as_bytes().to_vec();
        stem(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn examples_of_the_paper() {
        let examples = "caresses caress ponies poni ties ti caress caress cats cat feed feed agreed agre plastered \
             plaster bled bled motoring motor sing sing conflated conflat troubled troubl sized size hopping hop \
             tanned tan falling fall hissing hiss fizzed fizz failing fail filing file happy happi sky ski deploy deploy deployment deploy deployed deploy says say by by \
             relational relat conditional condit rational ration valenci valenc hesitanci hesit digitizer digit \
             conformabli conform radicalli radic differentli differ vileli vile analogousli analog \
             vietnamization vietnam predication predic operator oper feudalism feudal decisiveness decis \
             hopefulness hope callousness callous formaliti formal sensitiviti sensit sensibiliti sensibl \
             triplicate triplic formative form formalize formal electriciti electr electrical electr hopeful hope \
             goodness good revival reviv allowance allow inference infer airliner airlin gyroscopic gyroscop \
             adjustable adjust defensible defens irritant irrit replacement replac adjustment adjust dependent \
             depend adoption adopt homologou homolog communism commun activate activ angulariti angular homologous \
             homolog effective effect bowdlerize bowdler probate probat rate rate cease ceas controll control roll \
             roll generalizations gener oscillators oscil as as x1s x1s";
        let examples: Vec<&str> = examples.split_whitespace().collect();
        for pair in examples.chunks(2) {
            assert_eq!(stemmed(pair[0]), pair[1], "{}", pair[0]);
        }
    }

    proptest! {
        #[test]
        fn the_last_two_letters_show_whether_a_word_has_a_suffix(stem in "[a-z]{0,4}", end in "[a-z]{0,3}", index in 0..46_usize) {
            let steps = [&STEP_2, &STEP_3, &STEP_4];
            let mut suffixes = steps.iter().flat_map(|step| step.suffixes).map(|[suffix, _]| *suffix);
            let word = [stem.as_str(), suffixes.nth(index).unwrap_or_default(), &end].concat();
            for step in steps {
                let expected = step.suffixes.iter().find(|[suffix, _]| word.ends_with(suffix));
                prop_assert_eq!(step.find(word.as_bytes()), expected.copied(), "{}", word);
            }
        }
    }
}
