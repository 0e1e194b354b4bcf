//! Writes Python objects as JSON text.
//!
//! The text is all that the library reads: it keeps the order of keys and every digit. The way back is Python's own
//! `json.loads`. Objects may be hostile: every length is that of the built-in type, nesting and size are bounded, and no
//! iteration trusts an object that its own methods may change meanwhile.

use std::ops::Range;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyNone, PyString, PyTuple, PyType,
};

use crate::errors::invalid_input;

/// The maximum nesting, below that of the library's parser.
const MAX_DEPTH: usize = 120;

/// The maximum size of a text, as of a transcript that the command reads.
const MAX_BYTES: usize = 1 << 30;

/// The number of values between checks for Ctrl-C.
const SIGNAL_INTERVAL: usize = 1 << 14;

const CHANGED: &str = "it changed while it was read";

/// The fields of a request that hold its messages.
const MESSAGE_FIELDS: [&str; 3] = ["messages", "input", "contents"];

/// A JSON text, and where its messages and fields are.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) text: String,
    /// The messages: elements of the whole list, or of a request's list of messages.
    pub(crate) messages: Vec<Range<usize>>,
    /// The field of a request that holds these messages.
    pub(crate) messages_field: Option<String>,
    /// The fields of a request, with their values.
    pub(crate) fields: Vec<(String, Range<usize>)>,
}

/// A value that is not JSON: the path to it, innermost first, and the problem.
struct Mistake {
    path: Vec<String>,
    problem: Problem,
}

enum Problem {
    Text(String),
    Raised(PyErr),
}

impl From<PyErr> for Mistake {
    fn from(error: PyErr) -> Self {
        Self { path: Vec::new(), problem: Problem::Raised(error) }
    }
}

type Result<T> = std::result::Result<T, Mistake>;

fn mistake<T>(problem: impl Into<String>) -> Result<T> {
    Err(Mistake { path: Vec::new(), problem: Problem::Text(problem.into()) })
}

impl Mistake {
    fn inside(mut self, segment: impl FnOnce() -> String) -> Self {
        self.path.push(segment());
        self
    }

    /// Returns the exception. A program's own exceptions pass, as far as they are not about the value.
    fn into_error(self, py: Python<'_>, name: &str) -> PyErr {
        let path: String = self.path.into_iter().rev().collect();
        match self.problem {
            Problem::Text(problem) => invalid_input(py, &format!("{name}{path}: {problem}")),
            Problem::Raised(error) if error.is_instance_of::<PyValueError>(py) => {
                let problem = error.value(py).to_string();
                let raised = invalid_input(py, &format!("{name}{path}: {problem}"));
                raised.set_cause(py, Some(error));
                raised
            }
            Problem::Raised(error) => error,
        }
    }
}

/// Writes a chat: messages, or a request that contains them.
pub(crate) fn write_chat(chat: &Bound<'_, PyAny>, name: &str) -> PyResult<Written> {
    let mut writer = Writer { notes_places: true, ..Writer::default() };
    writer.value(chat, 0).map_err(|mistake| mistake.into_error(chat.py(), name))?;
    writer.finish(chat.py(), name)
}

/// Writes a value.
pub(crate) fn write(value: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    let mut writer = Writer::default();
    writer.value(value, 0).map_err(|mistake| mistake.into_error(value.py(), name))?;
    Ok(writer.finish(value.py(), name)?.text)
}

/// Returns a string of Python, which may have lone surrogates.
pub(crate) fn text(text: &Bound<'_, PyString>, name: &str) -> PyResult<String> {
    let invalid = |error: PyErr| Mistake::from(error).into_error(text.py(), name);
    Ok(text.to_str().map_err(invalid)?.to_owned())
}

