//! Chunks of source code: an item of a program is a chunk.
//!
//! A parser for the language of a file finds its items: functions, types, classes and modules. An item that is too long for a
//! chunk is divided into its members, and a member that is still too long into lines. Comments and attributes belong to the
//! item that follows them. Every chunk has the names of the items that enclose it and of those that it defines.
//!
//! A file that is large, or in which the parser finds more errors than code, is split like any other text.

use std::ops::{ControlFlow, Range};

use tree_sitter::{Language, Node, ParseOptions, Parser};

/// Longer files are not parsed.
const MAX_BYTES: usize = 1 << 20;

/// The parser reports its progress about every hundred steps. More reports for each byte mean that it does not get on.
const MAX_REPORTS_PER_BYTE: usize = 1;
const MIN_REPORTS: usize = 10_000;

/// Items are nested at most so deep.
const MAX_DEPTH: usize = 16;

/// A part of a file: an item with the comments before it, or text between items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxBlock {
    pub(super) range: Range<usize>,
    /// The names of the items that enclose it, from the outermost.
    pub(super) enclosing: Vec<String>,
    /// The names that it defines, with its own first. Empty between items.
    pub(super) symbols: Vec<String>,
}

/// Names the languages, the versions of their grammars and that of the rules below, on which chunks depend.
pub(super) fn version() -> String {
    let names: Vec<&str> = LANGUAGES.iter().map(|(name, ..)| *name).collect();
    format!("{} (rules 2)", names.join(", "))
}

type Grammar = fn() -> Language;

/// The name with the version of each grammar, its file extensions, and the grammar.
const LANGUAGES: &[(&str, &[&str], Grammar)] = &[
    #[cfg(feature = "bash")]
    ("bash 0.25", &["sh", "bash"], || tree_sitter_bash::LANGUAGE.into()),
    #[cfg(feature = "c")]
    ("c 0.24", &["c", "h"], || tree_sitter_c::LANGUAGE.into()),
    #[cfg(feature = "c-sharp")]
    ("c-sharp 0.23", &["cs"], || tree_sitter_c_sharp::LANGUAGE.into()),
    #[cfg(feature = "cpp")]
    ("cpp 0.23", &["cc", "cpp", "cxx", "hh", "hpp", "hxx"], || tree_sitter_cpp::LANGUAGE.into()),
    #[cfg(feature = "go")]
    ("go 0.25", &["go"], || tree_sitter_go::LANGUAGE.into()),
    #[cfg(feature = "java")]
    ("java 0.23", &["java"], || tree_sitter_java::LANGUAGE.into()),
    #[cfg(feature = "javascript")]
    ("javascript 0.25", &["js", "jsx", "mjs", "cjs"], || tree_sitter_javascript::LANGUAGE.into()),
    #[cfg(feature = "php")]
    ("php 0.25", &["php"], || tree_sitter_php::LANGUAGE_PHP.into()),
    #[cfg(feature = "python")]
    ("python 0.25", &["py", "pyi"], || tree_sitter_python::LANGUAGE.into()),
    #[cfg(feature = "ruby")]
    ("ruby 0.23", &["rb"], || tree_sitter_ruby::LANGUAGE.into()),
    #[cfg(feature = "rust")]
    ("rust 0.24", &["rs"], || tree_sitter_rust::LANGUAGE.into()),
    #[cfg(feature = "typescript")]
    ("typescript 0.23", &["ts", "mts", "cts"], || {
        tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into()
    }),
    #[cfg(feature = "typescript")]
    ("tsx 0.23", &["tsx"], || tree_sitter_typescript::LANGUAGE_TSX.into()),
];

/// Nodes that define a name, in any of the languages.
const DEFINITIONS: &[&str] = &[
    "abstract_class_declaration",
    "annotation_type_declaration",
    "class",
    "class_declaration",
    "class_definition",
    "class_specifier",
    "const_declaration",
    "const_item",
    "constructor_declaration",
    "delegate_declaration",
    "enum_declaration",
    "enum_item",
    "enum_specifier",
    "function_declaration",
    "function_definition",
    "function_item",
    "function_signature_item",
    "generator_function_declaration",
    "impl_item",
    "interface_declaration",
    "internal_module",
    "lexical_declaration",
    "macro_definition",
    "method",
    "method_declaration",
    "method_definition",
    "mod_item",
    "module",
    "namespace_declaration",
    "namespace_definition",
    "property_declaration",
    "record_declaration",
    "singleton_method",
    "static_item",
    "struct_declaration",
    "struct_item",
    "struct_specifier",
    "trait_declaration",
    "trait_item",
    "type_alias_declaration",
    "type_declaration",
    "type_definition",
    "type_item",
    "union_item",
    "union_specifier",
    "var_declaration",
];

/// Nodes around a definition.
const WRAPPERS: &[&str] = &[
    "ambient_declaration",
    "declaration_list",
    "decorated_definition",
    "export_statement",
    "expression_statement",
    "template_declaration",
];

