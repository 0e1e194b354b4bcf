"""Counts, the memory of a project, and snippets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Union, cast

from ._errors import Error
from ._options import Time, Tokens, options, run

Path = Union[str, "os.PathLike[str]"]


def count(text: str, *, model: str | None = None) -> int:
    """Counts the tokens of a text, by default with ``o200k``.

    >>> import pannier
    >>> pannier.count("Refunds take five days.", model="gpt-5")
    6
    """
    return cast(int, run("count", options(texts=[text], model=model))[1]["total"])


def known_model(name: Any) -> str | None:
    """Returns the name of a model without its provider if its tokenizer is known, for adapters."""
    name = name.rsplit("/", 1)[-1] if isinstance(name, str) else None
    try:
        count("", model=name)
    except Error:
        return None
    return cast("str | None", name)


def memory(
    project: Path = ".",
    *,
    budget: Tokens | None = None,
    reserve: Tokens | None = None,
    query: str | None = None,
    files: Sequence[str] = (),
    ids: Sequence[str] = (),
    model: str | None = None,
    format: str | None = None,
    now: Time | None = None,
    max_chars: int | None = None,
    no_user: bool = False,
) -> str:
    """Returns a project's memory within a token budget: rules, tasks, decisions and learnings of its ``.context`` folder."""
    given = options(
        project=project,
        budget=budget,
        reserve=reserve,
        query=query,
        files=list(files),
        ids=list(ids),
        model=model,
        format=format,
        now=now,
        max_chars=max_chars,
        no_user=no_user,
    )
    return run("memory", given)[0]


def snippets(
    *ids: str,
    root: Path | Sequence[Path] = "docs",
    budget: Tokens | None = None,
    model: str | None = None,
) -> str:
    """Returns snippets with everything that they require, or without ids the list of all snippets."""
    roots = [root] if isinstance(root, (str, os.PathLike)) else root
    given = options(snippets=[os.fspath(path) for path in roots], budget=budget, model=model)
    if ids:
        return run("snippets_get", {**given, "ids": list(ids)})[0]
    return run("snippets_list", given)[0]
