"""The command that the package installs."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import sysconfig

import pannier
import pytest

PROGRAM = pathlib.Path(sysconfig.get_path("scripts"), "pannier")


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(PROGRAM), *arguments], capture_output=True, **options)  # type: ignore[call-overload, no-any-return]


def test_it_is_the_command(root: pathlib.Path) -> None:
    version = run("--version")
    assert version.returncode == 0 and version.stdout.startswith(b"pannier ")
    items = root / "examples" / "support-chat.jsonl"
    packed = run("pack", str(items), "--budget", "160", "--format", "json")
    assert packed.returncode == 0 and packed.stdout.startswith(b'{"items":')
    module = subprocess.run([sys.executable, "-m", "pannier", "--version"], capture_output=True)
    assert module.stdout == version.stdout


def test_it_is_the_program_that_cargo_builds(root: pathlib.Path) -> None:
    program = os.environ.get("PANNIER_PROGRAM")
    if not program:
        pytest.skip("PANNIER_PROGRAM names no program")
    for arguments in (["--help"], ["pack", "examples/support-chat.jsonl", "--budget", "160", "--report"], ["nonsense"]):
        built = subprocess.run([root / program, *arguments], capture_output=True, cwd=root)
        own = run(*arguments, cwd=root)
        assert (own.returncode, own.stdout, own.stderr) == (built.returncode, built.stdout, built.stderr)


def test_exit_codes_are_those_of_the_command() -> None:
    assert run("pack", "missing.jsonl", "--budget", "1").returncode == 6
    assert run("nonsense").returncode == 2
    chat = run("chat", "--budget", "1", input=b'[{"role":"user","content":"Hello, how are you?"}]')
    assert chat.returncode == 3 and chat.stderr.startswith(b"error: ")


def test_a_closed_pipe_is_no_error(root: pathlib.Path) -> None:
    program = subprocess.Popen([str(PROGRAM), "man"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert program.stdout is not None
    program.stdout.close()
    _, errors = program.communicate(timeout=120)
    assert b"Traceback" not in errors and b"panicked" not in errors


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_ctrl_c_ends_it() -> None:
    program = subprocess.Popen([str(PROGRAM), "chat", "--budget", "10"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    import time

    time.sleep(1.5)
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=120)
    assert b"Traceback" not in errors and program.returncode in (-signal.SIGINT, 130)


def test_the_package_has_no_dependencies() -> None:
    from importlib.metadata import requires

    assert not requires("pannier") and pannier.__doc__
