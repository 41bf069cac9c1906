"""Nodes whose disks are full: nothing is placed there, and they return by themselves."""

import asyncio

from msgspec.structs import replace

from tests.control.control_story import FakeNode, Leader, hello, picture_with, play, says, spec, task
from tgpu.control.alerts import NODES_DISK_FULL
from tgpu.core.explain import explain
from tgpu.core.planner import plan
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import Status
from tgpu.domain.retries import Retries
from tgpu.protocol.messages import LONGEST_SHORTAGE, Heartbeat, NodeUse, Phase, Report
from tgpu.runner.port import disk_full_exit

SHORT = "the disk that holds /home has 1 MiB free, and needs 256 (setting disk_reserve)"
TICK_S = 2.0


def beats(node: FakeNode, shortage: str) -> None:
    node.session.received(Heartbeat(use=NodeUse(), disk_shortage=shortage))


def test_node_with_a_full_disk_gets_no_tasks_until_it_has_space_again() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        beats(node, SHORT)
        await asyncio.sleep(TICK_S)
        assert leader.watch.alerts[NODES_DISK_FULL] is True
        (job_id,) = await leader.submit()
        await asyncio.sleep(TICK_S)
        assert node.launched() == []
        assert await leader.status(job_id) is Status.PENDING
        beats(node, "")
        await asyncio.sleep(TICK_S)
        assert node.launched() == ["1.0.1"]
        assert leader.watch.alerts[NODES_DISK_FULL] is False

    play(story())


def test_task_that_found_a_full_disk_starts_elsewhere_and_no_retry_is_counted() -> None:
    async def story() -> None:
        leader = Leader()
        first = await leader.node("n1")
        (job_id,) = await leader.submit(spec(retries=Retries(limit=0)))
        second = await leader.node("n2")
        assert first.launched() == ["1.0.1"]
        ended = says("1.0.1", Phase.ENDED, disk_full_exit())
        first.session.received(Report(seq=1, attempts=(ended,), disk_shortage=SHORT))
        await asyncio.sleep(0.1)
        assert first.launched() == ["1.0.1"]
        assert second.launched() == ["1.0.2"]
        second.reports(says("1.0.2"))
        await asyncio.sleep(0.1)
        assert await leader.status(job_id) is Status.RUNNING

    play(story())


def test_node_that_comes_back_with_a_full_disk_gets_nothing() -> None:
    async def story() -> None:
        leader = Leader()
        node = FakeNode(leader.hub)
        await asyncio.sleep(0.1)
        node.session.received(replace(hello(), disk_shortage=SHORT * 100))
        await asyncio.sleep(0.1)
        await leader.submit()
        assert node.launched() == []
        place = leader.control.picture.places["n1"]
        assert len(place.shortage) == LONGEST_SHORTAGE

    play(story())


def test_shortage_outlives_a_picture_that_is_loaded_again() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        beats(node, SHORT)
        await asyncio.sleep(0.1)
        await leader.control._reload()
        assert not leader.control.picture.places["n1"].takes_tasks
        await leader.submit()
        assert node.launched() == []

    play(story())


def test_older_agent_that_says_nothing_of_its_disk_is_taken_as_before() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node()
        node.beats()
        node.session.received(Report(seq=1, attempts=()))
        await leader.submit()
        assert node.launched() == ["1.0.1"]

    play(story())


def test_pending_job_is_told_that_its_node_is_short_of_disk_space() -> None:
    picture = picture_with(task(1))
    picture.set_shortage("n1", SHORT)
    assert plan(picture, picture.policy).starts == ()
    why = explain(picture, picture.policy, TaskId(1, 0))
    assert why is not None
    assert any("n1 is short of disk space" in reason.text for reason in why.reasons)
