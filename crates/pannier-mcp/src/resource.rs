//! Documents and snippets as resources, which hosts can attach.
//!
//! All of them make one list, in a fixed order, that is told in pages. A cursor is the number of the next entry and a hash of
//! it and of the state of everything that is listed: one that was made up, or that is of a list which has changed meanwhile,
//! is refused, and never continues somewhere else.

use std::sync::Arc;

use pannier::{Failure, Shelf};
use pannier_docs::DocumentIndex;
use pannier_snippets::{Snippet, SnippetIndexes};
use rmcp::model::{ErrorData, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::tool_error::ToolError;
use crate::uri::{Kind, Uri};
use crate::work::Watch;

/// How many resources a page has.
pub(crate) const PAGE: usize = 100;

/// How many hexadecimal digits of the hash a cursor has.
const DIGITS: usize = 32;

/// A page of the list.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) resources: Vec<Resource>,
    pub(crate) next: Option<String>,
}

/// Everything that is listed, as it is now.
struct Everything {
    caches: Vec<(String, Arc<DocumentIndex>)>,
    docs: Vec<(String, Arc<SnippetIndexes>)>,
    /// A hash of all names and versions.
    state: blake3::Hash,
}

impl Everything {
    /// What can be opened now. What cannot is left out, unless nothing can: who attaches a document of one folder need not
    /// know of trouble with another.
    fn of(shelf: &Shelf) -> Result<Self, ToolError> {
        let (mut caches, mut docs, mut trouble) = (Vec::new(), Vec::new(), None);
        let mut state = blake3::Hasher::new();
        for name in shelf.document_names() {
            match shelf.documents(Some(name)) {
                Ok(cache) => {
                    state.update(format!("cache {name} {}\n", cache.manifest().version).as_bytes());
                    caches.push((name.to_owned(), cache));
                }
                Err(failure) => trouble = trouble.or(Some(failure.into())),
            }
        }
        for name in shelf.snippet_names() {
            match snippets(shelf, name) {
                Ok((indexes, told)) => {
                    state.update(format!("docs {name}\n").as_bytes()).update(told.as_bytes());
                    docs.push((name.to_owned(), indexes));
                }
                Err(problem) => trouble = trouble.or(Some(problem)),
            }
        }
        match trouble.filter(|_| caches.is_empty() && docs.is_empty()) {
            Some(problem) => Err(problem),
            None => Ok(Self { caches, docs, state: state.finalize() }),
        }
    }

    fn cursor(&self, start: usize) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(self.state.as_bytes()).update(&(start as u64).to_le_bytes());
        format!("{start}-{:.DIGITS$}", hash.finalize().to_hex())
    }

    /// Where a cursor points, if it is one of this list.
    fn start(&self, cursor: &str) -> Option<usize> {
        let start = cursor.split_once('-')?.0.parse().ok()?;
        (self.cursor(start) == cursor).then_some(start)
    }
}

/// The indexes of a root, and what they list.
fn snippets(shelf: &Shelf, name: &str) -> Result<(Arc<SnippetIndexes>, String), ToolError> {
    let indexes = shelf.snippets(Some(name))?;
    let mut told = String::new();
    for snippet in indexes.catalog()?.snippets() {
        told.extend([snippet.id(), "\n", snippet.description(), "\n"]);
    }
    Ok((indexes, told))
}

/// A page of all resources.
pub(crate) fn list(shelf: &Shelf, cursor: Option<&str>, watch: &Watch) -> Result<Page, ToolError> {
    watch.step("listing resources")?;
    let everything = Everything::of(shelf)?;
    let start = match cursor {
        None => 0,
        Some(cursor) => everything.start(cursor).ok_or_else(|| {
            let hint = "list again from the beginning, without a cursor";
            ToolError::new(
                "invalid_cursor",
                "the cursor is not one of this list as it is now",
                hint,
            )
        })?,
    };
    let mut resources = Vec::new();
    let mut first = 0;
    for (name, cache) in &everything.caches {
        let count = cache.len() as usize;
        for number in start.saturating_sub(first)..count {
            if resources.len() == PAGE {
                break;
            }
            resources.push(document(name, cache, u32::try_from(number).unwrap_or(u32::MAX))?);
        }
        first += count;
    }
    for (name, indexes) in &everything.docs {
        let catalog = indexes.catalog()?;
        let snippets = catalog.snippets();
        let room = PAGE - resources.len();
        let meant = snippets.iter().skip(start.saturating_sub(first)).take(room);
        resources.extend(meant.map(|found| snippet(name, found)));
        first += snippets.len();
    }
    let end = start + resources.len();
    let next = (end < first).then(|| everything.cursor(end));
    Ok(Page { resources, next })
}

