use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::{BuildOptions, Document, DocumentSource, build, verify};

fn display(query: &str) -> String {
    let name = |clause: &Clause| match clause {
        Clause::Term(term) => term.clone(),
        Clause::Phrase(terms) => format!("<{}>", terms.join(" ")),
    };
    let display = |(clause, count): (&Clause, &u32)| match count {
        1 => name(clause),
        count => format!("{}*{count}", name(clause)),
    };
    clauses(query).iter().map(display).collect::<Vec<_>>().join(" ")
}

#[test]
fn repeated_words_count_again() {
    assert_eq!(display("deploy, deploys and deployed"), "and deploy*3");
    assert_eq!(display("\"a b\" \"a b\" x \"x\""), "x*2 <a b>*2");
    assert_eq!(display("parse_it parseIt"), "pars*2 parseit*2");
}

#[test]
fn any_text_is_a_query() {
    assert_eq!(display("How do I deploy on Fridays?"), "deploy friday on");
    assert_eq!(display("what did you do?"), "did do what you");
    assert_eq!(display("\"to be\" question"), "question <to be>");
    assert_eq!(display("“rolling back” \"x\" \"\" \"open end"), "end open x <roll back>");
    assert_eq!(display("AND OR NOT (* ^ NEAR/2 a:b"), "2 and b near not or");
    assert_eq!(display("\"parseHttp\" getHttp"), "get gethttp http <pars http>");
    assert_eq!(display("\" ' ; --"), "");
}

/// Scores every chunk by the texts alone, and returns those with a term of the query and an allowed document.
fn score_all(
    index: &DocumentIndex,
    query: &str,
    ranking: Ranking,
    is_allowed: impl Fn(u32) -> bool,
) -> Vec<(u32, f64)> {
    struct Text {
        document: u32,
        kind: FileKind,
        words: u32,
        terms: BTreeMap<String, (FieldCounts, Vec<u32>)>,
    }
    let mut texts = Vec::new();
    for document in 0..index.len() {
        let Document { path, content, .. } = index.document(document).unwrap();
        for chunk in index.chunks(document).unwrap() {
            let (mut terms, counts) = (BTreeMap::new(), chunk.terms(&path, &content));
            counts.for_each(|_, term, counts, positions| {
                terms.insert(term.to_owned(), (counts, positions.to_vec()));
            });
            let kind = FileKind::of_path(&path);
            texts.push(Text { document, kind, words: counts.total, terms });
        }
    }
    let of_term = |text: &Text, term: &String| text.terms.get(term).cloned().unwrap_or_default();
    let in_text = |text: &Text, clause: &Clause| match clause {
        Clause::Term(term) => ranking.count(of_term(text, term).0),
        Clause::Phrase(terms) => {
            let positions: Vec<_> = terms.iter().map(|term| of_term(text, term).1).collect();
            let begins = positions[0].iter().filter(|begin| {
                positions.iter().zip(**begin..).all(|(own, position)| own.contains(&position))
            });
            begins.count() as u32
        }
    };
    let total: u32 = texts.iter().map(|text| text.words).sum();
    let avg_words = f64::from(total) / texts.len() as f64;
    let avg_document_words = f64::from(total) / f64::from(index.len());
    let code = texts.iter().filter(|text| text.kind != FileKind::Prose).count();
    let k1 = match ranking {
        Ranking::Fields => field_k1(code as f64 / texts.len() as f64),
        Ranking::Body => K1,
    };
    let mut scores = vec![(false, 0.0); texts.len()];
    for (clause, in_query) in clauses(query) {
        let counts: Vec<u32> = texts.iter().map(|text| in_text(text, &clause)).collect();
        let matching = counts.iter().filter(|count| **count > 0).count();
        let weight = idf(matching as u32, texts.len()) * f64::from(in_query);
        for ((text, count), (is_match, score)) in texts.iter().zip(&counts).zip(&mut scores) {
            let same = |(other, _): &(&Text, &u32)| other.document == text.document;
            let (in_document, document_words) = texts
                .iter()
                .zip(&counts)
                .filter(same)
                .fold((0, 0), |sum, (text, count)| (sum.0 + count, sum.1 + text.words));
            let kind = match (ranking, text.kind) {
                (Ranking::Fields, FileKind::Test) => TEST_WEIGHT,
                _ => 1.0,
            };
            let own = tf_factor(k1, *count, text.words, avg_words);
            let whole = tf_factor(K1, in_document, document_words, avg_document_words);
            let share = ranking.document_share();
            *score += weight * (kind * own) + weight * (kind * share * whole);
            *is_match |= *count > 0;
        }
    }
    let scored = (0..).zip(scores).zip(&texts);
    scored
        .filter(|((_, (is_match, _)), text)| *is_match && is_allowed(text.document))
        .map(|((chunk, (_, score)), _)| (chunk, score))
        .collect()
}

/// The documents of an update: for each a number, and the words of its sections.
fn update() -> impl Strategy<Value = Vec<(usize, Vec<String>)>> {
    let sections = prop::collection::vec("([k-p]q ){1,9}", 0..6);
    prop::collection::vec((0..24_usize, sections), 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    /// In many segments, with deleted documents, long documents, fields, phrases and ties.
    #[test]
    fn pruning_equals_scoring_every_chunk(
        updates in prop::collection::vec(update(), 1..5),
        queries in prop::collection::vec("([k-q]q |\"[k-m]q [k-m]q\" ){1,6}", 1..6),
        denied in 0..4_u32,
    ) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pannier-lexical-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let (docs, index) = (folder.join("docs"), folder.join("index"));
        for name in ["", "kq", "lq"] {
            fs::create_dir_all(docs.join(name)).unwrap();
        }
        for update in updates {
            for (number, sections) in update {
                let text = sections.iter().map(|words| format!("# {number}\n\n{words}\n\n"));
                let kind = [".md", ".txt", ".lua", "_test.lua"][number % 4];
                let path = docs.join(format!("{}{number}{kind}", ["kq/", "lq/", ""][number % 3]));
                fs::write(path, text.collect::<String>()).unwrap();
            }
            build(&DocumentSource::new(&docs), &index, &BuildOptions::default(), &mut |_| {}).unwrap();
        }
        let index = DocumentIndex::open(&index).unwrap();
        let is_allowed = |document| denied == 0 || document % 4 != denied;
        for (query, ranking) in queries.iter().flat_map(|query| [(query, Ranking::Fields), (query, Ranking::Body)]) {
            let mut expected = score_all(&index, query, ranking, is_allowed);
            expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let pruned = Bm25Query::new(&index, query, ranking).unwrap();
            for count in [1, 2, 3, 5, 10, 1_000] {
                let best = pruned.top_k(count, is_allowed, |chunk| (0, chunk)).unwrap();
                let best: Vec<_> = best.into_iter().map(|(chunk, own)| (chunk, own.score)).collect();
                prop_assert_eq!(&best, &expected[..expected.len().min(count)], "{} {:?}", query, ranking);
            }
        }
        prop_assert_eq!(verify(&folder.join("index")).unwrap(), Vec::<String>::new());
        fs::remove_dir_all(&folder).unwrap();
    }
}
