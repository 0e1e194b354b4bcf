//! Skills and rules as snippets, other types, aliases, indexes of other tools, and lists within a budget.

use pannier_core::TokenCounter;
use pannier_snippets::{
    Alias, GetOptions, GetResponse, ListFormat, ListOptions, Roots, SnippetIndexes, SnippetType,
    SnippetsError, check, index,
};
use pannier_tokens::BytesOverFour;
use proptest::prelude::*;

mod helper;

use helper::Scratch;

/// Opens a root by its path in the folder.
fn roots(scratch: &Scratch, path: &str) -> Roots {
    Roots::open([scratch.path(path)], Some(scratch.path("home"))).unwrap()
}

fn snippet(id: &str, kind: &str, rest: &str) -> String {
    format!(
        "---\nid: {id}\ndescription: About {id}.\ntype: {kind}\nscope: global\n{rest}---\n{id}!\n"
    )
}

/// Returns the ids and types of a root.
fn listed(roots: Roots) -> Vec<String> {
    let indexes = SnippetIndexes::read(roots).unwrap();
    let catalog = indexes.catalog().unwrap();
    assert_eq!(catalog.warnings(), []);
    let name = |kind: &SnippetType| kind.name().to_owned();
    catalog
        .snippets()
        .iter()
        .map(|one| format!("{} {}", one.id(), name(one.snippet_type())))
        .collect()
}

