//! The vectors of documents that are written. Those of unchanged chunks are reused.

use std::collections::BTreeMap;

use pannier_docs::corpus::{AnalyzedDocument, vector_key};
use pannier_docs::{DocsError, VectorSource};
use tokio_postgres::types::Type;

use crate::batch::DocumentVectors;
use crate::load::Target;

/// The number of texts that are embedded at once.
const EMBED_BATCH_TEXTS: usize = 64;

impl Target<'_> {
    /// Returns the vectors of each document's chunks. Those of unchanged chunks are reused.
    pub(crate) fn vectors(
        &mut self,
        documents: &[AnalyzedDocument],
        source: VectorSource<'_>,
    ) -> Result<Vec<DocumentVectors>, DocsError> {
        let mut all = vec![Vec::new(); documents.len()];
        match source {
            VectorSource::Imported(imported) => {
                let (mut missing, mut count) = (None, 0);
                for (document, own) in documents.iter().zip(&mut all) {
                    for (id, text) in document.embedded_texts() {
                        match imported.get(&id) {
                            Some(vector) => own.push((vector_key(&text), vector.to_vec())),
                            None => {
                                count += 1;
                                missing.get_or_insert((id, text));
                            }
                        }
                    }
                }
                if let Some((id, text)) = missing {
                    let words: Vec<&str> = text.split_whitespace().collect();
                    let text = words.join(" ").chars().take(40).collect();
                    return Err(DocsError::NoVector { count, id, text });
                }
            }
            VectorSource::Embedder(embedder) => {
                let texts: Vec<Vec<(String, String)>> =
                    documents.iter().map(|document| document.embedded_texts().collect()).collect();
                let mut known = self.known_vectors(documents)?;
                let mut new: BTreeMap<[u8; 16], &str> = BTreeMap::new();
                for (_, text) in texts.iter().flatten() {
                    let key = vector_key(text);
                    if !known.contains_key(&key) {
                        new.insert(key, text);
                    }
                }
                let new: Vec<([u8; 16], &str)> = new.into_iter().collect();
                for batch in new.chunks(EMBED_BATCH_TEXTS) {
                    let texts: Vec<&str> = batch.iter().map(|(_, text)| *text).collect();
                    let vectors = embedder.embed(&texts).map_err(DocsError::Embedder)?;
                    let dimensions = embedder.model().dimensions as usize;
                    let is_wrong = |vector: &Vec<i16>| vector.len() != dimensions;
                    if vectors.len() != texts.len() || vectors.iter().any(is_wrong) {
                        let path = embedder.model().name.clone().into();
                        let problem = format!(
                            "it did not return a vector of {dimensions} dimensions for each text"
                        );
                        return Err(DocsError::Model { path, problem });
                    }
                    self.embedded += texts.len() as u64;
                    known.extend(batch.iter().map(|(key, _)| *key).zip(vectors));
                }
                for (texts, own) in texts.iter().zip(&mut all) {
                    let keys = texts.iter().map(|(_, text)| vector_key(text));
                    own.extend(keys.map(|key| (key, known.get(&key).cloned().unwrap_or_default())));
                }
            }
            _ => {}
        }
        Ok(all)
    }

    /// Returns the vectors that the stored versions of documents have, by key.
    fn known_vectors(
        &self,
        documents: &[AnalyzedDocument],
    ) -> Result<BTreeMap<[u8; 16], Vec<i16>>, DocsError> {
        let paths: Vec<String> = documents.iter().map(|document| document.path.clone()).collect();
        let id = self.id;
        let rows = self.connection.call(move |client, _| async move {
            let sql =
                "SELECT e.key, e.vector::real[] FROM pannier.embedding e JOIN pannier.document d
                 ON d.id = e.document WHERE d.collection = $1 AND d.path = ANY($2)";
            client.query_typed(sql, &[(&id, Type::INT4), (&paths, Type::TEXT_ARRAY)]).await
        })?;
        let vectors = rows.into_iter().filter_map(|row| {
            let key = <[u8; 16]>::try_from(row.get::<_, &[u8]>(0)).ok()?;
            let vector: Vec<f32> = row.get(1);
            Some((key, vector.into_iter().map(|number| number as i16).collect()))
        });
        Ok(vectors.collect())
    }
}
