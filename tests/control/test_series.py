"""Jobs of many tasks: they grow as they are needed, fail as a whole, and are suspended."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.control.control_story import FakeNode, Leader, now_ms, play, says, spec
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Exit, Job, JobSpec
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.retries import FailureAction, FailureRule, Retries
from tgpu.domain.series import Mode, Series
from tgpu.domain.timing import Timing
from tgpu.protocol.messages import Phase
from tgpu.store.memory import MemoryStore


def array(tasks: int, at_once: int | None = None, mode: Mode = Mode.ARRAY, **more: Any) -> JobSpec:
    one = spec(gpus=0, **more)
    series = Series(IndexSet.first(tasks), at_once, mode)
    return replace(one, groups=(replace(one.groups[0], tasks=tasks),), series=series)


async def the_job(leader: Leader, job_id: int = 1) -> Job:
    job = await leader.store.job(job_id)
    assert job is not None
    return job


async def some_time(node: FakeNode, seconds: int) -> None:
    for _ in range(seconds):
        node.beats()
        await asyncio.sleep(1)


class Worker:
    """A node that ends what it is given."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.most = 0

    async def work(self, *, until: int, code: int = 0) -> list[str]:
        """Ends one attempt after the other, until so many have been launched and ended."""
        ended: list[str] = []
        while len(ended) < until:
            launched = self.node.launched()
            live = [name for name in launched if name not in ended]
            assert live, "nothing is launched any more"
            self.most = max(self.most, len(live))
            for name in live:
                self.node.reports(says(name, Phase.ENDED, Exit(Cause.EXITED, code, started_ms=1, ended_ms=2)))
                ended.append(name)
            await asyncio.sleep(0.05)
        return ended


def test_a_series_runs_to_its_end_and_never_more_at_once_than_it_may() -> None:
    async def story() -> None:
        leader = Leader()
        worker = Worker(await leader.node())
        await leader.submit(array(700, at_once=3))
        ended = await worker.work(until=700)
        job = await the_job(leader)
        assert (job.status, job.counts) == (Status.COMPLETED, {Status.COMPLETED: 700})
        assert len(set(ended)) == 700
        assert worker.most == 3
        await some_time(worker.node, 25)
        assert leader.watch.drift == 0
        assert await leader.store.recount(1) == []

    play(story())


