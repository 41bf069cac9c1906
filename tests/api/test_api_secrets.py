"""Secrets are set, named and used, and never shown."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.people import House, house

PLANTED = "pl4nted-s3cret-of-ann"
JOB = {"command": "x", "cwd": "/"}


@pytest.fixture
def place() -> Iterator[House]:
    with house() as found:
        found.person("ann")
        found.person("bob")
        yield found


def test_a_secret_is_set_listed_by_name_and_removed(place: House) -> None:
    ann, bob = place.caller("ann"), place.caller("bob")
    assert ann.put("/secrets/hf-token", content=PLANTED).status_code == 204
    assert ann.put("/secrets/hf-token", content=PLANTED + "2").status_code == 204
    assert [secret["name"] for secret in ann.get("/secrets").json()["secrets"]] == ["hf-token"]
    assert bob.get("/secrets").json() == {"secrets": []}
    assert bob.delete("/secrets/hf-token").status_code == 404
    assert ann.delete("/secrets/hf-token").status_code == 204
    assert ann.delete("/secrets/hf-token").status_code == 404


@pytest.mark.parametrize(
    ("name", "body", "status", "sentence"),
    [
        ("hf", b"", 422, "at least one character"),
        ("hf", b"a\0b", 422, "without NUL"),
        ("hf", b"\xff", 422, "UTF-8 text"),
        ("hf", b"x" * (64 * 1024 + 1), 413, "at most 64 KiB"),
        ("a b", b"x", 422, "name must be up to 100"),
        ("x" * 101, b"x", 422, "name must be up to 100"),
        (".hidden", b"x", 422, "name must be up to 100"),
    ],
)
def test_a_secret_that_cannot_be_used_is_refused(
    quiet_client: httpx.Client, name: str, body: bytes, status: int, sentence: str
) -> None:
    answer = quiet_client.put(f"/secrets/{name}", content=body)
    assert answer.status_code == status
    assert sentence in answer.json()["detail"]


@pytest.mark.parametrize(
    ("secret_env", "sentence"),
    [
        ({"HF": "hf_abc"}, "HF must say where its value is"),
        ({"HF": "file:token"}, "HF must say where its value is"),
        ({"HF": "file:/a\nb"}, "HF must say where its value is"),
        ({"HF": "store:"}, "HF must say where its value is"),
        ({"HF": "store:../x"}, "HF must say where its value is"),
        ({"HF": "store:none"}, "has no secret none; set it first: tgpu secret set none"),
        ({"A=B": "file:/x"}, "'A=B' is no name for a variable"),
        ({"TGPU_JOB_ID": "file:/x"}, "'TGPU_JOB_ID' is no name for a variable"),
        ({"EPOCHS": "file:/x"}, "EPOCHS is in env, too"),
        ({f"V{n}": "file:/x" for n in range(65)}, "at most 64 variables"),
    ],
)
def test_a_reference_that_cannot_be_meant_is_refused_and_not_repeated(
    quiet_client: httpx.Client, secret_env: dict[str, str], sentence: str
) -> None:
    answer = quiet_client.post("/jobs", json={**JOB, "env": {"EPOCHS": "1"}, "secret_env": secret_env})
    assert (answer.status_code, answer.json()["field"]) == (422, "secret_env")
    assert sentence in answer.json()["detail"]
    assert "hf_abc" not in answer.text


def test_a_job_names_its_own_user_s_secrets_only(place: House) -> None:
    ann, bob = place.caller("ann"), place.caller("bob")
    ann.put("/secrets/hf-token", content=PLANTED)
    job = {**JOB, "secret_env": {"HF_TOKEN": "store:hf-token"}}
    assert bob.post("/jobs", json=job).status_code == 422
    made = ann.post("/jobs", json=job).json()
    assert made["secret_env"] == {"HF_TOKEN": "store:hf-token"}
    assert bob.get(f"/jobs/{made['job_id']}").json()["secret_env"] is None
    with place.server.unix() as root:
        assert root.get(f"/jobs/{made['job_id']}").json()["secret_env"] == {"HF_TOKEN": "store:hf-token"}


def test_a_planted_secret_is_nowhere_but_in_its_own_table(place: House) -> None:
    ann = place.caller("ann")
    ann.put("/secrets/hf-token", content=PLANTED)
    job_id = ann.post("/jobs", json={**JOB, "secret_env": {"HF": "store:hf-token"}}).json()["job_id"]
    with place.server.unix() as root:
        paths = (
            "/secrets",
            "/jobs",
            f"/jobs/{job_id}",
            "/audit",
            "/settings",
            "/stats",
            "/metrics",
            "/members",
        )
        for client in (ann, root):
            for path in paths:
                assert PLANTED not in client.get(path).text, path
    rows = everything_in(place.database)
    assert [table for table, text in rows if PLANTED in text] == ["user_secrets"]


def everything_in(path: Path) -> list[tuple[str, str]]:
    """Every row of every table, as text."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [
            (table, repr(row)) for table in tables for row in database.execute(f'SELECT * FROM "{table}"')
        ]
