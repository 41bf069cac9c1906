"""Tokens are narrower than whoever makes them, and worthless once they are revoked."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.api.conftest import OTHER, ServerUnderTest, serving
from tests.api.people import House, house
from tests.api.stories import assign, end, start
from tests.postgres_server import postgres, postgres_url  # noqa: F401  fixtures are found by their names
from tgpu.domain.access import Action, Role
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.priority import PriorityClass
from tgpu.store.postgres import PostgresStore


@pytest.fixture
def place() -> Iterator[House]:
    with house() as found:
        found.tenants("lab", "lab/vision", "org")
        found.person("olga", Role.OPERATOR, "lab")
        found.person("ann", Role.USER, "lab/vision")
        yield found


def made(client: httpx.Client, **asked: Any) -> Any:
    answer = client.post("/tokens", json=asked)
    assert answer.status_code == 201, answer.text
    return answer.json()


MANAGES = frozenset({Action.MANAGE})
JOB = {"command": "x", "cwd": "/"}


def test_a_token_tells_what_it_is_good_for(place: House) -> None:
    ann = place.caller("ann")
    token = made(
        ann,
        tenant_id="lab/vision",
        actions=["submit", "read"],
        highest_class="low",
        jobs=3,
        gpu_hours=1.5,
        note="CI",
    )
    assert (token["tenant_id"], token["actions"]) == ("lab/vision", ["read", "submit"])
    assert (token["highest_class"], token["jobs_left"], token["gpu_hours_left"]) == ("low", 3, 1.5)
    with place.server.tcp(token["token"]) as caller:
        scope = caller.get("/whoami").json()["token"]
    assert scope == {
        "token_id": token["token_id"],
        "role": "user",
        "tenant_id": "lab/vision",
        "actions": ["read", "submit"],
        "highest_class": "low",
        "jobs_left": 3,
        "gpu_hours_left": 1.5,
        "expires_at": token["expires_at"],
    }


def test_a_token_s_caps_are_kept(place: House) -> None:
    with place.server.tcp(made(place.caller("ann"), jobs=2, tenant_id="lab/vision")["token"]) as caller:
        assert caller.post("/jobs", json=JOB).json()["tenant_id"] == "lab/vision", "where it is good"
        assert caller.post("/jobs", json={"jobs": [JOB, JOB]}).status_code == 409
        assert caller.post("/jobs", json=JOB).status_code == 201
        spent = caller.post("/jobs", json=JOB)
        assert (spent.status_code, spent.json()["type"]) == (409, "urn:tgpu:problem:token-spent")
        assert caller.get("/whoami").json()["token"]["jobs_left"] == 0
        assert caller.post("/jobs", json={**JOB, "tenant_id": "default"}).status_code == 403


def test_a_token_s_gpu_hours_need_a_time_limit(place: House) -> None:
    with place.server.tcp(made(place.caller("ann"), gpu_hours=2)["token"]) as caller:
        answer = caller.post("/jobs", json={**JOB, "gpu_request": 1})
        assert (answer.status_code, answer.json()["field"]) == (422, "time_limit_s")
        assert "this token has a limit on GPU-hours" in answer.json()["detail"]
        hour = {**JOB, "gpu_request": 1, "time_limit_s": 3600, "grace_s": 0}
        assert caller.post("/jobs", json={**hour, "time_limit_s": 7201}).status_code == 409
        assert [caller.post("/jobs", json=hour).status_code for _ in range(3)] == [201, 201, 409]
        assert caller.post("/jobs", json=JOB).status_code == 201


def test_a_token_with_a_cap_gets_no_more_by_changing_or_repeating_jobs(place: House) -> None:
    whole = place.caller("ann")
    mine = {**JOB, "tenant_id": "lab/vision", "gpu_request": 1, "time_limit_s": 60}
    assert whole.post("/jobs", json=mine).status_code == 201
    with place.server.tcp(made(whole, gpu_hours=2, tenant_id="lab/vision")["token"]) as caller:
        longer = caller.patch("/jobs/1", json={"time_limit_s": 7200})
        assert (longer.status_code, "only jobs that were submitted with it" in longer.text) == (409, True)
        for more in ({"retries": 3}, {"completions": 2}, {"requeue_on_timeout": True}):
            again = caller.post("/jobs", json={**mine, **more})
            assert (again.status_code, "tried again by itself" in again.text) == (409, True), more
        own = caller.post("/jobs", json=mine).json()["job_id"]
        assert caller.patch(f"/jobs/{own}", json={"time_limit_s": 120}).status_code == 200
        assign(place.server, own)
        start(place.server, own)
        for path, said in (("suspend", "suspends nothing"), ("retry", "starts nothing anew")):
            refused = caller.post(f"/jobs/{own}/{path}", json={})
            assert (refused.status_code, said in refused.text) == (403, True)
        assert caller.post("/jobs", json={**mine, "gpu_request": 0, "retries": 3}).status_code == 201


def test_a_retry_is_judged_by_what_holds_now(place: House) -> None:
    ann = place.caller("ann")
    job = {**JOB, "tenant_id": "lab/vision", "priority_class": "high"}
    with place.server.unix() as root:
        assert root.patch("/tenants/lab", json={"classes": ["high", "default"]}).status_code == 200
    assert ann.post("/jobs", json=job).status_code == 201
    assign(place.server, 1)
    end(place.server, 1, Happening.FAILED, Cause.EXITED, exit_code=1)
    low = place.caller("ann", highest_class=PriorityClass.LOW)
    told = low.post("/jobs/1/retry", json={})
    assert (told.status_code, "jobs of class low and below" in told.text) == (403, True)
    with place.server.unix() as root:
        assert root.patch("/tenants/lab", json={"classes": ["default"]}).status_code == 200
        assert "tenant lab/vision may use default" in ann.post("/jobs/1/retry", json={}).text
        assert root.patch("/tenants/lab", json={"classes": ["high"]}).status_code == 200
        assert ann.post("/jobs/1/retry", json={}).json()["job_id"] == 2
        assert root.delete("/tenants/lab/vision/members/ann").status_code == 204
        assert ann.post("/jobs/1/retry", json={}).status_code == 403
        assert root.post("/jobs/1/retry", json={}).json()["job_id"] == 3
        entry = root.get("/audit?action=job.retry").json()["entries"][0]
    assert (entry["target"], entry["after"]) == ("job/1", {"user": "ann", "job_id": 3})


def test_a_token_s_highest_class_is_kept(place: House) -> None:
    with place.server.tcp(made(place.caller("ann"), highest_class="low")["token"]) as caller:
        assert caller.post("/jobs", json=JOB).json()["priority_class"] == "low"
        assert caller.post("/jobs", json={**JOB, "priority_class": "best-effort"}).status_code == 201
        answer = caller.post("/jobs", json={**JOB, "priority_class": "default"})
        assert answer.status_code == 403
        assert "this token submits jobs of class low and below" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("own", "asked", "sentence"),
    [
        ({"role": "user"}, {"role": "operator"}, "a token may grant no more than you have, which is user"),
        ({"role": "viewer"}, {"role": "user"}, "this token may only look"),
        ({"tenant_id": "lab/vision"}, {}, "this token is good only in lab/vision"),
        ({"tenant_id": "lab/vision"}, {"tenant_id": "lab"}, "this token is good only in lab/vision"),
        ({"actions": MANAGES}, {}, "this token is good only for manage"),
        ({"actions": MANAGES}, {"actions": ["manage", "read"]}, "good only for manage"),
        (
            {"actions": frozenset({Action.READ})},
            {"actions": ["read"]},
            "this needs one that is good for manage",
        ),
        ({"jobs_left": 1}, {}, "this token has a cap, so it makes no tokens"),
        ({"highest_class": PriorityClass.LOW}, {}, "this token has a cap, so it makes no tokens"),
        ({"gpu_ms_left": 1}, {}, "this token has a cap, so it makes no tokens"),
        ({}, {"user_id": "ann"}, "only administrators make tokens for others"),
        ({}, {"role": "admin"}, "a token may grant no more than you have, which is operator"),
    ],
)
def test_no_token_is_wider_than_its_maker(
    place: House, own: dict[str, Any], asked: dict[str, Any], sentence: str
) -> None:
    answer = place.caller("olga", **own).post("/tokens", json=asked)
    assert answer.status_code == 403
    assert sentence in answer.json()["detail"]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"user_id": "ann", "role": "operator"}, "ann has not the role operator anywhere"),
        ({"user_id": "ann", "tenant_id": "org"}, "ann has not the role user in org"),
        ({"tenant_id": "none"}, "there is no tenant 'none'"),
        ({"tenant_id": "../x"}, "tenant_id must be up to 8 names"),
        ({"actions": ["steal"]}, "actions"),
        (
            {"zzz": 1},
            "user_id, tenant_id, actions, highest_class, jobs, gpu_hours",
        ),
        ({"highest_class": "urgent"}, "highest_class"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"jobs": -1}, "jobs must not be negative"),
        ({"jobs": 10**30}, "jobs may be at most"),
        ({"gpu_hours": 0}, "gpu_hours must be more than 0"),
        ({"gpu_hours": 1e300}, "gpu_hours may be at most"),
    ],
)
def test_a_token_that_cannot_be_meant_is_refused(place: House, asked: dict[str, Any], sentence: str) -> None:
    with place.server.unix() as root:
        answer = root.post("/tokens", json=asked)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


def test_a_role_that_is_taken_away_is_gone_from_tokens_too(place: House) -> None:
    with (
        place.server.unix() as root,
        place.server.tcp(made(place.caller("olga"), role="operator")["token"]) as t,
    ):
        assert t.patch("/tenants/lab/vision", json={"weight": 2}).status_code == 200
        root.put("/tenants/lab/members/olga", json={"role": "viewer"})
        assert t.patch("/tenants/lab/vision", json={"weight": 3}).status_code == 403
        root.delete("/tenants/lab/members/olga")
        assert t.get("/tenants/lab/members").status_code == 403


def test_a_token_that_is_good_in_one_tenant_revokes_no_others(place: House) -> None:
    wide, narrow = (made(place.caller("ann"), tenant_id=where)["token_id"] for where in (None, "lab/vision"))
    within = place.caller("ann", tenant_id="lab")
    assert within.delete(f"/tokens/{wide}").status_code == 404
    assert within.delete(f"/tokens/{narrow}").status_code == 204


def test_a_token_goes_with_its_tenant(place: House) -> None:
    ann = place.caller("ann", tenant_id="lab/vision")
    assert ann.post("/jobs", json=JOB).json()["tenant_id"] == "lab/vision"
    with place.server.unix() as root:
        assert root.post("/tenants/lab/vision/move", json={"to": "org/eyes"}).status_code == 200
        assert ann.post("/jobs", json=JOB).json()["tenant_id"] == "org/eyes"
        job_ids = [job["job_id"] for job in root.get("/jobs").json()["jobs"]]
        root.post("/jobs/cancel", json={"job_ids": job_ids})
        assert root.delete("/tenants/org/eyes").status_code == 409, "its jobs have not ended yet"


def test_a_revoked_token_is_worthless_at_once_and_ends_what_it_follows(place: House) -> None:
    token = made(place.caller("ann"))
    with place.server.tcp(token["token"]) as caller, place.server.unix() as root:
        with caller.stream("GET", "/events") as events:
            lines = events.iter_lines()
            assert next(lines) == ": following"
            assert root.delete(f"/tokens/{token['token_id']}").status_code == 204
            root.post("/jobs", json=JOB)
            assert [line for line in lines if line] == []
        for _ in range(3):
            assert caller.get("/jobs").status_code == 401
        assert caller.post("/tokens", json={}).status_code == 401


@pytest.fixture
def servers(postgres_url: str) -> Iterator[tuple[ServerUnderTest, ServerUnderTest]]:  # noqa: F811  the fixture
    """Two of them on one PostgreSQL."""
    stores = [asyncio.run(PostgresStore.open(postgres_url)) for _ in range(2)]
    with serving(stores[0], store=postgres_url) as one, serving(stores[1], store=postgres_url) as other:
        yield one, other
    for store in stores:
        asyncio.run(store.close())


def test_a_token_that_one_server_revokes_is_worthless_on_another(
    servers: tuple[ServerUnderTest, ServerUnderTest],
) -> None:
    one, other = servers
    with one.unix() as root:
        for _ in range(5):
            token = made(root)
            with other.tcp(token["token"]) as caller:
                assert caller.get("/jobs").status_code == 200
                assert root.delete(f"/tokens/{token['token_id']}").status_code == 204
                assert caller.get("/jobs").status_code == 401


def test_what_was_made_with_a_token_is_revoked_with_it_on_every_server(
    servers: tuple[ServerUnderTest, ServerUnderTest],
) -> None:
    one, other = servers
    with one.unix() as root:
        parent = made(root, expires_in_s=1000)
        with one.tcp(parent["token"]) as holder:
            child = made(holder, expires_in_s=5000)
        assert (parent["parent_token_id"], parent["ends_with_parent"]) == (None, False)
        assert (child["parent_token_id"], child["ends_with_parent"]) == (parent["token_id"], True)
        assert child["expires_at"] == parent["expires_at"]
        with one.tcp(child["token"]) as here, other.tcp(child["token"]) as there:
            assert made(here, expires_in_s=10)["ends_with_parent"] is False
            assert there.get("/jobs").status_code == 200
            assert root.delete(f"/tokens/{parent['token_id']}").status_code == 204
            assert (here.get("/jobs").status_code, there.get("/jobs").status_code) == (401, 401)


def test_what_was_made_with_a_token_ends_with_the_user_of_that(place: House) -> None:
    place.person("adam", Role.ADMIN)
    given = made(place.caller("adam"), user_id="ann")["token"]
    with place.server.tcp(given) as caller:
        assert caller.get("/jobs").status_code == 200
        place.gone("adam")
        told = caller.get("/jobs")
    with place.server.unix() as root:
        listed = root.get("/tokens").json()["tokens"]
    assert {token["user_id"]: token["has_account"] for token in listed} == {"adam": False, "ann": False}
    assert (told.status_code, "made with one of adam, who has no account" in told.text) == (403, True)


def test_what_was_made_with_a_token_is_worthless_at_once_where_rows_are_kept(place: House) -> None:
    with place.server.unix() as root:
        parent = made(root)
        with place.server.tcp(parent["token"]) as holder, place.server.tcp(made(holder)["token"]) as child:
            assert child.get("/jobs").status_code == 200
            assert root.delete(f"/tokens/{parent['token_id']}").status_code == 204
            assert child.get("/jobs").status_code == 401


def test_what_one_server_changes_holds_on_another_within_a_moment(
    servers: tuple[ServerUnderTest, ServerUnderTest],
) -> None:
    one, other = servers
    with one.unix() as root, other.tcp(made(root, user_id=OTHER)["token"]) as caller:
        job = {**JOB, "tenant_id": "lab"}
        assert caller.post("/jobs", json=job).status_code == 422
        root.post("/tenants", json={"tenant_id": "lab"})
        assert caller.post("/jobs", json=job).status_code == 403
        root.put(f"/tenants/lab/members/{OTHER}", json={"role": "user"})
        until(lambda: caller.post("/jobs", json=job).status_code == 201)
        root.patch("/tenants/lab", json={"classes": ["low"]})
        until(lambda: caller.post("/jobs", json=job).json()["priority_class"] == "low")
        root.delete(f"/tenants/lab/members/{OTHER}")
        until(lambda: caller.post("/jobs", json=job).status_code == 403)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
