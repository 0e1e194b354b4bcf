//! Fits chats, and finds the messages that did not change.
//!
//! The library writes a message that it does not change byte for byte. So a message of the result is the caller's own object
//! if its JSON is that of a message that was given.

use std::collections::HashMap;
use std::ops::Range;

use pannier::Shelf;
use pannier::chat::ChatInput;
use pannier::ops::{ChatAnswer, ChatRequest, ProviderName, Request, Sends, TranscriptJson};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde::Deserialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use crate::errors::{self, invalid_input};
use crate::json::{self, Written};
use crate::requests;
use crate::run::{Threads, run};

/// A message of the result: the position of the message that it was, if known, and its JSON if it changed.
type Message = (Option<usize>, Option<String>);

/// A field of the result: its name, its JSON if it changed, and whether it holds the messages.
type Field = (String, Option<String>, bool);

/// A fitted chat.
#[pyclass(frozen, module = "pannier._pannier")]
#[derive(Debug)]
pub(crate) struct Fitted {
    /// The messages; empty if the chat is a text.
    #[pyo3(get)]
    messages: Vec<Message>,
    /// The fields of a request, in order; none for a list of messages.
    #[pyo3(get)]
    fields: Option<Vec<Field>>,
    given: Written,
    /// The result as JSON.
    #[pyo3(get)]
    text: String,
    /// The answer without its transcript, as JSON.
    #[pyo3(get)]
    report: String,
    /// The warnings of the run.
    #[pyo3(get)]
    warnings: Vec<String>,
}

#[pymethods]
impl Fitted {
    /// The chat as it was given, as JSON.
    #[getter]
    fn given(&self) -> &str {
        &self.given.text
    }

    /// Returns a message as it was given, as JSON.
    fn given_message(&self, index: usize) -> &str {
        self.given.messages.get(index).map_or("null", |range| &self.given.text[range.clone()])
    }
}

/// Fits a chat: messages, a request, or a text with one of them or a session log.
#[pyfunction]
pub(crate) fn fit_chat(chat: &Bound<'_, PyAny>, options: &Bound<'_, PyDict>) -> PyResult<Fitted> {
    let py = chat.py();
    let (mut request, previous) = read_request(options)?;
    let text = chat.cast::<PyString>().ok();
    let mut given = match text {
        Some(text) => Written { text: json::text(text, "chat")?, ..Written::default() },
        None => json::write_chat(chat, "chat")?,
    };
    request.transcript = TranscriptJson(std::mem::take(&mut given.text));
    request.previous = previous;
    let is_text = text.is_some();
    let ((answer, parts), warnings) = run(py, Threads::Caller, Sends::Data, None, |control| {
        let text = request.transcript.0.clone();
        let answer = request.run(&Shelf::local(), control)?;
        given.text = text;
        let parts = match transcript(&answer) {
            Some(result) if !is_text => parts(&given, result),
            _ => (Vec::new(), None),
        };
        Ok((answer, parts))
    })?;
    let (messages, fields) = parts;
    let text = transcript(&answer).unwrap_or_default().to_owned();
    Ok(Fitted { messages, fields, given, text, report: report(answer), warnings })
}

/// Reads the options of a chat. The previous chat is any that `fit_chat` takes, as its text keeps the order of keys.
fn read_request(options: &Bound<'_, PyDict>) -> PyResult<(ChatRequest, Option<TranscriptJson>)> {
    let options = options.copy()?;
    let previous = options.get_item("previous")?.filter(|previous| !previous.is_none());
    let previous = previous.map(|previous| match previous.cast::<PyString>() {
        Ok(text) => json::text(text, "previous"),
        Err(_) => json::write(&previous, "previous"),
    });
    if previous.is_some() {
        options.del_item("previous")?;
    }
    options.set_item("transcript", "")?;
    Ok((requests::read(&options)?, previous.transpose()?.map(TranscriptJson)))
}

fn transcript(answer: &ChatAnswer) -> Option<&str> {
    match answer {
        ChatAnswer::Fitted(chat) => Some(chat.transcript.get()),
        ChatAnswer::Trimmed(chat) => Some(chat.transcript.get()),
        _ => None,
    }
}

/// Returns an answer without its transcript.
fn report(mut answer: ChatAnswer) -> String {
    match &mut answer {
        ChatAnswer::Fitted(chat) => chat.transcript = RawValue::NULL.to_owned(),
        ChatAnswer::Trimmed(chat) => chat.transcript = RawValue::NULL.to_owned(),
        _ => {}
    }
    // Answers are plain data, which serializes.
    serde_json::to_string(&answer).unwrap_or_default()
}

