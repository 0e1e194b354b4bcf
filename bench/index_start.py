"""Measures the start of the command on a large index: one search for each process, without an update.

Writes documents of random words with Zipf frequencies, builds their index (1 GB by default), and searches it. Prints the user and system time
and the elapsed time of each command, the median of its runs.

usage: python3 bench/index_start.py PANNIER [--documents N] [--runs N] [--folder DIR]

A folder that has an index is measured as it is.
"""

import argparse
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile
import time

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def run(arguments, folder):
    """The CPU time and the elapsed time of a command in milliseconds, and the bytes that it prints."""
    start = time.perf_counter()
    child = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    elapsed = time.perf_counter() - start
    # 1: nothing matches.
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{arguments} failed")
    return 1000 * (usage.ru_utime + usage.ru_stime), 1000 * elapsed, len(output)


def words(generator):
    return ["".join(generator.choices(LETTERS, k=generator.randint(2, 10))) for _ in range(60_000)]


def write(folder, vocabulary, documents, generator):
    weights, total = [], 0.0
    for rank in range(len(vocabulary)):
        total += 1 / (rank + 2)
        weights.append(total)
    for number in range(documents):
        sections = []
        for _ in range(10):
            picked = generator.choices(vocabulary, cum_weights=weights, k=generator.randint(30, 70))
            sections.append(f"## {' '.join(picked[:3])}\n\n{' '.join(picked)}.\n")
        path = folder / f"docs/part-{number % 300}/document-{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(sections))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("pannier")
    arguments.add_argument("--documents", type=int, default=160_000)
    arguments.add_argument("--runs", type=int, default=41)
    arguments.add_argument("--folder")
    arguments = arguments.parse_args()
    pannier = str(pathlib.Path(arguments.pannier).resolve())
    folder = pathlib.Path(arguments.folder or tempfile.mkdtemp())
    generator = random.Random(7)
    vocabulary = words(generator)
    if not (folder / "index").exists():
        write(folder, vocabulary, arguments.documents, generator)
        subprocess.run([pannier, "docs", "index", "docs", "--index", "index"], cwd=folder, check=True)
    size = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file())
    print(f"index of {size / 1e6:.0f} MB")
    queries = {
        "absent": "qzxjwvkq",
        "rare": vocabulary[40_000],
        "common": vocabulary[1_000],
        "three words": " ".join(vocabulary[position] for position in (300, 3_000, 30_000)),
    }
    print(f"{'command':<32}{'CPU':>10}{'elapsed':>12}{'output':>12}")

    def report(name, command):
        runs = [run(command, folder) for _ in range(arguments.runs)]
        cpu, elapsed, output = (statistics.median(column) for column in zip(*runs))
        print(f"{name:<32}{cpu:7.1f} ms{elapsed:9.1f} ms{output:8.0f} bytes", flush=True)

    report("--version", [pannier, "--version"])
    for tokenizer in ["bytes/4", "o200k"]:
        for name, query in queries.items():
            search = [pannier, "docs", "search", query, "--index", "index", "--no-update", "-t", tokenizer]
            report(f"{name}, {tokenizer}", search)
    if not arguments.folder:
        shutil.rmtree(folder)


main()
