//! The state folder, and the clock.

use std::path::PathBuf;
use std::time::SystemTime;

use pannier_core::Timestamp;

use crate::error::CliError;

pub(crate) fn clock() -> Timestamp {
    SystemTime::now().into()
}

/// Returns the folder `name` below the user's state folder.
pub(crate) fn state_dir(name: &str) -> Result<PathBuf, CliError> {
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME")
        .or_else(|| variable("LOCALAPPDATA"))
        .or_else(|| Some(variable("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| {
        let problem =
            "there is no folder for session state; set XDG_STATE_HOME or HOME to an absolute path";
        CliError::Usage(problem.to_owned())
    })?;
    Ok(state.join("pannier").join(name))
}
