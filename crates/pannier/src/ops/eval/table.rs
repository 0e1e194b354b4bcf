//! The figures as tables.

use pannier_chat::replay::Summary;

use super::{EvalSessionsAnswer, ReplayedBudget};

const HEADINGS: [&str; 16] = [
    "policy", "cost", "+recall", "worst", "needles", "hard", "in line", "lossy", "recall",
    "breaks", "over", "refused", "invalid", "changed", "task", "edits",
];

/// Writes one table for each budget, faults and refusals below it.
pub(super) fn text(answer: &EvalSessionsAnswer) -> String {
    let budgets: Vec<String> = answer.budgets.iter().map(budget_text).collect();
    budgets.join("\n")
}

fn budget_text(replayed: &ReplayedBudget) -> String {
    let ReplayedBudget { budget, sessions, tokens, requests, policies } = replayed;
    let over = policies.first().map_or(0, |policy| policy.summary.requests_over_budget);
    let mut text = format!(
        "budget {budget}: {sessions} sessions, {tokens} tokens, {requests} requests, {over} over the budget\n"
    );
    if *sessions == 0 {
        text.push_str("no session is long enough\n");
        return text;
    }
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(policies.iter().map(|policy| row(&policy.policy, &policy.summary)));
    text.push_str(&aligned(&rows));
    for policy in policies {
        let Summary { faults, refusal, recorded_cache_reads, predicted_cache_reads, .. } =
            &policy.summary;
        for (fault, count) in faults {
            text.push_str(&format!("{}: {count} x {fault}\n", policy.policy));
        }
        if let Some(reason) = refusal {
            text.push_str(&format!("{}: refused, e.g. {reason}\n", policy.policy));
        }
        if let (Some(recorded), Some(predicted)) = (recorded_cache_reads, predicted_cache_reads)
            && policy.policy == policies[0].policy
        {
            let (recorded, predicted) = (recorded * 100.0, predicted * 100.0);
            text.push_str(&format!(
                "cache reads of the recorded requests: {recorded:.1} % recorded, {predicted:.1} % predicted\n"
            ));
        }
    }
    text
}

fn row(name: &str, summary: &Summary) -> Vec<String> {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    vec![
        name.to_owned(),
        format!("{:.3}", summary.cost),
        format!("{:.3}", summary.cost_with_recalls),
        format!("{:.3}", summary.worst_cost),
        percent(summary.needles),
        percent(summary.hard_needles),
        percent(summary.hard_needles_in_line),
        percent(summary.lossy_requests),
        percent(summary.recallable),
        format!("{:.2}", summary.prefix_edits),
        summary.overruns.to_string(),
        summary.refused.to_string(),
        summary.invalid.to_string(),
        summary.changed_without_pressure.to_string(),
        percent(summary.task_kept),
        percent(summary.edits_kept),
    ]
}

/// Aligns the first column to the left and all others to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => text.push_str(&format!("{cell:<width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.push('\n');
    }
    text
}
