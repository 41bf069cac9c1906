"""Pace of nodes: one that says too much is read more slowly, also after it has connected again."""

import asyncio

from tests.control.control_story import Leader, hello, now_ms, play
from tgpu.domain.node_limits import Admission
from tgpu.protocol.framing import encode
from tgpu.protocol.messages import Heartbeat, NodeUse, Report
from tgpu.wiring.crowd import Crowd
from tgpu.wiring.keyed_link import KeyedAgentLink
from tgpu.wiring.node_pace import BURST, NODE_UNITS, PER_SECOND, NodePace, units_of


class _AnyKey:
    async def refusal(self, node_id: str, key: str) -> None:  # noqa: ARG002  the port's names
        return None

    async def admission(self, node_id: str) -> Admission:  # noqa: ARG002  the port's name
        return Admission()


class _Wire(asyncio.Transport):
    """The other end of a stream; shows whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True

    def write(self, data: object) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    abort = close


def _connect(leader: Leader, crowd: Crowd, node_id: str) -> tuple[KeyedAgentLink, _Wire]:
    link, wire = KeyedAgentLink(leader.hub, _AnyKey(), crowd, now_ms), _Wire()
    link.connection_made(wire)
    link.data_received(encode(hello(node_id=node_id)))
    return link, wire


def _relabelled(times: int) -> bytes:
    return b"".join(encode(Heartbeat(use=NodeUse(), labels={"a": str(at)})) for at in range(times))


def test_node_that_floods_the_server_is_read_more_slowly() -> None:
    async def story() -> None:
        leader, crowd = Leader(), Crowd()
        await asyncio.sleep(0.01)
        (link, wire), (other, others_wire) = _connect(leader, crowd, "n1"), _connect(leader, crowd, "n2")
        await asyncio.sleep(0.01)
        assert (wire.is_read, others_wire.is_read) == (True, True)
        link.data_received(_relabelled(int(BURST) // NODE_UNITS))
        other.data_received(_relabelled(3))
        assert (wire.is_read, others_wire.is_read) == (False, True)
        await asyncio.sleep(1)
        assert wire.is_read

    play(story())


def test_node_that_connects_again_keeps_its_pace() -> None:
    async def story() -> None:
        leader, crowd = Leader(), Crowd()
        await asyncio.sleep(0.01)
        link, _ = _connect(leader, crowd, "n1")
        await asyncio.sleep(0.01)
        link.data_received(_relabelled(2 * int(BURST) // NODE_UNITS))
        link.connection_lost(None)
        _, wire = _connect(leader, crowd, "n1")
        await asyncio.sleep(0.5 * BURST / PER_SECOND)
        assert (wire.is_read, leader.hub.is_connected("n1")) == (False, False)
        await asyncio.sleep(0.6 * BURST / PER_SECOND)
        assert (wire.is_read, leader.hub.is_connected("n1")) == (True, True)

    play(story())


def test_pace_of_ordinary_agents_is_never_exceeded() -> None:
    pace = NodePace(0.0)
    beat = units_of(Heartbeat(use=NodeUse(), labels={}, disk_shortage="full"))
    assert not any(pace.charge(beat + units_of(Report(seq=1, attempts=())), float(at)) for at in range(3600))
    assert pace.charge(BURST, 3600.0) == 0.0, "all of its tasks have ended at once"
