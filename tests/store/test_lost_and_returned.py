from dataclasses import replace

import pytest

from tests.store.store_story import ROOT, a_job, assign, end, nth, running
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Attempt, Event, Exit, Job
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, Status
from tgpu.domain.quota import Amounts
from tgpu.domain.tenant import Tenant
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Origin, Superseded
from tgpu.store.port import Assigned, Batch, Change, Started, StopOrdered, Store, TaskClosed

SILENT = Exit(Cause.NODE_LOST, ended_ms=40)
LOST = AttemptLost(nth(1), SILENT, requeue=True, detail="n1 was silent for 15 s")
BACK = AttemptReturned(nth(1), 20)
STOPPED = Exit(Cause.SUPERSEDED, signal=15, started_ms=55, ended_ms=80)
SECOND = Assigned(nth(2), "n2", (1,))
PER_JOB = Amounts(500, 64, 8, 1000)


async def taken(store: Store, epoch: int, batch: Batch) -> list[Event]:
    receipt = await store.commit(epoch, batch)
    assert receipt.refused == []
    return receipt.events


async def refused(store: Store, epoch: int, batch: Batch) -> list[Change]:
    """Checks that nothing else happened."""
    seq = await store.last_seq()
    before = await store.job(1), await store.attempts(1), await store.tenants()
    receipt = await store.commit(epoch, batch)
    assert (await store.job(1), await store.attempts(1), await store.tenants()) == before
    assert await store.last_seq() == seq
    return receipt.refused


async def lost(store: Store) -> int:
    epoch = await running(store)
    await taken(store, epoch, Batch(40, lost=[LOST]))
    return epoch


async def elsewhere(store: Store) -> int:
    """The first attempt is lost, the second one runs."""
    epoch = await lost(store)
    await taken(store, epoch, Batch(50, assigned=[SECOND]))
    await taken(store, epoch, Batch(60, started=[Started(nth(2), 55)]))
    return epoch


async def back(store: Store) -> int:
    """The first attempt was lost and is the task's again, the second one is being stopped."""
    epoch = await elsewhere(store)
    await taken(store, epoch, Batch(70, returned=[BACK], superseded=[Superseded(nth(2))]))
    return epoch


async def status(store: Store, job_id: int = 1) -> Status:
    job = await store.job(job_id)
    assert job is not None
    return job.status


async def states(store: Store) -> list[AttemptState]:
    return [attempt.state for attempt in await store.attempts(1)]


async def live(store: Store) -> list[int]:
    """The numbers of the attempts that hold something; the summary says the same."""
    world = await store.load()
    summary = await store.live_summary(99)
    assert summary.attempts == {(attempt.attempt_id, attempt.node_id) for attempt in world.attempts}
    return [attempt.attempt_id.number for attempt in world.attempts]


async def used(store: Store) -> Amounts:
    tenant = await store.tenant("default")
    assert tenant is not None
    return tenant.used


async def test_a_task_whose_attempt_is_lost_waits_again_and_the_attempt_holds_nothing(store: Store) -> None:
    epoch = await running(store)
    events = await taken(store, epoch, Batch(41, lost=[LOST]))
    data = {
        "attempt": 1, "node_id": "n1", "devices": [0, 2], "cause": "node-lost",
        "detail": "n1 was silent for 15 s",
    }  # fmt: skip
    assert events == [Event(4, 41, "lost", 1, 0, data, "ann")]
    assert await store.job(1) == Job(1, a_job(), Status.PENDING, 10, attempts=1)
    attempt = Attempt(nth(1), AttemptState.LOST, "n1", (0, 2), 15, 20, SILENT)
    assert await store.attempts(1) == [attempt]
    assert await store.attempt(nth(1)) == attempt
    assert await store.attempt(nth(2)) is None
    assert await store.attempt(nth(1)._replace(task_index=1)) is None
    assert await live(store) == []
    (brief,) = (await store.load()).tasks
    assert (brief.status, brief.attempts) == (Status.PENDING, 1)
    assert await used(store) == PER_JOB
    await taken(store, epoch, Batch(50, assigned=[SECOND]))
    assert await live(store) == [2]