/// Divides a file into items and the text between them, or returns `None` if it is not source code that can be parsed. The
/// blocks cover the file. Blocks of at most `max_bytes` are not divided.
pub(super) fn blocks(path: &str, text: &str, max_bytes: usize) -> Option<Vec<SyntaxBlock>> {
    let (_, extension) = path.rsplit_once('.')?;
    let extension = extension.to_lowercase();
    let (.., grammar) =
        LANGUAGES.iter().find(|(_, extensions, _)| extensions.contains(&extension.as_str()))?;
    if text.len() > MAX_BYTES || text.trim().is_empty() {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&grammar()).ok()?;
    let mut reports = MIN_REPORTS + text.len() * MAX_REPORTS_PER_BYTE;
    let mut stop = |_: &_| match reports.checked_sub(1) {
        Some(rest) => {
            reports = rest;
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut stop);
    let bytes = text.as_bytes();
    let mut read = |offset: usize, _| bytes.get(offset..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut read, None, Some(options))?;
    let root = tree.root_node();
    if root.is_error() || error_bytes(root, 0) * 2 > text.len() {
        return None;
    }
    let mut blocks = Vec::new();
    let mut walk =
        Walk { text, line_starts: LineStarts::new(text), max_bytes, blocks: &mut blocks };
    walk.members(root, &[], 0);
    // The first block starts with the file, and each ends where the next starts.
    let mut end = text.len();
    for block in blocks.iter_mut().rev() {
        block.range.end = end;
        end = block.range.start;
    }
    blocks.first_mut()?.range.start = 0;
    blocks.retain(|block| !block.range.is_empty());
    Some(blocks)
}

/// Counts the bytes of the outermost errors, down to [`MAX_DEPTH`] below each other.
fn error_bytes(node: Node<'_>, depth: usize) -> usize {
    if node.is_error() {
        return node.byte_range().len();
    }
    if !node.has_error() || depth > MAX_DEPTH {
        return 0;
    }
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
    children.into_iter().map(|child| error_bytes(child, depth + 1)).sum()
}

/// Finds the starts of lines for ascending positions. Each byte is looked at once, even if all are in one line.
struct LineStarts<'t> {
    text: &'t str,
    /// The start of the line of `position`, and whether only spaces are between both.
    start: usize,
    is_blank: bool,
    position: usize,
    /// The number of bytes that were looked at.
    #[cfg(test)]
    work: usize,
}

impl<'t> LineStarts<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            start: 0,
            is_blank: true,
            position: 0,
            #[cfg(test)]
            work: 0,
        }
    }

    /// Returns the start of a line if only spaces precede the position there, or else the position.
    fn at(&mut self, position: usize) -> usize {
        debug_assert!(position >= self.position, "positions ascend");
        let mut passed = &self.text[self.position.min(position)..position];
        #[cfg(test)]
        {
            self.work += passed.len();
        }
        if let Some(newline) = passed.rfind('\n') {
            self.start = self.position + newline + 1;
            self.is_blank = true;
            passed = &passed[newline + 1..];
        }
        self.is_blank &= passed.trim().is_empty();
        self.position = position;
        if self.is_blank { self.start } else { position }
    }
}

struct Walk<'t> {
    text: &'t str,
    line_starts: LineStarts<'t>,
    max_bytes: usize,
    blocks: &'t mut Vec<SyntaxBlock>,
}

