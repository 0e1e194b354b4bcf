"""LangChain: ``trim_messages`` with valid results, and middleware for agents.

>>> from pannier.adapters.langchain import trim_messages
>>> trimmer = trim_messages(max_tokens=8_000, model="gpt-5")    # a Runnable
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages, filter_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableLambda
from langchain_core.utils.function_calling import convert_to_openai_tool

from .._chat import adapter_options
from .._errors import InvalidInput
from .._options import warn
from .._texts import known_model
from ._langchain_messages import fit_messages


def trim_messages(
    messages: Any = None, *, max_tokens: int, model: str | None = None, token_counter: Any = None, strategy: str = "last",
    allow_partial: bool = False, end_on: Any = None, start_on: Any = None, include_system: bool = True,
    text_splitter: Any = None, **options: Any,
) -> Any:
    """Returns the messages that fit, as ``langchain_core.messages.trim_messages`` does. Without messages, a ``Runnable``.

    Tool calls keep their results, the system prompt is kept, and the first message is one that providers accept. The model
    counts tokens, or that of a ``token_counter``. ``allow_partial=True`` cuts long blocks in place of dropping messages.
    Other options are those of :func:`pannier.fit_chat`.
    """
    if token_counter is len:
        raise InvalidInput("token_counter=len counts messages; remove it, and give max_tokens in tokens", code="invalid_input")
    known = known_model(getattr(token_counter, "model_name", None) or getattr(token_counter, "model", None))
    unused = {"token_counter": token_counter not in (None, "approximate") and not known, "text_splitter": text_splitter}
    for name in [name for name, is_given in {**unused, "strategy": strategy != "last"}.items() if is_given]:
        warn([f"trim_messages of Pannier does not use {name}"])
    given = adapter_options({"once": not allow_partial, **options})

    def trim(messages: Any) -> list[BaseMessage]:
        messages = convert_to_messages(messages.to_messages() if isinstance(messages, PromptValue) else messages)
        ends = [at for at, one in enumerate(messages) if not end_on or _is(one, end_on)]
        if not ends:
            return []
        fitted = fit_messages(messages[: ends[-1] + 1], budget=max_tokens, model=model or known, **given)
        if not start_on:
            return fitted
        system = [one for one in fitted[:1] if one.type == "system"]
        starts = [at for at, one in enumerate(fitted) if at >= len(system) and _is(one, start_on)]
        return system + fitted[starts[0] if starts else len(fitted) :]

    return RunnableLambda(trim, name="trim_messages") if messages is None else trim(messages)


def _is(message: BaseMessage, kinds: Any) -> bool:
    """Returns whether a message is of one of some types, which are names as in ``human``, or classes."""
    return bool(filter_messages([message], include_types=[kinds] if isinstance(kinds, (str, type)) else kinds))


class PannierMiddleware(AgentMiddleware[Any, Any, Any]):
    """Fits every request of an agent into a budget: messages, system prompt and tools. The agent's state stays whole."""

    def __init__(self, *, budget: int | str, model: str | None = None, **options: Any) -> None:
        super().__init__()
        self._options = {"budget": budget, "model": model, **adapter_options(options)}

    def fit(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """Returns the request with the messages that fit."""
        system = request.system_message
        tools = [convert_to_openai_tool(tool) for tool in request.tools]
        messages: list[AnyMessage] = fit_messages(
            request.messages, system=system.text if system else None, tools=tools or None, **self._options
        )
        return request.override(messages=messages)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Calls the model with what fits."""
        return handler(self.fit(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Calls the model with what fits."""
        return await handler(self.fit(request))
