//! Plans as items of `OpenAI`'s Responses API.

use super::{
    Answer, CUSTOM_TOOL, Call, Instruction, Outcome, Piece, Plan, Question, Request, Step, TOOLS,
    Thinking, Turn, Value, WEB_IMAGE, by_rank, data_address, input, json, schema,
};

pub(super) fn write(plan: &Plan) -> Value {
    let mut writer = Writer { items: Vec::new(), ids: 0 };
    let Some(request) = &plan.request else {
        writer.items.extend(plan.instructions.iter().map(instruction));
        plan.turns.iter().for_each(|turn| writer.turn(turn));
        return Value::Array(writer.items);
    };
    plan.turns.iter().for_each(|turn| writer.turn(turn));
    wrap(plan, request, &writer.items)
}

fn wrap(plan: &Plan, request: &Request, items: &[Value]) -> Value {
    let model = if request.model == 0 { "gpt-5-codex" } else { "gpt-5-mini" };
    let mut whole = json!({ "model": model, "input": items });
    if let Some(first) = plan.instructions.first() {
        whole["instructions"] = json!(first.texts.join("\n"));
    }
    let is_plain = plan.turns.len() == 1 && items_are_plain(&whole["input"]);
    if is_plain && request.choice {
        whole["input"] = whole["input"][0]["content"].clone();
    }
    if request.spare_tools || super::has_calls(plan) {
        let tool =
            |name: &&str| json!({ "type": "function", "name": name, "parameters": schema() });
        let mut tools: Vec<Value> = TOOLS.iter().map(tool).collect();
        tools.push(json!({ "type": "custom", "name": CUSTOM_TOOL }));
        tools.push(json!({ "type": "web_search" }));
        whole["tools"] = tools.into();
    }
    if request.choice {
        whole["max_output_tokens"] = json!(1024);
        whole["store"] = json!(false);
    }
    if let Some(stream) = request.stream {
        whole["stream"] = json!(stream);
    }
    whole
}

/// Whether the input is one message with a string.
fn items_are_plain(items: &Value) -> bool {
    items.as_array().is_some_and(|items| items.len() == 1) && items[0]["content"].is_string()
}

fn instruction(instruction: &Instruction) -> Value {
    let role = if instruction.newer_role { "developer" } else { "system" };
    let content = match instruction.plain {
        true => json!(instruction.texts.join("\n")),
        false => instruction.texts.iter().map(|text| input_text(text)).collect(),
    };
    json!({ "role": role, "content": content })
}

