"""An agent whose disk is full refuses to start tasks, says why, and goes on when there is space again."""

import asyncio
import hashlib
import threading
from pathlib import Path
from random import Random

import pytest

from tests.agent.test_shell import Server, greeting, launch, play
from tests.small_disk import SmallDisk, needs_root, small_disk  # noqa: F401  a fixture
from tgpu.agent import node_disk
from tgpu.agent.identity import NodeIdentity
from tgpu.agent.node_disk import NodeDisk
from tgpu.agent.shell import Agent
from tgpu.agent.snapshot_fetch import SnapshotFetch
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Capacity
from tgpu.observe.disk_space import MEASURE_EVERY_S, DiskSpace
from tgpu.protocol.messages import Heartbeat, Hello, NodeUse, Orders, Phase, Report
from tgpu.protocol.snapshots import SnapshotPart
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.fake import Behaviour, FakeMachine, FakeRunner
from tgpu.runner.port import CouldNotPrepareError

SHORT = "the disk is short"


def test_task_ordered_to_a_full_node_is_given_back_at_once() -> None:
    async def story() -> None:
        server, disk = Server(), NodeDisk()
        disk.shortage = SHORT
        machine = FakeMachine(lambda _spec: Behaviour(3.0, output=b""), now_ms=lambda: 1000)

        async def discover() -> Capacity:
            return Capacity(4000, 1024, 0)

        async def measure() -> NodeUse:
            return NodeUse()

        agent = Agent(
            identity=NodeIdentity(node_id="n1", boot_id="b", pool="default", labels={}, serves="*"),
            dial=server.dial,
            runner_for=lambda _cluster_id: FakeRunner(machine),
            discover=discover,
            measure=measure,
            heartbeat_s=5.0,
            log_cap_bytes=0,
            everybodys_env={},
            random=Random(0),
            disk=disk,
        )
        running = asyncio.create_task(agent.run())
        await asyncio.sleep(0.1)
        server.say(greeting())
        await asyncio.sleep(0.1)
        (stream,) = server.streams
        assert [hello.disk_shortage for hello in stream.said(Hello)] == [SHORT]
        assert [beat.disk_shortage for beat in stream.said(Heartbeat)] == [SHORT]
        server.say(Orders(session=1, launches=(launch("1.0.1"),)))
        await asyncio.sleep(0.1)
        (report,) = stream.said(Report)
        (attempt,) = report.attempts
        assert (attempt.phase, attempt.exit.cause) == (Phase.ENDED, Cause.NODE_LOST)
        assert report.disk_shortage == SHORT
        disk.shortage = ""
        server.say(Orders(session=1, launches=(launch("2.0.1"),)))
        await asyncio.sleep(1)
        assert stream.said(Report)[-1].attempts[0].phase is Phase.RUNNING
        running.cancel()

    play(story())


@needs_root
def test_failed_write_counts_until_a_write_succeeds(small_disk: SmallDisk) -> None:  # noqa: F811
    disk = NodeDisk([DiskSpace(small_disk.path, reserve_mib=0)], [small_disk.path])
    assert asyncio.run(disk.look()) == ""
    small_disk.fill()
    assert asyncio.run(disk.look()) == "", "there is no reserve"
    disk.heard(NodeDisk.refused("1.0.1"))
    assert disk.shortage
    assert asyncio.run(disk.look())
    small_disk.empty()
    assert asyncio.run(disk.look()) == ""


@needs_root
def test_node_is_short_while_checkpoint_folders_find_no_space(small_disk: SmallDisk, tmp_path: Path) -> None:  # noqa: F811
    now, root = 0.0, small_disk.path / "checkpoints"
    disk = NodeDisk([DiskSpace(tmp_path, 0), DiskSpace(root, 1, lambda: now)], [tmp_path, root])
    assert asyncio.run(disk.look()) == "", "the folder is not made yet"
    small_disk.fill()
    now += MEASURE_EVERY_S
    assert asyncio.run(disk.look()).startswith(f"the disk that holds {root} has 0 MiB free")


def test_drive_that_hangs_delays_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()

    class Hanging(DiskSpace):
        looks = 0

        def shortage(self) -> str | None:
            self.looks += 1
            hangs.wait(60)
            return SHORT

    async def story() -> None:
        space = Hanging(Path("/"))
        disk = NodeDisk([space])
        assert await disk.look() == await disk.look() == ""
        assert space.looks == 1, "one look at a time"
        hangs.set()
        monkeypatch.setattr(node_disk, "PATIENCE_S", 60)
        assert await disk.look() == SHORT

    monkeypatch.setattr(node_disk, "PATIENCE_S", 0.01)
    asyncio.run(story())


@pytest.mark.parametrize("reserve_mib", [None, 1])
@needs_root
def test_reserve_makes_a_node_short_before_its_disk_is_full(
    small_disk: SmallDisk,  # noqa: F811
    reserve_mib: int | None,
) -> None:
    small_disk.fill(leave=100_000)
    disk = NodeDisk([DiskSpace(small_disk.path, reserve_mib)], [small_disk.path])
    assert "disk_reserve" in asyncio.run(disk.look())


@needs_root
def test_snapshot_that_finds_no_room_on_a_node_is_fetched_by_another(small_disk: SmallDisk) -> None:  # noqa: F811
    async def story() -> None:
        fetch, data = SnapshotFetch(small_disk.path / "snapshots", 1 << 30), bytes(100_000)
        fetch.say = lambda want: fetch.heard(SnapshotPart(request=want.request, data=data, total=len(data)))
        small_disk.fill()
        with pytest.raises(CouldNotPrepareError, match=DISK_FULL) as refused:
            await fetch.archive("ann", f"sha256:{hashlib.sha256(data).hexdigest()}")
        assert refused.value.cause is Cause.NODE_LOST
        small_disk.empty()
        archive = await fetch.archive("ann", f"sha256:{hashlib.sha256(data).hexdigest()}")
        assert archive.stat().st_size == len(data)

    asyncio.run(story())
