"""Hostile objects raise exceptions; none of them ends the process."""

from __future__ import annotations

import collections
import enum
import json
import signal
import subprocess
import sys
import time
import types
from typing import Any

import pannier
import pytest
from pannier import _pannier


def user(content: Any) -> list[Any]:
    return [{"role": "user", "content": content}]


def fit(chat: Any) -> Any:
    return pannier.fit_chat(chat, budget=1_000, model="bytes/4", provider="openai")


def cycle() -> list[Any]:
    own: list[Any] = []
    own.append(own)
    return own


def dict_cycle() -> dict[str, Any]:
    own: dict[str, Any] = {}
    own["own"] = own
    return own


def deep(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


class Everything:
    """Answers to every name."""

    def __getattr__(self, name: str) -> Any:
        return Everything()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return Everything()


class ManyModels:
    def model_dump(self, **options: Any) -> Any:
        return ManyModels()


class Raises:
    def model_dump(self, **options: Any) -> Any:
        raise ZeroDivisionError("mine")


class LyingList(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 10**12

    def __iter__(self) -> Any:
        raise RuntimeError("not this way")


class LyingDict(dict):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return -5


class LyingStr(str):
    def __len__(self) -> int:
        return 10**12

    def __str__(self) -> str:
        return "other"


class BigEnum(enum.IntEnum):
    BIG = 2**80


@pytest.mark.parametrize(
    "value",
    [cycle(), dict_cycle(), deep(5_000), float("nan"), float("inf"), "\ud800", {"\udfff": 1}, {1: 2}, {None: 1}, object(),
     b"bytes", {1, 2}, complex(1), lambda: 1, int, Everything(), ManyModels(), 10**5_000, iter([1])],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_that_are_not_json_are_invalid_input(value: Any) -> None:
    with pytest.raises(pannier.InvalidInput):
        fit(user(value))
    with pytest.raises(pannier.InvalidInput):
        pannier.pack([{"content": "a", "metadata": {"x": value}}], budget=10)
    with pytest.raises(pannier.InvalidInput):
        pannier.pack(["a"], budget=10, policy=value)


@pytest.mark.parametrize("chat", [None, 3, b"[]", object(), iter([]), {1: 2}, [None], [3], [[]], "", "{", "[]", [], {}])
def test_chats_that_are_none_are_invalid_input(chat: Any) -> None:
    with pytest.raises(pannier.InvalidInput):
        fit(chat)


def test_paths_lead_to_the_value() -> None:
    with pytest.raises(pannier.InvalidInput, match=r"chat\[0\]\.content\[1\]\.text: nan is not JSON|NaN is not JSON"):
        fit(user([{"type": "text", "text": "a"}, {"type": "text", "text": float("nan")}]))


def test_the_exceptions_of_objects_pass() -> None:
    with pytest.raises(ZeroDivisionError, match="mine"):
        fit(user(Raises()))


def test_lengths_that_lie_are_not_asked() -> None:
    assert fit(LyingList(user("a"))) == user("a")
    assert fit([LyingDict(user("a")[0])]) == user("a")
    assert fit(user(LyingStr("a"))) == user("a")
    assert pannier.pack(LyingList(["a"]), budget=10).items == ["a"]
    assert pannier.count(LyingStr("a"), model="bytes/4") == 1


def test_large_numbers_keep_their_digits() -> None:
    messages = [{"role": "user", "content": "a", "seed": 2**100, "kind": BigEnum.BIG}]
    assert fit(messages)[0]["seed"] == 2**100


def test_texts_are_escaped_as_json_dumps_does() -> None:
    every = "".join(map(chr, range(0x80))) + "é東京🚲\u2028\x7f"
    for offset in range(70):
        messages = user("x" * offset + every + "y" * (70 - offset) + every[:offset])
        fitted = _pannier.fit_chat(messages, {"budget": 1_000, "tokenizer": "bytes/4", "provider": "openai"})
        assert fitted.given == json.dumps(messages, ensure_ascii=False, separators=(",", ":"))


def test_mappings_and_enumerations_are_json() -> None:
    class Role(enum.Enum):
        USER = "user"

    message = types.MappingProxyType({"role": Role.USER, "content": "a"})
    assert fit([message])[0] is message
    assert fit([collections.OrderedDict(user("a")[0])]) == user("a")


def test_objects_that_change_while_they_are_read() -> None:
    message: dict[str, Any] = {"role": "user"}

    class Changes:
        def model_dump(self, **options: Any) -> str:
            message[f"new {len(message)}"] = 1
            return "a"

    class Swaps:
        def model_dump(self, **options: Any) -> str:
            del message["role"]
            message["other"] = 1
            return "a"

    message["content"] = Changes()
    message["last"] = 1
    with pytest.raises(pannier.InvalidInput, match="changed while it was read"):
        fit([message])
    message.clear()
    message.update(role="user", content=Swaps(), last=1)
    try:
        fit([message])
    except pannier.InvalidInput:
        pass
    items: list[Any] = []

    class Empties:
        @property
        def page_content(self) -> str:
            items.clear()
            return "a"

    items += [Empties(), "b", "c"]
    try:
        pannier.pack(items, budget=10)
    except (pannier.InvalidInput, IndexError):
        pass


def test_objects_that_share_parts_are_bounded() -> None:
    """A few lists in each other have more text than any memory."""
    value: Any = 10**1_000
    for _ in range(30):
        value = [value] * 10
    with pytest.raises(pannier.InvalidInput, match="exceed 1 GiB"):
        fit(user(value))


def test_lists_that_grow_while_they_are_read() -> None:
    content: list[Any] = []

    class Grows:
        def model_dump(self, **options: Any) -> str:
            content.append(self)
            return "a"

    content.append(Grows())
    with pytest.raises(pannier.InvalidInput, match="changed while it was read"):
        fit(user(content))
    items: list[Any] = []

    class GrowsPool:
        @property
        def page_content(self) -> str:
            items.append(self)
            return "a"

    items.append(GrowsPool())
    assert pannier.pack(items, budget=10).items == items[:1]


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_ctrl_c_stops_the_reading_of_objects() -> None:
    program = (
        "import pannier, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "value = None\n"
        "for _ in range(30): value = [value] * 10\n"
        "print('ready', flush=True)\n"
        "pannier.fit_chat([{'role': 'user', 'content': value}], budget=10)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=120)
    assert b"KeyboardInterrupt" in errors


def test_lone_surrogates_are_invalid_input_everywhere() -> None:
    selection = pannier.pack(["a"], budget=10)
    session = pannier.ChatSession(budget=100)
    session.fit(user("a"))
    calls: list[Any] = [
        lambda: pannier.fit_chat("\ud800", budget=10),
        lambda: pannier.fit_chat(user("a"), budget=10, previous="\ud800"),
        lambda: pannier.fit_chat(user("a"), budget=10, system="\ud800"),
        lambda: selection.explain("\ud800"),
        lambda: session.explain("\ud800"),
        lambda: session.recall("\ud800"),
        lambda: pannier.count("\ud800"),
    ]
    for call in calls:
        with pytest.raises(pannier.InvalidInput):
            call()


def test_a_text_of_100_megabytes() -> None:
    text = "a long line of a log\n" * 5_000_000
    assert pannier.count(text, model="bytes/4") == len(text) // 4
    assert pannier.count(text, model="o200k") == 7 * 5_000_000
    with pytest.raises(pannier.BudgetError):
        pannier.fit_chat(user(text), budget=1_000, model="bytes/4", provider="openai", once=True)
    assert pannier.pack([text, "b"], budget=10, model="bytes/4").items == ["b"]


@pytest.mark.parametrize("budget", [-1, 2**63, 10**30, 1.5, "many", float("nan"), True, [1], {}])
def test_budgets_that_are_none_are_invalid_input(budget: Any) -> None:
    with pytest.raises(pannier.InvalidInput):
        pannier.pack(["a"], budget=budget)
