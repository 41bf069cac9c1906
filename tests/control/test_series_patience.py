"""How long a job of many tasks may wait for its first place, and what it is told meanwhile."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from tests.control.control_story import Leader, now_ms, play, says, spec
from tests.control.test_series import array, some_time, the_job
from tgpu.control import series
from tgpu.control.answers import Answers
from tgpu.control.series_book import Entry
from tgpu.core.picture import Picture
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Exit, Group, JobSpec, Request
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.series import Mode, Series
from tgpu.protocol.messages import Phase


def with_gpus(tasks: int, at_once: int | None = None, *, max_wait_s: int | None = None) -> JobSpec:
    """Each with one of the node's two."""
    one = spec(gpus=1, max_wait_s=max_wait_s)
    many = Series(IndexSet.first(tasks), at_once, Mode.ARRAY)
    return replace(one, groups=(replace(one.groups[0], tasks=tasks),), series=many)


async def told(leader: Leader, job_id: int) -> str:
    why = await Answers(lambda: leader.control, leader.hub).why(job_id)
    assert why is not None
    return " | ".join([why.summary, *(reason.text for reason in why.reasons)])


def test_a_series_of_which_nothing_was_placed_in_time_fails_whole() -> None:
    """Also those of its tasks that had no rows yet: they would wait for ever, and behind nobody."""

    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec(gpus=2), with_gpus(100, max_wait_s=5), with_gpus(100, 2, max_wait_s=5))
        assert "fails unless it is placed by" in await told(leader, 2)
        await some_time(node, 8)
        all_of_them, those_with_rows = {Status.FAILED: 100}, {Status.FAILED: 2, Status.CANCELLED: 98}
        for job_id, counts in ((2, all_of_them), (3, those_with_rows)):
            job = await the_job(leader, job_id)
            assert (job.status, job.cause) == (Status.FAILED, Cause.WAITED_TOO_LONG)
            assert job.detail == "was not placed within 5 s"
            assert job.counts == counts
        assert leader.watch.drift == 0

    play(story())


def test_a_series_that_waited_too_long_is_looked_at_once_however_many_of_it_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: Counter[int] = Counter()
    original = series.has_begun

    def counted(picture: Picture, entry: Entry) -> bool:
        looks[entry.job.job_id] += 1
        return original(picture, entry)

    monkeypatch.setattr(series, "has_begun", counted)

    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec(gpus=2), with_gpus(300, max_wait_s=5))
        await some_time(node, 8)
        assert (await the_job(leader, 2)).counts == {Status.FAILED: 300}
        assert looks == {2: 1}

    play(story())


def test_a_series_of_which_the_first_were_cancelled_does_not_wait_for_ever() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec(gpus=2), with_gpus(100, 3, max_wait_s=5))
        await leader.store.cancel_tasks(2, IndexSet.first(21), "bob", now_ms())
        await some_time(node, 1)
        assert "fails unless it is placed by 00:00:05 UTC" in await told(leader, 2)
        await some_time(node, 7)
        job = await the_job(leader, 2)
        assert (job.status, job.cause) == (Status.FAILED, Cause.WAITED_TOO_LONG)
        assert job.counts == {Status.FAILED: 3, Status.CANCELLED: 97}
        assert leader.watch.drift == 0

    play(story())


@pytest.mark.parametrize("active_deadline_s", [None, 1000])
def test_tasks_that_are_not_alike_wait_each_for_itself(active_deadline_s: int | None) -> None:
    """Also of a job of which a book is kept for something else."""

    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        small, large = (
            Group(("true",), Request(1000, 0, 0, gpus * 1000), name=f"with-{gpus}") for gpus in (1, 2)
        )
        both = replace(spec(max_wait_s=5), groups=(small, large), active_deadline_s=active_deadline_s)
        await leader.submit(both)
        await some_time(node, 8)
        assert (await the_job(leader)).counts == {Status.SCHEDULED: 1, Status.FAILED: 1}

    play(story())


def test_a_series_that_has_begun_waits_for_its_own_tasks_as_long_as_it_takes() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(with_gpus(5, max_wait_s=5))
        assert "fails unless" not in await told(leader, 1)
        await some_time(node, 8)
        assert (await the_job(leader)).counts == {Status.SCHEDULED: 2, Status.PENDING: 3}
        for name in ("1.0.1", "1.1.1"):
            node.reports(says(name, Phase.ENDED, Exit(Cause.EXITED, 0, started_ms=1, ended_ms=2)))
        await some_time(node, 8)
        job = await the_job(leader)
        assert job.counts == {Status.COMPLETED: 2, Status.SCHEDULED: 2, Status.PENDING: 1}

    play(story())


def test_of_a_series_that_is_held_or_suspended_while_some_of_it_runs_it_is_told_by_whom() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.submit(array(9, at_once=2))
        rest = "7 of its 9 tasks have not begun"
        assert f"{rest}, for at most 2 run at once" in await told(leader, 1)
        await leader.store.hold([1], "ann", now_ms())
        await asyncio.sleep(0.1)
        held = "for it is held by ann; `tgpu release 1` lets them start"
        assert f"{rest}, {held}" in await told(leader, 1)
        await leader.store.release([1], "ann", now_ms())
        await leader.store.suspend(1, "bob", now_ms())
        await asyncio.sleep(0.1)
        suspended = "for it is suspended by bob; `tgpu resume 1` lets them start"
        assert f"{rest}, {suspended}" in await told(leader, 1)

    play(story())
