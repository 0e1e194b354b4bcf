"""An index in PostgreSQL: the answers of a folder, through the same class. `PANNIER_POSTGRES` names the server's programs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

import pannier

PROGRAMS = os.environ.get("PANNIER_POSTGRES", "")
pytestmark = pytest.mark.skipif(not PROGRAMS, reason="PANNIER_POSTGRES is not set; see .ci/postgres")


@pytest.fixture
def address() -> Iterator[str]:
    """Starts a server on a socket, as a user that it accepts."""
    with tempfile.TemporaryDirectory(prefix="pannier-pg") as folder:
        os.chmod(folder, 0o777)
        is_root = os.getuid() == 0
        user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"] if is_root else []
        data = f"{folder}/data"
        initdb = [*user, f"{PROGRAMS}/initdb", "-U", "pannier", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run([*initdb, "-D", data], check=True, capture_output=True, cwd="/")
        control = [*user, f"{PROGRAMS}/pg_ctl", "-D", data, "-w"]
        options = f"-k {folder} -c listen_addresses= -c fsync=off"
        start = [*control, "-l", f"{folder}/log", "-o", options, "start"]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL, cwd="/")
        try:
            yield f"postgres://pannier:hunter2@/postgres?host={folder}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, cwd="/")


def test_an_index_in_a_database_answers_like_a_folder(address: str, tmp_path: pathlib.Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "refunds.md").write_text("# Refunds\n\nRefunds take five days.\n")
    (docs / "lunch.md").write_text("# Lunch\n\nThe canteen closes at two.\n")
    with pytest.raises(pannier.IndexMissing) as missing:
        pannier.Index.open(address)
    assert "hunter2" not in str(missing.value)
    folder = pannier.Index.build(docs, index=tmp_path / "index")
    database = pannier.Index.build(docs, index=address)
    assert database.summary["added"] == folder.summary["added"]
    for query in ["how long does a refund take?", "canteen", "'; DROP TABLE pannier.document; --", "nothing\0"]:
        own, other = database.search(query, budget=100), folder.search(query, budget=100)
        assert (own.text, own.answer) == (other.text, other.answer)
    named = address + "&collection=it%27s"
    assert pannier.Index.build(docs, index=named).search("canteen").citations[0].path == "lunch.md"


def test_a_database_that_is_away_is_an_error_without_the_password() -> None:
    with pytest.raises(pannier.Error) as away:
        pannier.Index.open("postgres://me:hunter2@127.0.0.1:1/db")
    assert "the server is away" in str(away.value) and "hunter2" not in str(away.value)
