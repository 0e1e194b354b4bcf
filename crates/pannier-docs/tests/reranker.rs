//! Reranking: order, ties, passages that are not scored, and recorded scores.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use pannier_docs::{
    Assembler, AssemblyConfig, Candidates, DocsError, EmbedderError, MAX_RERANKED, QueryVector,
    Reranker, TokenBudget,
};
use support::Folder;

/// Scores a passage by its number, with a function.
struct ByNumber<F>(F, AtomicUsize);

impl<F> std::fmt::Debug for ByNumber<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByNumber")
    }
}

fn by_number<F: Fn(usize) -> f64>(score: F) -> ByNumber<F> {
    ByNumber(score, AtomicUsize::new(0))
}

impl<F: Fn(usize) -> f64 + Send + Sync> Reranker for ByNumber<F> {
    fn model(&self) -> &str {
        "by-number"
    }

    fn rerank(&self, query: &str, texts: &[&str]) -> Result<Vec<f64>, EmbedderError> {
        assert_eq!(query, "edge");
        self.1.fetch_add(1, Ordering::Relaxed);
        let number = |text: &&str| {
            assert!(text.starts_with("Part\n\n# Part"), "{text}");
            text.rsplit(' ').next().unwrap().trim().parse().unwrap()
        };
        Ok(texts.iter().map(number).map(&self.0).collect())
    }
}

/// Returns a folder with 60 documents that match equally, so that ties are broken by path.
fn folder() -> Folder {
    let folder = Folder::new();
    for number in 0..60 {
        folder.write(&format!("{number:02}.md"), format!("# Part\n\nThe edge of part {number}\n"));
    }
    folder.build();
    folder
}

fn config() -> AssemblyConfig {
    let mut config = AssemblyConfig::default();
    config.search.lexical_k = 60;
    config
}

fn paths(candidates: &Candidates) -> Vec<usize> {
    candidates.hits().iter().map(|hit| hit.path[..2].parse().unwrap()).collect()
}

#[test]
fn scores_order_the_first_passages_and_the_others_follow() {
    let folder = folder();
    let index = folder.open();
    let search = |reranker: &dyn Reranker| {
        let assembler = Assembler::new(&index, config()).with_reranker(Some(reranker));
        assembler.candidates("edge", QueryVector::None).unwrap()
    };
    let first = MAX_RERANKED;
    // Pairs of passages tie, and keep their order.
    for reranker in [&by_number(|n| (n / 2) as f64 / 100.0), &by_number(|n| (n / 2) as f64 - 12.0)]
        as [&dyn Reranker; 2]
    {
        let candidates = search(reranker);
        let mut expected: Vec<usize> =
            (0..first / 2).rev().flat_map(|n| [2 * n, 2 * n + 1]).collect();
        expected.extend(first..60);
        assert_eq!(paths(&candidates), expected);
        let hits = candidates.hits();
        assert!(hits.is_sorted_by(|one, other| one.score >= other.score));
        assert_eq!(hits[0].score, 1 << 32);
        let score = hits[1].reranker.as_ref().unwrap();
        assert_eq!((score.rank, score.previous_rank, score.model.as_str()), (2, 50, "by-number"));
        assert!(hits[first..].iter().all(|hit| hit.reranker.is_none()));
    }
    // Scores from 0 to 1 keep their proportions.
    let candidates = search(&by_number(|n| if n == 7 { 0.8 } else { 0.2 }));
    let shares: Vec<u64> = candidates.hits().iter().map(|hit| (hit.score * 100) >> 32).collect();
    assert_eq!((shares[0], shares[1], shares[first - 1]), (100, 25, 25));
    assert!(shares[first..].iter().all(|share| *share == 25));
}

#[test]
fn recorded_scores_need_no_reranker() {
    let folder = folder();
    let index = folder.open();
    let reranker = by_number(|n| -(n as f64));
    let assembler = Assembler::new(&index, config()).with_reranker(Some(&reranker));
    let candidates = assembler.candidates("edge", QueryVector::None).unwrap();
    let receipt = candidates.receipt(&TokenBudget::available(200)).unwrap();
    let config = Assembler::config_from_receipt(&receipt).unwrap();
    assert_eq!(config.reranking.as_ref().unwrap().scores.len(), MAX_RERANKED);
    let again =
        Assembler::new(&index, config.clone()).candidates("edge", QueryVector::None).unwrap();
    assert_eq!(again.hits(), candidates.hits());
    assert_eq!(again.receipt(&TokenBudget::available(200)).unwrap(), receipt);

    for scores in [vec![1.0; 3], vec![f64::NAN; MAX_RERANKED]] {
        let mut config = config.clone();
        config.reranking.as_mut().unwrap().scores = scores;
        let error =
            Assembler::new(&index, config).candidates("edge", QueryVector::None).unwrap_err();
        assert!(matches!(error, DocsError::Receipt { .. }), "{error}");
    }
}

#[test]
fn scores_that_are_not_finite_are_an_error() {
    let folder = folder();
    let index = folder.open();
    let reranker = by_number(|n| if n == 3 { f64::NAN } else { 1.0 });
    let assembler = Assembler::new(&index, config()).with_reranker(Some(&reranker));
    let error = assembler.candidates("edge", QueryVector::None).unwrap_err();
    assert!(error.to_string().contains("the reranker failed: by-number did not"), "{error}");
}
