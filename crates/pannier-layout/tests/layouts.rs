//! Plans and measures of the layouts, line by line. One byte is one token, so every number can be counted by hand.

use std::sync::Arc;

use pannier_core::{item::*, layout::*, score::*, *};
use pannier_layout::{
    DocumentLayout, RecordLayout, Records, SentItem, Template, TextLayout, render_documents,
};

struct Bytes;

impl TokenCounter for Bytes {
    fn name(&self) -> &str {
        "bytes"
    }

    fn exactness(&self) -> Exactness {
        Exactness::Exact
    }

    fn count(&self, text: &str) -> usize {
        text.len()
    }
}

fn item(content: &str) -> ContextItemBuilder {
    ContextItem::builder(content, content.len() as i64)
}

fn passage(content: &str, document: &str, sequence: u64, start: u64) -> ContextItem {
    let range = start..start + content.len() as u64;
    item(content).passage(&Passage { document, sequence, range }).build().unwrap()
}

fn text_layout(template: Template) -> TextLayout {
    TextLayout::new(template, Arc::new(Bytes))
}

fn template(before: &str, item: &str, separator: &str, after: &str) -> Template {
    let mut template = Template::default();
    (template.before, template.after) = (before.to_owned(), after.to_owned());
    (template.item, template.separator) = (item.parse().unwrap(), separator.to_owned());
    template
}

fn plan(layout: &dyn Layout, items: &[ContextItem]) -> Plan {
    layout.plan(&Pool::new(items)).unwrap()
}

/// Measures all items, in pool order.
fn measure(layout: &dyn Layout, items: &[ContextItem], up_to: i64) -> Option<RenderCost> {
    let pipeline = Pipeline::builder(ReflexiveScorer).deduplication(false).build();
    let budget = ContextBudget::new(1_000, 1_000).unwrap();
    let selection = pipeline.run(items, &budget).unwrap();
    assert_eq!(selection.len(), items.len());
    layout.measure(&selection.placed(), up_to).unwrap()
}

#[test]
fn a_template_without_frames_charges_a_separator_for_each_item() {
    let layout = text_layout(Template::default());
    let items = [item("one").build().unwrap(), item("three").build().unwrap()];
    let plan = plan(&layout, &items);
    assert_eq!((plan.fixed, plan.around), (0, Around::Each(2)));
    // "one\n\nthree\n"
    let cost = measure(&layout, &items, i64::MAX).unwrap();
    let expected =
        RenderCost { framing: 2, items: 8, merge_adjustment: 1, ..RenderCost::default() };
    assert_eq!(cost, expected);
}

#[test]
fn a_template_with_frames_charges_each_form_its_frame() {
    let items = [
        item("one").form(FormName::SHORT, "1", 1).build().unwrap(),
        item("document").kind(ContextKind::DOCUMENT).build().unwrap(),
    ];
    let framed = template("<", "* {content}", "--", ">");
    let around = |template: Template| plan(&text_layout(template), &items).around;
    assert_eq!(around(framed.clone()), Around::Forms(vec![4, 4, 4]));
    let mut by_kind = template("", "{content}", "--", "");
    by_kind.kinds.insert(ContextKind::DOCUMENT, "[{content}]".parse().unwrap());
    assert_eq!(around(by_kind), Around::Forms(vec![2, 2, 4]));
    // "<>\n", and "<* one--* document>\n"
    let layout = text_layout(framed);
    assert_eq!(plan(&layout, &items).fixed, 3);
    let cost = measure(&layout, &items, i64::MAX).unwrap();
    let expected = RenderCost { fixed: 3, framing: 6, items: 11, ..RenderCost::default() };
    assert_eq!((cost.total(), cost), (20, expected));
}

#[test]
fn measuring_stops_above_a_limit() {
    let items = [passage("one", "a.md", 0, 0)];
    // "one\n", and "[DOC: a.md]\none\n"
    let text: Box<dyn Layout> = Box::new(text_layout(Template::default()));
    let documents: Box<dyn Layout> = Box::new(DocumentLayout::new(Arc::new(Bytes)));
    for (layout, total) in [(text, 4), (documents, 16)] {
        for up_to in [total, total + 1, i64::MAX] {
            assert_eq!(measure(&*layout, &items, up_to).unwrap().total(), total);
        }
        for up_to in [-1, 0, total - 1] {
            assert!(measure(&*layout, &items, up_to).unwrap().total() > up_to, "{up_to}");
        }
    }
}

