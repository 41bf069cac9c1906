"""Jobs of several tasks over HTTP: how they are asked for, what is refused, and how they are shown."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import ServerUnderTest
from tests.api.test_api_submit import refusal
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.store.port import Assigned, AttemptEnded, Batch, Started


def asked(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = client.post("/jobs", json={"command": "true", "cwd": "/tmp", **fields})
    assert answer.status_code == 201, answer.text
    job: dict[str, Any] = answer.json()
    return job


@pytest.mark.parametrize(
    ("fields", "tasks", "per_node", "nodes", "gpus"),
    [
        ({"nodes": 4, "gpus_per_node": 8}, 4, 1, 4, 8),
        ({"nodes": 2, "tasks_per_node": 2, "gpus_per_node": 4}, 4, 2, 2, 2),
        ({"nodes": 2, "tasks_per_node": 4, "gpus_per_node": 2}, 8, 4, 2, 0.5),
        ({"nodes": 2, "tasks": 8}, 8, 4, 2, 0),
        ({"nodes": 2, "tasks": 5}, 5, 3, None, 0),
        ({"nodes": 2, "tasks": 7, "tasks_per_node": 4}, 7, 4, None, 0),
        ({"tasks": 8, "gpu_request": 1}, 8, None, None, 1),
        ({"tasks": 8, "tasks_per_node": 4}, 8, 4, None, 0),
        ({"nodes": 1}, 1, 1, 1, 0),
    ],
)
def test_how_many_tasks_there_are(  # noqa: PLR0917  the columns of the table
    client: httpx.Client,
    fields: dict[str, Any],
    tasks: int,
    per_node: int | None,
    nodes: int | None,
    gpus: float,
) -> None:
    job = asked(client, **fields)
    assert job["gang"]
    found = (job["tasks"], job["tasks_per_node"], job["nodes"], job["gpu_request"])
    assert found == (tasks, per_node, nodes, gpus)
    assert job["task_counts"] == {"pending": tasks}


def test_a_job_that_says_nothing_is_one_task_and_no_gang(client: httpx.Client) -> None:
    job = asked(client)
    assert (job["tasks"], job["gang"], job["fail_together"]) == (1, False, True)
    page = client.get(f"/jobs/{job['job_id']}/tasks").json()
    assert [(task["task_id"], task["status"]) for task in page["tasks"]] == [("1.0", "pending")]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"nodes": 0}, "nodes must be from 1 to 10000; got 0"),
        ({"tasks": 10001}, "tasks must be from 1 to 10000; got 10001"),
        ({"nodes": 101, "tasks_per_node": 100}, "at most 10000 tasks; this asks for 10100"),
        ({"nodes": 3, "tasks": 2}, "2 tasks cannot be on 3 nodes: ask for more tasks"),
        ({"nodes": 2, "tasks": 9, "tasks_per_node": 2}, "2 nodes with 2 tasks each have no room for 9 tasks"),
        ({"tasks_per_node": 2}, "tasks_per_node needs nodes or tasks: say how many"),
        ({"topology": "rack"}, "topology is about several nodes: say nodes, too"),
        ({"gpus_per_node": 2}, "gpus_per_node needs nodes: say how many"),
        ({"nodes": 2, "gpus_per_node": 2, "gpu_request": 1}, "exclude each other"),
        ({"nodes": 2, "tasks_per_node": 2, "gpus_per_node": 3}, "a whole number that 2 tasks can share"),
        ({"groups": []}, "groups must have 1 to 64 groups; got 0"),
        ({"nodes": 2, "groups": [{}]}, "nodes and groups exclude each other"),
        ({"groups": [{"tasks": 0}]}, "groups[0].tasks must be from 1 to 10000; got 0"),
        ({"groups": [{"name": "a"}, {"name": "a"}]}, "groups must have different names; got a, a"),
        ({"groups": [{}, {"cpu_request": 0}]}, "groups[1].cpu_request must be more than 0"),
        ({"groups": [{"tasks": 9000}, {"tasks": 9000}]}, "at most 10000 tasks; got 18000 in its groups"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_do(
    client: httpx.Client, fields: dict[str, Any], said: str
) -> None:
    assert said in refusal(client, {"command": "true", "cwd": "/tmp", **fields})


def test_groups_have_what_they_say_and_else_what_the_job_says(client: httpx.Client) -> None:
    job = asked(
        client,
        gpu_request=1,
        env={"A": "1", "B": "1"},
        groups=[{"name": "head", "command": ["head"], "gpu_request": 0, "env": {"B": "2"}}, {"tasks": 2}],
        topology="rack",
        fail_together=False,
    )
    assert (job["tasks"], job["topology"], job["fail_together"]) == (3, "rack", False)
    whole = client.get(f"/jobs/{job['job_id']}").json()
    assert [(group["name"], group["tasks"], group["gpu_request"]) for group in whole["groups"]] == [
        ("head", 1, 0),
        ("group-1", 2, 1),
    ]
    (listed,) = client.get("/jobs").json()["jobs"]
    assert listed["groups"] == whole["groups"], "whoever lists jobs can tell what all of it asks for"
    assert whole["env"] == {"A": "1", "B": "2"}
    assert [task["group"] for task in whole["task_list"]] == ["head", "group-1", "group-1"]


def test_too_many_tasks_in_one_request_are_refused(client: httpx.Client) -> None:
    jobs = [{"command": "true", "cwd": "/tmp", "tasks": 10_000}] * 6
    assert "at most 50000 tasks together; got 60000" in refusal(client, {"jobs": jobs})


def test_tasks_are_shown_a_page_at_a_time_with_how_each_ended(
    client: httpx.Client, server: ServerUnderTest
) -> None:
    job_id = asked(client, tasks=3)["job_id"]
    store = server.store

    async def run() -> None:
        epoch = await store.claim()
        names = [AttemptId(job_id, task, 1) for task in range(3)]
        places = [Assigned(name, "n1", ()) for name in names]
        await store.commit(epoch, Batch(2000, assigned=places))
        await store.commit(epoch, Batch(2001, started=[Started(name, 2001) for name in names]))
        how = Exit(Cause.EXITED, 7, started_ms=2001, ended_ms=3000)
        await store.commit(epoch, Batch(3001, ended=[AttemptEnded(names[1], how, Happening.FAILED)]))

    server.run(run())
    page = client.get(f"/jobs/{job_id}/tasks", params={"limit": 2}).json()
    assert ([task["task_index"] for task in page["tasks"]], page["next_cursor"]) == ([0, 1], 1)
    second = page["tasks"][1]
    assert (second["status"], second["exit_code"], second["reason"]) == ("failed", 7, "exit code 7")
    rest = client.get(f"/jobs/{job_id}/tasks", params={"cursor": 1}).json()
    assert ([task["task_index"] for task in rest["tasks"]], rest["next_cursor"]) == ([2], None)
    runs = client.get(f"/jobs/{job_id}/tasks", params={"status": "running"}).json()
    assert [task["task_index"] for task in runs["tasks"]] == [0, 2]
    assert client.get(f"/jobs/{job_id}").json()["task_counts"] == {"running": 2, "failed": 1}
    assert client.get(f"/jobs/{job_id}/logs", params={"task": 3}).status_code == 404
    assert client.get(f"/jobs/{job_id}/tasks", params={"status": "odd"}).status_code == 400


def test_a_gang_that_can_never_run_is_refused_and_says_which_of_many_it_is(client: httpx.Client) -> None:
    gang = {"command": "true", "tasks": 101}
    refused = client.post("/jobs", json=gang)
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:tgpu:problem:never-fits")
    assert refused.json()["detail"] == "can never run here: its 101 tasks are too many"
    many = client.post("/jobs", json={"jobs": [{"command": "true"}, gang]})
    assert many.json()["detail"] == "jobs[1] can never run here: its 101 tasks are too many"
