"""Chats that fit a token budget."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
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

    The chat is a list of messages, a whole request, or a string with the JSON of either or with a session log. Messages and
    requests are dicts, data classes or models of pydantic. The same kind comes back: messages that did not change are the
    same objects. Long blocks are cut, the oldest and least useful
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
        from_: str | None = None,
        target: Tokens | None = None,
        reserve: Tokens | None = None,
        margin: float | None = None,
        slots: Slots | None = None,
        policy: str | Mapping[str, Any] | None = None,
        cache_control: bool = False,
        now: Time | None = None,
        query: str | None = None,
        pin: Sequence[str] = (),
    ) -> None:
        self._tools, self._system = tools, system
        self._options = options(
            budget=budget,
            model=model,
            provider=provider,
            from_=from_,
            target=target,
            reserve=reserve,
            margin=margin,
            slots=slots,
            policy=policy,
            cache_control=cache_control,
            now=now,
            query=query,
            pin=list(pin),
        )
        self._request: _Request | None = None
        self._given = ""
        self.report: dict[str, Any] = {}
        """The last answer without its messages: ``tokens``, ``cuts``, ``repairs``, ``tokenizer``, ``is_batch``, …"""

    def fit(self, chat: Chat) -> Chat:
        """Fits the whole history, as :func:`fit_chat` does."""
        result, fitted, request = _fit(chat, self._options, tools=self._tools, system=self._system)
        self._request, self._given = request, fitted.given
        self.report = request.own_positions(json.loads(fitted.report))
        self.report.pop("transcript", None)
        return result

    @property
    def cuts(self) -> list[dict[str, Any]]:
        """The blocks of the last request that are sent in a shorter form, each with its recall ``id``."""
        return cast("list[dict[str, Any]]", self.report.get("cuts", []))

    @property
    def tokens(self) -> int:
        """The tokens of the last request."""
        totals = self.report.get("totals", {})
        return cast(int, self.report.get("tokens", totals.get("tokens", 0)))

    def recall(
        self, id: str, *, lines: str | None = None, grep: str | None = None, budget: Tokens | None = None
    ) -> str:
        """Returns a block that the last request cut, or some lines of it, as in ``lines="10-40"``."""
        self._last()
        given = options(id=id, lines=lines, grep=grep, budget=budget, session=self._given)
        given.update({name: self._options[name] for name in ("tokenizer",) if name in self._options})
        return run("recall", given)[0]

    def explain(self, *ids: str | int) -> list[dict[str, Any]]:
        """Explains how messages of the last history are sent, by id or position."""
        request = self._last()
        fitted = request.run({**self._options, "explain": [str(id) for id in ids]}, self._given)
        answer = json.loads(fitted.report)
        explained = answer["messages"] if "messages" in answer else answer["explanations"]
        return cast("list[dict[str, Any]]", request.own_positions(explained))

    def _last(self) -> _Request:
        if self._request is None:
            raise InvalidInput("no request was fitted yet; call fit first", code="invalid_input")
        return self._request


def _fit(
    chat: Chat, given: dict[str, Any], *, tools: Sequence[Any] | None, system: Any
) -> tuple[Chat, _pannier.Fitted, _Request]:
    """Fits a chat, and returns it as the kind that was given, and how it was fitted."""
    is_list = isinstance(chat, (list, tuple))
    if not is_list and (tools is not None or system is not None):
        kind = "text" if isinstance(chat, str) else "request"
        raise InvalidInput(f"tools and system belong to a list of messages; a {kind} has its own", code="invalid_input")
    if is_list:
        messages = list.copy(chat) if isinstance(chat, list) else list(cast("tuple[Any, ...]", chat))
        request = _Request(messages, given.get("provider"), tools, system)
        fitted = request.run(given)
        result: Any = [
            message if text is None else _changed(message, fitted, index, text)
            for index, message, text in request.sent(messages, fitted)
        ]
        result = tuple(result) if type(chat) is tuple else result
    else:
        names = _fields(chat)
        if not isinstance(chat, (str, Mapping)) and names is None:
            kind = type(chat).__name__
            raise InvalidInput(f"chat is a {kind}; give a list of messages, a request, or a string", code="invalid_input")
        request = _Request(chat, None, None, None)
        fitted = request.run(given, _values(chat, names) if names else None)
        result = fitted.text if isinstance(chat, str) else _sent_request(chat, names, fitted)
    warn(fitted.warnings)
    return cast(Chat, result), fitted, request


class _Request:
    """A chat as it is sent. A list of messages becomes a request if it has tools or a system prompt.

    The system prompt of OpenAI is a message, which the caller does not know: positions are those of the caller's messages.
    """

    def __init__(self, chat: Any, provider: str | None, tools: Sequence[Any] | None, system: Any) -> None:
        self.chat, self.added, self.field = chat, 0, ""
        self._tools, self._system = tools, system
        if tools is None and system is None:
            return
        if provider is None:
            has_schema = any(isinstance(tool, Mapping) and "input_schema" in tool for tool in tools or ())
            provider = "anthropic" if has_schema else _pannier.detect(chat)
        self.field = _MESSAGES.get(provider, "messages")
        self._provider = provider
        self.added = int(system is not None and provider not in _SYSTEM)
        self.chat = self._compose(chat)

    def _compose(self, messages: Sequence[Any]) -> dict[str, Any]:
        request: dict[str, Any] = {}
        if self.added:
            messages = [{"role": "system", "content": self._system}, *messages]
        elif self._system is not None:
            is_gemini = self._provider == "gemini"
            request[_SYSTEM[self._provider]] = {"parts": [{"text": self._system}]} if is_gemini else self._system
        if self._tools is not None:
            request["tools"] = list(self._tools)
        request[self.field] = messages
        return request

    def run(self, given: dict[str, Any], chat: Any = None) -> _pannier.Fitted:
        """Fits the chat, or what is given in its place, with options that speak of the caller's messages."""
        previous = given.get("previous")
        if self.field and isinstance(previous, (list, tuple)):
            given = {**given, "previous": self._compose(list(previous))}
        if self.added:
            names = {name: [self._name(one, self.added) for one in given.get(name, ())] for name in ("pin", "explain")}
            given = {**given, **names}
        try:
            return _pannier.fit_chat(self.chat if chat is None else chat, given)
        except InvalidInput as error:
            if not self.field:
                raise
            path = re.compile(rf"(chat\.{self.field}|previous\.{self.field}|messages)\[(\d+)\]")
            message = path.sub(self._own_path, error.message)
            raise InvalidInput(message, code=error.code, advice=error.advice) from error.__cause__

    def _own_path(self, match: re.Match[str]) -> str:
        position = int(match[2]) - self.added
        return f"{match[1].partition('.')[0]}[{position}]" if position >= 0 else "system"

    @staticmethod
    def _name(name: Any, shift: int) -> Any:
        """Returns the name of a message, by id or position, in the other numbering."""
        if name == "system":
            return "message-0"
        found = re.fullmatch(r"(#|message-|)(\d+)", name) if isinstance(name, str) else None
        if found is None:
            return name
        position = int(found[2]) + shift
        return f"{found[1]}{position}" if position >= 0 else "system"

    def own_positions(self, answer: Any) -> Any:
        """Returns an answer with the positions of the caller's messages."""
        if not self.added:
            return answer
        if isinstance(answer, list):
            return [self.own_positions(one) for one in answer]
        if not isinstance(answer, dict):
            return answer
        if answer.keys() == {"message", "block"} and answer["message"] < self.added:
            return None
        own = {key: self.own_positions(value) for key, value in answer.items()}
        for key in ("message", "index"):
            if isinstance(own.get(key), int):
                own[key] -= self.added
        if str(own.get("id", "")).startswith("message-"):
            own["id"] = self._name(own["id"], -self.added)
        return own

    def sent(self, messages: list[Any], fitted: _pannier.Fitted) -> list[tuple[int | None, Any, Any]]:
        """Returns the messages of the result: each with its position and what was given, if known, and its JSON if it changed."""
        kept = fitted.messages[self.added :]
        # Parsing all changed messages at once takes less time than one by one.
        changed = iter(json.loads(f"[{','.join(text for _, text in kept if text is not None)}]"))
        return [
            (index, None if index is None else messages[index - self.added], None if text is None else next(changed))
            for index, text in kept
        ]


