"""An index in PostgreSQL. `PANNIER_POSTGRES` names the folder of the server's programs (see .ci/postgres)."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pannier
import pytest

# The server refuses to run as root.
AS_USER: dict[str, Any] = {"user": "nobody", "extra_groups": []} if os.name == "posix" and os.geteuid() == 0 else {}


class Server:
    """A server on a socket, with a database for each test."""

    def __init__(self, programs: pathlib.Path, folder: pathlib.Path) -> None:
        self.programs = programs
        self.folder = folder

    def database(self) -> str:
        name = f"test_{uuid.uuid4().hex}"
        subprocess.run([self.programs / "createdb", "-U", "pannier", "-h", self.folder, name], check=True)
        return f"postgres://pannier@localhost/{name}?host={self.folder}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    given = os.environ.get("PANNIER_POSTGRES")
    if not given:
        pytest.skip("an index in PostgreSQL; PANNIER_POSTGRES is not set, see .ci/postgres")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pannier-python-"))
    folder.chmod(0o777)
    running = None
    try:
        programs = readable(pathlib.Path(given), folder)
        data = folder / "data"
        subprocess.run(
            [programs / "initdb", "-U", "pannier", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", data],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **AS_USER,
        )
        with open(folder / "log", "wb") as log:
            running = subprocess.Popen(
                [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                **AS_USER,
            )
        deadline = time.monotonic() + 60
        while subprocess.run([programs / "pg_isready", "-q", "-h", folder]).returncode != 0:
            assert running.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        yield Server(programs, folder)
    finally:
        if running is not None:
            running.terminate()
            running.wait()
        shutil.rmtree(folder)


def readable(programs: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The programs, or a copy of them if the server's user may not read their folder."""
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, cwd=folder, **AS_USER)
    except (OSError, subprocess.CalledProcessError):
        root = programs.parents[2]
        shutil.copytree(root, folder / "programs")
        return folder / "programs" / programs.relative_to(root)
    return programs


def test_a_database_answers_as_a_folder_does(
    server: Server, root: pathlib.Path, tmp_path: pathlib.Path, command: Any
) -> None:
    handbook = root / "examples" / "handbook"
    address = f"{server.database()}&collection=handbook"
    built = pannier.Index.build(handbook, index=address)
    in_folder = pannier.Index.build(handbook, index=tmp_path / "index")
    assert built.summary["documents"] == in_folder.summary["documents"] == 3

    opened = pannier.Index.open(address)
    for query in ("how do we roll back a deployment?", "who is on call?", "a word that is nowhere"):
        found, expected = opened.search(query, budget=80), in_folder.search(query, budget=80, no_update=True)
        assert found.text == expected.text
        assert found.citations == expected.citations
        code, output = command("docs", "search", query, "--budget", "80", "--index", address)
        assert (code, output.decode()) == (0 if found.citations else 1, found.text)
    assert opened.search("deployment", paths=["guides/*"]).citations[0].path.startswith("guides/")


def test_an_update_replaces_what_changed(server: Server, tmp_path: pathlib.Path) -> None:
    address = server.database()
    (tmp_path / "a.md").write_text("# One\n\nThe first text.\n")
    index = pannier.Index.build(tmp_path, index=address)
    (tmp_path / "b.md").write_text("# Two\n\nA zebra.\n")
    assert index.search("zebra").citations == []
    pannier.Index.build(tmp_path, index=address)
    assert index.search("zebra").citations[0].path == "b.md"
    (tmp_path / "b.md").unlink()
    pannier.Index.build(tmp_path, index=address)
    assert index.search("zebra").citations == []


def test_errors_name_no_password(server: Server) -> None:
    address = server.database()
    with pytest.raises(pannier.IndexMissing):
        pannier.Index.open(f"{address}&collection=nothing")
    away = "postgres://pannier:very-secret@localhost/x?host=/nonexistent"
    for call in (pannier.Index.open, lambda index: pannier.Index(index).search("a")):
        with pytest.raises(pannier.Error) as raised:
            call(away)
        assert "very-secret" not in str(raised.value) and "away" in str(raised.value)
