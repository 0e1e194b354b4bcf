//! Real data, which is not in the repository.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Returns a memory folder of a project, or says that it is missing.
pub(crate) fn real_folder() -> Option<PathBuf> {
    #[allow(clippy::disallowed_methods, reason = "a test may look at its environment")]
    let data = std::env::var_os("PANNIER_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = data.join("context-folder/spike");
    if !folder.is_dir() {
        let _ = writeln!(std::io::stderr(), "skipped: there is no folder {}", folder.display());
        return None;
    }
    Some(folder)
}
