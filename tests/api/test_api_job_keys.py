"""A job may do what its user may, no more than the token that it came with, and nothing once it is over."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.people import FIRST_UID, KEYS, House, house
from tests.api.stories import assign, end, start, submit
from tgpu.api import peercred
from tgpu.domain.access import Action, Role
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.protocol.job_keys import JobKeys
from tgpu.runner.process_origin import Origin

JOB = {"command": "x", "cwd": "/"}


@pytest.fixture(scope="module")
def place() -> Iterator[House]:
    with house(others_may=("cancel",)) as found:
        found.tenants("lab", "lab/vision", "org")
        for name in ("ann", "gus", "rosa"):
            found.person(name, Role.USER, "lab")
        found.person("bob")
        found.person("olga", Role.OPERATOR)
        yield found


def job_by_token(place: House, token: str | None = None, **more: Any) -> tuple[int, httpx.Client]:
    """A job of ann's that runs, and she by its key; `token`: that she submits with."""
    with place.server.tcp(token or place.token_of("ann", **more)) as ann:
        answer = ann.post("/jobs", json={**JOB, "tenant_id": "lab"})
    assert answer.status_code == 201, answer.text
    job_id = answer.json()["job_id"]
    assign(place.server, job_id)
    return job_id, place.job(job_id)


def job_by_socket(place: House, user: str = "ann") -> tuple[int, httpx.Client]:
    job_id = submit(place.server, user, tenant_id="lab")
    assign(place.server, job_id)
    return job_id, place.job(job_id)


def refusal(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["detail"])


def test_a_job_is_its_user(place: House) -> None:
    job_id, job = job_by_socket(place)
    me = job.get("/whoami").json()
    assert (me["user_id"], me["via"], me["token"]) == ("ann", f"job {job_id}", None)
    made = job.post("/jobs", json={**JOB, "tenant_id": "lab/vision"}).json()
    assert (made["user_id"], made["tenant_id"]) == ("ann", "lab/vision")
    assert job.post(f"/jobs/{job_id}/retry", json={}).status_code == 202, "as scontrol requeue does"
    assert job.delete(f"/jobs/{made['job_id']}").status_code == 202
    assert "may not submit to org" in refusal(job.post("/jobs", json={**JOB, "tenant_id": "org"}), 403)


def test_a_key_is_good_from_its_attempt_s_start_to_its_end(place: House) -> None:
    job_id = submit(place.server, "ann")
    job = place.job(job_id)
    assert f"{job_id}.0.1 is worthless" in refusal(job.get("/whoami"), 401)
    assign(place.server, job_id)
    assert job.get("/whoami").status_code == 200
    start(place.server, job_id)
    assert job.get("/whoami").status_code == 200
    end(place.server, job_id, Happening.REQUEUED, Cause.CANCELLED)
    assert job.get("/whoami").status_code == 401
    assign(place.server, job_id, number=2)
    assert job.get("/whoami").status_code == 401, "the next attempt has a key of its own"
    assert place.job(job_id, 2).get("/whoami").status_code == 200
    assert place.job(job_id, 3).get("/whoami").status_code == 401


