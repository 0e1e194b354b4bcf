"""Measures what an update of an index costs, compared with a full build.

Writes documents of random words with Zipf frequencies, builds their index, and edits them. Prints user and system time of
each command, and its share of the full build's.

usage: python3 bench/index_update.py PANNIER [--files N] [--edits N] [--folder DIR]
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import tempfile


def cpu(arguments, folder):
    """The CPU seconds of a command, and the first line that it prints."""
    child = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, text=True)
    line = child.stdout.readline().strip()
    child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{arguments} failed")
    return usage.ru_utime + usage.ru_stime, line


def text(words, weights, generator):
    sections = []
    for _ in range(generator.randint(2, 8)):
        picked = generator.choices(words, cum_weights=weights, k=generator.randint(30, 180))
        sections.append(f"## {' '.join(picked[:3])}\n\n{' '.join(picked)}.\n")
    return f"# {' '.join(generator.choices(words, k=3))}\n\n" + "\n".join(sections)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("pannier")
    arguments.add_argument("--files", type=int, default=30_000)
    arguments.add_argument("--edits", type=int, default=20)
    arguments.add_argument("--folder")
    arguments = arguments.parse_args()
    pannier = str(pathlib.Path(arguments.pannier).resolve())
    folder = pathlib.Path(arguments.folder or tempfile.mkdtemp())
    generator = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(generator.choices(letters, k=generator.randint(2, 10))) for _ in range(60_000)]
    weights, total = [], 0.0
    for rank in range(len(words)):
        total += 1 / (rank + 2)
        weights.append(total)
    paths = [folder / f"docs/part-{number % 300}/document-{number}.md" for number in range(arguments.files)]
    size = 0
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = text(words, weights, generator)
        size += len(content)
        path.write_text(content)
    # Files that have just been written are always read again.
    for path in paths:
        os.utime(path, (1_000_000_000, 1_000_000_000))
    subprocess.run(["sleep", "3"], check=True)
    print(f"{arguments.files} files of {size // arguments.files} bytes on average")
    index = [pannier, "docs", "index", "docs", "--index", "index"]
    full, line = cpu(index, folder)
    print(f"full build            {full:8.2f} s            {line}")

    def report(name, seconds, line):
        print(f"{name:<22}{seconds:8.2f} s  {100 * seconds / full:6.2f} %  {line}")

    report("nothing changed", *cpu(index, folder))
    search = [pannier, "docs", "search", " ".join(words[50:54]), "--index", "index"]
    report("search, no update", *cpu([*search, "--no-update"], folder))
    report("search, unchanged", *cpu(search, folder))
    costs = []
    for number in range(arguments.edits):
        paths[number * 997 % len(paths)].write_text(text(words, weights, generator))
        seconds, line = cpu(index, folder)
        costs.append(seconds)
        report(f"edit {number + 1}", seconds, line)
    report("mean of edits", sum(costs) / len(costs), "")
    paths[5].write_text(text(words, weights, generator))
    report("search after an edit", *cpu(search, folder))
    if not arguments.folder:
        shutil.rmtree(folder)


main()
