//! What different forms of an English word have in common, after Porter (1980), but for one rule.
//!
//! Endings go in five steps, each only if what is left is long enough. How long a stem is, is told by its measure: how
//! often a consonant follows a vowel. The steps are tables, so that they can be held against the paper line by line.

/// Cuts a word down to its stem. Words of other letters than a to z stay as they are.
pub(super) fn stem(word: &mut Vec<u8>) {
    if word.len() < 3 || !word.iter().all(u8::is_ascii_lowercase) {
        return;
    }
    plurals(word);
    past_forms(word);
    last_y(word);
    replace_first(word, DOUBLE_ENDINGS, 1);
    replace_first(word, SINGLE_ENDINGS, 1);
    cut_ending(word);
    last_letters(word);
}

/// Endings and what they become, if a stem of measure 1 is left. Of several, the longest is the one that counts.
type Endings = &'static [(&'static [u8], &'static [u8])];

/// Step 1c, as Porter revised it later: not behind a vowel, so that `deploy` and `deployment` stay together.
fn last_y(word: &mut [u8]) {
    if let [_, .., before, last @ b'y'] = word
        && !matches!(before, b'a' | b'e' | b'i' | b'o' | b'u')
    {
        *last = b'i';
    }
}

/// Step 2.
const DOUBLE_ENDINGS: Endings = &[
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

/// Step 3.
const SINGLE_ENDINGS: Endings = &[
    (b"icate", b"ic"),
    (b"ative", b""),
    (b"alize", b"al"),
    (b"iciti", b"ic"),
    (b"ical", b"ic"),
    (b"ness", b""),
    (b"ful", b""),
];

/// Step 4: these go, if a stem of measure 2 is left.
const CUT_ENDINGS: &[&[u8]] = &[
    b"ement", b"ance", b"ence", b"able", b"ible", b"ment", b"ant", b"ent", b"ion", b"ism", b"ate",
    b"iti", b"ous", b"ive", b"ize", b"al", b"er", b"ic", b"ou",
];

/// Step 1a.
fn plurals(word: &mut Vec<u8>) {
    if word.ends_with(b"sses") || word.ends_with(b"ies") {
        replace(word, 2, b"");
    } else if word.ends_with(b"s") && !word.ends_with(b"ss") {
        replace(word, 1, b"");
    }
}

/// Step 1b.
fn past_forms(word: &mut Vec<u8>) {
    if let Some(stem) = word.strip_suffix(b"eed") {
        if measure(stem) > 0 {
            replace(word, 1, b"");
        }
        return;
    }
    let ending = [&b"ed"[..], b"ing"].into_iter().find(|ending| word.ends_with(ending));
    let Some(ending) = ending.filter(|ending| has_vowel(&word[..word.len() - ending.len()])) else {
        return;
    };
    replace(word, ending.len(), b"");
    if [b"at", b"bl", b"iz"].into_iter().any(|ending| word.ends_with(ending)) {
        word.push(b'e');
    } else if ends_double(word) && !matches!(word.last(), Some(b'l' | b's' | b'z')) {
        word.pop();
    } else if measure(word) == 1 && ends_short(word) {
        word.push(b'e');
    }
}

/// Step 4.
fn cut_ending(word: &mut Vec<u8>) {
    let ending = CUT_ENDINGS.iter().find(|ending| word.ends_with(ending));
    let Some(ending) = ending else { return };
    let stem = &word[..word.len() - ending.len()];
    let is_allowed = **ending != *b"ion" || matches!(stem.last(), Some(b's' | b't'));
    if is_allowed && measure(stem) > 1 {
        replace(word, ending.len(), b"");
    }
}

/// Step 5.
fn last_letters(word: &mut Vec<u8>) {
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

fn replace_first(word: &mut Vec<u8>, endings: Endings, least: usize) {
    let ending = endings.iter().find(|(ending, _)| word.ends_with(ending));
    if let Some((ending, replacement)) = ending
        && measure(&word[..word.len() - ending.len()]) >= least
    {
        replace(word, ending.len(), replacement);
    }
}

fn replace(word: &mut Vec<u8>, ending: usize, replacement: &[u8]) {
    word.truncate(word.len() - ending);
    word.extend_from_slice(replacement);
}

/// A `y` is a vowel behind a consonant, so in a run of them every other one is.
fn is_consonant(word: &[u8], at: usize) -> bool {
    let is_vowel = |letter: u8| matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u');
    if word[at] != b'y' {
        return !is_vowel(word[at]);
    }
    let before = word[..at].iter().rev().take_while(|letter| **letter == b'y').count();
    let first = at - before;
    let is_first = first == 0 || is_vowel(word[first - 1]);
    is_first == before.is_multiple_of(2)
}

fn has_vowel(word: &[u8]) -> bool {
    (0..word.len()).any(|at| !is_consonant(word, at))
}

/// How often a consonant follows a vowel.
fn measure(word: &[u8]) -> usize {
    let (mut measure, mut was_vowel, mut was_consonant) = (0, false, false);
    for (at, letter) in word.iter().enumerate() {
        let is_consonant = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => at == 0 || !was_consonant,
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

/// Whether it ends with consonant, vowel, consonant, the last of which is not w, x or y.
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
    fn the_examples_of_the_paper() {
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
