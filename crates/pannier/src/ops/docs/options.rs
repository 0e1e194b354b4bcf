//! Options that operations on documents share.

use std::sync::Arc;

use pannier_core::{ContextBudget, TokenCounter};
use pannier_docs::{
    AssemblyConfig, Corpus, Fusion, QueryVector, Reranker, SearchMode, SearchOptions,
};
use pannier_policy::Packing;
use serde::Deserialize;

use super::models::{open_embedder, open_reranker};
use crate::ops::pool::{DEFAULT_POLICY, DEFAULT_TOKENIZER, PolicyName};
use crate::ops::values::list;
use crate::ops::{Control, Count, Date, ReserveOptions, Tokens};
use crate::shelf::database::{address, with_collection};
use crate::{Failure, Shelf};

request! {
    /// The index of an operation.
    pub struct IndexOptions {
        /// Index directory [default: .pannier/index]
        #[arg(long, alias = "cache", value_name = "DIR")]
        #[serde(alias = "cache")]
        pub index: Option<String>,

        /// Collection of a database, with --index postgres://…
        #[arg(long, value_name = "NAME", help_heading = "Advanced", hide_short_help = true)]
        #[serde(skip)]
        pub collection: Option<String>,
    }
}

impl IndexOptions {
    /// Opens the index.
    ///
    /// # Errors
    ///
    /// Any error of the shelf, or of `pannier-docs` if there is no index.
    pub fn open(&self, shelf: &Shelf) -> Result<Arc<dyn Corpus>, Failure> {
        shelf.index(self.name(shelf)?.as_deref())
    }

    /// Returns the name, the folder or the address of the index, with the collection that a flag names.
    pub(super) fn name(&self, shelf: &Shelf) -> Result<Option<String>, Failure> {
        let Some(collection) = &self.collection else { return Ok(self.index.clone()) };
        let path = shelf.local_index(self.index.as_deref());
        match path.as_deref().map(address).transpose()?.flatten() {
            Some(address) => Ok(Some(with_collection(address, collection))),
            None => {
                let problem = "only a database has collections; name one as the index, as in postgres://USER@HOST/DATABASE";
                Err(Failure::Request { path: "collection".into(), problem: problem.into() })
            }
        }
    }
}

request! {
    /// The budget of passages or documents, and what counts it.
    pub struct BudgetedOptions {
        /// Token budget, e.g. 8k [default: 2k; to read: 4k]
        #[arg(long, short, alias = "max-tokens", value_name = "N", allow_negative_numbers = true)]
        #[serde(alias = "max_tokens")]
        pub budget: Option<Tokens>,

        /// Tokens kept free for the model's output [default: 0]
        #[arg(long, short, value_name = "N", allow_negative_numbers = true)]
        pub reserve: Option<Tokens>,

        /// Model, encoding or file:PATH [default: o200k]
        #[arg(long, short, short_alias = 'm', alias = "model", value_name = "NAME")]
        #[serde(alias = "model")]
        pub tokenizer: Option<String>,
    }
}

impl BudgetedOptions {
    /// Returns the budget.
    pub(super) fn read(&self, default: i64, shelf: &Shelf) -> Result<ContextBudget, Failure> {
        let Tokens(window) = self.budget.or(shelf.defaults().budget).unwrap_or(Tokens(default));
        let reserves = ReserveOptions { reserve: self.reserve, ..ReserveOptions::default() };
        reserves.budget(window, None)
    }

