"""Chats that fit a token budget."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from . import _pannier
from ._errors import InternalError, InvalidInput
from ._options import Slots, Time, Tokens, options, run, warn

Chat = TypeVar("Chat")

# The fields of a request, by provider.
_MESSAGES = {"responses": "input", "gemini": "contents"}
_SYSTEM = {"anthropic": "system", "responses": "instructions", "gemini": "systemInstruction"}


def fit_chat(
    chat: Chat,
    *,
    budget: Tokens | None = None,
    model: str | None = None,
    tools: Sequence[Any] | None = None,
    system: Any = None,
    provider: str | None = None,
    from_: str | None = None,
    previous: Any = None,
    target: Tokens | None = None,
    reserve: Tokens | None = None,
    margin: float | None = None,
    slots: Slots | None = None,
    policy: str | Mapping[str, Any] | None = None,
    once: bool = False,
    cache_control: bool = False,
    now: Time | None = None,
    query: str | None = None,
    pin: Sequence[str] = (),
) -> Chat:
    """Fits a chat into a token budget, so that its provider accepts it.

    The chat is a list of messages, a whole request, or a string with the JSON of either or with a session log. The same
    kind comes back: messages that did not change are the same objects. Long blocks are cut, the oldest and least useful
    first; the task, the system prompt and the tools stay. ``once`` drops whole messages instead.

    >>> import pannier
    >>> messages = [
    ...     {"role": "user", "content": "Hello! I am looking for a book about bridges, or rather about two."},
    ...     {"role": "assistant", "content": "There are many. Old ones or new ones?"},
    ...     {"role": "user", "content": "Old ones."},
    ... ]
    >>> pannier.fit_chat(messages, budget=30, model="gpt-5", once=True)
    [{'role': 'user', 'content': 'Old ones.'}]
    >>> pannier.fit_chat(messages, budget=2)
    Traceback (most recent call last):
        ...
    pannier._errors.BudgetError: ...

    ``tools`` and ``system`` are counted if they are not part of the chat. ``model`` names a model, an encoding or
    ``file:PATH``; ``provider`` is ``openai``, ``anthropic``, ``responses`` or ``gemini``. Both are detected if possible.
    """
    given = options(
        budget=budget,
        model=model,
        provider=provider,
        from_=from_,
        previous=previous,
        target=target,
        reserve=reserve,
        margin=margin,
        slots=slots,
        policy=policy,
        once=once,
        cache_control=cache_control,
        now=now,
        query=query,
        pin=list(pin),
    )
    return _fit(chat, given, tools=tools, system=system)[0]


class ChatSession:
    """The requests of one agent session, each within a budget, with as long a common prefix as possible.

    The same history always gives the same request, so a session has no state but its options and the last history, which
    ``recall`` looks cut blocks up in.

    >>> import pannier
    >>> session = pannier.ChatSession(budget=1_000, model="gpt-5")
    >>> log = "\\n".join(f"line {number}: all is well" for number in range(500))
    >>> messages = [
    ...     {"role": "user", "content": "Is the service healthy?"},
    ...     {"role": "assistant", "tool_calls": [
    ...         {"id": "a", "type": "function", "function": {"name": "read_log", "arguments": "{}"}}]},
    ...     {"role": "tool", "tool_call_id": "a", "content": log},
    ... ]
    >>> request = session.fit(messages)
    >>> request[0] is messages[0], len(request[2]["content"]) < len(log)
    (True, True)
    >>> session.recall(session.cuts[0]["id"], lines="3-4")
    'line 2: all is well\\nline 3: all is well\\n'
    """

    def __init__(
        self,
        *,
        budget: Tokens | None = None,
        model: str | None = None,
        tools: Sequence[Any] | None = None,
        system: Any = None,
        provider: str | None = None,
        target: Tokens | None = None,
        reserve: Tokens | None = None,
        margin: float | None = None,
        slots: Slots | None = None,
        policy: str | Mapping[str, Any] | None = None,
        cache_control: bool = False,
        query: str | None = None,
    ) -> None:
        self._tools, self._system = tools, system
        self._options = options(
            budget=budget,
            model=model,
            provider=provider,
            target=target,
            reserve=reserve,
            margin=margin,
            slots=slots,
            policy=policy,
            cache_control=cache_control,
            query=query,
        )
        self._given = ""
        self.report: dict[str, Any] = {}
        """The last answer without its messages: ``tokens``, ``cuts``, ``repairs``, ``tokenizer``, ``is_batch``, …"""

    def fit(self, chat: Chat) -> Chat:
        """Fits the whole history, as :func:`fit_chat` does."""
        result, fitted = _fit(chat, self._options, tools=self._tools, system=self._system)
        self._given = fitted.given
        self.report = json.loads(fitted.report)
        self.report.pop("transcript", None)
        return result

    @property
    def cuts(self) -> list[dict[str, Any]]:
        """The blocks of the last request that are sent in a shorter form, each with its recall ``id``."""
        return cast("list[dict[str, Any]]", self.report.get("cuts", []))

    @property
    def tokens(self) -> int:
        """The tokens of the last request."""
        return cast(int, self.report.get("tokens", 0))

    def recall(
        self, id: str, *, lines: str | None = None, grep: str | None = None, budget: Tokens | None = None
    ) -> str:
        """Returns a block that the last request cut, or some lines of it, as in ``lines="10-40"``."""
        given = options(id=id, lines=lines, grep=grep, budget=budget, session=self._given or "[]")
        given.update({name: self._options[name] for name in ("tokenizer",) if name in self._options})
        return run("recall", given)[0]

    def explain(self, *ids: str) -> list[dict[str, Any]]:
        """Explains how messages of the last history are sent, by id or position."""
        fitted = _pannier.fit_chat(self._given, {**self._options, "explain": list(ids)})
        return cast("list[dict[str, Any]]", json.loads(fitted.report)["messages"])


def _fit(
    chat: Chat, given: dict[str, Any], *, tools: Sequence[Any] | None, system: Any
) -> tuple[Chat, _pannier.Fitted]:
    """Fits a chat, and returns it as the kind that was given, and how it was fitted."""
    if isinstance(chat, str):
        if tools is not None or system is not None:
            raise InvalidInput("tools and system belong to a list of messages; a text has its own", code="invalid_input")
        fitted = _pannier.fit_chat(chat, given)
        warn(fitted.warnings)
        return cast(Chat, fitted.text), fitted
    if isinstance(chat, Mapping):
        request = dict(chat)
        if tools is not None or system is not None:
            raise InvalidInput("tools and system belong to a list of messages; a request has its own", code="invalid_input")
        fitted = _pannier.fit_chat(request, given)
        warn(fitted.warnings)
        return cast(Chat, _request(request, fitted)), fitted
    if not isinstance(chat, (list, tuple)):
        kind = type(chat).__name__
        raise InvalidInput(f"chat is a {kind}; give a list of messages, a request, or a string", code="invalid_input")
    messages = chat if isinstance(chat, list) else list(chat)
    if tools is None and system is None:
        fitted = _pannier.fit_chat(messages, given)
        result = _messages(messages, fitted)
    else:
        request, field, added = _compose(messages, given.get("provider"), tools, system)
        fitted = _pannier.fit_chat(request, given)
        result = _messages(request[field], fitted)[added:]
    warn(fitted.warnings)
    return cast(Chat, type(chat)(result) if type(chat) in (list, tuple) else result), fitted


def _compose(
    messages: list[Any], provider: str | None, tools: Sequence[Any] | None, system: Any
) -> tuple[dict[str, Any], str, int]:
    """Returns a request, the field of its messages, and the number of messages that were added."""
    if provider is None:
        has_schema = any(isinstance(tool, Mapping) and "input_schema" in tool for tool in tools or ())
        provider = "anthropic" if has_schema else _pannier.detect(messages)
    field = _MESSAGES.get(provider, "messages")
    request: dict[str, Any] = {}
    added = 0
    if system is not None and provider in _SYSTEM:
        request[_SYSTEM[provider]] = {"parts": [{"text": system}]} if provider == "gemini" else system
    elif system is not None:
        messages, added = [{"role": "system", "content": system}, *messages], 1
    if tools is not None:
        request["tools"] = list(tools)
    request[field] = messages
    return request, field, added


def _messages(given: list[Any], fitted: _pannier.Fitted) -> list[Any]:
    messages = fitted.messages
    # Parsing all changed messages at once takes less time than one by one.
    changed = iter(json.loads(f"[{','.join(text for _, text in messages if text is not None)}]"))
    return [given[index] if text is None else _changed(given, index, next(changed)) for index, text in messages]  # type: ignore[index]


def _changed(given: list[Any], index: int | None, changed: Any) -> Any:
    """Returns a changed message as an object of its class."""
    source = given[index] if index is not None else None
    if source is None or isinstance(source, Mapping):
        return changed
    validate = getattr(type(source), "model_validate", None)
    if validate is not None:
        return validate(changed)
    if dataclasses.is_dataclass(source):
        names = {field.name for field in dataclasses.fields(source)}
        return dataclasses.replace(cast(Any, source), **{name: value for name, value in changed.items() if name in names})
    return changed


def _request(given: dict[str, Any], fitted: _pannier.Fitted) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, text, is_messages in fitted.fields or ():
        if text is not None:
            result[name] = json.loads(text)
        else:
            result[name] = _messages(given[name], fitted) if is_messages else given[name]
    return result


def fit_native(
    messages: Sequence[Any],
    encode: Any,
    rebuild: Any,
    *,
    provider: str,
    tools: Sequence[Any] | None = None,
    system: Any = None,
    **given: Any,
) -> list[Any]:
    """Fits messages of a framework, for adapters.

    ``encode`` returns a message as the provider has it. ``rebuild`` returns a copy of a message with what changed. Messages
    that did not change are the same objects.
    """
    encoded = [encode(message) for message in messages]
    request, _, added = _compose(encoded, provider, tools, system)
    fitted = _pannier.fit_chat(request, options(provider=provider, **given))
    warn(fitted.warnings)
    result: list[Any] = []
    for index, text in fitted.messages[added:]:
        if text is None:
            result.append(messages[cast(int, index) - added])
        elif index is not None:
            result.append(rebuild(messages[index - added], json.loads(text)))
        else:
            raise InternalError("a changed message is like none that was given", code="internal")
    return result