#[test]
fn a_text_layout_returns_its_components() {
    let layout = text_layout(template("<", "{content}", "", ">"));
    assert_eq!(layout.template().before, "<");
    assert_eq!(layout.counter().name(), "bytes");
    assert!(format!("{layout:?}").starts_with("TextLayout { template: "), "{layout:?}");
}

#[test]
fn documents_are_sections_and_headings_cost_at_least_the_minimum() {
    let short = Passage { document: "long/name.md", sequence: 0, range: 0..3 };
    let items = [
        passage("one", "a.md", 0, 0),
        item("note").form(FormName::SHORT, "n", 1).build().unwrap(),
        item("two").passage(&short).form(FormName::SHORT, "2", 1).build().unwrap(),
        passage("three", "a.md", 1, 3),
    ];
    // "\n[DOC: a.md]\n" has 13 bytes, "\n[DOC: long/name.md]\n" has 21.
    let layout = DocumentLayout::new(Arc::new(Bytes)).with_headings(Headings::AtEveryChange);
    let layout = layout.with_min_heading_tokens(15);
    let charges = items.each_ref().map(|item| layout.heading_tokens(item));
    assert_eq!(charges, [15, 0, 21, 15]);
    let planned = plan(&layout, &items);
    assert_eq!((planned.sections, planned.headings), (vec![15, 21], Headings::AtEveryChange));
    let (none, first, second) = (SectionId::NONE, SectionId::new(0), SectionId::new(1));
    assert_eq!(planned.section_of, [first, none, none, second, second, first]);
    assert!(!planned.is_exact);
    assert!(plan(&layout, &items[1..2]).section_of.is_empty());
    assert!(format!("{layout:?}").contains("min_heading_tokens: 15"), "{layout:?}");
}

#[test]
fn an_uncounted_layout_charges_the_minimum_and_measures_nothing() {
    let items = [passage("one", "a/long/name.md", 0, 0)];
    let layout = DocumentLayout::uncounted();
    let planned = plan(&layout, &items);
    assert_eq!(
        (planned.sections, planned.headings, planned.is_exact),
        (vec![10], Headings::Once, true)
    );
    assert_eq!(plan(&layout.clone().with_min_heading_tokens(-1), &items).sections, [0]);
    assert_eq!(measure(&layout, &items, i64::MAX), None);
}

#[test]
fn a_measured_text_of_documents_counts_a_heading_at_every_change() {
    let items = [
        passage("one\n", "a.md", 0, 0),
        passage("two\n", "a.md", 5, 50),
        passage("three\n", "b.md", 0, 0),
        item("note\n").build().unwrap(),
        passage("four\n", "b.md", 5, 50),
    ];
    let layout = DocumentLayout::new(Arc::new(Bytes));
    let text = "[DOC: a.md]\none\ntwo\n\n[DOC: b.md]\nthree\n\nnote\n\n[DOC: b.md]\nfour\n";
    assert_eq!(layout.render(items.iter()), text);
    let cost = measure(&layout, &items, i64::MAX).unwrap();
    assert_eq!((cost.total(), cost.framing, cost.items), (text.len() as i64, 3 * 13, 24));
    assert_eq!(cost.other_limit_tokens, Some(24));
    let pipeline = Pipeline::builder(ReflexiveScorer).deduplication(false).build();
    let selection = pipeline.run(&items, &ContextBudget::new(100, 100).unwrap()).unwrap();
    assert_eq!(layout.text(&selection.placed()), text);
}

