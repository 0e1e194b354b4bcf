//! Checks a collection: analyzes every document again, and compares what is stored.

use std::collections::{BTreeMap, BTreeSet};

use pannier_docs::corpus::{AnalyzedDocument, Corpus, map_all, vector_key};
use pannier_docs::{DocsError, DocumentMetadata};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::copy::int;
use crate::lexical::date;
use crate::snapshot::Snapshot;

/// The number of documents that are checked at once.
const BATCH_DOCUMENTS: i64 = 256;

/// Returns the problems of a collection, one line each.
pub(crate) fn verify(snapshot: &Snapshot) -> Result<Vec<String>, DocsError> {
    let mut problems = Vec::new();
    let sizes = snapshot.manifest().chunk_sizes;
    if snapshot.manifest().chunking != pannier_docs::corpus::chunking_version(sizes) {
        return Err(DocsError::Outdated { path: snapshot.location().to_owned() });
    }
    let (mut last, mut terms, mut totals) = (i32::MIN, 0_i64, [0_u64; 3]);
    loop {
        let sql = "SELECT id, path, hash, title, date, content, kind::int, words, chunk_words, chunk_count,
                 term_count, bytes, id_path
             FROM pannier.document WHERE collection = $1 AND id > $2 ORDER BY id LIMIT $3";
        let rows = snapshot.query(
            sql,
            vec![
                (Box::new(snapshot.collection), Type::INT4),
                (Box::new(last), Type::INT4),
                (Box::new(BATCH_DOCUMENTS), Type::INT8),
            ],
        )?;
        let Some(end) = rows.last() else { break };
        last = end.get(0);
        let analyzed = map_all(&rows, |row: &Row| {
            let mut given = DocumentMetadata::default();
            given.title = row.get(3);
            given.date = row.get::<_, Option<i64>>(4).and_then(date);
            let content = String::from_utf8_lossy(row.get(5)).into_owned();
            AnalyzedDocument::new(row.get(1), content, given, sizes)
        });
        let (mut owners, mut names, mut expected) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (mut chunks, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for (row, document) in rows.iter().zip(&analyzed) {
            let id: i32 = row.get(0);
            if row.get::<_, &[u8]>(2) != document.hash {
                problems.push(format!("{}: its text does not match its hash", document.path));
            }
            let counts = [
                document.kind.as_byte().into(),
                int(document.words),
                int(document.chunk_words),
                int(document.chunks.len()),
                int(document.terms().len()),
                int(document.content.len()),
            ];
            let is_same =
                (6..).zip(counts).all(|(column, count)| row.get::<_, i32>(column) == count);
            if !is_same || row.get::<_, &str>(12) != document.path.to_lowercase() {
                problems.push(format!("{}: its row does not match its text", document.path));
            }
            for (chunk, sequence) in document.chunks.iter().zip(0_i32..) {
                let numbers = [chunk.range.start, chunk.range.len(), chunk.line].map(int);
                let texts = [&chunk.heading_path, &chunk.symbols, &chunk.fence].map(Clone::clone);
                chunks.insert((id, sequence), (numbers, texts));
            }
            if let Some(model) = &snapshot.manifest().model {
                for ((_, text), sequence) in document.embedded_texts().zip(0_i32..) {
                    keys.insert((id, sequence), (vector_key(&text), int(model.dimensions)));
                }
            }
            totals[0] += 1;
            totals[1] += document.content.len() as u64;
            totals[2] += document.chunks.len() as u64;
            for term in document.terms() {
                owners.push(id);
                names.push(term.term.to_owned());
                let (max_count, min_words) = term.bound();
                let numbers = [
                    int(term.count()),
                    int(document.chunk_words),
                    int(max_count),
                    int(min_words),
                    int(term.chunks.len()),
                    int(term.body_chunks()),
                ];
                let own = (term.encode(), numbers, document.kind.is_test());
                expected.insert((id, term.term.to_owned()), own);
            }
        }
        terms += expected.len() as i64;
        let sql = "SELECT p.document, p.term, p.places, p.count, p.words, p.max_count, p.min_words, p.chunks,
                 p.body_chunks, p.is_test
             FROM unnest($2::int[], $3::text[]) AS t(document, term)
             JOIN pannier.posting p ON p.collection = $1 AND p.term = t.term AND p.document = t.document";
        let found = snapshot.query(
            sql,
            vec![
                (Box::new(snapshot.collection), Type::INT4),
                (Box::new(owners), Type::INT4_ARRAY),
                (Box::new(names), Type::TEXT_ARRAY),
            ],
        )?;
        for row in found {
            let key = (row.get(0), row.get(1));
            let numbers: [i32; 6] = std::array::from_fn(|index| row.get(3 + index));
            if expected.get(&key) == Some(&(row.get(2), numbers, row.get(9))) {
                expected.remove(&key);
            }
        }
        let ids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        let of_documents =
            |sql: &str| snapshot.query(sql, vec![(Box::new(ids.clone()), Type::INT4_ARRAY)]);
        let (mut wrong_chunks, mut wrong_vectors) = (BTreeSet::new(), BTreeSet::new());
        let sql = "SELECT document, sequence, start, bytes, line, headings, symbols, fence
             FROM pannier.chunk WHERE document = ANY($1)";
        for row in of_documents(sql)? {
            let numbers: [i32; 3] = std::array::from_fn(|index| row.get(2 + index));
            let texts: [String; 3] = std::array::from_fn(|index| row.get(5 + index));
            if chunks.remove(&(row.get(0), row.get(1))) != Some((numbers, texts)) {
                wrong_chunks.insert(row.get::<_, i32>(0));
            }
        }
        wrong_chunks.extend(chunks.keys().map(|(id, _)| *id));
        if snapshot.manifest().model.is_some() {
            let sql = "SELECT document, sequence, key, vector_dims(vector) FROM pannier.embedding
                 WHERE document = ANY($1)";
            for row in of_documents(sql)? {
                let own = keys.remove(&(row.get(0), row.get(1)));
                let is_same = own.is_some_and(|(key, dimensions)| {
                    row.get::<_, &[u8]>(2) == key && row.get::<_, i32>(3) == dimensions
                });
                if !is_same {
                    wrong_vectors.insert(row.get::<_, i32>(0));
                }
            }
            wrong_vectors.extend(keys.keys().map(|(id, _)| *id));
        }
        let wrong_postings: BTreeSet<i32> = expected.keys().map(|(id, _)| *id).collect();
        let path = |id: i32| {
            let own = rows.iter().position(|row| row.get::<_, i32>(0) == id);
            own.map_or("", |index| &analyzed[index].path)
        };
        for (part, wrong) in
            [("postings", wrong_postings), ("chunks", wrong_chunks), ("vectors", wrong_vectors)]
        {
            let problem = |id| format!("{}: its {part} are wrong", path(id));
            problems.extend(wrong.into_iter().map(problem));
        }
    }
    let sql = "SELECT count(*) FROM pannier.posting WHERE collection = $1";
    let rows = snapshot.query(sql, vec![(Box::new(snapshot.collection), Type::INT4)])?;
    if rows.first().map(|row| row.get::<_, i64>(0)) != Some(terms) {
        problems.push("there are postings of no document".to_owned());
    }
    let manifest = snapshot.manifest();
    if totals != [manifest.documents.into(), manifest.bytes, manifest.chunks] {
        problems.push("the statistics do not match the documents".to_owned());
    }
    Ok(problems)
}