async def test_a_task_that_is_not_tried_again_fails_with_its_node(store: Store) -> None:
    epoch = await running(store)
    events = await taken(store, epoch, Batch(41, lost=[replace(LOST, requeue=False)]))
    assert [(event.kind, event.data["cause"]) for event in events] == [("failed", "node-lost")]
    assert await store.job(1) == Job(
        1, a_job(), Status.FAILED, 10, Cause.NODE_LOST, LOST.detail, None, "n1", (0, 2), 1, 20, 40
    )
    assert (await states(store), await live(store)) == ([AttemptState.LOST], [])
    assert await used(store) == Amounts()
    assert await refused(store, epoch, Batch(50, returned=[BACK])) == [BACK]
    await taken(store, epoch, Batch(51, gone=[AttemptGone(nth(1), STOPPED)]))
    assert (await states(store), await used(store)) == ([AttemptState.ENDED], Amounts())


async def test_an_attempt_is_lost_before_it_is_confirmed_and_while_it_is_stopped(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_job(), a_job()], 10)
    await taken(store, epoch, Batch(15, assigned=[assign(1), assign(2)]))
    await taken(store, epoch, Batch(16, stop_ordered=[StopOrdered(nth(1, 2), Cause.PREEMPTED, "eve")]))
    both = [LOST, replace(LOST, attempt_id=nth(1, 2))]
    await taken(store, epoch, Batch(40, lost=both))
    await taken(store, epoch, Batch(50, returned=[AttemptReturned(nth(1, n), 33) for n in (1, 2)]))
    for job_id in (1, 2):
        (attempt,) = await store.attempts(job_id)
        assert attempt == Attempt(nth(1, job_id), AttemptState.RUNNING, "n1", (0, 2), 15, 33)
        assert await status(store, job_id) is Status.RUNNING


async def test_an_attempt_that_returns_is_its_task_s_again(store: Store) -> None:
    epoch = await lost(store)
    events = await taken(store, epoch, Batch(70, returned=[replace(BACK, started_ms=99)]))
    data = {"attempt": 1, "node_id": "n1", "devices": [0, 2]}
    assert events == [Event(5, 70, "returned", 1, 0, data, "ann")]
    assert await store.attempts(1) == [Attempt(nth(1), AttemptState.RUNNING, "n1", (0, 2), 15, 20)]
    assert await store.job(1) == Job(
        1, a_job(), Status.RUNNING, 10, node_id="n1", devices=(0, 2), attempts=1, started_ms=20
    )
    await taken(store, epoch, Batch(95, ended=[end(Happening.SUCCEEDED)]))
    assert (await status(store), await used(store)) == (Status.COMPLETED, Amounts())


@pytest.mark.parametrize("how_far", ["scheduled", "running", "preempted"])
async def test_an_attempt_returns_however_far_its_task_has_come_elsewhere(store: Store, how_far: str) -> None:
    epoch = await lost(store)
    await taken(store, epoch, Batch(50, assigned=[SECOND]))
    if how_far != "scheduled":
        await taken(store, epoch, Batch(60, started=[Started(nth(2), 55)]))
    if how_far == "preempted":
        await taken(store, epoch, Batch(65, ended=[end(Happening.PREEMPTED, Cause.PREEMPTED, number=2)]))
    assert await status(store) == how_far
    await taken(store, epoch, Batch(70, returned=[BACK]))
    job = await store.job(1)
    assert job is not None
    assert (job.status, job.node_id, job.devices, job.started_ms, job.attempts) == (
        Status.RUNNING, "n1", (0, 2), 20, 2,
    )  # fmt: skip


