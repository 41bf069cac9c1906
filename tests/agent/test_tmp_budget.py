"""Tasks that write more into their private /tmp than they may are ended, and the node goes on."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tests.small_disk import SmallDisk, mounted
from tgpu.agent.disk_budgets import EVERY_S, REST, SOON_S, Pace, TmpUse, ended_for_space
from tgpu.agent.disk_meter import DiskMeter
from tgpu.agent.failed_tmp import FailedTmp
from tgpu.agent.tmp_budget import TmpBudget
from tgpu.domain.lifecycle import Cause
from tgpu.observe.disk_space import DiskSpace
from tgpu.runner import private_tmp
from tgpu.runner.limits import Limits

needs_mounts = pytest.mark.skipif(bool(private_tmp.why_not()), reason="this machine does not let us mount")
MIB = 1 << 20
USER = "nobody"


def writing(mib: int) -> str:
    """A program that leaves so much in its /tmp, and waits."""
    return f"head -c {mib * MIB} /dev/zero > /tmp/data; echo written; exec sleep 600"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)
    yield from mounted(tmp_path / "disk", "32m")


@pytest.fixture
def node(disk: SmallDisk, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(disk.path, private_tmp=True, failed_tmp=disk.path / "failed-tmp" / "cluster")
    machine.cluster = tmp_path.name
    machine.open()
    yield machine
    machine.stop_all()
    machine.close()
    machine.loop.close()


class Budget:
    """Checked when the test says so."""

    def __init__(self, node: Machine, disk: SmallDisk, reserve_mib: int = 1) -> None:
        self._node = node
        self.kept = FailedTmp(disk.path / "failed-tmp", 3600, 64 * MIB, DiskMeter())
        self._space = DiskSpace(disk.path, reserve_mib, clock=iter(range(1000)).__next__)
        self._budget = TmpBudget(lambda: [node.runner], DiskMeter(), self._space, self.kept)

    def check(self) -> None:
        self._node.wait_for(self._budget.check())

    @property
    def is_short(self) -> bool:
        return self._space.shortage() is not None


def start(node: Machine, script: str, **limits: int) -> str:
    attempt = node.shell(script, user=USER, grace_s=60, limits=Limits(**limits))
    node.until_printed(attempt, b"written")
    node.start_of(attempt)
    return attempt


@needs_mounts
def test_task_beyond_its_limit_is_ended_with_the_numbers_and_what_to_do(
    node: Machine, disk: SmallDisk
) -> None:
    within = start(node, writing(2), disk_mib=3, disk_limit_mib=3)
    beyond = start(node, writing(4), disk_mib=3, disk_limit_mib=3)
    unlimited = start(node, writing(5))
    Budget(node, disk).check()
    end = node.end_of(beyond)
    assert end.cause is Cause.DISK_LIMIT
    assert end.detail.startswith("its /tmp held 4 of at most 3 MiB (its --disk); ask for more with --disk")
    assert end.kept_tmp == "", "what is too much is not kept"
    node.until(lambda: not (disk.path / "records" / "tmp" / beyond).exists())
    for attempt in (within, unlimited):
        assert not node.has_ended(attempt)


@needs_mounts
def test_limit_holds_for_tasks_from_before_this_agent(node: Machine, disk: SmallDisk) -> None:
    attempt = start(node, writing(4), disk_limit_mib=3)
    node.close()
    node.events.clear()
    node.open()
    Budget(node, disk).check()
    end = node.end_of(attempt)
    assert end.cause is Cause.DISK_LIMIT
    assert "of at most 3 MiB (setting task_disk of its node)" in end.detail


@needs_mounts
def test_full_node_ends_the_task_beyond_its_limit_at_once_and_recovers(
    node: Machine, disk: SmallDisk
) -> None:
    within = start(node, writing(12), disk_limit_mib=20)
    greedy = node.shell(
        "trap '' TERM; cat /dev/zero > /tmp/data; while :; do sleep 0.1; done",
        user=USER,
        grace_s=600,
        limits=Limits(disk_limit_mib=4),
    )
    node.start_of(greedy)
    node.until(lambda: disk.free == 0)
    budget = Budget(node, disk)
    assert budget.is_short
    budget.check()
    end = node.end_of(greedy)
    assert (end.cause, end.signal) == (Cause.DISK_LIMIT, 9)
    words = r"its /tmp held \d+ of at most 4 MiB \(setting task_disk of its node\); ask for"
    assert re.match(words, end.detail)
    node.until(lambda: not budget.is_short)
    budget.check()
    assert not node.has_ended(within)
    assert node.run("true").exit_code == 0


@needs_mounts
def test_full_node_ends_the_largest_task_that_reserved_no_disk_if_none_is_beyond_its_limit(
    node: Machine, disk: SmallDisk
) -> None:
    reserved = start(node, writing(14), disk_mib=20, disk_limit_mib=20)
    small, large = (start(node, writing(mib), disk_limit_mib=20) for mib in (5, 9))
    disk.fill()
    budget = Budget(node, disk, reserve_mib=4)
    budget.check()
    end = node.end_of(large)
    assert end.cause is Cause.DISK_PRESSURE
    assert end.detail.startswith("its /tmp held 9 MiB, and 0 MiB were left of the 4 MiB that are kept free")
    node.until(lambda: not budget.is_short)
    budget.check()
    assert not node.has_ended(small)
    assert not node.has_ended(reserved)


@needs_mounts
def test_what_earlier_attempts_left_counts_and_goes_before_the_task(node: Machine, disk: SmallDisk) -> None:
    failed = node.shell(f"head -c {2 * MIB} /dev/zero > /tmp/data; exit 3", user=USER)
    kept = Path(node.end_of(failed).kept_tmp)
    task = failed.rpartition(".")[0]
    running = node.launch(
        "sh", "-c", writing(2), user=USER, attempt=f"{task}.2", limits=Limits(disk_limit_mib=3)
    )
    node.until_printed(running, b"written")
    node.start_of(running)
    budget = Budget(node, disk)
    budget.check()
    assert kept.exists(), "it is not known yet how large it is"
    node.wait_for(budget.kept.sweep())
    budget.check()
    assert not kept.exists()
    assert not node.has_ended(running)


def test_files_beyond_count_are_too_many_unless_there_is_no_limit() -> None:
    use = TmpUse("1.0.1", 5 * MIB, 0, 9, is_countable=False)
    assert use.excess.startswith("its /tmp has more than 4,000,000 files")
    assert not TmpUse("1.0.1", 5 * MIB, 0, 0, is_countable=False).excess


def test_task_whose_end_would_free_next_to_nothing_is_not_ended_for_space() -> None:
    uses = [TmpUse("1.0.1", MIB, 0, 9), TmpUse("2.0.1", 8 * MIB, 8, 8)]
    assert ended_for_space(uses, reserve=8 * MIB) is None
    assert ended_for_space(uses, reserve=4 * MIB) is uses[0]
    assert ended_for_space([], reserve=0) is None


def test_measurements_come_sooner_when_space_runs_out_and_later_when_they_take_long() -> None:
    pace, reserve = Pace(), 10
    assert pace.is_due(0.0, 1000, reserve)
    pace.measured(0.0, 0.1, 1000)
    assert not pace.is_due(EVERY_S - 0.1, 1000, reserve)
    assert pace.is_due(EVERY_S, 1000, reserve)
    assert not pace.is_due(SOON_S, 800, reserve)
    assert pace.is_due(SOON_S, 700, reserve), "a quarter of what was free is used"
    assert not pace.is_due(SOON_S - 0.1, 700, reserve)
    assert pace.is_due(SOON_S, 39, reserve), "it is near the reserve"
    pace.measured(100.0, 120.0, 39)
    assert not pace.is_due(120.0 + REST * 20.0 - 0.1, 0, reserve)
    assert pace.is_due(120.0 + REST * 20.0, 0, reserve)
