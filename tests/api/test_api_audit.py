"""Who changed what, when, from where, and what it was before."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.people import House, house
from tests.api.stories import assign, submit
from tgpu.domain.access import Role


@pytest.fixture
def place() -> Iterator[House]:
    with house() as found:
        found.person("ann")
        found.person("olga", Role.OPERATOR)
        yield found


@pytest.fixture
def root(place: House) -> Iterator[httpx.Client]:
    with place.server.unix() as opened:
        yield opened


def entries(client: httpx.Client, query: str = "") -> list[Any]:
    answer = client.get(f"/audit{query}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["entries"])


def test_every_change_by_the_api_is_in_the_log(place: House, root: httpx.Client) -> None:
    submit(place.server, "ann")
    until = "2030-06-01T00:00:00Z"
    steps = [
        ("POST", "/tenants", {"tenant_id": "lab"}, "tenant.create", "lab"),
        ("PATCH", "/tenants/lab", {"weight": 3}, "tenant.update", "lab"),
        ("PATCH", "/tenants/lab/quota", {"gpu_limit": 2}, "tenant.update", "lab"),
        ("PUT", "/tenants/lab/members/ann", {"role": "user"}, "member.set", "lab"),
        ("DELETE", "/tenants/lab/members/ann", None, "member.remove", "lab"),
        ("PUT", "/members/ann", {"role": "viewer"}, "member.set", "*"),
        ("DELETE", "/members/ann", None, "member.remove", "*"),
        ("POST", "/tenants/lab/move", {"to": "org"}, "tenant.move", "lab"),
        ("DELETE", "/tenants/org", None, "tenant.remove", "org"),
        ("POST", "/nodes/ws1/drain", {"reason": "fans"}, "node.drain", "ws1"),
        ("POST", "/nodes/ws1/undrain", None, "node.undrain", "ws1"),
        ("DELETE", "/nodes/ws1", None, "node.remove", "ws1"),
        ("POST", "/windows", {"where": ["rack=r7"], "until": until}, "window.create", "1"),
        ("DELETE", "/windows/1", None, "window.cancel", "1"),
        ("POST", "/join-tokens", {}, "join-token.create", "1"),
        ("DELETE", "/join-tokens/1", None, "join-token.revoke", "1"),
        ("POST", "/jobs/1/hold", None, "job.hold", "job/1"),
        ("POST", "/jobs/1/release", None, "job.release", "job/1"),
        ("PATCH", "/jobs/1", {"priority": 3}, "job.edit", "job/1"),
        ("POST", "/jobs/1/suspend", None, "job.suspend", "job/1"),
        ("POST", "/jobs/1/resume", None, "job.resume", "job/1"),
        ("POST", "/jobs/1/rerun", None, "job.submit", "ann"),
        ("DELETE", "/jobs/1", None, "job.cancel", "job/1"),
        ("POST", "/jobs/2/cancel", {"indices": "0"}, "job.cancel", "job/2"),
        ("POST", "/jobs", {"command": "x", "user_id": "ann"}, "job.submit", "ann"),
    ]
    for method, path, body, action, target in steps:
        answer = root.request(method, path, json=body)
        assert answer.status_code < 300, (method, path, answer.text)
        newest = entries(root, "?limit=1")[0]
        assert (newest["action"], newest["target"]) == (action, target), (method, path)
        assert (newest["user_id"], newest["via"]) == ("root", "socket")
        assert newest["address"].startswith("pid ")


def test_jobs_that_are_cancelled_together_are_one_line_for_each_of_their_users(
    place: House, root: httpx.Client
) -> None:
    ids = [submit(place.server, user) for user in ("ann", "olga", "ann", "root")]
    assert root.post("/jobs/cancel", json={"job_ids": ids}).status_code == 202
    said = [(entry["target"], entry["after"]) for entry in entries(root, "?action=job.cancel")]
    assert said == [
        ("job/2", {"user": "olga", "job_ids": [2]}),
        ("jobs/1-3", {"user": "ann", "job_ids": [1, 3]}),
    ]


def test_which_tasks_of_another_s_job_were_stopped_and_started_anew_is_told(
    place: House, root: httpx.Client
) -> None:
    submit(place.server, "ann")
    assign(place.server, 1)
    assert root.post("/jobs/1/retry", json={"indices": "0"}).status_code == 202
    assert root.post("/jobs/1/cancel", json={"indices": "0", "now": True}).status_code == 202
    said = [(entry["action"], entry["after"]) for entry in entries(root, "?action=job")]
    assert said == [
        ("job.cancel", {"user": "ann", "indices": "0", "now": True}),
        ("job.retry", {"user": "ann", "job_id": None, "restarted": [0]}),
    ]


def test_a_job_that_is_changed_by_another_is_told_as_it_was_and_is(place: House, root: httpx.Client) -> None:
    submit(place.server, "ann")
    change = {"priority": 3, "gpu_request": 1, "begin_at": "2030-05-01T00:00:00Z"}
    assert root.patch("/jobs/1", json=change).status_code == 200
    entry = entries(root, "?action=job.edit")[0]
    assert entry["before"] == {"user": "ann", "priority": 0, "gpu_request": 0, "begin_at": None}
    assert entry["after"] == {"user": "ann", **change, "begin_at": "2030-05-01T00:00:00.000Z"}


def test_that_a_job_was_given_no_grace_is_told(place: House, root: httpx.Client) -> None:
    job_id = submit(place.server, "ann")
    assert root.delete(f"/jobs/{job_id}?now=true").status_code == 202
    assert entries(root, "?action=job.cancel")[0]["after"] == {"user": "ann", "job_ids": [1], "now": True}


def test_an_entry_says_from_where_by_which_token_and_what_it_was_before(
    place: House, root: httpx.Client
) -> None:
    made = place.caller("olga").post("/tokens", json={"role": "operator"}).json()
    with place.server.tcp(made["token"]) as caller:
        assert caller.patch("/tenants/default", json={"weight": 5}).status_code == 200
    (entry,) = entries(root, "?user=olga&action=tenant")
    assert (entry["via"], entry["address"], entry["token_id"]) == ("token", "127.0.0.1", made["token_id"])
    assert (entry["before"]["weight"], entry["after"]["weight"]) == (1, 5)
    assert made["token"] not in root.get("/audit").text


def test_the_log_is_filtered_and_paged(place: House, root: httpx.Client) -> None:
    place.tenants("lab", "lab/a", "labour")
    root.patch("/tenants/lab/a", json={"weight": 2})
    assert {entry["target"] for entry in entries(root, "?target=lab")} == {"lab", "lab/a"}
    assert [entry["target"] for entry in entries(root, "?action=tenant.update&target=lab")] == ["lab/a"]
    assert entries(root, "?user=eve") == []
    backwards = root.get("/audit?since=1h&until=2h")
    assert (backwards.status_code, backwards.json()["detail"]) == (400, "since must be before until")
    assert entries(root, "?until=2020-01-01T00:00:00Z") == [
        entry for entry in entries(root) if entry["at"] < "2020"
    ]
    seen: list[int] = []
    cursor = ""
    while True:
        page = root.get(f"/audit?limit=2{cursor}").json()
        seen += [entry["audit_id"] for entry in page["entries"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == len(entries(root, "?limit=1000"))


def test_what_is_refused_leaves_no_line(place: House, root: httpx.Client) -> None:
    before = len(entries(root, "?limit=1000"))
    ann = place.caller("ann")
    before += 1  # her token
    ann.patch("/tenants/default", json={"weight": 5})
    root.patch("/tenants/default", json={"weight": 0})
    root.patch("/tenants/default", json={"weight": 2}, headers={"If-Match": '"99"'})
    root.delete("/tenants/default")
    assert len(entries(root, "?limit=1000")) == before
    assert ann.get("/audit").status_code == 403
