"""One server leads, as long as it renews its lease in time; the others follow and know where it is."""

import asyncio
from collections.abc import Callable
from random import Random

from tests.control.control_story import FakeNode, play
from tgpu.control.directory import Directory
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.leadership import Leadership, LeaseTimers
from tgpu.protocol.messages import Elsewhere, Greeting
from tgpu.store.cluster_port import ServerRow
from tgpu.store.memory import MemoryStore
from tgpu.store.port import DeposedError, StoreUnavailableError

TIMERS = LeaseTimers()


class Weather(MemoryStore):
    """Away when told so."""

    away = False

    async def renew(self, epoch: int, ttl_ms: int) -> bool:
        if self.away:
            raise StoreUnavailableError("away")
        return await super().renew(epoch, ttl_ms)

    async def campaign(self, server_id: str, ttl_ms: int) -> int | None:
        if self.away:
            raise StoreUnavailableError("away")
        return await super().campaign(server_id, ttl_ms)


class Server:
    """A candidate whose terms do nothing but last."""

    def __init__(self, store: MemoryStore, name: str, *, digest: str = "same") -> None:
        self.store = store
        self.hub = Hub(Inbox())
        row = ServerRow(name, f"http://{name}:1", "1", digest, 0)
        self.directory = Directory(store, row)
        self.epochs: list[int] = []
        self.leads = False
        self.fails_with: Exception | None = None
        self.leadership = Leadership(
            store=store,
            server_id=name,
            hub=self.hub,
            directory=self.directory,
            begin_term=lambda: self,
            end_term=self._end,
            timers=TIMERS,
            random=Random(1),
            shared=True,
        )
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> "Server":
        await self.directory.refresh()
        self.task = asyncio.create_task(self.leadership.run())
        return self

    async def run(self, epoch: int) -> None:
        self.epochs.append(epoch)
        self.leads = True
        self.hub.lead("c", epoch)
        while self.fails_with is None:  # noqa: ASYNC110  a term that does nothing
            await asyncio.sleep(0.01)
        raise self.fails_with

    def _end(self) -> None:
        self.leads = False

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait({self.task})


async def until(condition: Callable[[], bool], patience_s: float = 60.0) -> None:
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110  whatever it is
            await asyncio.sleep(0.01)


def test_one_leads_and_the_others_send_agents_to_it() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        first = await Server(store, "a").start()
        await until(lambda: first.leads)
        second = await Server(store, "b").start()
        await until(lambda: second.hub.leader is not None)
        assert not second.leads
        agent = FakeNode(second.hub)
        await asyncio.sleep(0)
        assert agent.heard == [Elsewhere(leader="http://a:1", servers=("http://a:1", "http://b:1"))]
        assert agent.closed

    play(story())


def test_an_agent_that_came_before_anybody_led_is_sent_on_when_somebody_does() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        second = Server(store, "b")
        agent = FakeNode(second.hub)
        assert agent.heard == []
        first = await Server(store, "a").start()
        await until(lambda: first.leads)
        await second.start()
        await until(lambda: agent.closed)
        assert [message.leader for message in agent.heard if isinstance(message, Elsewhere)] == ["http://a:1"]

    play(story())


def test_agents_of_a_leader_that_died_wait_for_the_next_one_where_they_are() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        await store.announce(ServerRow("a", "http://a:1", "1", "same", 0))
        assert await store.campaign("a", round(1000 * TIMERS.ttl_s))  # and it is never heard of again
        second = await Server(store, "b").start()
        await until(lambda: second.hub.leader == "http://a:1")
        await until(lambda: second.hub.leader is None)
        assert not second.leads
        agent = FakeNode(second.hub)
        await until(lambda: second.leads)
        assert [type(message) for message in agent.heard] == [Greeting]

    play(story())


def test_a_server_that_stops_in_peace_is_followed_at_once() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        first = await Server(store, "a").start()
        await until(lambda: first.leads)
        second = await Server(store, "b").start()
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        await first.stop()
        await until(lambda: second.leads)
        assert asyncio.get_running_loop().time() - began < TIMERS.ttl_s
        assert second.epochs[0] > first.epochs[0]

    play(story())


def test_a_leader_that_cannot_renew_stops_acting_before_its_lease_can_be_taken() -> None:
    async def story() -> None:
        store = Weather("c")
        first = await Server(store, "a").start()
        await until(lambda: first.leads)
        agent = FakeNode(first.hub)
        store.away = True
        began = asyncio.get_running_loop().time()
        await until(lambda: not first.leads)
        assert asyncio.get_running_loop().time() - began < TIMERS.ttl_s
        assert agent.closed, "its agents are free to find another"
        store.away = False
        await until(lambda: first.leads)
        assert len(first.epochs) == 2, "it leads again, in a new epoch"

    play(story())


def test_a_deposed_leader_follows() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        first = await Server(store, "a").start()
        await until(lambda: first.leads)
        await store.claim()
        await until(lambda: len(first.epochs) == 2)
        assert first.epochs[1] == first.epochs[0] + 2
        first.fails_with = DeposedError("somebody else leads")
        await until(lambda: not first.leads)
        first.fails_with = None
        await until(lambda: len(first.epochs) == 3)

    play(story())


def test_server_campaigns_again_after_a_term_that_failed() -> None:
    async def story() -> None:
        first = await Server(MemoryStore("c"), "a").start()
        await until(lambda: first.leads)
        first.fails_with = ValueError("a bug")
        await until(lambda: not first.leads)
        first.fails_with = None
        await until(lambda: first.leads)
        assert first.task is not None
        assert not first.task.done()

    play(story())


def test_servers_whose_settings_differ_are_seen() -> None:
    async def story() -> None:
        store = MemoryStore("c")
        first, second = Server(store, "a"), Server(store, "b", digest="other")
        await first.directory.refresh()
        await second.directory.refresh()
        await first.directory.refresh()
        assert [server.server_id for server in first.directory.strangers] == ["b"]

    play(story())
