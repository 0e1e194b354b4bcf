#!/usr/bin/env python3
"""Measures the HTTP server as a team would use it; needs only Python's standard library.

usage: bench/server.py [PROGRAM] [--peer PATH | --against PATH] [--only NAME] [--soak MINUTES]

Prints, for the server and for another build of it (--peer):
- the latency of `ping` next to four calls with bodies of 3.6 MB;
- the latency of 1,000 mixed calls by 32 clients;
- the latency of `ping` from 127.0.0.1 next to 256 half-open connections from 127.0.0.2;
- resident memory before, and ten seconds after, a hundred calls with bodies of 4 MB;
- with --against, only the mixed calls: in turn to the server and to another build of it, five times, with ratios;
- with --soak, only resident memory of the server at rest after each minute of mixed load.

The exit status is 1 if a bar is missed: 50 ms for the p99 of `ping` next to large calls, no lock-out, and twice the memory.
"""

import argparse
import http.client
import json
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
# What is above its bar.
MISSED = []
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Server:
    """A server in a folder of its own, with the examples."""

    def __init__(self, program):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pannier-bench-"))
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        run = [program, "docs", "index", "examples/handbook", "--index", "handbook"]
        subprocess.run(run, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        serve = [program, "serve", "--index", "handbook", "--snippets", "examples/snippets", "--memory", "examples/harbour"]
        self.process = subprocess.Popen([*serve, "--http", "0"], cwd=self.folder, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.port = int(re.search(r":(\d+)/mcp", line)[1])
        # Nobody reads the log.
        threading.Thread(target=self.drain_log, daemon=True).start()

    def drain_log(self):
        for _ in self.process.stderr:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)

    def resident(self):
        """Resident memory in MB."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


class Client:
    """A client that keeps its connection."""

    def __init__(self, server):
        self.server, self.connection = server, None

    def call(self, body, path="/mcp"):
        """Sends a message, and returns the seconds until its response is read."""
        started = time.perf_counter()
        for attempt in range(2):
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
            try:
                self.connection.request("POST", path, body, HEADERS)
                response = self.connection.getresponse()
                text = response.read()
                break
            except (ConnectionError, http.client.RemoteDisconnected):
                # The server closed an idle connection.
                self.connection = None
                if attempt:
                    raise
        if response.status != 200 or b'"isError":true' in text or b'"error"' in text[:60]:
            raise RuntimeError(f"{response.status}: {text[:200]}")
        return time.perf_counter() - started


def tool(name, **arguments):
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def pack(size):
    """A call of about this many bytes."""
    content = "Refunds take five days after the parcel is back. " * 20
    items = [{"content": f"{number} {content}", "id": str(number)} for number in range(size // (len(content) + 40))]
    return tool("pack_items", items=items, budget=2000)


def percentile(times, share):
    times = sorted(times)
    return times[min(len(times) - 1, int(len(times) * share))] * 1000


def beside(work, measure):
    """Calls `measure` repeatedly while the functions of `work` run on threads."""
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    times = []
    time.sleep(0.2)
    while any(thread.is_alive() for thread in threads) or len(times) < 20:
        times.append(measure())
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    return times


def ping_beside_large_calls(server):
    body = pack(3_600_000)
    # Several rounds, so that there are enough pings.
    work = [lambda: [Client(server).call(body) for _ in range(3)] for _ in range(4)]
    pings = Client(server)
    times = beside(work, lambda: pings.call(json.dumps(PING)))
    print(f"  ping next to four 3.6 MB calls: p50 {percentile(times, 0.5):.1f} ms, p99 {percentile(times, 0.99):.1f} ms, "
          f"{len(times)} pings")
    if percentile(times, 0.99) > 50:
        MISSED.append(f"ping next to large calls: p99 {percentile(times, 0.99):.1f} ms")


def mixed_calls(seed):
    """Bodies of mixed calls: mostly small, some of 100 kB, few of 1 MB."""
    small = [
        json.dumps(PING),
        tool("search_docs", query="how do we deploy", budget=500),
        tool("read_docs", query="deploy", budget=500),
        tool("get_memory", budget=400),
        tool("get_context"),
        tool("get_context", snippet_ids=["project/spec/refund-endpoint"]),
        pack(5_000),
    ]
    middle, large = pack(100_000), pack(1_000_000)
    chooser = random.Random(seed)
    while True:
        kind = chooser.random()
        yield large if kind < 0.01 else middle if kind < 0.1 else chooser.choice(small)


def soak_calls(seed):
    """Mixed calls, others of the JSON API, new queries that no cache has, and few bodies of 4 MB."""
    bodies, huge, chooser = mixed_calls(seed), pack(4_000_000), random.Random(seed)
    words = "deploy roll back refund order ledger payment booking test release error rate people".split()
    while True:
        query = " ".join(chooser.choices(words, k=4)) + f" {chooser.randrange(10**6)}"
        kind = chooser.random()
        if kind < 0.002:
            yield huge, "/mcp"
        elif kind < 0.2:
            path, request = chooser.choice([
                ("search", {"query": query, "budget": 500}),
                ("read", {"query": query, "budget": 500}),
                ("memory", {"query": query, "budget": 400}),
                ("snippets", {"query": query}),
                ("count", {"texts": [query] * 20}),
                ("chat", {"transcript": [{"role": "user", "content": query}], "budget": 100}),
            ])
            yield json.dumps(request), f"/v1/{path}"
        elif kind < 0.4:
            yield tool("search_docs", query=query, budget=500), "/mcp"
        else:
            yield next(bodies), "/mcp"


def mixed(server, clients, calls):
    times, lock, left = [], threading.Lock(), iter(range(calls))

    def run(seed):
        client, bodies = Client(server), mixed_calls(seed)
        while True:
            with lock:
                if next(left, None) is None:
                    return
            elapsed = client.call(next(bodies))
            with lock:
                times.append(elapsed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, time.perf_counter() - started


def mixed_calls_of_many_clients(server):
    times, seconds = mixed(server, 32, 1_000)
    if len(times) != 1_000:
        MISSED.append(f"{1_000 - len(times)} mixed calls failed")
    print(f"  1,000 mixed calls by 32 clients: p50 {percentile(times, 0.5):.1f} ms, p99 {percentile(times, 0.99):.1f} ms, "
          f"{seconds:.1f} s")


def compare_mixed(program, other, rounds=5):
    """Sends the mixed calls to both servers in turn, so that both have the same noise."""
    with Server(program) as server, Server(other) as peer:
        for one in (server, peer):
            mixed(one, 32, 200)
        times, ratios = ([], []), []
        for number in range(rounds):
            order = [(0, server), (1, peer)] if number % 2 == 0 else [(1, peer), (0, server)]
            p99 = [0.0, 0.0]
            for column, one in order:
                own, _ = mixed(one, 32, 1_000)
                times[column].extend(own)
                p99[column] = percentile(own, 0.99)
            ratios.append(p99[0] / p99[1])
    for name, own in zip((program, other), times, strict=True):
        print(f"{name}: p50 {percentile(own, 0.5):.1f} ms, p99 {percentile(own, 0.99):.1f} ms, {len(own)} calls")
    p50, p99 = (percentile(times[0], share) / percentile(times[1], share) for share in (0.5, 0.99))
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"ratio of all: p50 {p50:.2f}, p99 {p99:.2f}; p99 of each thousand: {listed}")


def half_open_connections(server):
    half_open = []
    for _ in range(256):
        connection = socket.create_connection(("127.0.0.1", server.port), source_address=("127.0.0.2", 0))
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: loc")
        half_open.append(connection)
    times = []
    for _ in range(20):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
            started = time.perf_counter()
            connection.request("POST", "/mcp", json.dumps(PING), HEADERS)
            connection.getresponse().read()
            times.append(time.perf_counter() - started)
        except OSError:
            print("  256 half-open connections from 127.0.0.2: 127.0.0.1 is locked out")
            MISSED.append("127.0.0.1 is locked out")
            break
    else:
        print(f"  256 half-open connections from 127.0.0.2: ping from 127.0.0.1 p99 {percentile(times, 0.99):.1f} ms")
    for connection in half_open:
        connection.close()


def memory_after_large_calls(server):
    client = Client(server)
    client.call(tool("search_docs", query="how do we deploy", budget=500))
    client.call(pack(4_000))
    before, body, peak = server.resident(), pack(4_000_000), 0

    def run():
        own = Client(server)
        for _ in range(25):
            own.call(body)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        peak = max(peak, server.resident())
        time.sleep(0.1)
    end = server.resident()
    time.sleep(10)
    after = server.resident()
    print(f"  resident memory: {before:.0f} MB before a hundred 4 MB calls, peak {peak:.0f} MB, {end:.0f} MB at their end, "
          f"{after:.0f} MB ten seconds later ({after / before:.2f}x)")
    if after > 2 * before:
        MISSED.append(f"resident memory: {after / before:.2f}x")


def soak(server, minutes, clients=8):
    """Calls for fifty seconds of each minute. Prints resident memory after ten seconds' rest, and its most before that."""
    rest, sizes, calls, failed = 10, [], 0, []
    generators = [soak_calls(seed) for seed in range(clients)]

    def run(bodies, end):
        nonlocal calls
        client = Client(server)
        while time.time() < end and not failed:
            try:
                client.call(*next(bodies))
                calls += 1
            except Exception as error:
                failed.append(error)

    for minute in range(minutes):
        end, most = time.time() + 60 - rest, 0
        threads = [threading.Thread(target=run, args=(bodies, end)) for bodies in generators]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, server.resident())
            time.sleep(0.2)
        if failed:
            sys.exit(f"error: a call failed: {failed[0]}")
        time.sleep(rest)
        sizes.append(server.resident())
        print(f"  minute {minute + 1}: {calls} calls, {sizes[-1]:.0f} MB at rest, at most {most:.0f} MB", flush=True)
    half = sizes[len(sizes) // 2:]
    print(f"  {calls} calls, none failed; at rest {half[0]:.0f} MB after half of the time, {half[-1]:.0f} MB at the end "
          f"({half[-1] / half[0]:.2f}x)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=ROOT / "target/release/pannier", type=pathlib.Path)
    parser.add_argument("--peer", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path)
    parser.add_argument("--soak", metavar="MINUTES", type=int)
    parser.add_argument("--only", choices=["ping", "mixed", "half-open", "memory"])
    arguments = parser.parse_args()
    if arguments.soak:
        with Server(arguments.program.resolve()) as server:
            soak(server, arguments.soak)
        return
    if arguments.against:
        compare_mixed(arguments.program.resolve(), arguments.against.resolve())
        return
    parts = {
        "ping": ping_beside_large_calls,
        "mixed": mixed_calls_of_many_clients,
        "half-open": half_open_connections,
        "memory": memory_after_large_calls,
    }
    for program in filter(None, [arguments.program, arguments.peer]):
        print(f"{os.path.basename(program)}:", flush=True)
        for name, part in parts.items():
            if arguments.only in (None, name):
                with Server(program.resolve()) as server:
                    part(server)
    if MISSED:
        sys.exit("error: above its bar: " + "; ".join(MISSED))


main()
