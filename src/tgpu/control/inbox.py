"""What reaches the control loop, and how it is woken: events in the past tense, taken in batches."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from tgpu.domain.node import Capacity
from tgpu.domain.node_orders import NodeOrder, NodesOrdered
from tgpu.protocol.messages import Hello, Report


@dataclass(frozen=True, slots=True)
class NodeSaidHello:
    session: int
    hello: Hello

    @property
    def node_id(self) -> str:
        return self.hello.node_id


@dataclass(frozen=True, slots=True)
class NodeReported:
    session: int
    node_id: str
    report: Report


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """What is None is as it was."""

    node_id: str
    capacity: Capacity | None = None
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class NodeDiskChanged:
    """`shortage`: why the node starts nothing new; empty: it does again."""

    node_id: str
    shortage: str


@dataclass(frozen=True, slots=True)
class NodeLeft:
    node_id: str


@dataclass(frozen=True, slots=True)
class NodesOrderGiven:
    """An administrator's order; `answer` is set once it is committed, or refused."""

    order: NodeOrder
    answer: asyncio.Future[NodesOrdered]


NodeEvent = NodeSaidHello | NodeReported | NodeChanged | NodeDiskChanged | NodeLeft


class Inbox:
    """The only way in: whoever has news puts it here, and the loop takes all there is at once."""

    def __init__(self) -> None:
        self._events: list[NodeEvent] = []
        self._orders: list[NodesOrderGiven] = []
        self._store_changed = False
        self._woken = asyncio.Event()
        self._urgent = asyncio.Event()

    def put(self, event: NodeEvent) -> None:
        self._events.append(event)
        self._woken.set()
        self._urgent.set()

    def order(self, given: NodesOrderGiven) -> None:
        self._orders.append(given)
        self._woken.set()
        self._urgent.set()

    def take_orders(self) -> list[NodesOrderGiven]:
        """Those somebody still waits for: whoever was told that it took too long may have given another."""
        orders, self._orders = self._orders, []
        return [given for given in orders if not given.answer.done()]

    def store_changed(self) -> None:
        self._store_changed = True
        self._woken.set()

    def store_has_more(self) -> None:
        """What was read was not all: nothing is to be waited for."""
        self._store_changed = True
        self.go_on()

    def go_on(self) -> None:
        """There is more to do: the next turn is now."""
        self._woken.set()
        self._urgent.set()

    def wake(self) -> None:
        self._woken.set()

    async def wait(self) -> None:
        await self._woken.wait()

    async def gather(self, most_s: float) -> None:
        """Lets more submissions come in, unless a node has something to say meanwhile."""
        if self._urgent.is_set() or most_s <= 0:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(most_s, self._urgent.set)
        await self._urgent.wait()
        timer.cancel()

    def take(self, most: int | None = None) -> tuple[list[NodeEvent], bool]:
        """The events so far, and whether the store has something new. `most`: of events and of attempts in
        them, or a little more; the rest is taken by the next."""
        events, changed = self._events, self._store_changed
        self._events, self._store_changed = [], False
        self._woken.clear()
        self._urgent.clear()
        if most is not None and len(events) + sum(map(_attempts_in, events)) > most:
            self.put_back(_cut(events, most))
        return events, changed

    def take_one_source(self) -> tuple[list[NodeEvent], bool]:
        """As `take`, but either what users asked for or what one node said; the rest is taken later."""
        events, changed = self.take()
        if changed:
            self.put_back(events)
            return [], True
        first = [event for event in events if event.node_id == events[0].node_id]
        self.put_back([event for event in events if event.node_id != events[0].node_id])
        return first, False

    def put_back(self, events: list[NodeEvent]) -> None:
        """Before those that came later, to be taken by the next turn."""
        if events:
            self._events[:0] = events
            self.go_on()


def _attempts_in(event: NodeEvent) -> int:
    match event:
        case NodeSaidHello(hello=hello):
            return len(hello.attempts)
        case NodeReported(report=report):
            return len(report.attempts)
        case _:
            return 0


def _cut(events: list[NodeEvent], most: int) -> list[NodeEvent]:
    """Shortens the list; returns what was cut off."""
    for at, event in enumerate(events):
        most -= 1 + _attempts_in(event)
        if most <= 0:
            rest = events[at + 1 :]
            del events[at + 1 :]
            return rest
    return []