/// Compares a result with the chat that was given.
fn parts(given: &Written, result: &str) -> (Vec<Message>, Option<Vec<Field>>) {
    if result == given.text {
        let messages = (0..given.messages.len()).map(|index| (Some(index), None)).collect();
        let is_messages = |name: &String| given.messages_field.as_ref() == Some(name);
        let fields = given.fields.iter().map(|(name, _)| (name.clone(), None, is_messages(name)));
        let fields = given.text.starts_with('{').then(|| fields.collect());
        return (messages, fields);
    }
    if let Some(messages) = unchanged_messages(given, result) {
        return (messages, None);
    }
    if let Ok(messages) = serde_json::from_str::<Vec<&RawValue>>(result) {
        return (match_messages(given, &messages), None);
    }
    let Ok(Fields(fields)) = serde_json::from_str(result) else { return (Vec::new(), None) };
    let mut messages = Vec::new();
    let mut own = Vec::new();
    for (name, value) in fields {
        if given.messages_field.as_ref() == Some(&name)
            && let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(value.get())
        {
            messages = match_messages(given, &list);
            own.push((name, None, true));
            continue;
        }
        let before = given.fields.iter().find(|(other, _)| *other == name);
        let is_same = before.is_some_and(|(_, range)| given.text[range.clone()] == *value.get());
        own.push((name, (!is_same).then(|| value.get().to_owned()), false));
    }
    (messages, Some(own))
}

/// Finds the given messages of a list that has no others, without parsing it.
fn unchanged_messages(given: &Written, result: &str) -> Option<Vec<Message>> {
    let mut rest = result.strip_prefix('[')?;
    let mut candidates = given.messages.iter().enumerate();
    let mut messages = Vec::with_capacity(given.messages.len());
    loop {
        let (index, after) = candidates.find_map(|(index, range)| {
            let after = rest.strip_prefix(&given.text[range.clone()])?;
            after.starts_with([',', ']']).then_some((index, after))
        })?;
        messages.push((Some(index), None));
        if after == "]" {
            return Some(messages);
        }
        rest = after.strip_prefix(',')?;
    }
}

/// The fields of an object in their order.
struct Fields<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// Finds the given message of each message. Messages keep their order: an equal one is the first after the last that was
/// found, and a changed one is the first between its neighbors that has the same role and ids.
fn match_messages(given: &Written, messages: &[&RawValue]) -> Vec<Message> {
    let text = |range: &Range<usize>| &given.text[range.clone()];
    let mut positions: HashMap<u64, Vec<usize>> = HashMap::with_capacity(given.messages.len());
    for (index, range) in given.messages.iter().enumerate() {
        positions.entry(xxh3_64(text(range).as_bytes())).or_default().push(index);
    }
    let mut next = 0;
    let mut matched = Vec::with_capacity(messages.len());
    for message in messages.iter().map(|message| message.get()) {
        let equal = positions.get(&xxh3_64(message.as_bytes())).map_or(&[][..], Vec::as_slice);
        let equal = &equal[equal.partition_point(|position| *position < next)..];
        let position =
            equal.iter().copied().find(|position| text(&given.messages[*position]) == message);
        next = position.map_or(next, |position| position + 1);
        matched.push((position, position.is_none().then(|| message.to_owned())));
    }
    // Backwards, so that the position of the next match is known.
    let mut first_free = 0;
    let mut ends = vec![given.messages.len(); matched.len()];
    for index in (0..matched.len().saturating_sub(1)).rev() {
        ends[index] = matched[index + 1].0.unwrap_or(ends[index + 1]);
    }
    for (index, message) in messages.iter().enumerate() {
        if matched[index].0.is_none() {
            let shape = Shape::new(message.get());
            let mut free = first_free..ends[index];
            matched[index].0 = free.find(|at| Shape::new(text(&given.messages[*at])) == shape);
        }
        first_free = matched[index].0.map_or(first_free, |position| position + 1);
    }
    matched
}

/// What a cut does not change in a message.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Shape {
    role: Option<String>,
    r#type: Option<String>,
    id: Option<String>,
    call_id: Option<String>,
    tool_call_id: Option<String>,
}

impl Shape {
    fn new(message: &str) -> Self {
        serde_json::from_str(message).unwrap_or_default()
    }
}

/// Returns the provider whose format a chat has.
#[pyfunction]
pub(crate) fn detect(chat: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let py = chat.py();
    let text = match chat.cast::<PyString>() {
        Ok(text) => json::text(text, "chat")?,
        Err(_) => json::write(chat, "chat")?,
    };
    let provider = ChatInput::open(&text, None, None).map(|input| input.provider());
    let provider = provider.map_err(|error| errors::error(py, &error.into(), None))?;
    let names = [
        ("openai", ProviderName::Openai),
        ("anthropic", ProviderName::Anthropic),
        ("responses", ProviderName::Responses),
        ("gemini", ProviderName::Gemini),
    ];
    let own = names.into_iter().find(|(_, name)| provider == (*name).into());
    own.map(|(name, _)| name).ok_or_else(|| invalid_input(py, "chat: its provider is unknown"))
}
