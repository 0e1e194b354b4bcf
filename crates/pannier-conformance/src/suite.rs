//! Runs all vectors of a folder.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::run_vector;

/// The outcome of a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All its expectations hold.
    Passed,
    /// The engine differs. One text for each difference.
    Failed(Vec<String>),
    /// It could not be run: it is not TOML, a key is missing, or a name is unknown.
    NotRun(String),
}

/// A vector file and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The file, relative to the folder of the suite.
    pub path: PathBuf,
    /// The outcome.
    pub outcome: Outcome,
}

/// All vectors below a folder, in order of their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// The vectors.
    pub cases: Vec<Case>,
}

/// A folder that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}; name a folder with .toml vectors in it, or one vector", path.display())]
pub struct SuiteError {
    /// The file or folder.
    pub path: PathBuf,
    source: io::Error,
}

impl Suite {
    /// Runs every `.toml` file below a folder, or one file.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read. A file that cannot is a case that was not run.
    pub fn run(folder: &Path) -> Result<Self, SuiteError> {
        let mut files = Vec::new();
        if folder.is_file() {
            files.push(folder.to_owned());
        } else {
            find_vectors(folder, &mut files)?;
        }
        files.sort();
        let cases = files.into_iter().map(|file| {
            let outcome = match std::fs::read_to_string(&file) {
                Ok(text) => run_vector(&text),
                Err(error) => Outcome::NotRun(format!("cannot read the file: {error}")),
            };
            let below = file.strip_prefix(folder).ok().filter(|path| !path.as_os_str().is_empty());
            let path = below.unwrap_or(&file).to_owned();
            Case { path, outcome }
        });
        Ok(Self { cases: cases.collect() })
    }

    /// How many vectors passed.
    pub fn passed(&self) -> usize {
        self.count(|outcome| *outcome == Outcome::Passed)
    }

    /// How many vectors failed.
    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    /// How many vectors could not be run.
    pub fn not_run(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::NotRun(_)))
    }

    /// Whether there were vectors, and all of them passed.
    pub fn is_clean(&self) -> bool {
        !self.cases.is_empty() && self.passed() == self.cases.len()
    }

    fn count(&self, test: impl Fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|case| test(&case.outcome)).count()
    }
}

fn find_vectors(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), SuiteError> {
    let failed = |source| SuiteError { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // A link is not followed, so a folder cannot contain itself.
        let kind = entry.file_type().map_err(failed)?;
        let path = entry.path();
        if kind.is_dir() {
            find_vectors(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cases.is_empty() {
            return write!(f, "there are no vectors here: no file ends in .toml");
        }
        for Case { path, outcome } in &self.cases {
            match outcome {
                Outcome::Passed => {}
                Outcome::Failed(differences) => {
                    writeln!(f, "FAILED   {}", path.display())?;
                    for difference in differences {
                        writeln!(f, "  {}", difference.replace('\n', "\n  "))?;
                    }
                }
                Outcome::NotRun(problem) => {
                    writeln!(f, "NOT RUN  {}", path.display())?;
                    writeln!(f, "  {}", problem.trim_end().replace('\n', "\n  "))?;
                }
            }
        }
        let (passed, failed, not_run) = (self.passed(), self.failed(), self.not_run());
        write!(f, "{passed} passed, {failed} failed, {not_run} could not be run")
    }
}
