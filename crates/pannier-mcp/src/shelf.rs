//! Everything that is served, open.
//!
//! A cache or an index is opened once and kept. Each call asks first whether it is still the present one, which is one small
//! read, and takes what it then has for all it does: a build that ends in the middle of a call is seen by the next.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pannier_core::TokenCounter;
use pannier_docs::{DocumentIndex, Embedder, QueryVector};
use pannier_memory::Folder;
use pannier_snippets::{DeliveryLog, Roots, SnippetIndexes};

use crate::ServeError;
use crate::problem::Problem;
use crate::root::{NamedFolder, check_names};

/// What is served, and within which limits.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Sources {
    /// Document caches.
    pub caches: Vec<NamedFolder>,
    /// Folders of snippets.
    pub docs: Vec<NamedFolder>,
    /// Projects that remember something, or their `.context` folders.
    pub contexts: Vec<NamedFolder>,
    /// Where is kept what sessions were given.
    pub state: Option<PathBuf>,
    /// The user's home, which `@~/` in snippets means.
    pub home: Option<PathBuf>,
    /// What makes vectors of queries.
    pub embedder: Option<Box<dyn Embedder>>,
    /// How many tokens a packet may have where neither a call nor a project says.
    pub packet_budget: Option<usize>,
    /// How much a call may take.
    pub limits: Limits,
}

/// How much a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long a call may take, with its wait for a turn.
    pub time: Duration,
    /// How many calls are worked on at once.
    pub calls: usize,
    /// How many bytes a request may have.
    pub input: usize,
    /// How many bytes the text of an answer may have.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), calls: 16, input: 4 << 20, output: 8 << 20 }
    }
}

/// Everything that is served.
#[derive(Debug)]
pub(crate) struct Shelf {
    caches: Vec<(String, KeptCache)>,
    /// Each root of snippets by itself.
    docs: Vec<(String, KeptIndexes)>,
    /// All of them together, if there are several: their snippets may require each other.
    all_docs: Option<KeptIndexes>,
    contexts: Vec<(String, Folder)>,
    deliveries: Option<DeliveryLog>,
    embedder: Option<Box<dyn Embedder>>,
    pub(crate) packet_budget: Option<usize>,
}

impl Shelf {
    pub(crate) fn open(sources: Sources) -> Result<(Self, Limits), ServeError> {
        let Sources { caches, docs, contexts, state, home, embedder, packet_budget, limits } =
            sources;
        for folders in [&caches, &docs, &contexts] {
            check_names(folders)?;
        }
        let mut shelf = Self {
            caches: Vec::new(),
            docs: Vec::new(),
            all_docs: None,
            contexts: Vec::new(),
            deliveries: state.map(DeliveryLog::in_folder),
            embedder,
            packet_budget,
        };
        for folder in &caches {
            let cache = KeptCache::open(folder.path())?;
            shelf.caches.push((folder.name().to_owned(), cache));
        }
        for folder in &docs {
            let indexes = KeptIndexes::open(&[folder.path()], home.clone())?;
            shelf.docs.push((folder.name().to_owned(), indexes));
        }
        if docs.len() > 1 {
            let paths: Vec<&Path> = docs.iter().map(NamedFolder::path).collect();
            shelf.all_docs = Some(KeptIndexes::open(&paths, home)?);
        }
        for folder in &contexts {
            let found = Folder::find(folder.path())?;
            // It is looked for upwards, too, and there nobody pointed.
            let given = folder.path().canonicalize();
            let given =
                given.map_err(ServeError::io(format!("look into {}", folder.path().display())))?;
            if !found.path().starts_with(&given) {
                return Err(ServeError::NoContext { path: folder.path().to_owned() });
            }
            shelf.contexts.push((folder.name().to_owned(), found));
        }
        Ok((shelf, limits))
    }

