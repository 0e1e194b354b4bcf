"""Helpers that several tests share."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Command:
    """The command: the program that `PANNIER_PROGRAM` names, or the extension in this process."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str) -> tuple[int, bytes]:
        from pannier import _pannier

        if program := os.environ.get("PANNIER_PROGRAM"):
            done = subprocess.run([ROOT / program, "--quiet", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            return done.returncode, done.stdout
        with _redirected() as output:
            code = _pannier.command(["pannier", "--quiet", *arguments])
        return code, output()


# The extension writes to the file descriptors.
@contextlib.contextmanager
def _redirected() -> Iterator[object]:
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)

        def read() -> bytes:
            out.seek(0)
            return out.read()

        result: list[bytes] = []
        try:
            yield lambda: result[0]
        finally:
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
            os.close(saved[0])
            os.close(saved[1])
            result.append(read())


@pytest.fixture
def command(tmp_path: pathlib.Path) -> Command:
    return Command(tmp_path)


@pytest.fixture
def root() -> pathlib.Path:
    return ROOT
