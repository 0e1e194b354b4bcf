//! Operations on document indexes: search passages, read documents, build and check an index.

mod index;
mod models;
mod options;
mod read;
mod records;
mod search;

pub use index::{
    IndexInputs, IndexRequest, StatsRequest, VerifyAnswer, VerifyRequest, chunk_sizes,
};
pub use models::{open_embedder, open_reranker};
pub use options::{
    BudgetedOptions, FusionName, IndexOptions, PassageLayout, PassageOptions, QueryOptions,
    Retrievers,
};
pub use read::{FoundDocument, FoundDocuments, OmittedDocument, ReadAnswer, ReadPool, ReadRequest};
pub use records::Bound;
pub use search::{
    ExplainedPassage, FoundPassage, FoundPassages, OmittedPassage, SearchAnswer, SearchPool,
    SearchRequest,
};