    pub(crate) fn cache_names(&self) -> Vec<&str> {
        self.caches.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub(crate) fn docs_names(&self) -> Vec<&str> {
        self.docs.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub(crate) fn context_names(&self) -> Vec<&str> {
        self.contexts.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The cache of this name, or the only one.
    pub(crate) fn cache(&self, name: Option<&str>) -> Result<Arc<DocumentIndex>, Problem> {
        one(&self.caches, name, "cache")?.get()
    }

    /// The snippets of this root, or of all.
    pub(crate) fn indexes(&self, name: Option<&str>) -> Result<Arc<SnippetIndexes>, Problem> {
        match (&self.all_docs, name) {
            (Some(all), None) => all.get(),
            (_, name) => one(&self.docs, name, "docs")?.get(),
        }
    }

    /// The context folder of this name, or the only one.
    pub(crate) fn context(&self, name: Option<&str>) -> Result<&Folder, Problem> {
        one(&self.contexts, name, "context")
    }

    /// What is remembered about sessions.
    pub(crate) fn deliveries(&self) -> Result<&DeliveryLog, Problem> {
        self.deliveries.as_ref().ok_or_else(|| {
            let hint = "leave session out, or start the server with XDG_STATE_HOME or HOME set";
            Problem::invalid("there is no folder for what sessions have seen", hint)
        })
    }

    /// What makes the vector of a query for this cache.
    pub(crate) fn vector(&self, cache: &DocumentIndex) -> QueryVector<'_> {
        match &self.embedder {
            Some(embedder) if cache.manifest().model.as_ref() == Some(embedder.model()) => {
                QueryVector::Embedder(&**embedder)
            }
            _ => QueryVector::None,
        }
    }
}

/// The one of this name, or the only one.
fn one<'s, T>(shelf: &'s [(String, T)], name: Option<&str>, what: &str) -> Result<&'s T, Problem> {
    let names = || shelf.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    match (name, shelf) {
        (_, []) => {
            let hint = format!("the server must be started with --{what} PATH; tell its user");
            Err(Problem::invalid(format!("the server was started without --{what}"), hint))
        }
        (None, [(_, only)]) => Ok(only),
        (None, _) => {
            let hint = format!("add the argument {what}: one of {}", names());
            Err(Problem::invalid(format!("there are several, and {what} does not say which"), hint))
        }
        (Some(name), shelf) => {
            let found = shelf.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, found)| found).ok_or_else(|| {
                let name: String = name.chars().take(80).collect();
                Problem::invalid(
                    format!("there is no {what} '{name}'"),
                    format!("{what} is one of {}", names()),
                )
            })
        }
    }
}

/// A cache that is kept open.
#[derive(Debug)]
struct KeptCache {
    path: PathBuf,
    open: Mutex<Arc<DocumentIndex>>,
}

impl KeptCache {
    fn open(path: &Path) -> Result<Self, ServeError> {
        Ok(Self { path: path.to_owned(), open: Mutex::new(Arc::new(DocumentIndex::open(path)?)) })
    }

    /// The present version.
    fn get(&self) -> Result<Arc<DocumentIndex>, Problem> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.is_current()? {
            *open = Arc::new(DocumentIndex::open(&self.path)?);
        }
        Ok(Arc::clone(&open))
    }
}

/// Indexes of snippets that are kept.
#[derive(Debug)]
struct KeptIndexes {
    roots: Roots,
    read: Mutex<Arc<SnippetIndexes>>,
}

impl KeptIndexes {
    fn open(paths: &[&Path], home: Option<PathBuf>) -> Result<Self, ServeError> {
        let roots = Roots::open(paths, home)?;
        let indexes = SnippetIndexes::read(roots.clone())?;
        // What is wrong with it is better told now than to the first client.
        indexes.catalog()?;
        Ok(Self { roots, read: Mutex::new(Arc::new(indexes)) })
    }

    /// As they are now.
    fn get(&self) -> Result<Arc<SnippetIndexes>, Problem> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if !read.is_current() {
            *read = Arc::new(SnippetIndexes::read(self.roots.clone())?);
        }
        Ok(Arc::clone(&read))
    }
}

/// The counter of this name. A name that leads to a file is none.
pub(crate) fn counter(name: Option<&str>) -> Result<Arc<dyn TokenCounter>, Problem> {
    let name = name.unwrap_or("bytes/4");
    if name.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:")) {
        let names = pannier_tokens::counter_names().collect::<Vec<_>>().join(", ");
        let hint = format!("tokenizer is one of {names}, or a model of theirs");
        return Err(Problem::invalid("the server reads no tokenizer from files", hint));
    }
    Ok(Arc::from(pannier_tokens::builtin_counter(name)?))
}
