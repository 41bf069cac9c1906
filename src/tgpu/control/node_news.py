"""Events of nodes since the last turn, taken in one by one."""

from collections.abc import Sequence

from tgpu.control import reports, returns
from tgpu.control.containment import about_node
from tgpu.control.hub import Hub
from tgpu.control.inbox import NodeEvent, NodeSaidHello
from tgpu.control.settling import Settling
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.store.port import Store


class NodeNews:
    """Of one turn."""

    def __init__(self, picture: Picture, turn: Turn, hub: Hub, settling: Settling | None) -> None:
        self._picture, self._turn, self._hub, self._settling = picture, turn, hub, settling
        self._origins: returns.Origins = {}
        self._waiting: dict[str, list[NodeEvent]] = {}

    async def take_in(self, events: Sequence[NodeEvent], store: Store) -> list[NodeEvent]:
        """Returns those that have to wait for the next turn."""
        unknown = dict.fromkeys(name for event in events for name in returns.unknown(self._picture, event))
        if unknown:
            self._origins = await store.origins(list(unknown))
        for event in events:
            with about_node(event.node_id):
                self._take_in_one(event)
        return [event for of_node in self._waiting.values() for event in of_node]

    def _take_in_one(self, event: NodeEvent) -> None:
        if isinstance(event, NodeSaidHello):
            if self._hub.session_of(event.node_id) != event.session:
                return  # it has gone, or come again: then it says it all again
            if returns.must_wait(self._picture, event, self._turn):
                self._waiting.setdefault(event.node_id, [])
        if event.node_id in self._waiting:
            self._waiting[event.node_id].append(event)
            return
        reports.take_in(self._picture, event, self._turn, self._origins)
        if self._settling is not None and isinstance(event, NodeSaidHello):
            self._settling.heard(event.hello, self._turn.forget)
