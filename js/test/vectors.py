"""Prints the conformance vectors as JSON: each a request of `pack`, which the command and the package answer alike."""

import datetime
import json
import math
import pathlib
import tomllib


def plain(value):
    """The value as JSON has it: times and numbers that are not finite are strings."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def children(scorer):
    """A scorer as policies have it: the scorers within it are its children."""
    if not isinstance(scorer, dict):
        return scorer
    names = {"scorers": "children"}
    return {names.get(key, key): [children(one) for one in value] if isinstance(value, list) else children(value)
            for key, value in scorer.items()}


def request(vector):
    test, config = vector["test"], dict(vector.get("config", {}))
    now = config.pop("reference_time", None)
    budget = vector.get("budget", {})
    items = vector.get("items", [])
    policy = {"slicer": "greedy", "placer": "chronological", "scorers": [{"type": "reflexive", "weight": 1.0}]}
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
    return {"items": items, **options}


root = pathlib.Path(__file__).parents[2] / "conformance"
paths = sorted(root.rglob("*.toml"))
vectors = {str(path.relative_to(root)): request(tomllib.loads(path.read_text("utf-8"))) for path in paths}
print(json.dumps(plain(vectors), allow_nan=False))
