//! Runs one vector, and compares the result.

use std::fmt::Debug;

use pannier_core::item::{Metadata, ScoredItem, SliceBudget};
use pannier_core::layout::Plan;
use pannier_core::place::Placing;
use pannier_core::report::{ExclusionReason, SelectionReport};
use pannier_core::score::Pool;
use pannier_core::slice::{Offers, Tally, Verdict};
use pannier_core::{ContextItem, Error, Layout};
use pannier_layout::DocumentLayout;
use pannier_policy::PolicyRegistry;
use serde::de::DeserializeOwned;

use crate::Outcome;
use crate::components::{self, Problem};
use crate::vector::{
    Diagnostics, Expected, ExpectedExcluded, ExpectedIncluded, ExpectedScore, Item, Vector,
};

/// Runs one vector from its text.
pub fn run_vector(text: &str) -> Outcome {
    let vector: Vector = match toml::from_str(text) {
        Ok(vector) => vector,
        Err(error) => return Outcome::NotRun(format!("it cannot be read: {error}")),
    };
    let mut check = Check::default();
    match check.run(vector) {
        Ok(()) if check.compared == 0 => {
            Outcome::NotRun("it states nothing that could be compared".to_owned())
        }
        Ok(()) if check.differences.is_empty() => Outcome::Passed,
        Ok(()) => Outcome::Failed(check.differences),
        Err(Problem::NotUnderstood(problem)) => Outcome::NotRun(problem),
        Err(Problem::Refused(error)) => Outcome::Failed(vec![format!("unexpected error: {error}")]),
    }
}

fn read<T: DeserializeOwned>(what: &str, value: toml::Value) -> Result<T, Problem> {
    value
        .try_into()
        .map_err(|error| Problem::NotUnderstood(format!("{what} cannot be read: {error}")))
}

fn config(config: toml::Table) -> Result<Metadata, Problem> {
    read("config", toml::Value::Table(config))
}

fn need<T>(key: &str, value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| Problem::NotUnderstood(format!("'{key}' is missing")))
}

fn items(items: Vec<Item>) -> Result<Vec<ContextItem>, Problem> {
    let failed = |error| Problem::NotUnderstood(format!("an item cannot be read: {error}"));
    items.into_iter().map(|item| item.build().map_err(failed)).collect()
}

/// The number of comparisons, and the differences.
#[derive(Default)]
struct Check {
    compared: usize,
    differences: Vec<String>,
}

impl Check {
    fn equal<T: PartialEq + Debug>(&mut self, what: &str, expected: &T, actual: &T) {
        self.compared += 1;
        if expected != actual {
            self.differ(what, expected, actual);
        }
    }

    fn close(&mut self, what: &str, expected: f64, actual: f64, epsilon: f64) {
        self.compared += 1;
        let close = (expected - actual).abs() < epsilon || (expected.is_nan() && actual.is_nan());
        if !close {
            self.differ(what, &expected, &actual);
        }
    }

    fn differ(&mut self, what: &str, expected: &impl Debug, actual: &impl Debug) {
        self.differences.push(format!("{what}\n  expected: {expected:?}\n  actual:   {actual:?}"));
    }

    fn run(&mut self, vector: Vector) -> Result<(), Problem> {
        if vector.test.expect_construction_error {
            return self.construction(vector);
        }
        match vector.test.stage.as_str() {
            "scoring" => self.scoring(vector),
            "slicing" => self.slicing(vector),
            "placing" => self.placing(vector),
            "pipeline" => self.pipeline(vector),
            other => Err(Problem::NotUnderstood(format!("unknown stage '{other}'"))),
        }
    }

    /// Passes if and only if the components cannot be built. Nothing runs.
    fn construction(&mut self, vector: Vector) -> Result<(), Problem> {
        let config = config(vector.config)?;
        let built = match vector.test.stage.as_str() {
            "scoring" => {
                let name = need("test.scorer", vector.test.scorer)?;
                components::scorer(&name, config).map(drop)
            }
            "slicing" => {
                let name = need("test.slicer", vector.test.slicer)?;
                components::slicer(&name, config).map(drop)
            }
            "pipeline" => components::pipeline(config).map(drop),
            other => return Err(Problem::NotUnderstood(format!("unknown stage '{other}'"))),
        };
        let budget = vector.budget.map_or(Ok(()), |budget| budget.build().map(drop));
        let refused = match built.and(budget.map_err(Problem::Refused)) {
            Ok(()) => false,
            Err(Problem::Refused(_)) => true,
            Err(not_understood) => return Err(not_understood),
        };
        self.equal("construction fails", &true, &refused);
        Ok(())
    }

