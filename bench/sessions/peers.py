"""Serves peers that fit requests into a budget, so that each library is loaded once: peers.py SOCKET, or peers.py --list.

A request of Anthropic's Messages API goes in, and one comes out. Each peer is called as its documentation shows for
agents. `--list` prints the peers that can be imported, with their versions.
"""

import importlib.metadata
import json
import os
import socket
import sys

MODEL = "claude-sonnet-4-5-20250929"


def langchain(start_on):
    """trim_messages with a counter of our framing: 4 tokens a message, 8 a call or result, texts by o200k_base."""
    import tiktoken
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages

    encoding = tiktoken.get_encoding("o200k_base")
    known = {}

    def block_tokens(block):
        if block["type"] == "text":
            text, overhead = block["text"], 0
        elif block["type"] == "tool_use":
            text, overhead = block["name"] + " " + json.dumps(block["input"], ensure_ascii=False), 8
        else:
            text, overhead = block["content"], 8
        if text not in known:
            known[text] = len(encoding.encode_ordinary(text))
        return known[text] + overhead

    def fit(messages, budget):
        originals, converted = [], []

        def add(message, role, blocks):
            message.id = str(len(originals))
            originals.append((role, blocks))
            converted.append(message)

        for message in messages:
            blocks = message["content"]
            texts = [block for block in blocks if block["type"] == "text"]
            text = "\n".join(block["text"] for block in texts)
            if message["role"] == "assistant":
                calls = [
                    {"name": block["name"], "args": block["input"], "id": block["id"]}
                    for block in blocks
                    if block["type"] == "tool_use"
                ]
                add(AIMessage(text, tool_calls=calls), "assistant", blocks)
                continue
            for block in blocks:
                if block["type"] == "tool_result":
                    add(ToolMessage(block["content"], tool_call_id=block["tool_use_id"]), "user", [block])
            if texts:
                add(HumanMessage(text), "user", texts)

        def count(messages):
            blocks = [originals[int(message.id)][1] for message in messages]
            return sum(4 + sum(map(block_tokens, blocks)) for blocks in blocks)

        kept = trim_messages(
            converted,
            max_tokens=budget,
            token_counter=count,
            strategy="last",
            start_on=start_on,
            end_on=("human", "tool"),
            include_system=True,
        )
        merged = []
        for message in kept:
            role, blocks = originals[int(message.id)]
            if merged and merged[-1]["role"] == role:
                merged[-1]["content"] += blocks
            else:
                merged.append({"role": role, "content": list(blocks)})
        return merged

    return fit


def headroom():
    from headroom import compress

    return lambda messages, budget: compress(messages, model=MODEL, model_limit=budget).messages


def llmtrim():
    """It takes no budget."""
    from llmtrim import Provider, compress

    def fit(messages, _):
        request = {"model": MODEL, "max_tokens": 1024, "messages": messages}
        output = compress(json.dumps(request), Provider.ANTHROPIC, "agent")
        return json.loads(output.request_json)["messages"]

    return fit


# Name: package, and a function that loads it.
PEERS = {
    "langchain-human": ("langchain-core", lambda: langchain("human")),
    "langchain-any": ("langchain-core", lambda: langchain(("human", "ai"))),
    "headroom": ("headroom-ai", headroom),
    "llmtrim": ("llmtrim", llmtrim),
}


def answer(peers, request):
    head, _, body = request.partition(b"\n")
    name, budget = head.decode().split()
    try:
        if name not in peers:
            peers[name] = PEERS[name][1]()
        messages = peers[name](json.loads(body)["messages"], int(budget))
        return b"ok\n" + json.dumps({"messages": messages}).encode()
    except Exception as error:  # Any exception of a peer is a refusal, and its text the reason.
        return f"error\n{type(error).__name__}: {error}".encode()


def serve(path):
    peers = {}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        # Libraries print to standard output, which nobody reads from now on.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        while True:
            connection, _ = server.accept()
            with connection:
                request = b"".join(iter(lambda: connection.recv(1 << 16), b""))
                connection.sendall(answer(peers, request))


def available():
    for name, (package, load) in PEERS.items():
        try:
            load()
            yield name, f"{package} {importlib.metadata.version(package)}", None
        except Exception as error:
            yield name, package, f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print(json.dumps(list(available())))
    else:
        os.umask(0o077)
        serve(sys.argv[1])
