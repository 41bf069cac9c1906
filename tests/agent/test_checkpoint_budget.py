"""Checkpoint folders of one user have one budget: beyond it, tasks that go on writing are ended."""

import asyncio
import time
from pathlib import Path

from tgpu.agent.checkpoint_budget import CheckpointBudget
from tgpu.agent.checkpoints import NodeCheckpoints
from tgpu.agent.disk_meter import DiskMeter
from tgpu.domain.lifecycle import Cause
from tgpu.observe.disk_space import DiskSpace

MIB = 1 << 20


class Runner:
    def __init__(self) -> None:
        self.stopped: list[tuple[str, Cause, str, bool]] = []

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        self.stopped.append((attempt, cause, detail, at_once))


class Node:
    def __init__(self, root: Path, limit_mib: int, reserve_mib: int = 0) -> None:
        self.runner, self.later_s = Runner(), 0.0
        self._running: dict[str, Path] = {}
        self._checkpoints = NodeCheckpoints(root, 3600, lambda: time.time() + self.later_s)
        self._checkpoints.use_cluster("c1")
        self._budget = CheckpointBudget(
            lambda: [self.runner],
            self._checkpoints,
            DiskMeter(),
            DiskSpace(root, reserve_mib),
            lambda: limit_mib * MIB,
        )

    def start(self, attempt: str, user: str) -> None:
        folder = self._running[attempt] = Path(self._checkpoints.folder_of(attempt, user))
        folder.mkdir(parents=True, exist_ok=True)

    def end(self, attempt: str) -> None:
        del self._running[attempt]

    def write(self, attempt: str, mib: int) -> None:
        folder = self._running[attempt]
        (folder / f"{len(list(folder.iterdir()))}.pt").write_bytes(bytes(mib * MIB))

    def check(self) -> list[str]:
        """Attempts that were ended by this check."""

        async def story() -> None:
            await self._checkpoints.look(self._running)
            await self._budget.check()

        before = len(self.runner.stopped)
        asyncio.run(story())
        return [attempt for attempt, *_ in self.runner.stopped[before:]]


def test_largest_writer_of_a_user_beyond_the_budget_is_ended_with_the_numbers(tmp_path: Path) -> None:
    node = Node(tmp_path, limit_mib=4)
    for attempt, user, mib in (("1.0.1", "ann", 2), ("2.0.1", "ann", 1), ("3.0.1", "bob", 3)):
        node.start(attempt, user)
        node.write(attempt, mib)
    assert node.check() == [], "ann has 3 MiB, bob 3"
    node.write("1.0.1", 2)
    assert node.check() == ["1.0.1"]
    ((_, cause, detail, at_once),) = node.runner.stopped
    assert (cause, at_once) == (Cause.DISK_LIMIT, False)
    assert detail == (
        "its user's checkpoints held 5 of at most 4 MiB (setting user_checkpoints of its node); remove some "
        f"below {tmp_path}/c1/ann"
    )
    node.end("1.0.1")
    assert node.check() == [], "the others have not written since"
    node.write("2.0.1", 1)
    assert node.check() == ["2.0.1"]


def test_what_ended_tasks_left_counts_but_tasks_that_do_not_write_go_on(tmp_path: Path) -> None:
    node = Node(tmp_path, limit_mib=4)
    node.start("1.0.1", "ann")
    node.write("1.0.1", 5)
    node.end("1.0.1")
    node.later_s = 100.0
    node.start("1.0.2", "ann")
    node.start("2.0.1", "ann")
    assert node.check() == [], "neither has written since it began"
    node.later_s = -100.0
    node.start("3.0.1", "ann")
    node.write("3.0.1", 1)
    assert node.check() == ["3.0.1"]


def test_task_is_ended_at_once_while_the_disk_is_short(tmp_path: Path) -> None:
    node = Node(tmp_path, limit_mib=1, reserve_mib=1 << 40)
    node.start("1.0.1", "ann")
    node.write("1.0.1", 2)
    assert node.check() == ["1.0.1"]
    assert node.runner.stopped[0][3]


def test_without_a_limit_no_task_is_ended(tmp_path: Path) -> None:
    node = Node(tmp_path, limit_mib=0)
    node.start("1.0.1", "ann")
    node.write("1.0.1", 2)
    assert node.check() == []