#[test]
fn a_passage_is_merged_only_after_passages_of_lower_sequence() {
    let first = passage("abcdefgh", "a.md", 1, 0);
    let last = passage("ijkl", "a.md", 2, 8);
    let render = |second: &ContextItem| render_documents([&first, second, &last].into_iter());
    // Merged with the first, the second has sequence 3, and the last comes too late.
    let longer = passage("ghij", "a.md", 3, 6);
    assert_eq!(render(&longer), "[DOC: a.md]\nabcdefghij\nijkl\n");
    let contained = passage("cd", "a.md", 3, 2);
    assert_eq!(render(&contained), "[DOC: a.md]\nabcdefgh\nijkl\n");
    let contained = passage("cd", "a.md", 1, 2);
    assert_eq!(render(&contained), "[DOC: a.md]\nabcdefgh\ncd\nijkl\n");
}

#[test]
fn placeholders_show_metadata_of_every_plain_type() {
    let item = item("x")
        .metadata("text", "t")
        .metadata("integer", -3_i64)
        .metadata("unsigned", u64::MAX)
        .metadata("float", 0.5)
        .metadata("flag", true)
        .build()
        .unwrap();
    let keys = ["text", "integer", "unsigned", "float", "flag", "absent"];
    let placeholders = keys.map(|key| format!("{{metadata.{key}}}")).join(" ");
    let layout = text_layout(template("", &format!("{placeholders} {{content}}"), "", ""));
    let pipeline = Pipeline::builder(ReflexiveScorer).build();
    let items = [item];
    let selection = pipeline.run(&items, &ContextBudget::new(9, 9).unwrap()).unwrap();
    let text = layout.template().render(&selection);
    assert_eq!(text, format!("t -3 {} 0.5 true  x\n", u64::MAX));
}