fn input_text(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

fn part(piece: &Piece) -> Value {
    let image = |url: &str, detail: Option<&str>| json!({ "type": "input_image", "image_url": url, "detail": detail.unwrap_or("auto") });
    match piece {
        Piece::Text(text) => input_text(text),
        Piece::Document(text) => {
            json!({ "type": "input_file", "filename": "notes.txt", "file_data": text })
        }
        Piece::WebImage(detail) => image(WEB_IMAGE, *detail),
        Piece::DataImage(detail) => image(&data_address(), *detail),
    }
}

fn question(question: &Question) -> Value {
    match question.pieces.as_slice() {
        [Piece::Text(text)] if question.plain => json!({ "role": "user", "content": text }),
        pieces => {
            let content: Value = pieces.iter().map(part).collect();
            json!({ "type": "message", "role": "user", "content": content })
        }
    }
}

struct Writer {
    items: Vec<Value>,
    ids: usize,
}

impl Writer {
    fn turn(&mut self, turn: &Turn) {
        self.items.extend(turn.instruction.as_ref().map(instruction));
        let times = if turn.repeated { 2 } else { 1 };
        self.items.extend(std::iter::repeat_n(question(&turn.question), times));
        for step in &turn.steps {
            self.step(step);
        }
        if let Some(answer) = &turn.answer {
            self.answer(answer);
        }
    }

    /// Returns an id of an item, which names its reasoning.
    fn new_id(&mut self, prefix: &str, reasoning: Option<&str>) -> String {
        self.ids += 1;
        match reasoning {
            Some(reasoning) => format!("{prefix}_{}_of_{reasoning}", self.ids),
            None => format!("{prefix}_{}", self.ids),
        }
    }

    fn reasoning(&mut self, thinking: Option<&Thinking>) -> Option<String> {
        let thinking = thinking?;
        let id = self.new_id("rs", None);
        let mut item = json!({ "type": "reasoning", "id": id, "summary": [] });
        match thinking.redacted {
            true => item["encrypted_content"] = json!("gAAAAABo6fQWq3s1"),
            false => item["summary"] = json!([{ "type": "summary_text", "text": thinking.text }]),
        }
        self.items.push(item);
        Some(id)
    }

    fn search(&mut self, reasoning: Option<&str>) {
        let id = self.new_id("ws", reasoning);
        let action = json!({ "type": "search", "query": "weather" });
        self.items.push(
            json!({ "type": "web_search_call", "id": id, "status": "completed", "action": action }),
        );
    }

    fn said(&mut self, text: &str, reasoning: Option<&str>) {
        let id = self.new_id("msg", reasoning);
        let part =
            json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
        self.items
            .push(json!({ "type": "message", "id": id, "status": "completed", "role": "assistant",
            "content": [part] }));
    }

    fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Plain(text) | Answer::Named { text, .. } => {
                self.items.push(json!({ "role": "assistant", "content": text }));
            }
            Answer::Refusal { text, .. } => {
                let part = json!({ "type": "refusal", "refusal": text });
                self.items
                    .push(json!({ "type": "message", "role": "assistant", "content": [part] }));
            }
            Answer::Blocks { thinking, search, texts } => {
                let reasoning = self.reasoning(thinking.as_ref());
                if *search {
                    self.search(reasoning.as_deref());
                }
                for text in texts {
                    self.said(text, reasoning.as_deref());
                }
            }
        }
    }

    fn step(&mut self, step: &Step) {
        let reasoning = self.reasoning(step.thinking.as_ref());
        if step.search {
            self.search(reasoning.as_deref());
        }
        if let Some(text) = &step.said {
            self.said(text, reasoning.as_deref());
        }
        let ids: Vec<String> = step.calls.iter().map(|_| self.new_id("call", None)).collect();
        for (call, id) in step.calls.iter().zip(&ids) {
            let item = self.new_id("fc", reasoning.as_deref());
            self.items.push(call_item(call, id, &item));
        }
        for (place, call) in by_rank(&step.calls) {
            let kind = if call.tool == CUSTOM_TOOL {
                "custom_tool_call_output"
            } else {
                "function_call_output"
            };
            let output = match &call.outcome {
                Outcome::Nothing => json!(""),
                Outcome::Plain(text) => json!(text),
                Outcome::Pieces(pieces) => pieces.iter().map(part).collect(),
            };
            self.items.push(json!({ "type": kind, "call_id": ids[place], "output": output }));
        }
        if let Some(text) = &step.added {
            self.items.push(json!({ "role": "user", "content": text }));
        }
    }
}

fn call_item(call: &Call, id: &str, item: &str) -> Value {
    if call.tool == CUSTOM_TOOL {
        let input = call.argument.as_deref().unwrap_or_default();
        return json!({ "type": "custom_tool_call", "id": item, "call_id": id, "name": call.tool, "input": input });
    }
    if call.number % 16 == 3 {
        let action = json!({ "type": "exec", "command": ["ls", "-l"], "env": {} });
        return json!({ "type": "local_shell_call", "id": item, "call_id": id, "status": "completed", "action": action });
    }
    json!({ "type": "function_call", "id": item, "call_id": id, "name": call.tool,
        "arguments": input(call).to_string(), "status": "completed" })
}
