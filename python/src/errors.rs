//! Failures as exceptions. Their classes are Python's own, in `pannier/_errors.py`.

use pannier::{Audience, Category, Failure};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The exception for a failure of a run with a budget of this window, if it is known.
pub(crate) fn error(py: Python<'_>, failure: &Failure, window: Option<i64>) -> PyErr {
    let class = match failure.category() {
        Category::CheckFailed => "CheckFailed",
        Category::InvalidInput => "InvalidInput",
        Category::BudgetNotMet => "BudgetError",
        Category::CacheMissing => "IndexMissing",
        Category::CacheInvalid => "IndexInvalid",
        Category::Io => "FileError",
        _ => "InternalError",
    };
    let needed = match failure.category() {
        Category::BudgetNotMet => failure.needed_budget(window.unwrap_or_default()),
        _ => None,
    };
    let (message, advice) = (failure.message(Audience::Binding), failure.advice(Audience::Binding));
    build(py, class, &message, failure.code(), advice.as_deref(), needed)
}

/// The exception for input that is not JSON.
pub(crate) fn invalid_input(py: Python<'_>, message: &str) -> PyErr {
    build(py, "InvalidInput", message, Category::InvalidInput.code(), None, None)
}

fn build(
    py: Python<'_>,
    class: &str,
    message: &str,
    code: &str,
    advice: Option<&str>,
    needed: Option<i64>,
) -> PyErr {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let make = || {
        let errors =
            ERRORS.get_or_try_init(py, || PyResult::Ok(py.import("pannier._errors")?.unbind()))?;
        let options = PyDict::new(py);
        options.set_item("code", code)?;
        options.set_item("advice", advice)?;
        if let Some(needed) = needed {
            options.set_item("needed", needed)?;
        }
        errors.bind(py).getattr(class)?.call((message,), Some(&options))
    };
    match make() {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}