    pub(super) fn counter(
        &self,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<Arc<dyn TokenCounter>, Failure> {
        shelf.counter(self.tokenizer.as_deref(), DEFAULT_TOKENIZER, control)
    }
}

request! {
    /// Which passages are found, and how they are ranked.
    pub struct QueryOptions {
        /// Documents to search, e.g. 'guides/**'; repeatable
        #[arg(long = "glob", short = 'g', alias = "path", value_name = "GLOB")]
        #[serde(default, alias = "globs", deserialize_with = "list")]
        pub paths: Vec<String>,

        /// Only documents dated on or after, e.g. 2026-03-01
        #[arg(long, value_name = "DATE", help_heading = "Advanced", hide_short_help = true)]
        pub after: Option<Date>,

        /// Only documents dated before
        #[arg(long, value_name = "DATE", help_heading = "Advanced", hide_short_help = true)]
        pub before: Option<Date>,

        /// Text that passages must contain, ignoring case; repeatable
        #[arg(long, alias = "contains", value_name = "TEXT", help_heading = "Advanced", hide_short_help = true)]
        #[serde(default, alias = "contains", deserialize_with = "list")]
        pub must_contain: Vec<String>,

        /// Retrievers: hybrid, lexical or semantic [default: hybrid]
        #[arg(long, value_name = "MODE", hide_possible_values = true, help_heading = "Advanced", hide_short_help = true)]
        pub mode: Option<Retrievers>,

        /// Passages of each retriever [default: 50]
        #[arg(long, value_name = "N", help_heading = "Advanced", hide_short_help = true)]
        pub candidates: Option<Count>,

        /// Passages after fusion [default: 100]
        #[arg(long, alias = "top-k", value_name = "N", help_heading = "Advanced", hide_short_help = true)]
        #[serde(alias = "top_k")]
        pub limit: Option<Count>,

        /// Passages of the lexical retriever
        #[arg(long, value_name = "N", hide = true)]
        pub lexical_k: Option<Count>,

        /// Passages of the semantic retriever
        #[arg(long, value_name = "N", hide = true)]
        pub semantic_k: Option<Count>,

        /// Merge of both retrievers: score or rrf [default: score]
        #[arg(long, value_name = "FUSION", hide_possible_values = true, help_heading = "Advanced", hide_short_help = true)]
        pub fusion: Option<FusionName>,

        /// RRF constant k; larger values flatten rank differences [default: 60]
        #[arg(long, value_name = "K", help_heading = "Advanced", hide_short_help = true)]
        pub rrf_k: Option<u32>,

        /// Weight of the lexical retriever, an integer [default: 1]
        #[arg(long, value_name = "WEIGHT", help_heading = "Advanced", hide_short_help = true)]
        pub lexical_weight: Option<u32>,

        /// Weight of the semantic retriever, an integer [default: 1]
        #[arg(long, value_name = "WEIGHT", help_heading = "Advanced", hide_short_help = true)]
        pub semantic_weight: Option<u32>,

        /// Rank the later document first if scores are equal
        #[arg(long, help_heading = "Advanced", hide_short_help = true)]
        #[serde(default)]
        pub prefer_recent: bool,

        /// Embedding model: none, static:FOLDER, minilm:FOLDER or http://HOST/v1#MODEL
        #[arg(long, value_name = "MODEL", help_heading = "Advanced", hide_short_help = true)]
        pub embedder: Option<String>,

        /// Environment variable with the key of the embedding server
        #[arg(long, value_name = "NAME", requires = "embedder", help_heading = "Advanced", hide_short_help = true)]
        pub embedder_key_env: Option<String>,

        /// Model that ranks the best 50 passages again: none or http://HOST/v1#MODEL
        #[arg(long, value_name = "MODEL", help_heading = "Advanced", hide_short_help = true)]
        pub reranker: Option<String>,

        /// Environment variable with the key of the reranking server
        #[arg(long, value_name = "NAME", requires = "reranker", help_heading = "Advanced", hide_short_help = true)]
        pub reranker_key_env: Option<String>,

        /// Embedding of the query, for an index with your own embeddings
        #[arg(skip)]
        #[serde(alias = "query_vector")]
        pub query_embedding: Option<Vec<f32>>,
    }
}

/// The retrievers of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Retrievers {
    /// Lexical, and semantic if the index has embeddings
    #[default]
    Hybrid,
    /// BM25
    Lexical,
    /// Embeddings
    Semantic,
}

/// How the rankings of two retrievers are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FusionName {
    /// By their scores
    Score,
    /// By reciprocal ranks
    Rrf,
}

impl QueryOptions {
    /// Returns the options of a search.
    pub fn search(&self) -> SearchOptions {
        self.search_from(SearchOptions::default())
    }

