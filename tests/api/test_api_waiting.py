"""Jobs that wait for others or for a moment, that are held, and that are changed while they wait."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.api.conftest import OTHER, ServerUnderTest
from tests.api.stories import assign, end, start, submit
from tgpu.domain.job import Gang, Request
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.needs import Need, NeedKind

BEGIN, DEADLINE = "2030-03-17T20:00:00Z", "2030-03-18T20:00:00+02:00"


def ask(client: httpx.Client, status: int = 201, **fields: Any) -> dict[str, Any]:
    answer = client.post("/jobs", json={"command": "true", **fields})
    assert answer.status_code == status, answer.text
    return dict(answer.json())


def refusal(client: httpx.Client, **fields: Any) -> str:
    return str(ask(client, 422, **fields)["detail"])


def test_a_job_says_what_it_waits_for_and_from_when_to_when(client: httpx.Client, me: str) -> None:
    ask(client)
    job = ask(
        client,
        after=["1", "afterany:1,singleton"],
        begin_at=BEGIN,
        deadline_at=DEADLINE,
        time_limit_s=60,
        requeue_on_timeout=True,
        hold=True,
    )
    said = {
        "after": ["afterok:1", "afterany:1", "singleton"],
        "needs_met": False,
        "begin_at": "2030-03-17T20:00:00.000Z",
        "deadline_at": "2030-03-18T18:00:00.000Z",
        "requeue_on_timeout": True,
        "held_by": me,
        "reason": f"it is held by {me}; `tgpu release 2` lets it start",
    }
    assert {name: job[name] for name in said} == said
    shown = client.get("/jobs/2").json()
    assert {name: shown[name] for name in said} == said
    assert ask(client)["after"] == []


def test_needs_that_cannot_be_meant_are_refused(server: ServerUnderTest, other: httpx.Client) -> None:
    submit(server, user="root")
    for after, sentence in (
        (["7"], "after: there is no job 7 to wait for; `tgpu list --all` shows those there are"),
        (["1"], "after: job 1 belongs to root: wait for jobs of your own, or of tenants in which"),
        (["afterok"], "after: afterok must say of which job, such as afterok:41"),
        (["after:1"], "after must be like 41, afterok:41:42, afternotok:41, afterany:41, aftercorr:41 or"),
        (["1?2"], "after cannot wait for one of several jobs"),
        (["afterok:x"], "after must name jobs by their numbers, such as 41; got 'x'"),
        (["0"], "after must name jobs by their numbers, such as 41; got '0'"),
        ([str(10**20)], "after must name jobs by their numbers"),
        ([""], "after must be like 41"),
        (["singleton:3"], "after must be like 41"),
    ):
        assert refusal(other, after=after, cwd="/tmp").startswith(sentence), after
    # Its own number is the next one: there is no such job yet.
    assert "there is no job 2" in refusal(other, after=["2"], cwd="/tmp")


def test_jobs_of_one_request_need_each_other_by_name(server: ServerUnderTest, client: httpx.Client) -> None:
    jobs = [
        {"command": "a", "name": "report", "needs": ["train", "afterany:check"]},
        {"command": "b", "name": "train", "needs": ["prepare"]},
        {"command": "c", "name": "prepare"},
        {"command": "d", "name": "check", "needs": ["prepare"]},
    ]
    assert client.post("/jobs", json={"jobs": jobs}).json() == {"job_ids": [1, 2, 3, 4]}
    job = server.run(server.store.job(1))
    assert job.spec.needs == (Need(NeedKind.OK, 2), Need(NeedKind.ANY, 4))
    drawn = client.get("/graph", params={"ids": "3"}).json()
    assert [job["job_id"] for job in drawn["jobs"]] == [1, 2, 3, 4]
    assert [(need["job_id"], need["on_job_id"], need["kind"]) for need in drawn["needs"]] == [
        (1, 2, "afterok"),
        (1, 4, "afterany"),
        (2, 3, "afterok"),
        (4, 3, "afterok"),
    ]
    assert client.get("/graph").json() == drawn


def test_circles_and_names_that_nobody_has_are_refused_and_nothing_is_submitted(client: httpx.Client) -> None:
    def refused(*jobs: dict[str, Any]) -> str:
        answer = client.post("/jobs", json={"jobs": [{"command": "x", **job} for job in jobs]})
        assert answer.status_code == 422, answer.text
        return str(answer.json()["detail"])

    circle = [{"name": "a", "needs": ["b"]}, {"name": "b", "needs": ["c"]}, {"name": "c", "needs": ["a"]}]
    assert refused(*circle) == (
        "needs: a → b → c → a is a circle, in which each waits for the next: leave one of them out"
    )
    assert refused({"name": "a", "needs": ["a"]}) == "needs: a needs itself: leave that out"
    assert refused({"name": "a"}, {"needs": ["b"]}).startswith(
        "jobs[1].needs: no job of this request is called 'b'"
    )
    twice = refused({"name": "a"}, {"name": "a"}, {"needs": ["a"]})
    assert twice == "jobs[2].needs: 2 jobs of this request are called 'a'"
    assert refused({}, {"after": ["9"]}).startswith("jobs[1].after: there is no job 9")
    alone = refusal(client, needs=["a"])
    assert (
        "needs names other jobs of the same request, and this is the only one: submit 'a' together" in alone
    )
    assert client.get("/jobs").json()["jobs"] == []


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"begin_at": "16:00"}, "begin_at must be a time with a zone, such as 2030-01-31T12:00:00Z"),
        ({"deadline_at": "2020-01-01T00:00:00Z"}, "deadline_at: from now it cannot be over by 2020-01-01"),
        (
            {"deadline_at": BEGIN, "begin_at": DEADLINE},
            "deadline_at: from begin_at it cannot be over by 2030-03-17",
        ),
        (
            {"begin_at": BEGIN, "deadline_at": DEADLINE, "time_limit_s": 86400},
            "deadline_at: from begin_at with a time limit of 1d it cannot be over by 2030-03-18T18:00:00",
        ),
        ({"requeue_on_timeout": True}, "requeue_on_timeout needs a time limit"),
        (
            {"requeue_on_timeout": True, "requeue": False, "time_limit_s": 60},
            "requeue_on_timeout cannot go with requeue = false (--no-requeue)",
        ),
    ],
)
def test_times_that_cannot_be_meant_are_refused(
    quiet_client: httpx.Client, fields: dict[str, Any], sentence: str
) -> None:
    assert refusal(quiet_client, **fields).startswith(sentence)


def test_a_job_is_held_and_released(server: ServerUnderTest, client: httpx.Client, me: str) -> None:
    submit(server)
    for _ in range(2):
        answer = client.post("/jobs/1/hold")
        assert (answer.status_code, answer.json()["held_by"]) == (200, me)
    answer = client.post("/jobs/1/release")
    assert (answer.status_code, answer.json()["held_by"]) == (200, None)
    again = client.post("/jobs/1/release")
    assert (again.status_code, again.json()["detail"]) == (
        409,
        "job 1 is not held; `tgpu why 1` says more",
    )


def test_what_runs_can_be_neither_held_nor_changed(server: ServerUnderTest, client: httpx.Client) -> None:
    submit(server)
    assign(server, 1)
    start(server, 1)
    for answer, deed in (
        (client.post("/jobs/1/hold"), "held"),
        (client.patch("/jobs/1", json={"priority": 3}), "changed"),
    ):
        assert answer.status_code == 409
        assert answer.json()["detail"] == (
            f"job 1 cannot be {deed}, for only what waits can be: it is running"
        )
    end(server, 1, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
    assert "it has completed" in client.post("/jobs/1/hold").json()["detail"]


def test_others_jobs_are_left_alone(
    server: ServerUnderTest, other: httpx.Client, client: httpx.Client
) -> None:
    submit(server, user="root")
    for answer in (
        other.post("/jobs/1/hold"),
        other.post("/jobs/1/release"),
        other.patch("/jobs/1", json={"priority": 3}),
    ):
        assert answer.status_code == 403
        assert "may hold, release, change or rerun it" in answer.json()["detail"]
    mine = submit(server, user=OTHER)
    assert client.post(f"/jobs/{mine}/hold").status_code == 200  # an administrator may
    answer = other.post(f"/jobs/{mine}/release")
    assert answer.status_code == 403
    assert f"job {mine} is held by root" in answer.json()["detail"]
    assert client.post(f"/jobs/{mine}/release").status_code == 200
    assert client.post(f"/jobs/{mine}/suspend").status_code == 200
    answer = other.post(f"/jobs/{mine}/resume")
    assert (answer.status_code, f"job {mine} is suspended by root" in answer.text) == (403, True)
    assert client.post(f"/jobs/{mine}/resume").status_code == 200
    assert other.post(f"/jobs/{mine}/suspend").status_code == 200
    assert other.post(f"/jobs/{mine}/resume").status_code == 200


def test_a_job_that_waits_is_changed(client: httpx.Client) -> None:
    ask(client, gpu_request=2, gpu_type="A100", time_limit_s=60, name="old", cwd="/tmp")
    answer = client.patch(
        "/jobs/1",
        json={
            "name": "new",
            "gpu_request": 1,
            "gpu_type": None,
            "mem_request_mb": 512,
            "time_limit_s": 7200,
            "priority": 9,
            "priority_class": "low",
            "begin_at": BEGIN,
            "node_rules": ["zone in (a, b)"],
        },
    )
    assert answer.status_code == 200, answer.text
    job = client.get("/jobs/1").json()
    said = {
        "name": "new",
        "gpu_request": 1,
        "gpu_type": None,
        "mem_request_mb": 512,
        "time_limit_s": 7200,
        "priority": 9,
        "priority_class": "low",
        "begin_at": "2030-03-17T20:00:00.000Z",
        "node_rules": ["zone in (a, b)"],
        "cwd": "/tmp",
        "cpu_request": 1,
    }
    assert {name: job[name] for name in said} == said
    assert [event["kind"] for event in job["events"]] == ["submitted", "edited"]
    assert client.patch("/jobs/1", json={"begin_at": None, "time_limit_s": None}).json()["begin_at"] is None


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "time_limit_s, or whatever else is to be changed, is missing"),
        ({"gpu_request": 1.5}, "gpu_request must be a fraction below 1 or a whole number"),
        ({"gpu_request": 99}, "it could never run here then: "),
        ({"cpu_limit": 0.5}, "cpu_limit must be at least cpu_request"),
        ({"time_limit_s": 0}, "time_limit_s must be at least 1; got 0"),
        ({"gpu_type": "A100"}, "gpu_type says which GPU: ask for some"),
        ({"deadline_at": "2020-01-01T00:00:00Z"}, "deadline_at: from now"),
        ({"name": ""}, "name must not be empty"),
        ({"command": "x"}, "unknown field 'command'"),
        ({"priority": 10**9}, "priority must be from"),
    ],
)
def test_changes_that_cannot_be_meant_are_refused(
    client: httpx.Client, fields: dict[str, Any], sentence: str
) -> None:
    ask(client)
    answer = client.patch("/jobs/1", json=fields)
    assert answer.status_code == 422, answer.text
    assert sentence in answer.json()["detail"]


def test_a_change_beyond_the_quota_is_refused_with_the_numbers(client: httpx.Client) -> None:
    client.patch("/tenants/default/quota", json={"gpu_limit": 2}, headers={"If-Match": "*"})
    ask(client, gpu_request=1, priority_class="high")
    answer = client.patch("/jobs/1", json={"gpu_request": 3})
    assert answer.status_code == 409, answer.text
    assert "quota" in answer.json()["type"]
    assert client.get("/jobs/1").json()["gpu_request"] == 1


def test_a_gang_is_not_changed_to_one_that_can_never_run(
    server: ServerUnderTest, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(gang: Gang, members: Sequence[tuple[Request, int]]) -> str | None:
        ((request, tasks),) = members
        return f"{gang.size} of its tasks are too many" if request.gpu_milli * tasks > 4000 else None

    monkeypatch.setattr(server.live, "gang_never_fits", never)
    ask(client, tasks=2, gpu_request=1)
    answer = client.patch("/jobs/1", json={"gpu_request": 3})
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"] == "it could never run here then: 2 of its tasks are too many"
    assert client.patch("/jobs/1", json={"gpu_request": 2}).json()["gpu_request"] == 2
