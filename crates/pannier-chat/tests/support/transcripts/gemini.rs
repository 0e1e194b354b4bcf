//! Plans as contents of Gemini's `generateContent`.

use super::{
    Answer, Call, Outcome, PIXEL, Piece, Plan, Question, Request, Step, TOOLS, Thinking, Turn,
    Value, by_rank, input, json, schema,
};

const SIGNATURE: &str = "CikB0e2Kb0yQ3r7mS1ZpTq8=";

pub(super) fn write(plan: &Plan) -> Value {
    let mut writer = Writer { contents: Vec::new(), ids: 0, has_ids: plan.legacy };
    plan.turns.iter().for_each(|turn| writer.turn(turn));
    match &plan.request {
        None => Value::Array(writer.contents),
        Some(request) => wrap(plan, request, &writer.contents),
    }
}

fn wrap(plan: &Plan, request: &Request, contents: &[Value]) -> Value {
    let mut whole = json!({ "contents": contents });
    if let Some(first) = plan.instructions.first() {
        let parts: Value = first.texts.iter().map(|text| json!({ "text": text })).collect();
        whole["systemInstruction"] = json!({ "parts": parts });
    }
    if request.spare_tools || super::has_calls(plan) {
        let tool = |name: &&str| json!({ "name": name, "parameters": schema() });
        let tools: Value = TOOLS.iter().map(tool).collect();
        whole["tools"] = json!([{ "functionDeclarations": tools }]);
    }
    if request.choice {
        whole["generationConfig"] = json!({ "maxOutputTokens": 1024, "temperature": 0.5 });
    }
    whole
}

fn part(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) | Piece::Document(text) => json!({ "text": text }),
        Piece::WebImage(_) => {
            json!({ "fileData": { "mimeType": "image/png", "fileUri": "https://example.com/files/a" } })
        }
        Piece::DataImage(_) => json!({ "inlineData": { "mimeType": "image/png", "data": PIXEL } }),
    }
}

fn content(role: &str, parts: &[Value]) -> Value {
    json!({ "role": role, "parts": parts })
}

fn question(question: &Question) -> Value {
    content("user", &question.pieces.iter().map(part).collect::<Vec<_>>())
}

fn thought(thinking: &Thinking) -> Value {
    match thinking.redacted {
        true => json!({ "text": "", "thoughtSignature": SIGNATURE }),
        false => json!({ "text": thinking.text, "thought": true }),
    }
}

struct Writer {
    contents: Vec<Value>,
    ids: usize,
    has_ids: bool,
}

impl Writer {
    fn turn(&mut self, turn: &Turn) {
        let times = if turn.repeated { 2 } else { 1 };
        self.contents.extend(std::iter::repeat_n(question(&turn.question), times));
        for step in &turn.steps {
            self.step(step);
        }
        if let Some(answer) = &turn.answer {
            self.contents.push(content("model", &answer_parts(answer)));
        }
    }

    fn step(&mut self, step: &Step) {
        let mut parts: Vec<Value> = step.thinking.iter().map(thought).collect();
        parts.extend(step.said.iter().map(|text| json!({ "text": text })));
        let ids: Vec<Option<String>> = step.calls.iter().map(|_| self.new_id()).collect();
        for ((call, id), place) in step.calls.iter().zip(&ids).zip(0..) {
            let mut function = json!({ "name": call.tool, "args": input(call) });
            if let Some(id) = id {
                function["id"] = json!(id);
            }
            let mut part = json!({ "functionCall": function });
            // The first call of a step has the signature.
            if place == 0 && step.thinking.is_some() {
                part["thoughtSignature"] = json!(SIGNATURE);
            }
            parts.push(part);
        }
        self.contents.push(content("model", &parts));
        // Calls of one name without ids are answered in order.
        let order = if self.has_ids {
            by_rank(&step.calls)
        } else {
            step.calls.iter().enumerate().collect()
        };
        let responses =
            order.into_iter().map(|(place, call)| response(call, ids[place].as_deref()));
        let mut parts: Vec<Value> = responses.collect();
        parts.extend(step.added.iter().map(|text| json!({ "text": text })));
        self.contents.push(content("user", &parts));
    }

    fn new_id(&mut self) -> Option<String> {
        self.ids += 1;
        self.has_ids.then(|| format!("fc-{}", self.ids))
    }
}

fn response(call: &Call, id: Option<&str>) -> Value {
    let response = match &call.outcome {
        Outcome::Nothing => json!({}),
        Outcome::Plain(text) => json!({ "output": text }),
        Outcome::Pieces(_) => json!({ "result": [1.5, "two"], "isError": call.failed }),
    };
    let mut function = json!({ "name": call.tool, "response": response });
    if let Some(id) = id {
        function["id"] = json!(id);
    }
    json!({ "functionResponse": function })
}

fn answer_parts(answer: &Answer) -> Vec<Value> {
    match answer {
        Answer::Plain(text) | Answer::Named { text, .. } | Answer::Refusal { text, .. } => {
            vec![json!({ "text": text })]
        }
        Answer::Blocks { thinking, search, texts } => {
            let mut parts: Vec<Value> = thinking.iter().map(thought).collect();
            if *search {
                parts.push(
                    json!({ "executableCode": { "language": "PYTHON", "code": "print(1)" } }),
                );
                parts.push(
                    json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1" } }),
                );
            }
            parts.extend(texts.iter().map(|text| json!({ "text": text })));
            parts
        }
    }
}
