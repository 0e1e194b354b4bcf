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

from pydantic_ai.messages import BinaryContent, CachePoint, ImageUrl, ModelMessage, ModelRequest, TextPart, ThinkingPart
from pydantic_ai.messages import ToolCallPart, ToolReturnPart, UserPromptPart

from .._chat import adapter_options, fit_native


def fit_history(*, budget: int | str, model: str | None = None, **options: Any) -> Callable[[list[ModelMessage]], list[ModelMessage]]:
    """Returns a history processor. Options are those of :func:`pannier.fit_chat`."""
    adapter_options(options)

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
    return {"role": role, "content": [block for part in message.parts for block in _blocks(part)]}


def _blocks(part: Any) -> list[dict[str, Any]]:
    """Returns the blocks of a part: one, or one for each content of a prompt."""
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        return [_content(content) for content in part.content if not isinstance(content, CachePoint)]
    if isinstance(part, ToolCallPart):
        return [{"type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}]
    if isinstance(part, ThinkingPart):
        return [{"type": "thinking", "thinking": part.content, "signature": part.signature or ""}]
    if isinstance(part, ToolReturnPart):
        return [{"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response_str()}]
    if getattr(part, "tool_name", None) and hasattr(part, "model_response"):
        return [{"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response()}]
    return [_content(getattr(part, "content", part))]


def _content(content: Any) -> dict[str, Any]:
    """Returns a text, or an image, which counts as one. Other media have no tokens that are known."""
    if isinstance(content, ImageUrl):
        return {"type": "image", "source": {"type": "url", "url": content.url}}
    if isinstance(content, BinaryContent) and content.is_image:
        return {"type": "image", "source": {"type": "base64", "media_type": content.media_type, "data": content.base64}}
    text = getattr(content, "content", content)
    return {"type": "text", "text": (text if isinstance(text, str) else f"[{type(content).__name__}]") or " "}


def _rebuild(message: ModelMessage, changed: dict[str, Any]) -> ModelMessage:
    """Returns a copy with the texts, arguments and results that changed. A note about omitted turns is a part of its own."""
    blocks = changed["content"]
    blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
    by_id = {_id(block): block for block in blocks if _id(block)}
    others = iter([block for block in blocks if not _id(block)])
    parts: list[Any] = []
    for part in message.parts:
        before = _blocks(part)
        after = [by_id.get(_id(block)) if _id(block) else next(others, None) for block in before]
        if after == before:
            parts.append(part)
        elif None not in after:
            parts.append(_changed(part, after))
    new_part = UserPromptPart if isinstance(message, ModelRequest) else TextPart
    parts += [new_part(block["text"]) for block in others]
    own: Any = message
    changed_message: ModelMessage = replace(own, parts=parts)
    return changed_message


def _id(block: dict[str, Any]) -> str | None:
    return block.get("tool_use_id") or block.get("id")


def _changed(part: Any, blocks: list[Any]) -> Any:
    if isinstance(part, ToolCallPart):
        return replace(part, args=json.dumps(blocks[0]["input"]))
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        own = iter(blocks)
        after = [(content, None if isinstance(content, CachePoint) else next(own)) for content in part.content]
        content = [block["text"] if block and "text" in block and _content(old) != block else old for old, block in after]
        return replace(part, content=content)
    return replace(part, content=blocks[0].get("content", blocks[0].get("text", "")))
