//! The JSON API: one table of routes over the requests of `pannier::ops`.

pub(crate) mod openapi;

use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Bytes;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use pannier::ops::{
    Answer, AnswerSchemas, BudgetRequest, ChatRequest, Control, CountRequest, Described,
    LossRequest, MemoryRequest, PackRequest, ReadRequest, Request, SearchRequest, Sends,
    SnippetGetRequest, SnippetListRequest, SweepRequest,
};
use pannier::{Failure, Shelf};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::problem::Problem;

/// Options about files and keys of the user. A server has its own.
pub(crate) const LOCAL_OPTIONS: [&str; 4] =
    ["aliases", "embedder_key_env", "no_update", "reranker_key_env"];

/// A route: its path, and the request types that it takes.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// The forms of a request. The first whose key is present is read; the last has no key.
    pub(crate) forms: &'static [RequestForm],
}

/// One form of the requests of a route.
#[derive(Debug)]
pub(crate) struct RequestForm {
    /// The name of its schema.
    pub(crate) name: &'static str,
    /// The options that only this form has, by their current and former names.
    pub(crate) keys: &'static [&'static str],
    pub(crate) schema: fn() -> Value,
    pub(crate) answers: fn(&mut AnswerSchemas) -> Vec<Value>,
    run: Run,
}

/// Runs a request, and returns its answer in a form.
type Run = fn(Value, &Shelf, &Control<'_>, Form) -> Result<Vec<u8>, Failure>;

macro_rules! form {
    ($request:ty, $name:literal, $keys:expr) => {
        RequestForm {
            name: $name,
            keys: $keys,
            schema: <$request as Request>::schema,
            answers: <$request as Described>::answers,
            run: run::<$request>,
        }
    };
}

/// All routes that take a request.
pub(crate) const ROUTES: [Route; 9] = [
    Route {
        path: "/v1/pack",
        summary: "Packs items into a token budget.",
        forms: &[form!(PackRequest, "PackRequest", &[])],
    },
    Route {
        path: "/v1/explain",
        summary: "Explains why items are in or out.",
        forms: &[form!(PackRequest, "ExplainRequest", &["explain"])],
    },
    Route {
        path: "/v1/what-if",
        summary: "Answers questions about other budgets: the smallest for an item, the items that fewer tokens drop, or the budgets that select each item.",
        forms: &[
            form!(BudgetRequest, "SmallestBudgetRequest", &["item"]),
            form!(LossRequest, "LossRequest", &["tokens"]),
            form!(SweepRequest, "SweepRequest", &[]),
        ],
    },
    Route {
        path: "/v1/chat",
        summary: "Fits a chat into a token budget.",
        forms: &[form!(ChatRequest, "ChatRequest", &[])],
    },
    Route {
        path: "/v1/search",
        summary: "Returns the passages of an index that best match a query.",
        forms: &[form!(SearchRequest, "SearchRequest", &[])],
    },
    Route {
        path: "/v1/read",
        summary: "Returns whole documents of an index.",
        forms: &[form!(ReadRequest, "ReadRequest", &[])],
    },
    Route {
        path: "/v1/memory",
        summary: "Returns a project's memory within a token budget.",
        forms: &[form!(MemoryRequest, "MemoryRequest", &[])],
    },
    Route {
        path: "/v1/snippets",
        summary: "Lists snippets, or returns those with the given ids and what they require.",
        forms: &[
            form!(SnippetGetRequest, "SnippetGetRequest", &["ids", "snippet_ids"]),
            form!(SnippetListRequest, "SnippetListRequest", &[]),
        ],
    },
    Route {
        path: "/v1/count",
        summary: "Counts the tokens of texts.",
        forms: &[form!(CountRequest, "CountRequest", &[])],
    },
];

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The answer as data, with warnings.
    Json,
    /// The text for models alone.
    Text,
}

