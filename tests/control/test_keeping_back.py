"""A series of which fewer tasks may be live than are."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from tests.control.control_story import DONE, FakeNode, Leader, now_ms, play, says
from tests.control.test_series import array, some_time, the_job
from tgpu.control import series
from tgpu.control.answers import Answers
from tgpu.control.keeping_back import keep_back
from tgpu.control.series_book import Entry, SeriesBook
from tgpu.core.picture import Picture
from tgpu.domain.index_set import IndexSet
from tgpu.domain.lifecycle import Status
from tgpu.domain.needs import Need, NeedKind
from tgpu.domain.timing import Timing
from tgpu.protocol.messages import Phase
from tgpu.store.memory import MemoryStore


async def paced(leader: Leader, at_once: int | None, job_id: int = 1) -> None:
    job = await the_job(leader, job_id)
    assert job.spec.series is not None
    other = replace(job.spec, series=replace(job.spec.series, at_once=at_once))
    await leader.store.edit(job, other, "ann", now_ms(), {"at_once": at_once})
    await asyncio.sleep(0.1)


class Work:
    """What a node was given, and has ended of it."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.ended: list[str] = []

    def live(self) -> list[str]:
        return [name for name in self.node.launched() if name not in self.ended]

    async def end(self, *names: str) -> None:
        self.node.reports(*(says(name, Phase.ENDED, DONE) for name in names))
        self.ended += names
        await asyncio.sleep(0.05)


def test_a_lowered_cap_holds_for_tasks_that_have_rows_already() -> None:
    async def story() -> None:
        leader = Leader()
        work = Work(await leader.node())
        await leader.submit(array(300))
        began = work.live()
        assert len(began) == 8
        await paced(leader, 3)
        assert work.live() == began  # nothing is stopped
        await work.end(*began[:5])
        assert work.live() == began[5:]
        await work.end(*began[5:])
        assert work.live() == ["1.8.1", "1.9.1", "1.10.1"]
        for _ in range(20):
            await work.end(work.live()[0])
            assert len(work.live()) == 3
        await paced(leader, None)
        assert len(work.live()) == 8
        while live := work.live():
            await work.end(*live)
        job = await the_job(leader)
        assert (job.status, job.counts) == (Status.COMPLETED, {Status.COMPLETED: 300})
        await some_time(work.node, 25)
        assert leader.watch.drift == 0
        assert await leader.store.recount(1) == []

    play(story())


def test_who_asks_is_told_what_is_kept_back() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.submit(array(300))
        await paced(leader, 3)
        answers = Answers(lambda: leader.control, leader.hub)
        why = await answers.why(1)
        assert why is not None
        assert why.summary.endswith("; 292 of its 300 tasks have not begun, for at most 3 run at once")
        (queue,) = await answers.queues()
        assert (queue.depth, queue.head_job_id) == (292, 1)
        assert [reason.text for reason in queue.head_reasons] == ["at most 3 of its tasks are live at once"]

    play(story())


def test_a_new_leader_keeps_to_it_too() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        first = Leader(store)
        node = await first.node()
        await first.submit(array(300))
        began = node.launched()
        await paced(first, 3)
        first.running.cancel()
        second = Leader(store)
        work = Work(await second.node("n1", *(says(name) for name in began)))
        await work.end(*began)
        assert work.live() == ["1.8.1", "1.9.1", "1.10.1"]

    play(story())


def test_what_is_kept_back_can_be_cancelled_and_does_not_wait_too_long() -> None:
    async def story() -> None:
        leader = Leader()
        work = Work(await leader.node())
        await leader.submit(array(60, max_wait_s=30))
        began = work.live()
        await paced(leader, 1)
        await some_time(work.node, 40)
        await leader.store.cancel_tasks(1, IndexSet(((10, 59, 1),)), "bob", now_ms())
        await asyncio.sleep(0.1)
        assert (await the_job(leader)).counts == {
            Status.SCHEDULED: 8, Status.PENDING: 2, Status.CANCELLED: 50,
        }  # fmt: skip
        await work.end(*began)
        assert work.live() == ["1.8.1"]
        await work.end("1.8.1")
        await work.end("1.9.1")
        assert (await the_job(leader)).counts == {Status.COMPLETED: 10, Status.CANCELLED: 50}
        assert not leader.control.series

    play(story())


def test_one_that_gave_way_comes_before_those_that_have_not_begun() -> None:
    async def story() -> None:
        leader = Leader()
        work = Work(await leader.node())
        await leader.submit(array(60))
        began = work.live()
        await paced(leader, 8)
        await leader.store.restart_tasks(1, [7], "ann", now_ms())
        await asyncio.sleep(0.1)
        (stop,) = work.node.stops()
        work.node.reports(says("1.7.1", Phase.ENDED, replace(DONE, cause=stop.cause)))
        work.ended.append("1.7.1")
        await asyncio.sleep(0.1)
        assert sorted(work.live()) == sorted([*began[:7], "1.7.2"])

    play(story())


def test_a_lowered_cap_holds_behind_another_series_too() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        first = Leader(store)
        work = Work(await first.node())
        await first.submit(array(6))
        await first.submit(array(6, needs=(Need(NeedKind.CORR, 1),)))
        await paced(first, 2, job_id=2)
        await work.end("1.5.1", "1.4.1")
        assert sorted(work.live()[-2:]) == ["2.4.1", "2.5.1"]
        await work.end("1.0.1", "1.1.1")
        assert len(work.live()) == 4
        await work.end("2.5.1")
        assert sorted(work.live()) == ["1.2.1", "1.3.1", "2.0.1", "2.4.1"]
        first.running.cancel()
        second = Leader(store)
        work = Work(await second.node("n1", *(says(name) for name in sorted(work.live()))))
        await work.end("1.2.1", "1.3.1", "2.4.1")
        assert work.live() == ["2.1.1"]
        await work.end("2.0.1")
        assert work.live() == ["2.1.1", "2.2.1"]
        await work.end("2.1.1", "2.2.1")
        await work.end("2.3.1")
        assert (await the_job(second, 2)).counts == {Status.COMPLETED: 6}
        assert not second.control.series

    play(story())


def test_who_rested_until_a_moment_is_kept_back_after_it_too() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.submit(array(60))
        await paced(leader, 2)
        job = await the_job(leader)
        later = replace(job.spec, timing=Timing(begin_ms=now_ms() + 5000))
        await leader.store.edit(job, later, "ann", now_ms(), {})
        work = Work(await leader.node())
        await some_time(work.node, 4)
        assert work.live() == []
        await some_time(work.node, 4)
        assert sorted(set(work.live())) == ["1.0.1", "1.1.1"]

    play(story())


def test_those_of_which_nothing_stirs_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: Counter[int] = Counter()

    def counted(picture: Picture, book: SeriesBook, entry: Entry) -> None:
        looks[entry.job.job_id] += 1
        keep_back(picture, book, entry)

    monkeypatch.setattr(series, "keep_back", counted)

    async def story() -> None:
        leader = Leader()
        work = Work(await leader.node())
        await leader.submit(array(300))
        await paced(leader, 3)
        looks.clear()
        await some_time(work.node, 10)
        assert not looks
        await work.end(work.live()[0])
        assert looks == {1: 1}

    play(story())
