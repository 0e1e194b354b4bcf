"""Contexts of other ways to fill a budget, for the judge of `pannier eval docs --contexts`.

usage: bench/recall.py PROGRAM CUPEL DATA WORK OUT

DATA is a data set, WORK the folder in which `pannier eval docs --data DATA --keep WORK` left its index, and OUT the folder for
NAME.jsonl, with a line for each query and budget. CUPEL is the program of bench/cupel. All methods but `bm25` choose from the same
50 passages with the same scores, found by the lexical search of PROGRAM; `bm25` searches windows of 1,000 bytes by SQLite FTS5. Four
bytes are a token, and two bytes separate passages.
"""

import collections
import concurrent.futures
import json
import math
import pathlib
import re
import sqlite3
import subprocess
import sys

CANDIDATES = 50
SEPARATOR = 2
# Of the windows of `bm25`, in bytes.
WINDOW, OVERLAP = 1_000, 200
# The weight of relevance in MMR.
LAMBDA = 0.5
WORD = re.compile(r"\w+")


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line] if path.exists() else []


class Pool:
    """The candidates of a query: passages as (document, start, end), with relevance from 0 to 1."""

    def __init__(self, items):
        self.contents = [item["content"] for item in items]
        self.passages = [(item["metadata"]["document"], item["metadata"]["start"], item["metadata"]["end"]) for item in items]
        self.relevance = [item["futureRelevanceHint"] for item in items]
        self.bytes = [end - start + SEPARATOR for _, start, end in self.passages]
        vectors = tf_idf(self.contents)
        self.similarity = [[0.0] * len(items) for _ in items]
        for a, first in enumerate(vectors):
            for b in range(a + 1):
                shared = first.keys() & vectors[b].keys()
                product = math.fsum(first[word] * vectors[b][word] for word in shared)
                self.similarity[a][b] = self.similarity[b][a] = product

    def top_k(self, size):
        """The longest beginning of the ranking that fits."""
        chosen, total = [], -SEPARATOR
        for position, length in enumerate(self.bytes):
            total += length
            if total > size:
                break
            chosen.append(position)
        return chosen

    def greedy(self, size, gain):
        """Takes the item with the highest gain that fits, until none does or none has a gain. Of equal gains, the better rank."""
        chosen, rest = [], size + SEPARATOR
        while True:
            gains = []
            for item in range(len(self.passages)):
                if item not in chosen and self.bytes[item] <= rest and (value := gain(chosen, item)) is not None:
                    gains.append((value, -item))
            if not gains:
                return chosen
            item = -max(gains)[1]
            rest -= self.bytes[item]
            chosen.append(item)

    def mmr(self, size):
        """Maximal marginal relevance."""

        def gain(chosen, item):
            nearest = max((self.similarity[item][other] for other in chosen), default=0.0)
            return LAMBDA * self.relevance[item] - (1 - LAMBDA) * nearest

        return self.greedy(size, gain)

    def facility_location(self, size):
        """Each candidate counts by its relevance and its similarity to the nearest chosen one; the gain is per byte."""
        covered = [0.0] * len(self.passages)

        def gain(chosen, item):
            if chosen and chosen[-1] != gain.last:
                gain.last = chosen[-1]
                for other, value in enumerate(self.similarity[gain.last]):
                    covered[other] = max(covered[other], value)
            total = sum(self.relevance[other] * max(value - covered[other], 0.0) for other, value in enumerate(self.similarity[item]))
            return total / self.bytes[item] if total > 1e-12 else None

        gain.last = None
        return self.greedy(size, gain)

    def adagres_like(self, size):
        """Relevance less redundancy with all chosen ones. As in AdaGReS, the weight of redundancy follows from the pool: the mean
        relevance equals the mean redundancy of as many items as the budget holds on average."""
        count = max(len(self.passages), 1)
        pairs = max(count * (count - 1), 1)
        mean_similarity = max(sum(sum(row) for row in self.similarity) - sum(self.similarity[item][item] for item in range(len(self.passages))), 1e-9) / pairs
        held = min(max(size / max(sum(self.bytes) / count, 1), 2), max(count, 2))
        weight = sum(self.relevance) / count / ((held - 1) / 2 * mean_similarity)

        def gain(chosen, item):
            value = self.relevance[item] - weight * sum(self.similarity[item][other] for other in chosen)
            return value if value > 0 else None

        return self.greedy(size, gain)


def tf_idf(texts):
    """Returns vectors of length 1."""
    counts = [collections.Counter(word.lower() for word in WORD.findall(text)) for text in texts]
    having = collections.Counter(word for count in counts for word in count)
    vectors = []
    for count in counts:
        vector = {word: number * math.log(1 + len(texts) / having[word]) for word, number in count.items()}
        length = math.sqrt(math.fsum(value * value for value in vector.values())) or 1.0
        vectors.append({word: value / length for word, value in vector.items()})
    return vectors


