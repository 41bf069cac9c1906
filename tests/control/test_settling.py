"""A store that was put back from a copy: nothing runs twice, nothing starts where something still runs."""

import asyncio

from tests.control.control_story import FakeNode, Leader, play, says
from tests.store.store_story import a_node
from tgpu.control.alerts import STORE_RESTORED
from tgpu.control.answers import Answers
from tgpu.domain.lifecycle import Status
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch


async def put_back(*nodes: str) -> MemoryStore:
    store = MemoryStore("c")
    await store.commit(await store.claim(), Batch(0, nodes=[a_node(name) for name in nodes]))
    store._state.restored = True
    return store


def test_nothing_starts_before_every_node_has_said_what_it_has() -> None:
    async def story() -> None:
        leader = Leader(await put_back("n1", "n2"))
        first = await leader.node("n1")
        (job,) = await leader.submit()
        await asyncio.sleep(3)
        assert (await leader.status(job), first.launched()) == (Status.PENDING, [])
        (alert,) = [each for each in leader.control.alerts.now if each.name == STORE_RESTORED]
        assert alert.text == (
            "the store was put back from a backup: nothing starts before all nodes were heard (not yet: n2)"
        )
        why = await Answers(lambda: leader.control, leader.hub).why(job)
        assert why is not None
        assert (why.summary, why.reasons[0].code) == (f"waits: {alert.text}", STORE_RESTORED)
        await leader.node("n2")
        await asyncio.sleep(1)
        assert await leader.status(job) is Status.SCHEDULED
        assert leader.control.alerts.now == ()
        assert not (await leader.store.load()).restored

    play(story())


def test_a_node_that_is_silent_for_the_whole_loss_time_is_not_waited_for() -> None:
    async def story() -> None:
        leader = Leader(await put_back("n1", "n2"))
        node = await leader.node("n1")
        (job,) = await leader.submit()
        for _ in range(13):
            await asyncio.sleep(1)
            node.beats()
        assert await leader.status(job) is Status.PENDING
        await asyncio.sleep(4)
        assert await leader.status(job) is Status.SCHEDULED

    play(story())


def test_what_the_store_does_not_know_is_stopped_and_has_ended_before_anything_starts() -> None:
    async def story() -> None:
        leader = Leader(await put_back("n1"))
        node = await leader.node("n1", says("7.0.3"))
        (job,) = await leader.submit()
        assert node.forgot() == ["7.0.3"]
        for _ in range(3):
            await asyncio.sleep(3.5)
            assert node.closed, "it is asked again what it has"
            node = await leader.node("n1", says("7.0.3"))
        assert await leader.status(job) is Status.PENDING
        await asyncio.sleep(3.5)
        node = await leader.node("n1")
        await asyncio.sleep(1)
        assert (await leader.status(job), node.launched()) == (Status.SCHEDULED, [f"{job}.0.1"])

    play(story())


def test_a_new_leader_settles_what_the_last_one_did_not() -> None:
    async def story() -> None:
        leader = Leader(await put_back("n1", "n2"))
        await leader.node("n1")
        leader.running.cancel()
        newer = Leader(leader.store)
        nodes: list[FakeNode] = [await newer.node("n1")]
        (job,) = await newer.submit()
        await asyncio.sleep(2)
        assert await newer.status(job) is Status.PENDING
        nodes.append(await newer.node("n2"))
        await asyncio.sleep(1)
        assert await newer.status(job) is Status.SCHEDULED

    play(story())