    fn scoring(&mut self, vector: Vector) -> Result<(), Problem> {
        let name = need("test.scorer", vector.test.scorer)?;
        let scorer = components::scorer(&name, config(vector.config)?)?;
        let scorer = PolicyRegistry::empty().scorer(&scorer, None)?;
        let items = items(vector.items)?;
        let epsilon = vector.tolerance.map_or(1e-9, |tolerance| tolerance.score_epsilon);
        let expected: Vec<ExpectedScore> = read("expected", need("expected", vector.expected)?)?;

        let scores = Pool::new(&items).scores(&scorer)?;
        let mut open: Vec<usize> = (0..items.len()).collect();
        for ExpectedScore { content, score_approx } in expected {
            // Of equal contents, the first that no expectation has named yet.
            let Some(at) = open.iter().position(|item| items[*item].content() == content) else {
                return Err(Problem::NotUnderstood(format!(
                    "no item '{content}' is left to compare"
                )));
            };
            let item = open.remove(at);
            self.close(&format!("score of '{content}'"), score_approx, scores[item], epsilon);
        }
        Ok(())
    }

    fn slicing(&mut self, vector: Vector) -> Result<(), Problem> {
        let name = need("test.slicer", vector.test.slicer)?;
        let policy = components::slicer(&name, config(vector.config)?)?;
        let slicer = PolicyRegistry::empty().slicer(&policy, None)?;
        let budget = need("budget", vector.budget)?.build()?;
        let expected: Expected = read("expected", need("expected", vector.expected)?)?;
        let (scores, items) = scored(vector.scored_items)?;

        let scored: Vec<ScoredItem<'_>> =
            items.iter().zip(scores).map(|(item, score)| ScoredItem { item, score }).collect();
        let plan = match policy.document_layout(DocumentLayout::uncounted()) {
            Some(layout) => layout.plan(&Pool::new(&items))?,
            None => Plan::default(),
        };
        let kept = items.iter().zip(0..).filter(|(item, _)| item.is_kept());
        let offers = Offers::planned(&scored, plan).with_kept(kept.map(|(_, position)| position));
        let budget = SliceBudget {
            max_tokens: budget.max_tokens(),
            ..SliceBudget::new(budget.target_tokens())
        };
        let mut tally = Tally::new(&offers, budget);
        let result = slicer.slice(&mut tally);
        if self.result(expected.error.as_deref(), result)?.is_none() {
            return Ok(());
        }
        if let Some(mut contents) = expected.selected_contents {
            let is_taken = |position: &usize| tally.level(*position).is_some();
            let taken = (0..items.len()).filter(is_taken).map(|position| &items[position]);
            let mut actual: Vec<_> = taken.map(|item| item.content().to_owned()).collect();
            contents.sort();
            actual.sort();
            self.equal("selected contents", &contents, &actual);
        }
        if let Some(mut contents) = expected.sent_contents {
            let sent = items.iter().enumerate();
            let sent = sent.filter_map(|(position, item)| Some(item.at(tally.level(position)?)));
            let mut actual: Vec<_> = sent.map(|item| item.content().to_owned()).collect();
            contents.sort();
            actual.sort();
            self.equal("sent contents", &contents, &actual);
        }
        if let Some(mut contents) = expected.shortened_contents {
            let verdicts = items.iter().zip(tally.verdicts());
            let shortened =
                verdicts.filter(|(_, verdict)| verdict.is_taken() && **verdict != Verdict::WHOLE);
            let mut actual: Vec<_> = shortened.map(|(item, _)| item.content().to_owned()).collect();
            contents.sort();
            actual.sort();
            self.equal("shortened contents", &contents, &actual);
        }
        if let Some(count) = expected.shortfall_count {
            self.equal("shortfalls", &count, &tally.shortfalls().len());
        }
        if let Some(gap) = expected.gap {
            self.equal("gap", &Some(gap), &tally.gap());
        }
        if let Some(count) = expected.cap_excluded_count {
            let capped = |verdict: &&Verdict| match verdict {
                Verdict::Capped { .. } => true,
                Verdict::Excluded(reason) => reason.name() == "DocumentCapExceeded",
                _ => false,
            };
            let actual = tally.verdicts().iter().filter(capped).count();
            self.equal("items excluded by a cap", &count, &actual);
        }
        Ok(())
    }

