//! Open folders under names: document caches, snippet roots and project memories.
//!
//! A long-lived program opens each folder once and asks for it by name. A cache or an index is reloaded when a build has
//! replaced it: each access compares one small file. A caller keeps the `Arc` it was given, so a build that ends during a
//! call is seen by the next one.

#[cfg(feature = "docs")]
mod answer_cache;
#[cfg(feature = "docs")]
pub(crate) mod database;
mod named_folder;
mod named_settings;
mod settings;

pub use named_folder::NamedFolder;
pub use named_settings::NamedSettings;
pub use settings::Defaults;

use std::fmt;
use std::io;
use std::path::PathBuf;

#[cfg(any(feature = "chat", feature = "docs", feature = "memory", feature = "snippets"))]
use std::path::Path;
#[cfg(any(feature = "docs", feature = "snippets"))]
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "docs")]
use pannier_docs::{Corpus, DocumentIndex, Embedder, QueryVector};
#[cfg(feature = "memory")]
use pannier_memory::{Folder, UserFolder};
#[cfg(feature = "snippets")]
use pannier_snippets::{DeliveryLog, Roots, SnippetIndexes};

use pannier_policy::PolicyRegistry;

#[cfg(any(feature = "docs", feature = "memory", feature = "snippets"))]
use crate::Failure;

/// The folder of an index that no setting names.
#[cfg(feature = "docs")]
pub(crate) const DEFAULT_INDEX: &str = ".pannier/index";

/// What a named folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderKind {
    /// A document cache.
    Documents,
    /// A root of snippets.
    Snippets,
    /// A project with a `.context` folder.
    Memory,
}

impl fmt::Display for FolderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Documents => "document cache",
            Self::Snippets => "snippet root",
            Self::Memory => "project memory",
        })
    }
}

/// An error of a [`Shelf`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShelfError {
    /// A folder cannot have this name.
    #[error(
        "'{name}' cannot name a folder; use 1 to 64 of the letters A-Z and a-z, digits, '.', '_' and '-', as in docs={}",
        path.display()
    )]
    InvalidName {
        /// The first characters of the name.
        name: String,
        /// The folder.
        path: PathBuf,
    },

    /// Two folders of one kind have the same name.
    #[error("two folders are called '{name}'; rename one, as in {name}-2={}", path.display())]
    DuplicateName {
        /// The name.
        name: String,
        /// The second folder.
        path: PathBuf,
    },

    /// A project has no `.context` folder of its own.
    #[error("there is no folder .context in {}; name the root of a project that has one", path.display())]
    NoContext {
        /// The folder that was named.
        path: PathBuf,
    },

    /// No folder of the kind is open.
    #[error("no {kind} is open")]
    NoFolder {
        /// The kind that was requested.
        kind: FolderKind,
    },

    /// Several folders of the kind are open, and the request names none.
    #[error("there is more than one {kind}; name one of {names}")]
    NameRequired {
        /// The kind that was requested.
        kind: FolderKind,
        /// The names, joined by commas.
        names: String,
    },

    /// No folder of the kind has this name.
    #[error("there is no {kind} '{name}'; there are {names}")]
    UnknownName {
        /// The kind that was requested.
        kind: FolderKind,
        /// The first characters of the requested name.
        name: String,
        /// The names, joined by commas.
        names: String,
    },

    /// Sessions cannot be recorded.
    #[error("there is no folder for what sessions have seen")]
    NoStateFolder,

    /// A `.context` folder was removed after it was opened.
    #[error("the project's .context folder is no longer there")]
    MemoryGone,

    /// The file system reports an error.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

