//! Checks a collection: analyzes every document again, and compares what is stored.

use std::collections::BTreeMap;

use pannier_docs::corpus::{AnalyzedDocument, Corpus, map_all};
use pannier_docs::{DocsError, DocumentMetadata};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

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
        let sql = "SELECT id, path, hash, title, date, content FROM pannier.document
             WHERE collection = $1 AND id > $2 ORDER BY id LIMIT $3";
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
        for (row, document) in rows.iter().zip(&analyzed) {
            let id: i32 = row.get(0);
            if row.get::<_, &[u8]>(2) != document.hash {
                problems.push(format!("{}: its text does not match its hash", document.path));
            }
            totals[0] += 1;
            totals[1] += document.content.len() as u64;
            totals[2] += document.chunks.len() as u64;
            for term in document.terms() {
                owners.push(id);
                names.push(term.term.to_owned());
                expected.insert((id, term.term.to_owned()), term.encode());
            }
        }
        terms += expected.len() as i64;
        let sql = "SELECT p.document, p.term, p.places FROM unnest($2::int[], $3::text[]) AS t(document, term)
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
            if expected.get(&key).is_some_and(|places| places == row.get::<_, &[u8]>(2)) {
                expected.remove(&key);
            }
        }
        let mut wrong: Vec<i32> = expected.keys().map(|(id, _)| *id).collect();
        wrong.dedup();
        let path = |id: i32| {
            let own = rows.iter().position(|row| row.get::<_, i32>(0) == id);
            own.map_or("", |index| &analyzed[index].path)
        };
        problems.extend(wrong.iter().map(|id| format!("{}: its postings are wrong", path(*id))));
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
