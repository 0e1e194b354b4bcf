//! Builds, describes and checks an index.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pannier_docs::{
    BuildOptions, BuildSummary, ChunkSizes, Corpus, DocsError, DocumentMetadata, DocumentSource,
    Embedder, EmbedderError, FileRules, ImportedVectors, IndexStats, Manifest, Model, PathCount,
    Progress, VectorSource,
};
use serde::Serialize;

use super::IndexOptions;
use super::models::open_embedder;
use crate::ops::values::list;
use crate::ops::{Answer, Control, Count, Group, Request};
use crate::shelf::database::{DatabaseIndex, address};
use crate::{Failure, Shelf};

/// How often and after which delay a search tries again to update an index that is being built.
const MAX_BUSY_RETRIES: u32 = 20;
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(20);

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

        /// Files to index; `!` excludes; repeatable [default: all text]
        #[arg(long = "glob", short, value_name = "GLOB")]
        #[serde(default, alias = "globs", deserialize_with = "list")]
        pub glob: Vec<String>,

        /// Include hidden files and folders
        #[arg(long)]
        #[serde(default)]
        pub hidden: bool,

        /// Include files that .gitignore or .ignore excludes
        #[arg(long)]
        #[serde(default)]
        pub no_ignore: bool,

        /// Fail if a selected file is not readable as text
        #[arg(long)]
        #[serde(default)]
        pub strict: bool,

        /// Has no effect: ignore files are honored
        #[arg(long, hide = true)]
        #[serde(default)]
        pub gitignore: bool,

        /// Embedding model: none, minilm:FOLDER or URL#MODEL
        ///
        /// `static:FOLDER` is a table of token vectors, `minilm:FOLDER` is all-MiniLM-L6-v2, and `http://HOST/v1#MODEL` is a
        /// model on a server with OpenAI's interface.
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

        /// Wait for another build of the index to end
        #[arg(long)]
        #[serde(default)]
        pub wait: bool,
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
        let documents = counted(self.documents.into(), "document");
        let chunks = counted(self.chunks, "chunk");
        let removed: u32 = self.removed.values().map(|removed| removed.count).sum();
        let mut text = match self.is_unchanged {
            true => format!("{documents}, nothing has changed\n"),
            false => {
                let vectors = match self.embedded {
                    0 => String::new(),
                    count => format!(", {}", counted(count, "new vector")),
                };
                let changes = [
                    (self.added.count, "added"),
                    (self.changed.count, "changed"),
                    (removed, "removed"),
                    (self.unchanged, "unchanged"),
                ];
                let changes = changes.iter().filter(|(count, _)| *count > 0);
                let changes: Vec<String> =
                    changes.map(|(count, name)| format!("{count} {name}")).collect();
                let of = if changes.is_empty() { "" } else { ": " };
                format!("{documents}{of}{}; {chunks}{vectors}\n", changes.join(", "))
            }
        };
        let removed = self.removed.iter().map(|(reason, paths)| (reason.as_str(), paths));
        add_paths(&mut text, "removed", removed);
        let skipped = self.skipped.iter().map(|(reason, paths)| (reason.as_str(), paths));
        add_paths(&mut text, "skipped", skipped);
        text.into()
    }
}

/// Returns a number with its noun.
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Adds a line with the number and the first paths for each reason, if there are any.
fn add_paths<'p>(
    text: &mut String,
    name: &str,
    reasons: impl Iterator<Item = (&'static str, &'p PathCount)>,
) {
    let reasons = reasons.map(|(reason, PathCount { count, paths, .. })| {
        let more = if paths.len() < *count as usize { ", …" } else { "" };
        format!("{count} {reason} ({}{more})", paths.join(", "))
    });
    let reasons: Vec<String> = reasons.collect();
    if !reasons.is_empty() {
        text.push_str(&format!("{name}: {}\n", reasons.join("; ")));
    }
}

