//! The retrievers of an index folder: block-max BM25 over its posting lists, and a comparison with every vector.

use std::cmp::Reverse;
use std::path::Path;

use crate::chunk::chunk_id;
use crate::corpus::{ChunkRef, Corpus, Retrieval, Retrieved};
use crate::document_index::ChunkTable;
use crate::lexical::{Bm25Query, ExplainedScore};
use crate::source::glob_set;
use crate::vectors::nearest;
use crate::{
    DocsError, Document, DocumentIndex, DocumentInfo, Filters, Hit, IndexStats, Manifest,
    QueryVector, SearchOptions,
};

impl Corpus for DocumentIndex {
    fn manifest(&self) -> &Manifest {
        self.manifest()
    }

    fn location(&self) -> &Path {
        self.root()
    }

    fn is_current(&self) -> Result<bool, DocsError> {
        self.is_current()
    }

    fn retrieve(&self, retrieval: &Retrieval<'_>) -> Result<Retrieved, DocsError> {
        let options = retrieval.options();
        let table = self.chunk_table()?;
        let filter = ChunkFilter::new(self, &options.filters)?;
        let tie_break = TieBreak::new(self, table, options.prefer_recent)?;
        let lexical = || self.lexical_search(retrieval.query(), options, &tie_break, &filter);
        let semantic = || {
            let vector = retrieval.vector()?;
            self.vector_search(&vector, options.semantic_k, &tie_break, &filter)
        };
        // Handing work to another thread costs more than a lexical search.
        let (lexical, semantic) = match (retrieval.is_lexical(), retrieval.is_semantic()) {
            (false, _) => (Ok(Vec::new()), semantic()),
            (true, false) => (lexical(), Ok(Vec::new())),
            (true, true) => rayon::join(lexical, semantic),
        };
        let chunk_ref = |chunk| {
            let document = table.document_of(chunk);
            ChunkRef { document, sequence: chunk - table.chunks_of(document).start }
        };
        let lexical = lexical?.into_iter().map(|(chunk, own)| (chunk_ref(chunk), own));
        let semantic = semantic?.into_iter().map(|(chunk, own)| (chunk_ref(chunk), own));
        Ok(Retrieved::new(lexical.collect(), semantic.collect(), |chunk| tie_break.order(chunk)))
    }

    fn read_chunks(&self, chunks: &[ChunkRef]) -> Result<Vec<Hit>, DocsError> {
        let table = self.chunk_table()?;
        let number = |chunk: &ChunkRef| {
            let own = (chunk.document < self.len()).then(|| table.chunks_of(chunk.document))?;
            own.start.checked_add(chunk.sequence).filter(|number| own.contains(number))
        };
        chunks.iter().filter_map(number).map(|number| self.hit(table, number)).collect()
    }

    fn find_document(&self, path: &str) -> Result<Option<u32>, DocsError> {
        self.find_document(path)
    }

    fn read_documents(&self, numbers: &[u32]) -> Result<Vec<Document>, DocsError> {
        numbers.iter().map(|number| self.document(*number)).collect()
    }

    fn list_documents(&self, start: usize, count: usize) -> Result<Vec<DocumentInfo>, DocsError> {
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        (start..self.len()).take(count).map(|number| self.document_info(number)).collect()
    }

    fn inspect(&self) -> Result<IndexStats, DocsError> {
        self.inspect()
    }

    fn verify(&self) -> Result<Vec<String>, DocsError> {
        crate::verify(self.root())
    }

    fn as_index(&self) -> Option<&DocumentIndex> {
        Some(self)
    }
}

