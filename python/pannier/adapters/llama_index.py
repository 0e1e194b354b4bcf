"""LlamaIndex: a node postprocessor within a token budget, and a memory block.

>>> from pannier.adapters.llama_index import PannierPostprocessor
>>> postprocessor = PannierPostprocessor(budget=2_000, model="gpt-5")
"""

from __future__ import annotations

from typing import Any, List, Optional, Union

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from .._pack import pack


class PannierPostprocessor(BaseNodePostprocessor):
    """Selects the nodes that fit a token budget, without duplicates, in order of their scores."""

    budget: Union[int, str] = Field(description="The token budget of all nodes together.")
    model: Optional[str] = Field(default=None, description="The model that counts tokens.")
    policy: str = Field(default="rag", description="A preset or a policy file.")

    @classmethod
    def class_name(cls) -> str:
        return "PannierPostprocessor"

    def _postprocess_nodes(
        self, nodes: List[NodeWithScore], query_bundle: Optional[QueryBundle] = None
    ) -> List[NodeWithScore]:
        query = query_bundle.query_str if query_bundle else None
        return pack(nodes, budget=self.budget, query=query, model=self.model, policy=self.policy).items


class PannierMemoryBlock(BaseMemoryBlock[str]):
    """Keeps the messages that left the short-term memory, and returns those that matter for the last message."""

    name: str = Field(default="earlier_messages")
    budget: Union[int, str] = Field(default=2_000, description="The token budget of the block.")
    model: Optional[str] = Field(default=None, description="The model that counts tokens.")
    kept: List[ChatMessage] = Field(default_factory=list)

    async def _aget(self, messages: Optional[List[ChatMessage]] = None, **block_kwargs: Any) -> str:
        query = next((message.content for message in reversed(messages or []) if message.role == "user"), None)
        return self._pack(query, self.budget)

    async def _aput(self, messages: List[ChatMessage]) -> None:
        self.kept.extend(messages)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> Optional[str]:
        """Returns a shorter text of the same messages."""
        from .._texts import count

        remaining = count(content, model=self.model) - tokens_to_truncate
        return self._pack(None, remaining) or None if remaining > 0 else None

    def _pack(self, query: Optional[str], budget: Union[int, str]) -> str:
        texts = [f"{message.role.value}: {message.content}" for message in self.kept if message.content]
        items = [{"content": text, "priority": position} for position, text in enumerate(texts)]
        return pack(items, budget=budget, query=query, model=self.model).text