impl Answer for IndexStats {
    fn text(&self) -> Cow<'_, str> {
        let manifest = &self.manifest;
        let (documents, chunks) = (manifest.documents, manifest.chunks);
        format!("{documents} documents, {chunks} chunks, {} words\n", self.words).into()
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

/// Inputs of a build besides its request.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct IndexInputs<'i> {
    /// Titles and dates by path; `None` keeps those of the index.
    pub metadata: Option<BTreeMap<String, DocumentMetadata>>,
    /// Embeddings of the caller.
    pub embeddings: Option<&'i ImportedVectors>,
    /// The rules that select files, instead of those of the request.
    pub rules: Option<FileRules>,
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
        inputs: IndexInputs<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<BuildSummary, Failure> {
        if !shelf.is_local() {
            let problem = "the server builds no index; ask the user to run `pannier docs index`";
            return Err(Failure::Request { path: String::new(), problem: problem.to_owned() });
        }
        let index = shelf.index_path(self.index.name(shelf)?.as_deref());
        let database = address(&index)?.map(DatabaseIndex::new).transpose()?;
        // Without a readable index, there is no model to take the identity of.
        let manifest = match &database {
            Some(database) => match database.manifest() {
                Err(Failure::Docs(DocsError::NoIndex { .. })) => None,
                manifest => Some(manifest?),
            },
            None => Manifest::open(&index).ok(),
        };
        let mut source = match &database {
            Some(_) => self.database_source(manifest.as_ref())?,
            None => self.source(&index)?,
        };
        if let Some(rules) = inputs.rules {
            source = source.rules(rules);
        }
        if let Some(metadata) = inputs.metadata {
            source = source.metadata(metadata);
        }
        let model = manifest.and_then(|manifest| manifest.model);
        let key_env = self.embedder_key_env.as_deref();
        let open = |name: &str| open_embedder(name, key_env, model.as_ref());
        let embedder = self.embedder.as_deref().map(open);
        let embedder = embedder.transpose()?;
        let vectors = match (&embedder, inputs.embeddings) {
            (_, Some(vectors)) => VectorSource::Imported(vectors),
            (Some(Some(embedder)), None) => VectorSource::Embedder(&**embedder),
            (Some(None), None) => VectorSource::None,
            (None, None) => VectorSource::Unspecified,
        };
        let options = BuildOptions {
            from_scratch: self.rebuild,
            vectors,
            chunk_sizes: chunk_sizes(self.chunk_tokens, self.max_chunk_tokens),
            waits: self.wait,
            ..BuildOptions::default()
        };
        match database {
            Some(database) => database.build(&source, &options, progress),
            None => Ok(pannier_docs::build(&source, &index, &options, progress)?),
        }
    }

    /// Returns the folder and the rules of the request. The index remembers both for a request that has neither.
    fn source(&self, index: &Path) -> Result<DocumentSource, Failure> {
        let remembered = match Manifest::open(index).map(|manifest| remembered(&manifest, index)) {
            Ok(Ok(source)) => Some(source),
            Ok(Err(problem)) if self.folder.is_none() => {
                let problem = format!("{problem}; name the folder");
                return Err(Failure::Request { path: "folder".to_owned(), problem });
            }
            Err(DocsError::Invalid { .. }) if self.folder.is_none() => {
                let problem = "the index is damaged or of another version, and does not name its folder; name the folder";
                return Err(Failure::Request { path: "folder".into(), problem: problem.into() });
            }
            Ok(Err(_)) | Err(_) => None,
        };
        let folder = self.folder.clone();
        let folder = folder.or_else(|| remembered.as_ref().map(|source| source.root().to_owned()));
        Ok(self.source_in(folder.unwrap_or_else(|| PathBuf::from(".")), remembered))
    }

    /// Returns the folder and the rules of a request for a database. A folder that is not named is the one that the collection
    /// has been indexed from, and must be the current one: documents of others would be removed.
    fn database_source(&self, manifest: Option<&Manifest>) -> Result<DocumentSource, Failure> {
        let folder = self.folder.clone().unwrap_or_else(|| PathBuf::from("."));
        let remembered = manifest.map(|manifest| manifest.document_source(Path::new("/")));
        if let Some(source) = &remembered
            && self.folder.is_none()
            && source.root().canonicalize().ok() != folder.canonicalize().ok()
        {
            let root = source.root().display();
            let problem = format!("the collection has been indexed from {root}; name the folder");
            return Err(Failure::Request { path: "folder".to_owned(), problem });
        }
        Ok(self.source_in(folder, remembered))
    }

    /// Returns a folder with the rules of the request, or with those that the index of the same folder remembers.
    fn source_in(&self, folder: PathBuf, remembered: Option<DocumentSource>) -> DocumentSource {
        let mut rules = FileRules::default();
        rules.globs = self.glob.clone();
        (rules.hidden, rules.no_ignore, rules.strict) = (self.hidden, self.no_ignore, self.strict);
        let is_same = |source: &DocumentSource| {
            source.root().canonicalize().ok() == folder.canonicalize().ok()
        };
        // Rules of the request replace all that the index remembers.
        let remembered = remembered.filter(|source| rules.is_default() && is_same(source));
        remembered.unwrap_or_else(|| DocumentSource::new(folder).rules(rules))
    }
}

