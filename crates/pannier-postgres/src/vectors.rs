//! Vector search: exact up to [`EXACT_MAX_CHUNKS`] chunks, and by an HNSW index above.
//!
//! Vectors are stored with their integer components, so the exact dot product is computed again for the candidates. pgvector adds
//! up in single precision, so its order is only nearly right; its error is bounded, and chunks within that bound are read, too.

use pannier_docs::corpus::ChunkRef;
use pannier_docs::{DocsError, dot_product};
use tokio_postgres::types::Type;

use crate::connection::Connection;
use crate::filter::{DocumentFilter, Parameter};
use crate::lexical::{Documents, FoundDocument, date, query, query_with};

/// The number of chunks up to which every vector is compared with the query.
pub const EXACT_MAX_CHUNKS: u64 = 50_000;

/// The maximum number of dimensions that pgvector stores.
pub const MAX_DIMENSIONS: u32 = 16_000;

/// Above, pgvector indexes only vectors of half precision.
const MAX_SINGLE_DIMENSIONS: u32 = 2_000;

/// Above, pgvector has no index, and search is exact.
const MAX_INDEXED_DIMENSIONS: u32 = 4_000;

/// The neighbors of a vector in the index, and the candidates for them. With less, the index misses more.
pub(crate) const HNSW: &str = "m = 24, ef_construction = 256";

/// The candidates that a search of the index keeps: as many as pgvector allows. With 400, it takes half the time and misses four
/// times as many; see the figures in docs/reference/postgres.md.
const EF_SEARCH: u32 = 1_000;

/// The beginning of the name of a collection's index; its number follows.
pub(crate) const INDEX_PREFIX: &str = "embedding_hnsw_";

/// Returns the name of the index of a collection.
pub(crate) fn index_name(collection: i32) -> String {
    format!("{INDEX_PREFIX}{collection}")
}

/// Returns the type that an index of these dimensions has, if there can be one.
pub(crate) fn indexed_type(dimensions: u32) -> Option<String> {
    match dimensions {
        0 => None,
        1..=MAX_SINGLE_DIMENSIONS => Some(format!("vector({dimensions})")),
        _ if dimensions <= MAX_INDEXED_DIMENSIONS => Some(format!("halfvec({dimensions})")),
        _ => None,
    }
}

/// Returns the settings of a transaction that searches the index. Long vectors are stored apart from their rows, so the planner
/// takes reading and sorting all of them for cheap. With a filter, that may be cheap, and the planner decides.
fn settings(is_filtered: bool) -> String {
    let sort = if is_filtered { "on" } else { "off" };
    format!(
        "SET LOCAL hnsw.ef_search = {EF_SEARCH}; SET LOCAL hnsw.iterative_scan = strict_order;
         SET LOCAL enable_sort = {sort}"
    )
}

/// Chunks with their dot products.
type Nearest = Vec<(ChunkRef, i32)>;

/// A vector search of a collection.
pub(crate) struct VectorQuery<'s> {
    pub(crate) connection: &'s Connection,
    pub(crate) collection: i32,
    pub(crate) vector: &'s [i16],
    /// Whether the index is searched.
    pub(crate) is_indexed: bool,
}