/// Returns the texts that a request delivers, and the warnings.
fn get(roots: Roots, id: &str) -> (Vec<String>, Vec<String>) {
    let indexes = SnippetIndexes::read(roots).unwrap();
    let catalog = indexes.catalog().unwrap();
    let ids = catalog.resolve_ids([id]).unwrap();
    let response = catalog.get(&ids, &GetOptions::default(), &BytesOverFour).unwrap();
    let GetResponse::Snippets(bundle) = response else { unreachable!() };
    let texts = bundle.snippets.iter().map(|snippet| snippet.text.to_string()).collect();
    (texts, bundle.warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn skills_and_rules_are_snippets() {
    let scratch = Scratch::new("skills");
    scratch.write("p/a.md", snippet("a", "policy", ""));
    scratch.write(
        "p/.claude/skills/Cut Release/SKILL.md",
        "---\nname: release\ndescription: >-\n  Cut a\n  release.\n---\n# Release\n\n## Required reads\n\n- @a.md\n",
    );
    scratch.write("p/.cursor/rules/db/sql.mdc", "---\nglobs: *.sql, q/**\n---\nName columns.\n");
    scratch.write("p/tools/skills/tidy/SKILL.md", "# Tidy up\n\nNow.\n");
    scratch.write("p/own/SKILL.md", snippet("own", "skill", ""));
    index(&roots(&scratch, "p"), &BytesOverFour).unwrap();
    assert_eq!(
        listed(roots(&scratch, "p")),
        [
            "a policy",
            "own skill",
            "rule/cursor/db/sql rule",
            "skill/claude/cut-release skill",
            "skill/tools/tidy skill"
        ]
    );
    let (texts, warnings) = get(roots(&scratch, "p"), "skill/claude/cut-release");
    assert_eq!(texts, ["a!\n", "# Release\n\n## Required reads\n\n- @a.md\n"]);
    assert_eq!(warnings, [""; 0]);
    assert_eq!(check(&roots(&scratch, "p")).unwrap().problems, []);
    // A folder of skills or rules is a root, too.
    index(&roots(&scratch, "p/.cursor/rules"), &BytesOverFour).unwrap();
    assert_eq!(listed(roots(&scratch, "p/.cursor/rules")), ["rule/db/sql rule"]);
    let indexes = SnippetIndexes::read(roots(&scratch, "p")).unwrap();
    let catalog = indexes.catalog().unwrap();
    let description = |id: &str| catalog.snippet(id).unwrap().description().to_owned();
    assert_eq!(description("skill/claude/cut-release"), "Cut a release.");
    assert_eq!(description("rule/cursor/db/sql"), "For *.sql, q/**.");
    assert_eq!(description("skill/tools/tidy"), "Tidy up");
}

#[test]
fn other_types_are_listed_as_written() {
    let scratch = Scratch::new("types");
    scratch.write("docs/a.md", snippet("a", "Check-List", ""));
    scratch.write("docs/b.md", snippet("b", "spec", ""));
    scratch.write("docs/c.md", snippet("c", "no", ""));
    index(&roots(&scratch, "docs"), &BytesOverFour).unwrap();
    assert_eq!(listed(roots(&scratch, "docs")), ["a Check-List", "b spec"]);
    assert_eq!(check(&roots(&scratch, "docs")).unwrap().problems.len(), 1, "`no` is a boolean");
    let indexes = SnippetIndexes::read(roots(&scratch, "docs")).unwrap();
    let catalog = indexes.catalog().unwrap();
    let list = |name: &str| {
        let mut options = ListOptions::default();
        options.areas = vec![SnippetType::from_name(name).unwrap()];
        catalog.list(&options, &BytesOverFour).map(|list| list.text())
    };
    assert_eq!(list("Check-List").unwrap(), "a  global  Check-List  1  About a.\n");
    assert!(list("policy").unwrap().contains("No snippet matches"));
    assert!(matches!(list("polcy"), Err(SnippetsError::UnknownType { .. })));
}

#[test]
fn aliases_resolve_references_and_stay_in_the_index() {
    let scratch = Scratch::new("aliases");
    scratch.write("docs/global/names.md", snippet("names", "policy", ""));
    let rest = "requires: ['@~/.tool/docs/names.md']\n";
    scratch.write("docs/project/ledger.md", snippet("ledger", "design", rest));
    let alias: Alias = "@~/.tool/docs=docs/global".parse().unwrap();
    index(&roots(&scratch, "docs"), &BytesOverFour).unwrap();
    let (texts, warnings) = get(roots(&scratch, "docs"), "ledger");
    assert_eq!((texts.len(), warnings.len()), (1, 1), "{warnings:?}");
    assert_eq!(check(&roots(&scratch, "docs")).unwrap().problems.len(), 1);
    let aliased = || roots(&scratch, "docs").with_aliases(vec![alias.clone()]);
    assert_eq!(get(aliased(), "ledger").0, ["names!\n", "ledger!\n"]);
    assert_eq!(get(aliased(), "@~/.tool/docs/names.md").0, ["names!\n"]);
    // In the index, also after it is written again.
    index(&aliased(), &BytesOverFour).unwrap();
    for _ in 0..2 {
        assert_eq!(get(roots(&scratch, "docs"), "ledger").0, ["names!\n", "ledger!\n"]);
        assert_eq!(check(&roots(&scratch, "docs")).unwrap().problems, []);
        assert!(index(&roots(&scratch, "docs"), &BytesOverFour).unwrap()[0].is_unchanged);
    }
    // The target may be a root itself.
    let both = Roots::open(["docs/global", "docs/project"].map(|path| scratch.path(path)), None);
    let both = both.unwrap().with_aliases(vec![alias]);
    index(&both, &BytesOverFour).unwrap();
    assert_eq!(get(both, "ledger").0, ["names!\n", "ledger!\n"]);
}

#[test]
fn files_of_another_tools_index_are_delivered() {
    let scratch = Scratch::new("other-index");
    scratch.write("home/.keep", "");
    scratch.write("repo/docs/global/a.md", "# A\n\nNo front matter.\n");
    scratch.write("repo/docs/global/b.md", "B\n");
    scratch.write("repo/docs/global/c.md", "C\n");
    scratch.write("secret.md", "secret\n");
    let absolute = scratch.path("repo/docs/global/c.md");
    let entry = |id: &str, path: &str| {
        format!(
            "- {{id: {id}, description: d, type: policy, scope: global, path: \"{path}\", filename: x}}\n"
        )
    };
    let secret = scratch.path("secret.md").display().to_string();
    let text = format!(
        "project_root: /elsewhere\naliases: ['@~/.tool/docs=docs/global']\nsnippets:\n{}{}{}{}{}",
        entry("a", "docs/global/a.md"),
        entry("b", "~/.tool/docs/b.md"),
        entry("c", &absolute.display().to_string()),
        entry("d", &secret),
        entry("e", "~/../secret.md"),
    );
    scratch.write("repo/docs/global/index.yaml", text);
    let other = || roots(&scratch, "repo/docs/global");
    for (id, body) in [("a", "# A\n\nNo front matter.\n"), ("b", "B\n"), ("c", "C\n")] {
        assert_eq!(get(other(), id).0, [body], "{id}");
    }
    let indexes = SnippetIndexes::read(other()).unwrap();
    let catalog = indexes.catalog().unwrap();
    assert!(catalog.snippet("d").is_none() && catalog.snippet("e").is_none());
    assert_eq!(catalog.warnings().len(), 2);
}

#[test]
fn a_list_fits_its_budget() {
    let scratch = Scratch::new("budget");
    for number in 0..30 {
        scratch.write(&format!("docs/{number}.md"), snippet(&format!("id-{number}"), "policy", ""));
    }
    index(&roots(&scratch, "docs"), &BytesOverFour).unwrap();
    let indexes = SnippetIndexes::read(roots(&scratch, "docs")).unwrap();
    let catalog = indexes.catalog().unwrap();
    for format in [ListFormat::Lines, ListFormat::Columns, ListFormat::Json] {
        let mut before = 0;
        for budget in (60..1_200).step_by(60) {
            let mut options = ListOptions::default();
            (options.budget, options.format) = (Some(budget), format);
            let list = catalog.list(&options, &BytesOverFour).unwrap();
            assert!(BytesOverFour.count(&list.render_as(format)) <= budget, "{budget} {format:?}");
            assert!(list.snippets.len() >= before);
            before = list.snippets.len();
            let message = list.message.unwrap_or_default();
            assert_eq!(message.contains(&format!("{before} of 30 snippets")), before < 30);
        }
        assert_eq!(before, 30);
    }
}

#[test]
fn a_root_without_snippets_has_nothing_to_check() {
    let scratch = Scratch::new("nothing");
    scratch.write("docs/a.md", "# Words\n");
    let report = check(&roots(&scratch, "docs")).unwrap();
    assert_eq!((report.problems.len(), report.snippets), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn any_skill_and_rule_is_indexed(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        front in "(name: x|description: a: b|globs: \\*|- x|requires: \\[a\\]|\n){0,8}",
    ) {
        let scratch = Scratch::new("any");
        scratch.write("docs/s/SKILL.md", &bytes);
        scratch.write("docs/r.mdc", format!("---\n{front}\n---\n{front}"));
        let written = index(&roots(&scratch, "docs"), &BytesOverFour).unwrap();
        prop_assert!(written[0].snippets <= 2);
        prop_assert!(written[0].snippets + written[0].problems.len() >= 1);
        prop_assert!(index(&roots(&scratch, "docs"), &BytesOverFour).unwrap()[0].is_unchanged);
        let indexes = SnippetIndexes::read(roots(&scratch, "docs")).unwrap();
        let catalog = indexes.catalog().unwrap();
        prop_assert_eq!(catalog.warnings().len(), 0);
        let text = catalog.list(&ListOptions::default(), &BytesOverFour).unwrap().text();
        prop_assert!(text.lines().count() >= written[0].snippets, "{}", text);
    }
}
