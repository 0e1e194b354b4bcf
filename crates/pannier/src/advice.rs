//! Messages and advice for each audience, all in this file.
//!
//! A library error says what happened in the names of the Rust API. People meet the same failure through a command, whose
//! names are flags, and models through a tool, whose names are arguments. No other crate below the command knows either.

use std::path::Path;

use pannier_core::Error;

#[cfg(feature = "chat")]
use pannier_chat::ChatError;
#[cfg(feature = "docs")]
use pannier_docs::DocsError;
#[cfg(any(feature = "memory", feature = "snippets"))]
use pannier_files::SessionError;
#[cfg(feature = "memory")]
use pannier_memory::MemoryError;
#[cfg(feature = "snippets")]
use pannier_snippets::SnippetsError;

use crate::{Category, Failure, FolderKind, ShelfError};

/// The reader of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// A programmer, who knows functions and fields.
    Library,
    /// The user of the command, who knows flags.
    Command,
    /// A model that calls tools, which knows arguments.
    Agent,
    /// A programmer in another language, who knows the arguments of functions.
    Binding,
}

impl Failure {
    /// Returns what happened and where, in the names that the audience knows.
    pub fn message(&self, audience: Audience) -> String {
        let message = match (self.engine_error(), self) {
            _ if audience == Audience::Library => None,
            (Some(error), _) => engine_message(error, audience),
            (None, Self::Shelf(error)) => shelf_message(error),
            #[cfg(feature = "chat")]
            (None, Self::Chat(error)) => chat_message(error, audience),
            #[cfg(feature = "docs")]
            (None, Self::Docs(error)) if audience == Audience::Command => docs_message(error),
            // The address of a model server is not the client's business.
            #[cfg(feature = "docs")]
            (None, Self::Docs(DocsError::Embedder(_))) if audience == Audience::Agent => {
                Some("the embedding model failed; ask the user to check it".to_owned())
            }
            #[cfg(feature = "docs")]
            (None, Self::Docs(DocsError::Reranker(_))) if audience == Audience::Agent => {
                Some("the reranker failed; ask the user to check it".to_owned())
            }
            _ => None,
        };
        let message = message.unwrap_or_else(|| self.to_string());
        match audience {
            // A server's folders are not the client's business.
            Audience::Agent => self.paths().into_iter().fold(message, |message, path| {
                message.replace(&path.display().to_string(), &name_in_folder(path))
            }),
            _ => message,
        }
    }