async def test_the_other_attempt_is_stopped_while_its_task_goes_on(store: Store) -> None:
    epoch = await elsewhere(store)
    over = Superseded(nth(2), "the first one has run longer")
    events = await taken(store, epoch, Batch(70, returned=[BACK], superseded=[over]))
    data = {"attempt": 2, "node_id": "n2", "detail": "the first one has run longer"}
    assert [event.kind for event in events] == ["returned", "superseded"]
    assert events[1].data == data
    assert await store.attempt(nth(2)) == Attempt(
        nth(2), AttemptState.STOPPING, "n2", (1,), 50, 55, stop_cause=Cause.SUPERSEDED
    )
    assert (await status(store), await live(store)) == (Status.RUNNING, [1, 2])
    (event,) = await taken(store, epoch, Batch(81, gone=[AttemptGone(nth(2), STOPPED)]))
    assert (event.kind, event.data) == (
        "gone",
        {"attempt": 2, "node_id": "n2", "devices": [1], "cause": "superseded", "signal": 15},
    )
    job = await store.job(1)
    assert job is not None
    assert (job.status, job.node_id, job.started_ms) == (Status.RUNNING, "n1", 20)
    gone = await store.attempt(nth(2))
    assert gone is not None
    assert (gone.state, gone.exit) == (AttemptState.ENDED, STOPPED)
    assert (await live(store), await used(store)) == ([1], PER_JOB)


async def test_a_task_ends_once_though_a_superseded_attempt_lingers(store: Store) -> None:
    await store.create_tenant(Tenant("lab"), ROOT, 1)
    epoch = await back(store)
    await store.submit([a_job()], 75)
    await taken(store, epoch, Batch(90, ended=[end(Happening.SUCCEEDED)]))
    assert (await status(store), await live(store), await used(store)) == (Status.COMPLETED, [2], PER_JOB)
    late = end(Happening.FAILED, number=2)
    assert await refused(store, epoch, Batch(95, ended=[late])) == [late]
    await taken(store, epoch, Batch(96, gone=[AttemptGone(nth(2), STOPPED)]))
    assert (await live(store), await used(store)) == ([], PER_JOB)


async def test_a_superseded_attempt_can_only_be_gone(store: Store) -> None:
    epoch = await back(store)
    changes = Batch(
        80,
        started=[Started(nth(2), 79)],
        returned=[AttemptReturned(nth(2), 55)],
        superseded=[Superseded(nth(2))],
        stop_ordered=[StopOrdered(nth(2), Cause.CANCELLED)],
        ended=[end(happening, number=2) for happening in (Happening.SUCCEEDED, Happening.REQUEUED)],
        lost=[AttemptLost(nth(2), SILENT, requeue) for requeue in (True, False)],
    )
    assert await refused(store, epoch, changes) == [
        change for changes in changes.in_order() for change in changes
    ]


async def test_a_superseded_attempt_that_starts_late_does_not_start_the_next_one_s_task(
    store: Store,
) -> None:
    epoch = await lost(store)
    await taken(store, epoch, Batch(50, assigned=[SECOND]))
    await taken(store, epoch, Batch(60, returned=[BACK], superseded=[Superseded(nth(2))]))
    await taken(store, epoch, Batch(70, ended=[end(Happening.REQUEUED, Cause.REBOOTED)]))
    await taken(store, epoch, Batch(75, assigned=[assign(1, 3)]))
    late = Started(nth(2), 71)
    assert await refused(store, epoch, Batch(80, started=[late])) == [late]
    assert await status(store) is Status.SCHEDULED
    await taken(store, epoch, Batch(81, started=[Started(nth(3), 79)]))
    assert await live(store) == [2, 3]


async def test_the_stop_of_an_attempt_becomes_that_of_a_superseded_one(store: Store) -> None:
    epoch = await elsewhere(store)
    await taken(store, epoch, Batch(65, stop_ordered=[StopOrdered(nth(2), Cause.PREEMPTED, "eve")]))
    await taken(store, epoch, Batch(70, returned=[BACK], superseded=[Superseded(nth(2))]))
    attempt = await store.attempt(nth(2))
    assert attempt is not None
    assert (attempt.state, attempt.stop_cause, attempt.stop_by) == (
        AttemptState.STOPPING, Cause.SUPERSEDED, None,
    )  # fmt: skip


