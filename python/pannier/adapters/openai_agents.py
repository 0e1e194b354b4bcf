"""OpenAI Agents SDK: a filter for the input of the model.

>>> from agents import RunConfig
>>> from pannier.adapters.openai_agents import fit_input
>>> config = RunConfig(call_model_input_filter=fit_input(budget=100_000, model="gpt-5"))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents import FunctionTool
from agents.run import CallModelData, ModelInputData

from .._chat import adapter_options, fit_chat


def fit_input(*, budget: int | str, model: str | None = None, **options: Any) -> Callable[[CallModelData[Any]], ModelInputData]:
    """Returns a filter for ``RunConfig.call_model_input_filter``. Options are those of :func:`pannier.fit_chat`.

    The instructions and the agent's own function tools are counted.
    """
    adapter_options(options)

    def fit(data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        tools = [_tool(tool) for tool in data.agent.tools if isinstance(tool, FunctionTool)]
        items = fit_chat(
            given.input, budget=budget, model=model, provider="responses", system=given.instructions,
            tools=tools or None, **options,
        )
        return ModelInputData(input=items, instructions=given.instructions)

    return fit


def _tool(tool: FunctionTool) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.params_json_schema,
    }
