"""Packs the right context into a model's window.

>>> import pannier
>>> messages = [{"role": "user", "content": "Hello!"}]
>>> pannier.fit_chat(messages, budget=8_000, model="gpt-5") == messages
True
"""

from __future__ import annotations

from ._chat import ChatSession, fit_chat
from ._errors import (
    BudgetError,
    CheckFailed,
    Error,
    FileError,
    IndexInvalid,
    IndexMissing,
    InternalError,
    InvalidInput,
)
from ._index import Citation, Context, Index
from ._pack import Selection, pack
from ._texts import count, memory, snippets

__all__ = [
    "BudgetError",
    "ChatSession",
    "CheckFailed",
    "Citation",
    "Context",
    "Error",
    "FileError",
    "Index",
    "IndexInvalid",
    "IndexMissing",
    "InternalError",
    "InvalidInput",
    "Selection",
    "count",
    "fit_chat",
    "memory",
    "pack",
    "snippets",
]
