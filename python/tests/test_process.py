"""Threads, forks, memory, and Ctrl-C."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pannier
import pytest
from generated import chat


def work(number: int) -> object:
    provider, messages = chat(number)
    try:
        fitted: object = pannier.fit_chat(messages, budget=400, provider=provider)
    except pannier.BudgetError as error:
        fitted = error.needed
    items = [{"content": f"text {index % 7} of {number}", "tokens": 5} for index in range(50)]
    return fitted, pannier.pack(items, budget=60, query="text").indices, pannier.count(f"text {number}")


def test_8_threads_get_what_one_gets() -> None:
    expected = [work(number) for number in range(64)]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            assert list(threads.map(work, range(64))) == expected


def test_other_threads_run_meanwhile() -> None:
    """The work of the library holds no lock of the interpreter."""
    steps = 0
    done = threading.Event()

    def count_steps() -> None:
        nonlocal steps
        while not done.is_set():
            steps += 1
            time.sleep(0)

    thread = threading.Thread(target=count_steps)
    text = "words and more words, all different: " * 200_000
    thread.start()
    before = steps
    pannier.count(text)
    after = steps
    done.set()
    thread.join()
    assert after > before + 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_children_of_fork_work(tmp_path: pathlib.Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Refunds\n\nRefunds take five days.\n")
    index = pannier.Index.build(tmp_path / "docs", index=tmp_path / "index")
    expected = work(3), index.search("refunds").text
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            again = pannier.Index.build(tmp_path / "docs", index=tmp_path / f"index-{number}")
            os._exit(0 if (work(3), again.search("refunds").text) == expected else 1)
        children.append(child)
    for child in children:
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


def resident_bytes() -> int:
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident memory is read from /proc")
def test_100_000_calls_leak_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    log = "\n".join(f"line {number}" for number in range(60))
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "a question that is not short"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": log},
    ]
    invalid = [{"role": "user", "content": float("nan")}]
    options: dict[str, Any] = {"budget": 100, "model": "bytes/4", "provider": "openai"}
    session = pannier.ChatSession(**options)
    session.fit(messages)
    cut = session.cuts[0]["id"]
    selection = pannier.pack(["one text", "another text"], budget=10, model="bytes/4")

    def raises() -> None:
        with pytest.raises(pannier.InvalidInput):
            pannier.fit_chat(invalid, budget=1_000)

    kinds = [
        lambda: pannier.fit_chat(messages, system="Be brief.", **options),
        lambda: session.fit(messages),
        lambda: session.recall(cut, lines="3-4"),
        lambda: session.explain(2),
        lambda: pannier.pack(["one text", "another text"], budget=10, model="bytes/4", scorer=lambda items: [1, 2]),
        lambda: selection.what_if(budget=5),
        lambda: selection.explain(0),
        selection.receipt,
        lambda: pannier.count("some text", model="bytes/4"),
        raises,
    ]

    def calls(count: int) -> None:
        for number in range(count):
            kinds[number % len(kinds)]()

    calls(10_000)
    before = resident_bytes()
    calls(100_000)
    grown = resident_bytes() - before
    with capsys.disabled():
        print(f"\nresident memory after 100,000 calls: {grown:+,} bytes of {before:,}")
    # One leaked byte a call would be 0.1 MB, one leaked object about 5 MB.
    assert grown < 2_000_000


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_ctrl_c_stops_a_long_search() -> None:
    program = (
        "import pannier, random, signal\n"
        # A shell ignores the signal in what it runs in the background, and children inherit that.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "r = random.Random(1)\n"
        "items = [{'content': str(i), 'tokens': r.randint(1, 10**9)} for i in range(3_000)]\n"
        "s = pannier.pack(items, budget=10**11, policy={'scorers': [{'type': 'recency'}], 'slicer': {'type': 'knapsack'}})\n"
        "print('ready', flush=True)\n"
        "while True: s.explain(0)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=120)
    assert b"KeyboardInterrupt" in errors
