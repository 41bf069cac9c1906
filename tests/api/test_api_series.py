"""Arrays and parallel jobs over HTTP: how they are asked for, what is refused, and what can be done."""

from collections import Counter
from typing import Any

import httpx
import pytest

from tests.api.conftest import ServerUnderTest
from tests.api.test_api_submit import refusal
from tests.api.test_api_tasks import asked
from tgpu.domain.ids import AttemptId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.store.port import Assigned, AttemptEnded, Batch
from tgpu.store.series_port import Grown
from tgpu.store.task_paging import TaskPaging


def test_an_array_says_its_indices_and_how_many_run_at_once(client: httpx.Client) -> None:
    job = asked(client, array="10-40:10%2", retries=3, max_failures=1)
    assert (job["array"], job["at_once"], job["tasks"]) == ("10-40:10", 2, 4)
    assert (job["backoff_limit"], job["backoff_limit_per_index"], job["max_failures"]) == (None, 3, 1)
    assert job["task_counts"] == {"pending": 4}
    page = client.get(f"/jobs/{job['job_id']}/tasks").json()
    assert [(task["task_id"], task["array_index"], task["status"]) for task in page["tasks"]] == [
        (f"{job['job_id']}.{index}", index, "pending") for index in (10, 20, 30, 40)
    ]
    one = client.get(f"/jobs/{job['job_id']}/tasks", params={"index": 30}).json()
    assert ([task["task_index"] for task in one["tasks"]], one["next_cursor"]) == ([2], None)


def test_of_a_long_array_every_task_is_shown_a_page_at_a_time(client: httpx.Client) -> None:
    job = asked(client, array="0-99999")
    shown = client.get(f"/jobs/{job['job_id']}").json()
    assert (shown["tasks"], shown["task_counts"], len(shown["attempts"])) == (
        100_000,
        {"pending": 100_000},
        0,
    )
    page = client.get(f"/jobs/{job['job_id']}/tasks", params={"cursor": 49_999, "limit": 3}).json()
    assert [task["array_index"] for task in page["tasks"]] == [50_000, 50_001, 50_002]
    assert page["next_cursor"] == 50_002
    running = client.get(f"/jobs/{job['job_id']}/tasks", params={"status": "running"}).json()
    assert running == {"tasks": [], "next_cursor": None}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"completions": 10}, (10, 1, "NonIndexed", 6)),
        ({"completions": 4, "parallelism": 9}, (4, 4, "NonIndexed", 6)),
        ({"completions": 4, "parallelism": 2, "completion_mode": "Indexed"}, (4, 2, "Indexed", 6)),
        ({"parallelism": 3, "backoff_limit": 0}, (None, 3, None, 0)),
        ({"backoff_limit": 4}, (None, None, None, 4)),
        ({"retries": 2}, (None, None, None, 2)),
    ],
)
def test_parallel_jobs_are_as_in_kubernetes(
    client: httpx.Client, fields: dict[str, Any], shown: tuple[object, ...]
) -> None:
    job = asked(client, **fields)
    found = (job["completions"], job["parallelism"], job["completion_mode"], job["backoff_limit"])
    assert found == shown


def test_a_parallelism_of_nothing_suspends_the_job(client: httpx.Client) -> None:
    job = asked(client, completions=3, parallelism=0)
    assert (job["suspended_by"] is not None, job["parallelism"]) == (True, 1)
    assert asked(client, suspend=True)["suspended_by"] == job["suspended_by"]
    resumed = client.post(f"/jobs/{job['job_id']}/resume")
    assert (resumed.status_code, resumed.json()["suspended_by"]) == (200, None)
    again = client.post(f"/jobs/{job['job_id']}/resume")
    assert (again.status_code, "is not suspended" in again.text) == (409, True)
    assert client.post(f"/jobs/{job['job_id']}/suspend").json()["suspended_by"] == job["suspended_by"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"array": "5-1"}, "array: 5-1 is backwards; write 1-5"),
        ({"array": "0-99999999"}, "array may have at most 1,000,000 indices"),
        ({"array": "0-10:2,4-8"}, "array: 0-10:2 and 4-8 overlap"),
        ({"array": "0-9%0"}, "%0 must say how many run at once, 1 or more"),
        ({"parallelism": -1}, "parallelism must be from 1 to 1000000, or 0 to suspend the job; got -1"),
        ({"completions": 0}, "completions must be from 1 to 1000000; got 0"),
        ({"array": "1-4", "completions": 4}, "array and completions exclude each other"),
        ({"array": "1-4", "nodes": 2}, "array and tasks that start together (nodes, tasks, groups) exclude"),
        ({"nodes": 2, "retries": 2}, "retries are for single jobs, arrays and parallel jobs"),
        ({"max_failures": 2}, "max_failures is about jobs of many tasks: say array or completions, too"),
        ({"completion_mode": "Indexed"}, "completion_mode needs completions"),
        ({"retries": 1, "backoff_limit": 1}, "retries and backoff_limit exclude each other"),
        ({"failure_rules": [{"action": "count"}]}, "failure_rules[0] must say which failures it is about"),
        (
            {"failure_rules": [{"action": "fail-job", "exit_codes": [0]}]},
            "failure_rules[0]: an exit code of a failure is from 1 to 255; got 0",
        ),
        ({"failure_rules": [{"action": "fail-job", "signals": ["NIX"]}]}, "such as SEGV or 11; got 'NIX'"),
        ({"failure_rules": [{"action": "fail-index", "exit_codes": [3]}]}, "write fail-job"),
        ({"active_deadline_s": 0}, "active_deadline_s must be from 1 to"),
    ],
)
def test_what_cannot_be_meant_is_told(client: httpx.Client, fields: dict[str, Any], said: str) -> None:
    assert said in refusal(client, {"command": "true", "cwd": "/tmp", **fields})