    /// The paths in the message.
    fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Shelf(
                ShelfError::InvalidName { path, .. }
                | ShelfError::DuplicateName { path, .. }
                | ShelfError::NoContext { path }
                | ShelfError::Io { path, .. },
            ) => vec![path],
            #[cfg(feature = "chat")]
            Self::Chat(ChatError::Store { path, .. }) => vec![path],
            #[cfg(feature = "docs")]
            Self::Docs(
                DocsError::NoSources { path }
                | DocsError::NoIndex { path }
                | DocsError::NotAnIndex { path }
                | DocsError::Invalid { path, .. }
                | DocsError::Outdated { path }
                | DocsError::Model { path, .. }
                | DocsError::NoVectors { path }
                | DocsError::Busy { path }
                | DocsError::Io { path, .. },
            ) => vec![path],
            #[cfg(feature = "memory")]
            Self::Memory(error) => match error {
                MemoryError::NoFolder { start: path }
                | MemoryError::TooLong { path, .. }
                | MemoryError::Config { path, .. }
                | MemoryError::ConfigValue { path, .. }
                | MemoryError::Exists { path }
                | MemoryError::Io { path, .. } => vec![path],
                MemoryError::Session(error) => session_path(error),
                _ => Vec::new(),
            },
            #[cfg(feature = "snippets")]
            Self::Snippets(error) => match error {
                SnippetsError::NoRoot { path }
                | SnippetsError::SameRoots { path }
                | SnippetsError::NoIndex { path, .. }
                | SnippetsError::InvalidIndex { path, .. }
                | SnippetsError::Io { path, .. } => vec![path],
                SnippetsError::NestedRoots { inner, outer } => vec![inner, outer],
                SnippetsError::Session(error) => session_path(error),
                _ => Vec::new(),
            },
            #[cfg(any(feature = "memory", feature = "snippets"))]
            Self::Session(error) => session_path(error),
            _ => Vec::new(),
        }
    }

    /// Returns what to do about it, unless the message already says so. There is always advice for an [`Audience::Agent`].
    pub fn advice(&self, audience: Audience) -> Option<String> {
        if let Some(error) = self.engine_error() {
            return engine_advice(error, audience).or_else(|| self.fallback_advice(audience));
        }
        let advice = match self {
            Self::Shelf(error) => shelf_advice(error, audience),
            #[cfg(feature = "chat")]
            Self::Chat(ChatError::OverBudget {
                required_tokens,
                smallest_budget,
                is_target,
                ..
            }) => Some(match (is_target, required_tokens == smallest_budget) {
                (true, _) | (_, true) => format!("raise it to at least {required_tokens}"),
                _ => format!("raise {} to at least {smallest_budget}", BUDGET.name(audience)),
            }),
            #[cfg(feature = "chat")]
            Self::Chat(ChatError::SessionOverBudget { smallest_budget, .. }) => {
                Some(format!("raise {} to at least {smallest_budget}", BUDGET.name(audience)))
            }
            #[cfg(feature = "chat")]
            Self::Chat(ChatError::UnknownRecallId { .. }) => Some(match audience {
                Audience::Command => "`chat FILE --report` lists the ids of a history; name it by \
                                      --session FILE, or store what is cut with `chat --store`"
                    .to_owned(),
                _ => "use an id that the request contains".to_owned(),
            }),
            #[cfg(feature = "docs")]
            Self::Docs(error) => docs_advice(error, audience),
            #[cfg(feature = "memory")]
            Self::Memory(error) => match error {
                MemoryError::NoFolder { .. } if audience == Audience::Library => {
                    Some("create one with `memory::init`".to_owned())
                }
                MemoryError::NoFolder { .. } => {
                    Some("create one with `pannier memory init`".to_owned())
                }
                MemoryError::NoPacket => replay_advice(audience),
                _ => None,
            },
            #[cfg(feature = "snippets")]
            Self::Snippets(error) => snippets_advice(error, audience),
            Self::NoBudget => {
                let budget = BUDGET.name(audience);
                Some(match audience {
                    Audience::Binding => format!("add {budget}, as in 8000 or \"8k\""),
                    _ => format!("add {budget}, as in {budget} 8k"),
                })
            }
            Self::AnswerOverBudget { smallest_budget, .. } => {
                Some(format!("raise {} to {smallest_budget}", BUDGET.name(audience)))
            }
            Self::Request { .. } if audience == Audience::Agent => {
                Some("see the input schema of the tool, then call again".to_owned())
            }
            _ => None,
        };
        advice.or_else(|| self.fallback_advice(audience))
    }

    /// The engine's error, if a front end only passes it on.
    fn engine_error(&self) -> Option<&Error> {
        match self {
            Self::Engine(error) => Some(error),
            #[cfg(feature = "chat")]
            Self::Chat(ChatError::Engine(error)) => Some(error),
            #[cfg(feature = "docs")]
            Self::Docs(DocsError::Engine(error)) => Some(error),
            #[cfg(feature = "memory")]
            Self::Memory(MemoryError::Engine(error)) => Some(error),
            #[cfg(feature = "snippets")]
            Self::Snippets(SnippetsError::Engine(error)) => Some(error),
            _ => None,
        }
    }

    fn fallback_advice(&self, audience: Audience) -> Option<String> {
        let advice = match self.category() {
            _ if audience != Audience::Agent => return None,
            Category::InvalidInput => "change the arguments as the message says",
            Category::BudgetNotMet => "raise the budget, or ask for less",
            Category::CacheMissing | Category::CacheInvalid => {
                "ask the user to run `pannier docs index`; then call again"
            }
            Category::Io => "check that the files can be read; then call again",
            Category::CheckFailed => "name one that exists",
            _ => "this is a fault of the server; please report it",
        };
        Some(advice.to_owned())
    }
}

