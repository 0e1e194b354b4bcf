"""Items: kinds in and out, scorers, questions about a selection."""

from __future__ import annotations

import dataclasses
import pathlib
import warnings
from html.parser import HTMLParser
from typing import Any

import pannier
import pytest

TEXTS = ["Refunds take five days.", "We ship on Mondays.", "Refunds need the receipt.", "Lunch is at noon."]


def test_dicts_are_the_same_objects() -> None:
    items = [{"content": text, "id": str(number), "tokens": 5} for number, text in enumerate(TEXTS)]
    selection = pannier.pack(items, budget=10, query="refund")
    assert [item["id"] for item in selection] == ["0", "2"]
    assert selection[0] is items[0] and len(selection) == 2 and selection.indices == [0, 2]
    assert selection.tokens == 10 and repr(selection) == "<Selection: 2 of 4 items, 10 tokens>"


def test_texts_of_dicts_may_have_other_names() -> None:
    items = [{"text": TEXTS[0]}, {"page_content": TEXTS[2]}]
    assert pannier.pack(items, budget=100).items == items


def test_objects_with_texts_are_items() -> None:
    class Document:
        def __init__(self, page_content: str) -> None:
            self.page_content = page_content
            self.metadata = {"any": object()}

    @dataclasses.dataclass
    class Own:
        content: str
        tokens: int
        pinned: bool = False

    documents = [Document(text) for text in TEXTS]
    assert pannier.pack(documents, budget=100, query="refund").items[0] is documents[0]
    own = [Own("a", 50), Own("b", 50, pinned=True)]
    assert pannier.pack(own, budget=50).items == [own[1]]


def test_any_iterable_is_a_pool() -> None:
    assert pannier.pack((text for text in TEXTS), budget=100).items == TEXTS
    assert pannier.pack([], budget=100).items == []


def test_a_shorter_form_is_a_copy() -> None:
    form = {"name": "title", "content": "Refunds.", "tokens": 2}
    item = {"content": TEXTS[0] * 10, "tokens": 60, "id": "a", "forms": [form], "keep": True}
    (sent,) = pannier.pack([item], budget=10).items
    assert sent == {**item, "content": "Refunds."} and item["content"] == TEXTS[0] * 10


def test_a_scorer_is_called_once_for_everything() -> None:
    calls: list[list[str]] = []

    def scorer(items: list[str]) -> list[float]:
        calls.append(items)
        return [float("Mondays" in item) for item in items]

    selection = pannier.pack(TEXTS, budget=6, scorer=scorer)
    assert selection.items == ["We ship on Mondays."]
    assert selection.report["included"][0]["score"] == 1.0
    assert selection.explain(1)["score"]["scorer"] == "python"
    assert selection.what_if(budget=100).items and selection.receipt()
    assert calls == [TEXTS]


def test_a_selection_keeps_its_pool() -> None:
    chunks = list(TEXTS)
    selection = pannier.pack(chunks, budget=14, query="refund")
    chunks.pop(0)
    assert selection.what_if(budget=14).items == selection.items == [TEXTS[0], TEXTS[2]]


def test_a_scorer_may_sort_its_list() -> None:
    def scorer(items: list[str]) -> list[float]:
        order = list(items)
        items.sort()
        return [float("Mondays" in item) for item in order]

    texts = list(TEXTS)
    assert pannier.pack(texts, budget=6, scorer=scorer).items == ["We ship on Mondays."] and texts == TEXTS


def test_warnings_are_at_the_line_of_the_caller() -> None:
    items = [{"content": "a", "tokens": -5}, {"content": "b", "tokens": 5}]
    with pytest.warns(UserWarning, match="tokens") as caught:
        selection = pannier.pack(items, budget=10)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            pannier.pack(items, budget=10)
    assert len(selection)


def test_a_scorer_may_use_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    selection = pannier.pack(TEXTS, budget=6, scorer=lambda items: numpy.array([0.1, 0.2, 0.3, 0.9]))
    assert selection.items == ["Lunch is at noon."]


