//! Former names of commands, which still work for one release. Former names of flags are aliases in their declarations.

use std::ffi::OsString;

/// Returns the arguments with today's names, and a note if a former one was used. The first argument is the program.
pub(crate) fn rewrite(arguments: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    let is_word = |argument: &OsString| !argument.to_string_lossy().starts_with('-');
    let [program, name, rest @ ..] = &arguments[..] else { return (arguments, None) };
    let (mut rest, name) = (rest.to_vec(), name.to_string_lossy().into_owned());
    let words: &[&str] = match name.as_str() {
        "select" => &["pack"],
        "simulate" => match question(&mut rest) {
            Some(words) => words,
            None => return (arguments, None),
        },
        "compare" => &["inspect", "compare"],
        "replay" => &["inspect", "replay"],
        "diff" => &["inspect", "diff"],
        "chunks" => &["docs", "chunks"],
        "verify" => &["docs", "verify"],
        "packet" => &["memory"],
        "eval" if !rest.first().is_some_and(is_word) => &["eval", "docs"],
        "tokens" if rest.first().is_some_and(|word| word == "count") => {
            rest.remove(0);
            &["tokens"]
        }
        _ => return (arguments, None),
    };
    let former = if words == ["tokens"] { "tokens count" } else { &name };
    let note = format!("`{former}` is now `{}`", words.join(" "));
    let mut renamed = vec![program.clone()];
    renamed.extend(words.iter().map(OsString::from));
    renamed.append(&mut rest);
    (renamed, Some(note))
}

/// Finds the question of `simulate`, and turns its flag into an argument of today's command.
fn question(rest: &mut Vec<OsString>) -> Option<&'static [&'static str]> {
    let flag = |name: &str| {
        rest.iter().position(|argument| {
            let text = argument.to_string_lossy();
            text == name || text.strip_prefix(name).is_some_and(|value| value.starts_with('='))
        })
    };
    if let Some(position) = flag("--sweep") {
        rest.remove(position);
        return Some(&["inspect", "sweep"]);
    }
    let (position, words): (usize, &'static [&'static str]) = match flag("--min-budget-for") {
        Some(position) => (position, &["inspect", "min-budget"]),
        None => (flag("--marginal")?, &["inspect", "loss"]),
    };
    let flag = rest.remove(position).to_string_lossy().into_owned();
    let value = match flag.split_once('=') {
        Some((_, value)) => value.into(),
        None if position < rest.len() => rest.remove(position),
        None => return None,
    };
    rest.insert(0, value);
    // Every search is bounded now, and answers for every policy.
    rest.retain(|argument| argument != "--exhaustive");
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_commands_become_todays() {
        for (former, today) in [
            ("select a.jsonl --budget 9", "pack a.jsonl --budget 9"),
            ("simulate a.jsonl --sweep --to 9", "inspect sweep a.jsonl --to 9"),
            (
                "simulate a.jsonl --min-budget-for x --ceiling 9 --exhaustive",
                "inspect min-budget x a.jsonl --ceiling 9",
            ),
            ("simulate --min-budget-for=x", "inspect min-budget x"),
            ("simulate a.jsonl --marginal 5 -b 9", "inspect loss 5 a.jsonl -b 9"),
            ("replay r.json a.jsonl", "inspect replay r.json a.jsonl"),
            ("packet init", "memory init"),
            ("eval --data d", "eval docs --data d"),
            ("tokens count a", "tokens a"),
        ] {
            let words = |text: &str| {
                ["pannier"].into_iter().chain(text.split(' ')).map(OsString::from).collect()
            };
            let (renamed, note) = rewrite(words(former));
            let expected: Vec<OsString> = words(today);
            assert_eq!(renamed, expected);
            assert!(note.is_some(), "{former}");
            assert_eq!(rewrite(renamed), (expected, None));
        }
        assert_eq!(rewrite(vec!["pannier".into()]), (vec!["pannier".into()], None));
    }
}
