//! An explanation, for people.

use anstyle::Style;
use pannier_core::{
    BudgetThreshold, ContextItem, Decision, Explanation, InclusionReason, ScoreExplanation,
};

use super::label;
use crate::output;
use crate::table::{Table, one_line, shorten};

/// How many rivals are named; the rest are counted.
const MOST_RIVALS: usize = 10;

/// The answers about several items.
pub(super) fn texts(answers: &[Explanation<&ContextItem>], has_target: bool) -> String {
    let texts = answers.iter().map(|answer| text(answer, has_target));
    texts.collect::<Vec<_>>().join("\n")
}

/// The whole answer about one item.
fn text(answer: &Explanation<&ContextItem>, has_target: bool) -> String {
    let styled = output::is_styled(&std::io::stdout());
    let width = output::width();
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
        Decision::Included { reason: InclusionReason::Shortened, position } => {
            let place = position + 1;
            let short = item.short_form().map_or(0, ContextItem::tokens);
            text.push_str(&format!(
                "  In by its short form of {short} tokens, at place {place}. Decided by {stage}: all of it is too much\n"
            ));
        }
        Decision::Included { reason, position } => {
            let place = position + 1;
            text.push_str(&format!("  In, at place {place}. Decided by {stage}: {reason}\n"));
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
        for rival in answer.lost_to.iter().take(MOST_RIVALS) {
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
        let more = answer.lost_to.len().saturating_sub(MOST_RIVALS);
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
    // The flags that make this budget: those that were given, with other numbers.
    let size = |found: &BudgetThreshold| match has_target {
        true => format!("--budget {} --target {}", found.max_tokens, found.target_tokens),
        false => format!("--budget {}", found.max_tokens),
    };
    let mut rows = Vec::new();
    let above = if is_in { "smallest budget" } else { "smallest budget above this" };
    match &answer.smallest_budget {
        Some(found) if found.is_proven => rows.push((above, size(found))),
        Some(found) => rows.push((above, format!("{}, or less: not all were tried", size(found)))),
        None if answer.score.is_some() => rows.push((above, "none was found".to_owned())),
        None => {}
    }
    if let Some(found) = &answer.smaller_budget {
        let told = format!("{}, because others no longer fit", size(found));
        rows.push(("smallest budget below this", told));
    }
    match answer.smallest_score {
        Some(score) => rows.push(("smallest score", rounded_up(score))),
        None if answer.score.is_some() => rows.push(("smallest score", "none".to_owned())),
        None => {}
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(output::width(), 4, &[]);
    rows.into_iter().for_each(|(what, told)| table.row([what.to_owned(), told]));
    let is_short =
        matches!(answer.decision, Decision::Included { reason: InclusionReason::Shortened, .. });
    let title = if is_short { "Whole with" } else { "Selected with" };
    format!("\n  {title}\n{}", table.render(false))
}

/// A score with four digits if that is still enough, otherwise with all of them.
fn rounded_up(score: f64) -> String {
    let rounded = format!("{:.4}", (score * 10_000.0).ceil() / 10_000.0);
    let is_enough = rounded.parse::<f64>().is_ok_and(|number| number >= score);
    if is_enough { rounded } else { score.to_string() }
}
