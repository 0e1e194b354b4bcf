"""Chats: kinds in and out, sessions, errors."""

from __future__ import annotations

import dataclasses
import enum
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


def test_dataclasses_keep_the_objects_of_fields_that_did_not_change() -> None:
    class Role(enum.Enum):
        TOOL = "tool"

    @dataclasses.dataclass(frozen=True)
    class Text:
        text: str
        type: str = "text"

    @dataclasses.dataclass
    class Result:
        role: Role
        tool_call_id: str
        content: list[Text]
        note: str | None = dataclasses.field(default=None, init=False)

    result = Result(Role.TOOL, "a", [Text("short"), Text(LOG)])
    fitted: list[Any] = pannier.fit_chat([*MESSAGES[:2], result], budget=2_000, model="gpt-5")
    assert fitted[2].role is Role.TOOL and fitted[2].content[0] is result.content[0]
    assert isinstance(fitted[2].content[1], Text) and len(fitted[2].content[1].text) < len(LOG)
    assert result.content[1].text == LOG


def test_a_dataclass_is_a_request() -> None:
    @dataclasses.dataclass
    class Request:
        messages: list[Any]
        model: str = "gpt-5"

    request = Request(MESSAGES)
    fitted = pannier.fit_chat(request, budget=2_000)
    assert type(fitted) is Request and fitted.model == "gpt-5" and fitted.messages[0] is MESSAGES[0]
    assert len(fitted.messages[2]["content"]) < len(LOG) == len(request.messages[2]["content"])


def test_models_of_pydantic_are_messages_and_requests() -> None:
    pydantic = pytest.importorskip("pydantic", reason="models of pydantic; .ci/python --long tests them")
    role = enum.Enum("role", {"TOOL": "tool"})
    block = pydantic.create_model("block", text=(str, ...), type=(str, "text"))
    field = pydantic.Field(validation_alias="callId", serialization_alias="tool_call_id")
    result = pydantic.create_model("result", role=(role, role.TOOL), content=(list[block], ...), call=(str, field))  # type: ignore[valid-type]
    message = result(callId="a", content=[block(text="short"), block(text=LOG)])
    fitted: list[Any] = pannier.fit_chat([*MESSAGES[:2], message], budget=2_000, model="gpt-5")
    assert type(fitted[2]) is result and fitted[2].role is role.TOOL and fitted[2].call == "a"
    assert fitted[2].content[0] is message.content[0] and len(fitted[2].content[1].text) < len(LOG)
    request_class = pydantic.create_model("request", model=(str, "gpt-5"), messages=(list[Any], ...))
    request = request_class(messages=[*MESSAGES[:2], message])
    sent = pannier.fit_chat(request, budget=2_000)
    assert type(sent) is request_class and sent.messages[0] is request.messages[0]
    assert type(sent.messages[2]) is result and sent.messages[2].content[0] is message.content[0]


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


def test_a_session_has_nothing_before_its_first_request() -> None:
    for call in (lambda session: session.recall("00000000"), lambda session: session.explain(0)):
        with pytest.raises(pannier.InvalidInput, match="call fit first"):
            call(pannier.ChatSession(budget=10))


def test_a_session_may_have_a_policy_for_single_requests() -> None:
    session = pannier.ChatSession(budget=100, model="gpt-5", policy="transcript")
    messages = [{"role": "user", "content": f"question {number}"} for number in range(40)]
    fitted = session.fit(messages)
    assert 0 < len(fitted) < 40 and 0 < session.tokens <= 100
    assert [one["decision"]["decision"] for one in session.explain(0, "39")] == ["excluded", "included"]


def conversation() -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": f"message {number}, of some words"} for number in range(20)]
    return [*messages, *MESSAGES]


@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic"])
@pytest.mark.parametrize("name", ["2", "#2", "message-2"])
def test_positions_are_those_of_the_messages_next_to_a_system_prompt(provider: str, name: str) -> None:
    messages = conversation()[:20]
    options: dict[str, Any] = {"budget": 150, "model": "gpt-5", "provider": provider, "once": True, "pin": [name]}
    for system in (None, "Be brief."):
        fitted = pannier.fit_chat(messages, system=system, **options)
        assert any(message is messages[2] for message in fitted), system
        assert not any(message is messages[1] for message in fitted), system


def test_cuts_and_explanations_are_of_the_messages_next_to_a_system_prompt() -> None:
    messages = conversation()
    reports = []
    for system in (None, "Be brief."):
        session = pannier.ChatSession(budget=2_000, model="gpt-5", provider="openai", system=system)
        assert session.fit(messages)[22] is not messages[22]
        assert [cut["message"] for cut in session.cuts] == [22]
        assert session.recall(session.cuts[0]["id"], budget="32k") == LOG
        explained = session.explain("22", 0, "message-1")
        assert [one["id"] for one in explained] == ["message-22", "message-0", "message-1"]
        assert [cut["message"] for cut in explained[0]["cuts"]] == [22]
        reports.append(explained)
    assert [one["tokens_before"] for one in reports[0]] == [one["tokens_before"] for one in reports[1]]
    assert session.explain("system")[0]["id"] == "system"


def test_errors_name_the_messages_next_to_a_system_prompt() -> None:
    for system in (None, "Be brief."):
        for message in ({"role": "user", "content": float("nan")}, {"role": "nobody", "content": "a"}):
            with pytest.raises(pannier.InvalidInput) as raised:
                pannier.fit_chat([*MESSAGES, message], budget=2_000, provider="openai", system=system)
            assert "[3]" in str(raised.value) and "[4]" not in str(raised.value)
    with pytest.raises(pannier.InvalidInput, match="^system"):
        pannier.fit_chat(MESSAGES, budget=2_000, provider="openai", system=float("nan"))


def test_a_previous_list_has_the_same_system_prompt() -> None:
    messages = conversation()[:19]
    tools = [{"type": "function", "function": {"name": "f", "description": "word", "parameters": {}}}]
    options: dict[str, Any] = {"budget": 200, "model": "gpt-5", "provider": "openai", "system": "Be brief.", "tools": tools}
    first = pannier.fit_chat(messages, once=True, **options)
    composed = {"tools": tools, "messages": [{"role": "system", "content": "Be brief."}, *first]}
    more = [*messages, *conversation()[19:21]]
    assert pannier.fit_chat(more, previous=first, **options) == pannier.fit_chat(more, previous=composed, **options)
    with pytest.raises(pannier.InvalidInput, match=r"messages\[0\]"):
        pannier.fit_chat(more, previous=[{"role": "nobody", "content": "a"}], **options)


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