/// The names of one setting.
struct Setting {
    field: &'static str,
    flag: &'static str,
    argument: &'static str,
}

const BUDGET: Setting = Setting { field: "maxTokens", flag: "--budget", argument: "budget" };
const TARGET: Setting = Setting { field: "targetTokens", flag: "--target", argument: "target" };
const RESERVE: Setting = Setting { field: "outputReserve", flag: "--reserve", argument: "reserve" };

impl Setting {
    fn name(&self, audience: Audience) -> &'static str {
        match audience {
            Audience::Library => self.field,
            Audience::Command => self.flag,
            Audience::Agent | Audience::Binding => self.argument,
        }
    }
}

/// The name of a field of a budget.
fn budget_field(field: &str, audience: Audience) -> String {
    let setting = [BUDGET, TARGET, RESERVE].into_iter().find(|setting| setting.field == field);
    match (setting, field.strip_prefix("reservedSlots.")) {
        (Some(setting), _) => setting.name(audience).to_owned(),
        (None, Some(kind)) if audience == Audience::Command => format!("--slot {kind}"),
        _ => field.to_owned(),
    }
}

fn engine_message(error: &Error, audience: Audience) -> Option<String> {
    let budget = BUDGET.name(audience);
    let input = format!("{budget} less {}", RESERVE.name(audience));
    Some(match error {
        Error::NegativeTokens { field, tokens } => {
            format!("{} is {tokens}; it must be 0 or more", budget_field(field, audience))
        }
        Error::AboveWindow { field, tokens, max_tokens } => format!(
            "{} is {tokens}; it must not be above {budget}, which is {max_tokens}",
            budget_field(field, audience)
        ),
        Error::MarginOutOfRange { percent } => {
            let margin = if audience == Audience::Command { "--margin" } else { "margin" };
            format!("{margin} is {percent}; it must be from 0 to 100")
        }
        Error::NoReferenceTime => "the policy measures age but has no reference time".to_owned(),
        Error::PinnedOverBudget { pinned_tokens, available_tokens } => {
            format!("pinned items need {pinned_tokens} tokens but {input} is {available_tokens}")
        }
        Error::OverTarget { selected_tokens, target_tokens } => format!(
            "selected items need {selected_tokens} tokens but the target is {target_tokens}"
        ),
        Error::OverWindow { selected_tokens, input_tokens } => {
            format!("selected items need {selected_tokens} tokens but {input} is {input_tokens}")
        }
        Error::NotMonotonic { .. } => {
            "the policy has quotas, so a smaller budget may let other items in; the question has no answer".to_owned()
        }
        Error::RequiredTextOverBudget { fixed_tokens, target_tokens } => format!(
            "pinned items and the text around them need {fixed_tokens} tokens but the target is {target_tokens}"
        ),
        _ => return None,
    })
}

/// The engine's own messages advise programmers.
fn engine_advice(error: &Error, audience: Audience) -> Option<String> {
    let raise = |needed: &i64, allowed: &i64| {
        format!("raise {} by {}", BUDGET.name(audience), needed.saturating_sub(*allowed))
    };
    Some(match error {
        _ if audience == Audience::Library => return None,
        Error::NoReferenceTime if matches!(audience, Audience::Agent | Audience::Binding) => {
            "add the argument now, as in \"now\": \"2026-03-01T12:00:00Z\"".to_owned()
        }
        Error::NoReferenceTime => {
            "add --now, as in --now 2026-03-01T12:00:00Z, or set reference_time in the policy"
                .to_owned()
        }
        Error::NotMonotonic { .. } if audience == Audience::Command => {
            "compare two runs with `pannier inspect diff`".to_owned()
        }
        Error::UnknownName { what: "policy", .. } if audience == Audience::Command => {
            "or name a .toml or .json file".to_owned()
        }
        Error::PinnedOverBudget { pinned_tokens, available_tokens } => {
            format!("{} or unpin items", raise(pinned_tokens, available_tokens))
        }
        Error::OverTarget { selected_tokens, target_tokens } => {
            let raise = raise(selected_tokens, target_tokens);
            format!("{raise} or choose another overflow strategy")
        }
        Error::OverWindow { selected_tokens, input_tokens } => {
            format!("{} or lower the required counts", raise(selected_tokens, input_tokens))
        }
        Error::RequiredTextOverBudget { fixed_tokens, target_tokens } => {
            format!("{}, unpin items or shorten the template", raise(fixed_tokens, target_tokens))
        }
        _ => return None,
    })
}