    /// Returns the options of a search, with other defaults.
    pub fn search_from(&self, defaults: SearchOptions) -> SearchOptions {
        let mut search = defaults;
        search.fusion = match self.fusion {
            Some(FusionName::Score) => Fusion::Score,
            Some(FusionName::Rrf) => Fusion::Rrf,
            None => search.fusion,
        };
        search.mode = match self.mode.unwrap_or_default() {
            Retrievers::Hybrid => SearchMode::Hybrid,
            Retrievers::Lexical => SearchMode::Lexical,
            Retrievers::Semantic => SearchMode::Semantic,
        };
        let set = |option: &mut usize, values: [Option<Count>; 2]| {
            let value = values.into_iter().flatten().next();
            *option = value.map_or(*option, |Count(count)| count);
        };
        set(&mut search.lexical_k, [self.lexical_k, self.candidates]);
        set(&mut search.semantic_k, [self.semantic_k, self.candidates]);
        set(&mut search.top_k, [self.limit, None]);
        search.rrf_k = self.rrf_k.unwrap_or(search.rrf_k);
        search.lexical_weight = self.lexical_weight.unwrap_or(search.lexical_weight);
        search.semantic_weight = self.semantic_weight.unwrap_or(search.semantic_weight);
        search.prefer_recent = self.prefer_recent;
        let filters = &mut search.filters;
        (filters.paths, filters.contains) = (self.paths.clone(), self.must_contain.clone());
        filters.after = self.after.map(|Date(time)| time);
        filters.before = self.before.map(|Date(time)| time);
        search
    }

    /// Calls a function with the source of the query's embedding: the request's own, its model, or that of the shelf.
    ///
    /// # Errors
    ///
    /// An error of the model, of the embedding or of the function.
    pub fn with_vector<T>(
        &self,
        index: &dyn Corpus,
        shelf: &Shelf,
        call: impl FnOnce(QueryVector<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Some(embedding) = &self.query_embedding {
            let vector = pannier_docs::quantize(embedding).ok_or_else(|| Failure::Request {
                path: "query_embedding".to_owned(),
                problem: "write an array of numbers that are not all 0, as in [0.1, -0.2]"
                    .to_owned(),
            })?;
            return call(QueryVector::Given(&vector));
        }
        self.check_models(shelf)?;
        match &self.embedder {
            Some(name) if !shelf.is_local() => {
                call(QueryVector::Embedder(&**shelf.named().embedder(name)?))
            }
            Some(name) => match open_embedder(name, self.embedder_key_env.as_deref(), None)? {
                Some(embedder) => call(QueryVector::Embedder(&*embedder)),
                None => call(QueryVector::None),
            },
            None => call(shelf.query_vector(index)),
        }
    }

    /// Fails if a request to a server names a variable: a client must not choose what is sent to the servers of models.
    fn check_models(&self, shelf: &Shelf) -> Result<(), Failure> {
        let options = [
            ("embedder_key_env", &self.embedder_key_env),
            ("reranker_key_env", &self.reranker_key_env),
        ];
        let named = options.into_iter().find(|(_, option)| option.is_some() && !shelf.is_local());
        match named {
            None => Ok(()),
            Some((option, _)) => Err(Failure::Request {
                path: option.to_owned(),
                problem: format!("the server has the keys of its models; omit {option}"),
            }),
        }
    }

    /// Opens the reranker, if the request names one. A server's shelf has it open already.
    ///
    /// # Errors
    ///
    /// An error of the address or the key; [`Failure::Request`] if a server has none of this name.
    pub fn open_reranker(&self, shelf: &Shelf) -> Result<Option<Arc<dyn Reranker>>, Failure> {
        self.check_models(shelf)?;
        let Some(name) = &self.reranker else { return Ok(None) };
        if !shelf.is_local() {
            return shelf.named().reranker(name).cloned().map(Some);
        }
        Ok(open_reranker(name, self.reranker_key_env.as_deref())?.map(Arc::from))
    }
}

request! {
    /// How passages are packed.
    pub struct PassageOptions {
        /// Layout: grouped by document, interleaved, or ranked [default: grouped]
        #[arg(long, alias = "packing", value_name = "LAYOUT", hide_possible_values = true, help_heading = "Advanced", hide_short_help = true)]
        #[serde(alias = "packing")]
        pub layout: Option<PassageLayout>,

        /// Maximum passages per document; neighbors are not counted
        #[arg(long, alias = "max-chunks-per-doc", value_name = "N", help_heading = "Advanced", hide_short_help = true)]
        #[serde(alias = "max_chunks_per_doc")]
        pub max_per_doc: Option<Count>,

        /// Drop passages whose overlap with a better one exceeds this share [default: 0.8]
        #[arg(long, alias = "dedup-threshold", value_name = "SHARE", help_heading = "Advanced", hide_short_help = true)]
        #[serde(alias = "dedup_threshold")]
        pub near_duplicates: Option<f64>,

        /// Drop passages below this share of the best score
        #[arg(long, value_name = "SHARE")]
        pub min_score: Option<f64>,

        /// Preset or policy file that packs the passages
        #[arg(long, short, value_name = "NAME|FILE")]
        #[schema(with = "Option<String>")]
        pub policy: Option<PolicyName>,

        /// Include the chunks before and after each match
        #[arg(long, alias = "neighbours", help_heading = "Advanced", hide_short_help = true)]
        #[serde(default, alias = "neighbours")]
        pub neighbors: bool,

        /// Minimum tokens charged for the line that names a document [default: 10]
        #[arg(long, value_name = "N", hide = true)]
        pub per_doc_overhead: Option<Count>,
    }
}

/// The order in which passages are taken and laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PassageLayout {
    /// Best first, grouped by document
    #[default]
    #[cfg_attr(feature = "clap", value(alias = "greedy"))]
    #[serde(alias = "greedy")]
    Grouped,
    /// Documents in turns
    Interleaved,
    /// Best first, not grouped
    #[cfg_attr(feature = "clap", value(alias = "score-weighted"))]
    #[serde(alias = "score-weighted")]
    Ranked,
}

