//! Records the snippets that a session received.
//!
//! Each session and set of roots has one file with an id and a hash per line. The hash detects changed texts, which are
//! sent again. Concurrent calls of a session merge their deliveries under a lock. A damaged file counts as empty, so the
//! worst case is a repeated delivery.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pannier_files::{SessionFile, SessionId, SessionStore};

use crate::id::is_id;
use crate::{GetResponse, Roots, SnippetsError, TextHash};

const HEADER: &str = "pannier snippets 2\n";

/// Larger files are not delivery logs.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Files of sessions without a delivery for 30 days are removed.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A folder of files that record which snippets each session received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryLog {
    files: SessionStore,
}

impl DeliveryLog {
    /// Stores the files in `folder`, which the first `record` creates.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { files: SessionStore::in_folder(folder, ".snippets") }
    }

    /// Returns the ids and text hashes of the snippets of these roots that a session received.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::Session`] if the file of the session cannot be located.
    pub fn read(
        &self,
        session: &SessionId,
        roots: &Roots,
    ) -> Result<BTreeMap<String, TextHash>, SnippetsError> {
        Ok(parse(self.file(session, roots)?.read(MAX_FILE_BYTES)))
    }

    /// Records the sent snippets, removes ids that no longer exist, deletes files older than 30 days, and the oldest if there are
    /// more than 10,000.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::Session`] if the file cannot be written.
    pub fn record(
        &self,
        session: &SessionId,
        roots: &Roots,
        response: &GetResponse<'_>,
    ) -> Result<(), SnippetsError> {
        let change = |mut delivered: BTreeMap<String, TextHash>| {
            match response {
                GetResponse::Snippets(bundle) => delivered.extend(
                    bundle
                        .snippets
                        .iter()
                        .map(|snippet| (snippet.id.to_string(), TextHash::of(&snippet.text))),
                ),
                GetResponse::Discovery { gone, .. } => {
                    delivered.retain(|id, _| !gone.contains(id));
                }
            }
            delivered
        };
        let write = |bytes: Option<Vec<u8>>| {
            let delivered = change(parse(bytes));
            let lines = delivered.into_iter().map(|(id, hash)| format!("{id} {hash}\n"));
            Some((HEADER.to_owned() + &lines.collect::<String>()).into_bytes())
        };
        let file = self.file(session, roots)?;
        file.update(MAX_FILE_BYTES, write)?;
        file.remove_stale(MAX_AGE);
        Ok(())
    }

    fn file(&self, session: &SessionId, roots: &Roots) -> Result<SessionFile, SnippetsError> {
        let roots: Vec<&Path> = roots.iter().map(|root| root.real_path()).collect();
        Ok(self.files.file(session, &roots)?)
    }
}

fn parse(bytes: Option<Vec<u8>>) -> BTreeMap<String, TextHash> {
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let lines = text.strip_prefix(HEADER).unwrap_or_default().lines();
    let entries = lines.filter_map(|line| {
        let (id, hash) = line.split_once(' ').filter(|(id, _)| is_id(id))?;
        Some((id.to_owned(), TextHash::parse(hash)?))
    });
    entries.collect()
}
