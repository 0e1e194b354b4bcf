//! What commands remember between runs: where it is kept, and what time it is.

use std::path::PathBuf;
use std::time::SystemTime;

use pannier_core::Timestamp;

use crate::error::CliError;

pub(crate) fn clock() -> Timestamp {
    SystemTime::now().into()
}

/// A folder of this name where programs keep what they remember.
pub(crate) fn folder(name: &str) -> Result<PathBuf, CliError> {
    let folder =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME")
        .or_else(|| folder("LOCALAPPDATA"))
        .or_else(|| Some(folder("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| {
        let problem = "there is no folder for what sessions have seen; set XDG_STATE_HOME, or HOME, to an absolute path";
        CliError::Usage(problem.to_owned())
    })?;
    Ok(state.join("pannier").join(name))
}