/// Returns a path from its project's `.context` folder on, or else its last component.
fn name_in_folder(path: &Path) -> String {
    let last = path.file_name().map(Path::new).unwrap_or(path);
    let mut folders = path.ancestors().skip(1);
    let context = folders.find(|folder| folder.file_name().is_some_and(|name| name == ".context"));
    let project = context.and_then(Path::parent);
    let name = project.and_then(|project| path.strip_prefix(project).ok()).unwrap_or(last);
    name.display().to_string()
}

#[cfg(any(feature = "memory", feature = "snippets"))]
fn session_path(error: &SessionError) -> Vec<&Path> {
    match error {
        SessionError::Io { path, .. } => vec![path],
        _ => Vec::new(),
    }
}

#[cfg(feature = "chat")]
fn chat_message(error: &ChatError, audience: Audience) -> Option<String> {
    let ChatError::OverBudget { required_tokens, smallest_budget, available_tokens, is_target } =
        error
    else {
        return None;
    };
    let limit = match (is_target, required_tokens == smallest_budget) {
        (true, _) => TARGET.name(audience).to_owned(),
        (_, true) => BUDGET.name(audience).to_owned(),
        _ => format!("{} less {}", BUDGET.name(audience), RESERVE.name(audience)),
    };
    Some(format!(
        "system prompt, tools and last user message need {required_tokens} tokens but {limit} is {available_tokens}"
    ))
}

#[cfg(any(feature = "docs", feature = "memory"))]
fn replay_advice(audience: Audience) -> Option<String> {
    (audience == Audience::Command).then(|| "replay it with the input it was made from".to_owned())
}

/// The messages of `pannier-docs` speak of vectors and modes, as its API does.
#[cfg(feature = "docs")]
fn docs_message(error: &DocsError) -> Option<String> {
    Some(match error {
        DocsError::NoSources { path } => format!("folder `{}` does not exist", path.display()),
        DocsError::NoVectors { .. } => "the index has no embeddings".to_owned(),
        _ => return None,
    })
}

#[cfg(feature = "docs")]
fn docs_advice(error: &DocsError, audience: Audience) -> Option<String> {
    Some(match (error, audience) {
        (DocsError::Receipt { .. }, _) => return replay_advice(audience),
        (DocsError::NoIndex { .. }, Audience::Library) => "build one with `docs::build`".to_owned(),
        (DocsError::NoIndex { path }, Audience::Command) => {
            match path.ends_with(".pannier/index") {
                true => "build one with `pannier docs index`".to_owned(),
                false => format!("build one with `pannier docs index --index {}`", path.display()),
            }
        }
        (DocsError::NoIndex { .. }, Audience::Binding) => "build one with `Index.build`".to_owned(),
        (DocsError::Invalid { .. } | DocsError::Outdated { .. }, Audience::Binding) => {
            "rebuild it with `Index.build` and the option `rebuild`".to_owned()
        }
        (DocsError::Invalid { .. } | DocsError::Outdated { .. }, Audience::Library) => {
            "rebuild it with `docs::build`".to_owned()
        }
        (DocsError::Invalid { .. }, Audience::Command) => {
            "rebuild it with `pannier docs index --rebuild`".to_owned()
        }
        (DocsError::Outdated { .. }, Audience::Command) => {
            "rebuild it with `pannier docs index`".to_owned()
        }
        (DocsError::Reranker(_), Audience::Command) => {
            "fix it, or search without --reranker".to_owned()
        }
        (DocsError::NoVectors { .. }, Audience::Command) => {
            "run `pannier docs index --embedder …` or pass --mode lexical".to_owned()
        }
        (DocsError::Vectors { .. } | DocsError::NoVector { .. }, Audience::Library) => {
            "give a vector for every id that `docs::for_each_chunk` reports".to_owned()
        }
        (DocsError::Vectors { .. } | DocsError::NoVector { .. }, Audience::Command) => {
            "give an embedding for every id that `pannier docs chunks` prints".to_owned()
        }
        _ => return None,
    })
}

