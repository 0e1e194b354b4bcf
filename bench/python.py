#!/usr/bin/env python3
"""Measures the Python package: its overhead over the library, and LangChain's `trim_messages` next to it.

usage: bench/python.py

Needs an optimized build (`pip install ./python`) and `pip install langchain litellm tiktoken`. The library's time is that of the same
extension on JSON text: no object is converted. Runs take turns, and each figure is the median: CPU time, and wall time, which is
shorter as counting uses all cores. Every result is checked first.
"""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import random
import statistics
import sys
import time

import pannier
from pannier import _pannier

WORDS = "deploy rollback error rate latency disk quota alert service retry index token budget file line review commit".split()
ROUNDS = 7


def text(chance, words):
    return " ".join(chance.choice(WORDS) for _ in range(words))


def conversation(count, seed=1, words=60):
    """Messages with tool calls, about half of them, as an agent sends them to OpenAI."""
    chance = random.Random(seed)
    messages = [{"role": "system", "content": text(chance, 30)}, {"role": "user", "content": text(chance, 20)}]
    while len(messages) < count:
        number = len(messages)
        if chance.random() < 0.5:
            function = {"name": "read_file", "arguments": json.dumps({"path": text(chance, 2)})}
            calls = [{"id": f"call_{number}", "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": text(chance, words * 2)})
        else:
            messages.append({"role": "assistant", "content": text(chance, words)})
            messages.append({"role": "user", "content": text(chance, words // 2)})
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": text(chance, 10)})
    return messages


def medians(*functions, rounds=ROUNDS):
    """Returns the median CPU and wall time of each function. They take turns."""
    times = [[] for _ in functions]
    for _ in range(rounds):
        for own, function in zip(times, functions):
            start = time.process_time(), time.perf_counter()
            function()
            own.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return [tuple(map(statistics.median, zip(*own))) for own in times]


def compare(name, library, python):
    """Prints the times of the library and of Python, and their ratios."""
    cells = [f"{own * 1e3:.0f} ms, {wall * 1e3:.0f} ms" for own, wall in (library, python)]
    row(name, *cells, *(f"{ours / theirs:.2f}" for ours, theirs in zip(python, library)))


def row(name, *cells):
    print("| " + " | ".join([name, *cells]) + " |")


def overhead():
    messages = conversation(10_000)
    as_json = json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
    print(f"\n{len(messages)} messages, {len(as_json) / 1e6:.1f} MB of JSON, budget half of the tokens\n")
    session = pannier.ChatSession(budget=1 << 40, model="gpt-5", provider="openai")
    session.fit(messages)
    row("fit_chat", "library: CPU, wall", "Python: CPU, wall", "CPU ratio", "wall ratio")
    row("---", "---", "---", "---", "---")
    for name, options in (("session", {}), ("once", {"once": True}), ("all fits", {"budget": 1 << 40})):
        options = {"budget": session.tokens // 2, "provider": "openai", **options}
        native = {"tokenizer": "gpt-5", **options}
        fitted = pannier.fit_chat(messages, model="gpt-5", **options)
        assert fitted == json.loads(_pannier.fit_chat(as_json, native).text)
        library, python = medians(
            lambda: _pannier.fit_chat(as_json, native), lambda: pannier.fit_chat(messages, model="gpt-5", **options)
        )
        compare(name, library, python)

    chance = random.Random(2)
    items = [{"id": str(number), "content": text(chance, 40), "priority": number % 10} for number in range(100_000)]
    counted = [{**item, "tokens": 41} for item in items]
    print("\n100,000 dicts\n")
    row("pack", "library: CPU, wall", "Python: CPU, wall", "CPU ratio", "wall ratio")
    row("---", "---", "---", "---", "---")
    for name, pool, options in (
        ("tokens given", counted, {}),
        ("tokens counted", items, {}),
        ("with a query", counted, {"query": "disk quota alert"}),
    ):
        options = {"budget": 100_000, "policy": "rag", **options}
        as_json = json.dumps(pool, ensure_ascii=False, separators=(",", ":"))
        assert pannier.pack(pool, **options).indices == [index for index, _ in _pannier.pack(as_json, options).selected]
        library, python = medians(
            lambda: _pannier.pack(as_json, options), lambda: pannier.pack(pool, **options), rounds=5
        )
        compare(name, library, python)


def problem(messages, budget):
    """Returns why OpenAI would reject a request, or None. Written from the provider's documents, not from Pannier."""
    if not [message for message in messages if message["role"] != "system"]:
        return "nothing but the system prompt"
    open_calls = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return "a result without its call"
            open_calls.discard(message["tool_call_id"])
        elif open_calls:
            return "a call without its result"
        open_calls |= {call["id"] for call in message.get("tool_calls") or ()}
    if open_calls:
        return "a call without its result"
    if tokens_of(messages) > budget:
        return "over the budget"
    return None


def texts_of(messages):
    texts = []
    for message in messages:
        texts += [message["role"], message.get("content") or ""]
        for call in message.get("tool_calls") or ():
            texts += [call["function"]["name"], call["function"]["arguments"]]
    return texts


def tokens_of(messages):
    """Counts a request as OpenAI's cookbook does: three tokens a message, its texts, and three for the answer."""
    _, answer, _ = _pannier.request("count", {"texts": texts_of(messages), "tokenizer": "gpt-5"})
    return json.loads(answer)["total"] + 3 * len(messages) + 3


def tiktoken_encoding():
    """Returns OpenAI's own tokenizer. LiteLLM ships its vocabulary, which saves the download."""
    litellm = importlib.util.find_spec("litellm")
    if litellm is not None and litellm.origin is not None:
        folder = pathlib.Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))
    try:
        import tiktoken

        return tiktoken.get_encoding("o200k_base")
    except Exception as error:
        print(f"\nskipped: tiktoken cannot be used: {error}")
        return None


def langchain():
    try:
        from langchain_core.messages import convert_to_messages, convert_to_openai_messages, trim_messages
    except ImportError:
        print("\nskipped: langchain-core is not installed")
        return

    def encode(messages):
        return [own | {"content": own.get("content") or ""} for own in convert_to_openai_messages(messages)]

    encoding = tiktoken_encoding()

    def by_tiktoken(messages):
        encoded = encode(messages)
        return sum(len(encoding.encode(text)) for text in texts_of(encoded)) + 3 * len(encoded) + 3

    def by_pannier(messages):
        return tokens_of(encode(messages))

    counter = by_tiktoken if encoding else by_pannier
    strict = {"start_on": "human", "end_on": ("human", "tool"), "include_system": True}
    methods = {
        "LangChain, default": lambda messages, budget: trim_messages(messages, max_tokens=budget, token_counter=counter),
        "LangChain, start_on and end_on": lambda messages, budget: trim_messages(
            messages, max_tokens=budget, token_counter=counter, **strict
        ),
        "LangChain, default, counted by Pannier": lambda messages, budget: trim_messages(
            messages, max_tokens=budget, token_counter=by_pannier
        ),
    }
    try:
        from pannier.adapters.langchain import trim_messages as ours

        methods["Pannier's adapter"] = lambda messages, budget: ours(
            messages, max_tokens=budget, model="gpt-5", reserve=0
        )
    except ImportError:
        print("\nskipped: Pannier's adapter; langchain is not installed")
    given = conversation(1_000)
    messages = convert_to_messages(given)
    budget = tokens_of(given) // 2
    assert counter(messages) == tokens_of(given)
    functions = [lambda method=method: method(messages, budget) for method in methods.values()]
    functions.append(lambda: pannier.fit_chat(given, budget=budget, model="gpt-5", provider="openai", once=True))
    times = dict(zip([*methods, "pannier.fit_chat, dicts"], medians(*functions, rounds=5)))

    trials = [(conversation(40 + seed, seed, words=20), seed) for seed in range(200)]
    unusable = {}
    for name, method in methods.items():
        reasons = {}
        for chat, seed in trials:
            limit = 300 + 20 * seed
            why = problem(encode(method(convert_to_messages(chat), limit)), limit)
            reasons[why] = reasons.get(why, 0) + 1
        reasons.pop(None, None)
        unusable[name] = reasons
    reasons = {}
    for chat, seed in trials:
        limit = 300 + 20 * seed
        why = problem(pannier.fit_chat(chat, budget=limit, model="gpt-5", provider="openai", once=True), limit)
        reasons[why] = reasons.get(why, 0) + 1
    reasons.pop(None, None)
    unusable["pannier.fit_chat, dicts"] = reasons

    own, adapter = times["pannier.fit_chat, dicts"][0], times.get("Pannier's adapter", (None,))[0]
    print(f"\n{len(given)} messages, {budget} of {tokens_of(given)} tokens; 200 chats for unusable requests\n")
    row("trim_messages", "CPU", "wall", "CPU to that of dicts", "to that of the adapter", "unusable requests")
    row("---", "---", "---", "---", "---", "---")
    for name, (seconds, wall) in times.items():
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(unusable[name].items())) or "none"
        total = sum(unusable[name].values())
        to_adapter = f"{seconds / adapter:.1f}" if adapter else ""
        row(name, f"{seconds * 1e3:.1f} ms", f"{wall * 1e3:.1f} ms", f"{seconds / own:.1f}", to_adapter, f"{total} of 200 ({why})" if total else "0 of 200")


def main():
    names = ["pannier", "langchain-core", "langchain", "tiktoken"]
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{name} not installed")
    print(f"Python {platform.python_version()}, {', '.join(versions)}, {platform.machine()}")
    overhead()
    langchain()


if __name__ == "__main__":
    sys.exit(main())
