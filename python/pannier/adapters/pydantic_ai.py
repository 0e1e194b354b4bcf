"""pydantic-ai: a history processor within a token budget.

>>> from pydantic_ai.capabilities import ProcessHistory
>>> from pannier.adapters.pydantic_ai import fit_history
>>> capability = ProcessHistory(fit_history(budget=100_000, model="gpt-5"))
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from .._chat import fit_native


def fit_history(*, budget: int | str, model: str | None = None, **options: Any) -> Callable[[list[ModelMessage]], list[ModelMessage]]:
    """Returns a history processor. Options are those of :func:`pannier.fit_chat`."""

    def fit(messages: list[ModelMessage]) -> list[ModelMessage]:
        instructions = [message.instructions for message in messages if isinstance(message, ModelRequest)]
        system = next((text for text in reversed(instructions) if text), None)
        return fit_native(
            messages, _encode, _rebuild, provider="anthropic", system=system, budget=budget,
            model=model or "o200k", **options,
        )

    return fit


def _encode(message: ModelMessage) -> dict[str, Any]:
    """Returns a message of Anthropic, whose blocks are like the parts here."""
    role = "user" if isinstance(message, ModelRequest) else "assistant"
    return {"role": role, "content": [_block(part, number) for number, part in enumerate(message.parts)]}


def _block(part: Any, number: int) -> dict[str, Any]:
    if isinstance(part, (SystemPromptPart, TextPart)):
        return {"type": "text", "text": part.content or " "}
    if isinstance(part, UserPromptPart):
        texts = [part.content] if isinstance(part.content, str) else [_text(content) for content in part.content]
        return {"type": "text", "text": "\n".join(texts) or " "}
    if isinstance(part, ToolCallPart):
        arguments = part.args_as_dict()
        return {"type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": arguments}
    if isinstance(part, ThinkingPart):
        return {"type": "thinking", "thinking": part.content, "signature": part.signature or ""}
    if isinstance(part, ToolReturnPart):
        return {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response_str()}
    if getattr(part, "tool_name", None) and hasattr(part, "model_response"):
        return {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response()}
    return {"type": "text", "text": _text(getattr(part, "content", part)) or " "}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else repr(content)


def _rebuild(message: ModelMessage, changed: dict[str, Any]) -> ModelMessage:
    """Returns a copy with the texts, arguments and results that changed. A note about omitted turns is a part of its own."""
    before = [_block(part, number) for number, part in enumerate(message.parts)]
    blocks = changed["content"]
    parts: list[Any] = list(message.parts)
    blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
    for number, (part, old, new) in enumerate(zip(message.parts, before, blocks)):
        if old == new:
            continue
        if isinstance(part, ToolCallPart):
            parts[number] = replace(part, args=json.dumps(new["input"]))
        else:
            parts[number] = replace(part, content=new.get("content", new.get("text", "")))
    parts += [UserPromptPart(block["text"]) for block in blocks[len(before) :]]
    own: Any = message
    changed_message: ModelMessage = replace(own, parts=parts)
    return changed_message
