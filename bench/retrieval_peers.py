"""Measures peers of the search by words: SQLite FTS5, and bm25s where it is installed.

Reads texts and queries, one JSON string a line, and prints one JSON object: for each peer the median and the 99th percentile
of a query for ten results, in nanoseconds. With --run FILE, FTS5 also writes its first hundred results for each query.
"""

import argparse
import json
import re
import sqlite3
import time


def measure(search, queries):
    for query in queries[:50]:
        search(query)
    times = []
    for query in queries:
        start = time.perf_counter_ns()
        search(query)
        times.append(time.perf_counter_ns() - start)
    times.sort()
    return {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}


def any_word(query):
    return " OR ".join(f'"{word}"' for word in re.findall(r"[^\W_]+", query))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("texts")
    arguments.add_argument("queries")
    arguments.add_argument("--run")
    arguments = arguments.parse_args()
    texts = [json.loads(line) for line in open(arguments.texts, encoding="utf-8")]
    queries = [json.loads(line) for line in open(arguments.queries, encoding="utf-8")]
    results = {}

    database = sqlite3.connect(":memory:")
    database.execute("create virtual table texts using fts5(body, tokenize = 'porter unicode61')")
    database.executemany("insert into texts(rowid, body) values (?, ?)", enumerate(texts))

    def search(query, limit=10):
        statement = "select rowid from texts where texts match ? order by bm25(texts), rowid limit ?"
        return [row[0] for row in database.execute(statement, (any_word(query), limit))]

    results["SQLite FTS5"] = measure(search, queries)
    if arguments.run:
        with open(arguments.run, "w", encoding="utf-8") as run:
            for number, query in enumerate(queries):
                run.writelines(f"{number}\t{found}\n" for found in search(query, 100))

    try:
        import bm25s
    except ImportError:
        print(json.dumps(results))
        return
    retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    retriever.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)

    def retrieve(query):
        tokens = bm25s.tokenize([query], stopwords="en", show_progress=False)
        return retriever.retrieve(tokens, k=10, show_progress=False)

    results["bm25s"] = measure(retrieve, queries)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
