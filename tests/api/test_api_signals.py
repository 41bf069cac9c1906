"""Signals that a job asks for, and when its tasks saved their work, over HTTP."""

import httpx
import pytest

from tests.api.conftest import ServerUnderTest
from tests.api.test_api_submit import refusal
from tests.store.store_story import a_node
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.store.port import Assigned, Batch, Started

JOB = {"command": "x", "time_limit_s": 100}


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        ({"stop_signal": "USR9"}, "stop_signal must be a signal, such as TERM, INT, HUP, USR1 or USR2"),
        ({"stop_signal": 9}, "stop_signal cannot be KILL, which a program cannot use to save its work"),
        ({"stop_signal": ""}, "stop_signal must be a signal"),
        ({"stop_signal": 1.5}, "stop_signal"),
        ({"stop_signal": True}, "stop_signal"),
        ({"warn_signal": "STOP"}, "warn_signal cannot be STOP"),
        ({"warn_signal": "USR1", "time_limit_s": None}, "there is none: give it one (time_limit_s)"),
        (
            {"warn_signal": "USR1", "warn_s": 100},
            "warn_signal can be sent 1 to 99 seconds before the time limit of 1m40s; got 100",
        ),
        ({"warn_signal": "USR1", "warn_s": 0}, "warn_signal can be sent 1 to 99 seconds before"),
        ({"warn_signal": "USR1", "warn_s": 1.5}, "warn_s must be a whole number; got 1.5"),
        ({"warn_signal": "USR1", "warn_s": -1}, "warn_s must not be negative"),
        ({"warn_s": 5}, "warn_s is about warn_signal: say that, too, or leave it out"),
        ({"warn_main": True}, "warn_main is about warn_signal: say that, too, or leave it out"),
        ({"last_saved_at": "2030-01-31T12:00:00Z"}, "last_saved_at"),
    ],
)
def test_a_signal_that_cannot_be_meant_says_what_would_be_right(
    client: httpx.Client, job: dict[str, object], sentence: str
) -> None:
    assert sentence in refusal(client, JOB | job)


def test_what_is_not_said_is_the_usual(client: httpx.Client) -> None:
    shown = client.post("/jobs", json=JOB | {"warn_signal": "USR1"}).json()
    assert (shown["stop_signal"], shown["warn_s"], shown["warn_main"]) == (None, 60, False)


def test_when_work_was_last_saved_is_shown_of_a_job_and_of_each_task(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    client.post("/jobs", json=JOB)
    client.post("/jobs", json=JOB | {"tasks": 2})
    assert client.get("/jobs/1").json()["last_saved_at"] is None

    async def saves() -> None:
        epoch = await server.store.claim()
        firsts = [AttemptId(1, 0, 1), AttemptId(2, 0, 1), AttemptId(2, 1, 1)]
        assigned = [Assigned(each, "n1", ()) for each in firsts]
        await server.store.commit(epoch, Batch(5, nodes=[a_node()], assigned=assigned))
        await server.store.commit(epoch, Batch(6, started=[Started(each, 6) for each in firsts]))
        saved = {TaskId(1, 0): 1_900_000_000_000, TaskId(2, 1): 1_900_000_001_500}
        await server.store.commit(epoch, Batch(7, saved=saved))

    server.run(saves())
    assert client.get("/jobs/1").json()["last_saved_at"] == "2030-03-17T17:46:40.000Z"
    several = client.get("/jobs/2").json()
    assert several["last_saved_at"] is None
    assert [task["last_saved_at"] for task in several["task_list"]] == [None, "2030-03-17T17:46:41.500Z"]
