//! Reads a chat as users have it: a request, a list of messages, one message on each line, or a session log. The format is
//! detected unless it is named.

use std::borrow::Cow;

use pannier_core::TokenCounter;

use crate::detect::detect;
use crate::json::{self, Object, RawJson};
use crate::{ChatError, LogFormat, Provider, SessionLog, Transcript};

/// The text of a request or a list of messages, and its provider.
///
/// ```
/// use pannier_chat::{ChatInput, Provider};
///
/// let lines = r#"{ "role": "user", "content": "Hello!" }
/// { "role": "assistant", "content": [{ "type": "tool_use", "id": "1", "name": "look", "input": {} }] }"#;
/// let input = ChatInput::open(lines, None, None)?;
/// assert_eq!(input.provider(), Provider::Anthropic);
/// # Ok::<(), pannier_chat::ChatError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatInput<'t> {
    text: Cow<'t, str>,
    provider: Provider,
    log: Option<LogFormat>,
    skipped_lines: usize,
    model: Option<String>,
    max_output_tokens: Option<i64>,
}

impl<'t> ChatInput<'t> {
    /// Opens a text. The provider and the format of a log are detected unless they are given. Of a log, it is the last
    /// history.
    ///
    /// # Errors
    ///
    /// [`ChatError::NotJson`]; [`ChatError::Invalid`] if the text has signs of two providers, or a log has another provider
    /// than the given one; the errors of [`SessionLog::read`].
    pub fn open(
        text: &'t str,
        provider: Option<Provider>,
        log: Option<LogFormat>,
    ) -> Result<Self, ChatError> {
        let is_list = json::without_byte_order_mark(text).trim_start().starts_with('[');
        if let (Some(provider), None, true) = (provider, log, is_list) {
            // Nothing is to be detected, and reading the list validates it.
            let (text, model, max_output_tokens) = (Cow::Borrowed(text), None, None);
            return Ok(Self { text, provider, log, skipped_lines: 0, model, max_output_tokens });
        }
        let root = json::parse(text);
        let request = root.as_ref().ok().and_then(|root| fields(*root));
        let log = log.or_else(|| if request.is_some() { None } else { LogFormat::detect(text) });
        let (model, max_output_tokens) = (None, None);
        if let Some(format) = log {
            if let Some(named) = provider.filter(|named| *named != format.provider()) {
                let problem = format!("its requests are for {}, not {named}", format.provider());
                return Err(ChatError::invalid(format!("the {format} log"), problem));
            }
            let SessionLog { provider, histories, skipped_lines, .. } =
                SessionLog::read(format, text)?;
            // A log has at least one history.
            let text = histories.into_iter().next_back().map(|history| history.json);
            let text = Cow::Owned(text.unwrap_or_default());
            return Ok(Self { text, provider, log, skipped_lines, model, max_output_tokens });
        }
        let list = match &root {
            Ok(_) if request.is_some() => None,
            _ => messages_on_lines(text),
        };
        let text = list.map_or(Cow::Borrowed(text), Cow::Owned);
        let root = match &text {
            Cow::Borrowed(_) => root?,
            Cow::Owned(list) => json::parse(list)?,
        };
        let request = match request {
            Some(request) => request,
            None if json::is_array(root) => Object(Vec::new()),
            None => json::object("the request", root)?,
        };
        let provider = provider.map_or_else(|| detect(root, &request), Ok)?;
        let model = json::optional_str("model", &request, "model").ok();
        let model = model.filter(|model| !model.is_empty());
        let max_output_tokens = max_output_tokens_of(&request);
        Ok(Self { text, provider, log, skipped_lines: 0, model, max_output_tokens })
    }

    /// Returns the request or the list of messages.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the provider.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns the format of the log, if the text is one.
    pub fn log(&self) -> Option<LogFormat> {
        self.log
    }

    /// Returns the number of lines of a log that are not JSON objects.
    pub fn skipped_lines(&self) -> usize {
        self.skipped_lines
    }

    /// Reads the messages and counts their tokens.
    ///
    /// # Errors
    ///
    /// As [`Transcript::read`].
    pub fn read(&self, counter: &dyn TokenCounter) -> Result<Transcript<'_>, ChatError> {
        Transcript::read(self.provider, &self.text, counter)
    }

    /// Returns the `model` of the request, from which a tokenizer can be chosen.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the maximum number of tokens of the response that the request sets.
    pub fn max_output_tokens(&self) -> Option<i64> {
        self.max_output_tokens
    }
}

fn max_output_tokens_of(request: &Object<'_>) -> Option<i64> {
    let tokens = |object: &Object<'_>| {
        let names = ["max_completion_tokens", "max_tokens", "max_output_tokens", "maxOutputTokens"];
        names.iter().find_map(|name| object.get(name)?.get().parse().ok())
    };
    let config = request.get("generationConfig").or_else(|| request.get("generation_config"));
    let config = config.and_then(|config| json::object("generationConfig", config).ok());
    tokens(request).or_else(|| tokens(&config?)).filter(|tokens| *tokens > 0)
}

/// Returns a list with the messages that are on lines of their own.
fn messages_on_lines(text: &str) -> Option<String> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let is_message = |line: &&str| {
        let message = json::parse(line).and_then(|raw| json::object("the line", raw));
        message.is_ok_and(|message| {
            ["role", "type", "parts"].iter().any(|name| message.get(name).is_some())
        })
    };
    let is_list = !lines.is_empty() && lines.iter().all(is_message);
    is_list.then(|| format!("[{}]", lines.join(",\n")))
}

/// Returns the fields of a request with messages. A list of messages has none.
fn fields<'t>(root: RawJson<'t>) -> Option<Object<'t>> {
    if json::is_array(root) {
        return Some(Object(Vec::new()));
    }
    let request = json::object("the request", root).ok()?;
    let has = |name: &str| request.get(name).is_some();
    ["messages", "input", "contents"].into_iter().any(has).then_some(request)
}