#[cfg(feature = "serde")]
#[test]
fn an_item_template_is_a_string_in_json() {
    use pannier_layout::ItemTemplate;

    let text = r#""[{id}] {content}""#;
    let template: ItemTemplate = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&template).unwrap(), text);
    assert!(serde_json::from_str::<ItemTemplate>(r#""no content""#).is_err());
    let default = serde_json::to_string(&Template::default()).unwrap();
    assert_eq!(default, r#"{"separator":"\n\n"}"#);
}

#[test]
fn references_are_rejected_by_both_layouts() {
    let reference = ContextItem::reference("a.md", 1).unwrap();
    let items = [ContextItem::new("text", 4).unwrap(), reference];
    let text = TextLayout::new(Template::default(), Arc::new(Bytes));
    let documents = DocumentLayout::new(Arc::new(Bytes));
    let pipeline = Pipeline::builder(ReflexiveScorer).build();
    for pipeline in [pipeline.clone().with_layout(text), pipeline.with_layout(documents)] {
        let budget = ContextBudget::new(50, 50).unwrap();
        let selection = pipeline.run(&items, &budget).unwrap();
        assert_eq!(selection.indices().collect::<Vec<_>>(), [0]);
        let reason = selection.report().excluded[0].reason.clone();
        assert!(format!("{reason:?}").contains("a reference has no content"), "{reason:?}");
    }
}

/// Notes, and stubs of notes in an array of their own.
struct Notes(usize);

impl Notes {
    /// Items with one byte are stubs.
    fn list(&self, sent: &[SentItem<'_>], name: &str) -> String {
        let records = sent.iter().filter(|sent| self.array(**sent) == name);
        let records: Vec<String> = records.map(|sent| self.record(*sent)).collect();
        match records.is_empty() {
            true => String::new(),
            false => format!("\"{name}\":[{}],", records.join(",")),
        }
    }
}

impl Records for Notes {
    fn record(&self, (index, item): SentItem<'_>) -> String {
        format!("{{\"{index}\":{:?}}}", item.content())
    }

    fn array(&self, (_, item): SentItem<'_>) -> &str {
        if item.tokens() == 1 { "stubs" } else { "notes" }
    }

    fn answer(&self, sent: &[SentItem<'_>], stubs: usize) -> Vec<String> {
        let (notes, short) = (self.list(sent, "notes"), self.list(sent, "stubs"));
        let rest = "x".repeat(stubs);
        vec![format!(
            "{{{notes}{short}\"rest\":\"{rest}\",\"more\":{}}}",
            self.0 - sent.len() - stubs
        )]
    }
}

fn record_layout(items: usize) -> RecordLayout<Notes> {
    RecordLayout::new(Notes(items), Arc::new(Bytes))
}

#[test]
fn records_charge_their_json_in_each_form_and_arrays_their_keys() {
    let whole = item("a \"b\"").form(FormName::STUB, "a", 1).build().unwrap();
    let items = [whole, item("two").build().unwrap()];
    let layout = record_layout(2);
    let plan = plan(&layout, &items);
    // {"rest":"","more":2}
    assert_eq!(plan.fixed, 20);
    // {"0":"a \"b\""}, less 5; {"0":"a"}, less 1; {"1":"two"}, less 3.
    assert_eq!(plan.around, Around::Forms(vec![11, 9, 9]));
    // "notes":[], and "stubs":[],
    assert_eq!(plan.sections, [11, 11]);
    let sections: Vec<_> = plan.section_of.iter().map(|section| section.position()).collect();
    assert_eq!(sections, [Some(0), Some(1), Some(0)]);
    // {"notes":[{"0":"a \"b\""},{"1":"two"}],"rest":"","more":0}
    let cost = measure(&layout, &items, i64::MAX).unwrap();
    assert_eq!((cost.total(), cost.fixed, cost.items), (58, 20, 8));
    assert!(measure(&layout, &items, 57).unwrap().total() > 57);
    // One array is part of the envelope.
    assert!(self::plan(&record_layout(1), &items[1..]).sections.is_empty());
}

#[test]
fn stubs_fill_what_a_selection_leaves() {
    let items = ["one", "two", "three"].map(|text| item(text).build().unwrap());
    let layout = Arc::new(record_layout(3));
    let pipeline = Pipeline::builder(ReflexiveScorer).layout(Arc::clone(&layout)).build();
    let selection = pipeline.run(&items, &ContextBudget::new(45, 45).unwrap()).unwrap();
    // {"notes":[{"0":"one"}],"rest":"","more":2}
    assert_eq!((selection.len(), selection.ledger().sent()), (1, 42));
    let placed = selection.placed();
    assert_eq!(layout.fitting_stubs(&placed, 2, 42), 0);
    assert_eq!(layout.fitting_stubs(&placed, 2, 43), 1);
    assert_eq!(layout.fitting_stubs(&placed, 2, 45), 2);
    // The smallest budget is that of the envelope.
    let error = pipeline.run(&items, &ContextBudget::new(19, 19).unwrap()).unwrap_err();
    let expected = Error::RequiredTextOverBudget { fixed_tokens: 20, target_tokens: 19 };
    assert_eq!(error, expected);
    assert!(pipeline.run(&items, &ContextBudget::new(20, 20).unwrap()).unwrap().is_empty());
}

/// Sends two texts with a character for each stub, or one with three for each.
struct TwoWays;

impl Records for TwoWays {
    fn record(&self, (_, item): SentItem<'_>) -> String {
        item.content().to_owned()
    }

    fn array(&self, _: SentItem<'_>) -> &str {
        "all"
    }

    fn answer(&self, _: &[SentItem<'_>], stubs: usize) -> Vec<String> {
        vec!["x".repeat(stubs + 2), "y".repeat(stubs)]
    }

    fn other_answer(&self, _: &[SentItem<'_>], stubs: usize) -> Option<Vec<String>> {
        Some(vec!["z".repeat(3 * stubs)])
    }
}

#[test]
fn as_many_stubs_fit_as_all_texts_of_both_ways_allow() {
    let layout = Arc::new(RecordLayout::new(TwoWays, Arc::new(Bytes)));
    let pipeline = Pipeline::builder(ReflexiveScorer).layout(Arc::clone(&layout)).build();
    let selection = pipeline.run(&[], &ContextBudget::new(9, 9).unwrap()).unwrap();
    let tokens = |stubs: usize| (2 * stubs + 2).max(3 * stubs) as i64;
    for left_out in 0..=9 {
        for target in 2..=tokens(9) {
            let expected = (0..=left_out).rfind(|stubs| tokens(*stubs) <= target);
            let stubs = layout.fitting_stubs(&selection.placed(), left_out, target);
            assert_eq!(Some(stubs), expected, "{left_out} within {target}");
        }
    }
}
