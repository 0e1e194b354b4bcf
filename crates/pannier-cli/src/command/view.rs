//! `pannier inspect view`: a page that shows a selection or a session.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, ValueHint};
use pannier_core::ContextItem;
use pannier_core::item::UncountedItem;
use pannier_inspector::{Page, PageFile};
use pannier_policy::{BudgetScope, Receipt};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::error::CliError;
use crate::input::{self, PathArguments};
use crate::output;

/// The maximum size of a file that a page shows.
const MAX_BYTES: u64 = 512 << 20;

/// Write a page that shows a selection or a session
///
/// FILE is a receipt, a report, a selection, a session, an assembled context, a packet or items, as Pannier writes them. With the
/// items of a receipt, the page shows scores and reasons, and decides again: the engine is inside. The page is one file. It makes no
/// requests.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pannier pack items.jsonl --budget 8k --receipt run.json
  pannier inspect view run.json items.jsonl -o run.html --open")]
pub(crate) struct View {
    /// File to show
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Items of a receipt: the paths of its run
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    items: Vec<PathBuf>,

    /// Files in folders, e.g. '*.md'; '!' excludes
    #[arg(long = "glob", short, value_name = "GLOB")]
    globs: Vec<String>,

    /// Open the page in a browser; needs -o
    #[arg(long)]
    open: bool,
}

impl View {
    pub(crate) fn run(&self) -> Result<(), CliError> {
        let target = output::file();
        if self.open && target.is_none() {
            return Err(CliError::Usage("--open needs a file: add -o page.html".to_owned()));
        }
        if target.is_none() && output::is_terminal() {
            return Err(CliError::Usage("name the page: add -o page.html".to_owned()));
        }
        output::print(&self.page()?.html())?;
        match target.filter(|_| self.open) {
            Some(path) => open(path),
            None => Ok(()),
        }
    }

    fn page(&self) -> Result<Page, CliError> {
        let text = input::read_text(&self.file, MAX_BYTES)?;
        if text.trim().is_empty() {
            let problem = "it is empty; give a receipt, a report or another answer as JSON";
            return Err(CliError::input(&self.file, problem));
        }
        let is_receipt = is_receipt(&self.file, &text)?;
        let file = PageFile { name: file_name(&self.file), text };
        let paths = &self.items;
        if !is_receipt {
            if !paths.is_empty() {
                let problem = "it is not a receipt; only a receipt has items in other files";
                return Err(CliError::input(&self.file, problem.to_owned()));
            }
            return Ok(Page::new([file]));
        }
        // A damaged receipt is an error here, not on the page.
        let receipt = input::read_receipt(&self.file)?;
        if paths.is_empty() {
            return Ok(Page::new([file]));
        }
        if receipt.source.kind != "items" {
            let problem = format!("it was made from {}; name no items", receipt.source.kind);
            return Err(CliError::input(&self.file, problem));
        }
        let counter = pannier_tokens::counter_by_name(&receipt.tokenizer)?;
        let items = PathArguments::new(paths.clone(), self.globs.clone()).read()?;
        let items = UncountedItem::count(items, &*counter);
        let lines = items.iter().map(|item| serde_json::to_string(item).unwrap_or_default() + "\n");
        let name = paths.iter().map(|path| file_name(path)).collect::<Vec<_>>().join(", ");
        let page = Page::new([file, PageFile { name, text: lines.collect() }]);
        Ok(add_vocabulary(page, &receipt, &items))
    }
}

/// Adds the vocabulary that counts the text of a receipt, if its budget limits a text.
fn add_vocabulary(page: Page, receipt: &Receipt, items: &[ContextItem]) -> Page {
    let encodings = ["o200k", "cl100k"];
    let Some(name) = encodings.into_iter().find(|name| receipt.tokenizer.contains(name)) else {
        return page;
    };
    match receipt.budget_scope {
        BudgetScope::Items => page,
        BudgetScope::Text => {
            let parts = text_parts(receipt, items);
            let parts = parts.iter().map(String::as_str);
            match pannier_tokens::vocabulary_subset(name, parts) {
                Some(file) => page.with_partial_vocabulary(&file),
                None => page,
            }
        }
        _ => match pannier_tokens::vocabulary_file(name) {
            Some(file) => page.with_vocabulary(&file),
            None => page,
        },
    }
}

/// Returns everything of which the text of a selection can consist: the fields of all items, and the text of the template.
fn text_parts(receipt: &Receipt, items: &[ContextItem]) -> Vec<String> {
    // A text ends with a line.
    let mut parts = vec!["\n".to_owned()];
    for item in items {
        let item = serde_json::to_value(item).unwrap_or_default();
        add_leaves(&item, &mut |leaf| parts.push(leaf));
    }
    let template = serde_json::to_value(&receipt.template).unwrap_or_default();
    add_leaves(&template, &mut |leaf| {
        // Fields are in braces; doubled ones are text.
        if leaf.contains("{{") || leaf.contains("}}") {
            parts.extend(["{", "}"].map(str::to_owned));
        }
        parts.extend(leaf.split(['{', '}']).map(str::to_owned));
    });
    parts
}

fn add_leaves(value: &Value, add: &mut impl FnMut(String)) {
    match value {
        Value::String(text) => add(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| add_leaves(value, add)),
        Value::Object(fields) => fields.values().for_each(|value| add_leaves(value, add)),
        other => add(other.to_string()),
    }
}

/// Checks that a file is JSON, or JSON lines, and returns whether it is a receipt.
fn is_receipt(path: &Path, text: &str) -> Result<bool, CliError> {
    #[derive(Deserialize)]
    struct Form {
        receipt: Option<IgnoredAny>,
    }

    if let Ok(form) = serde_json::from_str::<Form>(text) {
        return Ok(form.receipt.is_some());
    }
    for (line, number) in text.lines().zip(1..) {
        if !line.trim().is_empty()
            && let Err(error) = serde_json::from_str::<IgnoredAny>(line)
        {
            // A list may have many lines.
            if serde_json::from_str::<IgnoredAny>(text).is_ok() {
                break;
            }
            return Err(CliError::input_line(path, number, format!("it is not JSON: {error}")));
        }
    }
    Ok(false)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Opens a file in the browser of the user.
fn open(path: &Path) -> Result<(), CliError> {
    let (program, arguments): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/C", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(_) => Ok(()),
        Err(_) => {
            output::warn(&format!("there is no {program}; open {} yourself", path.display()));
            Ok(())
        }
    }
}
