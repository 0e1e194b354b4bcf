//! Validates a document and splits its messages in one pass.
//!
//! A history has megabytes, and each pass over them takes a share of the time of counting their tokens. The scan gives up on
//! all that is unusual: invalid JSON, duplicate fields, deep nesting. Such a document is parsed and split step by step, with
//! an error that names the location.

use crate::json::{self, Element, MAX_FIELDS, Object, RawJson, unescaped_length, unescaped_name};

/// The maximum nesting.
const MAX_DEPTH: usize = 64;

/// Returns the elements of a list, or the fields of a request and the elements of its list `list_name`. The lists
/// `inner_name` of the elements, and of those in them, are split, too.
pub(crate) fn split<'t>(
    text: &'t str,
    list_name: &str,
    inner_name: &str,
) -> Option<(Option<Object<'t>>, Vec<Element<'t>>)> {
    let text = json::without_byte_order_mark(text);
    let mut scanner = Scanner { text, inner_name, position: 0 };
    scanner.skip_space();
    let split = if scanner.peek() == Some(b'[') {
        (None, scanner.elements(0)?)
    } else {
        let (fields, list) = scanner.fields(list_name, 0)?;
        (Some(fields), list?)
    };
    scanner.skip_space();
    scanner.peek().is_none().then_some(split)
}

struct Scanner<'s, 't> {
    text: &'t str,
    inner_name: &'s str,
    position: usize,
}

impl<'t> Scanner<'_, 't> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.position += 1;
        }
    }

    /// Takes a byte and the whitespace after it.
    #[inline]
    fn take(&mut self, byte: u8) -> Option<()> {
        if self.peek() != Some(byte) {
            return None;
        }
        self.position += 1;
        self.skip_space();
        Some(())
    }

    /// Takes the comma between two values, and returns `true`, or the closing bracket.
    #[inline]
    fn take_separator(&mut self, closing: u8) -> Option<bool> {
        self.skip_space();
        let is_next = self.peek()? == b',';
        if is_next {
            self.take(b',')?;
        } else if self.peek()? == closing {
            self.position += 1;
        } else {
            return None;
        }
        Some(is_next)
    }

    fn since(&self, start: usize) -> Option<RawJson<'t>> {
        self.text.get(start..self.position).map(RawJson)
    }

    /// Takes a list and returns its elements, with their fields if they are objects.
    fn elements(&mut self, depth: usize) -> Option<Vec<Element<'t>>> {
        self.take(b'[')?;
        // Most messages have one part.
        let mut elements = Vec::with_capacity(1);
        if self.peek()? == b']' {
            self.position += 1;
            return Some(elements);
        }
        loop {
            let start = self.position;
            let (mut fields, mut list) = (None, None);
            if self.peek()? == b'{' && depth < MAX_DEPTH {
                let (object, inner) = self.fields(self.inner_name, depth + 1)?;
                (fields, list) = (Some(object), inner);
            } else {
                self.value(depth + 1)?;
            }
            elements.push(Element { raw: self.since(start)?, fields, list });
            if !self.take_separator(b']')? {
                return Some(elements);
            }
        }
    }

    /// Takes an object and returns its fields, and the elements of the list `list_name`.
    fn fields(
        &mut self,
        list_name: &str,
        depth: usize,
    ) -> Option<(Object<'t>, Option<Vec<Element<'t>>>)> {
        let (mut fields, mut list) = (Vec::with_capacity(4), None);
        self.take(b'{')?;
        if self.peek()? == b'}' {
            self.position += 1;
            return Some((Object(fields), list));
        }
        loop {
            let name = unescaped_name(self.string()?);
            if fields.len() == MAX_FIELDS || fields.iter().any(|(other, _)| *other == name) {
                return None;
            }
            self.skip_space();
            self.take(b':')?;
            let start = self.position;
            if name == list_name && self.peek()? == b'[' && depth < MAX_DEPTH {
                list = Some(self.elements(depth + 1)?);
            } else {
                self.value(depth + 1)?;
            }
            fields.push((name, self.since(start)?));
            if !self.take_separator(b'}')? {
                return Some((Object(fields), list));
            }
        }
    }

    /// Takes any value.
    fn value(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' if depth < MAX_DEPTH => {
                self.take(b'{')?;
                if self.peek()? == b'}' {
                    self.position += 1;
                    return Some(());
                }
                loop {
                    self.string()?;
                    self.skip_space();
                    self.take(b':')?;
                    self.value(depth + 1)?;
                    if !self.take_separator(b'}')? {
                        return Some(());
                    }
                }
            }
            b'[' if depth < MAX_DEPTH => {
                self.take(b'[')?;
                if self.peek()? == b']' {
                    self.position += 1;
                    return Some(());
                }
                loop {
                    self.value(depth + 1)?;
                    if !self.take_separator(b']')? {
                        return Some(());
                    }
                }
            }
            b'-' | b'0'..=b'9' => self.number(),
            _ => {
                let rest = self.text.get(self.position..)?;
                let word =
                    ["null", "true", "false"].into_iter().find(|word| rest.starts_with(word))?;
                self.position += word.len();
                Some(())
            }
        }
    }

    /// Takes a string and returns it with its quotes.
    fn string(&mut self) -> Option<&'t str> {
        let (bytes, start) = (self.text.as_bytes(), self.position);
        if self.peek()? != b'"' {
            return None;
        }
        let mut end = start + 1;
        loop {
            end += unescaped_length(bytes.get(end..)?);
            match bytes.get(end)? {
                b'"' => break,
                b'\\' => end += escape_length(bytes.get(end + 1..)?)?,
                // A control character.
                _ => return None,
            }
        }
        self.position = end + 1;
        self.text.get(start..self.position)
    }

    fn number(&mut self) -> Option<()> {
        if self.peek()? == b'-' {
            self.position += 1;
        }
        match self.peek()? {
            b'0' => self.position += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// Takes at least one digit.
    fn digits(&mut self) -> Option<()> {
        let start = self.position;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.position += 1;
        }
        (self.position > start).then_some(())
    }
}

