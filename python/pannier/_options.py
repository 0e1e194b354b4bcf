"""Options of requests: Python's names and values to those of the library."""

from __future__ import annotations

import datetime
import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Union

from . import _pannier

Tokens = Union[int, str]
"""A number of tokens: ``8000``, ``"8k"`` or ``"1.5m"``."""

Time = Union[str, datetime.datetime, datetime.date]
"""A date or a time: a string as in ``"2026-03-01T12:00:00Z"``, or an object."""

Slots = Union[Mapping[str, Tokens], Sequence[str]]
"""Tokens for items of a kind: ``{"Document": 500}``, or ``["Document=500"]``."""

# Two options have other names here: `from` is a keyword, and people think of models.
_NAMES = {"from_": "from", "model": "tokenizer"}


def options(**given: Any) -> dict[str, Any]:
    """Returns the options of a request."""
    slots = given.get("slots")
    if isinstance(slots, Mapping):
        given["slots"] = [f"{kind}={tokens}" for kind, tokens in slots.items()]
    result = {}
    for name, value in given.items():
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if value is not None:
            result[_NAMES.get(name, name)] = value
    return result


def run(name: str, given: dict[str, Any]) -> tuple[str, Any]:
    """Runs a request, and returns the text of its answer and the answer itself."""
    text, answer, problems = _pannier.request(name, given)
    warn(problems)
    return text, json.loads(answer)


def warn(problems: Sequence[str]) -> None:
    """Shows what did not stop a run, at the line that called this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pannier":
        frame, level = frame.f_back, level + 1
    for problem in problems:
        warnings.warn(problem, stacklevel=level)
