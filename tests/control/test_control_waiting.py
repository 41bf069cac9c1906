"""The whole loop with jobs that wait for others, for a moment or for somebody, or must be over in time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.control.control_story import DONE, FakeNode, Leader, now_ms, play, says, spec
from tgpu.domain.index_set import parse_indices
from tgpu.domain.job import Exit, JobSpec
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.needs import Need, NeedKind
from tgpu.domain.retries import Retries
from tgpu.domain.series import Series
from tgpu.domain.timing import Timing
from tgpu.protocol.messages import Phase
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch, Receipt

OK = NeedKind.OK
FAILED = Exit(Cause.EXITED, exit_code=3, started_ms=1000, ended_ms=2000)
TIMED_OUT = Exit(Cause.TIME_LIMIT, started_ms=1000, ended_ms=2000)


def after(*jobs: int, **more: object) -> JobSpec:
    return spec(needs=tuple(Need(OK, job_id) for job_id in jobs), **more)


async def ends(node: FakeNode, attempt: str, how: Exit = DONE) -> None:
    node.reports(says(attempt), says(attempt, Phase.ENDED, how))
    await asyncio.sleep(0.05)


async def sleep(node: FakeNode, seconds: float) -> None:
    """While the node says that it is there."""
    while seconds > 0:
        node.beats()
        await asyncio.sleep(min(5.0, seconds))
        seconds -= 5


async def submit(leader: Leader, *specs: JobSpec) -> None:
    """One after the other: each may name those before it."""
    for each in specs:
        await leader.submit(each)


def launched(node: FakeNode) -> list[str]:
    """Each once: orders are repeated until they are confirmed."""
    return list(dict.fromkeys(node.launched()))


async def why_of(leader: Leader, job_id: int) -> tuple[Status, Cause | None, str]:
    job = await leader.store.job(job_id)
    assert job is not None
    return job.status, job.cause, job.detail


def story(tell: Callable[[Leader, FakeNode], Awaitable[None]]) -> None:
    async def told() -> None:
        leader = Leader()
        node = await leader.node()
        await tell(leader, node)
        await sleep(node, 15)  # the picture is compared with the store meanwhile
        assert leader.watch.drift == 0

    play(told())


def test_a_diamond_of_jobs_starts_in_its_order() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec(), after(1), after(1), after(2, 3))
        assert launched(node) == ["1.0.1"]
        await ends(node, "1.0.1")
        assert launched(node) == ["1.0.1", "2.0.1", "3.0.1"]
        await ends(node, "3.0.1")
        assert await leader.status(4) is Status.PENDING
        await ends(node, "2.0.1")
        assert launched(node)[-1] == "4.0.1"

    story(tell)


def test_a_job_whose_need_fails_has_failed_and_so_has_everybody_behind_it() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec(), after(1), after(2))
        await ends(node, "1.0.1", FAILED)
        assert await why_of(leader, 2) == (
            Status.FAILED,
            Cause.DEPENDENCY_FAILED,
            "job 1 has failed, and has to complete before this one starts",
        )
        assert (await why_of(leader, 3))[1] is Cause.DEPENDENCY_FAILED

    story(tell)


def test_who_needs_a_job_that_has_failed_already_fails_at_once() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec())
        await ends(node, "1.0.1", FAILED)
        await submit(leader, after(1))
        await asyncio.sleep(0.05)
        assert (await why_of(leader, 2))[1] is Cause.DEPENDENCY_FAILED

    story(tell)


def test_a_new_leader_knows_who_waits_for_whom() -> None:
    async def told() -> None:
        store = MemoryStore("c")
        first = Leader(store)
        node = await first.node()
        await submit(first, spec(), after(1), after(1, timing=Timing(held_by="ann")))
        first.running.cancel()
        node.close()
        second = Leader(store)
        node = await second.node("n1", says("1.0.1"))
        await ends(node, "1.0.1")
        assert launched(node) == ["2.0.1"]
        await store.release([3], "ann", now_ms())
        await asyncio.sleep(0.05)
        assert launched(node) == ["2.0.1", "3.0.1"]

    play(told())


def test_a_held_job_waits_until_it_is_released_and_one_that_runs_is_left_alone() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec(gpus=2), spec(gpus=2))
        await leader.store.hold([1, 2], "ann", now_ms())
        await ends(node, "1.0.1")
        await sleep(node, 2)
        assert launched(node) == ["1.0.1"]
        await leader.store.release([2], "ann", now_ms())
        await asyncio.sleep(0.05)
        assert launched(node) == ["1.0.1", "2.0.1"]

    story(tell)


def test_an_edit_counts_from_then_on() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec(gpus=2), spec(gpus=2), spec(gpus=2))
        job = await leader.store.job(3)
        assert job is not None
        group = job.spec.groups[0]
        small = replace(group, request=replace(group.request, gpu_milli=0))
        await leader.store.edit(job, replace(job.spec, groups=(small,)), "ann", now_ms(), {})
        await asyncio.sleep(0.05)
        assert launched(node) == ["1.0.1", "3.0.1"]

    story(tell)


def test_what_is_decided_while_somebody_edits_the_job_is_decided_anew() -> None:
    class Hasty(MemoryStore):
        """Somebody asks for more between a decision and its commit."""

        edited = False

        async def commit(self, epoch: int, batch: Batch) -> Receipt:
            job = await self.job(1)
            if batch.assigned and not self.edited and job is not None:
                self.edited = True
                group = job.spec.groups[0]
                large = replace(group, request=replace(group.request, gpu_milli=2000))
                await self.edit(job, replace(job.spec, groups=(large,)), "ann", batch.at_ms, {})
            return await super().commit(epoch, batch)

    async def told() -> None:
        leader = Leader(Hasty("c"))
        node = await leader.node()
        await submit(leader, spec(gpus=1))
        await sleep(node, 3)
        assert launched(node) == ["1.0.1"]
        (placed,) = leader.control.picture.placed.values()
        assert placed.devices == (0, 1)

    play(told())


def test_a_job_begins_at_its_moment_and_not_before() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        begin_ms = now_ms() + 30_000
        await submit(leader, spec(timing=Timing(begin_ms=begin_ms), max_wait_s=5))
        await sleep(node, 29)
        assert launched(node) == []
        await sleep(node, 1.1)
        assert launched(node) == ["1.0.1"]

    story(tell)


def test_no_room_is_kept_for_a_job_before_its_moment() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec(gpus=2, timing=Timing(begin_ms=now_ms() + 30_000)))
        await submit(leader, spec(gpus=2))
        assert launched(node) == ["2.0.1"]
        await ends(node, "2.0.1")
        await sleep(node, 31)
        assert launched(node) == ["2.0.1", "1.0.1"]

    story(tell)


def test_no_room_is_kept_for_a_job_that_failed_until_it_is_tried_again() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec(gpus=2, retries=Retries(limit=2)))
        await ends(node, "1.0.1", FAILED)
        await submit(leader, spec(gpus=2))
        assert launched(node) == ["1.0.1", "2.0.1"]
        await ends(node, "2.0.1")
        await sleep(node, 10)
        assert launched(node) == ["1.0.1", "2.0.1", "1.0.2"]

    story(tell)


def test_tasks_of_a_series_that_come_later_have_the_same_deadline() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        one_by_one = Series(parse_indices("--array", "1-9"), 1)
        timing = Timing(deadline_ms=now_ms() + 10_000)
        job = spec(series=one_by_one, timing=timing)
        await submit(leader, replace(job, groups=(replace(job.groups[0], tasks=9),)))
        await ends(node, "1.0.1")
        assert launched(node) == ["1.0.1", "1.1.1"]
        await sleep(node, 11)
        assert [stop.attempt for stop in node.stops()][:1] == ["1.1.1"]
        stopped = Exit(Cause.DEADLINE, signal=15, detail=node.stops()[0].detail, ended_ms=now_ms())
        node.reports(says("1.1.1", Phase.ENDED, stopped))
        await asyncio.sleep(0.05)
        assert launched(node) == ["1.0.1", "1.1.1"]
        after = await leader.store.job(1)
        assert after is not None
        assert (after.status, after.cause, after.dropped) == (Status.FAILED, Cause.DEADLINE, 7)

    story(tell)


def test_an_array_of_which_nothing_is_live_when_it_is_released_goes_on() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        job = spec(series=Series(parse_indices("--array", "1-9"), 1))
        await submit(leader, replace(job, groups=(replace(job.groups[0], tasks=9),)))
        await leader.store.hold([1], "ann", now_ms())
        await ends(node, "1.0.1")
        await sleep(node, 2)
        assert launched(node) == ["1.0.1"]
        await leader.store.release([1], "ann", now_ms())
        await sleep(node, 2)
        assert launched(node) == ["1.0.1", "1.1.1"]

    story(tell)


def test_a_job_that_returns_after_its_deadline_is_not_started_again() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec(timing=Timing(deadline_ms=now_ms() + 10_000)))
        node.reports(says("1.0.1"))
        await sleep(node, 11)
        node.reports(says("1.0.1", Phase.ENDED, Exit(Cause.REBOOTED, ended_ms=now_ms())))
        await asyncio.sleep(0.05)
        assert launched(node) == ["1.0.1"]
        assert (await why_of(leader, 1))[:2] == (Status.FAILED, Cause.DEADLINE)

    story(tell)


def test_the_time_a_job_may_wait_runs_from_when_it_could_start() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec(gpus=2), spec(max_wait_s=5, timing=Timing(held_by="ann")))
        await sleep(node, 20)
        assert await leader.status(2) is Status.PENDING
        await leader.store.release([2], "ann", now_ms())
        await sleep(node, 4)
        assert await leader.status(2) is Status.PENDING
        await sleep(node, 3)
        assert (await why_of(leader, 2))[1] is Cause.WAITED_TOO_LONG

    story(tell)


@pytest.mark.parametrize("timing", [Timing(), Timing(held_by="ann")])
def test_a_job_that_cannot_be_over_in_time_any_more_has_failed(timing: Timing) -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        deadline = replace(timing, deadline_ms=now_ms() + 60_000)
        await submit(leader, spec(gpus=2), spec(gpus=2, timing=deadline, time_limit_s=40))
        await sleep(node, 18)
        assert await leader.status(2) is Status.PENDING
        await sleep(node, 4)
        status, cause, detail = await why_of(leader, 2)
        assert (status, cause) == (Status.FAILED, Cause.DEADLINE)
        assert detail.startswith("did not start in time to be over by its deadline, 1970-01-01 00:01:00 UTC")
        assert detail.endswith(", with a time limit of 40s")

    story(tell)


def test_a_job_that_runs_is_stopped_at_its_deadline() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        await submit(leader, spec(timing=Timing(deadline_ms=now_ms() + 10_000)))
        node.reports(says("1.0.1"))
        await sleep(node, 9)
        assert node.stopped() == []
        await sleep(node, 2)
        assert [(stop.attempt, stop.cause) for stop in node.stops()][:1] == [("1.0.1", Cause.DEADLINE)]
        stopped = Exit(Cause.DEADLINE, signal=15, detail=node.stops()[0].detail, ended_ms=now_ms())
        node.reports(says("1.0.1", Phase.ENDED, stopped))
        await asyncio.sleep(0.05)
        status, cause, detail = await why_of(leader, 1)
        assert (status, cause) == (Status.FAILED, Cause.DEADLINE)
        assert detail.startswith("was not over by its deadline: 1970-01-01 00:00:10 UTC")

    story(tell)


def test_a_job_that_wants_it_waits_again_when_its_time_is_up() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        again = Timing(again_on_timeout=True)
        await submit(leader, spec(time_limit_s=1, timing=again, requeue=False), spec(time_limit_s=1))
        await ends(node, "1.0.1", TIMED_OUT)
        await ends(node, "2.0.1", TIMED_OUT)
        assert launched(node) == ["1.0.1", "2.0.1", "1.0.2"]
        assert (await why_of(leader, 2))[:2] == (Status.FAILED, Cause.TIME_LIMIT)
        await leader.cancel(1)
        await ends(node, "1.0.2", TIMED_OUT)
        assert await leader.status(1) is Status.CANCELLED

    story(tell)


def test_an_array_goes_index_by_index_behind_another_one_that_partly_fails() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        three = Series(parse_indices("--array", "1-3"))
        array = replace(spec(gpus=0), series=three)
        array = replace(array, groups=(replace(array.groups[0], tasks=3),))
        await submit(leader, array, replace(array, needs=(Need(NeedKind.CORR, 1),)))
        assert launched(node) == ["1.0.1", "1.1.1", "1.2.1"]
        await ends(node, "1.1.1")
        assert launched(node)[3:] == ["2.1.1"]
        await ends(node, "1.0.1", FAILED)
        await ends(node, "1.2.1")
        assert launched(node)[3:] == ["2.1.1", "2.2.1"]
        await ends(node, "2.1.1")
        await ends(node, "2.2.1")
        job = await leader.store.job(2)
        assert job is not None
        assert dict(job.task_counts) == {Status.COMPLETED: 2, Status.FAILED: 1}
        assert (job.status, job.cause) == (Status.FAILED, Cause.DEPENDENCY_FAILED)

    story(tell)


def test_an_array_behind_another_one_has_no_more_rows_than_that_needs_to_go_on() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        many = Series(parse_indices("--array", "0-99"), 1)
        array = replace(spec(gpus=0), series=many)
        array = replace(array, groups=(replace(array.groups[0], tasks=100),))
        behind = replace(array, series=replace(many, at_once=None), needs=(Need(NeedKind.CORR, 1),))
        await submit(leader, array, behind)
        await sleep(node, 2)
        for index in range(100):
            first, second = [await leader.store.job(job_id) for job_id in (1, 2)]
            assert first is not None
            assert second is not None
            assert (second.born or 0) <= (first.born or 0)
            await ends(node, f"1.{index}.1", FAILED if index == 80 else DONE)
            if index != 80:
                assert f"2.{index}.1" in launched(node)[-2:]
                await ends(node, f"2.{index}.1")
        jobs = [await leader.store.job(job_id) for job_id in (1, 2)]
        assert [job and dict(job.task_counts) for job in jobs] == [
            {Status.COMPLETED: 99, Status.FAILED: 1}
        ] * 2
        assert not leader.control.series

    story(tell)


def test_an_array_whose_need_fails_has_failed_whole() -> None:
    async def tell(leader: Leader, node: FakeNode) -> None:
        many = Series(parse_indices("--array", "0-999"))
        array = replace(after(1), series=many)
        array = replace(array, groups=(replace(array.groups[0], tasks=1000),))
        await submit(leader, spec(), array)
        await ends(node, "1.0.1", FAILED)
        await sleep(node, 2)
        job = await leader.store.job(2)
        assert job is not None
        assert (job.status, job.cause) == (Status.FAILED, Cause.DEPENDENCY_FAILED)

    story(tell)
