"""A plan becomes part of the picture and of the next transaction, or is stopped as the bug it is."""

import asyncio
from dataclasses import replace

import pytest

from tests.control.control_story import POLICY, picture_with, play, running, task
from tgpu.control import committer, reports, wishes
from tgpu.control.committer import BrokenPromiseError, assume
from tgpu.control.inbox import NodeLeft
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.core.plan import Claim, Plan, Preempt, Start
from tgpu.core.planner import plan
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import AttemptState, Cause, Status
from tgpu.domain.priority import PriorityClass
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Assigned, Batch, CancelAsked, Changes, StopOrdered

URGENT = task(9, gpus=2, priority_class=PriorityClass.HIGH)
LOW = [task(number, priority_class=PriorityClass.LOW) for number in (1, 2, 3, 4)]
MAKE_WAY = Plan(
    0,
    preempts=(
        Preempt((TaskId(1, 0).attempt(1), TaskId(2, 0).attempt(1)), (Claim(URGENT.task_id, "n1", (0, 1)),)),
    ),
)


def full() -> Picture:
    """Four tasks on four GPUs, and an urgent one that waits."""
    picture = picture_with(URGENT, placed=LOW)
    for each in LOW:
        running(picture, each.task_id.job_id)
    return picture


def assumed(picture: Picture, made: Plan) -> Batch:
    turn = Turn(Batch(0))
    assume(picture, made, turn)
    return turn.batch


def decided(picture: Picture) -> Batch:
    return assumed(picture, plan(picture, POLICY, whole=True))


def test_a_start_is_placed_and_written_down_with_the_next_number() -> None:
    picture = picture_with(task(1, attempts=2))
    batch = assumed(picture, Plan(0, (Start(TaskId(1, 0), "n1", (3,)),)))
    reserve = POLICY.gpu_ms(task(1))
    assert batch == Batch(0, assigned=[Assigned(TaskId(1, 0).attempt(3), "n1", (3,), reserve_gpu_ms=reserve)])
    assert (picture.waiting, list(picture.placed)) == ({}, [TaskId(1, 0)])


def test_who_makes_way_is_stopped_and_told_for_whom_and_keeps_its_room_until_it_is_gone() -> None:
    picture = full()
    batch = assumed(picture, MAKE_WAY)
    assert batch == Batch(
        0,
        stop_ordered=[
            StopOrdered(TaskId(number, 0).attempt(1), Cause.PREEMPTED, "job 9") for number in (1, 2)
        ],
    )
    victim = picture.placed[TaskId(1, 0)]
    assert (victim.state, victim.stop_cause) == (AttemptState.STOPPING, Cause.PREEMPTED)
    assert list(picture.claims) == [URGENT.task_id]
    assert URGENT.task_id in picture.waiting


def test_the_claim_is_fulfilled_when_the_last_victim_is_gone_and_not_before() -> None:
    picture = full()
    assumed(picture, MAKE_WAY)
    picture.release(TaskId(1, 0))
    assert decided(picture) == Batch(0)
    picture.release(TaskId(2, 0))
    started = Assigned(URGENT.task_id.attempt(1), "n1", (0, 1), reserve_gpu_ms=POLICY.gpu_ms(URGENT))
    assert decided(picture) == Batch(0, assigned=[started])
    assert (picture.claims, picture.preempts) == ({}, [])


def test_room_that_is_claimed_is_given_to_nobody_else() -> None:
    picture = full()
    assumed(picture, MAKE_WAY)
    picture.add_waiting(task(10, priority_class=PriorityClass.REAL_TIME, submitted_ms=1))
    picture.release(TaskId(1, 0))
    batch = decided(picture)
    assert batch.assigned == []
    assert [stop.by for stop in batch.stop_ordered] == ["job 10"]
    assert batch.stop_ordered[0].attempt_id in (TaskId(3, 0).attempt(1), TaskId(4, 0).attempt(1))


def test_nobody_is_stopped_twice_for_the_same_claim() -> None:
    picture = full()
    assert len(decided(picture).stop_ordered) == 2
    assert decided(picture) == Batch(0)


def test_a_claim_is_gone_with_the_wish_of_whoever_had_it() -> None:
    picture = full()
    assumed(picture, MAKE_WAY)
    wishes.take_in(picture, Changes(1, [], [CancelAsked(9, "bob")]), Turn(Batch(0)))
    assert (picture.claims, picture.preempts, picture.waiting) == ({}, [], {})


