//! The Porter stemmer (1980), with one later revision.
//!
//! Five steps remove or replace suffixes, each only if the remaining stem is long enough. The length of a stem is its
//! measure: the number of vowel-consonant sequences. The steps are tables that follow the paper line by line. The time
//! is linear in the word.

/// Reduces a word to its stem. Words with characters other than `a` to `z` do not change.
pub(super) fn stem(word: &mut Vec<u8>) {
    if word.len() < 3 || !word.iter().all(u8::is_ascii_lowercase) {
        return;
    }
    step_1a(word);
    step_1b(word);
    step_1c(word);
    replace_suffix(word, STEP_2_SUFFIXES);
    replace_suffix(word, STEP_3_SUFFIXES);
    step_4(word);
    step_5(word);
}

/// Suffixes and their replacements, which need a stem of measure 1 or more. Longer suffixes come first.
type Suffixes = &'static [(&'static [u8], &'static [u8])];

/// Step 1c as Porter revised it later: not after a vowel, so that `deploy` and `deployment` have one stem.
fn step_1c(word: &mut [u8]) {
    if let [_, .., before, last @ b'y'] = word
        && !matches!(before, b'a' | b'e' | b'i' | b'o' | b'u')
    {
        *last = b'i';
    }
}

const STEP_2_SUFFIXES: Suffixes = &[
    (b"ational", b"ate"),
    (b"ization", b"ize"),
    (b"iveness", b"ive"),
    (b"fulness", b"ful"),
    (b"ousness", b"ous"),
    (b"tional", b"tion"),
    (b"biliti", b"ble"),
    (b"entli", b"ent"),
    (b"ousli", b"ous"),
    (b"ation", b"ate"),
    (b"alism", b"al"),
    (b"aliti", b"al"),
    (b"iviti", b"ive"),
    (b"enci", b"ence"),
    (b"anci", b"ance"),
    (b"izer", b"ize"),
    (b"abli", b"able"),
    (b"alli", b"al"),
    (b"ator", b"ate"),
    (b"eli", b"e"),
];

const STEP_3_SUFFIXES: Suffixes = &[
    (b"icate", b"ic"),
    (b"ative", b""),
    (b"alize", b"al"),
    (b"iciti", b"ic"),
    (b"ical", b"ic"),
    (b"ness", b""),
    (b"ful", b""),
];

/// Removed if the stem has measure 2 or more.
const STEP_4_SUFFIXES: &[&[u8]] = &[
    b"ement", b"ance", b"ence", b"able", b"ible", b"ment", b"ant", b"ent", b"ion", b"ism", b"ate",
    b"iti", b"ous", b"ive", b"ize", b"al", b"er", b"ic", b"ou",
];

/// Plurals.
fn step_1a(word: &mut Vec<u8>) {
    if word.ends_with(b"sses") || word.ends_with(b"ies") {
        replace(word, 2, b"");
    } else if word.ends_with(b"s") && !word.ends_with(b"ss") {
        replace(word, 1, b"");
    }
}

/// Past forms and gerunds.
fn step_1b(word: &mut Vec<u8>) {
    if let Some(stem) = word.strip_suffix(b"eed") {
        if measure(stem) > 0 {
            replace(word, 1, b"");
        }
        return;
    }
    let suffix = [&b"ed"[..], b"ing"].into_iter().find(|suffix| word.ends_with(suffix));
    let Some(suffix) = suffix.filter(|suffix| has_vowel(&word[..word.len() - suffix.len()])) else {
        return;
    };
    replace(word, suffix.len(), b"");
    if [b"at", b"bl", b"iz"].into_iter().any(|suffix| word.ends_with(suffix)) {
        word.push(b'e');
    } else if ends_double(word) && !matches!(word.last(), Some(b'l' | b's' | b'z')) {
        word.pop();
    } else if measure(word) == 1 && ends_short(word) {
        word.push(b'e');
    }
}

fn step_4(word: &mut Vec<u8>) {
    let suffix = STEP_4_SUFFIXES.iter().find(|suffix| word.ends_with(suffix));
    let Some(suffix) = suffix else { return };
    let stem = &word[..word.len() - suffix.len()];
    let is_allowed = **suffix != *b"ion" || matches!(stem.last(), Some(b's' | b't'));
    if is_allowed && measure(stem) > 1 {
        replace(word, suffix.len(), b"");
    }
}

/// A final `e`, and one of two final `l`.
fn step_5(word: &mut Vec<u8>) {
    if let Some(stem) = word.strip_suffix(b"e") {
        let measure = measure(stem);
        if measure > 1 || measure == 1 && !ends_short(stem) {
            word.pop();
        }
    }
    if word.ends_with(b"ll") && measure(word) > 1 {
        word.pop();
    }
}

fn replace_suffix(word: &mut Vec<u8>, suffixes: Suffixes) {
    let suffix = suffixes.iter().find(|(suffix, _)| word.ends_with(suffix));
    if let Some((suffix, replacement)) = suffix
        && measure(&word[..word.len() - suffix.len()]) > 0
    {
        replace(word, suffix.len(), replacement);
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
}
