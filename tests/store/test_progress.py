import pytest

from tests.store.store_story import a_job, a_node, assign, end, nth, running
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Attempt, Event, Exit, Job
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, NodeState, Status
from tgpu.store.port import (
    Assigned,
    AttemptEnded,
    Batch,
    DeposedError,
    JobTimes,
    Receipt,
    Started,
    StopOrdered,
    Store,
    TaskClosed,
)
from tgpu.store.task_paging import TaskPaging


async def test_when_a_task_saved_its_work_is_kept_and_time_does_not_go_back(store: Store) -> None:
    epoch = await running(store)

    async def seen() -> tuple[int | None, int | None]:
        (task,) = await store.tasks(1, TaskPaging())
        (brief,) = (await store.load()).tasks
        return task.checkpoint_ms, brief.checkpoint_ms

    assert await seen() == (None, None)
    receipt = await store.commit(epoch, Batch(30, saved={TaskId(1, 0): 25}))
    assert (receipt.refused, receipt.events, await seen()) == ([], [], (25, 25))
    for at_ms in (20, 25):
        await store.commit(epoch, Batch(40, saved={TaskId(1, 0): at_ms, TaskId(9, 0): 1}))
        assert await seen() == (25, 25), "nor is an unknown task any harm"
    await store.commit(
        epoch,
        Batch(50, saved={TaskId(1, 0): 45}, ended=[end(Happening.PREEMPTED, Cause.PREEMPTED, None)]),
    )
    assert await seen() == (45, 45), "also when it waits again"
    with pytest.raises(DeposedError):
        await store.commit(epoch - 1, Batch(60, saved={TaskId(1, 0): 55}))


async def test_an_assignment_is_taken_with_its_attempt_event_and_spec(store: Store) -> None:
    epoch = await store.claim()
    spec = a_job()
    await store.submit([spec], 10)
    event = Event(2, 15, "assigned", 1, 0, {"attempt": 1, "node_id": "n1", "devices": [0, 2]}, "ann")
    assert await store.commit(epoch, Batch(15, assigned=[assign()])) == Receipt([], [event], {1: spec})
    assert await store.job(1) == Job(1, spec, Status.SCHEDULED, 10, node_id="n1", devices=(0, 2), attempts=1)
    assert await store.attempts(1) == [Attempt(nth(1), AttemptState.ASSIGNED, "n1", (0, 2), 15)]


async def test_a_start_and_an_end_are_recorded_on_attempt_and_job(store: Store) -> None:
    epoch = await running(store)
    job = await store.job(1)
    assert job is not None
    assert (job.status, job.started_ms) == (Status.RUNNING, 20)
    change = end(Happening.FAILED, exit_code=3)
    receipt = await store.commit(epoch, Batch(95, ended=[change]))
    data = {
        "attempt": 1, "node_id": "n1", "devices": [0, 2], "cause": "exited", "exit_code": 3,
        "detail": "as told",
    }  # fmt: skip
    assert receipt == Receipt([], [Event(4, 95, "failed", 1, 0, data, "ann")], {})
    assert await store.job(1) == Job(
        1, a_job(), Status.FAILED, 10, Cause.EXITED, "as told", 3, "n1", (0, 2), 1, 20, 90
    )
    assert await store.attempts(1) == [Attempt(nth(1), AttemptState.ENDED, "n1", (0, 2), 15, 20, change.exit)]
    assert (await store.load()).tasks == []


async def test_an_end_before_any_start_takes_the_times_from_the_record(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_job()], 10)
    await store.commit(epoch, Batch(15, assigned=[assign()]))
    unheard = AttemptEnded(nth(1), Exit(Cause.COULD_NOT_START, detail="no such file"), Happening.FAILED)
    await store.commit(epoch, Batch(16, ended=[unheard]))
    job = await store.job(1)
    assert job is not None
    assert (job.started_ms, job.ended_ms, job.detail) == (None, 16, "no such file")
    await store.submit([a_job()], 10)
    await store.commit(epoch, Batch(17, assigned=[assign(2)]))
    await store.commit(epoch, Batch(18, ended=[end(Happening.SUCCEEDED, job_id=2)]))
    job = await store.job(2)
    assert job is not None
    assert (job.started_ms, job.ended_ms, job.status) == (21, 90, Status.COMPLETED)