def test_some_indices_can_be_cancelled(client: httpx.Client) -> None:
    job_id = asked(client, array="1-9:2")["job_id"]
    done = client.post(f"/jobs/{job_id}/cancel", json={"indices": "3,7"})
    assert done.status_code == 202
    wrong = client.post(f"/jobs/{job_id}/cancel", json={"indices": "4"})
    assert (wrong.status_code, f"job {job_id} has no index 4; it has 1-9:2" in wrong.text) == (422, True)
    single = asked(client)["job_id"]
    refused = client.post(f"/jobs/{single}/cancel", json={"indices": "3"})
    assert (refused.status_code, "is no array" in refused.text) == (422, True)
    assert client.post(f"/jobs/{single}/cancel", json={}).status_code == 202


def test_what_failed_is_tried_again_as_a_new_job(client: httpx.Client, server: ServerUnderTest) -> None:
    job_id = asked(client, array="1-9:2")["job_id"]
    nothing = client.post(f"/jobs/{job_id}/retry", json={})
    assert nothing.status_code == 409
    how = Exit(Cause.EXITED, 1, started_ms=1, ended_ms=2)

    async def fail() -> None:
        store = server.store
        epoch = await store.claim()
        names = [AttemptId(job_id, task, 1) for task in (0, 2, 3)]
        await store.commit(epoch, Batch(1, assigned=[Assigned(name, "n", ()) for name in names]))
        ends = [AttemptEnded(name, how, Happening.FAILED, "no") for name in names[:2]]
        await store.commit(epoch, Batch(2, ended=ends))

    server.run(fail())
    failed = client.get(f"/jobs/{job_id}/tasks", params={"status": "failed"}).json()["tasks"]
    assert [(task["task_id"], task["exit_code"]) for task in failed] == [
        (f"{job_id}.1", 1),
        (f"{job_id}.5", 1),
    ]
    again = client.post(f"/jobs/{job_id}/retry", json={}).json()
    assert (again["indices"], again["restarted"]) == ("1,5", [])
    assert client.get(f"/jobs/{again['job_id']}").json()["array"] == "1,5"
    named = client.post(f"/jobs/{job_id}/retry", json={"indices": "7"}).json()
    assert (named["restarted"], named["job_id"]) == ([7], None)
    one = client.post(f"/jobs/{job_id}/retry", json={"indices": "5-9:2"}).json()
    assert (one["restarted"], one["indices"]) == ([], "5")  # 7 is told already, 9 waits


def test_who_is_cancelled_without_a_row_is_shown_so_and_can_be_tried_again(client: httpx.Client) -> None:
    job_id = asked(client, array="1-9%2")["job_id"]
    assert client.post(f"/jobs/{job_id}/cancel", json={"indices": "5-7"}).status_code == 202
    tasks = f"/jobs/{job_id}/tasks"
    found = client.get(tasks, params={"status": "cancelled"}).json()["tasks"]
    assert [task["array_index"] for task in found] == [5, 6, 7]
    assert found[0]["reason"].startswith("cancelled by ")
    found = client.get(tasks, params={"status": "pending", "limit": 4, "cursor": 2}).json()["tasks"]
    assert [task["array_index"] for task in found] == [4, 8, 9]
    assert client.post(f"/jobs/{job_id}/retry", json={}).json()["indices"] == "5-7"
    assert client.post(f"/jobs/{job_id}/retry", json={"indices": "6"}).json()["indices"] == "6"


def test_statuses_of_a_million_tasks_are_a_few_runs(client: httpx.Client) -> None:
    job_id = asked(client, array="0-999999%1")["job_id"]
    found = client.get(f"/jobs/{job_id}/task-statuses").json()
    assert found == {"statuses": ["pending"], "runs": [[0, 1_000_000]]}
    assert client.post(f"/jobs/{job_id}/cancel", json={"indices": "7,500000-500004"}).status_code == 202
    assert client.get(f"/jobs/{job_id}/task-statuses").json() == {
        "statuses": ["pending", "cancelled"],
        "runs": [[0, 7], [1, 1], [0, 499_992], [1, 5], [0, 499_995]],
    }
    assert client.get("/jobs/999/task-statuses").status_code == 404


