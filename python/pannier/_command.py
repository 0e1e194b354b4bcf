"""The command ``pannier``."""

from __future__ import annotations

import os
import signal
import sys

from . import _pannier


def main() -> None:
    """Runs the command with the arguments of this process, and exits with its code."""
    # The command has its own handling of Ctrl-C and of a closed pipe, as a program without an interpreter.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = _pannier.command(["pannier", *sys.argv[1:]])
    # Threads that wait for Ctrl-C must not keep the process.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
