"""Draining and removing nodes: durable before it is answered, all of them or none."""

import asyncio

from tests.control.control_story import DONE, Leader, play, says, spec
from tgpu.domain.label_rules import label_rules
from tgpu.domain.lifecycle import NodeState, Status
from tgpu.domain.node_orders import NodeOrder, NodesOrdered, NodeVerb
from tgpu.protocol.messages import Phase
from tgpu.store.cluster_port import JoinToken


def drain(*names: str, reason: str = "") -> NodeOrder:
    return NodeOrder(NodeVerb.DRAIN, "ann", names, reason=reason)


def undrain(*names: str) -> NodeOrder:
    return NodeOrder(NodeVerb.UNDRAIN, "ann", names)


def remove(*names: str) -> NodeOrder:
    return NodeOrder(NodeVerb.REMOVE, "ann", names)


async def state_of(leader: Leader, name: str) -> NodeState:
    return next(node.state for node in await leader.store.nodes() if node.node_id == name)


def test_nothing_starts_on_a_draining_node_and_what_runs_there_runs_on() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node("n1")
        (running,) = await leader.submit()
        node.reports(says(f"{running}.0.1"))
        assert await leader.control.order_nodes(drain("n1", reason="new fans")) == NodesOrdered(("n1",))
        (stored,) = await leader.store.nodes()
        assert stored.state is NodeState.DRAINING
        assert stored.drain is not None
        assert (stored.drain.by, stored.drain.reason) == ("ann", "new fans")
        (waiting,) = await leader.submit()
        await asyncio.sleep(2)
        assert (await leader.status(running), await leader.status(waiting)) == (
            Status.RUNNING,
            Status.PENDING,
        )
        node.reports(says(f"{running}.0.1", Phase.ENDED, DONE))
        assert await leader.control.order_nodes(undrain("n1")) == NodesOrdered(("n1",))
        await asyncio.sleep(0.1)
        assert (await leader.status(running), await leader.status(waiting)) == (
            Status.COMPLETED,
            Status.SCHEDULED,
        )

    play(story())


def test_a_drain_outlives_silence_and_a_change_of_leader() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node("n1")
        await leader.control.order_nodes(drain("n1"))
        await asyncio.sleep(20)
        assert await state_of(leader, "n1") is NodeState.OFFLINE
        await leader.node("n1")
        assert await state_of(leader, "n1") is NodeState.DRAINING
        leader.running.cancel()
        newer = Leader(leader.store)
        await newer.node("n1")
        assert await state_of(newer, "n1") is NodeState.DRAINING
        await asyncio.sleep(20)
        assert await newer.control.order_nodes(undrain("n1")) == NodesOrdered(("n1",))
        assert await state_of(newer, "n1") is NodeState.OFFLINE
        await newer.node("n1")
        assert await state_of(newer, "n1") is NodeState.READY

    play(story())


def test_an_order_is_carried_out_on_all_nodes_or_on_none() -> None:
    async def story() -> None:
        leader = Leader()
        for name in ("n1", "n2"):
            await leader.node(name)
        order = leader.control.order_nodes
        unknown = await order(drain("n1", "n7", "n8"))
        assert unknown == NodesOrdered(
            refusal="there is no node n7, n8: `tgpu nodes` lists them", unknown=True
        )
        await order(drain("n2", reason="hot"))
        assert (await order(drain("n1", "n2"))).refusal == "n2 is draining already, ordered by ann (hot)"
        assert [node.state for node in await leader.store.nodes()] == [NodeState.READY, NodeState.DRAINING]

    play(story())


def test_an_undrain_that_is_repeated_is_harmless() -> None:
    async def story() -> None:
        leader = Leader()
        for name in ("n1", "n2"):
            await leader.node(name)
        await leader.control.order_nodes(drain("n2", reason="hot"))
        for _ in range(2):
            assert await leader.control.order_nodes(undrain("n1", "n2")) == NodesOrdered(("n1", "n2"))
            assert [node.state for node in await leader.store.nodes()] == [NodeState.READY, NodeState.READY]

    play(story())


