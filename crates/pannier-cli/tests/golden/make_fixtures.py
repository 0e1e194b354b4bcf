#!/usr/bin/env python3
"""Writes the fixtures of the golden outputs. They are checked in; run this only to change them.

usage: make_fixtures.py PANNIER    (PANNIER: the built command; it names the chunks that get vectors)
"""

import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent / "fixtures"


class Numbers:
    """A linear congruential generator: the same numbers with every version of Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit

    def pick(self, options):
        return options[self.below(len(options))]


SUBJECTS = ["the depot", "a courier", "the route planner", "the parcel scanner", "the label printer", "the night shift",
            "the returns desk", "the billing job", "the tracking page", "a customer", "the mobile app", "the warehouse API"]
VERBS = ["stores", "rejects", "retries", "prints", "forwards", "splits", "delays", "archives", "counts", "signs",
         "compresses", "schedules"]
OBJECTS = ["every parcel", "late deliveries", "duplicate labels", "route changes", "damaged goods", "invoice lines",
           "GPS positions", "signature images", "customs forms", "pickup windows", "weight readings", "webhook events"]
TAILS = ["before the first van leaves", "within ten minutes", "in the local time zone", "without a network connection",
         "once per shift", "after the customer confirms", "when the queue is longer than 500 entries",
         "as an integer number of grams", "in one transaction", "unless the address is incomplete"]
TOPICS = ["labels", "routes", "returns", "billing", "tracking", "scanning", "customs", "pickup", "weights", "webhooks"]


def sentence(numbers):
    text = f"{numbers.pick(SUBJECTS)} {numbers.pick(VERBS)} {numbers.pick(OBJECTS)} {numbers.pick(TAILS)}."
    return text[0].upper() + text[1:]


def sentences(numbers, count):
    return " ".join(sentence(numbers) for _ in range(count))


def title(numbers):
    subject = numbers.pick(SUBJECTS).split(" ", 1)[1].capitalize()
    return f"{subject} {numbers.pick(VERBS)} {numbers.pick(OBJECTS)}"


def day(numbers, first_month=1):
    month = first_month + numbers.below(13 - first_month)
    return f"2026-{month:02}-{1 + numbers.below(28):02}"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def dated(numbers, heading, count, fields):
    """Decisions or learnings, the newest first; every ninth is superseded."""
    parts = [f"# {heading}\n"]
    for number, date in enumerate(sorted((day(numbers) for _ in range(count)), reverse=True)):
        time = f"-{numbers.below(24):02}{numbers.below(60):02}00" if number % 3 == 0 else ""
        parts.append(f"## [{date}{time}] {title(numbers)}\n")
        if number % 9 == 8:
            parts.append("**Status**: Superseded by a later entry\n")
        for field in fields:
            parts.append(f"**{field}**: {sentences(numbers, 1 + numbers.below(3))}\n")
    return "\n".join(parts)


def memory():
    folder = HERE / "depot" / ".context"
    numbers = Numbers(1)
    rules = "".join(f"- [ ] {sentence(numbers)}\n" for _ in range(6))
    write(folder / "CONSTITUTION.md", f"# Constitution\n\n{rules}\nNever:\n\n- log an address\n- delete a scan\n")
    lines = ["# Tasks\n"]
    for number in range(40):
        if number % 10 == 0:
            lines.append(f"\n### Phase {number // 10 + 1}\n")
        mark = "x" if number % 7 == 6 else "-" if number % 11 == 10 else " "
        added = f" #added:{day(numbers, 7)}" if number % 4 else ""
        priority = " #priority:high" if number % 5 == 2 else ""
        lines.append(f"- [{mark}] {sentence(numbers)}{priority}{added}")
        if number % 6 == 3:
            lines.append(f"  {sentence(numbers)}\n  - [ ] {sentence(numbers)}")
    write(folder / "TASKS.md", "\n".join(lines) + "\n")
    conventions = "".join(f"- {sentences(numbers, 1 + number % 2)}\n" for number in range(40))
    write(folder / "CONVENTIONS.md", f"# Conventions\n\n{conventions}")
    write(folder / "DECISIONS.md", dated(numbers, "Decisions", 32, ["Context", "Decision", "Consequence"]))
    write(folder / "decisions" / "app.md", dated(numbers, "Decisions about the app", 8, ["Decision"]))
    write(folder / "LEARNINGS.md", dated(numbers, "Learnings", 40, ["Context", "Lesson", "Application"]))
    write(folder / "GLOSSARY.md", "# Glossary\n\nA *manifest* lists the parcels of a van.\n")


def documents():
    folder = HERE / "manual"
    numbers = Numbers(2)
    for number in range(30):
        topic = TOPICS[number % len(TOPICS)]
        parts = []
        if number % 3 == 0:
            parts.append(f"---\ntitle: {topic.capitalize()} {number // 10 + 1}\ndate: {day(numbers)}\n---\n")
        parts.append(f"# {topic.capitalize()}: {title(numbers)}\n")
        for _ in range(1 + numbers.below(4)):
            parts.append(f"## {title(numbers)}\n")
            for _ in range(1 + numbers.below(3)):
                parts.append(sentences(numbers, 2 + numbers.below(8)) + "\n")
        if number % 8 == 5:
            # The same paragraph in several documents, with one changed word: near-duplicates.
            parts.append("## Lost parcels\n")
            parts.append(f"When a parcel is lost, open the tracking page, print the {topic} history, call the depot that "
                         "scanned it last, and wait two working days before the billing job refunds the customer. Write "
                         "down who answered and at what time, because the insurer asks for both.\n")
        write(folder / topic / f"{number:02}.md", "\n".join(parts))


def vectors(pannier):
    """Eight counts of words for each chunk: enough for a ranking that differs from the lexical one."""
    lines = subprocess.run([pannier, "chunks", "--sources", HERE / "manual"], check=True, capture_output=True, text=True).stdout
    words = ["parcel", "label", "route", "invoice", "customs", "customer", "webhook", "scanner"]
    rows = []
    for line in lines.splitlines():
        chunk = json.loads(line)
        text = json.dumps(chunk).lower()
        rows.append(json.dumps({"id": chunk["id"], "vector": [0.25 + text.count(word) for word in words]}))
    write(HERE / "vectors.jsonl", "\n".join(rows) + "\n")
    write(HERE / "query-vector.json", "[2.0, 0.5, 0.25, 0.25, 0.25, 1.5, 0.25, 0.25]\n")


def exchanges(numbers):
    """Twelve turns of an agent: (words of the user, [(name, arguments, result)], answer), 60 messages for OpenAI."""
    for turn in range(12):
        calls = [("search_" + numbers.pick(TOPICS), {"query": sentence(numbers), "limit": numbers.below(20)},
                  "\n".join(sentence(numbers) for _ in range(1 + numbers.below(8)))) for _ in range(1 + turn % 3)]
        yield sentences(numbers, 1 + turn % 3), calls, sentences(numbers, 2)


def transcripts():
    system = "You are the operations agent of a parcel service. Look things up before you answer."
    openai, anthropic, number = [{"role": "system", "content": system}], [], 0
    for user, calls, answer in exchanges(Numbers(3)):
        openai.append({"role": "user", "content": user})
        anthropic.append({"role": "user", "content": [{"type": "text", "text": user}]})
        names = [f"call_{number + index}" for index in range(len(calls))]
        number += len(calls)
        openai.append({"role": "assistant", "content": None, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for id, (name, arguments, _) in zip(names, calls)]})
        openai += [{"role": "tool", "tool_call_id": id, "content": result} for id, (_, _, result) in zip(names, calls)]
        anthropic.append({"role": "assistant", "content": [{"type": "text", "text": "Let me look."}] + [
            {"type": "tool_use", "id": id, "name": name, "input": arguments} for id, (name, arguments, _) in zip(names, calls)]})
        anthropic.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": result} for id, (_, _, result) in zip(names, calls)]})
        openai.append({"role": "assistant", "content": answer})
        anthropic.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
    openai.append({"role": "user", "content": "Summarize what is still open."})
    anthropic.append({"role": "user", "content": "Summarize what is still open."})
    tool = {"name": "search_labels", "description": "Searches labels", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
    one = lambda value: json.dumps(value, indent=1) + "\n"
    write(HERE / "agent-openai.json", one({"model": "gpt-5-mini", "messages": openai, "tools": [{"type": "function", "function": tool}]}))
    write(HERE / "agent-anthropic.json", one({"model": "claude-sonnet-4-5", "max_tokens": 1000, "system": system, "messages": anthropic,
                                              "tools": [{"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}]}))
    # What was sent before: the beginning, and messages from the middle.
    write(HERE / "sent-openai.json", one(openai[:9] + openai[30:36]))
    write(HERE / "sent-anthropic.json", one({"system": system, "messages": anthropic[:8]}))
    # Cut badly: results without calls, calls without results, an empty message.
    write(HERE / "damaged-openai.json", one(openai[3:20] + [{"role": "assistant", "content": ""}] + openai[22:31]))
    write(HERE / "damaged-anthropic.json", one(anthropic[2:11] + anthropic[12:20]))


def items():
    numbers = Numbers(4)
    kinds = ["Message", "Document", "ToolOutput", "Memory", "SystemPrompt", "ticket"]
    lines = []
    for number in range(120):
        item = {"id": f"item-{number}", "content": sentences(numbers, 1 + numbers.below(4)), "kind": numbers.pick(kinds)}
        if number % 2 == 0:
            item["tokens"] = 5 + numbers.below(60)
        if number % 3:
            item["timestamp"] = f"{day(numbers)}T{numbers.below(24):02}:00:00Z"
        if number % 4 == 1:
            item["priority"] = numbers.below(10)
        if number % 5 == 2:
            item["tags"] = [numbers.pick(TOPICS), numbers.pick(TOPICS)]
        if number % 6 == 3:
            item["futureRelevanceHint"] = numbers.below(100) / 100
        if number % 10 in (4, 5):
            item["group"] = f"group-{number // 10}"
        if number % 40 == 7:
            item["pinned"] = True
        if number % 30 == 29:
            item["content"] = json.loads(lines[-3])["content"]
        lines.append(json.dumps(item))
    write(HERE / "items.jsonl", "\n".join(lines) + "\n")
    counted = [dict(json.loads(line), tokens=json.loads(line).get("tokens", 5 + number % 37)) for number, line in enumerate(lines)]
    write(HERE / "counted.jsonl", "".join(json.dumps(item) + "\n" for item in counted))
    write(HERE / "five-scorers.toml", FIVE_SCORERS)
    write(HERE / "quota.toml", FIVE_SCORERS.replace('slicer = "greedy"', 'slicer = "quota"\nquotas = [{ kind = "Document", require = 20.0, cap = 40.0 }, { kind = "Memory", require = 10.0 }]'))
    write(HERE / "counts.toml", FIVE_SCORERS.replace('slicer = "greedy"', 'slicer = "count_quota"\nentries = [{ kind = "Memory", require_count = 2, cap_count = 3 }, { kind = "ticket", require_count = 1, cap_count = 9 }]'))
    write(HERE / "counted-knapsack.toml", FIVE_SCORERS.replace('slicer = "greedy"', 'slicer = "count_constrained_knapsack"\nbucket_size = 1\nentries = [{ kind = "Document", require_count = 3, cap_count = 6 }]'))
    write(HERE / "near.toml", FIVE_SCORERS.replace('slicer = "greedy"', 'slicer = "knapsack"\nbucket_size = 1\ndeduplication = { near = 500 }\nkeep_groups_together = true'))


FIVE_SCORERS = """name = "five"
slicer = "greedy"
placer = "u-shaped"

[[scorers]]
type = "recency"
weight = 3.0

[[scorers]]
type = "priority"
weight = 2.0

[[scorers]]
type = "kind"
weight = 1.0

[[scorers]]
type = "frequency"
weight = 1.0

[[scorers]]
type = "lexical"
query = "duplicate labels and lost parcels"
weight = 2.0
"""


def main():
    shutil.rmtree(HERE, ignore_errors=True)
    memory()
    documents()
    transcripts()
    items()
    vectors(sys.argv[1])


main()
