"""Chats by a seed: texts, tool calls and results, in the formats of all providers."""

from __future__ import annotations

import json
import random
from typing import Any

WORDS = (
    "deploy rollback error rate latency disk quota alert étude 東京 naïve 🚲 retry index token budget file line 返金 には 五日 かかります 订单 배송 "
    "заказ τάξη استرداد ลูกค้า Straße 12345 3.14 foo_bar() {\"a\":1} --- don't WE'LL \u2028 \\"
).split(" ")


def text(chance: random.Random, most: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, most)))


def chat(seed: int) -> tuple[str, Any]:
    """Returns a provider and a list of messages, or a request."""
    chance = random.Random(seed)
    provider = ("openai", "anthropic", "responses", "gemini")[seed % 4]
    messages: list[Any] = [_user(provider, text(chance, 30))]
    for number in range(chance.randint(1, 12)):
        if chance.random() < 0.6:
            messages += _call(provider, f"call_{number}", chance)
        else:
            messages.append(_assistant(provider, text(chance, 60)))
            messages.append(_user(provider, text(chance, 40)))
    if chance.random() < 0.5:
        return provider, messages
    field = {"responses": "input", "gemini": "contents"}.get(provider, "messages")
    request: dict[str, Any] = {"temperature": chance.choice([0, 0.5, 1e-7, 10**30]), field: messages}
    return provider, request


def _user(provider: str, content: str) -> Any:
    if provider == "gemini":
        return {"role": "user", "parts": [{"text": content}]}
    return {"role": "user", "content": content}


def _assistant(provider: str, content: str) -> Any:
    if provider == "gemini":
        return {"role": "model", "parts": [{"text": content}]}
    return {"role": "assistant", "content": content}


def _call(provider: str, id: str, chance: random.Random) -> list[Any]:
    name, arguments, result = "read_file", {"path": text(chance, 3), "line": chance.randint(0, 9)}, text(chance, 400)
    if provider == "openai":
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}
        return [call, {"role": "tool", "tool_call_id": id, "content": result}]
    if provider == "anthropic":
        use = {"type": "tool_use", "id": id, "name": name, "input": arguments}
        answer = {"type": "tool_result", "tool_use_id": id, "content": result}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]
    if provider == "responses":
        call = {"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(arguments)}
        return [call, {"type": "function_call_output", "call_id": id, "output": result}]
    return [
        {"role": "model", "parts": [{"functionCall": {"name": name, "args": arguments}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"result": result}}}]},
    ]
