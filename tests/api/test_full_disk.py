"""Callers of a server whose disk is full are told so, and can still cancel."""

import errno
import os
from collections.abc import Iterator

import httpx
import pytest

from tests.api.conftest import ServerUnderTest, serving
from tgpu.api.problems import as_problem
from tgpu.store.port import StoreFullError, StoreUnavailableError

SHORT = "the disk that holds /var/lib/tgpu has 12 MiB free, and needs 256 (setting disk_reserve)"


@pytest.fixture(scope="module")
def short_of() -> list[str | None]:
    return [None]


@pytest.fixture(scope="module")
def short_server(short_of: list[str | None]) -> Iterator[ServerUnderTest]:
    with serving(None, {"disk_shortage": lambda: short_of[0]}) as running:
        yield running


def test_server_short_of_disk_refuses_new_data_and_still_cancels(
    short_server: ServerUnderTest, short_of: list[str | None]
) -> None:
    with short_server.unix() as client:
        job_id = client.post("/jobs", json={"command": "true"}).json()["job_id"]
        short_of[0] = SHORT
        refused = [
            client.post("/jobs", json={"command": "true"}),
            client.post(f"/jobs/{job_id}/rerun", json={}),
            client.post(f"/jobs/{job_id}/retry", json={}),
            client.put("/secrets/key", content=b"value"),
            client.post("/tokens", json={}),
        ]
        assert [answer.status_code for answer in refused] == [507] * len(refused)
        problem = refused[0].json()
        assert problem["type"] == "urn:tgpu:problem:disk-full"
        assert problem["detail"].startswith(SHORT)
        assert "free some space" in problem["detail"]
        assert refused[0].headers["Retry-After"]
        assert client.delete(f"/jobs/{job_id}").status_code == 202
        short_of[0] = None
        assert client.post("/jobs", json={"command": "true"}).status_code == 201


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_write_that_fails_on_a_full_disk_is_no_mistake_of_the_server(number: int) -> None:
    problem = as_problem(OSError(number, os.strerror(number)))
    assert (problem.status, problem.kind) == (507, "disk-full")


def test_full_disk_and_other_trouble_of_the_store_are_told_apart() -> None:
    full, away = StoreFullError("full: free some", "nothing was changed"), StoreUnavailableError("away")
    assert as_problem(full, "POST").status == 507
    assert as_problem(full, "POST").detail == "full: free some; nothing was changed"
    assert as_problem(away, "POST").status == 503


def test_reading_works_while_the_disk_is_short(
    short_server: ServerUnderTest, short_of: list[str | None]
) -> None:
    short_of[0] = SHORT
    with short_server.unix() as client:
        answers: list[httpx.Response] = [client.get(path) for path in ("/jobs", "/nodes", "/healthz")]
    short_of[0] = None
    assert [answer.status_code for answer in answers] == [200, 200, 200]