/// Open folders under names.
///
/// ```
/// use pannier::Shelf;
///
/// let shelf = Shelf::default();
/// # #[cfg(feature = "docs")]
/// assert_eq!(shelf.documents(None).unwrap_err().to_string(), "no document cache is open");
/// ```
#[derive(Debug, Default)]
pub struct Shelf {
    /// Whether names in requests may be paths.
    is_local: bool,
    /// Paths that no client sees, and the names that stand in for them.
    hidden: Vec<(String, String)>,
    defaults: Defaults,
    registry: PolicyRegistry,
    named: NamedSettings,
    #[cfg(feature = "chat")]
    recall: Option<PathBuf>,
    #[cfg(feature = "docs")]
    documents: Vec<(String, OpenIndex)>,
    #[cfg(feature = "docs")]
    embedder: Option<Box<dyn Embedder>>,
    #[cfg(feature = "docs")]
    answers: answer_cache::AnswerCache,
    /// Each root of snippets alone.
    #[cfg(feature = "snippets")]
    snippets: Vec<(String, ReloadingSnippets)>,
    /// All roots together, if there are several: their snippets may require each other.
    #[cfg(feature = "snippets")]
    all_snippets: Option<ReloadingSnippets>,
    #[cfg(feature = "snippets")]
    deliveries: Option<DeliveryLog>,
    /// The folder that `@~/` in snippets means.
    #[cfg(feature = "snippets")]
    home: Option<PathBuf>,
    #[cfg(feature = "memory")]
    user_memory: Option<UserFolder>,
    #[cfg(feature = "memory")]
    memories: Vec<(String, Folder)>,
    #[cfg(feature = "memory")]
    packet_budget: Option<usize>,
}

#[cfg(feature = "chat")]
impl Shelf {
    /// Sets the folder of cut blocks, in which `recall` looks. Default: `.pannier/recall`.
    #[must_use]
    pub fn with_recall_folder(mut self, folder: Option<PathBuf>) -> Self {
        if let Some(folder) = &folder {
            self.hide(folder, "recall");
        }
        self.recall = folder;
        self
    }

    /// Returns the folder of cut blocks that was set.
    pub fn recall_folder(&self) -> Option<&Path> {
        self.recall.as_deref()
    }
}

#[cfg(feature = "docs")]
impl Shelf {
    /// Opens document caches.
    ///
    /// # Errors
    ///
    /// [`ShelfError::DuplicateName`], or an error of `pannier-docs` if one cannot be opened.
    pub fn with_documents(mut self, folders: &[NamedFolder]) -> Result<Self, Failure> {
        named_folder::check_names(folders)?;
        for folder in folders {
            let index = OpenIndex::new(folder.path())?;
            match &index {
                OpenIndex::Folder(_) => self.hide(folder.path(), folder.name()),
                OpenIndex::Database(database) => {
                    self.hidden.push((database.location(), folder.name().to_owned()));
                }
            }
            self.documents.push((folder.name().to_owned(), index));
        }
        Ok(self)
    }

    /// Sets the model that embeds queries, for caches that were built with it.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Option<Box<dyn Embedder>>) -> Self {
        self.embedder = embedder;
        self
    }

    /// Returns the names of the document caches.
    pub fn document_names(&self) -> Vec<&str> {
        self.documents.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the current version of the cache `name`, or of the only one.
    ///
    /// # Errors
    ///
    /// [`ShelfError`] if there is no such cache, or an error of `pannier-docs` if a new version cannot be opened.
    pub fn documents(&self, name: Option<&str>) -> Result<Arc<dyn Corpus>, Failure> {
        find(&self.documents, name, FolderKind::Documents)?.get()
    }

    /// Returns the index `name`, or the only one. A local shelf takes names for paths, and has a default.
    ///
    /// # Errors
    ///
    /// As [`documents`](Self::documents), or an error of `pannier-docs` if there is no index at the path.
    pub fn index(&self, name: Option<&str>) -> Result<Arc<dyn Corpus>, Failure> {
        match self.local_index(name) {
            Some(path) if database::address(&path)?.is_some() => OpenIndex::new(&path)?.get(),
            Some(path) => {
                pannier_docs::remove_drafts(&path);
                Ok(Arc::new(DocumentIndex::open(path)?))
            }
            None => self.documents(name),
        }
    }

    /// Returns the folder of the index that a request names, if the shelf is local and has no other indexes.
    pub(crate) fn local_index(&self, name: Option<&str>) -> Option<PathBuf> {
        (self.is_local && self.documents.is_empty()).then(|| self.index_path(name))
    }

    /// Returns the folder of the index that a local request names, or of the default.
    pub(crate) fn index_path(&self, name: Option<&str>) -> PathBuf {
        let default = || self.defaults.index.clone().unwrap_or_else(|| DEFAULT_INDEX.into());
        name.map_or_else(default, PathBuf::from)
    }

    /// Returns the answers of recent searches. A local shelf has none: its command ends after one answer.
    pub(crate) fn answers(&self) -> Option<&answer_cache::AnswerCache> {
        (!self.is_local).then_some(&self.answers)
    }

    /// Returns the source of query vectors for `cache`: the embedder, if it made the vectors of the cache.
    pub fn query_vector(&self, cache: &dyn Corpus) -> QueryVector<'_> {
        match &self.embedder {
            Some(embedder)
                if cache
                    .manifest()
                    .model
                    .as_ref()
                    .is_some_and(|model| embedder.is_compatible(model)) =>
            {
                QueryVector::Embedder(&**embedder)
            }
            _ => QueryVector::None,
        }
    }
}

