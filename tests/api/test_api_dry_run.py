"""`POST /jobs?dry_run=true`: all that a submission checks, the plan, and no trace."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.api.conftest import NOW_MS, ServerUnderTest
from tests.api.people import House, house
from tests.api.stories import assign, end, start, submit
from tests.core.core_story import asks, task
from tgpu.api import plan_preview
from tgpu.domain.access import Actor
from tgpu.domain.ids import AttemptId
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.preview import FIRST_HYPOTHETICAL_ID
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, Limits
from tgpu.domain.tenant import Tenant
from tgpu.store.access_port import AuditFilter

DRY = "/jobs?dry_run=true"
TRUE = {"command": "true", "cwd": "/tmp"}
SERVER = Actor("root", "server")


def preview(client: httpx.Client, job: object) -> dict[str, Any]:
    answer = client.post(DRY, json=job)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    assert told["dry_run"] is True
    return told


def one(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    (job,) = preview(client, {**TRUE, **fields})["jobs"]
    return dict(job)


def occupy(server: ServerUnderTest, gpus: int = 2, job_id: int = 900, **more: Any) -> None:
    """A job has GPUs of ws1 for another hour."""
    server.run(server.live.preview([]))
    picture = server.live.picture
    running = task(job_id, asks(gpus=gpus), time_limit_s=3600, **{"submitted_ms": NOW_MS, **more})
    placed = picture.place(running, AttemptId(job_id, 0, 1), "ws1", tuple(range(gpus)))
    picture.started(placed, NOW_MS)


def test_job_that_starts_now_is_told_node_and_gpus(client: httpx.Client, me: str) -> None:
    job = one(client, gpu_request=1, name="train", time_limit_s=60)
    assert (job["starts"], job["starting_tasks"], job["jobs_ahead"]) == ("now", 1, 0)
    assert job["places"] == [{"node_id": "ws1", "devices": [0]}]
    assert job["summary"] == "Starts now on ws1 with GPU 0."
    assert (job["name"], job["user_id"], job["tenant_id"], job["time_limit_s"]) == (
        "train",
        me,
        "default",
        60,
    )


def test_job_that_waits_is_told_when_and_why(server: ServerUnderTest, client: httpx.Client) -> None:
    occupy(server)
    job = one(client, gpu_request=2, time_limit_s=60)
    assert (job["starts"], job["starts_in_s"]) == ("at", 3600)
    assert job["reasons"][0]["code"] == "gpus"
    assert "1h" in job["summary"]
    assert str(FIRST_HYPOTHETICAL_ID)[:8] not in str(job)


def test_bulk_previews_its_first_twenty_jobs(client: httpx.Client) -> None:
    told = preview(client, {"jobs": [TRUE] * 30})
    assert (told["job_count"], len(told["jobs"])) == (30, 20)


def test_array_is_told_how_many_tasks_start(client: httpx.Client) -> None:
    job = one(client, array="0-9", gpu_request=1)
    assert (job["tasks"], job["starting_tasks"], job["starts"]) == (10, 2, "now")
    assert job["summary"].startswith("Starts now with 2 of 10 tasks on ws1")


def test_gang_is_planned_whole(server: ServerUnderTest, client: httpx.Client) -> None:
    assert one(client, tasks=2, gpu_request=1)["starting_tasks"] == 2
    occupy(server, gpus=1)
    job = one(client, tasks=2, gpu_request=1)
    assert (job["starts"], job["starting_tasks"]) == ("at", 0)


def test_gang_that_is_too_large_to_be_planned_is_told_so(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_preview, "MOST_TASKS", 3)
    monkeypatch.setattr(plan_preview, "MOST_IN_GANGS", 3)
    gang = {**TRUE, "tasks": 2, "cpu_request": 0.1}
    first, second, array = preview(client, {"jobs": [gang, gang, {**TRUE, "array": "0-9"}]})["jobs"]
    assert (first["starts"], first["starting_tasks"]) == ("now", 2)
    assert (second["starts"], second["reasons"][0]["code"]) == ("waits", "too-large-to-preview")
    assert second["summary"].startswith("A preview plans up to 3 tasks of gangs, and all 2")
    assert (array["starts"], array["starting_tasks"]) == ("now", 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"gpu_request": 9},
        {"gpu_request": 1.5},
        {"comand": "x"},
        {"command": ""},
        {"after": ["4711"]},
        {"secret_env": {"A": "store:none"}},
        {"tenant_id": "nowhere"},
        {"cwd": "/nowhere/at/all"},
        {"deadline_at": "2001-01-01T00:00:00Z"},
    ],
)
def test_dry_run_refuses_what_a_submission_refuses_in_the_same_words(
    quiet_client: httpx.Client, fields: dict[str, Any]
) -> None:
    tried, submitted = (quiet_client.post(path, json={**TRUE, **fields}) for path in (DRY, "/jobs"))
    assert tried.status_code == submitted.status_code >= 400
    assert tried.json() == submitted.json()


def test_report_answers_with_the_refusal(quiet_client: httpx.Client) -> None:
    told = quiet_client.post("/jobs?dry_run=report", json={"command": "", "cwd": "/tmp"})
    assert (told.status_code, told.json()["jobs"]) == (200, [])
    assert told.json()["refusal"] == {
        "status": 422,
        "type": "urn:tgpu:problem:invalid-field",
        "detail": "command is empty: say which program to run",
        "field": "command",
    }
    assert quiet_client.post("/jobs?dry_run=report", json=TRUE).json()["refusal"] is None
    assert quiet_client.post("/jobs?dry_run=perhaps", json=TRUE).status_code == 400


def test_without_scheduler_the_checks_are_made_and_no_plan(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    server.live.leads = False
    told = preview(client, TRUE)
    assert (told["planned"], told["jobs"][0]["starts"]) == (False, "waits")
    assert client.post(DRY, json={"command": ""}).status_code == 422


def test_dry_run_leaves_no_trace(server: ServerUnderTest, client: httpx.Client) -> None:
    with_quota = Tenant("lab", limits=Limits(gpu_milli=4000), job_limits=JobLimits(waiting=5))
    server.run(server.store.create_tenant(with_quota, SERVER, NOW_MS))
    client.post("/jobs", json=TRUE)
    before = _traces(server, client)
    for job in ({**TRUE, "tenant_id": "lab", "gpu_request": 2}, {"jobs": [TRUE, TRUE]}, {"command": ""}):
        client.post(DRY, json=job, headers={"Idempotency-Key": "k1"})
    assert _traces(server, client) == before
    # The key is free: a submission with it is new, and not a repetition of the dry run.
    made = client.post("/jobs", json=TRUE, headers={"Idempotency-Key": "k1"})
    assert (made.status_code, made.json()["job_id"]) == (201, 2)


def _traces(server: ServerUnderTest, client: httpx.Client) -> list[object]:
    metrics = client.get("/metrics").text.splitlines()
    return [
        server.run(server.store.load()),
        server.run(server.store.events()),
        server.run(server.store.tenants()),
        server.run(server.store.audit_entries(AuditFilter())),
        [line for line in metrics if "submi" in line and not line.startswith("#")],
        client.get("/jobs").json(),
    ]


def test_quota_is_shown_as_it_would_be_afterwards(server: ServerUnderTest, client: httpx.Client) -> None:
    server.run(server.store.create_tenant(Tenant("lab", limits=Limits(gpu_milli=4000)), SERVER, NOW_MS))
    told = preview(client, {**TRUE, "tenant_id": "lab", "gpu_request": 1.0})
    (quota,) = told["quotas"]
    assert (quota["tenant_id"], quota["gpu_used"], quota["gpu_limit"]) == ("lab", 1, 4)
    assert quota["waiting_jobs_used"] == 1
    refused = client.post(DRY, json={**TRUE, "tenant_id": "lab", "gpu_request": 5})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:tgpu:problem:quota-exceeded")


def test_dependencies_decide_before_the_planner(server: ServerUnderTest, client: httpx.Client) -> None:
    for name in ("live", "good", "bad"):
        client.post("/jobs", json={**TRUE, "name": name})
    for job_id, happening, cause in (
        (2, Happening.SUCCEEDED, Cause.EXITED),
        (3, Happening.FAILED, Cause.EXITED),
    ):
        assign(server, job_id, devices=())
        start(server, job_id)
        end(server, job_id, happening, cause, exit_code=0 if job_id == 2 else 1)
    assert one(client, after=["1"])["starts"] == "waits"
    assert "job 1 to complete" in one(client, after=["1"])["summary"]
    assert one(client, after=["2"])["starts"] == "now"
    assert one(client, after=["3"])["starts"] == "never"
    assert one(client, after=["afternotok:3"])["starts"] == "now"
    assert one(client, name="live", after=["singleton"])["starts"] == "waits"
    assert one(client, name="other", after=["singleton"])["starts"] == "now"
    both = {"jobs": [{**TRUE, "name": "a"}, {**TRUE, "name": "b", "needs": ["a"]}]}
    told = preview(client, both)["jobs"]
    assert [each["starts"] for each in told] == ["now", "waits"]
    assert "a to complete" in told[1]["summary"]


def test_holds_and_begin_times_are_told(client: httpx.Client) -> None:
    assert one(client, hold=True)["starts"] == "waits"
    job = one(client, begin_at="2030-03-18T00:00:00Z")
    assert (job["starts"], job["is_lower_bound"], job["starts_at"]) == (
        "at",
        True,
        "2030-03-18T00:00:00.000Z",
    )


@pytest.fixture
def apart() -> Iterator[House]:
    """Ann's job 1 has all GPUs, and bob may not know of it."""
    with house(
        others_see="nothing", tenant_rules=("user:bob=org", "user:ann=lab"), user_classes=("high", "default")
    ) as made:
        made.tenants("lab", "org")
        made.person("ann")
        made.person("bob")
        assert submit(made.server, "ann", "anns-secret", tenant_id="lab") == 1
        occupy(made.server, job_id=1, priority_class=PriorityClass.BEST_EFFORT, name="anns-secret")
        made.server.live.picture.now_ms += 3_600_000
        yield made


