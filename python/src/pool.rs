//! Packs items, and answers questions about a selection.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use pannier::engine::score::Pool as Candidates;
use pannier::engine::{Error, Scorer};
use pannier::ops::{
    BudgetOptions, PackPool, PackRequest, PackTotals, PolicyName, Request, ReserveOptions, Sends,
    Tokens,
};
use pannier::{ContextBudget, ContextItem, Failure, Policy, PolicyRegistry, Selection, Shelf};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use serde_json::{Value, json};

use crate::errors::{self, invalid_input};
use crate::json;
use crate::requests;
use crate::run::{Threads, run};

/// The name of the scorer in the policy of a run.
const SCORER_NAME: &str = "python";

/// A selection, and the pool that it is from.
#[pyclass(frozen, module = "pannier._pannier")]
pub(crate) struct Run {
    pool: Arc<PackPool>,
    reserves: ReserveOptions,
    budget: ContextBudget,
    /// The positions of the selected items, and the text of those that are sent in another form.
    #[pyo3(get)]
    selected: Vec<(usize, Option<String>)>,
    /// The items as one text.
    #[pyo3(get)]
    text: String,
    /// The totals, as JSON.
    #[pyo3(get)]
    totals: String,
    /// The warnings of the run.
    #[pyo3(get)]
    warnings: Vec<String>,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("selected", &self.selected).finish_non_exhaustive()
    }
}

/// Packs a list of items, or the JSON text of one, into a budget. The scorer is called once, with the whole list.
#[pyfunction]
#[pyo3(signature = (items, options, scorer=None))]
pub(crate) fn pack(
    items: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
    scorer: Option<&Bound<'_, PyAny>>,
) -> PyResult<Run> {
    let py = items.py();
    let mut request: PackRequest = requests::read(options)?;
    let (text, scores) = match items.cast::<PyString>() {
        Ok(text) => (json::text(text, "items")?, None),
        Err(_) => {
            let items = items.cast::<PyList>()?;
            let text = json::write_items(items)?;
            (text, scorer.map(|scorer| call_scorer(scorer, items)).transpose()?)
        }
    };
    let scorer = scores.map(|scores| Arc::new(GivenScores { scores, pool: OnceLock::new() }));
    let shelf = shelf(scorer.as_ref()).map_err(|failure| errors::error(py, &failure, None))?;
    let (budget, reserves) = (request.budget.clone(), request.reserves.clone());
    let ((pool, budget), warnings) = run(py, Threads::Caller, Sends::Data, None, |control| {
        request.pool.items = match serde_json::from_str(&text) {
            Ok(items) => items,
            Err(error) => return Err(item_failure(&text, &error)),
        };
        drop(text);
        if scorer.is_some() {
            let policy = shelf.policy(request.policy.policy.as_ref(), "chat", control)?;
            request.policy.policy = Some(with_scorer(&policy)?);
        }
        let budget = budget.read(&reserves, &shelf)?;
        let (pool, _) = request.open(&shelf, control)?;
        Ok((Arc::new(pool), budget))
    })?;
    if let Some(scorer) = scorer {
        // It is set once, here.
        let _ = scorer.pool.set(Arc::downgrade(&pool));
    }
    select(py, pool, reserves, budget, warnings)
}

/// Returns a failure with the path to a mistake in the items.
fn item_failure(text: &str, error: &serde_json::Error) -> Failure {
    let items: Value = serde_json::from_str(text).unwrap_or_default();
    match PackRequest::from_value(json!({ "items": items })) {
        Err(failure) => failure,
        Ok(_) => Failure::Request { path: "items".to_owned(), problem: error.to_string() },
    }
}

fn select(
    py: Python<'_>,
    pool: Arc<PackPool>,
    reserves: ReserveOptions,
    budget: ContextBudget,
    mut warnings: Vec<String>,
) -> PyResult<Run> {
    let ((selected, text, totals), more) =
        run(py, Threads::Caller, Sends::Data, Some(budget.max_tokens()), |_| {
            let selection = pool.pipeline().run(pool.items(), &budget)?;
            let parts: Vec<(usize, Option<String>)> = selection
                .indices()
                .zip(selection.items())
                .map(|(index, item)| {
                    let is_whole = item.content() == pool.items()[index].content();
                    (index, (!is_whole).then(|| item.content().to_owned()))
                })
                .collect();
            // Totals are plain data, which serializes.
            let totals = serde_json::to_string(&PackTotals::new(&selection)).unwrap_or_default();
            Ok((parts, pool.render(&selection), totals))
        })?;
    warnings.extend(more);
    Ok(Run { pool, reserves, budget, selected, text, totals, warnings })
}