def test_a_long_series_keeps_some_tasks_waiting_and_not_all() -> None:
    async def story() -> None:
        leader = Leader()
        worker = Worker(await leader.node())
        await leader.submit(array(100_000))
        await asyncio.sleep(0.1)
        assert len(leader.control.picture.waiting) <= 512 + 64
        await worker.work(until=2000)
        assert 0 < len(leader.control.picture.waiting) <= 512 + 64
        job = await the_job(leader)
        assert job.born is not None
        assert job.born < 4000
        await leader.cancel(1)
        job = await the_job(leader)
        assert job.counts is not None
        assert job.counts[Status.CANCELLED] > 97_000
        assert sum(job.counts.values()) == 100_000
        for name in worker.node.stopped():
            worker.node.reports(says(name, Phase.ENDED, Exit(Cause.CANCELLED, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.05)
        assert (await the_job(leader)).status is Status.CANCELLED

    play(story())


def test_a_failure_is_tried_again_after_a_while_as_long_as_the_limit_allows() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec(gpus=0, retries=Retries(1)))
        node.reports(says("1.0.1", Phase.ENDED, Exit(Cause.EXITED, 3, started_ms=1, ended_ms=2)))
        await asyncio.sleep(5)
        assert node.launched() == ["1.0.1"]
        assert (await the_job(leader)).status is Status.PENDING
        node.beats()
        await asyncio.sleep(3)
        node.beats()
        await asyncio.sleep(3)
        assert node.launched() == ["1.0.1", "1.0.2"]
        node.reports(says("1.0.2", Phase.ENDED, Exit(Cause.EXITED, 4, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        job = await the_job(leader)
        assert (job.status, job.exit_code) == (Status.FAILED, 4)
        assert job.detail == "exit code 4; it was tried 2 times, and backoff_limit is 1"

    play(story())


def test_what_infrastructure_brought_about_does_not_count() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec(gpus=0, retries=Retries(0)))
        for number in (1, 2, 3):
            lost = Exit(Cause.DEVICE_LOST, started_ms=1, ended_ms=2)
            node.reports(says(f"1.0.{number}", Phase.ENDED, lost))
            await asyncio.sleep(0.1)
        assert node.launched()[-1] == "1.0.4"
        node.reports(says("1.0.4", Phase.ENDED, Exit(Cause.EXITED, 1, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        assert (await the_job(leader)).status is Status.FAILED

    play(story())


def test_a_backoff_survives_a_new_leader() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        first = Leader(store)
        node = await first.node()
        await first.submit(spec(gpus=0, retries=Retries(3)))
        node.reports(says("1.0.1", Phase.ENDED, Exit(Cause.EXITED, 3, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        first.running.cancel()
        second = Leader(store)
        node = await second.node()
        await asyncio.sleep(5)
        assert node.launched() == []
        node.beats()
        await asyncio.sleep(3)
        node.beats()
        await asyncio.sleep(3)
        assert node.launched() == ["1.0.2"]

    play(story())


def test_one_failure_too_many_fails_the_job_with_all_that_wait_and_run() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        retries = Retries(max_failures=1)
        await leader.submit(array(1000, retries=retries))
        live = node.launched()
        for name in live[:2]:
            node.reports(says(name, Phase.ENDED, Exit(Cause.EXITED, 5, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        assert set(node.stopped()) == set(node.launched()) - set(live[:2])
        assert {stop.cause for stop in node.stops()} == {Cause.JOB_FAILED}
        for name in node.stopped():
            node.reports(says(name, Phase.ENDED, Exit(Cause.JOB_FAILED, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        job = await the_job(leader)
        assert (job.status, job.exit_code) == (Status.FAILED, 5)
        assert job.detail == "exit code 5; 2 tasks have failed, and max_failures allows 1"
        assert job.counts == {Status.FAILED: 2, Status.CANCELLED: 998}
        await some_time(node, 25)
        assert leader.watch.drift == 0

    play(story())


def test_a_rule_can_make_a_failure_the_end_of_the_job_or_of_its_index_alone() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        rules = (
            FailureRule(FailureAction.FAIL_INDEX, exit_codes=(7,)),
            FailureRule(FailureAction.FAIL_JOB, exit_codes=(42,)),
        )
        await leader.submit(array(4, at_once=1, retries=Retries(6, rules=rules)))
        node.reports(says("1.0.1", Phase.ENDED, Exit(Cause.EXITED, 7, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        assert node.launched() == ["1.0.1", "1.1.1"]
        node.reports(says("1.1.1", Phase.ENDED, Exit(Cause.EXITED, 42, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        job = await the_job(leader)
        assert (job.status, job.counts) == (Status.FAILED, {Status.FAILED: 2, Status.CANCELLED: 2})
        # By whom it failed as a whole, not by who failed before.
        assert (job.cause, job.exit_code) == (Cause.EXITED, 42)
        assert job.detail == "task 1 failed: exit code 42, and a rule says that this fails the job"

    play(story())


def test_a_work_queue_is_done_once_one_has_finished_and_nothing_is_tried_again() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(array(3, mode=Mode.WORK_QUEUE, retries=Retries(6)))
        node.reports(says("1.0.1", Phase.ENDED, Exit(Cause.EXITED, 1, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        node.reports(says("1.1.1", Phase.ENDED, Exit(Cause.EXITED, 0, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        node.reports(says("1.2.1", Phase.ENDED, Exit(Cause.EXITED, 1, started_ms=1, ended_ms=2)))
        await some_time(node, 30)
        job = await the_job(leader)
        assert (job.status, job.exit_code) == (Status.COMPLETED, 0)
        assert job.counts == {Status.COMPLETED: 1, Status.FAILED: 1, Status.CANCELLED: 1}

    play(story())


def test_a_suspended_job_is_stopped_and_goes_on_where_it_is_resumed() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(array(20, at_once=2, retries=Retries(0)))
        assert node.launched() == ["1.0.1", "1.1.1"]
        await leader.store.suspend(1, "bob", now_ms())
        await asyncio.sleep(0.1)
        assert [(stop.attempt, stop.cause) for stop in node.stops()] == [
            ("1.0.1", Cause.SUSPENDED),
            ("1.1.1", Cause.SUSPENDED),
        ]
        for name in node.stopped():
            node.reports(says(name, Phase.ENDED, Exit(Cause.SUSPENDED, started_ms=1, ended_ms=2)))
        await some_time(node, 30)
        assert (await the_job(leader)).counts == {Status.PENDING: 20}
        assert leader.watch.drift == 0
        await leader.store.resume(1, "bob", now_ms())
        await asyncio.sleep(0.1)
        assert node.launched()[2:] == ["1.0.2", "1.1.2"]

    play(story())


def test_a_suspended_job_is_stopped_by_the_next_leader_if_the_first_one_died() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        first = Leader(store)
        await first.node()
        await first.submit(spec(gpus=0))
        first.running.cancel()
        await asyncio.sleep(0.01)
        await store.suspend(1, "bob", now_ms())
        second = Leader(store)
        node = await second.node("n1", says("1.0.1"))
        await asyncio.sleep(0.1)
        assert set(node.stopped()) == {"1.0.1"}

    play(story())


def test_a_task_that_is_asked_to_start_anew_does_so_without_its_counting() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec(gpus=0, retries=Retries(0), requeue=False))
        await leader.store.restart_tasks(1, [0], "ada", now_ms())
        await asyncio.sleep(0.1)
        assert [stop.cause for stop in node.stops()] == [Cause.RESTARTED]
        node.reports(says("1.0.1", Phase.ENDED, Exit(Cause.RESTARTED, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        assert node.launched() == ["1.0.1", "1.0.2"]

    play(story())


def test_some_tasks_of_a_series_can_be_cancelled() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(array(10, at_once=1))
        await leader.store.cancel_tasks(1, IndexSet.of([0, 1, 2, 3]), "bob", now_ms())
        await asyncio.sleep(0.1)
        assert node.stopped() == ["1.0.1"]
        node.reports(says("1.0.1", Phase.ENDED, Exit(Cause.CANCELLED, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        done = ["1.0.1"]
        while len(done) < 5:
            if "1.7.1" in node.launched():
                await leader.store.cancel_tasks(1, IndexSet.of([8, 9]), "bob", now_ms())
            for name in [each for each in node.launched() if each not in done]:
                node.reports(says(name, Phase.ENDED, Exit(Cause.EXITED, 0, started_ms=1, ended_ms=2)))
                done.append(name)
            await asyncio.sleep(0.1)
        job = await the_job(leader)
        assert (job.status, job.counts) == (
            Status.CANCELLED,
            {Status.COMPLETED: 4, Status.CANCELLED: 6},
        )
        assert not leader.control.series  # though its last ones were passed over when nothing lived any more

    play(story())


def test_a_series_follows_when_more_of_it_may_be_live_at_once() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(array(10, at_once=1))
        assert node.launched() == ["1.0.1"]
        job = await the_job(leader)
        more = replace(job.spec, series=Series(IndexSet.first(10), 3))
        await leader.store.edit(job, more, "ann", now_ms(), {"at_once": 3})
        await asyncio.sleep(0.1)
        assert sorted(node.launched()) == ["1.0.1", "1.1.1", "1.2.1"]

    play(story())


def test_a_held_series_that_is_cancelled_index_by_index_is_over() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.store.submit([array(6, at_once=2, timing=Timing(held_by="ann"))], now_ms())
        await asyncio.sleep(0.1)
        await leader.store.cancel_tasks(1, IndexSet.of([4, 5]), "bob", now_ms())
        await asyncio.sleep(0.1)
        assert (await the_job(leader)).counts == {Status.PENDING: 4, Status.CANCELLED: 2}
        await leader.store.cancel_tasks(1, IndexSet.of([0, 1, 2, 3]), "bob", now_ms())
        await asyncio.sleep(0.1)
        job = await the_job(leader)
        assert (job.status, job.counts) == (Status.CANCELLED, {Status.CANCELLED: 6})
        assert not leader.control.series

    play(story())


def test_a_job_that_is_not_over_in_time_fails_as_a_whole() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(array(100, at_once=2, active_deadline_s=30), spec(gpus=0, active_deadline_s=30))
        await some_time(node, 32)
        assert Counter(stop.cause for stop in node.stops())[Cause.DEADLINE] >= 3
        for name in set(node.stopped()):
            node.reports(says(name, Phase.ENDED, Exit(Cause.DEADLINE, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        job = await the_job(leader)
        assert (job.status, job.cause) == (Status.FAILED, Cause.DEADLINE)
        assert job.counts == {Status.FAILED: 2, Status.CANCELLED: 98}
        assert (await the_job(leader, 2)).status is Status.FAILED

    play(story())


def test_a_job_that_fails_by_one_task_too_many_that_was_lost_says_so() -> None:
    async def story() -> None:
        leader = Leader()
        lost = await leader.node("n1")
        await leader.submit(array(9, at_once=2, requeue=False, retries=Retries(max_failures=1)))
        assert lost.launched() == ["1.0.1", "1.1.1"]
        await some_time(await leader.node("n2"), 30)
        job = await the_job(leader)
        assert (job.status, job.cause) == (Status.FAILED, Cause.NODE_LOST)
        assert job.detail.endswith("; 2 tasks have failed, and max_failures allows 1")

    play(story())


def test_who_is_out_of_time_and_lost_with_its_node_does_not_start_anew() -> None:
    async def story() -> None:
        leader = Leader()
        lost = await leader.node("n1")
        await leader.submit(array(3, at_once=1, active_deadline_s=5), spec(gpus=0, active_deadline_s=5))
        assert lost.launched() == ["1.0.1", "2.0.1"]
        other = await leader.node("n2")
        for _ in range(8):
            lost.beats()
            await some_time(other, 1)
        assert {stop.cause for stop in lost.stops()} == {Cause.DEADLINE}
        await some_time(other, 40)
        assert other.launched() == []
        for job_id in (1, 2):
            job = await the_job(leader, job_id)
            assert (job.status, job.cause) == (Status.FAILED, Cause.DEADLINE)
        assert leader.watch.drift == 0

    play(story())


def test_a_task_finds_its_index_and_a_new_leader_goes_on_with_the_series() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        first = Leader(store)
        node = await first.node()
        made = array(200, at_once=2)
        assert made.series is not None
        made = replace(made, series=replace(made.series, indices=IndexSet(((10, 408, 2),))))
        await first.submit(made)
        launches = [launch for orders in node._orders() for launch in orders.launches]
        assert [launch.env["TGPU_ARRAY_INDEX"] for launch in launches] == ["10", "12"]
        first.running.cancel()
        second = Leader(store)
        node = await second.node("n1", says("1.0.1"), says("1.1.1"))
        node.reports(says("1.0.1", Phase.ENDED, Exit(Cause.EXITED, 0, started_ms=1, ended_ms=2)))
        await asyncio.sleep(0.1)
        assert node.launched() == ["1.2.1"]

    play(story())