impl PassageOptions {
    /// Returns the configuration of a search with these options. The policy `assemble` has the defaults that are specified.
    ///
    /// # Errors
    ///
    /// As [`config_from`](Self::config_from).
    pub fn config(
        &self,
        search: &QueryOptions,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<AssemblyConfig, Failure> {
        let is_specified = matches!(&self.policy, Some(PolicyName::Name(name)) if name.eq_ignore_ascii_case("assemble"));
        match is_specified {
            true => Self { policy: None, ..self.clone() }.config_from(
                AssemblyConfig::specified(),
                search,
                shelf,
                control,
            ),
            false => self.config_from(AssemblyConfig::default(), search, shelf, control),
        }
    }

    /// Returns the configuration of a search with these options and other defaults.
    ///
    /// # Errors
    ///
    /// [`Failure::Request`] if a share is not between 0 and 1, or an option has no effect with a policy; an error of the
    /// policy.
    pub fn config_from(
        &self,
        defaults: AssemblyConfig,
        search: &QueryOptions,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<AssemblyConfig, Failure> {
        let refused =
            |path: &str, problem: String| Err(Failure::Request { path: path.to_owned(), problem });
        let shares = [("near_duplicates", self.near_duplicates), ("min_score", self.min_score)];
        for (name, share) in shares {
            if let Some(share) = share.filter(|share| !(0.0..=1.0).contains(share)) {
                let problem = format!("{share} is not a share; write a number from 0 to 1");
                return refused(name, problem);
            }
        }
        let decided = [
            ("layout", self.layout.is_some()),
            ("max_per_doc", self.max_per_doc.is_some()),
            ("near_duplicates", self.near_duplicates.is_some()),
            ("min_score", self.min_score.is_some()),
        ];
        if self.policy.is_some()
            && let Some((name, _)) = decided.into_iter().find(|(_, is_set)| *is_set)
        {
            return refused(name, "the policy decides this; remove one of them".to_owned());
        }
        let policy = self.policy.as_ref();
        let policy = policy.map(|name| shelf.policy(Some(name), DEFAULT_POLICY, control));
        let mut config = defaults;
        config.search = search.search_from(config.search);
        config.packing = match self.layout.unwrap_or_default() {
            PassageLayout::Grouped => Packing::Greedy,
            PassageLayout::Interleaved => Packing::Interleaved,
            PassageLayout::Ranked => Packing::ScoreWeighted,
        };
        config.dedup_threshold = (self.near_duplicates.unwrap_or(0.8) * 1_000.0).round() as u16;
        config.min_score = self.min_score;
        config.policy = policy.transpose()?;
        config.max_chunks_per_doc = self.max_per_doc.map(|Count(count)| count);
        config.neighbors = self.neighbors;
        Ok(config)
    }
}
