//! The BM25 ranking function: the score of a text is the sum of `idf * tf_factor` over the terms of a query.
//!
//! Both factors are computed from integers with arithmetic that gives the same bits on every machine. The logarithm
//! comes from `libm` for that reason, so no two machines order two texts differently.

/// The usual term-frequency saturation: larger values let repeated terms count for longer.
pub const K1: f64 = 1.2;
/// Length normalization, from 0 (off) to 1 (full).
pub const B: f64 = 0.75;

/// Returns the term-frequency factor of a term that occurs `tf` times in a text of `doc_len` words. `avg_doc_len` is
/// the mean over all texts that are compared. As the term frequency grows, the factor approaches `k1 + 1`.
#[inline]
pub fn tf_factor(k1: f64, tf: u32, doc_len: u32, avg_doc_len: f64) -> f64 {
    let tf = f64::from(tf);
    let length = k1 * (1.0 - B + B * (f64::from(doc_len) / avg_doc_len.max(1.0)));
    tf * (k1 + 1.0) / (tf + length)
}

/// Returns the inverse document frequency of a term in Lucene's smoothed form, which is always positive.
pub fn idf(doc_freq: u32, doc_count: usize) -> f64 {
    let (doc_freq, doc_count) = (f64::from(doc_freq), doc_count as f64);
    libm::log(1.0 + (doc_count - doc_freq + 0.5) / (doc_freq + 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_terms_short_texts_and_first_occurrences_score_higher() {
        assert!(idf(1, 100) > idf(50, 100) && idf(100, 100) > 0.0);
        assert!(tf_factor(K1, 1, 5, 10.0) > tf_factor(K1, 1, 20, 10.0));
        let gain = |tf| tf_factor(K1, tf + 1, 10, 10.0) - tf_factor(K1, tf, 10, 10.0);
        assert!(gain(0) > gain(1) && gain(1) > gain(2));
        assert!(tf_factor(K1, u32::MAX, 1, 10.0) < K1 + 1.0);
        // A text of average length: 1 * 2.2 / (1 + 1.2). A term in one of two texts: ln(1 + 1.5 / 1.5).
        assert_eq!(tf_factor(K1, 1, 10, 10.0), 1.0);
        assert_eq!(idf(1, 2), std::f64::consts::LN_2);
    }
}