def test_a_claim_is_given_up_when_its_node_leaves_and_the_task_waits_as_before() -> None:
    picture = full()
    assumed(picture, MAKE_WAY)
    reports.take_in(picture, NodeLeft("n1"), Turn(Batch(0)), {})
    assert (picture.claims, picture.preempts) == ({}, [])
    assert list(picture.waiting) == [URGENT.task_id]


def test_a_plan_that_gives_out_what_is_not_there_is_never_committed() -> None:
    picture = picture_with(task(2), placed=[task(1)])
    with pytest.raises(BrokenPromiseError, match="n1: device 0 given out to 2000"):
        assumed(picture, Plan(0, (Start(TaskId(2, 0), "n1", (0,)),)))


def shrunk() -> Picture:
    """A node whose only task has more memory than the node has by now."""
    hungry = replace(task(1), request=Request(1000, 16000, 0, 0))
    picture = picture_with(placed=[hungry])
    node = picture.places["n1"].node
    picture.set_node(replace(node, capacity=replace(node.capacity, memory_mib=8000)))
    return picture


def test_a_node_that_came_back_too_small_for_what_it_runs_may_start_what_needs_none_of_that() -> None:
    picture = shrunk()
    picture.add_waiting(task(2))
    assert [assigned.attempt_id for assigned in decided(picture).assigned] == [TaskId(2, 0).attempt(1)]
    assert list(picture.places["n1"].attempts) == [TaskId(1, 0).attempt(1), TaskId(2, 0).attempt(1)]


def test_a_plan_that_makes_a_node_fuller_that_was_too_full_is_never_committed() -> None:
    picture = shrunk()
    picture.add_waiting(replace(task(2), request=Request(1000, 1, 0, 0)))
    with pytest.raises(BrokenPromiseError, match="n1: 16001 memory_mib given out of 8000"):
        assumed(picture, Plan(0, (Start(TaskId(2, 0), "n1", ()),)))


def test_a_task_whose_assignment_was_refused_waits_again_with_the_same_number() -> None:
    async def story() -> None:
        store, picture, turn = MemoryStore("c"), picture_with(task(1)), Turn(Batch(0))
        epoch = await store.claim()
        assume(picture, Plan(0, (Start(TaskId(1, 0), "n1", (0,)),)), turn)
        receipt = await committer.commit(store, epoch, picture, turn)  # the store knows no job 1
        await asyncio.sleep(0)
        assert receipt.refused == turn.batch.assigned
        waiting = picture.waiting[TaskId(1, 0)]
        assert (waiting.status, waiting.attempts, picture.placed) == (Status.PENDING, 0, {})
        assert waiting.eligible_ms == picture.now_ms + committer.RETRY_MS

    play(story())


def test_what_is_assigned_to_many_is_committed_in_parts_with_each_job_whole_and_all_else_first() -> None:
    jobs = [*range(1, committer.MOST_ASSIGNED), 77_777, *range(5000, 5010)]
    assigned = [Assigned(TaskId(job, 0).attempt(1), "n1", ()) for job in jobs]
    gang = [Assigned(TaskId(77_777, index).attempt(1), "n1", ()) for index in range(1, 4)]
    stop = StopOrdered(TaskId(9999, 0).attempt(1), Cause.PREEMPTED, "job 1")
    turn = Turn(Batch(7, stop_ordered=[stop], assigned=assigned + gang))
    turn.forget.append(("n1", "3.0.1"))
    first, second = committer.parts(turn)
    assert first is turn
    assert first.batch == Batch(
        7, stop_ordered=[stop], assigned=[*assigned[: committer.MOST_ASSIGNED], *gang]
    )
    assert second == Turn(Batch(7, assigned=assigned[committer.MOST_ASSIGNED :]))


def test_a_turn_of_the_usual_size_is_committed_as_it_is() -> None:
    turn = Turn(Batch(7, assigned=[Assigned(TaskId(1, 0).attempt(1), "n1", ())]))
    assert list(committer.parts(turn)) == [turn]
    assert list(committer.parts(Turn(Batch(7)))) == [Turn(Batch(7))]