#[pymethods]
impl Run {
    /// Returns the full report as JSON: every item with its score and the reason.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        self.of_selection(py, |selection| {
            serde_json::to_string(&selection.report()).unwrap_or_default()
        })
    }

    /// Returns the record of the run as JSON.
    fn receipt(&self, py: Python<'_>) -> PyResult<String> {
        self.of_selection(py, |selection| {
            serde_json::to_string(&self.pool.receipt(selection)).unwrap_or_default()
        })
    }

    /// Explains items by id or index, as JSON.
    #[expect(clippy::needless_pass_by_value, reason = "an argument from Python has an owner")]
    fn explain(&self, py: Python<'_>, names: Vec<Bound<'_, PyString>>) -> PyResult<String> {
        let names = names.iter().map(|name| json::text(name, "explain"));
        let names = names.collect::<PyResult<Vec<String>>>()?;
        let (explanations, _) = run(py, Threads::Caller, Sends::Data, None, |control| {
            let explanations = self.pool.explain(&names, &self.budget, control)?;
            Ok(serde_json::to_string(&explanations).unwrap_or_default())
        })?;
        Ok(explanations)
    }

    /// Selects from the same pool with another budget.
    #[pyo3(signature = (options))]
    fn what_if(&self, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let py = options.py();
        let request: PackRequest = requests::read(options)?;
        let reserves = match request.reserves.reserve {
            Some(_) => {
                ReserveOptions { reserve: request.reserves.reserve, ..self.reserves.clone() }
            }
            None => self.reserves.clone(),
        };
        let BudgetOptions { budget, target } = request.budget;
        let Tokens(window) = budget.unwrap_or(Tokens(self.budget.max_tokens()));
        let budget = reserves.budget(window, target);
        let budget = budget.map_err(|failure| errors::error(py, &failure, None))?;
        select(py, Arc::clone(&self.pool), reserves, budget, Vec::new())
    }

    /// The number of items in the pool.
    fn __len__(&self) -> usize {
        self.pool.items().len()
    }
}

impl Run {
    /// Runs the selection again, which gives the same result, and calls a function with it.
    fn of_selection(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Selection<'_>) -> String + Send,
    ) -> PyResult<String> {
        let (result, _) = run(py, Threads::Caller, Sends::Data, None, |_| {
            Ok(call(&self.pool.pipeline().run(self.pool.items(), &self.budget)?))
        })?;
        Ok(result)
    }
}

/// Returns a shelf that knows the scorer.
fn shelf(scorer: Option<&Arc<GivenScores>>) -> Result<Shelf, Failure> {
    let mut registry = PolicyRegistry::default();
    if let Some(scorer) = scorer {
        registry.add_scorer(SCORER_NAME, Arc::clone(scorer))?;
    }
    Ok(Shelf::local().with_registry(registry))
}

/// Returns a policy with the scorer in place of its own.
fn with_scorer(policy: &Policy) -> Result<PolicyName, Failure> {
    let invalid = |error: serde_json::Error| Failure::Request {
        path: "policy".to_owned(),
        problem: error.to_string(),
    };
    let mut value = serde_json::to_value(policy).map_err(invalid)?;
    value["scorers"] = json!([{ "type": "custom", "name": SCORER_NAME }]);
    Ok(PolicyName::Inline(Box::new(serde_json::from_value(value).map_err(invalid)?)))
}

/// Calls a scorer with all items, and reads its scores: a list, an array of numpy, or any other iterable of numbers.
fn call_scorer(scorer: &Bound<'_, PyAny>, items: &Bound<'_, PyList>) -> PyResult<Vec<f64>> {
    let py = items.py();
    let count = items.len();
    let mut scores = Vec::with_capacity(count);
    // A scorer may sort its list.
    for score in scorer.call1((items.get_slice(0, count),))?.try_iter()? {
        // The iterable may never end.
        if scores.len() == count {
            let problem = format!("the scorer returned more than {count} scores for {count} items");
            return Err(invalid_input(py, &problem));
        }
        let score: f64 = score?.extract()?;
        if !score.is_finite() {
            let problem = format!("the scorer gave item {} the score {score}", scores.len());
            return Err(invalid_input(py, &problem));
        }
        scores.push(score);
    }
    if scores.len() < count {
        let problem = format!("the scorer returned {} scores for {count} items", scores.len());
        return Err(invalid_input(py, &problem));
    }
    Ok(scores)
}

/// The scores that a callable gave the items of a pool.
struct GivenScores {
    scores: Vec<f64>,
    /// The pool, once there is one. It owns the pipeline, which owns this scorer.
    pool: OnceLock<Weak<PackPool>>,
}

impl Scorer for GivenScores {
    /// The engine scores the candidates, which are some of the items. An item is known by its address: equal items may have
    /// different scores.
    fn score(&self, candidates: &Candidates<'_>, scores: &mut [f64]) -> Result<(), Error> {
        let missing = || Error::custom("the scorer", "an item is not from its pool");
        let pool = self.pool.get().and_then(Weak::upgrade).ok_or_else(missing)?;
        let start = pool.items().as_ptr().addr();
        for (score, item) in scores.iter_mut().zip(candidates.items()) {
            let offset = std::ptr::from_ref(*item).addr().wrapping_sub(start);
            let index = offset / size_of::<ContextItem>();
            *score = *self.scores.get(index).ok_or_else(missing)?;
        }
        Ok(())
    }

    fn name(&self) -> &str {
        SCORER_NAME
    }

    fn max_score(&self) -> f64 {
        self.scores.iter().copied().fold(1.0, f64::max)
    }
}