    fn placing(&mut self, vector: Vector) -> Result<(), Problem> {
        let placer = components::placer(&need("test.placer", vector.test.placer)?)?;
        let placer = PolicyRegistry::empty().placer(&placer, None)?;
        let expected: Expected = read("expected", need("expected", vector.expected)?)?;
        let expected = need("expected.ordered_contents", expected.ordered_contents)?;
        let (scores, items) = scored(vector.items)?;
        let scored: Vec<Placing<'_>> = items
            .iter()
            .zip(scores)
            .map(|(item, score)| ScoredItem { item, score }.into())
            .collect();
        let placed = placer.place(&scored)?;
        let placed = placed.iter().map(|position| items[*position as usize].content().to_owned());
        self.equal("order", &expected, &placed.collect());
        Ok(())
    }

    fn pipeline(&mut self, vector: Vector) -> Result<(), Problem> {
        let pipeline = components::pipeline(config(vector.config)?)?;
        let budget = need("budget", vector.budget)?.build()?;
        let items = items(vector.items)?;
        let epsilon = vector.tolerance.map_or(1e-9, |tolerance| tolerance.score_epsilon);
        let expected: Expected = match vector.expected {
            Some(expected) => read("expected", expected)?,
            None => Expected::default(),
        };

        let result = pipeline.run(&items, &budget);
        let Some(selection) = self.result(expected.error.as_deref(), result)? else {
            return Ok(());
        };
        // A vector without any expectation expects an empty output.
        if vector.expected_output.is_some() || expected.diagnostics.is_none() {
            let output = vector.expected_output.unwrap_or_default();
            let output: Vec<_> = output.into_iter().map(|entry| entry.content).collect();
            let actual = selection.items().map(|item| item.content().to_owned()).collect();
            self.equal("output", &output, &actual);
        }
        if let Some(diagnostics) = expected.diagnostics {
            self.diagnostics(diagnostics, &selection.report(), epsilon)?;
        }
        Ok(())
    }

    /// Returns the value, unless an error is expected.
    fn result<T>(
        &mut self,
        expected: Option<&str>,
        result: Result<T, Error>,
    ) -> Result<Option<T>, Problem> {
        match (expected, result) {
            (None, result) => Ok(Some(result?)),
            (Some(expected), Err(error)) => {
                self.equal("error", &expected, &error_name(&error));
                Ok(None)
            }
            (Some(expected), Ok(_)) => {
                self.equal("error", &expected, &"none");
                Ok(None)
            }
        }
    }

    fn diagnostics(
        &mut self,
        expected: Diagnostics,
        report: &SelectionReport<&ContextItem>,
        epsilon: f64,
    ) -> Result<(), Problem> {
        if let Some(included) = expected.included {
            self.included(&included, report, epsilon);
        }
        if let Some(excluded) = expected.excluded {
            self.excluded(&excluded, report, epsilon)?;
        }
        if let Some(summary) = expected.summary {
            if let Some(total) = summary.total_candidates {
                self.equal("total_candidates", &total, &report.total_candidates);
            }
            if let Some(total) = summary.total_tokens_considered {
                self.equal("total_tokens_considered", &total, &report.total_tokens_considered);
            }
        }
        if let Some(shortfalls) = expected.shortfalls {
            let expected: Vec<_> = shortfalls
                .into_iter()
                .map(|entry| (entry.kind, entry.required_count, entry.satisfied_count))
                .collect();
            let actual = report.count_requirement_shortfalls.iter();
            let actual = actual
                .map(|entry| (entry.kind.to_string(), entry.required_count, entry.satisfied_count));
            self.equal("shortfalls", &expected, &actual.collect());
        }
        if let Some(overflow) = expected.overflow {
            let actual = report.overflow.as_ref();
            let over = actual.map(|event| event.tokens_over_budget);
            self.equal("tokens over budget", &Some(overflow.tokens_over_budget), &over);
            if let Some(contents) = overflow.overflowing_contents {
                let items = actual.map_or(&[][..], |event| &event.overflowing_items);
                let items = items.iter().map(|item| item.content().to_owned()).collect();
                self.equal("overflowing items", &contents, &items);
            }
        }
        if let Some(stages) = expected.stages {
            let expected: Vec<_> = stages
                .into_iter()
                .map(|entry| (entry.stage, entry.items_in, entry.items_out))
                .collect();
            let actual = report.stages.iter();
            let actual = actual.map(|e| (e.stage.name().to_owned(), e.items_in, e.items_out));
            self.equal("stages", &expected, &actual.collect());
        }
        Ok(())
    }