def test_pinned_items_keep_the_scores_of_the_others() -> None:
    items = [{"content": text, "tokens": 5, "pinned": text == TEXTS[0]} for text in TEXTS]
    selection = pannier.pack(items, budget=10, scorer=lambda items: [0.0, 0.1, 0.2, 0.9])
    assert sorted(selection.indices) == [0, 3]


def test_a_scorer_s_exception_passes() -> None:
    def scorer(items: list[str]) -> list[float]:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pannier.pack(TEXTS, budget=6, scorer=scorer)


@pytest.mark.parametrize("scores", [[1.0], [1.0] * 9, [float("nan")] * 4, ["a"] * 4, 3])
def test_wrong_scores_are_refused(scores: Any) -> None:
    with pytest.raises((pannier.InvalidInput, TypeError)):
        pannier.pack(TEXTS, budget=6, scorer=lambda items: scores)


def test_endless_scores_are_refused() -> None:
    import itertools

    with pytest.raises(pannier.InvalidInput, match="more than 4"):
        pannier.pack(TEXTS, budget=6, scorer=lambda items: itertools.repeat(1.0))


def test_questions_about_a_selection() -> None:
    selection = pannier.pack(TEXTS, budget=14, query="refund")
    assert {entry["item"]["content"] for entry in selection.report["excluded"]} == {TEXTS[1], TEXTS[3]}
    assert selection.explain(1) != selection.explain("0")
    assert sorted(selection.what_if(budget=100).indices) == [0, 1, 2, 3]
    assert selection.what_if(budget=100, reserve=86).items == selection.items
    assert selection.receipt()["tokenizer"] == "o200k"
    with pytest.raises(pannier.InvalidInput, match="no item 'x'"):
        selection.explain("x")


def test_slots_are_a_mapping_or_the_command_s_texts() -> None:
    items = [{"content": text, "tokens": 5} for text in TEXTS]
    by_mapping = pannier.pack(items, budget=20, slots={"Document": 10})
    assert by_mapping.items == pannier.pack(items, budget=20, slots=["Document=10"]).items
    assert len(by_mapping) < 4


def test_a_policy_is_a_name_a_dict_or_a_file(tmp_path: pathlib.Path) -> None:
    policy = {"scorers": [{"type": "recency"}]}
    path = tmp_path / "policy.json"
    path.write_text('{"scorers": [{"type": "recency"}]}')
    expected = pannier.pack(TEXTS, budget=12, policy=policy).items
    assert pannier.pack(TEXTS, budget=12, policy=str(path)).items == expected
    assert pannier.pack(TEXTS, budget=12, policy="rag").items


def test_a_single_text_is_no_pool() -> None:
    for items in ("text", b"text", {"content": "text"}):
        with pytest.raises(pannier.InvalidInput, match="give a list of items"):
            pannier.pack(items, budget=10)


def test_mistakes_have_their_path() -> None:
    with pytest.raises(pannier.InvalidInput, match=r"items\[1\]"):
        pannier.pack([{"content": "a"}, {"content": "b", "tokns": 3}], budget=10)
    with pytest.raises(pannier.InvalidInput, match=r"items\[0\].*has no text"):
        pannier.pack([object()], budget=10)


def test_html_is_escaped_and_well_formed() -> None:
    items = [{"content": "<script>alert(1)</script>" + "x" * 500, "id": "<b>&", "tokens": 5}]
    html = pannier.pack(items * 60, budget=1_000, policy={"scorers": [{"type": "recency"}], "deduplication": False})._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html and "&lt;b&gt;&amp;" in html and "and 10 more" in html

    class Balance(HTMLParser):
        stack: list[str] = []

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.stack.pop() == tag

    parser = Balance()
    parser.feed(html)
    assert parser.stack == []


def test_a_budget_error_says_what_pinned_items_need() -> None:
    items = [{"content": "a", "tokens": 50, "pinned": True}]
    with pytest.raises(pannier.BudgetError) as raised:
        pannier.pack(items, budget=40, reserve=20)
    assert raised.value.needed == 70 and "raise budget by 30 or unpin items" in str(raised.value)
    assert pannier.pack(items, budget=70, reserve=20).items == items