impl Walk<'_> {
    /// Adds a block for each child of a node.
    fn members(&mut self, parent: Node<'_>, enclosing: &[String], depth: usize) {
        let mut cursor = parent.walk();
        let children: Vec<Node<'_>> = parent.named_children(&mut cursor).collect();
        // The start of comments and attributes that belong to the next item.
        let mut pending: Option<(usize, usize)> = None;
        for child in children {
            let own = self.line_starts.at(child.start_byte());
            // A comment at the end of a line belongs to that line.
            let starts_line = own != child.start_byte() || self.text[..own].ends_with('\n');
            if is_attached(child) && !starts_line && own > 0 {
                continue;
            }
            let start = match pending.take() {
                Some((start, end)) if !self.has_empty_line(end, child.start_byte()) => start,
                Some((start, _)) => {
                    self.push(start, enclosing, Vec::new());
                    own
                }
                None => own,
            };
            if is_attached(child) {
                pending = Some((start, child.end_byte()));
                continue;
            }
            match definition(child) {
                Some(item) => self.item(item, start, child.end_byte(), enclosing, depth),
                None => self.push(start, enclosing, Vec::new()),
            }
        }
        if let Some((start, _)) = pending {
            self.push(start, enclosing, Vec::new());
        }
    }

    fn item(
        &mut self,
        item: Node<'_>,
        start: usize,
        end: usize,
        enclosing: &[String],
        depth: usize,
    ) {
        let own = self.name(item);
        let body = item.child_by_field_name("body");
        let is_divided = end.saturating_sub(start) > self.max_bytes
            && depth < MAX_DEPTH
            && !is_callable(item)
            && body.is_some_and(|body| has_definition(body));
        let mut symbols: Vec<String> = own.clone().into_iter().collect();
        match body.filter(|_| is_divided) {
            Some(body) => {
                self.push(start, enclosing, symbols);
                let names: Vec<String> = enclosing.iter().cloned().chain(own).collect();
                self.members(body, &names, depth + 1);
            }
            None => {
                self.inner_names(item, depth, &mut symbols);
                self.push(start, enclosing, symbols);
            }
        }
    }

    /// Adds a block, whose end is set later. One that starts on the line of the previous block belongs to that.
    fn push(&mut self, start: usize, enclosing: &[String], symbols: Vec<String>) {
        match self.blocks.last_mut() {
            Some(last) if last.range.start >= start => last.symbols.extend(symbols),
            _ => self.blocks.push(SyntaxBlock {
                range: start..start,
                enclosing: enclosing.to_vec(),
                symbols,
            }),
        }
    }

    /// Collects the names of members, but not of what is local to a function.
    fn inner_names(&self, item: Node<'_>, depth: usize, names: &mut Vec<String>) {
        let Some(body) = item.child_by_field_name("body").filter(|_| !is_callable(item)) else {
            return;
        };
        let mut cursor = body.walk();
        let children: Vec<Node<'_>> = body.named_children(&mut cursor).collect();
        for child in children.into_iter().filter_map(definition) {
            names.extend(self.name(child));
            if depth < MAX_DEPTH {
                self.inner_names(child, depth + 1, names);
            }
        }
    }

    /// Returns the name that a definition gives.
    fn name(&self, item: Node<'_>) -> Option<String> {
        let mut node = item
            .child_by_field_name("name")
            .or_else(|| item.child_by_field_name("type").filter(|_| item.kind() == "impl_item"))
            .or_else(|| item.child_by_field_name("declarator"))
            .or_else(|| {
                let mut cursor = item.walk();
                let mut children = item.named_children(&mut cursor);
                children.find_map(|child| child.child_by_field_name("name"))
            })?;
        for _ in 0..MAX_DEPTH {
            match node.child_by_field_name("declarator") {
                Some(inner) => node = inner,
                None => break,
            }
        }
        let name = self.text.get(node.byte_range())?;
        // Without type parameters, without patterns of several names, and without the mark of a reference.
        let name = name
            .split(['<', '{', '[', '(', '\n'])
            .next()?
            .trim()
            .trim_start_matches('&')
            .trim_start();
        (!name.is_empty() && name.len() <= 256).then(|| name.to_owned())
    }

    fn has_empty_line(&self, start: usize, end: usize) -> bool {
        let between = self.text.get(start..end).unwrap_or_default();
        // A line comment may include its line break.
        let before = self.text[..start].ends_with('\n');
        between.matches('\n').count() + usize::from(before) > 1
    }
}

/// Returns whether a node belongs to the item that follows it.
fn is_attached(node: Node<'_>) -> bool {
    let kind = node.kind();
    kind.ends_with("comment") || kind == "attribute_item" || kind == "decorator"
}

/// Returns the definition that a node is or wraps.
fn definition(node: Node<'_>) -> Option<Node<'_>> {
    let mut node = node;
    for _ in 0..4 {
        if DEFINITIONS.contains(&node.kind()) {
            return Some(node);
        }
        if !WRAPPERS.contains(&node.kind()) {
            return None;
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        node = children.into_iter().find(|child| {
            DEFINITIONS.contains(&child.kind()) || WRAPPERS.contains(&child.kind())
        })?;
    }
    None
}

fn has_definition(body: Node<'_>) -> bool {
    let mut cursor = body.walk();
    body.named_children(&mut cursor).any(|child| definition(child).is_some())
}

/// Returns whether what a definition contains is local to it.
fn is_callable(item: Node<'_>) -> bool {
    let kind = item.kind();
    ["function", "method", "constructor", "macro"].iter().any(|word| kind.contains(word))
        || kind == "lexical_declaration"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn line_starts_are_found_by_looking_at_each_byte_once(
            text in "[ \t\na\u{e9}]{0,200}",
            positions in prop::collection::vec(0_usize..201, 0..200),
        ) {
            let mut positions: Vec<usize> =
                positions.into_iter().filter(|position| text.is_char_boundary(*position)).collect();
            positions.sort_unstable();
            let mut line_starts = LineStarts::new(&text);
            for position in positions {
                let line = text[..position].rfind('\n').map_or(0, |newline| newline + 1);
                let is_blank = text[line..position].trim().is_empty();
                prop_assert_eq!(line_starts.at(position), if is_blank { line } else { position });
            }
            prop_assert!(line_starts.work <= text.len());
        }
    }

    #[cfg(feature = "javascript")]
    #[test]
    fn a_file_of_one_line_has_a_block_for_each_item() {
        let text: String =
            (0..20_000).map(|item| format!("function f{item}(){{return {item}}} ")).collect();
        let blocks = blocks("a.js", &text, 2_048).unwrap();
        assert_eq!(blocks.len(), 20_000);
        assert!(blocks.iter().all(|block| block.symbols.len() == 1));
    }
}