fn document(name: &str, cache: &DocumentIndex, number: u32) -> Result<Resource, ToolError> {
    let found = cache.document_info(number)?;
    let uri = Uri::new(name, Kind::Document, &found.path);
    let resource = Resource::new(uri.to_string(), &found.path)
        .with_mime_type(mime_type(&found.path))
        .with_size(found.bytes);
    Ok(match found.metadata.title {
        Some(title) => resource.with_title(title),
        None => resource,
    })
}

fn snippet(name: &str, found: &Snippet<'_>) -> Resource {
    let uri = Uri::new(name, Kind::Snippet, found.id());
    Resource::new(uri.to_string(), found.id())
        .with_description(found.description())
        .with_mime_type(mime_type(found.path()))
}

fn mime_type(path: &str) -> &'static str {
    let ending = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    if matches!(ending.as_str(), "md" | "markdown") { "text/markdown" } else { "text/plain" }
}

/// How the names of all resources look.
pub(crate) fn templates(shelf: &Shelf) -> Vec<ResourceTemplate> {
    let documents = shelf.document_names().into_iter().map(|name| {
        ResourceTemplate::new(Uri::template(name, Kind::Document), format!("{name} documents"))
            .with_description(format!("A document of the cache {name}, by its path"))
    });
    let snippets = shelf.snippet_names().into_iter().map(|name| {
        ResourceTemplate::new(Uri::template(name, Kind::Snippet), format!("{name} snippets"))
            .with_description(format!("A snippet of {name}, by its id"))
            .with_mime_type("text/markdown")
    });
    documents.chain(snippets).collect()
}

/// A resource that could not be read.
#[derive(Clone, Debug)]
pub(crate) enum Unread {
    /// There is none of this name.
    Unknown,
    /// There is, and it cannot be read.
    Failed(ToolError),
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.into())
    }
}

impl From<ToolError> for Unread {
    fn from(problem: ToolError) -> Self {
        Self::Failed(problem)
    }
}

impl Unread {
    pub(crate) fn into_error(self, uri: &str) -> ErrorData {
        match self {
            Self::Unknown => {
                let message = "there is no such resource; see resources/list for those there are";
                ErrorData::resource_not_found(message, Some(json!({ "uri": uri })))
            }
            Self::Failed(problem) => {
                let message = format!("{}; {}", problem.message, problem.hint);
                ErrorData::internal_error(message, Some(json!({ "code": problem.code })))
            }
        }
    }
}

/// The text of a resource.
pub(crate) fn read(shelf: &Shelf, text: &str, most: usize) -> Result<ResourceContents, Unread> {
    let uri = Uri::read(text).ok_or(Unread::Unknown)?;
    let is_named =
        |names: Vec<&str>| names.iter().any(|name| name.eq_ignore_ascii_case(&uri.folder));
    let (content, path) = match uri.kind {
        Kind::Document if is_named(shelf.document_names()) => {
            let cache = shelf.documents(Some(&uri.folder))?;
            let number = cache.find_document(&uri.name).map_err(ToolError::from)?;
            let number = number.ok_or(Unread::Unknown)?;
            (cache.document(number).map_err(ToolError::from)?.content, uri.name)
        }
        Kind::Snippet if is_named(shelf.snippet_names()) => {
            let indexes = shelf.snippets(Some(&uri.folder))?;
            let catalog = indexes.catalog().map_err(ToolError::from)?;
            let found = catalog.snippet(&uri.name).ok_or(Unread::Unknown)?;
            let body = catalog.text(found).map_err(ToolError::from)?;
            (body.to_string(), found.path().to_owned())
        }
        _ => return Err(Unread::Unknown),
    };
    if content.len() > most {
        let message =
            format!("the resource has {} bytes, and at most {most} are sent", content.len());
        let hint = "ask assemble_context for the passages you need";
        return Err(ToolError::new("too_large", message, hint).into());
    }
    Ok(ResourceContents::text(content, text).with_mime_type(mime_type(&path)))
}
