"""A node is given the snapshots that tasks on it run in, and no others."""

import asyncio
from dataclasses import replace

from tests.control.control_story import Leader, play, spec
from tgpu.control.snapshot_use import SnapshotUse
from tgpu.domain.ids import TaskId
from tgpu.domain.snapshot import Snapshot
from tgpu.protocol.snapshots import SnapshotPart, WantSnapshot


async def _read(user: str, digest: str, _offset: int, _most: int) -> tuple[bytes, int]:
    return f"{user} {digest}".encode(), 100


def test_node_gets_no_snapshot_that_no_task_on_it_runs_in() -> None:
    async def story() -> None:
        leader = Leader()
        leader.hub.snapshots.source = _read
        leader.hub.snapshots.is_used = SnapshotUse(lambda: leader.control, leader.store)
        node = await leader.node("n1")
        await leader.submit(replace(spec(), snapshot=Snapshot("sha256:1", "/home/ada")))
        assert leader.control.picture.placed[TaskId(1, 0)].node_id == "n1"
        other = await leader.node("n2")
        for each in (node, other):
            each.session.received(WantSnapshot(request=1, user="ada", digest="sha256:1", offset=0))
        node.session.received(WantSnapshot(request=2, user="bob", digest="sha256:1", offset=0))
        await asyncio.sleep(0.1)
        said = [*node.heard, *other.heard]
        parts = [message for message in said if isinstance(message, SnapshotPart)]
        assert [(part.request, part.data, part.error) for part in parts] == [
            (2, b"", "no job of bob on this node runs in the snapshot sha256:1"),
            (1, b"ada sha256:1", ""),
            (1, b"", "no job of ada on this node runs in the snapshot sha256:1"),
        ]
        leader.control.leads = False
        node.session.received(WantSnapshot(request=3, user="ada", digest="sha256:1", offset=0))
        await asyncio.sleep(0.1)
        assert not [part for part in node.heard if isinstance(part, SnapshotPart) and part.request == 3]

    play(story())