def test_who_gets_a_row_while_it_is_looked_for_is_found_once(
    client: httpx.Client, server: ServerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = asked(client, array="1-9%2")["job_id"]
    assert client.post(f"/jobs/{job_id}/cancel", json={"indices": "3-5"}).status_code == 202
    tasks = server.store.tasks

    async def a_little_later(job_id: int, paging: TaskPaging) -> Any:
        await server.store.commit(await server.store.claim(), Batch(1, grown=[Grown(job_id, 1)]))
        return await tasks(job_id, paging)

    monkeypatch.setattr(server.store, "tasks", a_little_later)
    found = client.get(f"/jobs/{job_id}/tasks").json()["tasks"]
    assert [task["array_index"] for task in found] == list(range(1, 10))
    other = asked(client, array="1-9%2")["job_id"]
    assert client.post(f"/jobs/{other}/cancel", json={"indices": "3-5"}).status_code == 202
    again = client.post(f"/jobs/{other}/retry", json={}).json()
    assert again["indices"] == "3-5"
    new = client.get(f"/jobs/{again['job_id']}").json()
    assert (new["tasks"], new["task_counts"]) == (3, {"pending": 3})


def test_one_that_was_cancelled_among_a_million_is_found_without_looking_at_each(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = asked(client, array="0-999999%1")["job_id"]
    assert client.post(f"/jobs/{job_id}/cancel", json={"indices": "1-999998"}).status_code == 202
    other = asked(client, array="0-999999%1")["job_id"]
    assert client.post(f"/jobs/{other}/cancel", json={"indices": "999999"}).status_code == 202
    looks, look = Counter[str](), IndexSet.position_of

    def counted(indices: IndexSet, index: int) -> int | None:
        looks["all"] += 1
        return look(indices, index)

    monkeypatch.setattr(IndexSet, "position_of", counted)
    found = client.get(f"/jobs/{job_id}/tasks", params={"status": "pending"}).json()["tasks"]
    assert [task["array_index"] for task in found] == [0, 999_999]
    found = client.get(f"/jobs/{other}/tasks", params={"status": "cancelled"}).json()["tasks"]
    assert [task["array_index"] for task in found] == [999_999]
    assert client.post(f"/jobs/{other}/retry", json={}).json()["indices"] == "999999"
    assert looks["all"] < 100


def begun(client: httpx.Client, server: ServerUnderTest, **fields: Any) -> str:
    """The path of a job of which the first task has a node."""
    job_id = asked(client, **fields)["job_id"]

    async def begin() -> None:
        starts = [Assigned(AttemptId(job_id, 0, 1), "n", ())]
        await server.store.commit(await server.store.claim(), Batch(1, assigned=starts))

    server.run(begin())
    return f"/jobs/{job_id}"


def test_how_many_at_once_can_be_changed_whatever_terms_are_new(
    client: httpx.Client, server: ServerUnderTest
) -> None:
    path = begun(client, server, array="1-9%2")
    assert client.patch("/tenants/default", json={"default_time_limit_s": 3600}).status_code == 200
    changed = client.patch(path, json={"at_once": 5})
    assert (changed.status_code, changed.json()["at_once"], changed.json()["time_limit_s"]) == (200, 5, None)


def test_how_many_at_once_can_be_changed_while_some_run(
    client: httpx.Client, server: ServerUnderTest
) -> None:
    path = begun(client, server, array="1-9%2")
    changed = client.patch(path, json={"at_once": 5})
    assert (changed.status_code, changed.json()["at_once"], changed.json()["array"]) == (200, 5, "1-9")
    assert client.patch(path, json={"at_once": None}).json()["at_once"] is None
    refused = client.patch(path, json={"at_once": 5, "time_limit_s": 60})
    assert (refused.status_code, "only how many of it are live at once" in refused.text) == (409, True)
    assert "at_once must be from 1" in client.patch(path, json={"at_once": 0}).text
    refused = client.patch(begun(client, server, parallelism=3), json={"time_limit_s": 60})
    assert (refused.status_code, "live at once" in refused.text) == (409, False)
    single = asked(client)["job_id"]
    assert "this one is neither" in client.patch(f"/jobs/{single}", json={"at_once": 2}).text


def test_output_is_asked_for_by_index(client: httpx.Client) -> None:
    job_id = asked(client, array="10-20:5")["job_id"]
    assert client.get(f"/jobs/{job_id}/logs", params={"task": 15}).status_code == 200
    missing = client.get(f"/jobs/{job_id}/logs", params={"task": 11})
    assert (missing.status_code, f"job {job_id} has no task 11; it has 10-20:5" in missing.text) == (
        404,
        True,
    )