/// Returns the folder that an index remembers, or why it is not used. An index may come from elsewhere, with a project. So it
/// cannot name a folder outside of the one that it is in: the one with `.pannier`, or else its parent.
fn remembered(manifest: &Manifest, index: &Path) -> Result<DocumentSource, String> {
    let source = manifest.document_source(index);
    let index = index.canonicalize().unwrap_or_default();
    let is_default = index.ends_with(crate::shelf::DEFAULT_INDEX);
    let base = index.ancestors().nth(if is_default { 2 } else { 1 });
    let root = source.root().canonicalize();
    match (root, base) {
        // A missing folder is reported when it is read.
        (Err(_), _) => Ok(source),
        (Ok(root), Some(base)) if root.starts_with(base) => Ok(source),
        (Ok(root), _) => {
            let folder = root.display();
            Err(format!("the index is of {folder}, which is not next to it"))
        }
    }
}

/// The model of an index, which is opened when the first text is embedded: most updates embed nothing.
#[derive(Debug)]
struct LazyEmbedder<'e> {
    model: Model,
    /// The name of the embedder, if the request has one.
    name: Option<&'e str>,
    /// The variable with its key.
    key_env: Option<&'e str>,
    opened: OnceLock<Box<dyn Embedder>>,
}

impl Embedder for LazyEmbedder<'_> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i16>>, EmbedderError> {
        if let Some(embedder) = self.opened.get() {
            return embedder.embed(texts);
        }
        let open = |name: &str| open_embedder(name, self.key_env, Some(&self.model));
        let opened = self.name.map(open).transpose()?.flatten();
        match opened.filter(|opened| *opened.model() == self.model) {
            Some(embedder) => self.opened.get_or_init(|| embedder).embed(texts),
            None => Err("new passages need the embedder of the index".into()),
        }
    }
}

impl IndexOptions {
    /// Updates the index of a local shelf with the files of its folder, and opens it. If it cannot be updated, the request gets
    /// it as it is, with a warning.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_updated(
        &self,
        embedder: Option<&str>,
        key_env: Option<&str>,
        shelf: &Shelf,
        control: &Control<'_>,
    ) -> Result<Arc<dyn Corpus>, Failure> {
        if let Some(path) = shelf.local_index(self.name(shelf)?.as_deref())
            && let Ok(manifest) = Manifest::open(&path)
        {
            control.step("updating the index")?;
            let source = match remembered(&manifest, &path) {
                Ok(source) => source,
                Err(problem) => {
                    control.warn(format!("{problem}; update it with `pannier docs index DIR`"));
                    return self.open(shelf);
                }
            };
            let embedder = manifest.model.map(|model| LazyEmbedder {
                model,
                name: embedder,
                key_env,
                opened: OnceLock::new(),
            });
            let vectors = embedder.as_ref().map(|embedder| embedder as &dyn Embedder);
            let options = BuildOptions {
                vectors: vectors.map_or(VectorSource::Unspecified, VectorSource::Embedder),
                trusts_index: true,
                ..BuildOptions::default()
            };
            let mut built = pannier_docs::build(&source, &path, &options, &mut |_| {});
            // Another search may be updating the index, too: that takes a moment.
            for _ in 0..MAX_BUSY_RETRIES {
                if !matches!(built, Err(DocsError::Busy { .. })) {
                    break;
                }
                std::thread::sleep(BUSY_RETRY_DELAY);
                built = pannier_docs::build(&source, &path, &options, &mut |_| {});
            }
            if let Err(error) = built {
                control.warn(format!("the index is searched as it is, without an update: {error}"));
            }
        }
        self.open(shelf)
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
        self.build(shelf, IndexInputs::default(), &mut |_| {})
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
        let path = shelf.index_path(self.index.name(shelf)?.as_deref());
        let problems = match shelf.is_local() && address(&path)?.is_none() {
            true => pannier_docs::verify(&path)?,
            false => self.index.open(shelf)?.verify()?,
        };
        Ok(VerifyAnswer { is_sound: problems.is_empty(), problems })
    }
}
