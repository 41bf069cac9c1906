"""A snapshot that one server took is everybody's, and goes when nobody needs it."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

from tests.wiring.test_peers import CLUSTER, Door
from tgpu.config.settings import Settings
from tgpu.control.snapshot_answers import MOST_AT_ONCE, SnapshotAnswers
from tgpu.domain.job import Group, JobSpec, Request
from tgpu.domain.snapshot import Snapshot
from tgpu.protocol.snapshots import PIECE, Piece, SnapshotPart, WantSnapshot
from tgpu.store.memory import MemoryStore
from tgpu.store.snapshot_shelf import Shelf
from tgpu.wiring.peers import AskedLink, Asking, UnansweredError
from tgpu.wiring.snapshots import ServerSnapshots, SnapshotSweeper

DATA = os.urandom(2 * PIECE + 17)
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
MOST = 16 << 20
NOW_S = 1_900_000_000


def shelf_in(folder: Path) -> Shelf:
    return Shelf(folder, MOST, MOST)


def test_another_server_brings_it_over_once(tmp_path: Path) -> None:
    async def story() -> None:
        first = ServerSnapshots(shelf_in(tmp_path / "first"), list)
        await first.put("ann", DIGEST, 0, len(DATA), DATA)
        asked: list[int] = []

        async def piece(user: str, digest: str, offset: int) -> Any:
            asked.append(offset)
            return await first.own_piece(user, digest, offset)

        loop = asyncio.get_running_loop()
        desk = {"snapshot_piece": piece}
        listening = await loop.create_server(
            lambda: Door(lambda: AskedLink(desk, CLUSTER, "secret")), "127.0.0.1", 0
        )
        port = listening.sockets[0].getsockname()[1]
        ways = [
            Asking(
                leader=lambda: "http://127.0.0.1:1", cluster_id=CLUSTER, secret="secret", tls=lambda: None
            ),
            Asking(
                leader=lambda: f"http://127.0.0.1:{port}",
                cluster_id=CLUSTER,
                secret="secret",
                tls=lambda: None,
            ),
        ]
        second = ServerSnapshots(shelf_in(tmp_path / "second"), lambda: ways)
        both = await asyncio.gather(second.has("ann", DIGEST), second.read("ann", DIGEST, 5, 7))
        assert both == [True, (DATA[5:12], len(DATA))]
        assert asked == [0, PIECE, 2 * PIECE]
        assert not await second.has("bob", DIGEST)
        assert await second.read("ann", "sha256:" + "0" * 64, 0, 1) is None
        for way in ways:
            way.close()
        listening.close()

    asyncio.run(story())


def test_what_a_job_is_submitted_with_is_given_to_another_server_once(tmp_path: Path) -> None:
    class Other:
        """A server that takes from the first; its name says whether it is there."""

        def __init__(self, name: str) -> None:
            self.name = name
            self.snapshots = ServerSnapshots(shelf_in(tmp_path / name), lambda: [FirstServer()])

        async def ask(self, method: str, user: str, digest: str, **_patience: float) -> bool:
            asked.append((self.name, method))
            if self.name == "dead":
                raise UnansweredError("cannot be reached")
            return await self.snapshots.bring(user, digest)

    class FirstServer:
        async def ask(self, _method: str, user: str, digest: str, offset: int) -> Piece:
            return await first.own_piece(user, digest, offset)

    asked: list[tuple[str, str]] = []
    others: list[Any] = [Other("dead"), Other("second"), Other("third")]
    first = ServerSnapshots(shelf_in(tmp_path / "first"), lambda: others)

    async def story() -> None:
        await first.put("ann", DIGEST, 0, len(DATA), DATA)
        assert await first.has("ann", DIGEST)
        assert await first.has("ann", DIGEST)

    asyncio.run(story())
    assert asked == [("dead", "take_snapshot"), ("second", "take_snapshot")]
    assert [shelf_in(tmp_path / name).has("ann", DIGEST) for name in ("first", "second", "third")] == [
        True,
        True,
        False,
    ]


class Link:
    def __init__(self) -> None:
        self.sent: list[SnapshotPart] = []
        self.has_four = asyncio.Event()

    def send(self, message: SnapshotPart) -> None:
        self.sent.append(message)
        if len(self.sent) == 4:
            self.has_four.set()


def test_a_node_gets_only_what_its_users_jobs_need(tmp_path: Path) -> None:
    async def story() -> None:
        snapshots = ServerSnapshots(shelf_in(tmp_path), list)
        await snapshots.put("ann", DIGEST, 0, len(DATA), DATA)
        answers, link = SnapshotAnswers(), Link()
        answers.source = snapshots.read
        want = WantSnapshot(request=1, user="ann", digest=DIGEST, offset=PIECE)
        for serves in ("*", "ann", "bob"):
            answers.asked(link, "n1", want, serves)
        answers.asked(link, "n1", WantSnapshot(request=2, user="bob", digest=DIGEST, offset=0), "*")
        await link.has_four.wait()
        whole = SnapshotPart(request=1, data=DATA[PIECE : 2 * PIECE], total=len(DATA))
        assert link.sent.count(whole) == 2
        errors = {part.request: part.error for part in link.sent if part.error}
        assert errors[1] == "this node runs no jobs of ann"
        assert "on no server that can be asked" in errors[2]

    asyncio.run(story())


def test_node_that_asks_for_everything_at_once_is_answered_in_part() -> None:
    async def story() -> None:
        answers, link, may_read = SnapshotAnswers(), Link(), asyncio.Event()
        reading = 0

        async def source(_user: str, _digest: str, _offset: int, _most: int) -> None:
            nonlocal reading
            reading += 1
            await may_read.wait()

        answers.source = source
        for request in range(2 * MOST_AT_ONCE):
            answers.asked(link, "n1", WantSnapshot(request=request, user="ann", digest=DIGEST, offset=0), "*")
        answers.asked(link, "n2", WantSnapshot(request=1, user="ann", digest=DIGEST, offset=0), "*")
        await _all_done()
        may_read.set()
        await _all_done()
        assert reading == MOST_AT_ONCE + 1, "those of n1, and that of n2"
        answers.asked(link, "n1", WantSnapshot(request=1, user="ann", digest=DIGEST, offset=0), "*")
        await _all_done()
        assert len(link.sent) == reading == MOST_AT_ONCE + 2

    asyncio.run(story())


async def _all_done() -> None:
    """Whatever can run without waiting has run."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_what_was_not_used_for_long_goes_unless_a_live_job_names_it(tmp_path: Path) -> None:
    async def story() -> None:
        store, shelf = MemoryStore("c"), shelf_in(tmp_path)
        digests = []
        for text in (b"named", b"old", b"new"):
            digests.append(f"sha256:{hashlib.sha256(text).hexdigest()}")
            shelf.put("ann", digests[-1], 0, len(text), text)
        named, old, new = digests
        for digest, days in ((named, 40), (old, 40), (new, 20)):
            path = f"{tmp_path}/ann/{digest.removeprefix('sha256:')}.tar.gz"
            os.utime(path, (NOW_S - days * 86400,) * 2)
        spec = JobSpec("ann", (Group(("true",), Request()),), snapshot=Snapshot(named, "/"))
        await store.submit([spec], NOW_S * 1000)
        sweeper = SnapshotSweeper(shelf, store, Settings(home=tmp_path), lambda: NOW_S * 1000)
        assert not shelf.remove_unused("ann", new, NOW_S - 30 * 86400)
        assert await sweeper.sweep() == 1
        assert {kept.digest for kept in shelf.kept()} == {named, new}

    asyncio.run(story())
