"""Listing and showing: filters, pages, and what others may see."""

import httpx
import pytest

from tests.api.conftest import NOW_MS, OTHER, ServerUnderTest, serving
from tests.api.stories import assign, commit, end, start, submit
from tgpu.api.edge import rfc3339
from tgpu.api.routes.whoami import Permission
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.start_estimate import ExpectedStart, StartEstimate, StartInterval
from tgpu.domain.views import Alert
from tgpu.store.estimate_port import EstimateChanges
from tgpu.store.port import AttemptEnded, StopOrdered

HOUR_MS = 3_600_000


def ids(client: httpx.Client, **params: object) -> list[int]:
    answer = client.get("/jobs", params={name: str(value) for name, value in params.items()})
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["jobs"]]


def test_jobs_are_listed_page_by_page_without_gaps_or_doubles(client: httpx.Client) -> None:
    client.post("/jobs", json={"jobs": [{"command": "x"}] * 7})
    for order, expected in (("newest", [7, 6, 5, 4, 3, 2, 1]), ("oldest", [1, 2, 3, 4, 5, 6, 7])):
        seen: list[int] = []
        cursor: int | None = None
        while True:
            params = {"limit": 3, "order": order} | ({"cursor": cursor} if cursor is not None else {})
            page = client.get("/jobs", params=params).json()
            seen += [job["job_id"] for job in page["jobs"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == expected
    assert client.get("/jobs", params={"limit": 7}).json()["next_cursor"] is None


def test_filters_are_joined(server: ServerUnderTest, client: httpx.Client, me: str) -> None:
    server.now_ms = NOW_MS - 3 * HOUR_MS
    submit(server, name="old", user=OTHER)
    server.now_ms = NOW_MS
    submit(server, name="train-a")
    submit(server, name="train-b")
    assign(server, 3)
    assert ids(client, status="pending") == [2, 1]
    assert ids(client, status="pending,scheduled", name="train") == [3, 2]
    assert client.get("/jobs?status=pending&status=scheduled&user=me").json()["jobs"][0]["job_id"] == 3
    assert ids(client, user="me") == [3, 2]
    assert ids(client, user=f"{OTHER},{me}") == [3, 2, 1]
    assert ids(client, since="2h") == [3, 2]
    assert ids(client, until="2h") == [1]
    assert ids(client, since="2030-03-17T17:46:40Z") == [3, 2]
    assert ids(client, since="2030-03-17T19:46:40+02:00") == [3, 2]
    assert ids(client, ids="1,3-9") == [3, 1]
    assert ids(client, tenant_id="default", ids="2") == [2]
    assert ids(client, tenant_id="elsewhere") == []


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("statsu=running", "unknown parameter 'statsu'; did you mean status?"),
        ("status=waiting", "status must be one of pending, scheduled"),
        ("limit=0", "limit must be a whole number from 1 to 1000; got '0'"),
        ("limit=1001", "limit must be"),
        ("limit=many", "limit must be"),
        ("limit=5&limit=6", "limit may be given once"),
        ("cursor=-1", "cursor must be"),
        ("order=up", "order must be one of newest, oldest"),
        ("ids=9-3", "ids must be ids such as 3,7-12"),
        ("ids=a", "ids must be ids such as 3,7-12"),
        ("since=yesterday", "since must be a time such as"),
        ("since=%ff", "percent-encoded UTF-8"),
        ("&".join(["status=running"] * 300), "at most 200 fields"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(
    quiet_client: httpx.Client, query: str, sentence: str
) -> None:
    answer = quiet_client.get(f"/jobs?{query}")
    assert answer.status_code == 400
    assert sentence in answer.json()["detail"]


@pytest.mark.parametrize("job_id", ["1", "0", "-1", "x", "1.0", "9" * 30, "٣"])
@pytest.mark.parametrize("path", ["/jobs/{}", "/jobs/{}/why", "/jobs/{}/logs"])
def test_an_unknown_job_is_not_found(quiet_client: httpx.Client, path: str, job_id: str) -> None:
    answer = quiet_client.get(path.format(job_id))
    assert answer.status_code == 404
    assert "there is no job" in answer.json()["detail"]


def test_a_finished_job_tells_its_whole_story(server: ServerUnderTest, client: httpx.Client, me: str) -> None:
    submit(server)
    assign(server, 1, devices=(0, 1))
    start(server, 1)
    end(server, 1, Happening.FAILED, Cause.EXITED, exit_code=3)
    job = client.get("/jobs/1").json()
    assert (job["status"], job["cause"], job["exit_code"]) == ("failed", "exited", 3)
    assert job["reason"] == "exit code 3"
    assert (job["assigned_node_id"], job["devices"], job["attempt_count"]) == ("ws1", [0, 1], 1)
    assert job["events"][0]["kind"] == "submitted"
    assert {event["user_id"] for event in job["events"]} == {me}
    (attempt,) = job["attempts"]
    assert attempt["attempt_id"] == "1.0.1"
    assert (attempt["status"], attempt["cause"], attempt["exit_code"]) == ("ended", "exited", 3)
    assert attempt["reason"] == "exit code 3"


def test_others_see_the_outline_only(server: ServerUnderTest, other: httpx.Client, me: str) -> None:
    submit(server, env={"A": "b"})
    assign(server, 1)
    start(server, 1)
    end(server, 1, Happening.FAILED, Cause.EXITED, exit_code=3)
    for job in (other.get("/jobs/1").json(), other.get("/jobs").json()["jobs"][0]):
        for withheld in ("command", "env", "cwd", "reason", "exit_code", "cancel_requested_by"):
            assert job[withheld] is None, withheld
        assert (job["user_id"], job["status"], job["cause"]) == (me, "failed", "exited")
        assert (job["assigned_node_id"], job["devices"]) == ("ws1", [0])
    shown = other.get("/jobs/1").json()
    assert {event["data"] for event in shown["events"]} == {None}
    assert shown["attempts"][0]["exit_code"] is None
    assert shown["attempts"][0]["reason"] is None


def test_secrets_are_masked_for_administrators_and_shown_to_their_owner(
    server: ServerUnderTest, client: httpx.Client, other: httpx.Client
) -> None:
    env = {"WANDB_API_KEY": "k", "DB_PASSWORD": "p", "my_token": "t", "EPOCHS": "3", "PWD": "/x"}
    submit(server, user=OTHER, env=env)
    assert other.get("/jobs/1").json()["env"] == env
    masked = {"WANDB_API_KEY": "***", "DB_PASSWORD": "***", "my_token": "***", "EPOCHS": "3", "PWD": "/x"}
    assert client.get("/jobs/1").json()["env"] == masked
    assert client.get("/jobs").json()["jobs"][0]["env"] == masked


def test_details_are_shown_to_others_where_the_house_allows_it() -> None:
    with serving(others_may=("details",)) as server, server.unix() as client:
        submit(server, env={"SECRET": "s", "A": "b"})
        with server.tcp(server.token(client, user_id=OTHER)) as other:
            job = other.get("/jobs/1").json()
            assert job["env"] == {"SECRET": "***", "A": "b"}
            assert job["command"] == ["python", "train.py"]
            assert other.get("/jobs/1/logs").status_code == 403
            assert other.delete("/jobs/1").status_code == 403


def test_why_is_answered_by_the_live_scheduler(server: ServerUnderTest, other: httpx.Client) -> None:
    submit(server)
    why = other.get("/jobs/1/why").json()
    assert (why["waiting"], why["summary"], why["position"]) == (True, "Waits for a GPU.", 1)
    assert why["reasons"][0]["code"] == "gpu-taken"
    assert (why["holders"][0]["user"], why["holders"][0]["gpu"]) == ("alice", 1)
    assert (why["starts_at"], why["estimate"]) == ("2030-03-17T17:46:40.000Z", "not before 17:46 UTC")
    assert why["advice"] == {
        "field": "gpu_request",
        "now": 2,
        "instead": 1.5,
        "text": "with --gpus 1.5 it would start now on ws1",
    }
    assign(server, 1)
    end(server, 1, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
    assert other.get("/jobs/1/why").json()["summary"] == "It does not wait: it has completed."


def test_why_of_a_job_that_could_not_start_says_the_sentence(
    server: ServerUnderTest, client: httpx.Client, other: httpx.Client
) -> None:
    submit(server)
    assign(server, 1)
    how = Exit(Cause.COULD_NOT_START, detail="there is no directory /gone")
    words = "could not be started: there is no directory /gone"
    commit(server, ended=[AttemptEnded(AttemptId(1, 0, 1), how, Happening.FAILED, words)])
    summary = f"It does not wait: it has failed: {words}."
    assert client.get("/jobs/1/why").json()["summary"] == summary
    told = other.get("/jobs/1/why").json()["summary"]
    assert told == "It does not wait: it has failed (could-not-start)."


def test_who_gives_way_is_marked_in_the_list(
    server: ServerUnderTest, client: httpx.Client, other: httpx.Client
) -> None:
    for job_id in (1, 2):
        submit(server)
        assign(server, job_id, devices=(job_id,))
        start(server, job_id)
    server.live.yielding = [2]
    for who in (client, other):
        listed = {job["job_id"]: job["giving_way"] for job in who.get("/jobs").json()["jobs"]}
        assert listed == {1: False, 2: True}
    server.live.leads = False
    assert [job["giving_way"] for job in client.get("/jobs").json()["jobs"]] == [False, False]


def test_who_gives_way_is_marked_when_it_is_shown(server: ServerUnderTest, client: httpx.Client) -> None:
    submit(server)
    assign(server, 1)
    start(server, 1)
    assert client.get("/jobs/1").json()["giving_way"] is False
    commit(server, stop_ordered=[StopOrdered(AttemptId(1, 0, 1), Cause.PREEMPTED)])
    assert client.get("/jobs/1").json()["giving_way"] is True


def test_settings_are_shown_to_administrators_without_secrets() -> None:
    secretive = "https://ann:hunter2@gpu1:7480"
    with serving(min_run="5m", node_servers=(secretive,)) as server, server.unix() as client:
        rows = {row["name"]: row for row in client.get("/settings").json()["settings"]}
        assert (rows["min_run"]["value"], rows["min_run"]["source"]) == ("5m", "the TOML file")
        assert rows["reserve"]["value"] == 1
        assert rows["node_servers"]["value"] == ["https://ann:***@gpu1:7480"]
        with server.tcp(server.token(client, user_id=OTHER)) as other:
            assert other.get("/settings").status_code == 403


@pytest.mark.parametrize("path", ["/nodes", "/executors", "/queues", "/nodes/ws1"])
def test_without_a_leader_what_needs_one_says_when_to_come_again(path: str) -> None:
    with serving() as server, server.unix() as client:
        assert client.get(path).status_code == 200
        server.live.leads = False
        answer = client.get(path)
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:tgpu:problem:no-leader"
        assert answer.headers["retry-after"] == "2"


def test_nodes_and_queues_are_shown(quiet_client: httpx.Client) -> None:
    (node,) = quiet_client.get("/nodes").json()["nodes"]
    assert node == quiet_client.get("/nodes/ws1").json()
    assert quiet_client.get("/executors").json()["nodes"] == [node]
    assert (node["taints"], node["generic_total"]) == (["spot"], {"licence": 2})
    assert [device["island"] for device in node["devices"]] == [0, 0]
    assert (node["cpu_total"], node["gpu_total"], node["gpu_allocated"]) == (32, 2, 0.5)
    assert (node["mem_total_mb"], node["mem_allocated_mb"], node["cpu_used"]) == (131072, 16384, 1.7)
    assert node["devices"][0]["holders"] == [{"job_id": 42, "user_id": "alice"}]
    first, second = node["devices"]
    assert (first["usable"], first["foreign"], first["minor"], first["pci"]) == (True, [], 1, "0000:1b:00.0")
    assert (first["temperature_c"], first["power_w"], first["throttled"]) == (61, 250, "heat")
    assert (first["ecc_uncorrected"], first["ecc_uncorrected_ever"]) == (0, 2)
    assert (second["healthy"], second["usable"], second["temperature_c"]) == (True, False, None)
    assert second["foreign"] == [{"pid": 4711, "user": "bob", "program": "python", "memory_mb": 12288}]
    assert node["running"] == ["42.0.1"]
    assert quiet_client.get("/nodes/elsewhere").status_code == 404
    (queue,) = quiet_client.get("/queues").json()["queues"]
    assert queue == {
        "queue_id": "default:high",
        "tenant_id": "default",
        "priority_class": "high",
        "depth": 3,
        "head_job_id": 42,
        "head_reasons": [{"code": "gpus", "text": "needs 2 GPUs", "data": {"needs": 2}}],
        "weight": 1,
        "weighted_share": 0.25,
        "dominant_share": 0.5,
    }


def test_what_is_wrong_is_told_with_the_statistics(server: ServerUnderTest, client: httpx.Client) -> None:
    assert client.get("/stats").json()["alerts"] == []
    server.live.wrong = [Alert("many-nodes-lost", "many nodes fell silent at once", 0)]
    server.metrics.note_alert("many-nodes-lost", on=True)
    assert client.get("/stats").json()["alerts"] == [
        {
            "name": "many-nodes-lost",
            "text": "many nodes fell silent at once",
            "since": "1970-01-01T00:00:00.000Z",
        }
    ]
    assert 'tgpu_alert{name="many-nodes-lost"} 1.0' in client.get("/metrics").text


def test_pending_jobs_show_when_they_are_expected_to_start_if_asked(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    interval = StartInterval(NOW_MS, NOW_MS + 60_000, NOW_MS + 90_000, "run times of 12 similar jobs")
    for _ in range(4):
        submit(server)
    assign(server, 4)
    server.live.expected = {
        1: ExpectedStart(interval),
        2: ExpectedStart(reason="it is held"),
        4: ExpectedStart(interval),
    }
    asked = client.get("/jobs", params={"expected_start": "true", "order": "oldest"}).json()["jobs"]
    first, second, third, fourth = asked
    shown = first["start_interval"]
    assert first["expected_start"] == shown["expected"] == rfc3339(NOW_MS + 60_000)
    assert (shown["earliest"], shown["latest"]) == (rfc3339(NOW_MS), rfc3339(NOW_MS + 90_000))
    assert shown["basis"] == "run times of 12 similar jobs"
    assert (second["expected_start"], second["no_expected_start"]) == (None, "it is held")
    for job in (third, fourth):
        assert job["expected_start"] is job["start_interval"] is job["no_expected_start"] is None
    assert client.get("/jobs/1", params={"expected_start": "1"}).json()["start_interval"] == shown
    assert client.get("/jobs/1").json()["start_interval"] is None, "it was not asked for"
    assert client.get("/jobs").json()["jobs"][-1]["start_interval"] is None


def test_list_without_a_leader_has_no_expected_starts(server: ServerUnderTest, client: httpx.Client) -> None:
    submit(server)
    server.live.leads = False
    (job,) = client.get("/jobs", params={"expected_start": "true"}).json()["jobs"]
    assert job["expected_start"] is None


def test_why_tells_the_interval_of_the_start(server: ServerUnderTest, client: httpx.Client) -> None:
    submit(server)
    assert client.get("/jobs/1/why").json()["start_interval"] is None
    server.live.start = StartInterval(NOW_MS, NOW_MS + 1000, NOW_MS + 2000, "time limits")
    assert client.get("/jobs/1/why").json()["start_interval"] == {
        "earliest": rfc3339(NOW_MS),
        "expected": rfc3339(NOW_MS + 1000),
        "latest": rfc3339(NOW_MS + 2000),
        "basis": "time limits",
    }


def test_statistics_tell_the_calibration_of_starts(server: ServerUnderTest, client: httpx.Client) -> None:
    found = client.get("/stats").json()["start_estimates"]
    assert (found["count"], found["inside"], found["median_error_s"]) == (0, None, None)
    server.epoch = server.epoch or server.run(server.store.claim())
    made = [StartEstimate(n, 0, 1000, 2000, 3000, started) for n, started in enumerate((2500, 9000, None), 1)]
    server.run(server.store.note_start_estimates(server.epoch, EstimateChanges(made=made)))
    found = client.get("/stats").json()["start_estimates"]
    assert found["by_horizon"].pop("under-10m") == {"count": 2, "inside": 0.5, "median_error_s": 3.75}
    assert {each["count"] for each in found.pop("by_horizon").values()} == {0}
    assert found == {"count": 2, "inside": 0.5, "median_error_s": 3.75, "target": 0.8}
    server.metrics.observe_start_estimate("under-10m", inside=True, error_s=2.0)
    text = client.get("/metrics").text
    assert 'tgpu_start_estimates_total{horizon="under-10m",inside="true"} 1.0' in text
    assert 'tgpu_start_estimate_error_seconds_count{horizon="under-10m"} 1.0' in text


def test_statistics_and_metrics_tell_the_same(server: ServerUnderTest, client: httpx.Client, me: str) -> None:
    submit(server)
    submit(server)
    assign(server, 2)
    for seconds in (1.0, 2.0, 3.0):
        server.metrics.observe_wait("default", seconds)
    server.metrics.observe_run("completed", 60)
    server.metrics.observe_decision(0.002)
    server.metrics.observe_commit(0.001)
    server.metrics.observe_cycle(0.001)
    server.metrics.count_drift(2)
    server.metrics.count_placements(1)
    stats = client.get("/stats").json()
    assert stats["jobs"] | {"pending": 1, "scheduled": 1} == stats["jobs"]
    assert stats["users"] == {me: {"pending": 1, "scheduled": 1}}
    assert stats["resources"]["gpu"] == {"total": 2, "allocated": 0.5, "utilisation": 0.25}
    assert stats["devices"][0]["busy_percent"] == 80
    assert stats["decision_s"] == {"count": 2, "p50": 0.001, "p90": 0.002, "p99": 0.002}
    exposition = client.get("/metrics")
    assert exposition.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = exposition.text
    for line in (
        'tgpu_jobs{status="pending"} 1.0',
        f'tgpu_live_jobs{{status="scheduled",user="{me}"}} 1.0',
        'tgpu_wait_seconds_count{priority_class="default"} 3.0',
        'tgpu_run_seconds_count{outcome="completed"} 1.0',
        "tgpu_picture_drift_total 2.0",
        "tgpu_placements_total 1.0",
        "tgpu_leads 1.0",
        'tgpu_node_up{node="ws1"} 1.0',
        'tgpu_device_allocated{device="0",node="ws1"} 0.5',
        'tgpu_device_busy{device="0",node="ws1"} 0.8',
        'tgpu_device_healthy{device="1",node="ws1"} 1.0',
        'tgpu_device_foreign_processes{device="0",node="ws1"} 0.0',
        'tgpu_device_foreign_processes{device="1",node="ws1"} 1.0',
        'tgpu_device_temperature_celsius{device="0",node="ws1"} 61.0',
        'tgpu_device_power_watts{device="0",node="ws1"} 250.0',
        'tgpu_device_ecc_uncorrected{device="0",node="ws1"} 0.0',
        'tgpu_http_request_seconds_count{method="GET",route="/stats",status="200"} 1.0',
    ):
        assert line in text, line
    server.live.leads = False
    assert client.get("/stats").json()["devices"] == []
    assert client.get("/stats").json()["decision_s"]["count"] == 0
    text = client.get("/metrics").text
    assert "tgpu_leads 0.0" in text
    assert 'tgpu_wait_seconds_count{priority_class="default"} 3.0' in text
    assert not [name for name in ("tgpu_jobs", "tgpu_live_jobs", "tgpu_node_up") if f"\n{name}{{" in text]


def test_the_server_tells_about_itself(quiet_client: httpx.Client, me: str) -> None:
    index = quiet_client.get("/").json()
    assert index["links"]["jobs"] == "/jobs"
    assert quiet_client.get("/v1").json() == index
    health = quiet_client.get("/healthz").json()
    assert (health["status"], health["version"]) == ("ok", "0.0-test")
    whoami = quiet_client.get("/v1/whoami").json()
    assert whoami == {
        "user_id": me,
        "uid": 0,
        "via": "socket",
        "role": "admin",
        "home_tenant_id": "default",
        "home_exists": True,
        "home_role": "user",
        "memberships": [],
        "token": None,
        "token_expires_at": None,
        "may": [permission.value for permission in Permission],
    }


@pytest.mark.parametrize("path", ["/nothing", "/v1/v1/jobs", "/v2/jobs", "/jobs/1/2/3", "/v1jobs"])
def test_an_unknown_path_is_a_problem_too(quiet_client: httpx.Client, path: str) -> None:
    answer = quiet_client.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_wrong_method_says_which_are_right(quiet_client: httpx.Client) -> None:
    answer = quiet_client.put("/jobs")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) >= {"GET", "POST"}
    assert answer.json()["type"] == "urn:tgpu:problem:method-not-allowed"
