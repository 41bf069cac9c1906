"""When tasks last saved their work: who is stopped by that, how often it is written, and what was lost."""

import asyncio

from tests.control.control_story import POLICY, FakeNode, Leader, now_ms, play, spec
from tgpu.control.checkpoints import WRITE_EVERY_MS
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.priority import PriorityClass
from tgpu.protocol.messages import AttemptReport, Phase
from tgpu.store.port import Batch
from tgpu.store.task_paging import TaskPaging

PATIENT = spec(gpus=1, priority_class=PriorityClass.LOW, time_limit_s=7200)
URGENT = spec(gpus=1, priority_class=PriorityClass.REAL_TIME)


def runs(attempt: str, saved_ms: int | None = None) -> AttemptReport:
    return AttemptReport(attempt=attempt, phase=Phase.RUNNING, started_ms=0, checkpoint_ms=saved_ms)


def gone(attempt: str, saved_ms: int | None, ended_ms: int) -> AttemptReport:
    how = Exit(Cause.PREEMPTED, signal=15, started_ms=0, ended_ms=ended_ms, checkpoint_ms=saved_ms)
    return AttemptReport(attempt=attempt, phase=Phase.ENDED, started_ms=0, exit=how)


async def saved(leader: Leader, job_id: int) -> int | None:
    (task,) = await leader.store.tasks(job_id, TaskPaging())
    return task.checkpoint_ms


def written(leader: Leader) -> list[int]:
    """What every later commit says of saves, as it is made."""
    notes: list[int] = []
    commit = leader.store.commit

    async def noting(epoch: int, batch: Batch):  # noqa: ANN202  as the store's
        notes.extend(batch.saved.values())
        return await commit(epoch, batch)

    leader.store.commit = noting  # type: ignore[method-assign]
    return notes


async def time_passes(seconds: int, *nodes: FakeNode) -> None:
    for _ in range(seconds):
        for node in nodes:
            node.beats()
        await asyncio.sleep(1)


async def two_patients() -> tuple[Leader, FakeNode]:
    leader = Leader()
    node = await leader.node()
    await leader.submit(PATIENT, PATIENT)
    node.reports(runs("1.0.1"), runs("2.0.1"))
    await time_passes(90, node)
    return leader, node


def test_who_saved_its_work_lately_is_stopped_rather_than_who_did_long_ago() -> None:
    async def story() -> None:
        for first, second, victim in ((60, 1, "2.0.1"), (1, 60, "1.0.1")):
            leader, node = await two_patients()
            node.reports(runs("1.0.1", now_ms() - 1000 * first), runs("2.0.1", now_ms() - 1000 * second))
            await asyncio.sleep(0.1)
            await leader.submit(URGENT)
            assert node.stopped() == [victim]

    play(story())


def test_a_save_by_an_attempt_before_is_no_reason_to_spare_what_has_only_begun() -> None:
    async def story() -> None:
        leader, node = await two_patients()
        node.reports(gone("1.0.1", 1000, now_ms()), runs("2.0.1", now_ms() - 60_000))
        await time_passes(POLICY.backoff_s + 5, node)
        node.reports(AttemptReport(attempt="1.0.2", phase=Phase.RUNNING, started_ms=now_ms() - 1000))
        await asyncio.sleep(1)
        await leader.submit(URGENT)
        assert node.stopped() == ["1.0.2"]

    play(story())


def test_the_store_is_told_at_once_and_then_at_most_every_half_minute() -> None:
    async def story() -> None:
        leader, node = await two_patients()
        notes, first_ms = written(leader), now_ms()
        for second in range(65):
            node.reports(runs("1.0.1", first_ms + 1000 * second))
            await time_passes(1, node)
        assert notes == [first_ms + at for at in (0, WRITE_EVERY_MS, 2 * WRITE_EVERY_MS)]
        brief = leader.control.picture.placed[TaskId(1, 0)].task
        assert brief.checkpoint_ms == first_ms + 64_000, "the picture knows the last one"
        assert await saved(leader, 1) == first_ms + 60_000
        assert await saved(leader, 2) is None

    play(story())


def test_time_goes_neither_back_nor_ahead_of_the_leaders() -> None:
    async def story() -> None:
        leader, node = await two_patients()
        node.reports(runs("1.0.1", now_ms() + 3_600_000))
        await asyncio.sleep(0.1)
        first_ms = await saved(leader, 1)
        assert first_ms is not None
        assert abs(first_ms - now_ms()) < 1000
        await time_passes(60, node)
        node.reports(runs("1.0.1", 5))
        await asyncio.sleep(0.1)
        assert await saved(leader, 1) == first_ms
        assert leader.control.picture.placed[TaskId(1, 0)].task.checkpoint_ms == first_ms

    play(story())


def test_what_a_stopped_attempt_lost_counts_from_the_last_save_also_if_that_was_in_its_grace() -> None:
    async def story() -> None:
        leader, node = await two_patients()
        node.reports(runs("1.0.1", now_ms() - 2000))
        await asyncio.sleep(0.1)
        await leader.submit(URGENT)
        assert node.stopped() == ["1.0.1"]
        await asyncio.sleep(5)
        ended_ms = now_ms()
        node.reports(gone("1.0.1", ended_ms - 300, ended_ms))
        await asyncio.sleep(0.1)
        (usage,) = await leader.store.usage(1)
        assert (usage.run_ms, usage.lost_ms) == (ended_ms, 300)
        assert await saved(leader, 1) == ended_ms - 300
        assert await leader.status(1) is Status.PREEMPTED
        assert leader.control.picture.waiting[TaskId(1, 0)].checkpoint_ms == ended_ms - 300

    play(story())


def test_without_a_save_all_of_it_is_lost() -> None:
    async def story() -> None:
        leader, node = await two_patients()
        await leader.submit(URGENT)
        ended_ms = now_ms()
        node.reports(gone("1.0.1", None, ended_ms))
        await asyncio.sleep(0.1)
        (usage,) = await leader.store.usage(1)
        assert (usage.run_ms, usage.lost_ms) == (ended_ms, ended_ms)

    play(story())


def test_what_is_lost_with_its_node_counts_from_the_last_save_that_was_heard_of() -> None:
    async def story() -> None:
        leader = Leader()
        node, other = await leader.node(), await leader.node("n2")
        await leader.submit(PATIENT)
        where = node if node.launched() else other
        where.reports(runs("1.0.1"))
        await time_passes(30, node, other)
        saved_ms = now_ms() - 1000
        where.reports(runs("1.0.1", saved_ms))
        await asyncio.sleep(1)
        where.close()
        await time_passes(40, other if where is node else node)
        (usage,) = await leader.store.usage(1)
        assert usage.cause is Cause.NODE_LOST
        assert usage.lost_ms == usage.ended_ms - saved_ms
        assert (await leader.store.attempt(AttemptId(1, 0, 1))).exit.checkpoint_ms == saved_ms  # type: ignore[union-attr]

    play(story())


def test_a_new_leader_knows_what_was_written() -> None:
    async def story() -> None:
        leader, node = await two_patients()
        node.reports(runs("1.0.1", now_ms() - 5000))
        await asyncio.sleep(0.1)
        world = await leader.store.load()
        assert [task.checkpoint_ms for task in world.tasks] == [await saved(leader, 1), None]
        assert world.tasks[0].checkpoint_ms is not None

    play(story())