/// Returns the length of an escape, given the bytes after its backslash.
#[inline]
fn escape_length(after: &[u8]) -> Option<usize> {
    match after {
        [b'n' | b't' | b'"' | b'\\' | b'/' | b'b' | b'f' | b'r', ..] => Some(2),
        [b'u', digits @ ..] => {
            let digits = digits.first_chunk::<4>()?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(6)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::test::documents;

    fn shown(elements: Vec<Element<'_>>) -> Vec<String> {
        let fields =
            |element: Element<'_>| format!("{:?}", element.object("").map(|object| object.0));
        elements.into_iter().map(fields).collect()
    }

    fn assert_same(text: &str) {
        let root = json::parse(text);
        let Some((request, list)) = split(text, "a", "content") else { return };
        let root = root.unwrap();
        match request {
            None => assert_eq!(shown(list), shown(json::elements("", root).unwrap()), "{text}"),
            Some(request) => {
                let expected = json::object("", root).unwrap();
                assert_eq!(format!("{:?}", request.0), format!("{:?}", expected.0), "{text}");
                let expected = json::elements("", expected.get("a").unwrap()).unwrap();
                assert_eq!(shown(list), shown(expected), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_scan_splits_as_a_parser_does(text in documents()) {
            assert_same(&text);
            // Usual documents are scanned.
            prop_assert_eq!(split(&text, "a", "content").is_some(), text.starts_with('[') || text.starts_with("{\"a\" :\t["));
        }

        /// Documents with an edit: what a parser rejects, a scan rejects, too.
        #[test]
        fn a_scan_accepts_nothing_that_a_parser_rejects(
            text in documents(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), r#"[\[\]{}",:\\u0-9a-f.eE+\- \n\x01-]{0,2}"#), 1..3),
        ) {
            let mut text = text;
            for (index, edit) in edits {
                let index = index.index(text.len() + 1);
                let start = (0..=index).rev().find(|start| text.is_char_boundary(*start)).unwrap();
                let end = (index + 1..text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
                text.replace_range(start..end, &edit);
            }
            assert_same(&text);
        }
    }

    #[test]
    fn lists_of_blocks_are_split_in_the_same_pass() {
        let text = r#"{"model":"m","a":[{"role":"user","content":[{"type":"text"}, 3]}]}"#;
        let (_, mut list) = split(text, "a", "content").unwrap();
        let message = list.pop().unwrap();
        let blocks = message.list.clone().unwrap();
        let expected =
            json::elements("", json::object("", message.raw).unwrap().get("content").unwrap());
        assert_eq!(shown(blocks), shown(expected.unwrap()));
    }

    #[test]
    fn unusual_documents_are_left_to_the_parser() {
        let deep = ["[".repeat(100), "]".repeat(100)].concat();
        for text in [
            &deep,
            "",
            "[",
            "[1",
            "[1,]",
            "[01]",
            "[1.]",
            "[1e]",
            "[-]",
            "[\"\t\"]",
            r#"["\x"]"#,
            r#"["\u12g4"]"#,
            r#"[{"a":1,"a":2}]"#,
            "{}",
            "3",
            "[1] 2",
            "[nul]",
        ] {
            assert!(split(text, "a", "content").is_none(), "{text}");
        }
    }
}
