"""Messages of LangChain as those of OpenAI, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.utils import convert_to_openai_messages

from .._chat import fit_native

_ROLES = {"human": "user", "ai": "assistant"}
# One encoder for all calls: making it takes longer than its work.
_to_json = json.JSONEncoder(ensure_ascii=False).encode


def fit_messages(messages: Sequence[BaseMessage], **options: Any) -> list[Any]:
    """Fits messages. Those that did not change are the same objects."""
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
             "function": {"name": call["name"], "arguments": _to_json(call["args"])}}
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
