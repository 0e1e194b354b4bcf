//! The engine of the JavaScript package. JSON goes in, JSON comes out; `index.js` is its face.
//!
//! There is one function for all operations: the request types of `pannier::ops` are the interface, so nothing here knows
//! their options.

use pannier::chat::ChatInput;
use pannier::ops::{
    Answer, BudgetRequest, ChatRequest, Control, CountRequest, LossRequest, PackRequest,
    ProviderName, RecallRequest, Request, SweepRequest, Tokens,
};
use pannier::{Audience, Failure, Shelf};
use pannier_policy::Receipt;
use serde::Deserialize;
use serde_json::{Value, json};
use wasm_bindgen::prelude::*;

/// The answer to a request.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Output {
    answer: String,
    text: String,
    warnings: Vec<String>,
}

#[wasm_bindgen]
impl Output {
    /// The answer as JSON, as the command prints it with `--format json`.
    #[wasm_bindgen(getter)]
    pub fn answer(&self) -> String {
        self.answer.clone()
    }

    /// The answer as the text that the command prints.
    #[wasm_bindgen(getter)]
    pub fn text(&self) -> String {
        self.text.clone()
    }

    /// Problems that did not stop the run.
    #[wasm_bindgen(getter)]
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}

/// Runs the request of an operation, which is JSON.
///
/// # Errors
///
/// JSON with a code, a message, a hint, and the budget that is needed.
#[wasm_bindgen]
pub fn run(operation: &str, request: &str) -> Result<Output, String> {
    answer(operation, request).map_err(|failure| error_json(&failure, budget(request)))
}

/// Returns the budget of a request, 0 without one.
fn budget(request: &str) -> i64 {
    #[derive(Deserialize)]
    struct Budget {
        budget: Tokens,
    }
    serde_json::from_str(request).map_or(0, |Budget { budget: Tokens(tokens) }| tokens)
}

/// Loads the vocabulary of an encoding from the bytes of its file, and returns the encoding's name.
///
/// # Errors
///
/// As [`run`].
#[wasm_bindgen(js_name = loadVocabulary)]
pub fn load_vocabulary(bytes: Vec<u8>) -> Result<String, String> {
    let name = pannier_tokens::load_vocabulary(bytes);
    name.map(str::to_owned).map_err(|error| error_json(&error.into(), 0))
}

fn answer(operation: &str, request: &str) -> Result<Output, Failure> {
    let request: Value =
        serde_json::from_str(request).map_err(|error| invalid(error.to_string()))?;
    let has = |key: &str| request.get(key).is_some();
    match operation {
        "chat" => run_request::<ChatRequest>(request),
        "count" => run_request::<CountRequest>(request),
        "detect" => detect(&request),
        "pack" => run_request::<PackRequest>(request),
        "recall" => run_request::<RecallRequest>(request),
        "whatIf" if has("item") => run_request::<BudgetRequest>(request),
        "whatIf" if has("tokens") => run_request::<LossRequest>(request),
        "whatIf" => run_request::<SweepRequest>(request),
        "packReceipt" => pack_receipt(request),
        "chatReceipt" => chat_receipt(request),
        _ => Err(invalid(format!("there is no operation '{operation}'"))),
    }
}

fn run_request<R: Request>(request: Value) -> Result<Output, Failure> {
    let control = Control::default();
    let answer = R::from_value(request)?.run(&Shelf::default(), &control)?;
    let text = answer.text().into_owned();
    let answer = serde_json::to_string(&answer).map_err(|error| invalid(error.to_string()))?;
    Ok(Output { answer, text, warnings: control.into_notes().warnings })
}

/// Returns the provider whose format a chat has.
fn detect(chat: &Value) -> Result<Output, Failure> {
    let provider = ChatInput::open(&chat.to_string(), None, None)?.provider();
    let names = [
        ("openai", ProviderName::Openai),
        ("anthropic", ProviderName::Anthropic),
        ("responses", ProviderName::Responses),
        ("gemini", ProviderName::Gemini),
    ];
    let own = names.into_iter().find(|(_, name)| provider == (*name).into());
    let (name, _) = own.ok_or_else(|| invalid("the provider of the chat is unknown".to_owned()))?;
    Ok(Output { answer: json!(name).to_string(), text: name.to_owned(), warnings: Vec::new() })
}

fn pack_receipt(request: Value) -> Result<Output, Failure> {
    let control = Control::default();
    let (pool, budget) = PackRequest::from_value(request)?.open(&Shelf::default(), &control)?;
    let selection = pool.pipeline().run(pool.items(), &budget)?;
    receipt(&pool.receipt(&selection), control)
}

fn chat_receipt(request: Value) -> Result<Output, Failure> {
    let control = Control::default();
    let record = ChatRequest::from_value(request)?.open(&Shelf::default(), &control, |chat| {
        match chat.fit()? {
            Some(fitted) => Ok(chat.fitted_receipt(&fitted)),
            None => chat.receipt(&chat.trim()?),
        }
    })?;
    receipt(&record, control)
}

/// A receipt is its own text.
fn receipt(receipt: &Receipt, control: Control<'_>) -> Result<Output, Failure> {
    let text = serde_json::to_string(receipt).map_err(|error| invalid(error.to_string()))?;
    Ok(Output { answer: text.clone(), text, warnings: control.into_notes().warnings })
}

fn invalid(problem: String) -> Failure {
    Failure::Request { path: String::new(), problem }
}

fn error_json(failure: &Failure, budget: i64) -> String {
    let audience = Audience::Binding;
    let error = json!({
        "code": failure.code(),
        "message": failure.message(audience),
        "hint": failure.advice(audience),
        "needed": failure.needed_budget(budget),
    });
    error.to_string()
}