def test_jobs_that_the_caller_may_not_see_are_counted_and_not_named(apart: House) -> None:
    hidden = one(apart.caller("bob"), gpu_request=2, priority_class="high")
    assert (hidden["preempts"], hidden["preempted_jobs"], hidden["holders"]) == (1, [], [])
    assert "ann" not in str(hidden)
    seen = one(apart.caller("ann"), gpu_request=2, priority_class="high")
    assert (seen["preempts"], seen["preempted_jobs"]) == (1, [1])
    assert seen["starts"] == "at"


def test_dry_run_leaves_every_row_of_the_database_as_it_was(apart: House) -> None:
    bob = apart.caller("bob", jobs_left=3)
    bob.post(DRY, json=TRUE)
    before = _rows(apart)
    for fields in (
        {"gpu_request": 1, "time_limit_s": 60},
        {"array": "0-99"},
        {"tasks": 2},
        {"after": ["singleton"]},
    ):
        assert bob.post(DRY, json=TRUE | fields, headers={"Idempotency-Key": "k"}).status_code == 200
    assert bob.post(DRY, json={"jobs": [TRUE] * 4}).json()["type"] == "urn:tgpu:problem:token-spent"
    assert _rows(apart) == before


def _rows(place: House) -> list[str]:
    """Without when tokens were used last, which every request may write."""
    with closing(sqlite3.connect(place.database)) as database:
        return [line for line in database.iterdump() if not line.startswith('INSERT INTO "tokens"')] + [
            str(row) for row in database.execute("SELECT token_id, jobs_left, gpu_ms_left FROM tokens")
        ]