def cut(passages, size):
    """Takes passages in order, and cuts the last one at the budget."""
    chosen = []
    for document, start, end in passages:
        length = min(end - start, size)
        if length <= 0:
            break
        chosen.append((document, start, start + length))
        size -= length + SEPARATOR
    return chosen


class Windows:
    """Windows of all documents in SQLite FTS5, as tutorials make them."""

    def __init__(self, documents):
        self.passages = []
        self.database = sqlite3.connect(":memory:")
        self.database.execute("create virtual table windows using fts5(body, tokenize = 'porter unicode61')")
        for document, title, content in documents:
            data = content.encode()
            for start, end in windows(data):
                text = data[start:end].decode(errors="ignore")
                self.database.execute("insert into windows(rowid, body) values (?, ?)", (len(self.passages), f"{title}\n{text}"))
                self.passages.append((document, start, end))

    def search(self, query):
        words = " OR ".join(f'"{word}"' for word in re.findall(r"[^\W_]+", query))
        statement = "select rowid from windows where windows match ? order by bm25(windows), rowid limit ?"
        return [self.passages[row] for (row,) in self.database.execute(statement, (words, CANDIDATES))] if words else []


def windows(data):
    """Yields windows that end after whitespace where there is some."""
    start = 0
    while start < len(data):
        end = min(start + WINDOW, len(data))
        if end < len(data):
            space = max(data.rfind(byte, start + WINDOW // 2, end) for byte in (b" ", b"\n"))
            end = space + 1 if space >= 0 else end
        yield start, end
        if end == len(data):
            break
        start = max(end - OVERLAP, start + 1)


def documents(data, work):
    """Returns id by path, and (id, title, text) of each document."""
    listed = lines(data / "docs.jsonl")
    if listed:
        # `pannier eval docs` names the files by their line.
        return {f"{number:07}.txt": line["id"] for number, line in enumerate(listed)}, [(line["id"], line.get("title", ""), line["text"]) for line in listed]
    tree = data / "tree"
    texts = []
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        try:
            texts.append((str(path.relative_to(tree)), "", path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return {name: name for name, *_ in texts}, texts


def main():
    program, cupel, data, work, out = sys.argv[1], sys.argv[2], *map(pathlib.Path, sys.argv[3:])
    ids, texts = documents(data, work)
    budgets = [200, 400, 800, 1_200] if (data / "docs.jsonl").exists() else [1_000, 2_000, 4_000]
    search = [program, "docs", "search", "--index", work / "cache", "--no-update", "--mode", "lexical", "--candidates", str(CANDIDATES), "--limit", str(CANDIDATES), "--format", "jsonl", "--"]

    def ask(query):
        found = subprocess.run([*search, query["text"]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode not in (0, 1):
            sys.exit(f"error: the search for {query['text']} failed")
        return [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]

    queries = lines(data / "queries.jsonl")
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        found = list(threads.map(ask, queries))
    other = Windows(texts)
    out.mkdir(parents=True, exist_ok=True)
    contexts = collections.defaultdict(list)
    pools = []
    for query, items in zip(queries, found, strict=True):
        pool = Pool(items)
        passages = [(ids[document], start, end) for document, start, end in pool.passages]
        shown = other.search(query["text"])
        for budget in budgets:
            size = budget * 4
            whole = {"top-k": pool.top_k(size), "mmr": pool.mmr(size), "facility-location": pool.facility_location(size), "adagres-like": pool.adagres_like(size)}
            chosen = {name: [passages[item] for item in items] for name, items in whole.items()}
            chosen |= {"top-k-cut": cut(passages, size), "bm25": cut(shown, size)}
            for name, taken in chosen.items():
                contexts[name].append((query["id"], budget, taken))
            pools.append((query["id"], budget, passages))
            items = [{"content": content, "tokens": -(-size // 4), "score": score} for content, size, score in zip(pool.contents, pool.bytes, pool.relevance, strict=True)]
            pools[-1] += (json.dumps({"budget": budget, "items": items}),)
    given = "".join(line + "\n" for *_, line in pools)
    selected = subprocess.run([cupel], input=given, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    for (query, budget, passages, _), line in zip(pools, selected, strict=True):
        for slicer, positions in json.loads(line).items():
            contexts[f"cupel-{slicer}"].append((query, budget, [passages[position] for position in positions]))
    for name, listed in contexts.items():
        with open(out / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for query, budget, taken in listed:
                size = sum(end - start + SEPARATOR for _, start, end in taken) - SEPARATOR
                tokens = -(-max(size, 0) // 4)
                file.write(json.dumps({"query": query, "budget": budget, "tokens": tokens, "passages": taken}) + "\n")


if __name__ == "__main__":
    main()
