"""Jobs that are tried again wait for what they waited for, or for what took its place."""

from typing import Any

import httpx
import pytest

from tests.api.conftest import ServerUnderTest
from tests.api.test_api_tasks import asked
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Assigned, AttemptEnded, Batch, TaskClosed
from tgpu.store.series_port import Grown

NO = Exit(Cause.EXITED, 1, started_ms=1, ended_ms=2)
YES = Exit(Cause.EXITED, 0, started_ms=1, ended_ms=2)


async def have_rows(server: ServerUnderTest, epoch: int, job_id: int, last: int) -> None:
    """As whoever schedules gives them to a series, up to this task."""
    job = await server.store.job(job_id)
    if job is not None and job.born is not None and job.born <= last:
        await server.store.commit(epoch, Batch(1, grown=[Grown(job_id, last + 1 - job.born)]))


def ended(server: ServerUnderTest, job_id: int, *ends: tuple[int, bool]) -> None:
    """Tasks of it, and whether they completed."""

    async def end() -> None:
        epoch = await server.store.claim()
        await have_rows(server, epoch, job_id, max(task for task, _ in ends))
        names = [(AttemptId(job_id, task, 1), well) for task, well in ends]
        await server.store.commit(epoch, Batch(1, assigned=[Assigned(name, "n", ()) for name, _ in names]))
        done = [
            AttemptEnded(name, YES, Happening.SUCCEEDED)
            if well
            else AttemptEnded(name, NO, Happening.FAILED, "no")
            for name, well in names
        ]
        await server.store.commit(epoch, Batch(2, ended=done))

    server.run(end())


def never_started(server: ServerUnderTest, job_id: int, *tasks: int) -> None:
    async def close() -> None:
        epoch = await server.store.claim()
        await have_rows(server, epoch, job_id, max(tasks))
        why = Cause.DEPENDENCY_FAILED
        closed = [TaskClosed(TaskId(job_id, task), Happening.FAILED, why, "no") for task in tasks]
        await server.store.commit(epoch, Batch(3, closed=closed))

    server.run(close())


def retried(client: httpx.Client, job_id: int, **said: Any) -> list[str]:
    """What the new job waits for."""
    answer = client.post(f"/jobs/{job_id}/retry", json=said)
    assert answer.status_code == 202, answer.text
    after: list[str] = client.get(f"/jobs/{answer.json()['job_id']}").json()["after"]
    return after


def test_it_waits_for_the_newest_that_did_the_other_again(
    client: httpx.Client, server: ServerUnderTest
) -> None:
    first = asked(client)["job_id"]
    second = asked(client, after=[str(first)])["job_id"]
    ended(server, first, (0, False))
    never_started(server, second, 0)
    refused = client.post(f"/jobs/{second}/retry", json={})
    assert refused.status_code == 409
    told = f"job {first}, for which it waits, has failed: try that one again first (`tgpu retry {first}`)"
    assert told in refused.json()["detail"]
    assert retried(client, second, after=[]) == []
    assert retried(client, second, after=[f"afterany:{first}"]) == [f"afterany:{first}"]
    missing = client.post(f"/jobs/{second}/retry", json={"after": ["999"]})
    assert (missing.status_code, "there is no job 999" in missing.text) == (422, True)
    again = client.post(f"/jobs/{first}/retry", json={}).json()["job_id"]
    assert retried(client, second) == [f"afterok:{again}"]
    ended(server, again, (0, False))
    third = client.post(f"/jobs/{again}/rerun", json={}).json()["job_id"]
    assert retried(client, second) == [f"afterok:{third}"]
    ended(server, third, (0, True))
    assert retried(client, second) == [f"afterok:{third}"]
    explicit = client.post(f"/jobs/{second}/rerun", json={"after": [str(third)], "name": "x"}).json()
    assert (explicit["after"], explicit["name"]) == ([f"afterok:{third}"], "x")
    assert client.post(f"/jobs/{second}/rerun", json={}).json()["after"] == []


def test_what_is_not_over_and_what_was_met_stays(client: httpx.Client, server: ServerUnderTest) -> None:
    live, failed = asked(client)["job_id"], asked(client)["job_id"]
    needs = [f"afterany:{live}", f"afternotok:{failed}", "singleton"]
    job = asked(client, after=needs)["job_id"]
    ended(server, failed, (0, False))
    ended(server, job, (0, False))
    client.post(f"/jobs/{failed}/retry", json={})
    assert sorted(retried(client, job)) == sorted(needs)