async def test_nobody_is_superseded_whose_task_has_no_other_attempt(store: Store) -> None:
    epoch = await running(store)
    alone, order = Superseded(nth(1)), StopOrdered(nth(1), Cause.SUPERSEDED)
    assert await refused(store, epoch, Batch(30, superseded=[alone], stop_ordered=[order])) == [alone, order]
    await taken(store, epoch, Batch(40, lost=[LOST]))
    await taken(store, epoch, Batch(41, gone=[AttemptGone(nth(1), STOPPED)]))
    await taken(store, epoch, Batch(50, assigned=[SECOND]))
    still_alone = Superseded(nth(2))
    assert await refused(store, epoch, Batch(60, superseded=[still_alone])) == [still_alone]


async def test_a_lost_attempt_that_succeeded_ends_its_task_though_it_waits(store: Store) -> None:
    epoch = await lost(store)
    (event,) = await taken(store, epoch, Batch(95, ended=[end(Happening.SUCCEEDED)]))
    assert (event.kind, event.data["attempt"]) == ("succeeded", 1)
    assert await store.job(1) == Job(
        1, a_job(), Status.COMPLETED, 10, Cause.EXITED, "as told", 0, "n1", (0, 2), 1, 20, 90
    )
    assert (await states(store), await used(store)) == ([AttemptState.ENDED], Amounts())


async def test_a_lost_attempt_that_succeeded_ends_its_task_though_it_runs_elsewhere(store: Store) -> None:
    epoch = await elsewhere(store)
    done = Batch(95, superseded=[Superseded(nth(2))], ended=[end(Happening.SUCCEEDED)])
    await taken(store, epoch, done)
    job = await store.job(1)
    assert job is not None
    assert (job.status, job.node_id, job.devices, job.started_ms) == (Status.COMPLETED, "n1", (0, 2), 20)
    assert (await live(store), await used(store)) == ([2], Amounts())
    assert (await store.load()).tasks == []
    await taken(store, epoch, Batch(99, gone=[AttemptGone(nth(2), STOPPED)]))
    assert (await live(store), await used(store)) == ([], Amounts())


async def test_what_a_task_that_is_over_left_running_is_stopped_or_gone(store: Store) -> None:
    epoch = await elsewhere(store)
    await taken(store, epoch, Batch(95, ended=[end(Happening.SUCCEEDED)]))
    late = end(Happening.SUCCEEDED, number=2)
    gave_up = AttemptLost(nth(2), SILENT, requeue=True)
    assert await refused(store, epoch, Batch(96, ended=[late], lost=[gave_up])) == [late, gave_up]
    await taken(store, epoch, Batch(97, superseded=[Superseded(nth(2))]))
    assert await live(store) == [2]
    await taken(store, epoch, Batch(98, gone=[AttemptGone(nth(2), STOPPED)]))
    assert (await states(store), await used(store)) == ([AttemptState.ENDED] * 2, Amounts())


async def test_a_lost_attempt_cannot_put_its_task_back(store: Store) -> None:
    epoch = await elsewhere(store)
    puts_back = [end(happening) for happening in (Happening.REQUEUED, Happening.PREEMPTED, Happening.LOST)]
    assert await refused(store, epoch, Batch(70, ended=puts_back)) == puts_back
    await taken(store, epoch, Batch(71, ended=[end(Happening.CANCELLED, Cause.CANCELLED)]))
    assert await status(store) is Status.CANCELLED