#[cfg(feature = "snippets")]
fn snippets_advice(error: &SnippetsError, audience: Audience) -> Option<String> {
    Some(match (error, audience) {
        (SnippetsError::NoIndex { .. } | SnippetsError::InvalidIndex { .. }, Audience::Library) => {
            "write it with `snippets::index`".to_owned()
        }
        (SnippetsError::NoIndex { root, .. }, Audience::Command | Audience::Binding) => {
            format!("write one with `pannier snippets index --root {}`", root.display())
        }
        (SnippetsError::InvalidIndex { .. }, Audience::Command | Audience::Binding) => {
            "rewrite it with `pannier snippets index`".to_owned()
        }
        (SnippetsError::NoIndex { .. } | SnippetsError::InvalidIndex { .. }, Audience::Agent) => {
            "ask the user to run `pannier snippets index`; then call again".to_owned()
        }
        (SnippetsError::UnknownIds { .. }, Audience::Command) => {
            "choose others from `pannier snippets list`".to_owned()
        }
        (SnippetsError::UnknownIds { .. }, Audience::Agent) => {
            "call get_context without snippet_ids to see which ids there are".to_owned()
        }
        _ => return None,
    })
}

/// The name of a kind of folder in the server's flags and arguments.
fn folder_flag(kind: FolderKind) -> &'static str {
    match kind {
        FolderKind::Documents => "--index",
        FolderKind::Snippets => "--snippets",
        FolderKind::Memory => "--memory",
    }
}

/// The name of a kind of folder in the arguments of a call.
fn folder_argument(kind: FolderKind) -> &'static str {
    match kind {
        FolderKind::Documents => "index",
        FolderKind::Snippets => "snippets",
        FolderKind::Memory => "project",
    }
}

fn shelf_message(error: &ShelfError) -> Option<String> {
    Some(match error {
        ShelfError::NoFolder { kind } => {
            format!("the server was started without {}", folder_flag(*kind))
        }
        ShelfError::NameRequired { kind, .. } => {
            format!("there are several, and {} does not say which", folder_argument(*kind))
        }
        ShelfError::UnknownName { kind, name, .. } => {
            format!("there is no {} '{name}'", folder_argument(*kind))
        }
        _ => return None,
    })
}

fn shelf_advice(error: &ShelfError, audience: Audience) -> Option<String> {
    Some(match error {
        _ if audience == Audience::Library => return None,
        ShelfError::NoFolder { kind } => {
            format!("ask the user to start the server with {} PATH", folder_flag(*kind))
        }
        ShelfError::NameRequired { kind, names } => {
            format!("add the argument {}: one of {names}", folder_argument(*kind))
        }
        ShelfError::UnknownName { kind, names, .. } => {
            format!("{} is one of {names}", folder_argument(*kind))
        }
        ShelfError::NoStateFolder if audience == Audience::Command => {
            "omit --session, or set XDG_STATE_HOME or HOME to an absolute path".to_owned()
        }
        ShelfError::NoStateFolder => {
            "leave session out, or start the server with XDG_STATE_HOME or HOME set".to_owned()
        }
        ShelfError::MemoryGone => {
            "ask the user to restore it, or to start the server with another folder".to_owned()
        }
        _ => return None,
    })
}
