"""A secret reaches the job that names it, and no file, log, event or answer besides."""

import hashlib
import sqlite3
from pathlib import Path

import pytest

from tests.end_to_end.whole_tgpu import Installation

STORED, FILED = "pl4nted-in-the-store", "pl4nted-in-a-file"


@pytest.fixture
def up(installation: Installation) -> Installation:
    installation.environ["TGPU_LOG_LEVEL"] = "debug"
    installation.up()
    return installation


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_planted_secrets_are_found_by_the_job_and_by_nobody_else(up: Installation) -> None:
    path = up.files / "token"
    path.write_text(FILED + "\n")
    with up.client() as client:
        client.set_secret("hf-token", STORED.encode())
        script = "for each in $A $B; do printf %s $each | sha256sum; done"
        secret_env = {"A": "store:hf-token", "B": f"file:{path}"}
        job_id = client.submit(script, cwd="/tmp", secret_env=secret_env)["job_id"]
        up.wait_status(job_id, "completed")
        said = b"".join(client.logs(job_id)).decode().split()
        assert said[::2] == [digest(STORED), digest(FILED)]
        told = repr([client.job(job_id), client.secrets(), list(client.audit()), client.stats()])
        client.remove_secret("hf-token")
        gone = client.submit("true", cwd="/tmp", secret_env={"B": f"file:{path}.gone"})["job_id"]
        ended = up.wait_status(gone, "failed")
        assert (ended["cause"], f"cannot read {path}.gone" in ended["reason"]) == ("could-not-start", True)
    assert STORED not in told
    assert FILED not in told
    up.tgpu("down")
    assert files_with(up.home, STORED) | files_with(up.home, FILED) <= {"tgpu.db"}
    assert tables_with(up.home / "tgpu.db", STORED) | tables_with(up.home / "tgpu.db", FILED) == set()


def files_with(folder: Path, planted: str) -> set[str]:
    """A row that was removed may leave its bytes in the database's free pages: see `tables_with`."""
    return {
        path.name for path in folder.rglob("*") if path.is_file() and planted.encode() in path.read_bytes()
    }


def tables_with(database: Path, planted: str) -> set[str]:
    with sqlite3.connect(database) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name
            for name in names
            for row in opened.execute(f'SELECT * FROM "{name}"')
            if planted in repr(row) or planted.encode() in row
        }
