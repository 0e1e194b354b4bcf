//! The rules by which providers reject requests, written apart from the code that keeps them.

use std::collections::BTreeSet;

use super::block::{Block, BlockKind, ReplayMessage, Role};

/// Returns the rule of Anthropic's Messages API that a request breaks.
pub(super) fn anthropic_fault(messages: &[ReplayMessage]) -> Option<&'static str> {
    let Some(first) = messages.first() else {
        return Some("no messages");
    };
    if first.role != Role::User {
        return Some("first message is not the user");
    }
    let none = BTreeSet::new;
    for (index, message) in messages.iter().enumerate() {
        let previous = index.checked_sub(1).map(|index| &messages[index]);
        if message.blocks.is_empty() {
            return Some("empty message");
        }
        if previous.is_some_and(|previous| previous.role == message.role) {
            return Some("roles do not alternate");
        }
        let (calls, results) = (ids(message, is_call), ids(message, Block::is_result));
        let answers = messages.get(index + 1).map_or_else(none, |next| ids(next, Block::is_result));
        if !calls.is_subset(&answers) {
            return Some("call without result");
        }
        let asked = previous.map_or_else(none, |previous| ids(previous, is_call));
        if !results.is_subset(&asked) {
            return Some("result without call");
        }
        let count = |is_wanted: fn(&Block) -> bool| {
            message.blocks.iter().filter(|block| is_wanted(block)).count()
        };
        if results.len() < count(Block::is_result) {
            return Some("result twice");
        }
        if calls.len() < count(is_call) {
            return Some("call twice");
        }
        let last_result = message.blocks.iter().rposition(|block| block.is_result());
        let first_other = message.blocks.iter().position(|block| !block.is_result());
        if last_result > first_other && first_other.is_some() {
            return Some("text before a result");
        }
        if message.blocks.iter().any(|block| block.is_blank()) {
            return Some("empty text");
        }
        let has_input = |block: &Block| {
            !matches!(block.kind, BlockKind::ToolUse { has_object_input: false, .. })
        };
        if !message.blocks.iter().all(|block| has_input(block)) {
            return Some("input is not an object");
        }
    }
    None
}

/// Returns the rule of OpenAI's Chat Completions API that a request breaks after its conversion: each result becomes a
/// message `tool`, and the texts of a message follow as one.
pub(super) fn openai_fault(messages: &[ReplayMessage]) -> Option<&'static str> {
    let mut pending: BTreeSet<&str> = BTreeSet::new();
    for message in messages {
        let has_text = message.blocks.iter().any(|block| block.is_text() && !block.text.is_empty());
        match message.role {
            Role::User => {
                for block in message.blocks.iter().filter(|block| block.is_result()) {
                    if !block.id().is_some_and(|id| pending.remove(id)) {
                        return Some("tool message without call");
                    }
                }
                if has_text && !pending.is_empty() {
                    return Some("call not answered at once");
                }
            }
            Role::Assistant => {
                if !pending.is_empty() {
                    return Some("call not answered at once");
                }
                pending = ids(message, is_call);
                if pending.is_empty() && !has_text {
                    return Some("empty assistant message");
                }
            }
        }
    }
    (!pending.is_empty()).then_some("call not answered")
}

fn is_call(block: &Block) -> bool {
    matches!(block.kind, BlockKind::ToolUse { .. })
}

fn ids(message: &ReplayMessage, is_wanted: fn(&Block) -> bool) -> BTreeSet<&str> {
    message.blocks.iter().filter(|block| is_wanted(block)).filter_map(|block| block.id()).collect()
}

#[cfg(test)]
mod tests {
    use pannier_tokens::BytesOverFour;

    use super::*;
    use crate::replay::BlockReader;

    fn faults(messages: &str) -> (Option<&'static str>, Option<&'static str>) {
        let messages = BlockReader::new(&BytesOverFour).read_request(messages).unwrap();
        (anthropic_fault(&messages), openai_fault(&messages))
    }

    const CALL: &str =
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}"#;
    const RESULT: &str =
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}"#;
    const USER: &str = r#"{"role":"user","content":"go"}"#;
    const TEXT: &str = r#"{"role":"assistant","content":"done"}"#;

    #[test]
    fn each_rule_is_checked() {
        let twice = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"},{"type":"tool_result","tool_use_id":"a","content":"x"}]}"#;
        let calls_twice = r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"a","name":"f","input":{}}]}"#;
        let late = r#"{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a","content":"x"}]}"#;
        let list = CALL.replace("{}", "[]");
        let blank = r#"{"role":"user","content":" "}"#;
        for (messages, anthropic, openai) in [
            (vec![USER, CALL, RESULT, TEXT, USER], None, None),
            (vec![], Some("no messages"), None),
            (vec![TEXT], Some("first message is not the user"), None),
            (
                vec![USER, r#"{"role":"assistant","content":[]}"#],
                Some("empty message"),
                Some("empty assistant message"),
            ),
            (vec![USER, USER], Some("roles do not alternate"), None),
            (vec![USER, CALL], Some("call without result"), Some("call not answered")),
            (
                vec![USER, CALL, USER],
                Some("call without result"),
                Some("call not answered at once"),
            ),
            (
                vec![USER, CALL, TEXT],
                Some("call without result"),
                Some("call not answered at once"),
            ),
            (vec![RESULT], Some("result without call"), Some("tool message without call")),
            (vec![USER, CALL, twice], Some("result twice"), Some("tool message without call")),
            (vec![USER, calls_twice, RESULT], Some("call twice"), None),
            (vec![USER, CALL, late], Some("text before a result"), None),
            (vec![blank], Some("empty text"), None),
            (vec![USER, &list, RESULT], Some("input is not an object"), None),
        ] {
            assert_eq!(
                faults(&format!("[{}]", messages.join(","))),
                (anthropic, openai),
                "{messages:?}"
            );
        }
    }
}