/// Writes items of a pool: strings, items as dicts, or documents and nodes of frameworks.
pub(crate) fn write_items(items: &Bound<'_, PyList>) -> PyResult<String> {
    let py = items.py();
    let mut writer = Writer::default();
    writer.bytes.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            writer.bytes.push(b',');
        }
        let at = |mistake: Mistake| mistake.inside(|| format!("[{index}]")).into_error(py, "items");
        writer.item(&item).map_err(at)?;
    }
    writer.bytes.push(b']');
    Ok(writer.finish(py, "items")?.text)
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    values: usize,
    notes_places: bool,
    messages: Vec<Range<usize>>,
    messages_field: Option<String>,
    fields: Vec<(String, Range<usize>)>,
}

impl Writer {
    fn finish(self, py: Python<'_>, name: &str) -> PyResult<Written> {
        let Self { bytes, messages, messages_field, fields, .. } = self;
        // Every part was a string of Python or ASCII.
        let text = String::from_utf8(bytes)
            .map_err(|error| invalid_input(py, &format!("{name}: {error}")))?;
        Ok(Written { text, messages, messages_field, fields })
    }

    fn value(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return mistake("it is nested too deeply, or contains itself");
        }
        self.check_size(0)?;
        self.values += 1;
        if self.values.is_multiple_of(SIGNAL_INTERVAL) {
            value.py().check_signals()?;
        }
        if let Ok(text) = value.cast::<PyString>() {
            return self.string(text);
        }
        if let Ok(dict) = value.cast::<PyDict>() {
            return self.dict(dict, depth);
        }
        if let Ok(list) = value.cast::<PyList>() {
            // The methods of an element may change the list.
            let length = list.len();
            self.list((0..length).map_while(|index| list.get_item(index).ok()), depth)?;
            return if list.len() == length { Ok(()) } else { mistake(CHANGED) };
        }
        if value.cast::<PyNone>().is_ok() {
            self.bytes.extend_from_slice(b"null");
        } else if let Ok(value) = value.cast::<PyBool>() {
            let text: &[u8] = if value.is_true() { b"true" } else { b"false" };
            self.bytes.extend_from_slice(text);
        } else if let Ok(number) = value.cast::<PyInt>() {
            self.integer(number)?;
        } else if let Ok(number) = value.cast::<PyFloat>() {
            self.float(number.value())?;
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            return self.list(tuple.iter(), depth);
        } else {
            return self.object(value, depth);
        }
        Ok(())
    }

    /// Objects that share parts have more text than memory.
    fn check_size(&self, more: usize) -> Result<()> {
        if self.bytes.len() + more > MAX_BYTES {
            return mistake("the JSON text would exceed 1 GiB");
        }
        Ok(())
    }

    fn string(&mut self, text: &Bound<'_, PyString>) -> Result<()> {
        let text = text.to_str()?;
        self.check_size(text.len())?;
        self.bytes.push(b'"');
        write_escaped(text.as_bytes(), &mut self.bytes);
        self.bytes.push(b'"');
        Ok(())
    }

    fn integer(&mut self, number: &Bound<'_, PyInt>) -> Result<()> {
        if let Ok(number) = number.extract::<i64>() {
            // Writing to a vector does not fail.
            let _ = serde_json::to_writer(&mut self.bytes, &number);
            return Ok(());
        }
        // A subclass may print something else.
        let digits = number.py().get_type::<PyInt>().call_method1("__repr__", (number,))?;
        self.bytes.extend_from_slice(
            digits.cast::<PyString>().map_err(PyErr::from)?.to_str()?.as_bytes(),
        );
        Ok(())
    }

    fn float(&mut self, number: f64) -> Result<()> {
        if !number.is_finite() {
            return mistake(format!("{number} is not JSON"));
        }
        let _ = serde_json::to_writer(&mut self.bytes, &number);
        Ok(())
    }

    fn list<'py>(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        depth: usize,
    ) -> Result<()> {
        self.bytes.push(b'[');
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.bytes.push(b',');
            }
            let start = self.bytes.len();
            let written = self.value(&item, depth + 1);
            written.map_err(|mistake| mistake.inside(|| format!("[{index}]")))?;
            if self.notes_places && depth == 0 {
                self.messages.push(start..self.bytes.len());
            }
        }
        self.bytes.push(b']');
        Ok(())
    }

    fn dict(&mut self, dict: &Bound<'_, PyDict>, depth: usize) -> Result<()> {
        self.bytes.push(b'{');
        // Iterating over a dict that changed would panic, so its length is compared before each step.
        let length = dict.len();
        let mut entries = dict.iter();
        for index in 0..length {
            if dict.len() != length {
                return mistake(CHANGED);
            }
            let Some((key, value)) = entries.next() else { break };
            let Ok(key) = key.cast::<PyString>() else {
                return mistake(format!("the key {} is not a string", type_name(&key)));
            };
            if index > 0 {
                self.bytes.push(b',');
            }
            self.field(key, &value, depth)?;
        }
        self.bytes.push(b'}');
        Ok(())
    }

    fn field(
        &mut self,
        key: &Bound<'_, PyString>,
        value: &Bound<'_, PyAny>,
        depth: usize,
    ) -> Result<()> {
        self.string(key)?;
        self.bytes.push(b':');
        let start = self.bytes.len();
        let is_field = self.notes_places && depth == 0;
        let name = key.to_str()?;
        let is_messages = is_field
            && self.messages_field.is_none()
            && MESSAGE_FIELDS.contains(&name)
            && value.cast::<PyList>().is_ok();
        if is_messages {
            self.messages_field = Some(name.to_owned());
        }
        // The elements of the list of messages are noted as those of a whole list.
        let depth = if is_messages { 0 } else { depth + 1 };
        let written = self.value(value, depth);
        written.map_err(|mistake| mistake.inside(|| format!(".{name}")))?;
        if is_field {
            self.fields.push((name.to_owned(), start..self.bytes.len()));
        }
        Ok(())
    }

    /// Writes an object that is not JSON itself: a model of pydantic, a dataclass, an enumeration, a mapping, a number of
    /// numpy, or a time.
    fn object(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Result<()> {
        let py = value.py();
        if value.cast::<PyType>().is_ok() {
            return mistake(format!("the type {} is not JSON", type_name(value)));
        }
        if let Some(dump) = method(value, "model_dump") {
            let options = PyDict::new(py);
            options.set_item("mode", "json")?;
            options.set_item("by_alias", true)?;
            options.set_item("exclude_none", true)?;
            return self.value(&dump.call((), Some(&options))?, depth + 1);
        }
        if let Ok(fields) = value.getattr("__dataclass_fields__")
            && let Ok(fields) = fields.cast::<PyDict>()
        {
            let own = PyDict::new(py);
            for name in fields.keys() {
                let name = name.cast::<PyString>().map_err(PyErr::from)?.clone();
                let field = value.getattr(&name)?;
                if !field.is_none() {
                    own.set_item(name, field)?;
                }
            }
            return self.dict(&own, depth);
        }
        if value.hasattr("_value_")? && value.hasattr("_name_")? {
            return self.value(&value.getattr("value")?, depth + 1);
        }
        if let Ok(mapping) = value.cast::<PyMapping>() {
            let own = PyDict::new(py);
            own.update(mapping)?;
            return self.dict(&own, depth);
        }
        if value.hasattr("dtype")?
            && let Some(list) = method(value, "tolist")
        {
            return self.value(&list.call0()?, depth + 1);
        }
        match method(value, "isoformat") {
            Some(format) => self.value(&format.call0()?, depth + 1),
            None => mistake(format!("an object of {} is not JSON", type_name(value))),
        }
    }

    /// Writes an item of a pool.
    fn item(&mut self, value: &Bound<'_, PyAny>) -> Result<()> {
        let py = value.py();
        let own = PyDict::new(py);
        if value.cast::<PyString>().is_ok() {
            own.set_item("content", value)?;
        } else if let Ok(dict) = value.cast::<PyDict>() {
            if dict.contains("content")? {
                return self.dict(dict, 1);
            }
            for (key, value) in dict.copy()?.iter() {
                let is_text =
                    ["text", "page_content"].iter().any(|name| key.eq(name).unwrap_or(false));
                own.set_item(
                    if is_text { PyString::new(py, "content").into_any() } else { key },
                    value,
                )?;
            }
        } else {
            document(value, &own)?;
        }
        self.dict(&own, 1)
    }
}

