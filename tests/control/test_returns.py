"""A node that was lost is heard again: of the attempts that a task has by then, one goes on."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.control.control_story import DONE, FakeNode, Leader, capacity, play, says, spec
from tgpu.core.invariants import violations
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Attempt, OnReturn
from tgpu.domain.lifecycle import AttemptState, Cause, Status
from tgpu.protocol.messages import Heard, Heartbeat, NodeUse, Orders, Phase, Stop

FAILED = replace(DONE, exit_code=3)
STOPPED = replace(DONE, cause=Cause.SUPERSEDED, exit_code=None, signal=15)
WHY = "its task goes on with another attempt, or is over"


class Split:
    """Job 1 ran on n1, which then was cut off; by now it waits, or its second attempt is on n2."""

    def __init__(self, leader: Leader, other: FakeNode) -> None:
        self.leader = leader
        self.other = other
        self.beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(5)
            self.other.beats()

    @classmethod
    async def made(cls, *, has_room: bool = True, **job: Any) -> "Split":
        leader = Leader()
        first = await leader.node("n1")
        await leader.submit(spec(gpus=2, **job))
        first.reports(says("1.0.1"))
        await asyncio.sleep(0.1)
        split = cls(leader, await leader.node("n2"))
        if not has_room:
            await leader.submit(spec(gpus=1))
        await asyncio.sleep(18)
        assert (await split.attempts())[0].state is AttemptState.LOST
        return split

    async def attempts(self) -> list[Attempt]:
        return await self.leader.store.attempts(1)

    async def states(self) -> list[AttemptState]:
        return [attempt.state for attempt in await self.attempts()]

    async def back(self, phase: Phase = Phase.RUNNING, how: Any = None) -> FakeNode:
        node = await self.leader.node("n1", says("1.0.1", phase, how))
        await asyncio.sleep(0.1)
        return node

    def current(self) -> str:
        return str(self.leader.control.picture.placed[TaskId(1, 0)].attempt_id)

    def is_sound(self) -> bool:
        return violations(self.leader.control.picture) == [] and self.leader.watch.drift == 0


def stops(node: FakeNode) -> list[Stop]:
    return [stop for said in node.heard if isinstance(said, Orders) for stop in said.stops]


def test_one_whose_task_still_waits_is_taken_back() -> None:
    async def story() -> None:
        split = await Split.made(has_room=False)
        assert await split.leader.status(1) is Status.PENDING
        node = await split.back()
        assert await split.states() == [AttemptState.RUNNING]
        assert (await split.leader.status(1), split.current()) == (Status.RUNNING, "1.0.1")
        assert (node.stopped(), node.forgot(), split.is_sound()) == ([], [], True)
        node.reports(says("1.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(0.1)
        assert await split.leader.status(1) is Status.COMPLETED

    play(story())


def test_the_one_that_has_run_longest_goes_on_and_the_other_keeps_its_room_until_it_is_gone() -> None:
    async def story() -> None:
        split = await Split.made()
        split.other.reports(says("1.0.2"))
        node = await split.back()
        assert await split.states() == [AttemptState.RUNNING, AttemptState.STOPPING]
        assert split.current() == "1.0.1"
        assert stops(split.other) == [Stop(attempt="1.0.2", cause=Cause.SUPERSEDED, detail=WHY)]
        await split.leader.submit(spec(gpus=2))
        await asyncio.sleep(5)
        assert await split.leader.status(2) is Status.PENDING
        assert (len(stops(split.other)) > 1, split.is_sound()) == (True, True)
        split.other.reports(says("1.0.2", Phase.ENDED, STOPPED))
        await asyncio.sleep(0.1)
        assert split.other.launched()[-1] == "2.0.1"
        assert (await split.leader.status(1), node.stopped()) == (Status.RUNNING, [])
        assert (await split.attempts())[1].exit == STOPPED

    play(story())


@pytest.mark.parametrize("job", [{"once": True}, {"on_return": OnReturn.REPLACEMENT}])
def test_of_a_job_that_says_so_the_replacement_goes_on(job: dict[str, Any]) -> None:
    async def story() -> None:
        split = await Split.made(**job)
        split.other.reports(says("1.0.2"))
        node = await split.back()
        assert await split.states() == [AttemptState.LOST, AttemptState.RUNNING]
        assert (split.current(), stops(split.other)) == ("1.0.2", [])
        assert stops(node) == [Stop(attempt="1.0.1", cause=Cause.SUPERSEDED, detail=WHY)]
        assert split.leader.control.picture.left("n1").gpu_free == (0, 0)
        node.reports(says("1.0.1", Phase.ENDED, STOPPED))
        await asyncio.sleep(0.1)
        assert split.leader.control.picture.left("n1").gpu_free == (1000, 1000)
        assert (await split.attempts())[0].exit == STOPPED
        assert (await split.leader.status(1), split.is_sound()) == (Status.RUNNING, True)

    play(story())


def test_one_that_is_being_cancelled_is_not_brought_back_by_another_attempt() -> None:
    async def story() -> None:
        split = await Split.made()
        split.other.reports(says("1.0.2"))
        await split.leader.cancel(1)
        node = await split.back()
        assert (split.current(), node.stopped()) == ("1.0.2", ["1.0.1"])

    play(story())


@pytest.mark.parametrize("has_room", [False, True], ids=["waits", "runs-elsewhere"])
def test_work_that_was_done_out_of_sight_counts(has_room: bool) -> None:
    async def story() -> None:
        split = await Split.made(has_room=has_room)
        await split.back(Phase.ENDED, DONE)
        job = await split.leader.store.job(1)
        assert job is not None
        assert (job.status, job.exit_code, job.node_id) == (Status.COMPLETED, 0, "n1")
        assert split.other.stopped() == (["1.0.2"] if has_room else [])
        if has_room:
            assert await split.states() == [AttemptState.ENDED, AttemptState.STOPPING]
            split.other.reports(says("1.0.2", Phase.ENDED, STOPPED))
            await asyncio.sleep(0.1)
            assert await split.states() == [AttemptState.ENDED, AttemptState.ENDED]
        (tenant,) = await split.leader.store.tenants()
        assert tenant.used.gpu_milli == (0 if has_room else 1000)
        assert split.is_sound()

    play(story())


@pytest.mark.parametrize("has_room", [False, True], ids=["waits", "runs-elsewhere"])
def test_a_failure_out_of_sight_is_written_down_and_the_next_try_goes_on(has_room: bool) -> None:
    async def story() -> None:
        split = await Split.made(has_room=has_room)
        node = await split.back(Phase.ENDED, FAILED)
        assert (await split.leader.status(1), split.current()) == (Status.SCHEDULED, "1.0.2")
        assert (node.launched(), split.other.stopped()) == ([] if has_room else ["1.0.2"], [])
        assert (await split.attempts())[0].exit == FAILED
        assert split.is_sound()

    play(story())


def test_one_whose_task_is_over_is_stopped_and_keeps_its_room_until_it_is_gone() -> None:
    async def story() -> None:
        split = await Split.made()
        split.other.reports(says("1.0.2", Phase.ENDED, DONE))
        await asyncio.sleep(0.1)
        node = await split.back()
        assert node.stopped() == ["1.0.1"]
        assert split.leader.control.picture.left("n1").gpu_free == (0, 0)
        again = await split.leader.node("n1")  # it no longer knows it
        assert split.leader.control.picture.left("n1").gpu_free == (1000, 1000)
        assert (again.stopped(), await split.states()) == ([], [AttemptState.ENDED, AttemptState.ENDED])
        assert await split.leader.status(1) is Status.COMPLETED

    play(story())


def test_the_next_leader_knows_who_was_left_behind_and_says_it_again() -> None:
    async def story() -> None:
        split = await Split.made()
        split.other.reports(says("1.0.2"))
        await split.back()
        split.leader.running.cancel()
        leader = Leader(split.leader.store)
        other = await leader.node("n2", says("1.0.2"))
        assert stops(other) == [Stop(attempt="1.0.2", cause=Cause.SUPERSEDED, detail=WHY)]
        assert leader.control.picture.left("n2").gpu_free == (0, 0)
        await asyncio.sleep(12)
        assert leader.watch.drift == 0
        other.reports(says("1.0.2", Phase.ENDED, STOPPED))
        await asyncio.sleep(0.1)
        assert leader.control.picture.left("n2").gpu_free == (1000, 1000)

    play(story())


def test_one_that_was_left_behind_on_a_node_that_is_lost_too_is_given_up() -> None:
    async def story() -> None:
        split = await Split.made()
        split.other.reports(says("1.0.2"))
        node = await split.back()
        split.beating.cancel()
        for _ in range(5):
            await asyncio.sleep(5)
            node.beats()
        assert await split.states() == [AttemptState.RUNNING, AttemptState.ENDED]
        other = await split.leader.node("n2", says("1.0.2"))
        assert other.stopped() == ["1.0.2"]
        other.reports(says("1.0.2", Phase.ENDED, STOPPED))
        await asyncio.sleep(0.1)
        assert split.leader.control.picture.left("n2").gpu_free == (1000, 1000)
        assert (await split.leader.status(1), split.is_sound()) == (Status.RUNNING, True)

    play(story())


def test_a_return_and_the_end_of_the_replacement_in_one_turn_are_taken_one_after_the_other() -> None:
    async def story() -> None:
        split = await Split.made()
        split.other.reports(says("1.0.2"))
        await asyncio.sleep(0.1)
        node = FakeNode(split.leader.hub, "n1")
        split.other.reports(says("1.0.2", Phase.ENDED, replace(DONE, cause=Cause.REBOOTED, exit_code=None)))
        node.says_hello(says("1.0.1"))
        await asyncio.sleep(0.1)
        picture, status = split.leader.control.picture, await split.leader.status(1)
        assert (status, TaskId(1, 0) in picture.placed) == (Status.RUNNING, True)
        await asyncio.sleep(12)
        assert (split.current(), split.is_sound()) == ("1.0.1", True)

    play(story())


def test_a_heartbeat_is_acknowledged_only_when_the_hello_is_committed_and_its_orders_are_out() -> None:
    async def story() -> None:
        split = await Split.made(once=True)
        split.other.reports(says("1.0.2"))
        await asyncio.sleep(0.1)
        node = FakeNode(split.leader.hub, "n1")
        node.says_hello(says("1.0.1"))
        node.session.received(Heartbeat(use=NodeUse(), sent=7.5))
        assert [said for said in node.heard if isinstance(said, Heard)] == []
        await asyncio.sleep(0.1)
        kinds = [type(said) for said in node.heard if isinstance(said, Heard | Orders)]
        assert kinds == [Orders, Heard]
        assert node.heard[-1] == Heard(sent=7.5)

    play(story())


def test_a_hello_that_says_nothing_new_of_its_node_writes_nothing() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        (first,) = await leader.store.nodes()
        node.close()
        await asyncio.sleep(7)
        again = FakeNode(leader.hub)
        again.says_hello()
        again.session.received(Heartbeat(use=NodeUse(), sent=1.0))
        await asyncio.sleep(0.1)
        assert await leader.store.nodes() == [first]
        assert leader.control.picture.places["n1"].takes_tasks
        assert isinstance(again.heard[-1], Heard)
        again.beats(capacity(gpus=1))
        await asyncio.sleep(0.1)
        (smaller,) = await leader.store.nodes()
        assert smaller.capacity == capacity(gpus=1)

    play(story())
