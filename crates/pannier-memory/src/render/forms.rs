//! The forms of an entry: whole, with the paragraph that answers, by its title.

use pannier_core::item::FormName;

use super::markdown::{bullet, content, date_prefix, markdown_entry, starts_with_block};
use super::note::NoteRenderer;
use super::{PacketFormat, SELECTABLE_SECTIONS, json_element};
use crate::excerpt::{key_paragraph, one_line_paragraph, one_line_title, truncate};
use crate::{Entry, PacketOptions, PacketPolicy, Section};

#[derive(Debug)]
pub(super) struct RenderedEntry {
    /// A position in [`SELECTABLE_SECTIONS`].
    pub(super) section: usize,
    /// Whole first, then shorter.
    pub(super) forms: Vec<RenderedForm>,
    /// Whether the packet only names it.
    pub(super) is_on_demand: bool,
    /// Whether it is counted if it is omitted. In packets of the specification, superseded entries are not.
    pub(super) counts_as_omitted: bool,
}

/// An entry in one of its forms.
#[derive(Debug)]
pub(crate) struct RenderedForm {
    pub(crate) name: FormName,
    /// The content of the item.
    pub(crate) content: String,
    /// The content as printed.
    pub(super) text: String,
    pub(crate) tokens: usize,
}

impl RenderedEntry {
    /// Renders an entry. Its token counts are still 0.
    pub(super) fn new(entry: &Entry, options: &PacketOptions) -> Self {
        let PacketOptions { format, policy, .. } = *options;
        let is_on_demand = entry.is_on_demand(&options.files);
        let section = if is_on_demand { Section::Skills } else { entry.section() };
        let section = SELECTABLE_SECTIONS.iter().position(|(other, _)| *other == section);
        let forms = match policy {
            PacketPolicy::PacketSeed => seed_forms(entry, format),
            PacketPolicy::Memory if is_on_demand => on_demand_forms(entry, format),
            PacketPolicy::Memory => memory_forms(entry, format),
        };
        Self {
            is_on_demand,
            // The pool has no rules, so the section is always selectable.
            section: section.unwrap_or_default(),
            forms,
            counts_as_omitted: policy == PacketPolicy::Memory || !entry.is_superseded(),
        }
    }

    /// Drops forms that are not shorter than the one before.
    pub(super) fn drop_longer_forms(&mut self) {
        let mut tokens = usize::MAX;
        self.forms.retain(|form| {
            let is_shorter = form.tokens < tokens;
            tokens = tokens.min(form.tokens);
            is_shorter
        });
    }
}

impl RenderedForm {
    fn new(name: FormName, content: impl Into<String>, text: String) -> Self {
        Self { name, content: content.into(), text, tokens: 0 }
    }
}

/// Returns the forms of the specification: whole, and by its title.
fn seed_forms(entry: &Entry, format: PacketFormat) -> Vec<RenderedForm> {
    let (whole, short) = (content(entry), truncate(entry.title()));
    let printed = match format {
        PacketFormat::Json => json_element(&format!("{}{whole}", date_prefix(entry))),
        PacketFormat::Markdown => markdown_entry(entry, "- [ ] ", &whole),
    };
    let mut forms = vec![RenderedForm::new(FormName::SHORT, whole, printed)];
    // Omitted conventions are only counted.
    if entry.section() != Section::Conventions {
        let printed = match format {
            PacketFormat::Json => json_element(&short),
            PacketFormat::Markdown => bullet("- ", &short),
        };
        forms.push(RenderedForm::new(FormName::SHORT, short, printed));
    }
    forms
}

/// The name of the form with the paragraph that answers.
const EXCERPT: &str = "excerpt";

/// Returns the forms of an entry: whole, with the paragraph that answers, and by its title.
fn memory_forms(entry: &Entry, format: PacketFormat) -> Vec<RenderedForm> {
    let whole = match (entry.phase(), entry.source()) {
        (Some(phase), _) => below_heading(phase, &content(entry)),
        (None, Some(_)) if entry.title() != entry.path() => {
            format!("{}: {}", entry.path(), content(entry))
        }
        (None, _) => content(entry).into_owned(),
    };
    let printed = match format {
        PacketFormat::Json => json_element(&format!("{}{whole}", date_prefix(entry))),
        PacketFormat::Markdown => {
            markdown_entry(entry, if entry.is_specified() { "- [ ] " } else { "- " }, &whole)
        }
    };
    let mut forms = vec![RenderedForm::new(FormName::TITLE, whole, printed)];
    let title = one_line_title(entry);
    let notes = NoteRenderer::new(entry, format);
    if let (Some(paragraph), Ok(name)) = (key_paragraph(entry.text()), FormName::new(EXCERPT)) {
        let (content, printed) = match entry.section().has_titles() {
            true => (format!("{title}\n\n{paragraph}"), notes.note(&title, Some(paragraph))),
            // The paragraph of a list item has its title.
            false => {
                let paragraph = one_line_paragraph(entry);
                let printed = notes.note(&paragraph, None);
                (paragraph, printed)
            }
        };
        forms.push(RenderedForm::new(name, content, printed));
    }
    let printed = notes.note(&title, None);
    forms.push(RenderedForm::new(FormName::TITLE, title, printed));
    forms
}

/// Returns a text with the heading above it. Only a paragraph can continue its line.
fn below_heading(heading: &str, text: &str) -> String {
    let separator = if starts_with_block(text) { "\n\n" } else { " " };
    format!("[{heading}]{separator}{text}")
}

/// Returns the forms of a skill, or of a rule for other files: with its description, with the beginning of it, and by its
/// title.
fn on_demand_forms(entry: &Entry, format: PacketFormat) -> Vec<RenderedForm> {
    let title = one_line_title(entry);
    let description = entry.source().and_then(|source| source.description());
    let described = match description {
        Some(description) => format!("{title}: {description}"),
        None => title.clone(),
    };
    let notes = NoteRenderer::new(entry, format);
    let form = |name: FormName, text: String| {
        let printed = notes.note(&text, None);
        RenderedForm::new(name, text, printed)
    };
    let short = truncate(&described);
    let excerpt = FormName::new(EXCERPT).map(|name| form(name, short)).ok();
    let whole = form(FormName::TITLE, described);
    [Some(whole), excerpt, Some(form(FormName::TITLE, title))].into_iter().flatten().collect()
}
