"""Invalid messages of nodes: counted, logged at a bounded rate, and shown as their fault for a while."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tgpu.observe.logs import logger

LOG_EVERY_S = 60.0
"""Per node; what comes in between is only counted."""
SHOWN_S = 300.0
"""How long after the last invalid message a node is shown with it."""
_log = logger("hub")


@dataclass(slots=True)
class _Record:
    why: str
    last: float
    logged: float
    unlogged: int = 0


class Refusals:
    def __init__(self) -> None:
        self._of: dict[str, _Record] = {}
        self.count: Callable[[], None] = lambda: None
        """Called once per message that was refused."""

    def add(self, node_id: str | None, why: str) -> None:
        """`node_id`: None of a stream whose node is not known."""
        self.count()
        name, now = node_id or "", asyncio.get_running_loop().time()
        record = self._of.get(name)
        if record is None:
            record = self._of[name] = _Record(why, now, now)
        elif now - record.logged < LOG_EVERY_S:
            record.why, record.last = why, now
            record.unlogged += 1
            return
        _log.warning("a stream was cut", node_id=node_id, why=why, unlogged=record.unlogged)
        record.why, record.last, record.logged, record.unlogged = why, now, now, 0

    def fault_of(self, node_id: str) -> str:
        """What was wrong with the node's last invalid message; empty if there was none lately."""
        record = self._of.get(node_id)
        if record is None or asyncio.get_running_loop().time() - record.last > SHOWN_S:
            return ""
        return f"its agent sent an invalid message: {record.why}"

    def forget(self, node_id: str) -> None:
        self._of.pop(node_id, None)