impl VectorQuery<'_> {
    /// Returns the `count` chunks with the largest positive dot products. `tie_break` orders those with equal products.
    pub(crate) fn top_k<K: Ord>(
        &self,
        count: usize,
        filter: &DocumentFilter,
        documents: &mut Documents,
        tie_break: impl Fn(&Documents, ChunkRef) -> K,
    ) -> Result<Vec<(ChunkRef, i32)>, DocsError> {
        if count == 0 || self.vector.is_empty() {
            return Ok(Vec::new());
        }
        let mut limit = i64::try_from(count.saturating_add(count / 4 + 10)).unwrap_or(i64::MAX);
        let mut min_product = 0.0;
        let mut is_indexed = self.is_indexed;
        let error = self.max_error();
        loop {
            let (mut ranked, rows, last) =
                self.nearest(is_indexed, limit, min_product, filter, documents)?;
            ranked.sort_by_key(|(chunk, product)| {
                (-i64::from(*product), tie_break(documents, *chunk))
            });
            let threshold = ranked.get(count - 1).map(|(_, product)| f64::from(*product));
            // The index gives up after many chunks that the filter rejects. All are compared then.
            if is_indexed && threshold.is_none() {
                is_indexed = false;
                continue;
            }
            let is_enough = is_indexed
                || (rows as i64) < limit
                || threshold.is_some_and(|product| last + error < product);
            if is_enough {
                ranked.truncate(count);
                return Ok(ranked);
            }
            match threshold {
                Some(product) => (min_product, limit) = (product - error, i64::MAX),
                None => limit = limit.saturating_mul(8),
            }
        }
    }

    /// Returns the bound on the error of a dot product in single precision.
    fn max_error(&self) -> f64 {
        let length =
            self.vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
        (self.vector.len() as f64 + 2.0) * 2.0_f64.powi(-23) * length * 33_000.0
    }

    /// Returns the chunks with the largest products, the number of rows that were read, and the product of the last in single
    /// precision.
    fn nearest(
        &self,
        is_indexed: bool,
        limit: i64,
        min_product: f64,
        filter: &DocumentFilter,
        documents: &mut Documents,
    ) -> Result<(Nearest, usize, f64), DocsError> {
        let vector: Vec<f32> = self.vector.iter().map(|number| f32::from(*number)).collect();
        let dimensions = vector.len() as u32;
        let mut parameters: Vec<Parameter> =
            vec![(Box::new(vector), Type::FLOAT4_ARRAY), (Box::new(limit), Type::INT8)];
        let kind = indexed_type(dimensions).filter(|_| is_indexed);
        let (own, query_vector) = match &kind {
            Some(kind) => (format!("e.vector::{kind}"), format!("$1::vector::{kind}")),
            None => ("e.vector".to_owned(), "$1::vector".to_owned()),
        };
        let bound = match is_indexed {
            true => String::new(),
            false => {
                parameters.push((Box::new(-min_product), Type::FLOAT8));
                format!("AND {own} <#> {query_vector} < ${}", parameters.len())
            }
        };
        let condition = filter.sql(&mut parameters);
        let documents_of = match filter.is_empty {
            true => String::new(),
            false => format!("JOIN pannier.document d ON d.id = e.document AND {condition}"),
        };
        // The collection is a number of ours, and the index has it as a condition. Only the vectors of the best are returned.
        let sql = format!(
            "WITH best AS MATERIALIZED (
                 SELECT e.document, e.sequence, {own} <#> {query_vector} AS distance
                 FROM pannier.embedding e {documents_of} WHERE e.collection = {} {bound}
                 ORDER BY {own} <#> {query_vector} LIMIT $2
             )
             SELECT document, sequence, d.path, d.date, e.vector::real[], -best.distance
             FROM best JOIN pannier.embedding e USING (document, sequence)
             JOIN pannier.document d ON d.id = best.document ORDER BY best.distance",
            self.collection
        );
        let rows = match is_indexed {
            true => query_with(self.connection, settings(!filter.is_empty), sql, parameters)?,
            false => query(self.connection, sql, parameters)?,
        };
        let count = rows.len();
        let last = rows.last().map_or(0.0, |row| row.get::<_, f64>(5));
        let mut ranked = Vec::with_capacity(count);
        for row in rows {
            let document = row.get::<_, i32>(0) as u32;
            let chunk = ChunkRef { document, sequence: row.get::<_, i32>(1) as u32 };
            let path: String = row.get(2);
            let components: Vec<f32> = row.get(4);
            let components: Vec<i16> = components.into_iter().map(|number| number as i16).collect();
            let product = dot_product(&components, self.vector);
            if product > 0 && filter.allows(&path) {
                let date = row.get::<_, Option<i64>>(3).and_then(date);
                documents.entry(document).or_insert(FoundDocument { path, date });
                ranked.push((chunk, product));
            }
        }
        Ok((ranked, count, last))
    }
}
