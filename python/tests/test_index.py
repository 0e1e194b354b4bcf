"""Indexes, memory and snippets."""

from __future__ import annotations

import pathlib

import pannier
import pytest


@pytest.fixture
def index(root: pathlib.Path, tmp_path: pathlib.Path) -> pannier.Index:
    return pannier.Index.build(root / "examples" / "handbook", index=tmp_path / "index")


@pytest.mark.filterwarnings("ignore:the index is of")
def test_a_search_is_that_of_the_command(index: pannier.Index, command: object) -> None:
    query = "how do we roll back a deployment?"
    context = index.search(query, budget=80)
    code, output = command("docs", "search", query, "--budget", "80", "--index", index.path)  # type: ignore[operator]
    assert (code, output.decode()) == (0, context.text)
    assert str(context) == context.text and pannier.count(context.text) <= 80
    assert str(context.citations[0]) == "guides/rollback.md:1-3"
    assert context.citations[0].text.startswith("# Roll back")
    assert all(f"[{citation}]" in context.text for citation in context.citations if len(citation.lines) == 1)


def test_an_index_is_opened_and_updated(index: pannier.Index, tmp_path: pathlib.Path) -> None:
    assert index.summary["documents"] == 3
    opened = pannier.Index.open(index.path)
    assert opened.path == index.path and repr(opened).startswith("<Index ")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# One\n\nThe first text.\n")
    own = pannier.Index.build(docs, index=tmp_path / "own")
    (docs / "b.md").write_text("# Two\n\nA zebra.\n")
    assert own.search("zebra", no_update=True).citations == []
    assert own.search("zebra").citations[0].path == "b.md"
    assert own.search("zebra", paths=["a.md"]).text.startswith("No passage matches.")


def test_a_missing_index_has_advice(tmp_path: pathlib.Path) -> None:
    for call in (lambda: pannier.Index.open(tmp_path / "x"), lambda: pannier.Index(tmp_path / "x").search("a")):
        with pytest.raises(pannier.IndexMissing) as raised:
            call()
        assert raised.value.code == "cache_missing" and "Index.build" in str(raised.value)
    with pytest.raises(pannier.InvalidInput):
        pannier.Index.build(tmp_path / "missing", index=tmp_path / "index")


def test_memory_and_snippets(root: pathlib.Path) -> None:
    packet = pannier.memory(root / "examples" / "harbour", budget=420, query="back up the database", no_user=True)
    assert packet and pannier.count(packet) <= 420
    listed = pannier.snippets(root=root / "examples" / "snippets")
    assert listed
    with pytest.raises(pannier.Error):
        pannier.memory("/nonexistent")
