//! What a session was given already.
//!
//! The ids of the snippets that were sent are kept in a file for each session and set of roots, one a line, each with the
//! hash of its text, so that a text that has changed since is sent again. Several calls of a session may run at once: each
//! adds what it sent to what is there by then, so that none loses what another one sent. Whatever is wrong with a file
//! merely means that snippets are sent again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pannier_files::{SessionFile, SessionId, SessionStore};

use crate::id::is_id;
use crate::{GetResponse, Roots, SnippetsError, TextHash};

const HEADER: &str = "pannier snippets 2\n";

/// Longer files hold something else.
const LONGEST: u64 = 16 << 20;

/// Sessions that got nothing for so long are over.
const OLD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Remembers in a folder what sessions were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryLog {
    files: SessionStore,
}

impl DeliveryLog {
    /// Keeps its files in this folder, which is made when it is needed.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { files: SessionStore::in_folder(folder, ".snippets") }
    }

    /// The ids of what a session was given of these roots, and the hashes of the texts.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::Session`] if a root cannot be looked at.
    pub fn read(
        &self,
        session: &SessionId,
        roots: &Roots,
    ) -> Result<BTreeMap<String, TextHash>, SnippetsError> {
        Ok(parse(self.file(session, roots)?.read(LONGEST)))
    }

    /// Remembers what was sent, and forgets ids that are gone, and sessions that got nothing for a month.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::Session`] if it cannot be written.
    pub fn record(
        &self,
        session: &SessionId,
        roots: &Roots,
        answer: &GetResponse<'_>,
    ) -> Result<(), SnippetsError> {
        let change = |mut delivered: BTreeMap<String, TextHash>| {
            match answer {
                GetResponse::Snippets(context) => delivered.extend(
                    context
                        .snippets
                        .iter()
                        .map(|snippet| (snippet.id.to_owned(), TextHash::of(&snippet.text))),
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
        file.update(LONGEST, write)?;
        file.remove_stale(OLD);
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
