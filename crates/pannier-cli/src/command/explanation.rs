//! Explanations, and their text for people.

use anstyle::Style;
use pannier_core::item::FormName;
use pannier_core::score::ScoreExplanation;
use pannier_core::whatif::{BudgetThreshold, Decision, Search};
use pannier_core::{ContextBudget, ContextItem, Explanation, Pipeline};

use super::label;
use crate::error::CliError;
use crate::table::{Table, one_line, shorten};
use crate::{interrupt, output};

/// Returns a search for this many explanations, which Ctrl-C stops.
pub(super) fn search(explanations: usize) -> Search<'static> {
    interrupt::search(Explanation::<()>::STEPS.saturating_mul(explanations as u64))
}

/// Explains items of a pool, or as much of them as is known when Ctrl-C is pressed.
pub(super) fn explain<'a>(
    pipeline: &Pipeline,
    items: &'a [ContextItem],
    budget: &ContextBudget,
    indices: &[usize],
) -> Result<Vec<Explanation<&'a ContextItem>>, CliError> {
    let prepared = pipeline.prepare(items)?;
    Ok(prepared.explain(budget, indices, &mut search(indices.len()))?)
}

/// The number of rivals to list; the rest are counted.
const MAX_RIVALS: usize = 10;

/// Renders the explanations of several items.
pub(super) fn texts(answers: &[Explanation<&ContextItem>], has_target: bool) -> String {
    let texts = answers.iter().map(|answer| text(answer, has_target));
    texts.collect::<Vec<_>>().join("\n")
}

/// Renders the explanation of one item.
fn text(answer: &Explanation<&ContextItem>, has_target: bool) -> String {
    let styled = output::is_styled(&std::io::stdout());
    let width = output::terminal_width();
    let (index, item) = (answer.index, answer.item);
    let name = item.id().map_or_else(String::new, |id| format!(" {id}"));
    let group = item.group().map_or_else(String::new, |group| format!(", group {group}"));
    let tokens = item.tokens();
    let title = format!("Item {index}{name}, {tokens} tokens{group}: {}", one_line(item.content()));
    let title = shorten(&one_line(&title), width);
    let bold = Style::new().bold();
    let mut text = if styled { format!("{bold}{title}{bold:#}\n") } else { format!("{title}\n") };

    let stage = &answer.stage;
    match &answer.decision {
        Decision::Included { position, form: Some(form), .. } => {
            let (number, tokens) = (position + 1, form.tokens);
            let name = match form.name == FormName::SHORT {
                true => "short form".to_owned(),
                false => format!("form {}", form.name),
            };
            text.push_str(&format!(
                "  In by its {name} of {tokens} tokens, at position {number}. Decided by {stage}: the full text does not fit\n"
            ));
        }
        Decision::Included { reason, position, .. } => {
            let number = position + 1;
            text.push_str(&format!("  In, at position {number}. Decided by {stage}: {reason}\n"));
        }
        Decision::Excluded { reason } => {
            let reason = one_line(&reason.to_string());
            text.push_str(&format!("  Out. Decided by {stage}: {reason}\n"));
        }
        _ => {}
    }
    if let Some(score) = &answer.score {
        let rank = answer
            .rank
            .map_or_else(String::new, |rank| format!(", rank {} of {}", rank.rank, rank.of));
        let density =
            answer.density.map_or_else(String::new, |density| format!(", {density:.5} a token"));
        text.push_str(&format!("\n  Score {:.4}{rank}{density}\n", score.score));
        let mut table = Table::new(width, 4, &[false, true, true, true]);
        add_tree(&mut table, score, 0);
        text.push_str(&table.render(styled));
    }
    if !answer.lost_to.is_empty() {
        text.push_str("\n  Lost to\n");
        let mut table = Table::new(width, 4, &[false, true, true, false]);
        for rival in answer.lost_to.iter().take(MAX_RIVALS) {
            let (score, tokens) = (rival.score, rival.item.tokens());
            let (score, tokens) = (format!("{score:.4}"), format!("{tokens} tokens"));
            table.row([
                label(rival.index, rival.item),
                score,
                tokens,
                rival.item.content().to_owned(),
            ]);
        }
        text.push_str(&table.render(styled));
        let more = answer.lost_to.len().saturating_sub(MAX_RIVALS);
        if more > 0 {
            text.push_str(&format!("    and {more} more\n"));
        }
    }
    text.push_str(&counterfactuals(answer, has_target));
    text
}

fn add_tree(table: &mut Table, node: &ScoreExplanation, depth: usize) {
    let name = format!("{}{}", "· ".repeat(depth), node.scorer);
    let weight = node.weight.map_or_else(String::new, |weight| format!("weight {weight}"));
    let share = node.share.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0));
    table.row([name, format!("{:.4}", node.score), weight, share]);
    for child in &node.children {
        add_tree(table, child, depth + 1);
    }
}

fn counterfactuals(answer: &Explanation<&ContextItem>, has_target: bool) -> String {
    let is_in = matches!(answer.decision, Decision::Included { .. });
    // The flags of this run, with other numbers.
    let flags = |threshold: &BudgetThreshold| match has_target {
        true => format!("--budget {} --target {}", threshold.max_tokens, threshold.target_tokens),
        false => format!("--budget {}", threshold.max_tokens),
    };
    let none = |text: &str| if answer.is_complete { text } else { "not known" }.to_owned();
    let mut rows = Vec::new();
    let above = if is_in { "smallest budget" } else { "smallest budget above this" };
    match &answer.smallest_budget {
        Some(threshold) if threshold.is_proven => rows.push((above, flags(threshold))),
        Some(threshold) => {
            rows.push((above, format!("{}, or less: not all were tried", flags(threshold))));
        }
        None if answer.score.is_some() => rows.push((above, none("none was found"))),
        None => {}
    }
    if let Some(threshold) = &answer.smaller_budget {
        let value = format!("{}, because others no longer fit", flags(threshold));
        rows.push(("smallest budget below this", value));
    }
    match answer.smallest_score {
        Some(score) => rows.push(("smallest score", rounded_up(score))),
        None if answer.score.is_some() => {
            rows.push(("smallest score", none("none that the scorers can give")));
        }
        None => {}
    }
    if let Some(tokens) = answer.max_item_tokens {
        let unit = if tokens == 1 { "token" } else { "tokens" };
        rows.push(("item size", format!("at most {tokens} {unit}")));
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(output::terminal_width(), 4, &[]);
    rows.into_iter().for_each(|(name, value)| table.row([name.to_owned(), value]));
    let is_short = matches!(answer.decision, Decision::Included { form: Some(_), .. });
    let title = if is_short { "Whole with" } else { "Selected with" };
    format!("\n  {title}\n{}", table.render(false))
}

/// Rounds a score up to four digits, or prints all digits if the rounded number is below it.
fn rounded_up(score: f64) -> String {
    let rounded = format!("{:.4}", (score * 10_000.0).ceil() / 10_000.0);
    let is_enough = rounded.parse::<f64>().is_ok_and(|number| number >= score);
    if is_enough { rounded } else { score.to_string() }
}
