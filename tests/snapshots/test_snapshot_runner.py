"""Attempts that stand in a copy of their code: fetched over a stream that may break, and gone with them."""

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import ME, PATH
from tests.runner.driven import Driven
from tgpu.agent import snapshot_fetch
from tgpu.agent.snapshot_fetch import SnapshotFetch
from tgpu.agent.snapshot_runner import SnapshotRunner
from tgpu.cli.snapshot import archive, tree
from tgpu.domain.lifecycle import Cause
from tgpu.domain.snapshot import Snapshot
from tgpu.protocol.snapshots import SnapshotPart, WantSnapshot
from tgpu.runner.limits import Limits
from tgpu.runner.port import CouldNotPrepareError, Runner
from tgpu.runner.process import ProcessRunner

MIB = 1 << 20


class Node(Driven):
    """A real runner, and a leader that is a function."""

    def __init__(self, home: Path, *, cgroups: bool = False) -> None:
        super().__init__(home, home.name)
        self.cgroups = cgroups
        self.asked: list[WantSnapshot] = []
        self.answer: Callable[[WantSnapshot], SnapshotPart | None] = lambda _: None
        self.most_bytes = MIB

    def made(self) -> Runner:
        self.inner = inner = ProcessRunner(
            self.home / "records", self.home / "logs", self.cluster, cgroups=self.cgroups
        )
        fetch = SnapshotFetch(self.home / "archives", MIB)
        fetch.say = lambda want: self._said(fetch, want)
        self.copies = self.home / "copies" / "cluster"
        return SnapshotRunner(
            inner, self.copies, fetch, self.most_bytes, now_ms=lambda: 7, preparation=inner.preparation
        )

    def _said(self, fetch: SnapshotFetch, want: WantSnapshot) -> None:
        self.asked.append(want)
        part = self.answer(want)
        if part is not None:
            asyncio.get_running_loop().call_soon(fetch.heard, part)

    def usual(self) -> dict[str, object]:
        return {"env": {"PATH": PATH}, "user": ME}

    def serve(self, data: bytes, piece: int = 100) -> None:
        def answer(want: WantSnapshot) -> SnapshotPart:
            part = data[want.offset : want.offset + piece]
            return SnapshotPart(request=want.request, data=part, total=len(data))

        self.answer = answer

    def left(self) -> list[str]:
        return sorted(path.name for path in self.copies.glob("*/*"))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(snapshot_fetch, "ANSWER_S", 0.1)
    monkeypatch.setattr(snapshot_fetch, "PAUSE_S", 0.01)
    one = Node(tmp_path / "node")
    one.home.mkdir()
    one.open()
    yield one
    one.close()
    one.loop.close()


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[Node]:
    """With real cgroups; nothing of them may be left at the end."""
    one = Node(tmp_path / f"node-{uuid.uuid4().hex}", cgroups=True)
    one.home.mkdir()
    one.open()
    groups = one.inner._cgroups
    if groups is None or "memory" not in groups.bases:
        pytest.skip("no memory can be limited here")
    yield one
    one.close()
    one.loop.close()
    assert not [base for base in groups.bases.values() if Path(base).exists()]


@pytest.fixture
def code(tmp_path: Path) -> tuple[Snapshot, bytes]:
    folder = tmp_path / "code"
    (folder / "sub").mkdir(parents=True)
    (folder / "word").write_text("then\n")
    packed = archive.pack(tree.plain_tree(folder), 1)
    (folder / "word").write_text("now\n")
    return Snapshot(packed.digest, str(folder)), packed.file.read()


def test_it_runs_in_its_copy_which_goes_with_it(node: Node, code: tuple[Snapshot, bytes]) -> None:
    snapshot, data = code
    node.serve(data)
    for _ in range(2):
        attempt = node.shell("cat ../word; pwd", snapshot=snapshot, cwd=f"{snapshot.root}/sub")
        assert node.end_of(attempt).exit_code == 0
        assert node.output(attempt).decode().splitlines() == ["then", f"{node.copies}/{ME}/{attempt}/sub"]
        node.until(lambda: not node.left())
    assert len({want.offset for want in node.asked}) == len(node.asked), "the second found it here"


def test_questions_that_are_lost_are_asked_again(node: Node, code: tuple[Snapshot, bytes]) -> None:
    snapshot, data = code
    node.serve(data, piece=200)
    answer, lost = node.answer, [True, False, True, True]
    node.answer = lambda want: None if lost and lost.pop(0) else answer(want)
    attempt = node.shell("cat word", snapshot=snapshot, cwd=snapshot.root)
    assert node.end_of(attempt).exit_code == 0
    assert node.output(attempt) == b"then\n"


def test_one_that_is_stopped_while_it_is_fetched_has_ended(node: Node, code: tuple[Snapshot, bytes]) -> None:
    snapshot, _ = code
    attempt = node.shell("true", snapshot=snapshot, cwd=snapshot.root)
    node.until(lambda: node.asked)
    node.runner.launch(node.spec("true", attempt=attempt, snapshot=snapshot, cwd=snapshot.root))
    node.runner.stop(attempt, Cause.CANCELLED, "")
    end = node.end_of(attempt)
    assert (end.cause, end.detail) == (Cause.CANCELLED, "stopped before it started")
    assert not node.left()