#[cfg(feature = "snippets")]
impl Shelf {
    /// Opens roots of snippets. `@~/` in snippets means `home`.
    ///
    /// # Errors
    ///
    /// [`ShelfError::DuplicateName`], or an error of `pannier-snippets` if one cannot be opened.
    pub fn with_snippets(
        mut self,
        folders: &[NamedFolder],
        home: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        named_folder::check_names(folders)?;
        for folder in folders {
            let snippets = ReloadingSnippets::open(std::slice::from_ref(folder), home.clone())?;
            self.hide(folder.path(), folder.name());
            self.snippets.push((folder.name().to_owned(), snippets));
        }
        if folders.len() > 1 {
            self.all_snippets = Some(ReloadingSnippets::open(folders, home)?);
        }
        Ok(self)
    }

    /// Sets the folder that `@~/` in snippets means, for roots that requests name by their paths.
    #[must_use]
    pub fn with_home(mut self, home: Option<PathBuf>) -> Self {
        self.home = home;
        self
    }

    /// Sets the folder that records which snippets each session received.
    #[must_use]
    pub fn with_state_folder(mut self, folder: Option<PathBuf>) -> Self {
        if let Some(folder) = &folder {
            self.hide(folder, "the state folder");
        }
        self.deliveries = folder.map(DeliveryLog::in_folder);
        self
    }

