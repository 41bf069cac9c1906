"""Code that is copied, output that is written to files, and jobs that are run once more, over HTTP."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import OTHER, ServerUnderTest, serving
from tests.api.test_api_waiting import ask, refusal
from tgpu.store.memory import MemoryStore
from tgpu.store.snapshot_shelf import Shelf
from tgpu.wiring.snapshots import ServerSnapshots

DATA = b"an archive, as far as the server knows"
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[ServerUnderTest]:
    snapshots = ServerSnapshots(Shelf(tmp_path / "kept", 1 << 20, 1 << 21), list)
    with serving(MemoryStore(), {"snapshots": snapshots}) as one:
        yield one


@pytest.fixture
def keeping(keeper: ServerUnderTest) -> Iterator[httpx.Client]:
    with keeper.unix() as client:
        yield client


def put(client: httpx.Client, data: bytes = DATA, digest: str = DIGEST, **query: Any) -> httpx.Response:
    params = {"offset": 0, "total": len(DATA), **query}
    return client.put(f"/snapshots/{digest}", params=params, content=data)


def with_snapshot(**changes: Any) -> dict[str, Any]:
    return {
        "cwd": "/srv/code/sub", "snapshot": DIGEST, "snapshot_root": "/srv/code", "snapshot_commit": COMMIT,
        "snapshot_dirty": True, **changes,
    }  # fmt: skip


def test_a_snapshot_is_put_in_pieces_and_read_again(keeping: httpx.Client) -> None:
    assert put(keeping, DATA[:10]).json() == {"digest": DIGEST, "received": 10, "complete": False}
    late = put(keeping, DATA[20:], offset=20)
    assert (late.status_code, late.json()["received"]) == (409, 10)
    assert put(keeping, DATA[10:], offset=10).json()["complete"] is True
    found = keeping.get(f"/snapshots/{DIGEST}", params={"offset": 3, "max_bytes": 4})
    assert (found.content, found.headers["x-tgpu-total"]) == (DATA[3:7], str(len(DATA)))
    assert keeping.get(f"/snapshots/{DIGEST}").content == DATA
    assert keeping.get("/snapshots/sha256:" + "0" * 64).status_code == 404


@pytest.mark.parametrize(
    ("query", "data", "status"),
    [
        ({"total": None}, DATA, 400),
        ({"total": 0}, DATA, 400),
        ({"total": 1 << 30}, DATA, 422),
        ({"total": 3}, DATA, 422),
        ({}, b"x" * len(DATA), 422),
        ({}, b"", 422),
        ({"digest": "md5:0"}, DATA, 422),
        ({"digest": "sha256:" + "A" * 64}, DATA, 422),
        ({"user_id": "nobody"}, DATA, 200),
        ({"total": 9 << 20}, b"x" * (9 << 20), 413),
    ],
)
def test_what_is_no_snapshot_is_refused(
    keeping: httpx.Client, query: dict[str, Any], data: bytes, status: int
) -> None:
    given = {name: value for name, value in query.items() if name != "digest"}
    answer = put(keeping, data, query.get("digest", DIGEST), **given)
    assert answer.status_code == status, answer.text


def test_a_job_names_its_snapshot_and_shows_where_it_came_from(keeping: httpx.Client) -> None:
    assert refusal(keeping, **with_snapshot()).startswith("snapshot: root has no sha256:")
    put(keeping)
    job = ask(keeping, **with_snapshot())
    said = {name: job[name] for name in with_snapshot()}
    assert said == with_snapshot()
    plain = ask(keeping)
    assert (plain["snapshot"], plain["snapshot_commit"], plain["snapshot_dirty"]) == (None, None, False)


def test_nobody_names_anothers_snapshot(keeper: ServerUnderTest, keeping: httpx.Client) -> None:
    put(keeping)
    refused = keeper.as_user(OTHER, "POST", "/jobs", {"command": "true", **with_snapshot()})
    assert refused.status == 422
    assert refused.json()["detail"].startswith(f"snapshot: {OTHER} has no sha256:")
    read = keeper.as_user(OTHER, "GET", f"/snapshots/{DIGEST}")
    assert read.status == 404
    posed = keeper.as_user(OTHER, "GET", f"/snapshots/{DIGEST}?user_id=root")
    assert posed.status == 403
    job_id = ask(keeping, **with_snapshot(cwd="/tmp", snapshot_root="/"), output="secret.txt")["job_id"]
    seen = keeper.as_user(OTHER, "GET", f"/jobs/{job_id}").json()
    assert {seen[name] for name in ("snapshot", "snapshot_root", "snapshot_commit", "output")} == {None}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"snapshot": "sha256:1"}, "snapshot"),
        ({"snapshot": DIGEST, "snapshot_root": "code"}, "snapshot_root"),
        ({"snapshot": DIGEST, "snapshot_root": "/srv/../etc", "cwd": "/etc"}, "snapshot_root"),
        ({"snapshot": DIGEST, "snapshot_root": "/srv/code", "cwd": "/srv/codes"}, "snapshot_root"),
        ({"snapshot": DIGEST, "snapshot_root": "/srv", "cwd": "/srv/a/../../etc"}, "snapshot_root"),
        ({"snapshot": DIGEST, "snapshot_commit": "HEAD"}, "snapshot_commit"),
        ({"snapshot": DIGEST, "image": "busybox"}, "snapshot"),
        ({"snapshot_root": "/srv"}, "snapshot_root"),
        ({"snapshot_dirty": True}, "snapshot_dirty"),
        ({"output": "%q"}, "output"),
        ({"output": ""}, "output"),
        ({"error": "a/"}, "error"),
        ({"output": "x", "image": "busybox"}, "output"),
        ({"open_mode": "append"}, "open_mode"),
        ({"output": "o", "open_mode": "rewind"}, "open_mode"),
        ({"output": "o", "error": "e", "pty": True}, "error"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_field(
    keeping: httpx.Client, fields: dict[str, Any], field: str
) -> None:
    put(keeping)
    answer = keeping.post("/jobs", json={"command": "true", **fields})
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"] == field
    assert answer.json()["detail"].startswith(field)


def test_output_files_are_shown_as_they_were_asked_for(keeping: httpx.Client) -> None:
    files = {"output": "logs/%x-%j.txt", "error": "%N.err", "open_mode": "append"}
    job = ask(keeping, **files)
    assert {name: job[name] for name in files} == files


def test_a_rerun_has_all_that_the_job_had_but_what_it_waited_for(keeping: httpx.Client) -> None:
    put(keeping)
    ask(keeping)
    first = ask(
        keeping,
        **with_snapshot(cwd="/tmp", snapshot_root="/"),
        env={"A": "1"},
        gpu_request=1,
        time_limit_s=60,
        array="0-9%2",
        output="%a.txt",
        after=["1"],
        hold=True,
        requeue_on_timeout=True,
    )
    answer = keeping.post(f"/jobs/{first['job_id']}/rerun")
    assert answer.status_code == 201, answer.text
    again = answer.json()
    assert answer.headers["location"] == f"/jobs/{again['job_id']}"
    anew = {"job_id", "submitted_at", "after", "needs_met", "held_by", "reason"}
    assert {name: again[name] for name in again if name not in anew} == {
        name: first[name] for name in first if name not in anew
    }
    assert (again["after"], again["held_by"]) == ([], None)
    changed = keeping.post(f"/jobs/{first['job_id']}/rerun", json={"time_limit_s": 120, "name": "longer"})
    assert (changed.json()["time_limit_s"], changed.json()["name"]) == (120, "longer")
    assert changed.json()["snapshot"] == DIGEST


def test_a_rerun_whose_code_is_gone_or_that_says_nonsense_is_refused(
    keeper: ServerUnderTest, keeping: httpx.Client, tmp_path: Path
) -> None:
    put(keeping)
    job_id = ask(keeping, **with_snapshot())["job_id"]
    for body in ({"command": "rm"}, {"time_limit_s": -1}, {"user_id": OTHER}):
        assert keeping.post(f"/jobs/{job_id}/rerun", json=body).status_code == 422
    assert keeper.as_user(OTHER, "POST", f"/jobs/{job_id}/rerun").status == 403
    assert keeping.post("/jobs/999/rerun").status_code == 404
    for path in (tmp_path / "kept").glob("*/*"):
        path.unlink()
    gone = keeping.post(f"/jobs/{job_id}/rerun")
    assert gone.status_code == 422
    assert "put it first" in gone.json()["detail"]


def test_repeating_a_rerun_with_its_key_makes_one_job(keeping: httpx.Client) -> None:
    job_id = ask(keeping)["job_id"]
    key = {"Idempotency-Key": "once"}
    ids = {keeping.post(f"/jobs/{job_id}/rerun", headers=key).json()["job_id"] for _ in range(2)}
    assert len(ids) == 1
