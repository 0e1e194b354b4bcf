"""Packs items into a token budget."""

from __future__ import annotations

import copy
import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast, overload

from . import _pannier
from ._errors import InvalidInput
from ._options import Slots, Time, Tokens, options, warn

Item = TypeVar("Item")


def pack(
    items: Iterable[Item],
    *,
    budget: Tokens | None = None,
    query: str | None = None,
    model: str | None = None,
    policy: str | Mapping[str, Any] | None = None,
    template: str | None = None,
    now: Time | None = None,
    target: Tokens | None = None,
    reserve: Tokens | None = None,
    margin: float | None = None,
    slots: Slots | None = None,
    scorer: Callable[[list[Item]], Iterable[float]] | None = None,
) -> Selection[Item]:
    """Packs items into a token budget.

    Items are strings, dicts with ``content`` and the other fields of an item, documents of LangChain or Haystack, or nodes
    of LlamaIndex. The selection has the same objects.

    >>> import pannier
    >>> chunks = ["Refunds take five days.", "We ship on Mondays.", "Refunds need the receipt."]
    >>> selection = pannier.pack(chunks, budget=14, query="how long does a refund take?")
    >>> selection.items
    ['Refunds take five days.', 'Refunds need the receipt.']
    >>> print(selection.text, end="")
    Refunds take five days.
    <BLANKLINE>
    Refunds need the receipt.

    Why is an item out, and what does a larger budget select?

    >>> selection.explain("1")["decision"]["decision"]
    'excluded'
    >>> len(selection.what_if(budget=20))
    3

    ``scorer`` is called once, with the list of all items. It returns a score for each, and takes the place of the scorers of
    the policy. Higher is better.

    >>> pannier.pack(chunks, budget=6, scorer=lambda items: [-len(item) for item in items]).items
    ['We ship on Mondays.']

    If every item has ``tokens`` and there is neither a model nor a template, the budget bounds their sum. Otherwise it
    bounds the text.
    """
    given = options(
        budget=budget,
        query=query,
        model=model,
        policy=policy,
        template=template,
        now=now,
        target=target,
        reserve=reserve,
        margin=margin,
        slots=slots,
    )
    if isinstance(items, (str, bytes, Mapping)):
        raise InvalidInput(f"items is a {type(items).__name__}; give a list of items", code="invalid_input")
    # The caller may change the list, and a class of lists may iterate over something else.
    pool = list.copy(items) if isinstance(items, list) else list(items)
    run = _pannier.pack(pool, given, scorer)
    warn(run.warnings)
    return Selection(pool, run)


class Selection(Sequence[Item], Generic[Item]):
    """The selected items, in the order to send them, and why."""

    def __init__(self, pool: list[Item], run: _pannier.Run) -> None:
        self._pool, self._run = pool, run
        self.items: list[Item] = [_sent(pool[index], text) for index, text in run.selected]
        """The selected items."""
        self.text: str = run.text
        """The items as one text, as the template of the run has them."""

    @property
    def indices(self) -> list[int]:
        """The positions of the selected items in the pool."""
        return [index for index, _ in self._run.selected]

    @property
    def totals(self) -> dict[str, Any]:
        """The numbers of candidates, selected items and their tokens, the budget and the ledger."""
        return cast("dict[str, Any]", json.loads(self._run.totals))

    @property
    def tokens(self) -> int:
        """The sum of the selected items' tokens."""
        return cast(int, self.totals["tokens"])

    @property
    def report(self) -> dict[str, Any]:
        """Every item with its score, and the reason why it is in or out."""
        return cast("dict[str, Any]", json.loads(self._run.report()))

    def explain(self, id: str | int) -> dict[str, Any]:
        """Explains why an item is in or out, by id or position, and what would change that."""
        return cast("dict[str, Any]", json.loads(self._run.explain([str(id)]))[0])

    def what_if(
        self, *, budget: Tokens | None = None, target: Tokens | None = None, reserve: Tokens | None = None
    ) -> Selection[Item]:
        """Selects from the same items with another budget."""
        given = options(budget=budget, target=target, reserve=reserve)
        run = self._run.what_if(given)
        warn(run.warnings)
        return Selection(self._pool, run)

    def receipt(self) -> dict[str, Any]:
        """Returns a record of the run, which ``pannier inspect replay`` repeats."""
        return cast("dict[str, Any]", json.loads(self._run.receipt()))

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __repr__(self) -> str:
        totals = self.totals
        return f"<Selection: {len(self)} of {totals['candidates']} items, {totals['tokens']} tokens>"

    def _repr_html_(self) -> str:
        """Shows the selection in a notebook: a bar of the budget, and a table."""
        totals = self.totals
        limit = totals["budget"]["targetTokens"]
        share = min(100, round(100 * totals["tokens"] / limit)) if limit > 0 else 100
        rows = []
        for entry in self.report["included"][:_MAX_ROWS]:
            item = entry["item"]
            name, text = item.get("id", ""), item["content"]
            text = text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
            cells = [name, f"{entry['score']:.3f}", item["tokens"], entry["reason"], text]
            rows.append("".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells))
        more = len(self) - len(rows)
        table = "".join(f"<tr>{row}</tr>" for row in rows)
        table += f"<tr><td colspan=5>and {more} more</td></tr>" if more > 0 else ""
        return (
            f"<div>{totals['selected']} of {totals['candidates']} items, {totals['tokens']} of {limit} tokens</div>"
            '<div style="width:20em;background:#ddd"><div style="height:.5em;background:#4a7;'
            f'width:{share}%"></div></div>'
            "<table><tr><th>id</th><th>score</th><th>tokens</th><th>reason</th><th>content</th></tr>"
            f"{table}</table>"
        )


_MAX_ROWS = 50
_MAX_CHARS = 120


def _sent(item: Any, text: str | None) -> Any:
    """Returns an item as it is sent: the object itself, or a copy with another text."""
    if text is None:
        return item
    if isinstance(item, str):
        return text
    if isinstance(item, Mapping):
        name = next(name for name in ("content", "text", "page_content") if name in item)
        return {**item, name: text}
    node = getattr(item, "node", None)
    if node is not None:
        return item.model_copy(update={"node": _sent(node, text)})
    attribute = next((name for name in ("page_content", "text", "content") if hasattr(item, name)), None)
    if attribute is None:
        return text
    if hasattr(item, "model_copy"):
        return item.model_copy(update={attribute: text})
    changed = copy.copy(item)
    # A frozen data class refuses the plain assignment.
    object.__setattr__(changed, attribute, text)
    return changed
