"""The whole loop on a memory store: nodes hear only what was committed, and all survives trouble."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.control.control_story import DONE, FakeNode, Leader, capacity, play, says, spec
from tgpu.control import committer
from tgpu.control.loop import TICK_S
from tgpu.control.orders import REPEAT_AFTER_S
from tgpu.core.engine import plain_with
from tgpu.core.plan import Plan
from tgpu.core.planner import plan
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import Cause, NodeState, Status
from tgpu.protocol.messages import Acknowledge, Phase
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch, Changes, DeposedError, Receipt, StoreUnavailableError, World


class MoodyStore(MemoryStore):
    """Away when it is told to be; `forgetful`: takes a commit and does not say so; `hasty`: somebody cancels
    job 1 between a decision and its commit."""

    def __init__(self) -> None:
        super().__init__("c")
        self.away = False
        self.forgetful = False
        self.hasty = False

    async def commit(self, epoch: int, batch: Batch) -> Receipt:
        if self.away:
            raise StoreUnavailableError("the disk is full")
        if self.hasty and batch.assigned:
            await self.request_cancel([1], "bob", batch.at_ms)
        receipt = await super().commit(epoch, batch)
        if self.forgetful:
            raise StoreUnavailableError("the connection broke")
        return receipt

    async def changes(self, after_seq: int, limit: int = 5000) -> Changes:
        if self.away:
            raise StoreUnavailableError("the disk is full")
        return await super().changes(after_seq, limit)

    async def load(self) -> World:
        if self.away:
            raise StoreUnavailableError("the disk is full")
        return await super().load()


def test_a_job_is_assigned_launched_started_and_ended() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        (job_id,) = await leader.submit(spec(name="train"))
        assert node.launched() == ["1.0.1"]
        assert await leader.status(job_id) is Status.SCHEDULED
        node.reports(says("1.0.1"))
        await asyncio.sleep(0.01)
        assert await leader.status(job_id) is Status.RUNNING
        node.reports(says("1.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(0.01)
        assert await leader.status(job_id) is Status.COMPLETED
        session = node.session.number
        acknowledged = [message for message in node.heard if isinstance(message, Acknowledge)]
        assert acknowledged == [Acknowledge(session=session, seq=1), Acknowledge(session=session, seq=2)]
        assert leader.published == ["assigned", "started", "succeeded"]
        assert (leader.watch.placements, leader.watch.runs) == (1, [("succeeded", 1.0)])
        assert [outcome for outcome, _ in leader.watch.completions] == ["succeeded"]

    play(story())


def test_a_job_that_is_cancelled_is_stopped_and_closed_when_its_node_says_so() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        (job_id,) = await leader.submit()
        node.reports(says("1.0.1"))
        await leader.cancel(job_id)
        assert node.stopped() == ["1.0.1"]
        assert await leader.status(job_id) is Status.RUNNING
        node.reports(says("1.0.1", Phase.ENDED, replace(DONE, cause=Cause.CANCELLED, exit_code=None)))
        await asyncio.sleep(0.01)
        job = await leader.store.job(job_id)
        assert job is not None
        assert (job.status, job.cause, job.detail) == (
            Status.CANCELLED,
            Cause.CANCELLED,
            "cancelled by bob",
        )

    play(story())


def test_a_job_that_is_cancelled_at_once_is_given_no_grace() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        (job_id,) = await leader.submit()
        node.reports(says("1.0.1"))
        await leader.cancel(job_id)
        assert [stop.at_once for stop in node.stops()] == [False]
        await leader.cancel(job_id, "eve", now=True)
        await asyncio.sleep(2 * REPEAT_AFTER_S)
        assert node.stops()[-1].at_once
        leader.running.cancel()
        again = await Leader(leader.store).node("n1", says("1.0.1"))
        assert [stop.at_once for stop in again.stops()] == [True]

    play(story())


def test_a_node_that_comes_back_smaller_than_what_it_runs_does_not_end_the_leader() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        whole = capacity()
        hungry = replace(spec().groups[0], request=Request(1000, whole.memory_mib, 0, 0))
        await leader.submit(replace(spec(), groups=(hungry,)))
        node.beats(replace(whole, memory_mib=1024))
        await asyncio.sleep(0.01)
        await leader.submit(spec(gpus=1))
        assert node.launched() == ["1.0.1", "2.0.1"]
        assert leader.control.leads

    play(story())


def test_a_job_that_waits_too_long_fails_with_the_next_tick() -> None:
    async def story() -> None:
        leader = Leader()
        (job_id,) = await leader.submit(spec(max_wait_s=3))
        await asyncio.sleep(2.9)
        assert await leader.status(job_id) is Status.PENDING
        await asyncio.sleep(TICK_S + 0.2)
        job = await leader.store.job(job_id)
        assert job is not None
        assert (job.status, job.detail) == (Status.FAILED, "was not placed within 3 s")

    play(story())


def test_a_node_that_falls_silent_is_offline_and_ready_again_when_it_is_heard() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await asyncio.sleep(17)
        (known,) = await leader.store.nodes()
        assert known.state is NodeState.OFFLINE
        assert node.closed  # it has to say what became of its tasks meanwhile
        node.beats()
        await asyncio.sleep(2 * TICK_S)
        (known,) = await leader.store.nodes()
        assert known.state is NodeState.OFFLINE
        await leader.node()
        (known,) = await leader.store.nodes()
        assert known.state is NodeState.READY

    play(story())


def test_a_new_leader_writes_open_launches_anew_and_takes_up_open_stops() -> None:
    async def story() -> None:
        first = Leader()
        node = await first.node()
        await first.submit(spec(), spec())
        node.reports(says("1.0.1"))
        await first.cancel(1)
        first.running.cancel()
        second = Leader(first.store)
        again = await second.node("n1", says("1.0.1"))
        assert (again.launched(), again.stopped(), again.forgot()) == (["2.0.1"], ["1.0.1"], [])
        assert again.greeting.epoch == 2

    play(story())


def test_a_deposed_leader_writes_nothing_and_stops() -> None:
    async def story() -> None:
        old = Leader()
        node = await old.node()
        new = Leader(old.store)
        await asyncio.sleep(0.01)
        (job_id,) = await new.submit()
        with pytest.raises(DeposedError, match="epoch 1 is over: 2 leads by now"):
            await old.running
        assert not old.control.leads
        assert (node.launched(), await new.status(job_id)) == ([], Status.PENDING)

    play(story())


def test_a_deposed_leader_that_has_nothing_to_write_notices_too() -> None:
    async def story() -> None:
        old = Leader()
        await asyncio.sleep(0.01)
        await old.store.claim()
        with pytest.raises(DeposedError):
            await asyncio.wait_for(old.running, 60)

    play(story())


def test_nothing_is_told_while_the_store_is_away_and_all_is_said_again_afterwards() -> None:
    async def story() -> None:
        store = MoodyStore()
        leader = Leader(store)
        node = await leader.node()
        store.away = True
        (job_id,) = await leader.submit()
        await asyncio.sleep(5)
        assert node.launched() == []
        assert await leader.status(job_id) is Status.PENDING
        store.away = False
        await asyncio.sleep(2)
        assert node.closed
        again = await leader.node()
        assert again.launched() == ["1.0.1"]
        assert leader.watch.drift == 0

    play(story())


def test_an_end_that_could_not_be_written_is_not_acknowledged() -> None:
    async def story() -> None:
        store = MoodyStore()
        leader = Leader(store)
        node = await leader.node()
        (job_id,) = await leader.submit()
        store.away = True
        node.reports(says("1.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(3)
        assert [message for message in node.heard if isinstance(message, Acknowledge)] == []
        store.away = False
        await asyncio.sleep(2)
        await leader.node("n1", says("1.0.1", Phase.ENDED, DONE))
        assert await leader.status(job_id) is Status.COMPLETED

    play(story())


def test_a_commit_of_which_nobody_heard_is_found_in_the_store() -> None:
    async def story() -> None:
        store = MoodyStore()
        leader = Leader(store)
        await leader.node()
        store.forgetful = True
        (job_id,) = await leader.submit()
        store.forgetful = False
        await asyncio.sleep(2)
        assert await leader.status(job_id) is Status.SCHEDULED
        again = await leader.node()
        assert again.launched() == ["1.0.1"]
        assert [attempt.attempt_id.number for attempt in await store.attempts(job_id)] == [1]

    play(story())


def test_a_node_that_left_during_an_outage_is_not_believed_to_be_there() -> None:
    async def story() -> None:
        store = MoodyStore()
        leader = Leader(store)
        node = await leader.node()
        store.away = True
        node.session.closed()
        leader.control._inbox.store_changed()  # so that the news is taken and the store fails in one turn
        await asyncio.sleep(3)
        store.away = False
        await asyncio.sleep(2)
        assert not leader.control.picture.places["n1"].takes_tasks
        await leader.submit()
        assert await leader.status(1) is Status.PENDING

    play(story())


def test_drift_in_the_picture_is_counted_and_mended() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.submit(spec(gpus=8), spec(gpus=8))
        leader.control.picture.remove_waiting(TaskId(1, 0))
        await asyncio.sleep(12)
        assert leader.watch.drift == 1
        assert list(leader.control.picture.waiting) == [TaskId(1, 0), TaskId(2, 0)]
        await asyncio.sleep(12)
        assert leader.watch.drift == 1

    play(story())


def test_an_assignment_that_a_cancel_overtook_is_handed_back() -> None:
    async def story() -> None:
        store = MoodyStore()
        leader = Leader(store)
        node = await leader.node()
        store.hasty = True
        await leader.submit()
        await asyncio.sleep(0.05)
        job = await store.job(1)
        assert job is not None
        assert (job.status, job.detail, job.attempts) == (Status.CANCELLED, "cancelled by bob", 0)
        assert node.launched() == []
        assert leader.control.picture.left("n1").gpu_free == (1000, 1000)

    play(story())


def test_a_device_that_vanishes_under_a_task_is_given_back_to_nobody() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        await leader.submit(spec(gpus=2))
        node.beats(capacity(gpus=1))
        await asyncio.sleep(0.05)
        (known,) = await leader.store.nodes()
        assert known.capacity == capacity(gpus=1)
        node.reports(says("1.0.1", Phase.ENDED, DONE))
        await asyncio.sleep(0.05)
        assert leader.control.picture.left("n1").gpu_free == (1000,)

    play(story())


def test_an_agent_that_comes_before_the_leader_is_ready_is_greeted_once_it_is() -> None:
    async def story() -> None:
        leader = Leader()
        node = FakeNode(leader.hub)
        assert node.heard == []
        await asyncio.sleep(0.1)
        assert node.greeting.epoch == 1

    play(story())


class PagedStore(MemoryStore):
    """Shows what users asked for two events at a time."""

    async def changes(self, after_seq: int, limit: int = 2) -> Changes:
        return await super().changes(after_seq, min(limit, 2))


def test_wishes_that_do_not_fit_into_one_look_are_taken_in_by_the_next() -> None:
    async def story() -> None:
        leader = Leader(PagedStore("c"))
        await asyncio.sleep(0.01)
        await leader.submit(*[spec(gpus=8)] * 7)
        assert len(leader.control.picture.waiting) == 7

    play(story())


def test_with_another_engine_plans_are_made_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        leader = Leader()
        leader.control.engine = plain_with({})
        await leader.node()
        threads: list[str] = []

        def planned(*arguments: Any, **more: Any) -> Plan:
            threads.append(threading.current_thread().name)
            return plan(*arguments, **more)

        monkeypatch.setattr(committer, "plan", planned)
        (job_id,) = await leader.submit()
        await asyncio.sleep(0.1)
        assert await leader.status(job_id) is Status.SCHEDULED
        assert threads
        assert threading.main_thread().name not in threads
        leader.running.cancel()

    asyncio.run(story())


@pytest.mark.parametrize("knows", [True, False])
def test_job_with_shared_tmp_is_launched_only_by_an_agent_that_knows_it(*, knows: bool) -> None:
    async def story() -> None:
        leader = Leader()
        await asyncio.sleep(0.01)
        node = FakeNode(leader.hub, "n1")
        node.knows_shared_tmp = knows
        node.says_hello()
        await asyncio.sleep(0.01)
        await leader.submit(spec(gpus=0, shared_tmp=True), spec(gpus=0))
        assert node.launched() == (["1.0.1", "2.0.1"] if knows else ["2.0.1"])
        told = "the agent of n1 is too old for shared_tmp: update tgpu on that node"
        assert [why for *_, why in leader.hub.notes.of_job(1)] == ([] if knows else [told])

    play(story())