async def test_one_batch_may_start_end_and_assign_again(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_job(), a_job()], 10)
    await store.commit(epoch, Batch(15, assigned=[assign(1), assign(2)]))
    batch = Batch(
        30,
        started=[Started(nth(1), 20)],
        ended=[end(Happening.SUCCEEDED), end(Happening.REQUEUED, Cause.NODE_LOST, None, job_id=2)],
        assigned=[assign(2, 2)],
    )
    receipt = await store.commit(epoch, batch)
    assert receipt.refused == []
    assert [event.kind for event in receipt.events] == ["started", "succeeded", "requeued", "assigned"]
    assert receipt.specs == {2: a_job()}
    job = await store.job(2)
    assert job is not None
    assert (job.status, job.attempts) == (Status.SCHEDULED, 2)
    assert [attempt.state for attempt in await store.attempts(2)] == [
        AttemptState.ENDED,
        AttemptState.ASSIGNED,
    ]


@pytest.mark.parametrize(
    ("happening", "status"),
    [(Happening.REQUEUED, Status.PENDING), (Happening.PREEMPTED, Status.PREEMPTED)],
)
async def test_a_task_that_is_put_back_waits_again_nowhere(
    store: Store, happening: Happening, status: Status
) -> None:
    epoch = await running(store)
    receipt = await store.commit(epoch, Batch(30, ended=[end(happening, Cause.NODE_LOST, None)]))
    assert receipt.events[0].data["cause"] == "node-lost"
    assert await store.job(1) == Job(1, a_job(), status, 10, attempts=1)
    (brief,) = (await store.load()).tasks
    assert (brief.status, brief.attempts) == (status, 1)
    assert (await store.commit(epoch, Batch(31, assigned=[assign(1, 2)]))).refused == []


async def test_an_attempt_that_is_to_stop_says_why_and_keeps_stopping_when_it_starts(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_job()], 10)
    await store.commit(epoch, Batch(15, assigned=[assign()]))
    order = StopOrdered(nth(1), Cause.CANCELLED, "bob")
    receipt = await store.commit(epoch, Batch(16, stop_ordered=[order]))
    data = {"attempt": 1, "node_id": "n1", "cause": "cancelled", "by": "bob"}
    assert receipt.events == [Event(3, 16, "stop-ordered", 1, 0, data, "ann")]
    receipt = await store.commit(epoch, Batch(18, started=[Started(nth(1), 17)]))
    assert receipt.refused == []
    assert await store.attempts(1) == [
        Attempt(nth(1), AttemptState.STOPPING, "n1", (0, 2), 15, 17, None, Cause.CANCELLED, "bob")
    ]
    job = await store.job(1)
    assert job is not None
    assert (job.status, job.started_ms) == (Status.RUNNING, 17)
    again = Started(nth(1), 19)
    assert (await store.commit(epoch, Batch(20, started=[again], stop_ordered=[order]))).refused == [
        again,
        order,
    ]
    assert (await store.attempts(1))[0].started_ms == 17


async def test_what_is_repeated_late_or_unknown_is_refused_alone(store: Store) -> None:
    epoch = await running(store)
    await store.commit(epoch, Batch(30, ended=[end(Happening.SUCCEEDED)]))
    await store.submit([a_job()], 31)
    batch = Batch(
        40,
        started=[Started(nth(1), 35), Started(nth(2), 35), Started(nth(1, job_id=9), 35)],
        stop_ordered=[StopOrdered(nth(1), Cause.CANCELLED)],
        ended=[end(Happening.FAILED), end(Happening.FAILED, job_id=9)],
        closed=[TaskClosed(TaskId(1, 0), Happening.CANCELLED, Cause.CANCELLED)],
        assigned=[
            assign(1, 2),
            assign(2, 2),
            assign(9),
            Assigned(nth(1, 2)._replace(task_index=1), "n1", ()),
        ],
    )
    before = [await store.job(1), await store.attempts(1)]
    receipt = await store.commit(
        epoch, Batch(40, **{**_lists(batch), "assigned": [*batch.assigned, assign(2)]})
    )
    assert receipt.refused == [
        *batch.started, *batch.stop_ordered, *batch.ended, *batch.closed, *batch.assigned,
    ]  # fmt: skip
    assert [event.kind for event in receipt.events] == ["assigned"]
    assert [await store.job(1), await store.attempts(1)] == before


