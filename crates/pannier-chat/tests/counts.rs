//! Our totals against an independent count of what is sent, for every format.

mod support;

use std::fs;
use std::path::Path;

use pannier_chat::{ChatError, ChatSession, Provider, Transcript};
use pannier_core::ContextBudget;
use pannier_policy::PolicyRegistry;
use pannier_tokens::o200k;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::counts;
use support::rules;
use support::transcripts::valid;

fn library_provider(provider: rules::Provider) -> Provider {
    match provider {
        rules::Provider::OpenAi => Provider::OpenAi,
        rules::Provider::Anthropic => Provider::Anthropic,
        rules::Provider::Responses => Provider::Responses,
        rules::Provider::Gemini => Provider::Gemini,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn trimmed_requests_have_the_counted_tokens(
        (provider, value) in prop::sample::select(rules::Provider::ALL.to_vec())
            .prop_flat_map(|provider| (Just(provider), valid(provider, 1..8))),
        share in prop_oneof![Just(1.0), 0.0..1.0],
    ) {
        let counter = o200k();
        let text = value.to_string();
        let transcript = Transcript::read(library_provider(provider), &text, &counter).unwrap();
        let registry = PolicyRegistry::default();
        let policy = registry.policy("transcript").unwrap();
        let trimmer = transcript.trimmer(&registry, policy, None).unwrap();
        let all = counts::tokens(provider, &value) as i64;
        let budget = |tokens| ContextBudget::new(tokens, tokens).unwrap();
        let trimmed = match trimmer.trim(&budget((all as f64 * share) as i64)) {
            Err(ChatError::OverBudget { smallest_budget, .. }) => trimmer.trim(&budget(smallest_budget)),
            trimmed => trimmed,
        };
        let trimmed = trimmed.unwrap();
        let sent: Value = serde_json::from_str(&trimmed.json()).unwrap();
        prop_assert_eq!(trimmed.selection().ledger().sent(), counts::tokens(provider, &sent) as i64, "{}", sent);
        // Whatever fits is sent byte for byte, unless messages had to be joined.
        if share >= 1.0 && transcript.repairs().is_empty() {
            prop_assert_eq!(trimmed.json(), text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Sessions of every format: the provider accepts each request, which fits by the independent count.
    #[test]
    fn fitted_requests_are_accepted_and_have_the_counted_tokens(
        (provider, value) in prop::sample::select(rules::Provider::ALL.to_vec())
            .prop_flat_map(|provider| (Just(provider), valid(provider, 1..12))),
        share in prop_oneof![Just(4.0), 0.0..1.0],
        profile in prop::sample::select(vec!["careful", "balanced", "thrifty"]),
    ) {
        let counter = o200k();
        let text = value.to_string();
        let transcript = Transcript::read(library_provider(provider), &text, &counter).unwrap();
        let registry = PolicyRegistry::default();
        let options = registry.policy(profile).unwrap().session().unwrap().clone();
        let session = ChatSession::new(options, &counter);
        let budget = |tokens| ContextBudget::new(tokens, tokens).unwrap();
        let mut available = (counts::tokens(provider, &value) as f64 * share) as i64;
        let fitted = match session.fit(&transcript, &budget(available)) {
            Err(ChatError::SessionOverBudget { smallest_budget, .. }) => {
                available = smallest_budget;
                session.fit(&transcript, &budget(available))
            }
            fitted => fitted,
        };
        let fitted = fitted.unwrap();
        let sent: Value = serde_json::from_str(&fitted.json()).unwrap();
        prop_assert_eq!(rules::problems(provider, &sent), Vec::<String>::new(), "{}", sent);
        prop_assert!(fitted.tokens() <= available);
        prop_assert_eq!(fitted.tokens(), counts::tokens(provider, &sent) as i64, "{}", sent);
        if share >= 4.0 && transcript.repairs().is_empty() {
            prop_assert_eq!(fitted.json(), text);
        }
    }
}

/// The framing of a small request, written out.
#[test]
fn framing_is_what_the_guide_says() {
    let words = json!({ "role": "user", "content": "one two three" });
    let cases = [
        (rules::Provider::OpenAi, json!([words]), 3 + 4 + 3),
        (
            rules::Provider::Anthropic,
            json!({ "system": "one two", "messages": [words] }),
            3 + 4 + 2 + 4 + 3,
        ),
        (rules::Provider::Responses, json!({ "input": "one two three" }), 3 + 4 + 3),
        (
            rules::Provider::Gemini,
            json!([{ "role": "user", "parts": [{ "text": "one two three" }] }]),
            3 + 4 + 3,
        ),
    ];
    for (provider, value, tokens) in cases {
        assert_eq!(counts::tokens(provider, &value), tokens, "{value}");
        let text = value.to_string();
        let transcript = Transcript::read(library_provider(provider), &text, &o200k()).unwrap();
        assert_eq!(transcript.required_tokens(), tokens as i64, "{value}");
    }
}

/// Counts every request of recorded sessions, if the folder with them is next to the repository.
#[test]
fn requests_of_recorded_sessions_have_the_counted_tokens() {
    let ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(3).take(2);
    let mut folders = ancestors.map(|folder| folder.join("shared/data/sessions"));
    let Some(entries) = folders.find_map(|folder| fs::read_dir(folder).ok()) else {
        eprintln!("skipped: there are no recorded sessions");
        return;
    };
    let counter = o200k();
    let registry = PolicyRegistry::default();
    let options = registry.policy("balanced").unwrap().session().unwrap().clone();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (mut checked, mut refused) = (0, 0);
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let provider = match name.split('.').rev().nth(1) {
            Some("openai") => rules::Provider::OpenAi,
            Some("anthropic") => rules::Provider::Anthropic,
            _ => continue,
        };
        let mut request: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        // An empty one is sent as it is, but the rules reject it.
        request.as_object_mut().unwrap().retain(|name, value| name != "system" || value != "");
        let messages = request["messages"].as_array().unwrap().clone();
        let half = counts::tokens(provider, &request) as i64 / 2;
        let is_response = |index: &usize| messages[*index]["role"] == "assistant";
        // Every fourth request, because counting all of them takes minutes without optimization.
        let ends: Vec<usize> = (1..messages.len()).filter(is_response).step_by(4).collect();
        for end in ends.into_iter().chain([messages.len()]) {
            request["messages"] = messages[..end].to_vec().into();
            let text = request.to_string();
            let transcript = Transcript::read(library_provider(provider), &text, &counter).unwrap();
            let session = ChatSession::new(options.clone(), &counter);
            let budget = ContextBudget::new(half, half).unwrap();
            let fitted = match session.fit(&transcript, &budget) {
                Err(ChatError::SessionOverBudget { .. }) => {
                    refused += 1;
                    continue;
                }
                fitted => fitted.unwrap(),
            };
            let sent: Value = serde_json::from_str(&fitted.json()).unwrap();
            assert_eq!(rules::problems(provider, &sent), Vec::<String>::new(), "{name}, {end}");
            assert!(fitted.tokens() <= half);
            assert_eq!(fitted.tokens(), counts::tokens(provider, &sent) as i64, "{name}, {end}");
            checked += 1;
        }
    }
    eprintln!("{checked} requests are equal, {refused} do not fit");
}
