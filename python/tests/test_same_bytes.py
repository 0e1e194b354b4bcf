"""The package gives the bytes of the command. The tests of JavaScript run the same cases."""

from __future__ import annotations

import json
import sys
from typing import Any

import cases
import pannier
import pytest
from conftest import Command
from pannier import _pannier

CODES = {"CheckFailed": 1, "InvalidInput": 2, "BudgetError": 3}


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_500_generated_chats_are_those_of_the_command(command: Command) -> None:
    fitted = failed = changed = 0
    path = command.folder / "chat.json"
    for name, request in cases.chats().items():
        options = dict(request)
        text = options.pop("transcript")
        path.write_text(text, encoding="utf-8")
        code, output = command("chat", str(path), *cases.arguments(request))
        options["model"] = options.pop("tokenizer", None)
        if code != 0:
            failed += 1
            with pytest.raises(pannier.Error) as raised:
                pannier.fit_chat(text, **options)
            assert code == CODES[type(raised.value).__name__], (name, raised.value)
            continue
        fitted += 1
        assert (pannier.fit_chat(text, **options) + "\n").encode() == output, name
        messages = json.loads(text)
        result = pannier.fit_chat(messages, **options)
        # Recall ids depend on the bytes of a chat, and objects have no spaces or escapes.
        compact = dumps(messages)
        if text != compact:
            path.write_text(compact, encoding="utf-8")
            code, output = command("chat", str(path), *cases.arguments(request))
            assert code == 0, name
        assert (dumps(result) + "\n").encode() == output, name
        changed += result != messages
    # The budgets are such that most chats fit after cuts, and some do not.
    assert fitted > 400 and failed > 5 and changed > 150, (fitted, failed, changed)


@pytest.mark.filterwarnings("ignore:.* has -.* tokens")
def test_every_conformance_vector_is_that_of_the_command(command: Command) -> None:
    if sys.version_info < (3, 11):
        pytest.importorskip("tomli")
    selected = 0
    vectors = cases.vectors()
    items, policy, receipt = (command.folder / name for name in ("items.jsonl", "policy.json", "receipt.json"))
    for name, request in vectors.items():
        items.write_text("".join(dumps(item) + "\n" for item in request["items"]), encoding="utf-8")
        policy.write_text(dumps(request["policy"]), encoding="utf-8")
        flags = ["--format", "json", "--policy", str(policy), "--receipt", str(receipt), *cases.arguments(request)]
        code, output = command("pack", str(items), *flags)
        options = {key: value for key, value in request.items() if key != "items"}
        if code != 0:
            with pytest.raises(pannier.Error) as raised:
                pannier.pack(request["items"], **options)
            assert code == CODES[type(raised.value).__name__], (name, raised.value)
            continue
        selected += 1
        # The receipt has everything: items, scores, decisions and their order.
        run = _pannier.pack(request["items"], options)
        assert (run.receipt() + "\n").encode() == receipt.read_bytes(), name
        assert output.endswith(f',"totals":{run.totals}}}\n'.encode()), name
        selection = pannier.pack(request["items"], **options)
        expected = json.loads(output)["items"]
        assert [item["content"] for item in selection.items] == [item["content"] for item in expected], name
    assert len(vectors) > 500 and selected > 430, (len(vectors), selected)