    /// Returns the names of the snippet roots.
    pub fn snippet_names(&self) -> Vec<&str> {
        self.snippets.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the current snippets of the roots that a request names, or of all roots. On a local shelf without roots of
    /// its own, names are paths, and the default is `docs`.
    ///
    /// # Errors
    ///
    /// As [`snippets`](Self::snippets), and [`Failure::Request`] if a request names several roots or aliases of a server.
    pub fn snippet_roots(
        &self,
        names: &[String],
        aliases: &[String],
    ) -> Result<Arc<SnippetIndexes>, Failure> {
        match names {
            _ if self.is_local && self.snippets.is_empty() => {
                Ok(Arc::new(SnippetIndexes::read(self.open_roots(names, aliases)?)?))
            }
            _ if !aliases.is_empty() => {
                let problem = "the indexes have their own; omit it".to_owned();
                Err(Failure::Request { path: "aliases".to_owned(), problem })
            }
            [] => self.snippets(None),
            [name] => self.snippets(Some(name)),
            _ => {
                let problem = "name one, or omit it for all".to_owned();
                Err(Failure::Request { path: "snippets".to_owned(), problem })
            }
        }
    }

    /// Opens folders of snippets by their paths; the default is `docs`. An alias is `PREFIX=PATH`.
    ///
    /// # Errors
    ///
    /// An error of `pannier-snippets` if one is not a folder, or not an alias.
    pub fn open_roots(&self, paths: &[String], aliases: &[String]) -> Result<Roots, Failure> {
        let default = ["docs".to_owned()];
        let paths = if paths.is_empty() { &default } else { paths };
        let aliases = aliases.iter().map(|alias| alias.parse()).collect::<Result<_, _>>()?;
        Ok(Roots::open(paths, self.home.clone())?.with_aliases(aliases))
    }

    /// Returns the current snippets of the root `name`, or of all roots.
    ///
    /// # Errors
    ///
    /// [`ShelfError`] if there is no such root, or an error of `pannier-snippets` if an index cannot be read.
    pub fn snippets(&self, name: Option<&str>) -> Result<Arc<SnippetIndexes>, Failure> {
        match (&self.all_snippets, name) {
            (Some(all), None) => all.get(),
            (_, name) => find(&self.snippets, name, FolderKind::Snippets)?.get(),
        }
    }

    /// Returns the record of what sessions received.
    ///
    /// # Errors
    ///
    /// [`ShelfError::NoStateFolder`] if there is none.
    pub fn deliveries(&self) -> Result<&DeliveryLog, Failure> {
        self.deliveries.as_ref().ok_or_else(|| ShelfError::NoStateFolder.into())
    }
}

#[cfg(feature = "memory")]
impl Shelf {
    /// Opens projects that have a `.context` folder or files that instruct agents, or `.context` folders themselves.
    ///
    /// # Errors
    ///
    /// [`ShelfError`] if a name occurs twice or a project has no such folder.
    pub fn with_memories(mut self, folders: &[NamedFolder]) -> Result<Self, Failure> {
        named_folder::check_names(folders)?;
        for folder in folders {
            let path = || folder.path().to_owned();
            let memory = Folder::find_project(folder.path())?;
            let named = folder.path().canonicalize();
            let named = named.map_err(|error| ShelfError::Io { path: path(), error })?;
            // The search goes upwards, too: a folder above the named one is outside of what may be read.
            if !memory.path().starts_with(&named) {
                return Err(ShelfError::NoContext { path: path() }.into());
            }
            // Of a `.context` folder, its project is outside, too.
            let memory = if memory.root().starts_with(&named) { memory } else { memory.confined() };
            self.hide(folder.path(), folder.name());
            self.memories.push((folder.name().to_owned(), memory));
        }
        Ok(self)
    }

    /// Sets the folder of the user. Packets contain its memory, too. Default: no folder.
    #[must_use]
    pub fn with_user_memory(mut self, user: Option<UserFolder>) -> Self {
        self.user_memory = user;
        self
    }

    /// Returns the user's own folder.
    pub fn user_memory(&self) -> Option<&UserFolder> {
        self.user_memory.as_ref()
    }

    /// Sets the budget of packets for which neither a request nor the project has one.
    #[must_use]
    pub fn with_packet_budget(mut self, tokens: Option<usize>) -> Self {
        self.packet_budget = tokens;
        self
    }

    /// Returns the names of the projects.
    pub fn memory_names(&self) -> Vec<&str> {
        self.memories.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the folder of the project `name`, or of the only one. On a local shelf without projects of its own,
    /// a name is a path, and the default is the current folder.
    ///
    /// # Errors
    ///
    /// [`ShelfError`] if there is no such project, or its folder was removed.
    pub fn memory(&self, name: Option<&str>) -> Result<Folder, Failure> {
        if self.is_local && self.memories.is_empty() {
            return Ok(Folder::find_project(name.unwrap_or("."))?);
        }
        let folder = find(&self.memories, name, FolderKind::Memory)?;
        // Without its files, a packet would claim that there are no rules.
        match folder.is_present() {
            true => Ok(folder.clone()),
            false => Err(ShelfError::MemoryGone.into()),
        }
    }

    /// Returns the budget of packets for which neither a request nor the project has one.
    pub fn packet_budget(&self) -> Option<usize> {
        self.packet_budget
    }
}

impl Shelf {
    /// Hides a path from clients.
    #[cfg(any(feature = "chat", feature = "docs", feature = "memory", feature = "snippets"))]
    fn hide(&mut self, path: &Path, name: &str) {
        let paths = [std::path::absolute(path).ok(), path.canonicalize().ok()];
        for path in paths.into_iter().flatten() {
            self.hidden.push((path.display().to_string(), name.to_owned()));
        }
        // A folder inside of another one is hidden first.
        self.hidden.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    }

    /// Replaces the paths of this shelf's folders by their names, in a text for a client.
    pub fn without_paths(&self, text: &str) -> String {
        self.hidden.iter().fold(text.to_owned(), |text, (path, name)| text.replace(path, name))
    }

