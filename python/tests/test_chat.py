"""Chats: kinds in and out, sessions, errors."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pannier
import pytest

LOG = "\n".join(f"line {number}: all is well" for number in range(2_000))
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Is the service healthy?"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read_log", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "a", "content": LOG},
]


def test_lists_give_lists_with_the_same_objects() -> None:
    fitted = pannier.fit_chat(MESSAGES, budget=2_000, model="gpt-5")
    assert isinstance(fitted, list) and len(fitted) == 3
    assert fitted[0] is MESSAGES[0] and fitted[1] is MESSAGES[1]
    assert fitted[2]["tool_call_id"] == "a" and len(fitted[2]["content"]) < len(LOG)


@pytest.mark.parametrize("once", [False, True])
def test_unchanged_messages_among_many_are_the_same_objects(once: bool) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read all logs."}]
    for number in range(600):
        function = {"name": "read_log", "arguments": "{}"}
        # Some messages repeat, with the same ids.
        call = {"id": f"call_{number // 2}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"log {number % 7}: well\n" * 40})
    options: dict[str, Any] = {"budget": 20_000, "model": "bytes/4", "provider": "openai", "once": once}
    fitted = pannier.fit_chat(messages, **options)
    assert fitted == json.loads(pannier.fit_chat(json.dumps(messages, separators=(",", ":")), **options))
    positions = {id(message): position for position, message in enumerate(messages)}
    same = [positions[id(message)] for message in fitted if id(message) in positions]
    assert same == sorted(set(same)) and len(same) > 100
    assert all(id(message) in positions for message in fitted if message in messages)


def test_tuples_give_tuples() -> None:
    assert pannier.fit_chat(tuple(MESSAGES[:1]), budget=100) == tuple(MESSAGES[:1])


def test_requests_give_requests_with_every_field_in_order() -> None:
    tools = [{"type": "function", "function": {"name": "read_log"}}]
    request = {"model": "gpt-5", "tools": tools, "temperature": 0.25, "seed": 2**70, "messages": MESSAGES}
    fitted = pannier.fit_chat(request, budget=2_000)
    assert list(fitted) == list(request)
    assert fitted["tools"] is tools and fitted["seed"] == 2**70
    assert fitted["messages"][0] is MESSAGES[0]
    assert request["messages"] is MESSAGES and len(MESSAGES[2]["content"]) == len(LOG)


def test_texts_give_texts() -> None:
    text = json.dumps(MESSAGES[:1])
    assert pannier.fit_chat(text, budget=100) == text


def test_dataclasses_give_dataclasses() -> None:
    @dataclasses.dataclass
    class Message:
        role: str
        content: str | None = None
        tool_call_id: str | None = None
        tool_calls: list[Any] | None = None

    messages = [Message(**message) for message in MESSAGES]
    fitted = pannier.fit_chat(messages, budget=2_000, model="gpt-5")
    assert fitted[0] is messages[0]
    assert isinstance(fitted[2], Message) and fitted[2].content is not None and len(fitted[2].content) < len(LOG)


def test_system_and_tools_are_counted_and_not_returned() -> None:
    messages = [{"role": "user", "content": f"question {number}"} for number in range(3)]
    alone = pannier.ChatSession(budget=10_000, model="gpt-5")
    alone.fit(messages)
    tools = [{"type": "function", "function": {"name": "f", "description": "word " * 500, "parameters": {}}}]
    session = pannier.ChatSession(budget=10_000, model="gpt-5", system="Be brief. " * 100, tools=tools)
    assert session.fit(messages) == messages
    assert session.tokens > alone.tokens + 600
    for provider in ("openai", "anthropic", "responses"):
        assert pannier.fit_chat(messages, budget=10_000, system="Be brief.", provider=provider) == messages


def test_gemini_has_a_system_instruction() -> None:
    contents = [{"role": "user", "parts": [{"text": "Hello!"}]}]
    assert pannier.fit_chat(contents, budget=1_000, system="Be brief.") == contents


def test_a_session_recalls_and_explains() -> None:
    session = pannier.ChatSession(budget=2_000, model="gpt-5")
    session.fit(MESSAGES)
    assert session.report["tokenizer"] == "o200k" and "transcript" not in session.report
    assert session.recall(session.cuts[0]["id"], lines="2") == "line 1: all is well\n"
    assert session.recall(session.cuts[0]["id"], grep="line 7:").strip() == "line 7: all is well"
    with pytest.raises(pannier.BudgetError):
        session.recall(session.cuts[0]["id"], budget=10)
    with pytest.raises(pannier.InvalidInput, match="no block has the recall id"):
        session.recall("00000000")
    explained = session.explain("2")
    assert explained[0]["tokens_after"] < explained[0]["tokens_before"]


def test_a_session_recalls_nothing_before_its_first_request() -> None:
    with pytest.raises(pannier.Error):
        pannier.ChatSession(budget=10).recall("00000000")


def test_a_budget_error_says_what_is_needed() -> None:
    with pytest.raises(pannier.BudgetError) as raised:
        pannier.fit_chat(MESSAGES, budget=5, model="gpt-5")
    needed = raised.value.needed
    assert needed is not None and raised.value.code == "budget_not_met"
    assert f"raise budget to at least {needed}" == raised.value.advice and raised.value.advice in str(raised.value)
    pannier.fit_chat(MESSAGES, budget=needed, model="gpt-5")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "there is no budget; add budget, as in 8000"),
        ({"budget": 100, "provider": "openia"}, "provider"),
        ({"budget": 100, "model": "gpt-99-unknown"}, "gpt-99-unknown"),
        ({"budget": -1}, "budget is -1; it must be 0 or more"),
        ({"budget": 100, "policy": "nonsense"}, "nonsense"),
    ],
)
def test_mistakes_are_named_in_the_words_of_python(options: dict[str, Any], message: str) -> None:
    with pytest.raises(pannier.InvalidInput) as raised:
        pannier.fit_chat(MESSAGES[:1], **options)
    assert message in str(raised.value)
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, pannier.Error)


def test_unknown_keywords_are_type_errors() -> None:
    with pytest.raises(TypeError):
        pannier.fit_chat(MESSAGES, bugdet=100)  # type: ignore[call-arg]


def test_a_previous_request_is_any_chat() -> None:
    messages = [{"role": role, "content": f"{role} {number}"} for number in range(20) for role in ("user", "assistant")]
    messages.append({"role": "user", "content": "last"})
    first = pannier.fit_chat(messages, budget=100, model="gpt-5", once=True)
    second = pannier.fit_chat(messages, budget=100, model="gpt-5", previous=first)
    assert second == pannier.fit_chat(messages, budget=100, model="gpt-5", previous=json.dumps(first))
    assert set(map(str, first)) <= set(map(str, second))
    with pytest.raises(pannier.InvalidInput, match="previous"):
        pannier.fit_chat(messages, budget=100, previous=[{"role": 3}])