/// Writes a text with escapes, as `serde_json` does. Blocks without any, which are most, are copied.
fn write_escaped(text: &[u8], into: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    into.reserve(text.len());
    for block in text.chunks(32) {
        // Without an early end, the compiler compares many bytes at once.
        if !block.iter().fold(false, |found, byte| found | is_escaped(*byte)) {
            into.extend_from_slice(block);
            continue;
        }
        for byte in block.iter().copied() {
            let letter = match byte {
                b'"' | b'\\' => byte,
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0x08 => b'b',
                0x0c => b'f',
                _ if is_escaped(byte) => {
                    let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                    into.extend_from_slice(b"\\u00");
                    into.extend_from_slice(&digits);
                    continue;
                }
                _ => {
                    into.push(byte);
                    continue;
                }
            };
            into.extend_from_slice(&[b'\\', letter]);
        }
    }
}

/// Reads a document or a node of a framework: LangChain's and Haystack's `Document`, LlamaIndex's nodes with and without
/// scores. Any other object is written as an item.
fn document(value: &Bound<'_, PyAny>, own: &Bound<'_, PyDict>) -> Result<()> {
    let attribute = |value: &Bound<'_, PyAny>, name: &str| -> Option<Py<PyAny>> {
        let value = value.getattr(name).ok().filter(|value| !value.is_none())?;
        Some(value.unbind())
    };
    let py = value.py();
    let node = value.getattr("node").ok().filter(|node| !node.is_none());
    let score = attribute(value, "score");
    let value = node.as_ref().unwrap_or(value);
    let content = match attribute(value, "page_content") {
        Some(content) => Some(content),
        None => match method(value, "get_content") {
            Some(content) => Some(content.call0()?.unbind()),
            None => attribute(value, "content"),
        },
    };
    let Some(content) = content.filter(|content| content.bind(py).cast::<PyString>().is_ok())
    else {
        let kind = type_name(value);
        return mistake(format!(
            "an object of {kind} has no text; give strings, dicts with `content`, documents or nodes"
        ));
    };
    own.set_item("content", content)?;
    let id = attribute(value, "node_id").or_else(|| attribute(value, "id"));
    if let Some(id) = id.filter(|id| id.bind(py).cast::<PyString>().is_ok()) {
        own.set_item("id", id)?;
    }
    for name in ["kind", "tokens", "priority", "timestamp", "pinned", "group"] {
        // A data class of one's own may have the fields of an item.
        if value.hasattr("__dataclass_fields__")?
            && let Some(field) = attribute(value, name)
        {
            own.set_item(name, field)?;
        }
    }
    // The score of a retriever, if it is a share.
    let score = score.and_then(|score| score.extract::<f64>(py).ok());
    if let Some(score) = score.filter(|score| (0.0..=1.0).contains(score)) {
        own.set_item("futureRelevanceHint", score)?;
    }
    Ok(())
}

/// Returns a method of an object. A class that is not the object's own has it, so that an object that answers to every name
/// has none.
fn method<'py>(value: &Bound<'py, PyAny>, name: &str) -> Option<Bound<'py, PyAny>> {
    value.get_type().getattr(name).ok().filter(|method| method.is_callable())?;
    value.getattr(name).ok()
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().name().map(|name| name.to_string());
    format!("the class {}", name.unwrap_or_else(|_| "?".to_owned()))
}
