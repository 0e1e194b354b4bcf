#!/usr/bin/env python3
"""Measures what the gateway adds to a direct connection with a provider.

usage: bench/gateway.py PROGRAM [--streams N] [--seconds N] [PART ...]

A fake provider runs in a process of its own. Each request is sent directly and through the gateway in turn, over connections
that stay open. The parts are:

  pass      100 KB bodies that pass: another path, a known chat, and chats that were never sent before
  long      requests of 200,000 tokens: known ones, one message longer each time; new ones; and ones that must be cut
  first     the time to the first byte of a stream
  streams   many streams at once, with each byte compared, and the memory of the gateway

Times are in milliseconds. "added" is the difference of two requests that follow each other; its p99 has the noise of both.
A bar is for what is added. The exit status is 1 if one is missed.
"""

import argparse
import asyncio
import hashlib
import http.client
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

EVENT_BYTES = 200
# The seconds between chats that were never sent before: longer than it takes to count one.
PAUSE = 0.02
# What is above its bar.
MISSED = []
ANSWER = json.dumps({"type": "message", "content": [], "usage": {"input_tokens": 1}}).encode()


def event(stream, number):
    """The bytes of an event of a stream."""
    digest = hashlib.sha256(f"{stream} {number}".encode()).hexdigest()
    return f"event: delta\ndata: {(digest * 4)[:EVENT_BYTES]}\n\n".encode()


