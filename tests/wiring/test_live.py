"""What is said while nobody leads: that, or what keeps everybody from leading."""

import asyncio
from pathlib import Path

import pytest

from tgpu.api.ports import NoLeaderError
from tgpu.control.answers import Answers
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.domain.node_orders import NodeOrder, NodeVerb
from tgpu.domain.views import Quantiles
from tgpu.store.memory import MemoryStore
from tgpu.store.port import StoreUnavailableError
from tgpu.store.snapshot_shelf import Shelf
from tgpu.wiring.live import LiveAnswers, OwnDesk
from tgpu.wiring.peers import Asking
from tgpu.wiring.snapshots import ServerSnapshots


class Away(MemoryStore):
    async def leader(self) -> None:
        raise StoreUnavailableError("postgresql://db/tgpu cannot be reached")


def asked_of(store: MemoryStore, *, has_term: bool) -> LiveAnswers:
    hub = Hub(Inbox())
    asking = Asking(leader=lambda: None, cluster_id="c", secret="s", tls=lambda: None)
    snapshots = ServerSnapshots(Shelf(Path("/nowhere"), 1, 1), list)
    desk = OwnDesk(Answers(lambda: None, hub), hub, snapshots, Quantiles)
    return LiveAnswers(desk, asking, lambda: has_term, store.leader)


@pytest.mark.parametrize("has_term", [True, False])
def test_who_asks_while_nobody_leads_is_told_so_or_that_the_store_is_away(has_term: bool) -> None:
    async def story() -> None:
        order = NodeOrder(NodeVerb.DRAIN, "ann", ("n1",))
        chosen = asked_of(MemoryStore("c"), has_term=has_term)
        for question in (chosen.nodes, chosen.queues, lambda: chosen.order_nodes(order)):
            with pytest.raises(NoLeaderError, match=r"the scheduler is starting|no server leads yet"):
                await question()
        away = asked_of(Away("c"), has_term=has_term)
        for question in (away.nodes, away.queues, lambda: away.order_nodes(order)):
            with pytest.raises(StoreUnavailableError, match="postgresql://db/tgpu"):
                await question()
        assert chosen.leads is has_term

    asyncio.run(story())