impl Form {
    /// Returns the form that the client asks for: text only if it does not take JSON.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let takes = |kind: &str| {
            accept.is_some_and(|accept| accept.split(',').any(|one| one.trim().starts_with(kind)))
        };
        match takes("text/plain") && !takes("application/json") {
            true => Self::Text,
            false => Self::Json,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

/// Replaces transcripts by their texts: prompt caches depend on the order of keys and every digit, which a [`Value`] loses.
fn keep_transcripts(value: &mut Value, body: &[u8]) {
    #[derive(Deserialize)]
    struct Transcripts<'b> {
        #[serde(borrow)]
        transcript: Option<&'b RawValue>,
        #[serde(borrow)]
        previous: Option<&'b RawValue>,
    }

    if value.get("transcript").is_none_or(Value::is_string) {
        return;
    }
    let Ok(Transcripts { transcript, previous }) = serde_json::from_slice(body) else { return };
    for (name, text) in [("transcript", transcript), ("previous", previous)] {
        let own = text.zip(value.get_mut(name));
        if let Some((text, own)) = own.filter(|(_, own)| own.is_array() || own.is_object()) {
            *own = text.get().into();
        }
    }
}

/// Reads a request, runs it, and serializes its answer.
fn run<R: Request>(
    value: Value,
    shelf: &Shelf,
    control: &Control<'_>,
    form: Form,
) -> Result<Vec<u8>, Failure> {
    let answer = R::from_value(value)?.run(shelf, control)?;
    Ok(match form {
        Form::Text => answer.text().into_owned().into_bytes(),
        // Answers are plain data, which serializes.
        Form::Json => serde_json::to_vec(&answer).unwrap_or_default(),
    })
}

impl Route {
    /// Answers a body.
    pub(crate) fn answer(
        &self,
        body: Bytes,
        form: Form,
        shelf: &Shelf,
        is_cancelled: &AtomicBool,
        max_bytes: usize,
    ) -> Result<Vec<u8>, Problem> {
        let invalid = |message: String| {
            Problem::new(StatusCode::BAD_REQUEST, "invalid_input", message)
                .hint("see /v1/openapi.json for the options")
        };
        let mut value: Value = serde_json::from_slice(&body)
            .map_err(|error| invalid(format!("the body is not JSON: {error}")))?;
        keep_transcripts(&mut value, &body);
        drop(body);
        let Some(options) = value.as_object() else {
            return Err(invalid("the body is not a JSON object".to_owned()));
        };
        if let Some(name) = LOCAL_OPTIONS.iter().find(|name| options.contains_key(**name)) {
            return Err(invalid(format!("the server has its own {name}; omit it")));
        }
        let has = |form: &&RequestForm| {
            form.keys.is_empty() || form.keys.iter().any(|key| options.contains_key(*key))
        };
        let Some(request) = self.forms.iter().find(has) else {
            let keys: Vec<&str> =
                self.forms.iter().filter_map(|form| form.keys.first()).copied().collect();
            return Err(invalid(format!("{} is missing", keys.join(" or "))));
        };
        let stop = || is_cancelled.load(Ordering::Relaxed);
        // The budget bounds what is sent.
        let sends = if form == Form::Text { Sends::Text } else { Sends::Data };
        let control = Control::default().until(&stop).sending(sends);
        let answer = (request.run)(value, shelf, &control, form);
        let mut answer = answer.map_err(|failure| Problem::from(failure).without_paths(shelf))?;
        if answer.len() > max_bytes {
            let message = format!(
                "the answer has {} bytes, more than the server's {max_bytes}",
                answer.len()
            );
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_large", message)
                .hint("ask for less; the server can be started with a greater --max-output"));
        }
        if form == Form::Json {
            let warnings = control.into_notes().warnings.into_iter();
            let warnings: Vec<String> = warnings.map(|text| shelf.without_paths(&text)).collect();
            let warnings = serde_json::to_vec(&warnings).unwrap_or_default();
            answer = [b"{\"answer\":", &answer[..], b",\"warnings\":", &warnings, b"}"].concat();
        }
        Ok(answer)
    }
}