async def provide(port_file):
    """The provider: answers at once, or streams events as the header X-Stream says: its number, their number, their distance."""

    async def serve(reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                await reader.readexactly(int(headers["content-length"]))
                if "x-stream" not in headers:
                    length = len(ANSWER)
                    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode() + ANSWER)
                    continue
                stream, count, distance = (float(value) for value in headers["x-stream"].split())
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                for number in range(int(count)):
                    await asyncio.sleep(distance)
                    data = event(int(stream), number)
                    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=2048, limit=1 << 20)
    pathlib.Path(port_file).write_text(str(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


class Client:
    """A connection that stays open."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.open()

    def open(self):
        """Connects again: the gateway closes connections that are idle for 30 seconds."""
        self.connection.close()
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path, body, headers=None):
        """Returns the time of a request, and its headers."""
        started = time.perf_counter()
        self.connection.request("POST", path, body, {"X-Api-Key": "key", "Content-Type": "application/json", **(headers or {})})
        answer = self.connection.getresponse()
        answer.read(1)
        first = time.perf_counter() - started
        answer.read()
        assert answer.status == 200, answer.status
        return 1e3 * first, 1e3 * (time.perf_counter() - started), answer.headers


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def report(name, direct, gateway, share=None, bar=None):
    """Prints a line. The bar is the largest value of a percentile of what is added."""
    added = [through - straight for straight, through in zip(direct, gateway, strict=True)]
    p99 = percentile(gateway, 0.99) - percentile(direct, 0.99)
    shown = "none" if bar is None else f"p{100 * share:.0f} {bar:.4g}"
    print(f"{name:34} direct p50 {percentile(direct, .5):6.2f} p99 {percentile(direct, .99):6.2f}   gateway p50 {percentile(gateway, .5):6.2f} "
          f"p99 {percentile(gateway, .99):6.2f}   added p50 {percentile(added, .5):6.2f} p99 {percentile(added, .99):6.2f}   p99s differ by {p99:6.2f}   bar {shown}")
    if bar is not None and percentile(added, share) > bar:
        MISSED.append(f"{name} adds {percentile(added, share):.2f} ms")


def words(generator, count):
    letters = "etaoinshrdlu"
    return " ".join("".join(generator.choices(letters, k=generator.randint(2, 9))) for _ in range(count))


def chat(texts):
    messages = [{"role": "user", "content": "Fix the build."}]
    for number, text in enumerate(texts):
        call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": f"run {number}"}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": text}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return json.dumps({"model": "claude-x", "max_tokens": 100, "messages": messages}).encode()


def compare(direct, gateway, path, bodies, is_first=False, headers=None, pause=0.0):
    times = ([], [])
    direct.open()
    gateway.open()
    for body in bodies:
        time.sleep(pause)
        for client, column in zip((direct, gateway), times, strict=True):
            first, whole, _ = client.post(path, body, headers)
            column.append(first if is_first else whole)
    return times


def measure_pass(direct, gateway, generator):
    size = 100_000
    body = os.urandom(size)
    report("another path, 100 KB", *compare(direct, gateway, "/v1/files", [body] * 1_000), 0.99, 5)
    text = words(generator, 16_500)
    known = chat([text[start:start + 5_000] for start in range(0, len(text), 5_000)])
    compare(direct, gateway, "/v1/messages", [known] * 5)
    report(f"known chat, {len(known) // 1_000} KB", *compare(direct, gateway, "/v1/messages", [known] * 1_000), 0.99, 5)
    new = [chat([words(generator, 825) for _ in range(20)]) for _ in range(600)]
    size = len(new[0]) // 1_000
    report(f"new chat, {size} KB, 50 a second", *compare(direct, gateway, "/v1/messages", new[:300], pause=PAUSE), 0.99, 5)
    # More than one processor can count: what is not counted yet waits, and then further requests are counted first.
    report(f"new chat, {size} KB, without a pause", *compare(direct, gateway, "/v1/messages", new[300:]), 0.99, 5)


def measure_long(program, direct, gateway, fitting, generator):
    # A word of these has about 2 tokens.
    texts = [words(generator, 500) for _ in range(240)]
    bodies = [chat(texts[:end]) for end in range(180, 240)]
    _, _, headers = gateway.post("/v1/messages", bodies[0])
    print(f"tokens of the first long request: {headers['pannier-tokens-in']}, {len(bodies[0]) // 1_000} KB, {headers['pannier-fit']}")
    report("known blocks, one turn longer", *compare(direct, gateway, "/v1/messages", bodies[1:]), 0.99, 30)
    _, _, headers = fitting.post("/v1/messages", bodies[0])
    print(f"fitted: {headers['pannier-fit']}, {headers['pannier-tokens-sent']} tokens")
    report("the same, cut to half", *compare(direct, fitting, "/v1/messages", bodies[1:]), 0.99, 30)
    new = [chat([words(generator, 500) for _ in range(180)]) for _ in range(20)]
    once = count_once(program, new[0])
    print(f"counting once: {once:.1f}")
    report("from nothing", *compare(direct, gateway, "/v1/messages", new), 0.5, 2 * once)
    report("from nothing, cut to half", *compare(direct, fitting, "/v1/messages", new), 0.5, 2 * once)


def count_once(program, body):
    """Returns the time of counting the texts of a body once, without reading the vocabulary."""
    with tempfile.TemporaryDirectory() as folder:
        texts = pathlib.Path(folder, "texts")
        messages = json.loads(body)["messages"]
        texts.write_text("\n".join(block["content"] for message in messages[2::2] for block in message["content"]))
        empty = pathlib.Path(folder, "empty")
        empty.write_text("a")

        def best(path):
            times = []
            for _ in range(7):
                started = time.perf_counter()
                subprocess.run([program, "tokens", str(path), "--tokenizer", "claude-x"], check=True, stdout=subprocess.DEVNULL)
                times.append(time.perf_counter() - started)
            return 1e3 * min(times)

        return best(texts) - best(empty)


def measure_first(direct, gateway):
    body = chat(["short"])
    headers = {"X-Stream": "1 3 0.02"}
    report("first byte of a stream", *compare(direct, gateway, "/v1/messages", [body] * 200, True, headers), 0.99, 2)


def memory(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


async def measure_streams(address, pid, streams, seconds):
    host, port = address.split(":")
    body = chat(["short"])
    wrong = []

    async def one(stream):
        await asyncio.sleep(stream / streams)
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
        head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: key-{stream}\r\nX-Stream: {stream} {seconds} 1\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        received = b""
        while True:
            size = int(await reader.readline(), 16)
            received += (await reader.readexactly(size + 2))[:-2]
            if size == 0:
                break
        writer.close()
        if not head.startswith(b"HTTP/1.1 200") or received != b"".join(event(stream, number) for number in range(seconds)):
            wrong.append(stream)

    async def watch():
        samples = []
        while True:
            samples.append(memory(pid))
            await asyncio.sleep(1)
            if finished.is_set():
                return samples

    finished = asyncio.Event()
    before = memory(pid)
    watching = asyncio.create_task(watch())
    results = await asyncio.gather(*(one(stream) for stream in range(streams)), return_exceptions=True)
    finished.set()
    samples = await watching
    failed = [result for result in results if result is not None]
    half = samples[len(samples) // 2]
    print(f"{streams} streams of {seconds} s: {len(failed)} failed, {len(wrong)} with other bytes; memory {before:.0f} MB before, "
          f"{half:.0f} MB in the middle, {max(samples):.0f} MB at most, {memory(pid):.0f} MB after")
    if failed:
        print("first failure:", repr(failed[0]))
    if failed or wrong:
        MISSED.append(f"{len(failed)} streams failed, and {len(wrong)} have other bytes")


def start_gateway(program, upstream, *options):
    command = [program, "gateway", "--upstream", upstream, "--http", "0", "--log-level", "off", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    address = process.stderr.readline().strip().removeprefix("listening at http://")
    return process, address


def main():
    if sys.argv[1:2] == ["--provide"]:
        return asyncio.run(provide(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("parts", nargs="*", default=["pass", "long", "first", "streams"])
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    generator = random.Random(7)
    processes = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            port = pathlib.Path(folder, "port")
            processes.append(subprocess.Popen([sys.executable, __file__, "--provide", str(port)]))
            while not port.exists() or not port.read_text():
                time.sleep(0.05)
            provider = f"127.0.0.1:{port.read_text()}"
        process, address = start_gateway(options.program, f"http://{provider}", "--budget", "1m")
        processes.append(process)
        direct, gateway = Client(provider), Client(address)
        for part in options.parts:
            if part == "pass":
                measure_pass(direct, gateway, generator)
            elif part == "long":
                fitting, fitting_address = start_gateway(options.program, f"http://{provider}", "--budget", "110k")
                processes.append(fitting)
                measure_long(options.program, direct, gateway, Client(fitting_address), generator)
            elif part == "first":
                measure_first(direct, gateway)
            elif part == "streams":
                asyncio.run(measure_streams(address, process.pid, options.streams, options.seconds))
            else:
                sys.exit(f"error: there is no part '{part}'")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if MISSED:
        sys.exit("error: above its bar: " + "; ".join(MISSED))


main()