def test_what_was_made_up_is_refused_without_a_look_at_the_store(
    place: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, _ = job_by_socket(place)

    async def looked(*_: object) -> None:
        raise AssertionError("it looked")

    for method in ("attempt_holder", "token_by_digest"):
        monkeypatch.setattr(place.server.store, method, looked)
    own = KEYS.of(f"{job_id}.0.1")
    for made_up in (own[:-1], own + "0", JobKeys(b"other").of(f"{job_id}.0.1"), "tgpu-job.", f"{own} x"):
        with place.server.tcp(made_up) as caller:
            assert "no key of a job" in refusal(caller.get("/whoami"), 401), made_up


def test_another_attempt_s_key_says_whose_it_is_and_nobody_else(place: House) -> None:
    ann_id, _ = job_by_socket(place, "ann")
    bob_id, bob = job_by_socket(place, "bob")
    assert bob.get("/whoami").json()["user_id"] == "bob"
    with place.server.tcp(KEYS.of(f"{bob_id}.0.1").replace(f"{bob_id}.0.1", f"{ann_id}.0.1")) as forged:
        assert forged.get("/whoami").status_code == 401


def test_a_job_has_no_more_than_the_token_that_it_was_submitted_with(place: House) -> None:
    submits = frozenset({Action.SUBMIT, Action.READ, Action.MANAGE})
    job_id, job = job_by_token(place, tenant_id="lab", actions=submits, jobs_left=2)
    scope = job.get("/whoami").json()["token"]
    assert (scope["role"], scope["tenant_id"], scope["actions"]) == ("user", "lab", ["read", "submit"])
    assert scope["jobs_left"] == 1
    said = refusal(job.delete(f"/jobs/{job_id}"), 403)
    assert said.startswith(f"the key of job {job_id} is good only for read, submit; this needs a token")
    assert job.post("/jobs", json={**JOB, "tenant_id": "default"}).status_code == 403
    assert job.post("/jobs", json={**JOB, "tenant_id": "lab"}).status_code == 201
    spent = job.post("/jobs", json={**JOB, "tenant_id": "lab"})
    assert spent.json()["type"] == "urn:tgpu:problem:token-spent"


@pytest.fixture
def in_job(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """From now on callers over the socket are processes of that job."""

    def put(job_id: int, cluster_id: str = "c") -> None:
        found = [Origin("other", "1.0.1"), Origin(cluster_id, f"{job_id}.0.1")]
        monkeypatch.setattr(peercred, "origins_of", lambda _: found)

    return put


def test_job_has_no_more_on_the_socket_than_its_token_leaves_it(
    place: House, in_job: Callable[..., None]
) -> None:
    actions = frozenset({Action.SUBMIT, Action.READ, Action.MANAGE})
    job_id, _ = job_by_token(place, tenant_id="lab", actions=actions)
    in_job(job_id, "another cluster")
    assert as_ann(place, "POST", "/tokens", {}).status == 201
    in_job(job_id)
    me = as_ann(place, "GET", "/whoami").json()
    assert (me["user_id"], me["via"], me["token"]["actions"]) == ("ann", f"job {job_id}", ["read", "submit"])
    assert as_ann(place, "POST", "/tokens", {}).status == 403, "it would be wider than the token of the job"
    assert as_ann(place, "DELETE", f"/jobs/{job_id}").status == 403
    assert as_ann(place, "POST", "/jobs", {**JOB, "tenant_id": "default"}).status == 403
    assert as_ann(place, "POST", "/jobs", {**JOB, "tenant_id": "lab"}).status == 201
    start(place.server, job_id)
    end(place.server, job_id, Happening.REQUEUED, Cause.CANCELLED)
    assert "that attempt is over" in as_ann(place, "GET", "/whoami").json()["detail"]


def test_job_without_a_token_is_its_user_on_the_socket(place: House, in_job: Callable[..., None]) -> None:
    job_id, _ = job_by_socket(place)
    in_job(job_id)
    assert as_ann(place, "GET", "/whoami").json()["via"] == "socket"
    assert as_ann(place, "POST", "/tokens", {}).status == 201


def test_process_that_ended_before_it_could_be_placed_is_refused(
    place: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(pid: int) -> list[Origin]:
        raise ProcessLookupError(pid)

    monkeypatch.setattr(peercred, "origins_of", gone)
    said = as_ann(place, "GET", "/whoami")
    assert (said.status, "ended before it was known" in said.json()["detail"]) == (403, True)


def test_peer_that_is_gone_is_noticed_also_when_its_pid_is_used_again(tmp_path: Path) -> None:
    """The connection is opened by a process that ends, and used by another one."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
        listener.bind(path)
        listener.listen()
        child = os.fork()
        if child == 0:
            caller.connect(path)
            os._exit(0)
        os.waitpid(child, 0)
        taken, _ = listener.accept()
        with taken, pytest.MonkeyPatch.context() as patch:
            assert peercred.peer_behind(Transport(taken)).is_gone
            patch.setattr(peercred, "origins_of", lambda _: [])  # of the one that has its pid now
            assert peercred.peer_behind(Transport(taken)).is_gone


class Transport(asyncio.BaseTransport):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__({"socket": sock})


def as_ann(place: House, method: str, path: str, body: Any = None) -> Any:
    return place.server.as_user(FIRST_UID, method, path, body)


def test_a_job_never_acts_as_operator_or_administrator(place: House) -> None:
    job_id, job = job_by_socket(place, "olga")
    other = submit(place.server, "ann", tenant_id="lab/vision")
    assert job.get("/whoami").json()["role"] == "user"
    for method, path, body in (
        ("POST", "/tokens", {}),
        ("PUT", "/secrets/hf", None),
        ("POST", "/tenants", {"tenant_id": "lab/new"}),
        ("PUT", "/members/bob", {"role": "user"}),
        ("POST", "/nodes/ws1/drain", {}),
        ("GET", "/audit", None),
        ("POST", f"/jobs/{other}/hold", None),
    ):
        assert job.request(method, path, json=body).status_code == 403, path
    assert f"the key of job {job_id}" in refusal(job.post("/tokens", json={}), 403)
    assert f"the key of job {job_id} has the role user" in refusal(job.get("/audit"), 403)


def test_a_revoked_token_s_jobs_have_worthless_keys_at_once(place: House) -> None:
    with place.server.tcp(place.token_of("ann", role="user")) as ann:
        child = ann.post("/tokens", json={}).json()
    job_id, job = job_by_token(place, child["token"])
    assert job.get("/whoami").status_code == 200
    with place.server.unix() as root:
        assert root.delete(f"/tokens/{child['parent_token_id']}").status_code == 204
    said = refusal(job.post("/jobs", json=JOB), 401)
    assert said.startswith(
        f"job {job_id} speaks by the token that it was submitted with, and this token was revoked"
    )


def test_a_token_that_expires_takes_its_jobs_keys_along(place: House) -> None:
    with place.server.unix() as root:
        token = place.server.token(root, user_id="ann", expires_in_s=60)
    _, job = job_by_token(place, token)
    assert job.get("/whoami").status_code == 200
    place.server.now_ms += 60_000
    assert "expired" in refusal(job.get("/whoami"), 401)


def test_who_has_no_account_any_more_speaks_by_no_job(place: House) -> None:
    _, job = job_by_socket(place, "gus")
    assert job.get("/whoami").status_code == 200
    place.gone("gus")
    assert "is of gus, who has no account" in refusal(job.get("/whoami"), 403)


def test_who_loses_their_role_has_none_by_their_job(place: House) -> None:
    _, job = job_by_socket(place, "rosa")
    assert job.post("/jobs", json={**JOB, "tenant_id": "lab"}).status_code == 201
    with place.server.unix() as root:
        assert root.delete("/tenants/lab/members/rosa").status_code == 204
    assert job.post("/jobs", json={**JOB, "tenant_id": "lab"}).status_code == 403


def test_the_audit_log_says_which_job_did_it(place: House) -> None:
    job_id, job = job_by_token(place)
    token_id = job.get("/whoami").json()["token"]["token_id"]
    other = submit(place.server, "bob")
    assert job.delete(f"/jobs/{other}").status_code == 202
    with place.server.unix() as root:
        line = root.get("/audit?limit=1").json()["entries"][0]
    assert (line["action"], line["target"]) == ("job.cancel", f"job/{other}")
    assert (line["user_id"], line["via"], line["token_id"]) == ("ann", f"job {job_id}", token_id)


def test_where_jobs_have_no_keys_none_is_good() -> None:
    with house(job_keys="off") as place:
        place.person("ann")
        job_id = submit(place.server, "ann")
        assign(place.server, job_id)
        assert "the setting job_keys is off" in refusal(place.job(job_id).get("/whoami"), 401)