def test_what_no_server_has_cannot_start(node: Node, code: tuple[Snapshot, bytes]) -> None:
    snapshot, _ = code
    node.answer = lambda want: SnapshotPart(request=want.request, error="it is gone: submit it anew")
    end = node.end_of(node.shell("true", snapshot=snapshot, cwd=snapshot.root))
    assert (end.cause, end.detail) == (Cause.COULD_NOT_START, "it is gone: submit it anew")


def test_what_arrives_otherwise_than_it_was_sent_is_not_run(node: Node, code: tuple[Snapshot, bytes]) -> None:
    snapshot, data = code
    node.serve(data[:-1] + b"x")
    end = node.end_of(node.shell("true", snapshot=snapshot, cwd=snapshot.root))
    assert "did not arrive as it was sent" in end.detail
    assert not list((node.home / "archives").glob("*/*.tar.gz"))


def test_what_cannot_be_unpacked_tells_why(node: Node) -> None:
    data = b"no archive"
    node.serve(data)
    snapshot = Snapshot(f"sha256:{hashlib.sha256(data).hexdigest()}", "/code")
    end = node.end_of(node.shell("true", snapshot=snapshot, cwd="/code"))
    assert end.cause is Cause.COULD_NOT_START
    assert end.detail.startswith("its snapshot cannot be unpacked: ")
    node.until(lambda: not node.left())


def test_of_a_gang_it_is_there_before_any_starts(node: Node, code: tuple[Snapshot, bytes]) -> None:
    snapshot, data = code
    node.serve(data)
    specs = [node.spec("cat", "word", snapshot=snapshot, cwd=snapshot.root) for _ in range(3)]
    for spec in specs:
        node.wait_for(node.runner.prepare(spec))
    assert node.left() == sorted(spec.attempt for spec in specs)
    node.answer = lambda _: None
    node.runner.launch(specs[0])
    assert node.end_of(specs[0].attempt).exit_code == 0
    node.runner.drop(specs[1].attempt)
    node.until(lambda: node.left() == [specs[2].attempt])
    node.answer = lambda want: SnapshotPart(request=want.request, error="gone")
    other = node.spec("true", snapshot=Snapshot("sha256:" + "0" * 64, "/"), cwd="/")
    with pytest.raises(CouldNotPrepareError, match="gone"):
        node.wait_for(node.runner.prepare(other))


def test_copies_that_nobody_stands_in_are_removed_by_the_next_agent(
    node: Node, code: tuple[Snapshot, bytes]
) -> None:
    snapshot, data = code
    node.serve(data)
    lives = node.shell("sleep 60", snapshot=snapshot, cwd=snapshot.root, grace_s=0)
    node.start_of(lives)
    (node.copies / "99.0.1" / "deep").mkdir(parents=True)
    (node.copies / "99.0.1" / "deep").chmod(0o500)
    node.close()
    node.open()
    assert node.left() == [lives]
    node.runner.stop(lives, Cause.CANCELLED, "")
    node.end_of(lives)
    node.until(lambda: not node.left())


def test_archive_is_unpacked_in_the_cgroup_of_its_job_and_counted_there(
    grouped: Node, code: tuple[Snapshot, bytes]
) -> None:
    """The program that unpacks takes more memory than all that the task itself runs."""
    snapshot, data = code
    grouped.serve(data)
    peaks = []
    name = "memory.max_usage_in_bytes" if grouped.inner._cgroups.version == 1 else "memory.peak"
    for changes in ({}, {"snapshot": snapshot, "cwd": snapshot.root}):
        attempt = grouped.spec("true").attempt
        peak = f"{grouped.inner._cgroups.folder('memory', attempt)}/{name}"
        spec = grouped.spec("cat", peak, attempt=attempt, limits=Limits(memory_limit_mib=256), **changes)
        grouped.runner.launch(spec)
        assert grouped.end_of(attempt).exit_code == 0
        peaks.append(int(grouped.output(attempt)))
    without, within = peaks
    assert within > without + 2 * MIB
    assert within <= 256 * MIB


def test_archive_that_needs_more_memory_than_its_job_may_use_ends_the_job(
    grouped: Node, code: tuple[Snapshot, bytes]
) -> None:
    snapshot, data = code
    grouped.serve(data)
    limits = Limits(memory_limit_mib=2)
    attempt = grouped.shell("true", snapshot=snapshot, cwd=snapshot.root, limits=limits)
    end = grouped.end_of(attempt)
    assert end.cause is Cause.OUT_OF_MEMORY
    assert end.detail == (
        "its snapshot could not be unpacked within its memory limit of 2 MiB: ask for more with --memory"
    )
    folders = grouped.inner._cgroups.folders(attempt)
    grouped.until(lambda: not [folder for folder in folders if Path(folder).exists()])
    grouped.until(lambda: not grouped.left())


def test_group_of_a_gang_task_that_is_dropped_is_removed(grouped: Node, code: tuple[Snapshot, bytes]) -> None:
    snapshot, data = code
    grouped.serve(data)
    spec = grouped.spec("true", snapshot=snapshot, cwd=snapshot.root)
    grouped.wait_for(grouped.runner.prepare(spec))
    folder = Path(grouped.inner._cgroups.folder("memory", spec.attempt))
    assert folder.exists()
    grouped.runner.drop(spec.attempt)
    grouped.until(lambda: not folder.exists())