    fn included(
        &mut self,
        expected: &[ExpectedIncluded],
        report: &SelectionReport<&ContextItem>,
        epsilon: f64,
    ) {
        let names = expected.iter().map(|entry| (&*entry.content, &*entry.inclusion_reason));
        let actual = report.included.iter();
        let actual = actual.map(|entry| (entry.item.content(), entry.reason.name()));
        self.equal("included", &names.collect::<Vec<_>>(), &actual.collect());
        for (expected, actual) in expected.iter().zip(&report.included) {
            let what = format!("score of included '{}'", expected.content);
            self.close(&what, expected.score_approx, actual.score, epsilon);
        }
    }

    fn excluded(
        &mut self,
        expected: &[ExpectedExcluded],
        report: &SelectionReport<&ContextItem>,
        epsilon: f64,
    ) -> Result<(), Problem> {
        let names = expected.iter().map(|entry| (&*entry.content, &*entry.exclusion_reason));
        let actual = report.excluded.iter();
        let actual = actual.map(|entry| (entry.item.content(), entry.reason.name()));
        self.equal("excluded", &names.collect::<Vec<_>>(), &actual.collect());
        for (expected, actual) in expected.iter().zip(&report.excluded) {
            let content = &expected.content;
            let what = format!("score of excluded '{content}'");
            self.close(&what, expected.score_approx, actual.score, epsilon);
            let fields = reason_fields(&actual.reason)?;
            for (key, value) in &expected.fields {
                if KNOWN_FIELDS.contains(&key.as_str()) {
                    // A false flag is omitted.
                    let actual = fields.get(key).cloned().unwrap_or(false.into());
                    let what = format!("{key} of excluded '{content}'");
                    self.equal(&what, &value.to_string(), &actual.to_string());
                }
            }
        }
        Ok(())
    }
}

/// The fields of exclusion reasons that a vector may state. Other fields are ignored.
const KNOWN_FIELDS: [&str; 15] = [
    "item_tokens",
    "available_tokens",
    "outcompeted",
    "deduplicated_against",
    "near_duplicate_of",
    "shared",
    "own",
    "tokens",
    "displaced_by",
    "kind",
    "document",
    "cap",
    "count",
    "group",
    "cause",
];

fn reason_fields(reason: &ExclusionReason) -> Result<toml::Table, Problem> {
    toml::Table::try_from(reason)
        .map_err(|error| Problem::NotUnderstood(format!("a reason cannot be written: {error}")))
}

/// Returns items and their given scores.
fn scored(entries: Vec<Item>) -> Result<(Vec<f64>, Vec<ContextItem>), Problem> {
    let scores: Option<Vec<f64>> = entries.iter().map(|item| item.score).collect();
    Ok((need("score", scores)?, items(entries)?))
}

fn error_name(error: &Error) -> &'static str {
    match error {
        Error::PinnedOverBudget { .. } => "PinnedOverBudget",
        Error::OverTarget { .. } => "OverTarget",
        Error::OverWindow { .. } => "OverWindow",
        Error::Scarcity { .. } => "Scarcity",
        Error::TableTooLarge { .. } => "TableTooLarge",
        _ => "another error",
    }
}