def _changed(message: Any, fitted: _pannier.Fitted, index: int | None, changed: Any) -> Any:
    """Returns a changed message as an object of its class."""
    if index is None or isinstance(message, Mapping):
        return changed
    return _updated(message, json.loads(fitted.given_message(index)), changed)


def _updated(value: Any, before: Any, after: Any) -> Any:
    """Returns a value with what differs between two of its JSON forms. All else is the same object."""
    if before == after:
        return value
    if isinstance(after, list) and isinstance(before, list) and isinstance(value, (list, tuple)):
        kept = [_updated(*three) for three in zip(value, before, after)]
        return type(value)([*kept, *after[len(kept) :]]) if type(value) in (list, tuple) else after
    names = _fields(value)
    if names is None or not isinstance(after, dict) or not isinstance(before, dict):
        return after
    update = {}
    for key in {**before, **after}:
        if key in names and before.get(key) != after.get(key):
            update[names[key]] = _updated(getattr(value, names[key]), before.get(key), after.get(key))
    return _replaced(value, update)


def _fields(value: Any) -> dict[str, str] | None:
    """Returns the attributes of a data class or a model of pydantic, by their names in JSON."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return {field.name: field.name for field in dataclasses.fields(value)}
    fields = getattr(type(value), "model_fields", None)
    if not isinstance(fields, Mapping) or not hasattr(type(value), "model_copy"):
        return None
    names = {getattr(field, "serialization_alias", None) or name: name for name, field in fields.items()}
    return {**names, **{name: name for name in getattr(value, "model_extra", None) or ()}}


def _values(value: Any, names: dict[str, str]) -> dict[str, Any]:
    """Returns a data class or a model as a dict, as it is sent."""
    if hasattr(type(value), "model_dump"):
        return cast("dict[str, Any]", value.model_dump(mode="json", by_alias=True, exclude_none=True))
    values = {key: getattr(value, name) for key, name in names.items()}
    return {key: own for key, own in values.items() if own is not None}


def _replaced(value: Any, update: dict[str, Any]) -> Any:
    """Returns a copy with other attributes. It neither validates nor converts, as the rest is the caller's own."""
    if hasattr(type(value), "model_copy"):
        return value.model_copy(update=update)
    changed = copy.copy(value)
    for name, own in update.items():
        # A frozen data class refuses the plain assignment, and some fields are no parameters.
        object.__setattr__(changed, name, own)
    return changed


