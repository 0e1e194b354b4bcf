//! Documents and snippets as resources, which hosts can attach.
//!
//! All resources form one list in a fixed order, served in pages. A cursor is the position of the next entry and a hash of it
//! and of the versions of all folders. A forged or stale cursor is rejected; it never continues in another list.

use std::sync::Arc;

use pannier::Shelf;
use pannier_docs::{Corpus, DocumentInfo};
use pannier_snippets::{Snippet, SnippetIndexes};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

use crate::executor::CallControl;
use crate::tool_error::ToolError;
use crate::uri::{Kind, Uri};

/// The length of a page.
pub(crate) const RESOURCES_PER_PAGE: usize = 100;

/// The number of hexadecimal digits of a cursor's hash.
const CURSOR_HASH_DIGITS: usize = 32;

/// A page of the list.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) resources: Vec<Resource>,
    pub(crate) next: Option<String>,
}

/// All folders with resources, in their current versions.
struct ResourceList {
    caches: Vec<(String, Arc<dyn Corpus>)>,
    docs: Vec<(String, Arc<SnippetIndexes>)>,
    /// A hash of all names and versions.
    state: blake3::Hash,
}

impl ResourceList {
    /// Opens all folders. A folder that cannot be opened is omitted unless all fail: an error in one folder must not hide
    /// the others.
    fn open(shelf: &Shelf) -> Result<Self, ToolError> {
        let (mut caches, mut docs, mut first_error) = (Vec::new(), Vec::new(), None);
        let mut state = blake3::Hasher::new();
        for name in shelf.document_names() {
            match shelf.documents(Some(name)) {
                Ok(cache) => {
                    state.update(format!("cache {name} {}\n", cache.manifest().version).as_bytes());
                    caches.push((name.to_owned(), cache));
                }
                Err(failure) => first_error = first_error.or(Some(failure.into())),
            }
        }
        for name in shelf.snippet_names() {
            match snippets(shelf, name) {
                Ok((indexes, contents)) => {
                    state.update(format!("docs {name}\n").as_bytes()).update(contents.as_bytes());
                    docs.push((name.to_owned(), indexes));
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error.filter(|_| caches.is_empty() && docs.is_empty()) {
            Some(error) => Err(error),
            None => Ok(Self { caches, docs, state: state.finalize() }),
        }
    }

    fn cursor(&self, start: usize) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(self.state.as_bytes()).update(&(start as u64).to_le_bytes());
        format!("{start}-{:.CURSOR_HASH_DIGITS$}", hash.finalize().to_hex())
    }

    /// Returns the position of a cursor of this list.
    fn start(&self, cursor: &str) -> Option<usize> {
        let start = cursor.split_once('-')?.0.parse().ok()?;
        (self.cursor(start) == cursor).then_some(start)
    }
}

/// Returns the indexes of a root, and a text that changes with their entries.
fn snippets(shelf: &Shelf, name: &str) -> Result<(Arc<SnippetIndexes>, String), ToolError> {
    let indexes = shelf.snippets(Some(name))?;
    let mut contents = String::new();
    for snippet in indexes.catalog()?.snippets() {
        contents.extend([snippet.id(), "\n", snippet.description(), "\n"]);
    }
    Ok((indexes, contents))
}

/// Returns a page of all resources.
pub(crate) fn list(
    shelf: &Shelf,
    cursor: Option<&str>,
    control: &CallControl,
) -> Result<Page, ToolError> {
    control.step("listing resources")?;
    let list = ResourceList::open(shelf)?;
    let start = match cursor {
        None => 0,
        Some(cursor) => list.start(cursor).ok_or_else(|| {
            let hint = "list again from the beginning, without a cursor";
            ToolError::new("invalid_cursor", "the cursor is invalid, or the list has changed", hint)
        })?,
    };
    let (mut resources, mut first_error) = (Vec::new(), None);
    // The position of the next entry, and of the first one of a folder.
    let (mut next, mut first) = (start, 0);
    for (name, cache) in &list.caches {
        let end = first + cache.manifest().documents as usize;
        let remaining = RESOURCES_PER_PAGE - resources.len();
        if next < end && remaining > 0 {
            let count = remaining.min(end - next);
            match cache.list_documents(next - first, count) {
                Ok(listed) => {
                    resources.extend(listed.into_iter().map(|info| document(name, info)));
                    next += count;
                }
                // A damaged index must not hide the others.
                Err(error) => {
                    first_error = first_error.or(Some(ToolError::from(error)));
                    next = end;
                }
            }
        }
        first = end;
    }
    for (name, indexes) in &list.docs {
        let catalog = indexes.catalog()?;
        let snippets = catalog.snippets();
        let remaining = RESOURCES_PER_PAGE - resources.len();
        let listed = snippets.iter().skip(next.saturating_sub(first)).take(remaining);
        let before = resources.len();
        resources.extend(listed.map(|entry| snippet(name, entry)));
        next += resources.len() - before;
        first += snippets.len();
    }
    match first_error.filter(|_| resources.is_empty()) {
        Some(error) => Err(error),
        None => Ok(Page { resources, next: (next < first).then(|| list.cursor(next)) }),
    }
}

fn document(name: &str, info: DocumentInfo) -> Resource {
    let uri = Uri::new(name, Kind::Document, &info.path);
    let resource = Resource::new(uri.to_string(), &info.path)
        .with_mime_type(mime_type(&info.path))
        .with_size(info.bytes);
    match info.metadata.title {
        Some(title) => resource.with_title(title),
        None => resource,
    }
}

fn snippet(name: &str, snippet: &Snippet<'_>) -> Resource {
    let uri = Uri::new(name, Kind::Snippet, snippet.id());
    Resource::new(uri.to_string(), snippet.id())
        .with_description(snippet.description())
        .with_mime_type(mime_type(snippet.path()))
}

fn mime_type(path: &str) -> &'static str {
    let extension = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    if matches!(extension.as_str(), "md" | "markdown") { "text/markdown" } else { "text/plain" }
}

/// Returns the URI templates of all resources.
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

/// Returns the text of the resource with the URI `text`, if there is one.
pub(crate) fn read(
    shelf: &Shelf,
    text: &str,
    max_bytes: usize,
) -> Result<Option<ResourceContents>, ToolError> {
    let Some(uri) = Uri::parse(text) else { return Ok(None) };
    let is_named =
        |names: Vec<&str>| names.iter().any(|name| name.eq_ignore_ascii_case(&uri.folder));
    let (content, path) = match uri.kind {
        Kind::Document if is_named(shelf.document_names()) => {
            let cache = shelf.documents(Some(&uri.folder))?;
            let Some(number) = cache.find_document(&uri.name)? else { return Ok(None) };
            let document = cache.read_documents(&[number])?.pop();
            (document.map(|document| document.content).unwrap_or_default(), uri.name)
        }
        Kind::Snippet if is_named(shelf.snippet_names()) => {
            let indexes = shelf.snippets(Some(&uri.folder))?;
            let catalog = indexes.catalog()?;
            let Some(snippet) = catalog.snippet(&uri.name) else { return Ok(None) };
            (catalog.text(snippet)?.to_string(), snippet.path().to_owned())
        }
        _ => return Ok(None),
    };
    if content.len() > max_bytes {
        let message =
            format!("the resource has {} bytes, above the limit of {max_bytes}", content.len());
        let hint = "use search_docs for the passages you need";
        return Err(ToolError::new("too_large", message, hint));
    }
    Ok(Some(ResourceContents::text(content, text).with_mime_type(mime_type(&path))))
}
