"""The package gives the bytes of the command."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pannier
import pytest
from conftest import Command
from generated import chat

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_500_generated_chats_are_those_of_the_command(command: Command) -> None:
    fitted = failed = changed = 0
    for seed in range(500):
        provider, messages = chat(seed)
        path = command.folder / "chat.json"
        path.write_text(dumps(messages), encoding="utf-8")
        budget, once = 60 + seed * 3, seed % 3 == 0
        tokenizer = "o200k" if seed % 5 == 0 else "bytes/4"
        flags = ["--provider", provider, "--budget", str(budget), "--tokenizer", tokenizer] + ["--once"] * once
        code, output = command("chat", str(path), *flags)
        options: dict[str, Any] = {"budget": budget, "provider": provider, "model": tokenizer, "once": once}
        if code != 0:
            failed += 1
            with pytest.raises(pannier.Error) as raised:
                pannier.fit_chat(messages, **options)
            assert code == {"BudgetError": 3, "InvalidInput": 2}[type(raised.value).__name__], (seed, raised.value)
            continue
        fitted += 1
        text = pannier.fit_chat(dumps(messages), **options)
        assert (text + "\n").encode() == output, seed
        result = pannier.fit_chat(messages, **options)
        assert result == json.loads(output), seed
        changed += result != messages
    # The budgets are such that most chats fit after cuts, and some do not.
    assert fitted > 400 and failed > 5 and changed > 150, (fitted, failed, changed)


def vectors(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted((root / "conformance").glob("*/pipeline/*.toml"))


@pytest.mark.filterwarnings("ignore:.* has -.* tokens")
def test_pipeline_vectors_are_those_of_the_command(root: pathlib.Path, command: Command) -> None:
    selected = applied = 0
    for path in vectors(root):
        vector = tomllib.loads(path.read_text(encoding="utf-8"))
        budget = vector.get("budget", {})
        if "max_tokens" not in budget or not vector.get("items"):
            continue
        vector = json.loads(json.dumps(vector, default=lambda time: time.isoformat()))
        items = vector["items"]
        policy = policy_of(vector.get("config", {}))
        files = command.folder / "items.jsonl", command.folder / "policy.json"
        files[0].write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
        files[1].write_text(json.dumps(policy), encoding="utf-8")
        flags = ["--budget", str(budget["max_tokens"])]
        options: dict[str, Any] = {"budget": budget["max_tokens"], "policy": str(files[1])}
        for name, flag in (("target_tokens", "target"), ("output_reserve", "reserve")):
            if name in budget:
                flags += [f"--{flag}", str(budget[name])]
                options[flag] = budget[name]
        for kind, tokens in budget.get("reserved_slots", {}).items():
            flags += ["--slot", f"{kind}={tokens}"]
            options.setdefault("slots", {})[kind] = tokens
        if "estimation_safety_margin_percent" in budget:
            flags += ["--margin", str(budget["estimation_safety_margin_percent"])]
            options["margin"] = budget["estimation_safety_margin_percent"]
        code, output = command("pack", str(files[0]), "--policy", str(files[1]), *flags, "--format", "json")
        applied += 1
        if code != 0:
            with pytest.raises(pannier.Error):
                pannier.pack(items, **options)
            continue
        selected += 1
        selection = pannier.pack(items, **options)
        answer = json.loads(output)
        assert [item["content"] for item in selection.items] == [item["content"] for item in answer["items"]], path.name
        assert selection.totals == answer["totals"], path.name
        expected = vector.get("expected_output")
        if expected is not None and not uses_unmapped(vector.get("config", {})):
            assert [item["content"] for item in selection.items] == [item["content"] for item in expected], path.name
    assert applied > 100 and selected > 50, (applied, selected)


def policy_of(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a vector's configuration as a policy, as far as names are the same."""
    policy: dict[str, Any] = {"scorers": config.get("scorers") or [{"type": "recency"}]}
    if isinstance(config.get("slicer"), str):
        policy["slicer"] = {"type": config["slicer"]}
    if isinstance(config.get("placer"), str):
        policy["placer"] = {"type": config["placer"]}
    if isinstance(config.get("deduplication"), bool):
        policy["deduplication"] = config["deduplication"]
    return policy


def uses_unmapped(config: dict[str, Any]) -> bool:
    is_mapped = isinstance(config.get("deduplication", True), bool)
    return bool(set(config) - {"scorers", "slicer", "placer", "deduplication"}) or not is_mapped
