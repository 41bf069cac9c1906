"""Nodes that want a snapshot are given it, piece by piece."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from tgpu.observe.logs import logger
from tgpu.protocol.snapshots import PIECE, SnapshotPart, WantSnapshot

Source = Callable[[str, str, int, int], Awaitable[tuple[bytes, int] | None]]
"""Of whom, which, from where, how much: that, and how much it is in all; None: no server has it."""


Use = Callable[[str, str, str], Awaitable[bool | None]]
"""Node, user and digest: whether a task of the user on the node runs in it; None: that is not known now."""


class Asker(Protocol):
    """A node's stream."""

    def send(self, message: SnapshotPart) -> None: ...


async def _nowhere(_user: str, _digest: str, _offset: int, _most: int) -> None:
    return None


async def _always(_node_id: str, _user: str, _digest: str) -> bool:
    return True


class SnapshotAnswers:
    def __init__(self) -> None:
        self.source: Source = _nowhere
        self.is_used: Use = _always
        self._answering: set[asyncio.Task[None]] = set()

    def asked(self, link: Asker, node_id: str, want: WantSnapshot, serves: str) -> None:
        """`serves`: whose jobs the node runs, `*` for everybody's."""
        if serves not in ("*", want.user):
            link.send(SnapshotPart(request=want.request, error=f"this node runs no jobs of {want.user}"))
            return
        task = asyncio.get_running_loop().create_task(self._answer(link, node_id, want))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, link: Asker, node_id: str, want: WantSnapshot) -> None:
        used = await self.is_used(node_id, want.user, want.digest)
        if used is None:
            return  # the node asks again
        if not used:
            why = f"no job of {want.user} on this node runs in the snapshot {want.digest}"
            link.send(SnapshotPart(request=want.request, error=why))
            return
        try:
            found = await self.source(want.user, want.digest, want.offset, PIECE)
        except OSError as error:  # the node asks again
            logger("snapshots").warning("not read", digest=want.digest, error=str(error))
            return
        if found is None:
            why = f"its snapshot {want.digest} is on no server that can be asked: submit the job anew"
            link.send(SnapshotPart(request=want.request, error=why))
        else:
            link.send(SnapshotPart(request=want.request, data=found[0], total=found[1]))
