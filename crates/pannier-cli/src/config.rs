//! Settings of a project and of the environment: `.pannier/`, `pannier.toml` and variables.
//!
//! A flag goes before a variable, a variable before a file. The file and the folder are searched upward from the current
//! folder, as Git searches its own. The commands of the specifications ignore all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pannier::ops::Tokens;
use pannier::{Defaults, Shelf};
use pannier_memory::UserFolder;
use serde::Deserialize;

use crate::error::CliError;
use crate::input;

/// The folder for a project's index and state.
pub(crate) const STATE_FOLDER: &str = ".pannier";

const FILE: &str = "pannier.toml";

/// The maximum size of the file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The settings of a project.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    budget: Option<Tokens>,
    tokenizer: Option<String>,
    policy: Option<String>,
    index: Option<PathBuf>,
    docs: DocsSection,
    serve: ServeSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DocsSection {
    glob: Vec<String>,
}

/// What requests to a server may name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServeSection {
    indexes: BTreeMap<String, PathBuf>,
    policies: BTreeMap<String, String>,
    templates: BTreeMap<String, String>,
    tokenizers: BTreeMap<String, String>,
    embedders: BTreeMap<String, ModelSection>,
    rerankers: BTreeMap<String, ModelSection>,
}

/// A model, and the environment variable with the key of its server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "server"), expect(dead_code, reason = "there is no server"))]
struct ModelSection {
    model: String,
    key_env: Option<String>,
}

impl ServeSection {
    /// Makes all paths relative to the folder of the file.
    fn relative_to(&mut self, folder: &Path) {
        for index in self.indexes.values_mut().filter(|index| !is_address(index)) {
            *index = folder.join(&*index);
        }
        for path in self.policies.values_mut().chain(self.templates.values_mut()) {
            *path = folder.join(&path).display().to_string();
        }
        for name in self.tokenizers.values_mut() {
            *name = relative_to(folder, std::mem::take(name), "file:");
        }
        for ModelSection { model, .. } in self.embedders.values_mut() {
            for prefix in ["minilm:", "static:"] {
                *model = relative_to(folder, std::mem::take(model), prefix);
            }
        }
    }

    /// Returns the indexes that requests may name.
    #[cfg(feature = "server")]
    pub(crate) fn indexes(&self) -> Result<Vec<pannier::NamedFolder>, CliError> {
        let named = |(name, path): (&String, &PathBuf)| pannier::NamedFolder::new(name, path);
        let indexes: Result<_, _> = self.indexes.iter().map(named).collect();
        Ok(indexes.map_err(pannier::Failure::from)?)
    }

    /// Opens everything that requests may name.
    #[cfg(feature = "server")]
    pub(crate) fn open(&self) -> Result<pannier::NamedSettings, CliError> {
        let mut named = pannier::NamedSettings::default();
        for (name, path) in &self.policies {
            named.add_policy(name, path)?;
        }
        for (name, path) in &self.templates {
            named.add_template(name, path)?;
        }
        for (name, tokenizer) in &self.tokenizers {
            named.add_tokenizer(name, tokenizer)?;
        }
        for (name, ModelSection { model, key_env }) in &self.embedders {
            named.add_embedder(name, model, key_env.as_deref())?;
        }
        for (name, ModelSection { model, key_env }) in &self.rerankers {
            named.add_reranker(name, model, key_env.as_deref())?;
        }
        Ok(named)
    }
}

/// Returns whether an index is the address of a database, which is not a path.
pub(crate) fn is_address(index: &Path) -> bool {
    index.to_str().is_some_and(|text| text.contains("://"))
}

/// Settings for options that the command line leaves open.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) defaults: Defaults,
    /// The index that a variable or the file names, not one that was found upward.
    pub(crate) named_index: Option<PathBuf>,
    /// The patterns of documents to index.
    pub(crate) globs: Vec<String>,
    /// What requests to a server may name.
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "there is no server"))]
    pub(crate) serve: ServeSection,
}

/// Reads the settings of the current folder and of the environment.
pub(crate) fn read() -> Result<Settings, CliError> {
    let current = std::env::current_dir().unwrap_or_default();
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    read_from(&current, &variable)
}

