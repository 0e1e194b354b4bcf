//! What a session was given already.
//!
//! The ids of the snippets that were sent are kept in a file for each session and set of roots, one a line. Several calls of
//! a session may run at once: each adds what it sent to what is there by then, so that none loses what another one sent.
//! Whatever is wrong with a file merely means that snippets are sent again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pannier_sessions::{SessionFile, SessionFiles, SessionId};

use crate::id::is_id;
use crate::{Answer, Roots, SnippetsError};

const HEADER: &str = "pannier snippets 1\n";

/// Longer files hold something else.
const LONGEST: u64 = 16 << 20;

/// Sessions that got nothing for so long are over.
const OLD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Remembers in a folder what sessions were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deliveries {
    files: SessionFiles,
}

impl Deliveries {
    /// Keeps its files in this folder, which is made when it is needed.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { files: SessionFiles::in_folder(folder, ".snippets") }
    }

    /// The ids of what a session was given of these roots.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::Session`] if a root cannot be looked at.
    pub fn read(
        &self,
        session: &SessionId,
        roots: &Roots,
    ) -> Result<BTreeSet<String>, SnippetsError> {
        Ok(parse(self.file(session, roots)?.read(LONGEST)))
    }

    /// Remembers what was sent, and forgets ids that are gone.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::Session`] if it cannot be written.
    pub fn record(
        &self,
        session: &SessionId,
        roots: &Roots,
        answer: &Answer<'_>,
    ) -> Result<(), SnippetsError> {
        let change = |mut ids: BTreeSet<String>| {
            match answer {
                Answer::Snippets(context) => {
                    let sent = context.snippets.iter();
                    ids.extend(sent.map(|snippet| snippet.id.to_owned()));
                }
                Answer::Discovery { gone, .. } => ids.retain(|id| !gone.contains(id)),
            }
            ids
        };
        let write = |bytes: Option<Vec<u8>>| {
            let lines = change(parse(bytes)).into_iter().map(|id| id + "\n");
            Some((HEADER.to_owned() + &lines.collect::<String>()).into_bytes())
        };
        Ok(self.file(session, roots)?.update(LONGEST, write)?)
    }

    /// Forgets sessions that got nothing for a month.
    pub fn forget(&self) {
        self.files.forget(OLD);
    }

    fn file(&self, session: &SessionId, roots: &Roots) -> Result<SessionFile, SnippetsError> {
        let roots: Vec<&Path> = roots.iter().map(|root| root.real_path()).collect();
        Ok(self.files.file(session, &roots)?)
    }
}

fn parse(bytes: Option<Vec<u8>>) -> BTreeSet<String> {
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let lines = text.strip_prefix(HEADER).unwrap_or_default().lines();
    lines.filter(|line| is_id(line)).map(str::to_owned).collect()
}