def test_indices_wait_for_those_that_were_done_again(client: httpx.Client, server: ServerUnderTest) -> None:
    first = asked(client, array="1-4")["job_id"]
    second = asked(client, array="1-4", after=[f"aftercorr:{first}"])["job_id"]
    whole = asked(client, after=[str(first)])["job_id"]
    ended(server, first, (0, True), (1, True), (2, False), (3, False))
    ended(server, second, (0, False), (1, True))
    never_started(server, second, 2, 3)
    never_started(server, whole, 0)
    assert retried(client, second, indices="1") == []
    three = client.post(f"/jobs/{first}/retry", json={"indices": "3"}).json()["job_id"]
    assert retried(client, second, indices="3") == [f"aftercorr:{three}"]
    refused = client.post(f"/jobs/{whole}/retry", json={})
    assert (refused.status_code, f"`tgpu retry {first}`" in refused.text) == (409, True)
    four = client.post(f"/jobs/{first}/retry", json={"indices": "4"}).json()["job_id"]
    assert sorted(retried(client, whole)) == [f"afterok:{three}", f"afterok:{four}"]
    assert sorted(retried(client, second)) == [f"afterok:{three}", f"afterok:{four}"]


def test_indices_are_the_same_however_they_are_written(client: httpx.Client, server: ServerUnderTest) -> None:
    first = asked(client, array="0-8:4")["job_id"]
    second = asked(client, array="0,4,8", after=[f"aftercorr:{first}"])["job_id"]
    never_started(server, second, 0, 1, 2)
    assert retried(client, second) == [f"aftercorr:{first}"]
    ended(server, first, (0, True), (1, False), (2, False))
    again = client.post(f"/jobs/{first}/retry", json={}).json()["job_id"]
    assert retried(client, second, indices="4,8") == [f"aftercorr:{again}"]


def test_an_index_waits_for_its_own_alone_wherever_that_was_done_again(
    client: httpx.Client, server: ServerUnderTest
) -> None:
    first = asked(client, array="1-4")["job_id"]
    second = asked(client, array="1-4", after=[f"aftercorr:{first}"])["job_id"]
    never_started(server, second, 0, 1, 2, 3)
    assert retried(client, second, indices="3") == [f"afterok:{first}"]
    ended(server, first, (0, True), (2, False), (3, False))
    refused = client.post(f"/jobs/{second}/retry", json={"indices": "3"})
    told = f"index 3 of job {first}, for which it waits, has not completed: try it again first"
    assert (refused.status_code, f"{told} (`tgpu retry {first}.3`)" in refused.text) == (409, True)
    both = client.post(f"/jobs/{second}/retry", json={"indices": "3-4"}).text
    assert f"indices 3-4 of job {first}, for which it waits, have not completed" in both
    early = client.post(f"/jobs/{second}/retry", json={"indices": "2"})
    assert (early.status_code, f"index 2 of job {first} is not over yet" in early.text) == (409, True)
    again = client.post(f"/jobs/{first}/retry", json={}).json()["job_id"]
    assert retried(client, second, indices="3-4") == [f"aftercorr:{again}"]
    assert retried(client, second, indices="3") == [f"afterok:{again}"]
    ended(server, again, (0, True), (1, False))
    assert retried(client, second, indices="3") == []
    refused = client.post(f"/jobs/{second}/retry", json={"indices": "3-4"})
    assert (refused.status_code, f"`tgpu retry {again}.4`" in refused.text) == (409, True)


def test_those_that_did_others_again_are_looked_for_once(
    client: httpx.Client, server: ServerUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [asked(client)["job_id"] for _ in range(5)]
    job = asked(client, after=[f"afterany:{other}" for other in others])["job_id"]
    for other in others:
        ended(server, other, (0, False))
    again = [client.post(f"/jobs/{other}/retry", json={}).json()["job_id"] for other in others[:2]]
    ended(server, job, (0, False))
    looked: list[JobFilter] = []
    jobs = server.store.jobs

    async def counted(where: JobFilter, paging: Paging) -> Any:
        looked.append(where)
        return await jobs(where, paging)

    monkeypatch.setattr(server.store, "jobs", counted)
    assert sorted(retried(client, job)) == sorted(f"afterany:{each}" for each in (*again, *others[2:]))
    assert len([where for where in looked if where.users]) == 1