def _sent_request(given: Any, names: dict[str, str] | None, fitted: _pannier.Fitted) -> Any:
    """Returns a request with the fields and messages that are sent."""
    result: dict[str, Any] = {}
    for name, text, is_messages in fitted.fields or ():
        own: Any = given.get(name) if names is None else getattr(given, names.get(name, name), None)
        if is_messages:
            sent = _Request(None, None, None, None).sent(own, fitted)
            own = [message if text is None else _changed(message, fitted, index, text) for index, message, text in sent]
        elif text is not None:
            own = _updated(own, json.loads(fitted.given).get(name), json.loads(text))
        result[name] = own
    if names is None:
        return result
    return _replaced(given, {names[key]: own for key, own in result.items() if key in names})


def adapter_options(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of an adapter, which are those of :func:`fit_chat`."""
    for name in given:
        if name not in (fit_chat.__kwdefaults__ or {}):
            raise InvalidInput(f"there is no option {name!r}; options are those of pannier.fit_chat", code="invalid_input")
    return given


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
    request = _Request([encode(message) for message in messages], provider, tools, system)
    fitted = request.run(options(provider=provider, **adapter_options(given)))
    warn(fitted.warnings)
    result: list[Any] = []
    for index, message, changed in request.sent(list(messages), fitted):
        if index is None:
            raise InternalError("a changed message is like none that was given", code="internal")
        result.append(message if changed is None else rebuild(message, changed))
    return result
