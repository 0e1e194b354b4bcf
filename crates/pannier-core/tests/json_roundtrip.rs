//! The JSON forms: exactly as specified, checked on the way in, nothing lost on the way through.

mod support;

use pannier_core::{item::*, report::*, score::*, slice::*, *};
use serde_json::{Value, from_value, json, to_value};
use support::*;

fn refused<T: serde::de::DeserializeOwned>(value: Value) -> String {
    match from_value::<T>(value) {
        Ok(_) => panic!("it must be refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_report_names_the_form_of_an_included_item() {
    let item = scored("text", 9, 1.0).form(FormName::HEAD_TAIL, "t", 1).build();
    let items = [item.unwrap()];
    let pipeline = pipeline().slicer(FillSlice::new(FillOrder::Marginal)).build();
    let selection = pipeline.run(&items, &budget(5)).unwrap();
    let report = selection.report();
    let json = serde_json::to_string(&report.included[0]).unwrap();
    assert!(json.ends_with(r#""reason":{"reason":"Shortened"},"form":"head-tail"}"#), "{json}");
    let read: IncludedItem = serde_json::from_str(&json).unwrap();
    assert_eq!(read.form, report.included[0].form);
}

#[test]
fn a_ledger_omits_slots_and_margin_of_zero() {
    let ledger = |slot| {
        let budget = ContextBudget::builder(9, 9).reserved_slot(kind("Memory"), slot);
        let budget = budget.estimation_safety_margin_percent(slot as f64 * 10.0).build().unwrap();
        let selection = pipeline().build().run(&[], &budget).unwrap();
        to_value(selection.ledger()).unwrap()
    };
    assert_eq!((&ledger(3)["slots"], &ledger(3)["margin"]), (&3.into(), &2.into()));
    assert_eq!((ledger(0).get("slots"), ledger(0).get("margin")), (None, None));
}

#[test]
fn c24_an_item_is_camel_case_and_leaves_out_what_is_absent() {
    let plain = ContextItem::new("text", 3).unwrap();
    let written = to_value(&plain).unwrap();
    assert_eq!(written, json!({ "content": "text", "tokens": 3, "kind": "Message" }));
    assert_eq!(from_value::<ContextItem>(written).unwrap(), plain);

    let full = json!({
        "content": "text",
        "tokens": 3,
        "kind": "Commit",
        "source": "git",
        "priority": -4,
        "tags": ["a", "B", "a"],
        "metadata": {
            "big": 18446744073709551615_u64,
            "list": [null, true, 0.1, "x"],
            "map": { "n": -1 }
        },
        "timestamp": "2026-03-01T12:00:00.5Z",
        "futureRelevanceHint": 0.1,
        "pinned": true,
        "originalTokens": 90,
        "id": "c1",
        "group": "g",
    });
    let item: ContextItem = from_value(full.clone()).unwrap();
    assert_eq!(to_value(&item).unwrap(), full);
    // A source in another spelling is equal to the default, and yet kept.
    let chat = ContextItem::builder("x", 1).source(ContextSource::new("chat").unwrap());
    assert_eq!(to_value(chat.build().unwrap()).unwrap()["source"], json!("chat"));
    // The order of the keys is fixed.
    let text = serde_json::to_string(&plain).unwrap();
    assert_eq!(text, r#"{"content":"text","tokens":3,"kind":"Message"}"#);
}

#[test]
fn c39_items_are_checked_when_they_are_read() {
    assert_eq!(
        refused::<ContextItem>(json!({ "content": "", "tokens": 1 })),
        "an item has no content; leave the item out, or give it a text"
    );
    assert!(refused::<ContextItem>(json!({ "content": "x" })).contains("has no tokens"));
    let typo = json!({ "content": "x", "tokens": 1, "futureRelevence": 0.5 });
    assert!(refused::<ContextItem>(typo).contains("unknown field `futureRelevence`"));
    let blank = json!({ "content": "x", "tokens": 1, "kind": " " });
    assert!(refused::<ContextItem>(blank).contains("the kind is blank"));
    let date = json!({ "content": "x", "tokens": 1, "timestamp": "yesterday" });
    assert!(refused::<ContextItem>(date).contains("'yesterday' is not a timestamp"));
}

#[test]
fn c40_a_hint_that_is_no_number_is_left_out() {
    let item = scored("x", 1, f64::NAN).build().unwrap();
    assert_eq!(to_value(item).unwrap(), json!({ "content": "x", "tokens": 1, "kind": "Message" }));
}

#[test]
fn c24_a_budget_is_camel_case_and_checked() {
    let written = json!({ "maxTokens": 4096, "targetTokens": 3072 });
    let budget: ContextBudget = from_value(written.clone()).unwrap();
    assert_eq!(to_value(&budget).unwrap(), written);
    let full = json!({
        "maxTokens": 4096,
        "targetTokens": 3072,
        "outputReserve": 100,
        "reservedSlots": { "Memory": 50 },
        "estimationSafetyMarginPercent": 2.5,
    });
    let budget: ContextBudget = from_value(full.clone()).unwrap();
    assert_eq!(to_value(&budget).unwrap(), full);
    assert_eq!(
        refused::<ContextBudget>(json!({ "maxTokens": 10, "targetTokens": 11 })),
        "the budget's targetTokens is 11; it must not exceed maxTokens, which is 10"
    );
    let twice = json!({
        "maxTokens": 10, "targetTokens": 5, "reservedSlots": { "memory": 1, "Memory": 1 }
    });
    assert!(refused::<ContextBudget>(twice).contains("twice"));
    let exactly = r#"{"maxTokens":9,"targetTokens":5,"reservedSlots":{"A":1,"A":2}}"#;
    let error = serde_json::from_str::<ContextBudget>(exactly).unwrap_err();
    assert!(error.to_string().contains("names the kind 'A' twice"), "{error}");
    let typo = json!({ "maxTokens": 10, "targetTokens": 5, "reserve": 1 });
    assert!(refused::<ContextBudget>(typo).contains("unknown field `reserve`"));
}

/// Reads the object with and without `null` in each of its optional fields, which are all but the `required` ones.
fn null_is_absent<T>(object: &Value, required: &[&str])
where
    T: serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let fields = object.as_object().unwrap();
    for field in fields.keys().filter(|field| !required.contains(&field.as_str())) {
        let (mut absent, mut null) = (fields.clone(), fields.clone());
        absent.remove(field);
        null.insert(field.clone(), Value::Null);
        let absent: T = from_value(absent.into()).unwrap();
        let null: T = from_value(null.into()).unwrap_or_else(|error| panic!("{field}: {error}"));
        assert_eq!(null, absent, "{field}");
    }
}

#[test]
fn c42_null_in_an_optional_field_is_an_absent_field() {
    let item = json!({
        "content": "text", "tokens": 3, "kind": "Commit", "source": "git", "priority": -4, "tags": ["a"],
        "metadata": { "k": 1 }, "timestamp": "2026-03-01T12:00:00Z", "futureRelevanceHint": 0.1, "pinned": true,
        "originalTokens": 90, "id": "c1", "group": "g", "shortForm": { "content": "t", "tokens": 1 },
    });
    // A field that this test does not know would not be null in it.
    assert_eq!(to_value(from_value::<ContextItem>(item.clone()).unwrap()).unwrap(), item);
    null_is_absent::<ContextItem>(&item, &["content", "tokens"]);
    let uncounted = json!({
        "content": "text", "tokens": null, "shortForm": { "content": "t", "tokens": null }
    });
    assert!(!from_value::<UncountedItem>(uncounted).unwrap().is_counted());
    let budget = json!({
        "maxTokens": 4096, "targetTokens": 3072, "outputReserve": 100, "reservedSlots": { "Memory": 50 },
        "estimationSafetyMarginPercent": 2.5,
    });
    null_is_absent::<ContextBudget>(&budget, &["maxTokens", "targetTokens"]);
    let stage = json!({ "stage": "Score", "items_in": 2, "items_out": 1 });
    let shortfall = json!({ "kind": "a", "required_count": 2, "satisfied_count": 1 });
    let ledger = json!({
        "window": 9, "output_reserve": 0, "fixed": 0, "framing": 0, "items": 0, "joins": 0, "slack": 9
    });
    let overflow = json!({ "tokens_over_budget": 1, "overflowing_items": [], "budget": budget });
    let report = json!({
        "events": [], "included": [], "excluded": [], "total_candidates": 0, "total_tokens_considered": 0,
        "stages": [stage], "count_requirement_shortfalls": [shortfall], "overflow": overflow, "ledger": ledger,
    });
    let required =
        ["events", "included", "excluded", "total_candidates", "total_tokens_considered"];
    null_is_absent::<SelectionReport>(&report, &required);
    let event = json!({ "stage": "Score", "duration_ms": 0.0, "item_count": 1, "message": "m" });
    null_is_absent::<TraceEvent>(&event, &["stage", "duration_ms", "item_count"]);
    let reason = json!({
        "reason": "BudgetExceeded", "item_tokens": 1, "available_tokens": 5, "outcompeted": true
    });
    null_is_absent::<ExclusionReason>(&reason, &["reason", "item_tokens", "available_tokens"]);
}

#[test]
fn events_leave_out_an_absent_message() {
    let event = TraceEvent {
        stage: PipelineStage::Score,
        duration_ms: 12.4,
        item_count: 47,
        message: None,
    };
    let written = json!({ "stage": "Score", "duration_ms": 12.4, "item_count": 47 });
    assert_eq!(to_value(&event).unwrap(), written);
    assert_eq!(from_value::<TraceEvent>(written).unwrap(), event);
    let message = json!({
        "stage": "Slice", "duration_ms": 0.0, "item_count": 1, "message": "BudgetExceeded"
    });
    let event: TraceEvent = from_value(message.clone()).unwrap();
    assert_eq!(to_value(event).unwrap(), message);
}

#[test]
fn c24_a_stage_of_another_implementation_is_kept() {
    let stage: PipelineStage = from_value(json!("Rerank")).unwrap();
    assert_eq!(stage.name(), "Rerank");
    assert_eq!(to_value(&stage).unwrap(), json!("Rerank"));
}

#[test]
fn c24_every_exclusion_reason_has_its_form() {
    let forms = [
        json!({ "reason": "BudgetExceeded", "item_tokens": 2048, "available_tokens": 512 }),
        json!({
            "reason": "BudgetExceeded", "item_tokens": 1, "available_tokens": 5, "outcompeted": true
        }),
        json!({ "reason": "ScoredTooLow", "score": 0.12, "threshold": 0.25 }),
        json!({ "reason": "Deduplicated", "deduplicated_against": "tool_output_abc123" }),
        json!({ "reason": "NearDuplicate", "near_duplicate_of": "a text", "shared": 9, "own": 10 }),
        json!({ "reason": "DocumentCapExceeded", "document": "a.md", "cap": 3, "count": 3 }),
        json!({ "reason": "QuotaCapExceeded", "kind": "ToolOutput", "cap": 3, "actual": 4 }),
        json!({ "reason": "QuotaRequireDisplaced", "displaced_by_kind": "SystemPrompt" }),
        json!({ "reason": "NegativeTokens", "tokens": -1 }),
        json!({ "reason": "PinnedOverride", "displaced_by": "a pin" }),
        json!({ "reason": "Filtered", "filter_name": "max_age_filter" }),
        json!({ "reason": "CountCapExceeded", "kind": "tool", "cap": 2, "count": 2 }),
        json!({ "reason": "GroupExcluded", "group": "g", "cause": "NegativeTokens" }),
        json!({ "reason": "RenderedOverBudget", "rendered_tokens": 12, "target_tokens": 10 }),
        json!({ "reason": "Refused", "rule": "no sevens" }),
        json!({ "reason": "SomethingNew" }),
    ];
    for form in forms {
        let reason: ExclusionReason = from_value(form.clone()).unwrap();
        assert_eq!(to_value(&reason).unwrap(), form);
        assert_eq!(reason.name(), form["reason"]);
        assert!(reason.to_string().starts_with(reason.name()));
    }
    // What is known must be whole; what is unknown may have any fields.
    let missing = json!({ "reason": "BudgetExceeded", "item_tokens": 1 });
    assert!(refused::<ExclusionReason>(missing).contains("available_tokens"));
    let odd = json!({ "reason": "New", "field": [1], "count": "many", "cap": 33.3, "group": {} });
    let unknown: ExclusionReason = from_value(odd).unwrap();
    assert_eq!(unknown, ExclusionReason::Unknown { reason: "New".to_owned() });
    let negative = json!({ "reason": "CountCapExceeded", "kind": "a", "cap": -1, "count": 0 });
    assert!(refused::<ExclusionReason>(negative).contains("cap"));
    let no_number = ExclusionReason::ScoredTooLow { score: f64::NAN, threshold: 0.5 };
    let read: ExclusionReason = from_value(to_value(no_number).unwrap()).unwrap();
    assert!(matches!(read, ExclusionReason::ScoredTooLow { score, .. } if score.is_nan()));
}

#[test]
fn every_inclusion_reason_has_its_form() {
    for reason in [InclusionReason::Scored, InclusionReason::Pinned, InclusionReason::ZeroToken] {
        let form = json!({ "reason": reason.name() });
        assert_eq!(to_value(reason).unwrap(), form);
        assert_eq!(from_value::<InclusionReason>(form).unwrap(), reason);
    }
    let unknown: InclusionReason = from_value(json!({ "reason": "Lucky" })).unwrap();
    assert_eq!(unknown, InclusionReason::Unknown);
}

#[test]
fn a_report_in_full() {
    let items = [
        item("Recent turn", 256, 0.92),
        scored("System", 128, 0.0).kind(kind("SystemPrompt")).pinned(true).build().unwrap(),
        scored("Old output", 2048, 0.45).kind(kind("ToolOutput")).build().unwrap(),
        item("Recent turn", 256, 0.3),
    ];
    let mut collector = DiagnosticTraceCollector::new(TraceDetailLevel::Stage);
    let pipeline = pipeline().build();
    let selection = pipeline.run_traced(&items, &budget(1_000), &mut collector).unwrap();
    let report = selection.report_with(collector.into_events());
    let stage = |stage: &str, count: usize| json!({ "stage": stage, "duration_ms": 0.0, "item_count": count });
    let count = |stage: &str, items_in: usize, items_out: usize| json!({ "stage": stage, "items_in": items_in, "items_out": items_out });
    let written = json!({
        "events": [stage("Classify", 4), stage("Score", 3), stage("Deduplicate", 3), stage("Slice", 2), stage("Place", 2)],
        "included": [
            {
                "item": { "content": "System", "tokens": 128, "kind": "SystemPrompt", "futureRelevanceHint": 0.0, "pinned": true },
                "score": 1.0,
                "reason": { "reason": "Pinned" }
            },
            {
                "item": { "content": "Recent turn", "tokens": 256, "kind": "Message", "futureRelevanceHint": 0.92 },
                "score": 0.92,
                "reason": { "reason": "Scored" }
            },
        ],
        "excluded": [
            {
                "item": { "content": "Old output", "tokens": 2048, "kind": "ToolOutput", "futureRelevanceHint": 0.45 },
                "score": 0.45,
                "reason": { "reason": "BudgetExceeded", "item_tokens": 2048, "available_tokens": 616 }
            },
            {
                "item": { "content": "Recent turn", "tokens": 256, "kind": "Message", "futureRelevanceHint": 0.3 },
                "score": 0.3,
                "reason": { "reason": "Deduplicated", "deduplicated_against": "Recent turn" }
            },
        ],
        "total_candidates": 4,
        "total_tokens_considered": 2688,
        "stages": [count("Classify", 4, 4), count("Score", 3, 3), count("Deduplicate", 3, 2), count("Slice", 2, 1), count("Place", 2, 2)],
        "ledger": { "window": 1000, "output_reserve": 0, "fixed": 0, "framing": 0, "items": 384, "joins": 0, "slack": 616 },
    });
    assert_eq!(to_value(&report).unwrap(), written);

    // Read back, only the places in the pool are gone.
    let mut owned = report.into_owned();
    owned.included.iter_mut().for_each(|entry| entry.index = None);
    owned.excluded.iter_mut().for_each(|entry| entry.index = None);
    assert_eq!(from_value::<SelectionReport>(written).unwrap(), owned);
}

#[test]
fn shortfalls_and_overflow_are_in_the_report_when_there_are_any() {
    let items = [scored("pin", 60, 0.0).pinned(true).build().unwrap(), item("a", 10, 0.5)];
    let entries = [CountQuotaEntry::new(kind("Tool"), 1, 2).unwrap()];
    let slicer = CountQuotaSlice::new(entries, GreedySlice, ScarcityBehavior::Degrade).unwrap();
    let pipeline = pipeline().slicer(slicer).overflow_strategy(OverflowStrategy::Proceed).build();
    let report = pipeline.run(&items, &ContextBudget::new(100, 70).unwrap()).unwrap().report();
    let written = to_value(&report).unwrap();
    let shortfall = json!([{ "kind": "Tool", "required_count": 1, "satisfied_count": 0 }]);
    assert_eq!(written["count_requirement_shortfalls"], shortfall);
    assert_eq!(written.get("overflow"), None);

    let report = pipeline.run(&items[..1], &ContextBudget::new(100, 50).unwrap()).unwrap().report();
    let overflow = json!({
        "tokens_over_budget": 10,
        "overflowing_items": [{ "content": "pin", "tokens": 60, "kind": "Message", "futureRelevanceHint": 0.0, "pinned": true }],
        "budget": { "maxTokens": 100, "targetTokens": 50 },
    });
    assert_eq!(to_value(&report).unwrap()["overflow"], overflow);
    assert_eq!(to_value(report.into_owned()).unwrap()["overflow"], overflow);
}

#[test]
fn c40_a_score_that_is_no_number_survives_as_such() {
    let items = [ContextItem::new("odd", 1).unwrap()];
    let pipeline = Pipeline::builder(FnScorer(|_: &ContextItem| f64::NAN)).build();
    let report = pipeline.run(&items, &budget(10)).unwrap().report();
    let written = to_value(&report).unwrap();
    assert_eq!(written["included"][0]["score"], Value::Null);
    let read: SelectionReport = from_value(written).unwrap();
    assert!(read.included[0].score.is_nan());
}

#[test]
fn an_item_is_an_object_and_not_a_list_of_its_fields() {
    let error = refused::<ContextItem>(json!(["text", 3, "Message"]));
    assert!(error.contains("expected an item: an object with a content"), "{error}");
}

/// The examples of the documentation are read, and written back as they stand.
#[test]
fn the_documented_forms_are_the_real_ones() {
    let page = include_str!("../../../docs/reference/json.md");
    let blocks: Vec<&str> = page.split("```json").skip(1).collect();
    let block = |i: usize| -> Value {
        serde_json::from_str(blocks[i].split("```").next().unwrap()).unwrap()
    };
    assert_eq!(blocks.len(), 12);
    let item: ContextItem = from_value(block(0)).unwrap();
    // What is false is left out.
    let mut written = to_value(&item).unwrap();
    written["pinned"] = json!(false);
    assert_eq!(written, block(0));
    let budget: ContextBudget = from_value(block(1)).unwrap();
    assert_eq!(to_value(&budget).unwrap(), block(1));
    let report: SelectionReport = from_value(block(2)).unwrap();
    assert_eq!(to_value(&report).unwrap(), block(2));
    // Of an explanation, the keys.
    let items = [("a", 60, 0.9), ("b", 50, 0.6), ("c", 40, 0.2)]
        .map(|(content, tokens, score)| support::item(content, tokens, score));
    let budget = ContextBudget::new(60, 60).unwrap();
    let scorer = CompositeScorer::builder().add(ReflexiveScorer, 1.0).build().unwrap();
    let explanation = Pipeline::builder(scorer).build().explain(&items, &budget, 2).unwrap();
    let written = to_value(&explanation).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for path in ["", "/decision", "/decision/reason", "/score", "/score/children/0", "/rank"] {
        let (real, told) = (written.pointer(path).unwrap(), block(3));
        assert_eq!(keys(real), keys(told.pointer(path).unwrap()), "{path}");
    }
    assert_eq!(keys(&written["lost_to"][0]), keys(&block(3)["lost_to"][0]));
    assert_eq!(keys(&written["smallest_budget"]), keys(&block(3)["smallest_budget"]));
}

#[test]
fn items_are_read_and_written_with_their_short_forms() {
    let json = r#"{"content":"A long text.","tokens":4,"kind":"Message","shortForm":{"content":"A text.","tokens":2}}"#;
    let item: ContextItem = serde_json::from_str(json).unwrap();
    assert_eq!(item.forms()[0].content(), "A text.");
    assert_eq!(serde_json::to_string(&item).unwrap(), json);
    // Tokens of either may be counted later.
    for (own, short) in [("", ""), (r#","tokens":7"#, ""), ("", r#","tokens":7"#)] {
        let json = format!(
            r#"{{"content":"A long text."{own},"shortForm":{{"content":"A text."{short}}}}}"#
        );
        assert!(serde_json::from_str::<ContextItem>(&json).is_err());
        let read: UncountedItem = serde_json::from_str(&json).unwrap();
        assert!(!read.is_counted());
        let counted = UncountedItem::count(vec![read], &BytesOverFour).remove(0);
        let (whole, title) = (counted.tokens(), counted.forms()[0].item());
        let expected = (if own.is_empty() { 3 } else { 7 }, if short.is_empty() { 2 } else { 7 });
        assert_eq!((whole, title.tokens()), expected);
        assert_eq!(title.original_tokens(), Some(whole));
    }
    let empty = r#"{"content":"A","tokens":1,"shortForm":{"content":"","tokens":0}}"#;
    assert!(serde_json::from_str::<ContextItem>(empty).is_err());
}

#[test]
fn items_are_read_and_written_with_their_forms() {
    let json = r#"{"content":"A long text.","tokens":9,"kind":"Message","forms":[{"name":"head-tail","content":"A … text.","tokens":4,"worth":0.7},{"name":"stub","content":"…","tokens":1}]}"#;
    let item: ContextItem = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&item).unwrap(), json);
    assert_eq!((item.forms()[0].worth(), item.forms()[1].worth()), (Some(0.7), None));
    assert_eq!(item.at(Level::new(2)).original_tokens(), Some(9));

    // Forms are sorted, also those whose tokens are counted later.
    let json = r#"{"content":"A long text.","shortForm":{"content":"A","tokens":1},
        "forms":[{"name":"note","content":"A"},{"name":"title","content":"A text."}]}"#;
    let read: UncountedItem = serde_json::from_str(json).unwrap();
    assert!(!read.is_counted() && serde_json::from_str::<ContextItem>(json).is_err());
    let item = &UncountedItem::count(vec![read], &BytesOverFour)[0];
    let forms: Vec<_> =
        item.forms().iter().map(|form| (form.name().as_str(), form.tokens())).collect();
    assert_eq!(forms, [("title", 2), ("short", 1), ("note", 1)]);
    assert_eq!(item.forms()[0].item().original_tokens(), Some(3));

    for (forms, problem) in [
        (r#"[{"name":" ","content":"A","tokens":1}]"#, "name of a form is blank"),
        (r#"[{"name":"title","content":"","tokens":1}]"#, "no content"),
        (r#"[{"name":"title","content":"A","tokens":1,"worth":1.5}]"#, "from 0 to 1"),
        (r#"[{"name":"title","tokens":1}]"#, "missing field `content`"),
    ] {
        let json = format!(r#"{{"content":"A","tokens":1,"forms":{forms}}}"#);
        let error = serde_json::from_str::<UncountedItem>(&json).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let builder = (0..33).fold(ContextItem::builder("A", 40), |builder, tokens| {
        builder.form(FormName::STUB, "A", tokens)
    });
    assert_eq!(builder.build(), Err(Error::TooManyForms { forms: 33, max: 32 }));
}
