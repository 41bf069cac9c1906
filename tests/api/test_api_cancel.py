import httpx

from tests.api.conftest import OTHER, ServerUnderTest
from tests.api.stories import assign, end, start, submit
from tgpu.domain.lifecycle import Cause, Happening


def test_a_job_is_cancelled_by_either_path_and_twice_is_once(
    server: ServerUnderTest, client: httpx.Client, me: str
) -> None:
    submit(server)
    submit(server)
    for answer in (client.delete("/jobs/1"), client.post("/jobs/2/abort"), client.delete("/jobs/1")):
        assert answer.status_code == 202
        assert answer.json()["cancel_requested_by"] == me
        assert answer.json()["reason"] == f"{me} asked to cancel it; it is being stopped"
    assert client.get("/jobs/1").json()["cancel_requested_by"] == me


def test_at_once_is_asked_for_in_the_query_or_in_the_body(
    server: ServerUnderTest, client: httpx.Client, me: str
) -> None:
    for _ in range(4):
        submit(server)
    assert client.delete("/jobs/1?now=true").status_code == 202
    assert client.post("/jobs/2/abort?now=1").status_code == 202
    assert client.post("/jobs/cancel", json={"job_ids": [3], "now": True}).json()["cancelling"] == [3]
    client.delete("/jobs/4")
    assert client.delete("/jobs/4?now=perhaps").status_code == 400
    told = [event.data for event in server.run(server.store.events())[4:]]
    assert told == [{"by": me, "now": True}] * 3 + [{"by": me}]


def test_what_has_ended_cannot_be_cancelled(server: ServerUnderTest, client: httpx.Client) -> None:
    submit(server)
    assign(server, 1)
    start(server, 1)
    end(server, 1, Happening.SUCCEEDED, Cause.EXITED, exit_code=0)
    answer = client.delete("/jobs/1")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "job 1 cannot be cancelled: it has completed"
    assert answer.json()["job_status"] == "completed"


def test_an_unknown_job_cannot_be_cancelled(client: httpx.Client) -> None:
    assert client.delete("/jobs/7").status_code == 404
    assert client.post("/jobs/7/abort").status_code == 404


def test_many_are_cancelled_and_each_id_is_accounted_for(
    server: ServerUnderTest, other: httpx.Client
) -> None:
    for user in (OTHER, OTHER, "root", OTHER):
        submit(server, user=user)
    assign(server, 2)
    end(server, 2, Happening.FAILED, Cause.COULD_NOT_START)
    answer = other.post("/jobs/cancel", json={"job_ids": [4, 1, 2, 3, 99, 1]})
    assert answer.status_code == 202
    assert answer.json() == {"cancelling": [4, 1], "already_ended": [2], "not_found": [99], "forbidden": [3]}


def test_thousands_are_cancelled_at_once(client: httpx.Client) -> None:
    client.post("/jobs", json={"jobs": [{"command": "x"}] * 2500})
    answer = client.post("/jobs/cancel", json={"job_ids": list(range(1, 2501))})
    assert answer.json()["cancelling"] == list(range(1, 2501))


def test_ids_that_cannot_be_meant_are_refused(quiet_client: httpx.Client) -> None:
    for body, sentence in (
        ({"job_ids": []}, "job_ids must have 1 to 10000 ids; got 0"),
        ({"job_ids": [0]}, "job_ids must be positive numbers"),
        ({"job_ids": [10**20]}, "job_ids"),
        ({"job_ids": ["1"]}, "job_ids[0] must be a whole number; got a string"),
        ({}, "job_ids is missing"),
        ({"ids": [1]}, "unknown field 'ids'; did you mean job_ids?"),
    ):
        answer = quiet_client.post("/jobs/cancel", json=body)
        assert answer.status_code == 422, body
        assert sentence in answer.json()["detail"]