    /// Returns the names of the folders of a kind.
    pub fn names(&self, kind: FolderKind) -> Vec<&str> {
        match kind {
            #[cfg(feature = "docs")]
            FolderKind::Documents => self.document_names(),
            #[cfg(feature = "snippets")]
            FolderKind::Snippets => self.snippet_names(),
            #[cfg(feature = "memory")]
            FolderKind::Memory => self.memory_names(),
            #[cfg(not(all(feature = "docs", feature = "memory", feature = "snippets")))]
            _ => Vec::new(),
        }
    }
}

/// Returns the entry `name`, or the only one. Case does not matter.
#[cfg(any(feature = "docs", feature = "memory", feature = "snippets"))]
fn find<'s, T>(
    entries: &'s [(String, T)],
    name: Option<&str>,
    kind: FolderKind,
) -> Result<&'s T, ShelfError> {
    let names = || entries.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, entries) {
        (_, []) => Err(ShelfError::NoFolder { kind }),
        (None, [(_, only)]) => Ok(only),
        (None, _) => Err(ShelfError::NameRequired { kind, names: names() }),
        (Some(name), _) => {
            let entry = entries.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            entry.map(|(_, value)| value).ok_or_else(|| {
                let name = name.chars().take(named_folder::MAX_SHOWN_CHARS).collect();
                ShelfError::UnknownName { kind, name, names: names() }
            })
        }
    }
}

/// A document cache, or a collection of a database.
#[cfg(feature = "docs")]
#[derive(Debug)]
enum OpenIndex {
    Folder(ReloadingIndex),
    Database(database::DatabaseIndex),
}

#[cfg(feature = "docs")]
impl OpenIndex {
    fn new(path: &Path) -> Result<Self, Failure> {
        match database::address(path)? {
            Some(address) => database::DatabaseIndex::new(address).map(Self::Database),
            None => ReloadingIndex::open(path).map(Self::Folder),
        }
    }

    /// Returns the current version.
    fn get(&self) -> Result<Arc<dyn Corpus>, Failure> {
        match self {
            Self::Folder(index) => index.get(),
            Self::Database(database) => database.open(),
        }
    }
}

/// A document cache that is opened again after a build.
#[cfg(feature = "docs")]
#[derive(Debug)]
struct ReloadingIndex {
    path: PathBuf,
    current: Mutex<Arc<DocumentIndex>>,
}

#[cfg(feature = "docs")]
impl ReloadingIndex {
    fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self {
            path: path.to_owned(),
            current: Mutex::new(Arc::new(DocumentIndex::open(path)?)),
        })
    }

    fn get(&self) -> Result<Arc<dyn Corpus>, Failure> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.is_current()? {
            *current = Arc::new(DocumentIndex::open(&self.path)?);
        }
        Ok(Arc::<DocumentIndex>::clone(&current))
    }
}

/// Snippet indexes that are read again after they were written.
#[cfg(feature = "snippets")]
#[derive(Debug)]
struct ReloadingSnippets {
    roots: Roots,
    current: Mutex<Arc<SnippetIndexes>>,
}

#[cfg(feature = "snippets")]
impl ReloadingSnippets {
    fn open(folders: &[NamedFolder], home: Option<PathBuf>) -> Result<Self, Failure> {
        let roots = Roots::open(folders.iter().map(NamedFolder::path), home)?;
        let indexes = SnippetIndexes::read(roots)?;
        // Fail now, with paths, rather than on the first request.
        indexes.catalog()?;
        let label = |path: &Path| {
            folders
                .iter()
                .find(|folder| folder.path() == path)
                .map(|folder| folder.name().to_owned())
        };
        let indexes = indexes.with_labels(label);
        Ok(Self { roots: indexes.roots().clone(), current: Mutex::new(Arc::new(indexes)) })
    }

    fn get(&self) -> Result<Arc<SnippetIndexes>, Failure> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.is_current() {
            *current = Arc::new(SnippetIndexes::read(self.roots.clone())?);
        }
        Ok(Arc::clone(&current))
    }
}
