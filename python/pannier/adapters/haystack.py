"""Haystack: components that fit documents and chat messages into a token budget.

>>> from pannier.adapters.haystack import DocumentPacker
>>> packer = DocumentPacker(budget=2_000, model="gpt-5")
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from haystack import Document, component
from haystack.dataclasses import ChatMessage, TextContent, ToolCall, ToolCallResult

from .._chat import fit_native
from .._pack import pack


@component
class DocumentPacker:
    """Selects the documents that fit a token budget, without duplicates, in order of their scores."""

    def __init__(self, budget: int | str, model: str | None = None, policy: str = "rag") -> None:
        self.budget = budget
        self.model = model
        self.policy = policy

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], query: str | None = None) -> dict[str, list[Document]]:
        """Returns the documents that fit. Documents without a text are left out."""
        texts = [document for document in documents if document.content]
        selection = pack(texts, budget=self.budget, query=query, model=self.model, policy=self.policy)
        return {"documents": selection.items}


@component
class ChatFitter:
    """Fits chat messages into a token budget, so that the provider accepts them."""

    def __init__(self, budget: int | str, model: str | None = None, once: bool = False) -> None:
        self.budget = budget
        self.model = model
        self.once = once

    @component.output_types(messages=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, list[ChatMessage]]:
        """Returns the messages that fit. Those that did not change are the same objects."""
        fitted = fit_native(
            messages, _encode, _rebuild, provider="openai", budget=self.budget, model=self.model, once=self.once
        )
        return {"messages": fitted}


def _encode(message: ChatMessage) -> dict[str, Any]:
    return message.to_openai_dict_format(require_tool_call_ids=False)


def _rebuild(message: ChatMessage, changed: dict[str, Any]) -> ChatMessage:
    """Returns a copy with other texts and arguments. All else, such as the origin of a result, is that of the message."""
    content = changed.get("content") or []
    content = [{"text": content}] if isinstance(content, str) else content
    texts = iter([part["text"] for part in content if "text" in part])
    arguments = iter([call["function"]["arguments"] for call in changed.get("tool_calls") or ()])

    def own(part: Any) -> Any:
        if isinstance(part, TextContent):
            return replace(part, text=next(texts, ""))
        if isinstance(part, ToolCall):
            return replace(part, arguments=json.loads(next(arguments, "{}")))
        if isinstance(part, ToolCallResult):
            is_text = isinstance(part.result, str)
            return replace(part, result=next(texts, "") if is_text else [own(one) for one in part.result])
        return part

    return replace(message, _content=[own(part) for part in message._content])
