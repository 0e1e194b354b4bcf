"""LiteLLM: ``trim_messages`` with the same signature.

>>> from pannier.adapters.litellm import trim_messages
>>> trim_messages([{"role": "user", "content": "Hello!"}], max_tokens=100)
[{'role': 'user', 'content': 'Hello!'}]
"""

from __future__ import annotations

from typing import Any

from .._chat import ChatSession, adapter_options, fit_chat
from .._texts import known_model


def trim_messages(
    messages: list[Any],
    model: str | None = None,
    trim_ratio: float = 0.75,
    return_response_tokens: bool = False,
    max_tokens: int | None = None,
    **options: Any,
) -> Any:
    """Returns the messages that fit, as ``litellm.utils.trim_messages`` does.

    Without ``max_tokens``, the budget is ``trim_ratio`` of the input limit that LiteLLM knows for the model; the messages of
    an unknown model come back as they are. Other options are those of :func:`pannier.fit_chat`.
    """
    limit = None if model is None else _limit(model)
    budget = max_tokens if max_tokens is not None or limit is None else int(limit * trim_ratio)
    if budget is None:
        return messages
    options.setdefault("once", True)
    trimmed = fit_chat(messages, budget=budget, model=known_model(model), provider="openai", **adapter_options(options))
    if not return_response_tokens:
        return trimmed
    session = ChatSession(budget=1 << 40, model=known_model(model), provider="openai")
    session.fit(trimmed)
    return trimmed, budget - session.tokens


def _limit(model: str) -> int | None:
    import litellm

    known = litellm.model_cost.get(model)
    return None if known is None else int(known.get("max_input_tokens") or known["max_tokens"])
