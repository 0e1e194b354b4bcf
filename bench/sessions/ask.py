"""Sends a request from standard input to the server of peers.py, and prints its answer: ask.py SOCKET PEER BUDGET."""

import socket
import sys

path, peer, budget = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(path)
    connection.sendall(f"{peer} {budget}\n".encode() + sys.stdin.buffer.read())
    connection.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
status, _, body = answer.partition(b"\n")
if status != b"ok":
    sys.exit(body.decode())
sys.stdout.buffer.write(body)
