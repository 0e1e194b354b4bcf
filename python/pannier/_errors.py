"""Exceptions, one class for each kind of failure that a program treats differently."""

from __future__ import annotations


class Error(Exception):
    """A failure of Pannier.

    ``message`` says what happened, ``advice`` what to do, and ``code`` is a stable name for programs.
    """

    def __init__(self, message: str, *, code: str = "", advice: str | None = None) -> None:
        super().__init__(f"{message}; {advice}" if advice else message)
        self.message = message
        self.code = code
        self.advice = advice


class InvalidInput(Error, ValueError):
    """An option or the input is invalid. The message has the path to it."""


class BudgetError(Error):
    """No selection meets the budget. ``needed`` is a sufficient one, if it is known."""

    def __init__(
        self, message: str, *, code: str = "", advice: str | None = None, needed: int | None = None
    ) -> None:
        super().__init__(message, code=code, advice=advice)
        self.needed = needed


class IndexMissing(Error):
    """An index does not exist."""


class IndexInvalid(Error):
    """An index is damaged, or of another version."""


class FileError(Error, OSError):
    """Reading or writing failed."""


class CheckFailed(Error):
    """A check ran, and its answer is no: an entry does not exist, for example."""


class InternalError(Error):
    """A fault of Pannier. Please report it."""