def _lists(batch: Batch) -> dict[str, list[object]]:
    return {
        name: getattr(batch, name)
        for name in ("nodes", "started", "stop_ordered", "ended", "closed", "assigned")
    }


async def test_an_end_cannot_leave_its_task_running(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_job()], 10)
    await store.commit(epoch, Batch(15, assigned=[assign()]))
    for happening in (Happening.STARTED, Happening.ASSIGNED, Happening.SUBMITTED):
        assert len((await store.commit(epoch, Batch(16, ended=[end(happening)]))).refused) == 1
    assert (await store.attempts(1))[0].state is AttemptState.ASSIGNED


async def test_only_a_task_that_waits_can_be_closed(store: Store) -> None:
    epoch = await running(store)
    await store.submit([a_job()], 30)
    waiting = TaskClosed(TaskId(2, 0), Happening.FAILED, Cause.WAITED_TOO_LONG, "after 5 s")
    held = TaskClosed(TaskId(1, 0), Happening.CANCELLED, Cause.CANCELLED)
    odd = TaskClosed(TaskId(2, 0), Happening.ASSIGNED, Cause.CANCELLED)
    receipt = await store.commit(epoch, Batch(40, closed=[odd, waiting, held]))
    assert receipt.refused == [odd, held]
    data = {"cause": "waited-too-long", "detail": "after 5 s"}
    assert receipt.events == [Event(5, 40, "failed", 2, 0, data, "ann")]
    assert await store.job(2) == Job(
        2, a_job(), Status.FAILED, 30, Cause.WAITED_TOO_LONG, "after 5 s", ended_ms=40
    )


async def test_a_job_that_somebody_wants_cancelled_is_not_assigned(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_job()], 10)
    await store.request_cancel([1], "ann", 11)
    assert (await store.commit(epoch, Batch(15, assigned=[assign()]))).refused == [assign()]
    assert await store.attempts(1) == []


async def test_nobody_but_the_newest_epoch_writes(store: Store) -> None:
    old = await store.claim()
    await store.submit([a_job()], 10)
    new = await store.claim()
    assert new > old
    with pytest.raises(DeposedError, match=f"{new} leads"):
        await store.commit(old, Batch(11, nodes=[a_node()], assigned=[assign()]))
    assert await store.nodes() == []
    assert (await store.commit(new, Batch(12, assigned=[assign()]))).refused == []


async def test_nodes_are_added_and_replaced(store: Store) -> None:
    epoch = await store.claim()
    await store.commit(epoch, Batch(1, nodes=[a_node("n2"), a_node("n1")]))
    assert await store.nodes() == [a_node("n1"), a_node("n2")]
    await store.commit(epoch, Batch(2, nodes=[a_node("n1", NodeState.OFFLINE)]))
    assert await store.nodes() == [a_node("n1", NodeState.OFFLINE), a_node("n2")]


async def test_the_world_is_everything_that_is_live(store: Store) -> None:
    epoch = await running(store)
    await store.submit([a_job("bob"), a_job()], 30)
    await store.request_cancel([2], "eve", 31)
    await store.commit(epoch, Batch(32, nodes=[a_node()]))
    world = await store.load()
    assert (world.seq, world.nodes) == (await store.last_seq(), [a_node()])
    assert [(brief.task_id.job_id, brief.status, brief.cancel_by) for brief in world.tasks] == [
        (1, Status.RUNNING, None),
        (2, Status.PENDING, "eve"),
        (3, Status.PENDING, None),
    ]
    assert world.attempts == await store.attempts(1)
    await store.commit(epoch, Batch(33, ended=[end(Happening.SUCCEEDED)]))
    world = await store.load()
    assert ([brief.task_id.job_id for brief in world.tasks], world.attempts) == ([2, 3], [])


async def test_recent_times_are_those_of_running_jobs_and_of_the_jobs_that_ended_last(store: Store) -> None:
    epoch = await running(store)
    assert await store.recent_times(5) == [JobTimes(10, 20, None)]
    await store.commit(epoch, Batch(95, ended=[end(Happening.FAILED, exit_code=3)]))
    (ended,) = await store.recent_times(5)
    assert (ended.submitted_ms, ended.started_ms) == (10, 20)
    assert ended.ended_ms is not None
    assert await store.recent_times(0) == []
