"""What is said while nobody leads: that, or what keeps everybody from leading."""

import asyncio
from pathlib import Path

import pytest

from tgpu.api.ports import NoLeaderError
from tgpu.control.answers import Answers
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.core.policy import named
from tgpu.domain.container import ImageMeaning
from tgpu.domain.job import Gang, Request
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Capacity, Node
from tgpu.domain.node_orders import NodeOrder, NodeVerb
from tgpu.domain.views import Quantiles
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch, StoreUnavailableError
from tgpu.store.snapshot_shelf import Shelf
from tgpu.wiring import live as live_module
from tgpu.wiring.known_nodes import KnownNodes
from tgpu.wiring.live import LiveAnswers, OwnDesk
from tgpu.wiring.peers import Asking
from tgpu.wiring.snapshots import ServerSnapshots


class Away(MemoryStore):
    async def leader(self) -> None:
        raise StoreUnavailableError("postgresql://db/tgpu cannot be reached")


def asked_of(store: MemoryStore, *, has_term: bool, leader: str | None = None) -> LiveAnswers:
    hub = Hub(Inbox())
    asking = Asking(leader=lambda: leader, cluster_id="c", secret="s", tls=lambda: None)
    snapshots = ServerSnapshots(Shelf(Path("/nowhere"), 1, 1), list)
    desk = OwnDesk(Answers(lambda: None, hub), hub, snapshots, Quantiles)
    known = KnownNodes(store, named("priority"))
    return LiveAnswers(desk, asking, lambda: has_term, store.leader, known)


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


class Hung:
    """A leader that takes every connection and never answers."""

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()


def test_submission_does_not_wait_for_a_leader_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can never run is still refused, by the nodes on record; the second question waits not at all."""
    small, large = Request(1000, 0, 0, 0), Request(9000, 0, 0, 0)
    patience: list[float] = []

    async def story() -> None:
        store = MemoryStore("c")
        node = Node("n1", NodeState.READY, Capacity(2000, 1024, 0))
        await store.commit(await store.claim(), Batch(0, nodes=[node]))
        async with Hung() as url:
            live = asked_of(store, has_term=False, leader=url)
            monkeypatch.setattr(live_module, "_ALONE_S", 600.0)
            ask = live._asking.ask

            async def noted(method: str, *arguments: object, patience_s: float = 10.0) -> object:
                patience.append(patience_s)
                return await ask(method, *arguments, patience_s=min(patience_s, 0.05))

            monkeypatch.setattr(live._asking, "ask", noted)
            fits, never = await live.never_fits([small, large])
            assert fits is None
            assert never is not None
            assert "9 CPUs" in never
            assert await live.gang_never_fits(Gang(2), [(small, 2)]) is None
            assert (await live.why_never(large, 1, "default")) == never
            assert await live.resolve_image("train:1", local=False) == ImageMeaning()
        assert patience == [1.0]
        live._asking.close()

    asyncio.run(story())
