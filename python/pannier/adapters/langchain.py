"""LangChain: ``trim_messages`` with valid results, and middleware for agents.

>>> from pannier.adapters.langchain import trim_messages
>>> trimmer = trim_messages(max_tokens=8_000, model="gpt-5")    # a Runnable
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage, convert_to_messages
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableLambda
from langchain_core.utils.function_calling import convert_to_openai_tool

from .._chat import fit_native

_ROLES = {"human": "user", "ai": "assistant"}


def trim_messages(messages: Any = None, *, max_tokens: int, model: str | None = None, **options: Any) -> Any:
    """Returns the messages that fit, as ``langchain_core.messages.trim_messages`` does. Without messages, a ``Runnable``.

    Tool calls keep their results, and the first message is one that providers accept. Options are those of
    :func:`pannier.fit_chat`; ``once=False`` cuts long blocks in place of dropping messages.
    """
    options.setdefault("once", True)

    def trim(messages: Any) -> list[BaseMessage]:
        if isinstance(messages, PromptValue):
            messages = messages.to_messages()
        return _fit(convert_to_messages(messages), budget=max_tokens, model=model, **options)

    return RunnableLambda(trim, name="trim_messages") if messages is None else trim(messages)


class PannierMiddleware(AgentMiddleware[Any, Any, Any]):
    """Fits every request of an agent into a budget: messages, system prompt and tools. The agent's state stays whole."""

    def __init__(self, *, budget: int | str, model: str | None = None, **options: Any) -> None:
        super().__init__()
        self._options = {"budget": budget, "model": model, **options}

    def fit(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Returns the request with the messages that fit."""
        system = request.system_message
        tools = [convert_to_openai_tool(tool) for tool in request.tools]
        messages: list[AnyMessage] = _fit(
            request.messages, system=system.text if system else None, tools=tools or None, **self._options
        )
        return request.override(messages=messages)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Calls the model with what fits."""
        return handler(self.fit(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Calls the model with what fits."""
        return await handler(self.fit(request))


def _fit(messages: Sequence[BaseMessage], **options: Any) -> list[Any]:
    return fit_native(messages, _encode, _rebuild, provider="openai", **options)


def _encode(message: BaseMessage) -> dict[str, Any]:
    if not isinstance(message.content, str):
        return convert_to_openai_messages(message)
    encoded: dict[str, Any] = {"role": _ROLES.get(message.type, message.type), "content": message.content}
    if isinstance(message, ToolMessage):
        encoded["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage) and message.tool_calls:
        # An empty text next to calls would be repaired, which changes the message.
        encoded["content"] = message.content or None
        encoded["tool_calls"] = [
            {"id": call["id"], "type": "function",
             "function": {"name": call["name"], "arguments": json.dumps(call["args"], ensure_ascii=False)}}
            for call in message.tool_calls
        ]
    return encoded


def _rebuild(message: BaseMessage, changed: dict[str, Any]) -> BaseMessage:
    update: dict[str, Any] = {"content": changed.get("content") or ""}
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = {call["id"]: call["function"]["arguments"] for call in changed.get("tool_calls", ())}
        update["tool_calls"] = [
            {**call, "args": json.loads(calls[call["id"]])} for call in message.tool_calls if call["id"] in calls
        ]
    return message.model_copy(update=update)