async def test_a_lost_attempt_that_is_gone_keeps_its_real_exit_and_leaves_its_task_alone(
    store: Store,
) -> None:
    epoch = await elsewhere(store)
    real = Exit(Cause.EXITED, 3, started_ms=19, ended_ms=45)
    await taken(store, epoch, Batch(70, gone=[AttemptGone(nth(1), real)]))
    assert await store.attempt(nth(1)) == Attempt(nth(1), AttemptState.ENDED, "n1", (0, 2), 15, 20, real)
    job = await store.job(1)
    assert job is not None
    assert (job.status, job.node_id, job.started_ms) == (Status.RUNNING, "n2", 55)
    assert await refused(store, epoch, Batch(71, returned=[BACK])) == [BACK]


async def test_only_what_is_lost_returns_and_only_to_a_task_that_is_not_over(store: Store) -> None:
    epoch = await running(store)
    unknown = [AttemptReturned(nth(2), 1), AttemptReturned(nth(1, 9), 1)]
    assert await refused(store, epoch, Batch(30, returned=[BACK, *unknown])) == [BACK, *unknown]
    await taken(store, epoch, Batch(40, lost=[LOST]))
    closed = TaskClosed(TaskId(1, 0), Happening.CANCELLED, Cause.CANCELLED)
    await taken(store, epoch, Batch(50, closed=[closed]))
    assert await refused(store, epoch, Batch(60, returned=[BACK])) == [BACK]
    late = end(Happening.SUCCEEDED)
    assert await refused(store, epoch, Batch(61, ended=[late])) == [late]
    await taken(store, epoch, Batch(62, gone=[AttemptGone(nth(1), STOPPED)]))
    assert (await status(store), await used(store)) == (Status.CANCELLED, Amounts())


async def test_what_its_task_runs_on_is_not_gone_and_what_is_over_is_not_lost(store: Store) -> None:
    epoch = await running(store)
    gone = [AttemptGone(attempt_id, STOPPED) for attempt_id in (nth(1), nth(2), nth(1, 9))]
    unknown = [replace(LOST, attempt_id=attempt_id) for attempt_id in (nth(2), nth(1, 9))]
    assert await refused(store, epoch, Batch(30, lost=unknown, gone=gone)) == [*unknown, *gone]
    await taken(store, epoch, Batch(40, ended=[end(Happening.REQUEUED, Cause.REBOOTED)]))
    assert await refused(store, epoch, Batch(50, lost=[LOST], gone=gone[:1])) == [LOST, gone[0]]


async def test_only_an_attempt_succeeds(store: Store) -> None:
    epoch = await lost(store)
    closed = TaskClosed(TaskId(1, 0), Happening.SUCCEEDED, Cause.EXITED)
    assert await refused(store, epoch, Batch(50, closed=[closed])) == [closed]


async def test_one_batch_may_lose_let_go_and_assign_again(store: Store) -> None:
    epoch = await running(store)
    batch = Batch(40, lost=[LOST], gone=[AttemptGone(nth(1), SILENT)], assigned=[SECOND])
    assert [event.kind for event in await taken(store, epoch, batch)] == ["lost", "gone", "assigned"]
    assert await states(store) == [AttemptState.ENDED, AttemptState.ASSIGNED]
    both = Batch(60, superseded=[Superseded(nth(2))], lost=[LOST])
    assert await refused(store, epoch, both) == [*both.superseded, *both.lost]


async def test_the_origins_of_attempts_are_read_at_once_and_unknown_ones_are_missing(store: Store) -> None:
    epoch = await lost(store)
    await taken(store, epoch, Batch(50, assigned=[SECOND]))
    await store.submit([a_job(name="other")], 60)
    names = [nth(1), nth(2), nth(2), nth(3), TaskId(2, 0).attempt(1), TaskId(99, 0).attempt(1)]
    job, attempts = await store.job(1), await store.attempts(1)
    assert job is not None
    found = await store.origins(names)
    assert found == {nth(number): Origin(attempts[number - 1], job.spec) for number in (1, 2)}
    assert await store.origins([]) == {}
