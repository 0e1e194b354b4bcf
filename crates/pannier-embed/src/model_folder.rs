//! The files of a model. Each is read once and whole, so that the hashed bytes are the bytes in use.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::EmbedError;
use crate::weights::{MAX_WEIGHTS_BYTES, Tensors};

/// The maximum size of a `tokenizer.json`.
pub(crate) const MAX_TOKENIZER_BYTES: u64 = 64 << 20;
/// The maximum size of a `config.json`.
pub(crate) const MAX_CONFIG_BYTES: u64 = 1 << 20;

const WEIGHTS: &str = "model.safetensors";

/// The folder of a model.
#[derive(Clone, Debug)]
pub(crate) struct ModelFolder(PathBuf);

impl ModelFolder {
    pub(crate) fn open(path: &Path) -> Result<Self, EmbedError> {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(Self(path.to_owned())),
            Ok(_) => Err(EmbedError::NoFolder { path: path.to_owned() }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(EmbedError::NoFolder { path: path.to_owned() })
            }
            Err(error) => Err(EmbedError::io("open", path, error)),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the bytes of a required file.
    pub(crate) fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>, EmbedError> {
        self.read_optional(name, max_bytes)?.ok_or_else(|| EmbedError::MissingFile {
            folder: self.0.clone(),
            file: name.to_owned(),
        })
    }

    /// Returns the bytes of an optional file.
    pub(crate) fn read_optional(
        &self,
        name: &str,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, EmbedError> {
        let path = self.file(name);
        let failed = |error| EmbedError::io("read", &path, error);
        // Checked before it is opened: opening a pipe would block.
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Err(EmbedError::invalid(&path, "it is not a file")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        let file = File::open(&path).map_err(failed)?;
        let bytes = pannier_files::read_file_bounded(&file, max_bytes).map_err(failed)?;
        let too_large =
            || EmbedError::invalid(&path, format!("it has more than {max_bytes} bytes"));
        bytes.ok_or_else(too_large).map(Some)
    }

    /// Reads the weights: `model.safetensors`, or the only file with that extension.
    pub(crate) fn weights(&self) -> Result<(PathBuf, Tensors), EmbedError> {
        let name = self.weights_name()?;
        let path = self.file(&name);
        let bytes = self.read(&name, MAX_WEIGHTS_BYTES)?;
        let tensors =
            Tensors::parse(bytes).map_err(|problem| EmbedError::invalid(&path, problem))?;
        Ok((path, tensors))
    }

    fn weights_name(&self) -> Result<String, EmbedError> {
        if self.file(WEIGHTS).exists() {
            return Ok(WEIGHTS.to_owned());
        }
        let failed = |error| EmbedError::io("list", &self.0, error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0).map_err(failed)? {
            // A name that is not UTF-8 does not belong to a model.
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string()
                && name.ends_with(".safetensors")
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        match names.as_slice() {
            [name] => Ok(name.clone()),
            [] => Err(EmbedError::MissingFile { folder: self.0.clone(), file: WEIGHTS.to_owned() }),
            _ => Err(EmbedError::invalid(
                &self.0,
                format!(
                    "it has several weight files: {}; rename the right one to {WEIGHTS}",
                    names.join(", ")
                ),
            )),
        }
    }
}