impl DocumentIndex {
    /// Searches chunks, and returns them best first.
    ///
    /// ```
    /// # use pannier_docs::{BuildOptions, DocumentIndex, QueryVector, SearchOptions, DocumentSource, build};
    /// # let folder = std::env::temp_dir().join(format!("pannier-search-{}", std::process::id()));
    /// # let (docs, index) = (folder.join("docs"), folder.join("cache"));
    /// # std::fs::create_dir_all(&docs)?;
    /// # std::fs::write(docs.join("http.md"), "# Requests\n\nCall parse_http_header first.\n\n# Bread\n\nBake it.")?;
    /// # build(&DocumentSource::new(&docs), &index, &BuildOptions::default(), &mut |_| {})?;
    /// let hits = DocumentIndex::open(&index)?.search("parseHttpHeader", &SearchOptions::default(), QueryVector::None)?;
    /// assert_eq!(hits[0].heading_path, "Requests");
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DocsError::LongQuery`], [`DocsError::Pattern`], [`DocsError::Model`] if the query vector is missing or of another
    /// model, [`DocsError::Outdated`], and [`DocsError::Invalid`] if a file that the search reads is damaged.
    pub fn search(
        &self,
        query: &str,
        options: &SearchOptions,
        vector: QueryVector<'_>,
    ) -> Result<Vec<Hit>, DocsError> {
        Corpus::search(self, query, options, vector)
    }

    /// Returns every chunk, in document order.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn all_chunks(&self) -> Result<impl Iterator<Item = Result<Hit, DocsError>>, DocsError> {
        let table = self.chunk_table()?;
        Ok((0..table.len()).map(move |chunk| self.hit(table, chunk)))
    }

    fn lexical_search(
        &self,
        query: &str,
        options: &SearchOptions,
        tie_break: &TieBreak<'_>,
        filter: &ChunkFilter<'_>,
    ) -> Result<Vec<(u32, ExplainedScore)>, DocsError> {
        let lexical = Bm25Query::new(self, query, options.ranking)?;
        filter.take_matching(options.lexical_k, tie_break.table, |count| {
            lexical.top_k(
                count,
                |document| filter.allows_document(document),
                |chunk| tie_break.key(chunk),
            )
        })
    }

    fn vector_search(
        &self,
        query_vector: &[i16],
        count: usize,
        tie_break: &TieBreak<'_>,
        filter: &ChunkFilter<'_>,
    ) -> Result<Vec<(u32, i32)>, DocsError> {
        let vectors = self.vectors()?;
        tie_break.table.expect_many();
        filter.take_matching(count, tie_break.table, |count| {
            let is_allowed = |chunk| filter.allows_document(tie_break.table.document_of(chunk));
            Ok(nearest(vectors, query_vector, count, is_allowed, |chunk| tie_break.key(chunk)))
        })
    }
}

/// The order of chunks with equal scores: by document, then by position.
struct TieBreak<'c> {
    table: &'c ChunkTable,
    index: &'c DocumentIndex,
    /// The rank of each document, unless it is that of its path.
    document_ranks: Option<Vec<u32>>,
}

impl<'c> TieBreak<'c> {
    /// Ranks documents by path, or by date first, the latest in front.
    fn new(
        index: &'c DocumentIndex,
        table: &'c ChunkTable,
        by_date: bool,
    ) -> Result<Self, DocsError> {
        if !by_date {
            return Ok(Self { table, index, document_ranks: None });
        }
        let mut documents = Vec::with_capacity(index.len() as usize);
        for document in 0..index.len() {
            let date = Reverse(index.record(document)?.metadata.date);
            documents.push((date, index.path_rank(document), document));
        }
        documents.sort_unstable();
        let mut document_ranks = vec![0; documents.len()];
        for ((_, _, document), rank) in documents.into_iter().zip(0..) {
            document_ranks[document as usize] = rank;
        }
        Ok(Self { table, index, document_ranks: Some(document_ranks) })
    }

    fn key(&self, chunk: u32) -> (u32, u32) {
        (self.rank(self.table.document_of(chunk)), chunk)
    }

    fn order(&self, chunk: ChunkRef) -> (u32, u32) {
        (self.rank(chunk.document), chunk.sequence)
    }

    fn rank(&self, document: u32) -> u32 {
        let ranks = self.document_ranks.as_ref();
        ranks.map_or_else(|| self.index.path_rank(document), |ranks| ranks[document as usize])
    }
}

impl DocumentIndex {
    /// Reads a chunk.
    fn hit(&self, table: &ChunkTable, number: u32) -> Result<Hit, DocsError> {
        let document = table.document_of(number);
        let entry = self.chunked_document(document)?;
        let sequence = number - table.chunks_of(document).start;
        let text = self.chunk_text(document, &entry, sequence)?;
        let missing = || DocsError::invalid(self.folder(), "a chunk is missing");
        let chunk = entry.chunks.get(sequence as usize).ok_or_else(missing)?;
        let id = chunk_id(&entry.id, sequence, &text);
        let of = (document, entry.record.path.as_str(), entry.record.metadata.date);
        Ok(Hit::new(id, of, sequence, chunk.clone(), text))
    }
}

/// The compiled filters of a search.
struct ChunkFilter<'c> {
    index: &'c DocumentIndex,
    /// Whether each document is allowed; `None` allows all.
    documents: Option<Vec<bool>>,
    /// Lowercased strings.
    contains: Vec<String>,
}

impl<'c> ChunkFilter<'c> {
    fn new(index: &'c DocumentIndex, filters: &Filters) -> Result<Self, DocsError> {
        let Filters { paths, after, before, contains } = filters;
        let contains = contains.iter().map(|text| text.to_lowercase()).collect();
        if paths.is_empty() && after.is_none() && before.is_none() {
            return Ok(Self { index, documents: None, contains });
        }
        let globs = glob_set(paths)?;
        let is_allowed = |document: u32| {
            let record = index.record(document)?;
            let date = record.metadata.date;
            let is_after = after.is_none_or(|after| date.is_some_and(|date| date >= after));
            let is_before = before.is_none_or(|before| date.is_some_and(|date| date < before));
            Ok(is_after && is_before && (paths.is_empty() || globs.is_match(&record.path)))
        };
        let documents = (0..index.len()).map(is_allowed).collect::<Result<_, DocsError>>()?;
        Ok(Self { index, documents: Some(documents), contains })
    }

    /// Returns whether a document is allowed.
    fn allows_document(&self, document: u32) -> bool {
        self.documents.as_ref().is_none_or(|documents| documents[document as usize])
    }

    /// Returns the top `count` chunks of a retriever that contain all required strings. Only the texts of the highest ranks are
    /// read: the retriever is asked for more until enough remain.
    fn take_matching<S>(
        &self,
        count: usize,
        table: &ChunkTable,
        retrieve: impl Fn(usize) -> Result<Vec<(u32, S)>, DocsError>,
    ) -> Result<Vec<(u32, S)>, DocsError> {
        if self.contains.is_empty() {
            return retrieve(count);
        }
        let mut requested = count.max(1);
        loop {
            let ranked = retrieve(requested)?;
            let is_all = ranked.len() < requested;
            let mut kept = Vec::new();
            for (chunk, score) in ranked {
                let document = table.document_of(chunk);
                let entry = self.index.chunked_document(document)?;
                let sequence = chunk - table.chunks_of(document).start;
                let text = self.index.chunk_text(document, &entry, sequence)?;
                let text = text.to_lowercase();
                if self.contains.iter().all(|required| text.contains(required)) {
                    kept.push((chunk, score));
                }
            }
            if is_all || kept.len() >= count {
                kept.truncate(count);
                return Ok(kept);
            }
            requested = requested.saturating_mul(8);
        }
    }
}
