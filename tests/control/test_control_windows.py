"""Windows reach the picture: at load, when they change, and when nodes join whom a rule means."""

import asyncio

import msgspec

from tests.control.control_story import FakeNode, Leader, hello, now_ms, play, spec
from tgpu.core.picture import Window
from tgpu.domain.label_rules import label_rules
from tgpu.domain.lifecycle import Status
from tgpu.store.cluster_port import WindowKind, WindowRow


def window(*nodes: str, where: str = "", tenant: str | None = None, lasts_s: int = 60) -> WindowRow:
    kind = WindowKind.MAINTENANCE if tenant is None else WindowKind.RESERVATION
    rules = label_rules("where", [where]) if where else ()
    begins = now_ms()
    return WindowRow(0, kind, "", nodes, rules, begins, begins + 1000 * lasts_s, "ann", begins, tenant)


def test_nothing_starts_in_a_window_and_what_waits_starts_when_it_is_over_or_cancelled() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node("n1")
        first = await leader.store.create_window(window("n1"))
        (job,) = await leader.submit()
        await asyncio.sleep(2)
        assert await leader.status(job) is Status.PENDING
        await leader.store.cancel_window(first.window_id)
        await asyncio.sleep(2)
        assert await leader.status(job) is Status.SCHEDULED
        await leader.store.create_window(window("n1", lasts_s=5))
        (later,) = await leader.submit()
        node.beats()
        await asyncio.sleep(4)
        node.beats()
        assert await leader.status(later) is Status.PENDING
        await asyncio.sleep(3)
        assert await leader.status(later) is Status.SCHEDULED
        assert leader.control.picture.windows == ()

    play(story())


def test_only_the_tenant_that_a_window_is_for_uses_its_nodes() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node("n1")
        await leader.store.create_window(window("n1", tenant="default"))
        (job,) = await leader.submit(spec())
        await asyncio.sleep(2)
        assert await leader.status(job) is Status.SCHEDULED

    play(story())


def test_a_rule_means_nodes_that_join_later_and_a_new_leader_knows_the_windows() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node("n1")
        made = await leader.store.create_window(window("n1", where="rack=r7", lasts_s=600))
        await asyncio.sleep(0.1)

        def seen(at: Leader) -> tuple[Window, ...]:
            return at.control.picture.windows

        assert seen(leader) == (Window(frozenset({"n1"}), made.from_ms, made.until_ms),)
        joins(leader, "n2", rack="r7")
        joins(leader, "n3", rack="r8")
        await asyncio.sleep(0.1)
        assert seen(leader)[0].node_ids == {"n1", "n2"}
        joins(leader, "n3", rack="r7")
        await asyncio.sleep(0.1)
        assert seen(leader)[0].node_ids == {"n1", "n2", "n3"}
        leader.running.cancel()
        newer = Leader(leader.store)
        await asyncio.sleep(2)
        assert seen(newer)[0].node_ids == {"n1", "n2", "n3"}

    play(story())


def joins(leader: Leader, name: str, **labels: str) -> None:
    node = FakeNode(leader.hub, name)
    node.session.received(msgspec.structs.replace(hello(node_id=name), labels=labels))
