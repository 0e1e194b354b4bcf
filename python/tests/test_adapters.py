"""The adapters with their real frameworks."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import pannier
import pytest

LOG = "\n".join(f"line {number}: all is well" for number in range(2_000))
REASON = "the adapters for frameworks; .ci/python --long tests them"


def require(module: str) -> Any:
    return pytest.importorskip(module, reason=REASON)


def pairs_are_whole(messages: list[dict[str, Any]]) -> bool:
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    return calls == [message["tool_call_id"] for message in messages if message["role"] == "tool"]


def langchain_messages() -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    messages: list[Any] = [SystemMessage("Be brief."), HumanMessage("Is all well?", id="task")]
    for number in range(20):
        call = {"id": f"call_{number}", "name": "read_log", "args": {"line": number}}
        messages += [AIMessage("", tool_calls=[call]), ToolMessage(f"log {number}: well " * 20, tool_call_id=call["id"])]
        messages += [AIMessage(f"Log {number} is fine."), HumanMessage(f"And log {number + 1}?")]
    return messages


def test_langchain_trims_to_valid_messages() -> None:
    require("langchain")
    from langchain_core.messages import convert_to_openai_messages
    from pannier.adapters.langchain import trim_messages

    messages = langchain_messages()
    for budget in range(200, 2_000, 60):
        trimmed = trim_messages(messages, max_tokens=budget, model="gpt-5")
        assert all(any(message is own for own in messages) for message in trimmed)
        assert trimmed[0] is messages[0] and trimmed[-1] is messages[-1]
        openai = convert_to_openai_messages(trimmed)
        assert pairs_are_whole(openai)  # type: ignore[arg-type]
    with pytest.raises(pannier.BudgetError):
        trim_messages(messages, max_tokens=3, model="gpt-5")


def test_langchain_cuts_blocks_of_messages() -> None:
    require("langchain")
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from pannier.adapters.langchain import trim_messages

    content: list[Any] = [{"type": "text", "text": "Is all well?"}]
    call = {"id": "a", "name": "write", "args": {"text": LOG}}
    messages = [HumanMessage(content), AIMessage("", tool_calls=[call]), ToolMessage(LOG, tool_call_id="a", name="x", id="t")]
    messages += [AIMessage("It is."), HumanMessage("Sure?"), AIMessage("Yes."), HumanMessage("Thanks.")]
    fitted = trim_messages(messages, max_tokens=1_500, model="gpt-5", once=False)
    assert fitted[0] is messages[0] and len(fitted) == len(messages)
    assert len(str(fitted[1].tool_calls)) < len(LOG) and fitted[1].tool_calls[0]["name"] == "write"
    assert (fitted[2].id, fitted[2].name, fitted[2].tool_call_id) == ("t", "x", "a")
    assert len(fitted[2].content) < len(LOG) == len(messages[2].content)


def test_a_call_of_langchain_s_trim_messages_needs_no_change() -> None:
    require("langchain")
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.messages import trim_messages as theirs
    from pannier.adapters.langchain import trim_messages

    class Model(GenericFakeChatModel):
        model_name: str = "gpt-4o"

        def get_num_tokens_from_messages(self, messages: Any, tools: Any = None) -> int:
            return 10 * len(messages)

    messages = langchain_messages()
    options: dict[str, Any] = {"max_tokens": 600, "strategy": "last", "start_on": "human", "include_system": True}
    options |= {"token_counter": Model(messages=iter([])), "end_on": ("human", "tool"), "allow_partial": False}
    for trim in (theirs, trim_messages):
        # It ends with an answer, which is no end.
        trimmed = trim([*messages, AIMessage("It is.")], **options)
        assert isinstance(trimmed[0], SystemMessage) and isinstance(trimmed[1], HumanMessage) and trimmed[-1] is messages[-1]
        assert trim(**options).invoke(messages)
    assert isinstance(trim_messages(messages, **{**options, "start_on": AIMessage})[1], AIMessage)
    assert isinstance(trim_messages(messages, **{**options, "end_on": [ToolMessage]})[-1], ToolMessage)
    for unused in ({"token_counter": lambda messages: 1}, {"strategy": "first"}, {"text_splitter": str.split}):
        with pytest.warns(UserWarning, match=f"does not use {next(iter(unused))}") as caught:
            trim_messages(messages, **{**options, **unused})
        assert caught[0].filename == __file__
    with pytest.raises(pannier.InvalidInput, match="len counts messages"):
        trim_messages(messages, **{**options, "token_counter": len})
    ours = inspect.signature(trim_messages).parameters
    assert all(ours[name].default in (own.default, True, None) for name, own in inspect.signature(theirs).parameters.items())


def test_unknown_options_of_adapters_are_invalid_input() -> None:
    require("langchain")
    from pannier.adapters import langchain, litellm, openai_agents, pydantic_ai

    calls: list[Any] = [
        lambda: langchain.trim_messages(max_tokens=10, bugdet=1),
        lambda: langchain.PannierMiddleware(budget=10, bugdet=1),
        lambda: litellm.trim_messages([], max_tokens=10, bugdet=1),
        lambda: openai_agents.fit_input(budget=10, bugdet=1),
        lambda: pydantic_ai.fit_history(budget=10, bugdet=1),
    ]
    for call in calls:
        with pytest.raises(pannier.InvalidInput, match="no option 'bugdet'"):
            call()


def test_langchain_middleware_fits_requests_and_keeps_the_state() -> None:
    require("langchain")
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from pannier.adapters.langchain import PannierMiddleware

    seen: list[Any] = []

    class Model(GenericFakeChatModel):
        def _generate(self, messages: Any, *arguments: Any, **options: Any) -> Any:
            seen.extend(messages)
            return super()._generate(messages, *arguments, **options)

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

    def tool(line: int) -> str:
        """Reads a line of the log."""
        return str(line)

    messages = langchain_messages()[1:]
    model = Model(messages=iter([AIMessage("Yes.")]))
    middleware = PannierMiddleware(budget=1_000, model="gpt-5", once=True)
    agent = create_agent(model, tools=[tool], system_prompt="Be brief.", middleware=[middleware])
    state = asyncio.run(agent.ainvoke({"messages": messages}))
    assert len(state["messages"]) == len(messages) + 1
    assert 3 < len(seen) < len(messages) and seen[0].content == "Be brief." and seen[-1].content == messages[-1].content


def test_llama_index_selects_nodes_and_keeps_a_memory() -> None:
    require("llama_index.core")
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory
    from llama_index.core.schema import NodeWithScore, TextNode
    from pannier.adapters.llama_index import PannierMemoryBlock, PannierPostprocessor

    nodes = [NodeWithScore(node=TextNode(text=f"text {number} " * 10), score=1 / (number + 1)) for number in range(20)]
    kept = PannierPostprocessor(budget=120, model="gpt-5").postprocess_nodes(nodes)
    assert 2 <= len(kept) < 8 and all(any(node is own for own in nodes) for node in kept)
    block = PannierMemoryBlock(budget=60, model="gpt-5", priority=1)
    memory = Memory.from_defaults(
        session_id="a", token_limit=300, chat_history_token_ratio=0.3, token_flush_size=60, memory_blocks=[block],
        tokenizer_fn=lambda text: list(text.split()),
    )  # fmt: skip
    for number in range(30):
        memory.put(ChatMessage(f"Number {number} is a fact about {'zebras' if number == 2 else 'bicycles'} and other things."))
    memory.put(ChatMessage("Tell me of zebras."))
    texts = [str(message.content) for message in memory.get()]
    assert "Number 2 is" in "\n".join(texts)
    assert asyncio.run(block.atruncate("user: " + "word " * 50, 25)) is not None


def test_pydantic_ai_cuts_results_and_keeps_the_rest() -> None:
    require("pydantic_ai")
    from pannier.adapters.pydantic_ai import fit_history
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

    history = [
        ModelRequest(parts=[UserPromptPart("Is all well?")], instructions="Be brief."),
        ModelResponse(parts=[TextPart("I look."), ToolCallPart("read", {"path": "a"}, "a"), ToolCallPart("read", {"path": "b"}, "b")]),
        ModelRequest(parts=[ToolReturnPart("read", LOG, "a"), ToolReturnPart("read", "short", "b")]),
        ModelResponse(parts=[TextPart("It is.")]),
        ModelRequest(parts=[UserPromptPart(["Sure?", "Really?"])]),
    ]
    fitted = fit_history(budget=2_000, model="gpt-5")(list(history))
    assert len(fitted) == 5 and all(fitted[index] is history[index] for index in (0, 1, 3, 4))
    first, second = fitted[2].parts
    assert isinstance(first, ToolReturnPart) and first.tool_call_id == "a" and len(str(first.content)) < len(LOG)
    assert second == history[2].parts[1]
    assert fit_history(budget=200_000, model="gpt-5")(list(history)) == history


def test_pydantic_ai_counts_images_as_images_and_matches_parts_by_ids() -> None:
    require("pydantic_ai")
    from pannier.adapters.pydantic_ai import _encode, _rebuild, fit_history
    from pydantic_ai.messages import BinaryContent, CachePoint, ImageUrl, ModelRequest, ModelResponse, TextPart
    from pydantic_ai.messages import ToolCallPart, ToolReturnPart, UserPromptPart

    images: list[Any] = [BinaryContent(b"x" * 100_000, media_type="image/png"), ImageUrl("https://example.com/a.png")]
    prompt = UserPromptPart(["What is this?", *images, CachePoint(), LOG])
    history = [ModelRequest(parts=[prompt]), ModelResponse(parts=[TextPart("A cat.")])]
    history.append(ModelRequest(parts=[UserPromptPart("Sure?")]))
    # The bytes alone would be more tokens than that.
    assert fit_history(budget=60_000, model="gpt-5")(list(history)) == history
    encoded = _encode(history[0])
    assert [block["type"] for block in encoded["content"]] == ["text", "image", "image", "text"]
    encoded["content"][3]["text"] = "cut"
    rebuilt: Any = _rebuild(history[0], encoded).parts
    assert rebuilt[0].content == [*prompt.content[:4], "cut"] and rebuilt[0].content[1] is images[0]

    calls = [ToolCallPart("read", {"path": name}, name) for name in "ab"]
    results = [ToolReturnPart("read", LOG, "a"), ToolReturnPart("write", LOG, "b")]
    for message in (ModelResponse(parts=calls), ModelRequest(parts=results)):
        encoded = _encode(message)
        # A call and its result are left out, and a note is added.
        encoded["content"][0] = {"type": "text", "text": "a note"}
        parts: Any = _rebuild(message, encoded).parts
        assert parts[0] is message.parts[1] and parts[1].content == "a note"
        assert parts[1].part_kind == ("text" if isinstance(message, ModelResponse) else "user-prompt")


def test_openai_agents_fit_the_input_of_a_run() -> None:
    agents = require("agents")
    from agents.items import ModelResponse
    from agents.usage import Usage
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText
    from pannier.adapters.openai_agents import fit_input

    seen: list[Any] = []

    class Model(agents.Model):  # type: ignore[misc, name-defined]
        async def get_response(self, system_instructions: Any, input: Any, *arguments: Any, **options: Any) -> Any:
            seen.extend(input)
            part = ResponseOutputText(text="It is.", type="output_text", annotations=[])
            message = ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")
            return ModelResponse(output=[message], usage=Usage(), response_id=None)

        def stream_response(self, *arguments: Any, **options: Any) -> Any:
            raise NotImplementedError

    @agents.function_tool  # type: ignore[untyped-decorator]
    def read_log() -> str:
        """Reads the log."""
        return LOG

    items = [
        {"role": "user", "content": "Is all well?"},
        {"type": "function_call", "call_id": "a", "name": "read_log", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": LOG},
    ]
    agent = agents.Agent(name="operator", instructions="Be brief.", tools=[read_log], model=Model())
    config = agents.RunConfig(call_model_input_filter=fit_input(budget=2_000, model="gpt-5"), tracing_disabled=True)
    result = asyncio.run(agents.Runner.run(agent, items, run_config=config))
    assert result.final_output == "It is."
    assert [item.get("type") for item in seen] == [None, "function_call", "function_call_output"]
    assert len(seen[2]["output"]) < len(LOG) and len(result.to_input_list()[2]["output"]) == len(LOG)


def test_litellm_trims_as_litellm_does_and_keeps_pairs() -> None:
    litellm = require("litellm")
    from litellm.utils import trim_messages as theirs
    from pannier.adapters.litellm import trim_messages

    short = [{"role": "user", "content": "Hello!"}]
    assert trim_messages(short, model="gpt-4o") == theirs(short, model="gpt-4o") == short
    assert trim_messages(short, model="unknown") == short and trim_messages(short) == short
    messages: list[Any] = [{"role": "user", "content": "Is all well?"}]
    for number in range(20):
        function = {"name": "read", "arguments": json.dumps({"line": number})}
        messages.append({"role": "assistant", "content": "", "tool_calls": [{"id": str(number), "type": "function", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": str(number), "content": "all is well " * 20})
        messages.append({"role": "user", "content": f"And line {number + 1}?"})
    for budget in range(150, 1_500, 75):
        trimmed, remaining = trim_messages(messages, "openai/gpt-4o", max_tokens=budget, return_response_tokens=True)
        assert pairs_are_whole(trimmed) and 0 < len(trimmed) < len(messages) and 0 <= remaining < budget
    assert litellm.model_cost["gpt-4o"]["max_input_tokens"] == 128_000
    ours, own = (list(inspect.signature(trim).parameters.values()) for trim in (trim_messages, theirs))
    assert [(one.name, one.default) for one in ours[: len(own)]] == [(one.name, one.default) for one in own]


def test_haystack_packs_documents_and_cuts_messages() -> None:
    require("haystack")
    from haystack import Document
    from haystack.dataclasses import ChatMessage, ToolCall
    from pannier.adapters.haystack import ChatFitter, DocumentPacker

    documents = [Document(content=f"text {number} " * 10, score=1 / (number + 1)) for number in range(20)]
    kept = DocumentPacker(budget=120, model="gpt-5").run([*documents, Document(content=None)])["documents"]
    assert 2 <= len(kept) < 8 and all(any(document is own for own in documents) for document in kept)
    call = ToolCall("read_log", {}, id="a")
    messages = [
        ChatMessage.from_user("Is all well?", meta={"a": 1}),
        ChatMessage.from_assistant(tool_calls=[call]),
        ChatMessage.from_tool(LOG, origin=call, meta={"b": 2}),
    ]
    fitted = ChatFitter(budget=2_000, model="gpt-5").run(messages)["messages"]
    assert fitted[0] is messages[0] and fitted[1] is messages[1]
    result = fitted[2].tool_call_result
    assert len(result.result) < len(LOG) and result.origin is call and fitted[2].meta == {"b": 2}
    call = ToolCall("write", {"text": LOG}, id="b", extra={"c": 3})
    messages = [messages[0], ChatMessage.from_assistant("I write.", tool_calls=[call]), ChatMessage.from_tool(LOG, call, error=True)]
    messages += [ChatMessage.from_user("Thanks."), ChatMessage.from_assistant("Bye."), ChatMessage.from_user("Bye.")]
    fitted = ChatFitter(budget=1_200, model="gpt-5").run(messages)["messages"]
    cut = fitted[1].tool_calls[0]
    assert fitted[1].text == "I write." and len(str(cut.arguments)) < len(LOG) and (cut.tool_name, cut.extra) == ("write", {"c": 3})
    assert fitted[2].tool_call_result.error and fitted[2].tool_call_result.origin is call


def test_nothing_imports_a_framework() -> None:
    import subprocess
    import sys

    names = "langchain, langchain_core, llama_index, pydantic_ai, agents, litellm, haystack, pydantic, numpy"
    program = f"import sys, pannier; print([name for name in '{names}'.split(', ') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
