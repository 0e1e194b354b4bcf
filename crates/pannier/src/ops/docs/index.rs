//! Builds, describes and checks an index.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use pannier_docs::{
    BuildOptions, BuildSummary, ChunkSizes, DocumentIndex, DocumentMetadata, DocumentSource,
    ImportedVectors, IndexStats, Progress, VectorSource,
};
use serde::Serialize;

use super::IndexOptions;
use super::models::open_embedder;
use crate::ops::values::list;
use crate::ops::{Answer, Control, Count, Group, Request};
use crate::{Failure, Shelf};

request! {
    /// Build or update the search index of a folder.
    pub struct IndexRequest {
        /// Folder with documents [default: .]
        #[arg(value_name = "DIR")]
        #[serde(alias = "sources")]
        pub folder: Option<PathBuf>,

        /// The index.
        #[group(flatten)]
        pub index: IndexOptions,

        /// Files to index; repeatable [default: *.md]
        #[arg(long = "glob", short, value_name = "GLOB")]
        #[serde(default, alias = "globs", deserialize_with = "list")]
        pub glob: Vec<String>,

        /// Skip files that .gitignore excludes
        #[arg(long)]
        #[serde(default)]
        pub gitignore: bool,

        /// Embedding model: none, static:FOLDER, minilm:FOLDER or http://HOST/v1#MODEL
        #[arg(long, value_name = "MODEL")]
        pub embedder: Option<String>,

        /// Environment variable with the key of the embedding server
        #[arg(long, value_name = "NAME", requires = "embedder", help_heading = "Advanced", hide_short_help = true)]
        pub embedder_key_env: Option<String>,

        /// Intended size of chunks, in tokens of four bytes [default: 256]
        #[arg(long, value_name = "N", help_heading = "Advanced", hide_short_help = true)]
        pub chunk_tokens: Option<Count>,

        /// Maximum size of chunks [default: twice the intended]
        #[arg(long, value_name = "N", help_heading = "Advanced", hide_short_help = true)]
        pub max_chunk_tokens: Option<Count>,

        /// Rebuild everything, even if the index is up to date
        #[arg(long, alias = "force")]
        #[serde(default, alias = "force")]
        pub rebuild: bool,
    }
}

request! {
    /// Show index statistics.
    pub struct StatsRequest {
        /// The index.
        #[group(flatten)]
        pub index: IndexOptions,
    }
}

request! {
    /// Check index integrity.
    pub struct VerifyRequest {
        /// The index.
        #[group(flatten)]
        pub index: IndexOptions,
    }
}

/// The problems of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct VerifyAnswer {
    /// Whether there are none.
    pub is_sound: bool,
    /// The problems, one line each.
    pub problems: Vec<String>,
}

impl Answer for BuildSummary {
    fn text(&self) -> Cow<'_, str> {
        let documents = self.documents;
        match self.is_unchanged {
            true => format!("{documents} documents, nothing has changed\n"),
            false => {
                let (reused, chunks, terms) = (self.reused, self.chunks, self.terms);
                let vectors = match self.embedded {
                    0 => String::new(),
                    count => format!(", {count} new vectors"),
                };
                format!("{documents} documents ({reused} unchanged), {chunks} chunks, {terms} words{vectors}\n")
            }
        }
        .into()
    }
}

impl Answer for IndexStats {
    fn text(&self) -> Cow<'_, str> {
        let manifest = &self.manifest;
        let (documents, chunks, terms) = (manifest.documents, manifest.chunks, manifest.terms);
        format!("{documents} documents, {chunks} chunks, {terms} words\n").into()
    }
}

impl Answer for VerifyAnswer {
    fn text(&self) -> Cow<'_, str> {
        match self.is_sound {
            true => "sound\n".into(),
            false => (self.problems.join("\n") + "\n").into(),
        }
    }
}

impl IndexRequest {
    /// Builds or updates the index, with titles, dates and embeddings of the caller, and reports the progress.
    ///
    /// # Errors
    ///
    /// Any error of `pannier-docs`; [`Failure::Request`] on a server's shelf.
    pub fn build(
        &self,
        shelf: &Shelf,
        metadata: BTreeMap<String, DocumentMetadata>,
        embeddings: Option<&ImportedVectors>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BuildSummary, Failure> {
        if !shelf.is_local() {
            let problem = "the server builds no index; ask the user to run `pannier docs index`";
            return Err(Failure::Request { path: String::new(), problem: problem.to_owned() });
        }
        let folder = self.folder.clone().unwrap_or_else(|| PathBuf::from("."));
        let source = DocumentSource::new(folder).patterns(&self.glob);
        let source = source.respect_gitignore(self.gitignore).metadata(metadata);
        let index = shelf.index_path(self.index.index.as_deref());
        // Without a readable index, there is no model to take the identity of.
        let previous = DocumentIndex::open(&index).ok();
        let model = previous.as_ref().and_then(|previous| previous.manifest().model.as_ref());
        let key_env = self.embedder_key_env.as_deref();
        let embedder = self.embedder.as_deref().map(|name| open_embedder(name, key_env, model));
        let embedder = embedder.transpose()?;
        let vectors = match (&embedder, embeddings) {
            (_, Some(vectors)) => VectorSource::Imported(vectors),
            (Some(Some(embedder)), None) => VectorSource::Embedder(&**embedder),
            (Some(None), None) => VectorSource::None,
            (None, None) => VectorSource::Unspecified,
        };
        let chunk_sizes = chunk_sizes(self.chunk_tokens, self.max_chunk_tokens);
        let options = BuildOptions { from_scratch: self.rebuild, vectors, chunk_sizes };
        Ok(pannier_docs::build(&source, &index, &options, progress)?)
    }
}

/// Returns the sizes of chunks, if a request names one.
pub fn chunk_sizes(target: Option<Count>, max: Option<Count>) -> Option<ChunkSizes> {
    let (target, max) = (target.map(|Count(tokens)| tokens), max.map(|Count(tokens)| tokens));
    if target.is_none() && max.is_none() {
        return None;
    }
    let default = ChunkSizes::default();
    let target = target.unwrap_or(default.target.min(max.unwrap_or(usize::MAX)));
    Some(ChunkSizes::new(target, max.unwrap_or(target.saturating_mul(2))))
}

impl Request for IndexRequest {
    const GROUPS: &'static [Group] = &[Group::new::<IndexOptions>("index")];
    type Answer = BuildSummary;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<BuildSummary, Failure> {
        control.step("indexing documents")?;
        self.build(shelf, BTreeMap::new(), None, &mut |_| {})
    }
}

impl Request for StatsRequest {
    const GROUPS: &'static [Group] = &[Group::new::<IndexOptions>("index")];
    type Answer = IndexStats;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<IndexStats, Failure> {
        let index = self.index.open(shelf)?;
        control.step("inspecting the index")?;
        Ok(index.inspect()?)
    }
}

impl Request for VerifyRequest {
    const GROUPS: &'static [Group] = &[Group::new::<IndexOptions>("index")];
    type Answer = VerifyAnswer;

    fn run(self, shelf: &Shelf, control: &Control<'_>) -> Result<VerifyAnswer, Failure> {
        control.step("checking the index")?;
        let problems = match shelf.is_local() {
            true => pannier_docs::verify(&shelf.index_path(self.index.index.as_deref()))?,
            false => pannier_docs::verify(self.index.open(shelf)?.root())?,
        };
        Ok(VerifyAnswer { is_sound: problems.is_empty(), problems })
    }
}