def test_nodes_are_chosen_by_their_labels() -> None:
    async def story() -> None:
        leader = Leader()
        for name in ("n1", "n2"):
            await leader.node(name)
        order, absent = leader.control.order_nodes, label_rules("where", ["!rack"])
        assert (await order(NodeOrder(NodeVerb.DRAIN, "ann", rules=label_rules("where", ["rack=r7"])))) == (
            NodesOrdered(refusal="no node has rack=r7: `tgpu nodes` shows labels", unknown=True)
        )
        await order(drain("n2"))
        by_label = NodeOrder(NodeVerb.DRAIN, "ann", rules=absent, reason="dust")
        assert await order(by_label) == NodesOrdered(("n1",))
        await asyncio.sleep(61)
        again = await order(by_label)
        assert again.refusal == "every node with !rack is draining already"
        assert await order(NodeOrder(NodeVerb.UNDRAIN, "ann", rules=absent)) == NodesOrdered(("n1", "n2"))

    play(story())


def test_a_drain_that_a_client_repeats_is_one() -> None:
    async def story() -> None:
        leader = Leader()
        for name in ("n1", "n2"):
            await leader.node(name)
        order = leader.control.order_nodes
        assert await order(drain("n1", reason="hot")) == NodesOrdered(("n1",))
        (before, _) = await leader.store.nodes()
        await asyncio.sleep(5)
        assert await order(drain("n1", reason="hot")) == NodesOrdered(("n1",))
        assert await order(drain("n1", "n2", reason="hot")) == NodesOrdered(("n1", "n2"))
        assert (await order(drain("n1", reason="cold"))).refusal == (
            "n1 is draining already, ordered by ann (hot)"
        )
        by_bob = NodeOrder(NodeVerb.DRAIN, "bob", ("n1",), reason="hot")
        assert (await order(by_bob)).refusal == "n1 is draining already, ordered by ann (hot)"
        (after, _) = await leader.store.nodes()
        assert after.drain == before.drain
        await asyncio.sleep(61)
        assert (await order(drain("n1", reason="hot"))).refusal == (
            "n1 is draining already, ordered by ann (hot)"
        )

    play(story())


def test_only_a_node_that_is_away_and_holds_nothing_is_removed() -> None:
    async def story() -> None:
        leader = Leader()
        node, other = await leader.node("n1"), await leader.node("n2")
        (job,) = await leader.submit(spec(gpus=2))
        assert leader.control.picture.places["n1"].attempts
        order = leader.control.order_nodes
        assert (await order(remove("n1"))).refusal.startswith("n1 is connected: stop its agent first")
        for each in (node, other):
            each.close()
        await asyncio.sleep(0.1)
        refused = await order(remove("n2", "n1"))
        assert refused.refusal == (
            "n1 still holds 1 attempts: cancel their jobs, or wait until they run elsewhere"
        )
        assert [each.node_id for each in await leader.store.nodes()] == ["n1", "n2"]
        assert await order(remove("n2")) == NodesOrdered(("n2",))
        assert [each.node_id for each in await leader.store.nodes()] == ["n1"]
        assert list(leader.control.picture.places) == ["n1"]
        assert await leader.status(job) is Status.SCHEDULED

    play(story())


def test_a_node_that_was_let_in_and_never_came_is_removed_with_its_key() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node("n1")
        token = JoinToken(0, "digest", "", "ann", 0, None)
        await leader.store.create_join_token(token)
        await leader.store.enrol("digest", "n9", "key", 0)
        assert await leader.control.order_nodes(remove("n9")) == NodesOrdered(("n9",))
        assert await leader.store.node_key_digest("n9") is None
        assert (await leader.control.order_nodes(remove("n9"))).unknown

    play(story())
