//! The requests of the library by name: options in, an answer out.

use pannier::ops::{
    Answer, BudgetRequest, ChatRequest, CountRequest, IndexRequest, LossRequest, MemoryRequest,
    PackRequest, ReadRequest, RecallRequest, Request, SearchRequest, Sends, SnippetGetRequest,
    SnippetListRequest, StatsRequest, SweepRequest, VerifyRequest,
};
use pannier::{Failure, Shelf};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::errors::{self, invalid_input};
use crate::json;
use crate::run::{Threads, run};

/// A request type.
struct Operation {
    name: &'static str,
    threads: Threads,
    schema: fn() -> Value,
    run: fn(Python<'_>, Value, Threads) -> PyResult<Answered>,
}

/// The text of an answer, the answer as JSON, and the warnings of its run.
type Answered = (String, String, Vec<String>);

macro_rules! operations {
    ($($name:literal: $request:ty, $threads:ident;)+) => {
        &[$(Operation {
            name: $name,
            threads: Threads::$threads,
            schema: <$request as Request>::schema,
            run: answer::<$request>,
        }),+]
    };
}

const OPERATIONS: &[Operation] = operations! {
    "chat": ChatRequest, Caller;
    "count": CountRequest, Caller;
    "index": IndexRequest, Pool;
    "loss": LossRequest, Caller;
    "memory": MemoryRequest, Caller;
    "pack": PackRequest, Caller;
    "read": ReadRequest, Pool;
    "recall": RecallRequest, Caller;
    "search": SearchRequest, Pool;
    "smallest_budget": BudgetRequest, Caller;
    "snippets_get": SnippetGetRequest, Caller;
    "snippets_list": SnippetListRequest, Caller;
    "stats": StatsRequest, Pool;
    "sweep": SweepRequest, Caller;
    "verify": VerifyRequest, Pool;
};

fn answer<R: Request + Send>(py: Python<'_>, options: Value, threads: Threads) -> PyResult<Answered>
where
    R::Answer: Send,
{
    let (answer, warnings) = run(py, threads, Sends::Text, None, |control| {
        let answer = R::from_value(options)?.run(&Shelf::local(), control)?;
        // Answers are plain data, which serializes.
        Ok((answer.text().into_owned(), serde_json::to_string(&answer).unwrap_or_default()))
    })?;
    let (text, json) = answer;
    Ok((text, json, warnings))
}

fn operation(py: Python<'_>, name: &str) -> PyResult<&'static Operation> {
    let found = OPERATIONS.iter().find(|operation| operation.name == name);
    found.ok_or_else(|| invalid_input(py, &format!("there is no operation `{name}`")))
}

/// Runs a request, and returns the text of its answer, the answer as JSON, and warnings.
#[pyfunction]
pub(crate) fn request(name: &str, options: &Bound<'_, PyDict>) -> PyResult<Answered> {
    let py = options.py();
    let operation = operation(py, name)?;
    (operation.run)(py, read_options(options)?, operation.threads)
}

/// Returns the JSON Schema of a request.
#[pyfunction]
pub(crate) fn schema(py: Python<'_>, name: &str) -> PyResult<String> {
    Ok((operation(py, name)?.schema)().to_string())
}

/// Reads options.
pub(crate) fn read_options(options: &Bound<'_, PyDict>) -> PyResult<Value> {
    let py = options.py();
    let text = json::write(options, "options")?;
    serde_json::from_str(&text).map_err(|error| invalid_input(py, &format!("options: {error}")))
}

/// Reads a request from options.
pub(crate) fn read<R: Request>(options: &Bound<'_, PyDict>) -> PyResult<R> {
    let read = |failure: Failure| errors::error(options.py(), &failure, None);
    R::from_value(read_options(options)?).map_err(read)
}
