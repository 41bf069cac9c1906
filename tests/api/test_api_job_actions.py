"""`actions` of a job agree with what the endpoints answer; bulk actions report on each job."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.api.people import House, house
from tests.api.stories import assign, end, start, submit
from tgpu.domain.access import Role
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.store.port import StoreUnavailableError

OWNER, TENANT = "ann", "lab"
REFUSED = {401, 403, 404, 409}

TRY: dict[str, Callable[[httpx.Client, int], httpx.Response]] = {
    "hold": lambda client, job: client.post(f"/jobs/{job}/hold"),
    "release": lambda client, job: client.post(f"/jobs/{job}/release"),
    "edit": lambda client, job: client.patch(f"/jobs/{job}", json={"name": "again"}),
    "suspend": lambda client, job: client.post(f"/jobs/{job}/suspend"),
    "resume": lambda client, job: client.post(f"/jobs/{job}/resume"),
    "retry": lambda client, job: client.post(f"/jobs/{job}/retry"),
    "rerun": lambda client, job: client.post(f"/jobs/{job}/rerun"),
    "logs": lambda client, job: client.get(f"/jobs/{job}/logs?last=1"),
    "terminal": lambda client, job: client.get(f"/jobs/{job}/terminal"),
    "cancel": lambda client, job: client.delete(f"/jobs/{job}"),
}
"""426 of `terminal` is the answer to a request without an upgrade that would be let in."""


@pytest.fixture(scope="module")
def lab() -> Iterator[House]:
    with house() as found:
        found.tenants(TENANT, "elsewhere")
        found.person(OWNER, Role.USER, TENANT)
        found.person("mate", Role.USER, TENANT)
        found.person("watcher", Role.VIEWER, TENANT)
        found.person("operator", Role.OPERATOR, TENANT)
        found.person("boss", Role.ADMIN, TENANT)
        found.person("stranger", Role.USER, "elsewhere")
        yield found


def pending(lab: House) -> int:
    return submit(lab.server, user=OWNER, tenant_id=TENANT)


def running(lab: House) -> int:
    job_id = pending(lab)
    assign(lab.server, job_id)
    start(lab.server, job_id)
    return job_id


def failed(lab: House) -> int:
    job_id = running(lab)
    end(lab.server, job_id, Happening.FAILED, Cause.EXITED, exit_code=1)
    return job_id


def completed(lab: House) -> int:
    job_id = running(lab)
    end(lab.server, job_id, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
    return job_id


def held(lab: House) -> int:
    job_id = pending(lab)
    assert lab.caller("operator").post(f"/jobs/{job_id}/hold").status_code == 200
    return job_id


def suspended(lab: House) -> int:
    job_id = pending(lab)
    assert lab.caller(OWNER).post(f"/jobs/{job_id}/suspend").status_code == 200
    return job_id


STATES = {make.__name__: make for make in (pending, running, failed, completed, held, suspended)}
NO_CHANGE = {("held", "hold"), ("suspended", "suspend")}
"""Accepted, and left out of `actions`, because nothing would change."""


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("user", [OWNER, "mate", "watcher", "operator", "boss", "stranger"])
def test_actions_agree_with_what_the_endpoints_answer(lab: House, state: str, user: str) -> None:
    caller = lab.caller(user)
    for verb, attempt in TRY.items():
        job_id = STATES[state](lab)
        shown = caller.get(f"/jobs/{job_id}?actions=true").json()["actions"]
        listed = caller.get(f"/jobs?ids={job_id}&view=list&actions=true").json()["jobs"][0]["actions"]
        assert shown == listed
        status = attempt(caller, job_id).status_code
        if verb == "terminal" and status == 426:
            # Whether a task runs is judged after the upgrade.
            assert (verb in shown) == (state == "running")
            continue
        if (state, verb) in NO_CHANGE and status == 200:
            assert verb not in shown
            continue
        assert (verb in shown) == (status not in REFUSED), (verb, status, shown)


def test_token_that_may_only_read_has_no_actions(lab: House) -> None:
    reader = lab.caller(OWNER, role="viewer")
    job_id = running(lab)
    assert reader.get(f"/jobs/{job_id}?actions=true").json()["actions"] == ["logs"]


def test_actions_are_left_out_unless_asked_for(lab: House) -> None:
    job_id = pending(lab)
    assert "actions" not in lab.caller(OWNER).get(f"/jobs/{job_id}").json()


def test_bulk_hold_and_release_report_on_each_job(lab: House) -> None:
    mine, ended, theirs = pending(lab), completed(lab), submit(lab.server, user="boss", tenant_id=TENANT)
    by_operator = held(lab)
    ann = lab.caller(OWNER)
    answer = ann.post("/jobs/hold", json={"job_ids": [mine, ended, theirs, 999_999, mine]}).json()
    assert answer["held"] == [mine]
    assert [each["job_id"] for each in answer["refused"]] == [ended]
    assert "it has completed" in answer["refused"][0]["detail"]
    assert (answer["not_found"], answer["forbidden"]) == ([999_999], [theirs])
    answer = ann.post("/jobs/release", json={"job_ids": [mine, ended, theirs, by_operator]}).json()
    assert answer["released"] == [mine]
    assert [each["job_id"] for each in answer["refused"]] == [ended]
    assert sorted(answer["forbidden"]) == sorted([theirs, by_operator])
    assert ann.get(f"/jobs/{mine}").json()["held_by"] is None


def test_bulk_retry_reports_new_jobs_restarts_and_refusals(lab: House) -> None:
    over, live, waiting = failed(lab), running(lab), pending(lab)
    theirs = submit(lab.server, user="boss", tenant_id=TENANT)
    ann = lab.caller(OWNER)
    answer = ann.post("/jobs/retry", json={"job_ids": [over, live, waiting, theirs, 999_999]}).json()
    new = {each["job_id"]: each for each in answer["retried"]}
    assert new[over]["new_job_id"] > theirs
    assert not new[over]["restarted"]
    assert new[live] == {"job_id": live, "new_job_id": None, "restarted": True}
    assert [each["job_id"] for each in answer["refused"]] == [waiting]
    assert (answer["not_found"], answer["forbidden"]) == ([999_999], [theirs])


def test_bulk_retry_that_ends_in_the_middle_has_noted_what_was_done(
    lab: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = [failed(lab) for _ in range(3)]
    store, submissions = lab.server.store, 0
    real = store.submit

    async def ends(*asked: Any, **more: Any) -> Any:
        nonlocal submissions
        submissions += 1
        if submissions > 1:
            raise StoreUnavailableError("the store is away")
        return await real(*asked, **more)

    with lab.server.unix() as root:
        before = root.get("/audit?action=job.retry").json()["entries"]
        monkeypatch.setattr(store, "submit", ends)
        assert lab.caller("operator").post("/jobs/retry", json={"job_ids": over}).status_code == 503
        lines = root.get("/audit?action=job.retry").json()["entries"]
        (new,) = [job["job_id"] for job in root.get("/jobs").json()["jobs"] if job["job_id"] > over[-1]]
    noted = [line["after"] for line in lines[: len(lines) - len(before)]]
    assert noted == [{"user": OWNER, "job_id": new}]


def test_bulk_action_on_another_users_jobs_is_one_line_of_the_audit_log(lab: House) -> None:
    first, second = pending(lab), pending(lab)
    lab.caller("operator").post("/jobs/hold", json={"job_ids": [first, second]})
    with lab.server.unix() as root:
        lines = root.get("/audit?action=job.hold&limit=1").json()["entries"]
    assert lines[0]["target"] == f"jobs/{first}-{second}"
    assert lines[0]["after"] == {"user": OWNER, "job_ids": [first, second]}


def test_bulk_actions_refuse_ids_that_cannot_be_meant(lab: House) -> None:
    ann = lab.caller(OWNER)
    for verb, most in (("hold", 10_000), ("release", 10_000), ("retry", 1000)):
        for body in ({"job_ids": []}, {"job_ids": [0]}, {}, {"job_ids": list(range(1, most + 2))}):
            assert ann.post(f"/jobs/{verb}", json=body).status_code == 422, (verb, str(body)[:40])