fn read_from(
    current: &Path,
    variable: &dyn Fn(&str) -> Option<std::ffi::OsString>,
) -> Result<Settings, CliError> {
    let (mut defaults, mut globs) = (Defaults::default(), Vec::new());
    let mut serve = ServeSection::default();
    let found = current.ancestors().map(|folder| folder.join(FILE)).find(|path| path.is_file());
    if let Some(path) = found {
        let text = input::read_text(&path, MAX_FILE_BYTES)?;
        let mut file: File = toml::from_str(&text).map_err(|error| {
            // The text around the mistake may have a password.
            let start = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count();
            CliError::input_line(&path, line, error.message())
        })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        defaults.budget = file.budget;
        defaults.tokenizer = file.tokenizer.map(|name| relative_to(folder, name, "file:"));
        let is_file = |name: &String| name.contains(['/', '\\', '.']);
        defaults.policy = file.policy.map(|name| match is_file(&name) {
            true => relative_to(folder, name, ""),
            false => name,
        });
        // A relative path is relative to the file.
        let absolute = |index: PathBuf| if is_address(&index) { index } else { folder.join(index) };
        defaults.index = file.index.map(absolute);
        globs = file.docs.glob;
        file.serve.relative_to(folder);
        serve = file.serve;
    }
    if let Some(value) = variable("PANNIER_BUDGET") {
        let text = value.to_string_lossy();
        let budget = text.parse().map_err(|form| {
            CliError::Usage(format!("the variable PANNIER_BUDGET is '{text}'; {form}"))
        })?;
        defaults.budget = Some(budget);
    }
    if let Some(value) = variable("PANNIER_TOKENIZER") {
        defaults.tokenizer = Some(value.to_string_lossy().into_owned());
    }
    if let Some(value) = variable("PANNIER_INDEX") {
        defaults.index = Some(value.into());
    }
    let named_index = defaults.index.clone();
    if defaults.index.is_none() {
        let indexes = current.ancestors().map(|folder| folder.join(STATE_FOLDER).join("index"));
        defaults.index = indexes.into_iter().find(|path| path.is_dir());
    }
    Ok(Settings { defaults, named_index, globs, serve })
}

/// Returns a path after `prefix` as one from `folder` on; other names as they are.
fn relative_to(folder: &Path, name: String, prefix: &str) -> String {
    match name.strip_prefix(prefix) {
        Some(path) => format!("{prefix}{}", folder.join(path).display()),
        None => name,
    }
}

/// Returns a shelf for the user's requests, with the settings of the project and of the environment.
pub(crate) fn shelf() -> Result<Shelf, CliError> {
    Ok(Shelf::local().with_defaults(read()?.defaults).with_user_memory(user_memory()))
}

/// Returns the user's own folder for the memory of all projects, with `~` for the home folder.
pub(crate) fn user_memory() -> Option<UserFolder> {
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = variable("HOME");
    let config = variable("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")))?;
    let path = config.join("pannier").join("context");
    let label = match home.and_then(|home| Some(path.strip_prefix(home).ok()?.to_owned())) {
        Some(below) => Path::new("~").join(below),
        None => path.clone(),
    };
    let label = label.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/");
    Some(UserFolder::new(path, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_override_the_nearest_file_and_paths_are_relative_to_it() {
        let root = std::env::temp_dir().join(format!("pannier-config-{}", std::process::id()));
        let inner = root.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir_all(root.join("a/.pannier/index")).unwrap();
        let text = "budget = \"8k\"\ntokenizer = \"file:t.json\"\npolicy = \"p.toml\"\n[docs]\nglob = [\"*.rs\"]\n[serve]\n\
                    policies.p = \"p.toml\"\ntokenizers.t = \"file:t.json\"\nembedders.m.model = \"minilm:m\"\n";
        std::fs::write(root.join("a/pannier.toml"), text).unwrap();
        let none = |_: &str| None;
        let settings = read_from(&inner, &none).unwrap();
        assert_eq!(settings.defaults.budget, Some(Tokens(8_000)));
        let policy = root.join("a/p.toml").display().to_string();
        assert_eq!(settings.defaults.policy.as_ref(), Some(&policy));
        let tokenizer = format!("file:{}", root.join("a/t.json").display());
        assert_eq!(settings.defaults.tokenizer.as_ref(), Some(&tokenizer));
        assert_eq!(settings.defaults.index, Some(root.join("a/.pannier/index")));
        assert_eq!(settings.globs, ["*.rs"]);
        let ServeSection { policies, tokenizers, embedders, .. } = settings.serve;
        assert_eq!((&policies["p"], &tokenizers["t"]), (&policy, &tokenizer));
        assert_eq!(embedders["m"].model, format!("minilm:{}", root.join("a/m").display()));
        let some = |name: &str| match name {
            "PANNIER_BUDGET" => Some("9k".into()),
            "PANNIER_TOKENIZER" => Some("cl100k".into()),
            "PANNIER_INDEX" => Some("elsewhere".into()),
            _ => None,
        };
        let Defaults { budget, tokenizer, index, .. } = read_from(&inner, &some).unwrap().defaults;
        assert_eq!(budget, Some(Tokens(9_000)));
        assert_eq!((tokenizer.as_deref(), index), (Some("cl100k"), Some("elsewhere".into())));
        let bad = |name: &str| (name == "PANNIER_BUDGET").then(|| "many".into());
        let problem = read_from(&inner, &bad).unwrap_err().to_string();
        assert!(problem.starts_with("the variable PANNIER_BUDGET is 'many'; write a number"));
        std::fs::write(root.join("a/pannier.toml"), "bugdet = 1\n").unwrap();
        let problem = read_from(&inner, &none).unwrap_err().to_string();
        assert!(problem.contains("pannier.toml") && problem.contains("bugdet"), "{problem}");
        std::fs::remove_dir_all(root).unwrap();
    }
}
