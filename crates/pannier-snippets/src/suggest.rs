//! Suggestions for ids that are not in the catalog.

use crate::SnippetCatalog;

/// The maximum number of suggestions for an id.
const MAX_SUGGESTIONS: usize = 3;

/// Longer texts are not typing errors.
const MAX_TEXT_BYTES: usize = 400;

/// Returns the ids closest to `id`, closest first, by Levenshtein distance.
///
/// People remember the name, which is the last segment of an id. So the edit distance of the names is at most a third of
/// the length, and at least 1 is allowed. The distance of the preceding segments breaks ties. Ids that start with `id`
/// and a slash are suggested, too.
pub(crate) fn similar_ids(catalog: &SnippetCatalog<'_>, id: &str) -> Vec<String> {
    if id.len() > MAX_TEXT_BYTES {
        return Vec::new();
    }
    let id = id.to_ascii_lowercase();
    let id = id.strip_suffix(".md").unwrap_or(&id).trim_matches('/');
    let (folder, name) = split_name(id);
    let max_distance = (name.len() / 3).max(1);
    let mut similar: Vec<(usize, usize, &str)> = Vec::new();
    for known in catalog.snippets().iter().map(|snippet| snippet.id()) {
        let (known_folder, known_name) = split_name(known);
        let is_below = known.strip_prefix(id).is_some_and(|rest| rest.starts_with('/'));
        // The difference in length is a lower bound of the distance, and cheap.
        let distance = match name.len().abs_diff(known_name.len()) {
            _ if is_below => 0,
            difference if difference > max_distance => continue,
            _ => strsim::levenshtein(name, known_name),
        };
        if distance <= max_distance {
            similar.push((distance, strsim::levenshtein(folder, known_folder), known));
        }
    }
    similar.sort_unstable();
    similar.into_iter().take(MAX_SUGGESTIONS).map(|(_, _, id)| id.to_owned()).collect()
}

/// Splits an id into its preceding segments and its name.
fn split_name(id: &str) -> (&str, &str) {
    id.rsplit_once('/').unwrap_or(("", id))
}
