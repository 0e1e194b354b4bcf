"""Requests with the same answer, byte for byte, from the command, Python and JavaScript: conformance vectors and chats.

usage: python3 cases.py    prints them as JSON, for the tests of JavaScript
"""

from __future__ import annotations

import datetime
import json
import math
import pathlib
import random
from typing import Any

from generated import WORDS, chat

ROOT = pathlib.Path(__file__).resolve().parents[2] / "conformance"
CHATS = 500


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: times and numbers that are not finite are strings."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def children(scorer: Any) -> Any:
    """Returns a scorer as policies have it: the scorers within it are its children."""
    if not isinstance(scorer, dict):
        return scorer
    names = {"scorers": "children"}
    return {
        names.get(key, key): [children(one) for one in value] if isinstance(value, list) else children(value)
        for key, value in scorer.items()
    }


def pack_request(vector: dict[str, Any]) -> dict[str, Any]:
    """Returns a vector as a request of `pack`."""
    test, config = vector["test"], dict(vector.get("config", {}))
    now = config.pop("reference_time", None)
    budget = vector.get("budget", {})
    items = vector.get("items", [])
    policy: dict[str, Any] = {
        "slicer": "greedy",
        "placer": "chronological",
        "scorers": [{"type": "reflexive", "weight": 1.0}],
    }
    if test["stage"] == "pipeline":
        policy = config
    elif test["stage"] == "scoring":
        config.pop("use_default_weights", None)
        policy["scorers"] = [{"type": test["scorer"], "weight": 1.0, **children(config)}]
    elif test["stage"] == "placing":
        policy["placer"] = test["placer"]
    else:
        policy |= {"slicer": test["slicer"], **config}
        items = vector.get("scored_items", [])
    target = budget.get("target_tokens", 1_000)
    options = {"budget": budget.get("max_tokens", target), "target": target, "policy": {"name": "vector", **policy}}
    if "output_reserve" in budget:
        options["reserve"] = budget["output_reserve"]
    if "estimation_safety_margin_percent" in budget:
        options["margin"] = budget["estimation_safety_margin_percent"]
    if now:
        options["now"] = now
    if "reserved_slots" in budget:
        options["slots"] = [f"{kind}={tokens}" for kind, tokens in budget["reserved_slots"].items()]
    for item in items:
        item.setdefault("tokens", 1)
        if "score" in item:
            item["futureRelevanceHint"] = item.pop("score")
    request: dict[str, Any] = plain({"items": items, **options})
    return request


def vectors() -> dict[str, dict[str, Any]]:
    """Returns a request for every conformance vector, by its path. Needs Python 3.11 or `tomli`."""
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib
    paths = sorted(ROOT.rglob("*.toml"))
    return {str(path.relative_to(ROOT)): pack_request(tomllib.loads(path.read_text("utf-8"))) for path in paths}


def chats() -> dict[str, dict[str, Any]]:
    """Returns requests of `chat`: all providers, budgets from far too small to ample, and most options."""
    requests = {}
    for seed in range(CHATS):
        provider, messages = chat(seed)
        chance = random.Random(f"options {seed}")
        as_json = {"indent": 2} if chance.random() < 0.3 else {"separators": (",", ":")}
        text = json.dumps(messages, ensure_ascii=chance.random() < 0.2, **as_json)  # type: ignore[arg-type]
        request: dict[str, Any] = {"transcript": text, "budget": 60 + seed * 3}
        if chance.random() < 0.7:
            request["provider"] = provider
        if chance.random() < 0.4:
            request["once"] = True
        if chance.random() < 0.5:
            request["tokenizer"] = chance.choice(["gpt-5", "gpt-4", "cl100k", "script", "bytes/4", "o200k x 1.2"])
        if chance.random() < 0.3:
            request["query"] = " ".join(chance.choices(WORDS, k=3))
        if chance.random() < 0.2:
            request["reserve"] = chance.randrange(90)
        requests[f"chat {seed}"] = request
    return requests


def arguments(request: dict[str, Any]) -> list[str]:
    """Returns the options of a request as the command has them. Files of items, policies and chats are added by the caller."""
    flags = []
    for name in ("budget", "target", "reserve", "margin", "now", "provider", "tokenizer", "query"):
        if name in request:
            flags.append(f"--{name}={request[name]}")
    flags += [f"--slot={slot}" for slot in request.get("slots", ())]
    return flags + ["--once"] * bool(request.get("once"))


if __name__ == "__main__":
    print(json.dumps({"vectors": vectors(), "chats": chats()}, allow_nan=False))
