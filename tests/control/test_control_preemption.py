"""The loop when somebody has to give way: who is stopped, when, and what becomes of it."""

import asyncio
from dataclasses import replace

from tests.control.control_story import DONE, POLICY, Leader, now_ms, play, says, spec
from tgpu.control.loop import TICK_S
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.priority import PriorityClass
from tgpu.protocol.messages import AttemptReport, Orders, Phase, Stop

GONE = replace(DONE, cause=Cause.PREEMPTED, exit_code=None, signal=15)
PATIENT = spec(gpus=2, priority_class=PriorityClass.LOW)
URGENT = spec(gpus=2, priority_class=PriorityClass.REAL_TIME)


def test_a_job_gives_way_to_an_urgent_one_and_comes_back_when_its_time_has_come() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        (patient,) = await leader.submit(PATIENT)
        node.reports(says("1.0.1"))
        (urgent,) = await leader.submit(URGENT)
        assert (node.launched(), node.stopped()) == (["1.0.1"], ["1.0.1"])
        assert [await leader.status(job) for job in (patient, urgent)] == [Status.RUNNING, Status.PENDING]
        node.reports(says("1.0.1", Phase.ENDED, GONE))
        await asyncio.sleep(0.01)
        assert node.launched() == ["1.0.1", "2.0.1"]
        assert [await leader.status(job) for job in (patient, urgent)] == [
            Status.PREEMPTED,
            Status.SCHEDULED,
        ]
        node.reports(says("2.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(POLICY.backoff_s - 6)
        node.beats()
        await asyncio.sleep(5)
        assert node.launched() == ["1.0.1", "2.0.1"]
        await asyncio.sleep(1 + 2 * TICK_S)
        assert node.launched()[2] == "1.0.2"
        node.reports(says("1.0.2", Phase.ENDED, DONE))
        await asyncio.sleep(0.01)
        assert [await leader.status(job) for job in (patient, urgent)] == [Status.COMPLETED] * 2
        assert leader.watch.runs == [("preempted", 1.0), ("succeeded", 1.0), ("succeeded", 1.0)]
        assert [outcome for outcome, _ in leader.watch.completions] == ["succeeded", "succeeded"]

    play(story())


def test_a_job_that_allows_one_try_has_failed_when_it_has_given_way() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        (patient,) = await leader.submit(replace(PATIENT, requeue=False))
        node.reports(says("1.0.1"))
        (urgent,) = await leader.submit(URGENT)
        node.reports(says("1.0.1", Phase.ENDED, GONE))
        await asyncio.sleep(0.01)
        job = await leader.store.job(patient)
        assert job is not None
        assert (job.status, job.cause) == (Status.FAILED, Cause.PREEMPTED)
        assert job.detail == "gave way to a task of a higher class; --no-requeue forbids to try again"
        assert await leader.status(urgent) is Status.SCHEDULED
        assert list(leader.control.picture.waiting) == []

    play(story())


def test_who_may_give_way_from_now_on_is_told_so_at_once_and_not_with_the_next_tick() -> None:
    async def story() -> None:
        leader = Leader(policy=replace(POLICY, min_run_s=7))
        node = await leader.node()
        await leader.submit(PATIENT)
        await asyncio.sleep(0.4)  # its time is up between two ticks
        node.reports(AttemptReport(attempt="1.0.1", phase=Phase.RUNNING, started_ms=now_ms()))
        await leader.submit(URGENT)
        await asyncio.sleep(4)
        node.beats()
        await asyncio.sleep(2.95)
        assert node.stopped() == []
        await asyncio.sleep(0.1)
        assert node.stopped() == ["1.0.1"]

    play(story())


def test_who_backs_off_starts_when_its_time_has_come_and_not_with_the_next_tick() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(PATIENT)
        node.reports(says("1.0.1"))
        await leader.submit(URGENT)
        await asyncio.sleep(0.4)
        node.reports(says("1.0.1", Phase.ENDED, GONE))
        await asyncio.sleep(0.01)
        node.reports(says("2.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(5)
        node.beats()
        await asyncio.sleep(4.95)
        assert node.launched() == ["1.0.1", "2.0.1"]
        await asyncio.sleep(0.1)
        assert node.launched() == ["1.0.1", "2.0.1", "1.0.2"]

    play(story())


def test_no_lower_class_slips_in_while_one_that_gave_way_backs_off() -> None:
    """The urgent one ends at once. The lowest would have the place for a day, and could not be moved."""

    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(PATIENT)
        node.reports(says("1.0.1"))
        await leader.submit(URGENT, spec(gpus=2, priority_class=PriorityClass.BEST_EFFORT))
        node.reports(says("1.0.1", Phase.ENDED, GONE))
        await asyncio.sleep(0.01)
        node.reports(says("2.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(POLICY.backoff_s - 6)
        node.beats()
        await asyncio.sleep(5)
        assert node.launched() == ["1.0.1", "2.0.1"]
        await asyncio.sleep(1)
        assert node.launched() == ["1.0.1", "2.0.1", "1.0.2"]

    play(story())


def test_a_job_that_is_cancelled_while_it_gives_way_ends_as_cancelled() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        (patient,) = await leader.submit(PATIENT)
        node.reports(says("1.0.1"))
        await leader.submit(URGENT)
        await leader.cancel(patient)
        assert node.stopped() == ["1.0.1"]
        node.reports(says("1.0.1", Phase.ENDED, GONE))
        await asyncio.sleep(0.01)
        assert await leader.status(patient) is Status.CANCELLED
        assert node.launched() == ["1.0.1", "2.0.1"]

    play(story())


def test_a_new_leader_goes_on_with_a_preemption_and_says_why() -> None:
    async def story() -> None:
        first = Leader()
        node = await first.node()
        await first.submit(PATIENT)
        node.reports(says("1.0.1"))
        await first.submit(URGENT)
        first.running.cancel()
        second = Leader(first.store)
        again = await second.node("n1", says("1.0.1"))
        (orders,) = [message for message in again.heard if isinstance(message, Orders)]
        assert orders.stops == (Stop(attempt="1.0.1", cause=Cause.PREEMPTED),)
        again.reports(says("1.0.1", Phase.ENDED, GONE))
        await asyncio.sleep(0.01)
        assert again.launched() == ["2.0.1"]
        assert await second.status(1) is Status.PREEMPTED

    play(story())
