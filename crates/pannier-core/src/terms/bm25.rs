//! What terms are worth, by BM25.
//!
//! A score is the sum of `rarity * worth` over the terms of a query. Both are computed from whole numbers with
//! arithmetic that is the same everywhere, the logarithm included, so no two machines order two texts differently.

/// How soon more occurrences of a term add little, and how much length counts.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Above what any number of occurrences is worth.
pub const MOST_WORTH: f64 = K1 + 1.0;

/// What so many occurrences are worth in a text of so many words, before the rarity of their term. The mean is that of
/// all texts that are compared.
#[inline]
pub fn worth(count: u32, words: u32, mean_words: f64) -> f64 {
    let count = f64::from(count);
    let length = K1 * (1.0 - B + B * (f64::from(words) / mean_words.max(1.0)));
    count * (K1 + 1.0) / (count + length)
}

/// How much a term tells that so many of all texts have. Always above 0.
pub fn rarity(having: u32, all: usize) -> f64 {
    let (having, all) = (f64::from(having), all as f64);
    libm::log(1.0 + (all - having + 0.5) / (having + 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_terms_short_texts_and_first_occurrences_are_worth_more() {
        assert!(rarity(1, 100) > rarity(50, 100) && rarity(100, 100) > 0.0);
        assert!(worth(1, 5, 10.0) > worth(1, 20, 10.0));
        let gain = |count| worth(count + 1, 10, 10.0) - worth(count, 10, 10.0);
        assert!(gain(0) > gain(1) && gain(1) > gain(2));
        assert!(worth(u32::MAX, 1, 10.0) < MOST_WORTH);
        // A text of mean length: 1 * 2.2 / (1 + 1.2). And one of two texts: ln(1 + 1.5 / 1.5).
        assert_eq!(worth(1, 10, 10.0), 1.0);
        assert_eq!(rarity(1, 2), std::f64::consts::LN_2);
    }
}
