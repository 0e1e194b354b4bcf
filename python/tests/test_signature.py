"""Keyword arguments and defaults are those of the requests. A new option of a request fails here until it has a keyword."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pannier
import pytest
from pannier import _pannier

NAMES = {"from_": "from", "model": "tokenizer", "root": "snippets"}

# Options that are not keywords, and why.
OTHERS = {
    "fit_chat": {"transcript": "the chat itself", "explain": "ChatSession.explain"},
    "pack": {"items": "the items themselves", "explain": "Selection.explain"},
    "Index.build": {},
    "Index.search": {"explain": "the command shows explanations", "index": "Index.path"},
    "memory": {"explain": "the command shows explanations"},
    "recall": {"tokenizer": "that of the session", "session": "the last history", "store": "the command has a store"},
    "count": {"texts": "the text itself"},
    "snippets": {
        "aliases": "the command resolves references", "format": "it is text", "reserve": "the budget is that of the answer",
        "session": "the command keeps sessions", "resend": "the command keeps sessions",
    },
    "snippets, the list": {
        "aliases": "the command resolves references", "format": "it is text", "areas": "the command filters",
        "baseline": "the command filters", "limit": "the command filters", "query": "the command filters",
        "scopes": "the command filters",
    },
}
# Keywords that are not options of the request.
EXTRA = {"fit_chat": {"chat", "tools", "system"}, "pack": {"items", "scorer"}, "count": {"text"}, "snippets, the list": {"ids"}}
FUNCTIONS: list[tuple[str, Any, str]] = [
    ("fit_chat", pannier.fit_chat, "chat"),
    ("pack", pannier.pack, "pack"),
    ("Index.build", pannier.Index.build, "index"),
    ("Index.search", pannier.Index.search, "search"),
    ("memory", pannier.memory, "memory"),
    ("recall", pannier.ChatSession.recall, "recall"),
    ("count", pannier.count, "count"),
    ("snippets", pannier.snippets, "snippets_get"),
    ("snippets, the list", pannier.snippets, "snippets_list"),
]
HIDDEN = {"gitignore"}


@pytest.mark.parametrize(("name", "function", "request_name"), FUNCTIONS, ids=[name for name, *_ in FUNCTIONS])
def test_keywords_and_defaults_are_those_of_the_request(name: str, function: Any, request_name: str) -> None:
    properties = json.loads(_pannier.schema(request_name))["properties"]
    parameters = dict(inspect.signature(function).parameters)
    for own in EXTRA.get(name, set()) | {"self"}:
        parameters.pop(own, None)
    keywords = {NAMES.get(parameter, parameter): parameters[parameter] for parameter in parameters}
    assert set(keywords) == set(properties) - set(OTHERS[name]) - HIDDEN
    for option, parameter in keywords.items():
        schema = properties[option]
        default = parameter.default
        if default is inspect.Parameter.empty:
            assert option in json.loads(_pannier.schema(request_name))["required"]
        elif schema.get("type") == "boolean":
            assert default is False, option
        elif schema.get("type") == "array" and option not in ("slots", "query_embedding", "snippets"):
            assert default == (), option
        elif isinstance(default, str):
            # A default that has a value is the one that the request documents.
            assert f"[default: {default}]" in schema["description"], option
        else:
            assert default is None, option


def test_a_session_has_the_options_of_fit_chat() -> None:
    of_session = set(inspect.signature(pannier.ChatSession).parameters)
    of_function = set(inspect.signature(pannier.fit_chat).parameters)
    assert of_function - of_session == {"chat", "previous", "once"}
    assert of_session <= of_function


def test_every_public_function_has_a_docstring() -> None:
    for name in pannier.__all__:
        assert getattr(pannier, name).__doc__, name
