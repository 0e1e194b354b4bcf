"""A folder of documents as a search index."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from ._options import Time, Tokens, options, run

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Citation:
    """A passage: its document, and the first and last line of each of its parts."""

    path: str
    """The path of the document, relative to the indexed folder."""
    lines: list[tuple[int, int]]
    """The first and the last line of each part."""
    text: str = field(repr=False)
    """The text that is sent."""
    id: str = field(repr=False, default="")
    """The id of the passage."""
    score: float = field(repr=False, default=0.0)
    """The score of the search."""
    tokens: int = field(repr=False, default=0)
    """The tokens of the text."""

    def __str__(self) -> str:
        return f"{self.path}:{','.join(f'{first}-{last}' for first, last in self.lines)}"


@dataclass(frozen=True)
class Context:
    """The passages that a search found."""

    text: str
    """The passages under their citations, as a model gets them."""
    citations: list[Citation] = field(repr=False)
    """The passages one by one."""
    answer: dict[str, Any] = field(repr=False)
    """The whole answer, with the passages that were dropped."""

    def __str__(self) -> str:
        return self.text


class Index:
    """A search index of a folder.

    >>> import pathlib, tempfile, pannier
    >>> folder = tempfile.TemporaryDirectory()
    >>> docs = pathlib.Path(folder.name, "docs")
    >>> docs.mkdir()
    >>> _ = (docs / "refunds.md").write_text("# Refunds\\n\\nRefunds take five days.\\n")
    >>> index = pannier.Index.build(docs, index=pathlib.Path(folder.name, "index"))
    >>> context = index.search("how long does a refund take?", budget=100)
    >>> str(context.citations[0])
    'refunds.md:1-3'
    >>> print(context.text, end="")
    [refunds.md:1-3]
    # Refunds
    <BLANKLINE>
    Refunds take five days.

    >>> folder.cleanup()
    """

    def __init__(self, path: Path, summary: dict[str, Any] | None = None) -> None:
        self.path = os.fspath(path)
        self.summary = summary or {}
        """What the build that opened this index did."""

    @classmethod
    def build(
        cls,
        folder: Path = ".",
        *,
        index: Path = ".pannier/index",
        glob: Sequence[str] = (),
        hidden: bool = False,
        no_ignore: bool = False,
        strict: bool = False,
        embedder: str | None = None,
        embedder_key_env: str | None = None,
        chunk_tokens: int | None = None,
        max_chunk_tokens: int | None = None,
        rebuild: bool = False,
        wait: bool = False,
    ) -> Index:
        """Builds or updates the index of a folder, and opens it."""
        given = options(
            folder=folder,
            index=index,
            glob=list(glob),
            hidden=hidden,
            no_ignore=no_ignore,
            strict=strict,
            embedder=embedder,
            embedder_key_env=embedder_key_env,
            chunk_tokens=chunk_tokens,
            max_chunk_tokens=max_chunk_tokens,
            rebuild=rebuild,
            wait=wait,
        )
        return cls(index, run("index", given)[1])

    @classmethod
    def open(cls, index: Path = ".pannier/index") -> Index:
        """Opens an index. Raises :class:`IndexMissing` if it does not exist."""
        return cls(index, run("stats", options(index=index))[1])

    def search(
        self,
        query: str,
        *,
        budget: Tokens | None = None,
        model: str | None = None,
        reserve: Tokens | None = None,
        paths: Sequence[str] = (),
        after: Time | None = None,
        before: Time | None = None,
        must_contain: Sequence[str] = (),
        mode: str | None = None,
        candidates: int | None = None,
        limit: int | None = None,
        lexical_k: int | None = None,
        semantic_k: int | None = None,
        fusion: str | None = None,
        rrf_k: int | None = None,
        lexical_weight: int | None = None,
        semantic_weight: int | None = None,
        prefer_recent: bool = False,
        embedder: str | None = None,
        embedder_key_env: str | None = None,
        reranker: str | None = None,
        reranker_key_env: str | None = None,
        query_embedding: Sequence[float] | None = None,
        layout: str | None = None,
        max_per_doc: int | None = None,
        near_duplicates: float | None = None,
        min_score: float | None = None,
        policy: str | Mapping[str, Any] | None = None,
        neighbors: bool = False,
        per_doc_overhead: int | None = None,
        no_update: bool = False,
    ) -> Context:
        """Returns the passages that best match a query, within a token budget (default 2,000).

        The index is updated first, unless ``no_update`` is true.
        """
        given = options(
            query=query,
            index=self.path,
            budget=budget,
            model=model,
            reserve=reserve,
            paths=list(paths),
            after=after,
            before=before,
            must_contain=list(must_contain),
            mode=mode,
            candidates=candidates,
            limit=limit,
            lexical_k=lexical_k,
            semantic_k=semantic_k,
            fusion=fusion,
            rrf_k=rrf_k,
            lexical_weight=lexical_weight,
            semantic_weight=semantic_weight,
            prefer_recent=prefer_recent,
            embedder=embedder,
            embedder_key_env=embedder_key_env,
            reranker=reranker,
            reranker_key_env=reranker_key_env,
            query_embedding=query_embedding,
            layout=layout,
            max_per_doc=max_per_doc,
            near_duplicates=near_duplicates,
            min_score=min_score,
            policy=policy,
            neighbors=neighbors,
            per_doc_overhead=per_doc_overhead,
            no_update=no_update,
        )
        text, answer = run("search", given)
        citations = [
            Citation(
                path=passage["path"],
                lines=[(first, last) for first, last in passage["lines"]],
                text=passage.get("text", ""),
                id=passage["id"],
                score=passage["score"],
                tokens=passage["tokens"],
            )
            for passage in answer["passages"]
        ]
        return Context(text, citations, answer)

    def __repr__(self) -> str:
        return f"<Index {self.path}>"
