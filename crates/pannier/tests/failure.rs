//! Categories, messages and advice of failures.

use pannier::chat::ChatError;
use pannier::docs::DocsError;
use pannier::memory::MemoryError;
use pannier::snippets::SnippetsError;
use pannier::{Audience, Category, ContextBudget, Error, Failure, FolderKind, Shelf, ShelfError};

const AUDIENCES: [Audience; 4] =
    [Audience::Library, Audience::Command, Audience::Agent, Audience::Binding];

fn failures() -> Vec<(Failure, Category)> {
    let io = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    vec![
        (Error::NoReferenceTime.into(), Category::InvalidInput),
        (ContextBudget::new(-1, 0).unwrap_err().into(), Category::InvalidInput),
        (
            Error::PinnedOverBudget { pinned_tokens: 12, available_tokens: 5 }.into(),
            Category::BudgetNotMet,
        ),
        (
            Error::OverTarget { selected_tokens: 12, target_tokens: 5 }.into(),
            Category::BudgetNotMet,
        ),
        (
            ChatError::OverBudget {
                required_tokens: 9,
                smallest_budget: 12,
                available_tokens: 5,
                is_target: false,
            }
            .into(),
            Category::BudgetNotMet,
        ),
        (DocsError::NoIndex { path: "cache".into() }.into(), Category::CacheMissing),
        (DocsError::Outdated { path: "cache".into() }.into(), Category::CacheInvalid),
        (DocsError::Busy { path: "cache".into() }.into(), Category::Io),
        (
            DocsError::Engine(Error::PinnedOverBudget { pinned_tokens: 12, available_tokens: 5 })
                .into(),
            Category::BudgetNotMet,
        ),
        (MemoryError::NoFolder { start: ".".into() }.into(), Category::InvalidInput),
        (
            SnippetsError::NoIndex { path: "docs/index.yaml".into(), root: "docs".into() }.into(),
            Category::InvalidInput,
        ),
        (SnippetsError::MessageOverBudget { tokens: 9, budget: 5 }.into(), Category::BudgetNotMet),
        (ShelfError::NoFolder { kind: FolderKind::Documents }.into(), Category::InvalidInput),
        (ShelfError::Io { path: ".".into(), error: io() }.into(), Category::Io),
    ]
}

#[test]
fn clients_see_neither_paths_nor_addresses() {
    let (path, address) = ("/home/user/state/recall/0123", "http://10.0.0.5:8080/rerank");
    let failed = || format!("{address}: no answer").into();
    let problem = format!("{path} is full");
    for failure in [
        ChatError::Store { action: "write", path: path.into(), problem }.into(),
        Failure::from(DocsError::Reranker(failed())),
        DocsError::Embedder(failed()).into(),
    ] {
        let message = failure.message(Audience::Agent);
        let advice = failure.advice(Audience::Agent).unwrap_or_default();
        for text in [message, advice] {
            assert!(!text.contains("/home/user") && !text.contains("10.0.0.5"), "{text}");
        }
    }
}

#[test]
fn failures_have_their_category() {
    for (failure, category) in failures() {
        assert_eq!(failure.category(), category, "{failure}");
        assert_eq!(failure.code(), category.code());
    }
    let codes: Vec<&str> = Category::ALL.into_iter().map(Category::code).collect();
    let expected = [
        "check_failed",
        "invalid_input",
        "budget_not_met",
        "cache_missing",
        "cache_invalid",
        "io",
        "internal",
    ];
    assert_eq!(codes, expected);
}

#[test]
fn only_commands_and_agents_read_of_flags_and_commands() {
    for (failure, _) in failures() {
        let text = |audience| {
            let advice = failure.advice(audience).unwrap_or_default();
            format!("{}; {advice}", failure.message(audience))
        };
        assert_eq!(failure.message(Audience::Library), failure.to_string());
        let library = text(Audience::Library);
        assert!(!library.contains("--") && !library.contains("pannier "), "{library}");
        let agent = text(Audience::Agent);
        assert!(!agent.contains("--budget") && !agent.contains("maxTokens"), "{agent}");
        assert!(failure.advice(Audience::Agent).is_some(), "{agent}");
    }
}

#[test]
fn messages_use_the_names_of_their_audience() {
    let failure = Failure::from(Error::PinnedOverBudget { pinned_tokens: 12, available_tokens: 5 });
    let command = failure.message(Audience::Command);
    assert_eq!(command, "pinned items need 12 tokens but --budget less --reserve is 5");
    let advice = AUDIENCES.map(|audience| failure.advice(audience));
    assert_eq!(advice[0], None);
    assert_eq!(advice[1].as_deref(), Some("raise --budget by 7 or unpin items"));
    assert_eq!(advice[2].as_deref(), Some("raise budget by 7 or unpin items"));

    // A front end that passes the engine's error on changes nothing.
    let same = Failure::from(DocsError::Engine(Error::PinnedOverBudget {
        pinned_tokens: 12,
        available_tokens: 5,
    }));
    assert_eq!(same.message(Audience::Command), command);

    let failure = Failure::from(DocsError::NoIndex { path: "x".into() });
    let advice = AUDIENCES.map(|audience| failure.advice(audience).unwrap());
    assert_eq!(advice[0], "build one with `docs::build`");
    assert_eq!(advice[1], "build one with `pannier docs index --index x`");
    assert!(advice[2].starts_with("ask the user"), "{}", advice[2]);
}

#[test]
fn empty_shelf_names_what_is_missing() {
    let shelf = Shelf::default();
    let failure = shelf.snippets(None).unwrap_err();
    assert_eq!(failure.to_string(), "no snippet root is open");
    assert_eq!(failure.message(Audience::Agent), "the server was started without --snippets");
    assert!(shelf.memory(Some("x")).is_err() && shelf.deliveries().is_err());
    assert!(shelf.document_names().is_empty());
}

#[test]
fn bindings_name_arguments_and_keep_paths() {
    let index = Failure::from(DocsError::NoIndex { path: "/srv/index".into() });
    assert!(index.message(Audience::Binding).contains("/srv/index"));
    assert_eq!(index.advice(Audience::Binding).unwrap(), "build one with `Index.build`");
    assert_eq!(
        Failure::NoBudget.advice(Audience::Binding).unwrap(),
        "add budget, as in 8000 or \"8k\""
    );
    let pinned = Failure::from(Error::PinnedOverBudget { pinned_tokens: 12, available_tokens: 5 });
    assert_eq!(
        pinned.message(Audience::Binding),
        "pinned items need 12 tokens but budget less reserve is 5"
    );
    assert_eq!(pinned.advice(Audience::Binding).unwrap(), "raise budget by 7 or unpin items");
}

#[test]
fn failures_know_the_budget_that_they_need() {
    let pinned = Failure::from(Error::PinnedOverBudget { pinned_tokens: 12, available_tokens: 5 });
    assert_eq!(pinned.needed_budget(8), Some(15));
    let chat = ChatError::SessionOverBudget {
        required_tokens: 9,
        smallest_budget: 12,
        available_tokens: 5,
    };
    assert_eq!(Failure::from(chat).needed_budget(8), Some(12));
    assert_eq!(Failure::NoBudget.needed_budget(8), None);
}
