"""A node's disk that is full: no exit code is lost, and what cannot start says so."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tests.small_disk import SmallDisk, mounted, needs_root
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.runner import journal, logs, output
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.docker.ledger import Ledger, read_entries
from tgpu.runner.output import ALWAYS_KEPT, Stream
from tgpu.runner.port import AttemptStarted

pytestmark = needs_root
PAGE = 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    yield from mounted(tmp_path / "disk", "4m")


@pytest.fixture
def on_disk(disk: SmallDisk, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(disk.path)
    machine.cluster = tmp_path.name
    machine.open()
    yield machine
    machine.close()
    machine.loop.close()


@pytest.fixture
def without_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "RESERVE_BYTES", 0)


def fill_with_journal(disk: SmallDisk, machine: Machine) -> None:
    """Also the rest of the journal's last page."""
    (path,) = (machine.home / "records").glob("exits.*")
    with path.open("ab") as file:
        file.write(b"\n" * (-path.stat().st_size % PAGE))
    disk.fill()


def test_reserve_of_the_journal_takes_ends_and_claims_on_a_full_disk(
    disk: SmallDisk, on_disk: Machine
) -> None:
    running = on_disk.shell("read line < go; exit 7", cwd=str(on_disk.home))
    os.mkfifo(on_disk.home / "go")
    on_disk.start_of(running)
    fill_with_journal(disk, on_disk)
    (on_disk.home / "go").write_text("\n")
    assert on_disk.end_of(running).exit_code == 7
    assert running in on_disk.runner._journals.read().exits
    assert on_disk.run("sh", "-c", "exit 3").exit_code == 3


@pytest.mark.usefixtures("without_reserve")
def test_end_that_cannot_be_recorded_is_told_at_once_and_recorded_later(
    disk: SmallDisk, on_disk: Machine
) -> None:
    os.mkfifo(on_disk.home / "go")
    attempt = on_disk.shell("read line < go; exit 7", cwd=str(on_disk.home))
    on_disk.start_of(attempt)
    fill_with_journal(disk, on_disk)
    (on_disk.home / "go").write_text("\n")
    assert on_disk.end_of(attempt).exit_code == 7
    assert attempt not in on_disk.runner._journals.read().exits
    disk.empty()
    on_disk.until(lambda: attempt in on_disk.runner._journals.read().exits)


@pytest.mark.usefixtures("without_reserve")
def test_task_that_cannot_be_claimed_on_a_full_disk_can_start_elsewhere(
    disk: SmallDisk, on_disk: Machine
) -> None:
    fill_with_journal(disk, on_disk)
    end = on_disk.run("true")
    assert (end.cause, end.detail) == (Cause.NODE_LOST, DISK_FULL)
    disk.empty()
    assert on_disk.run("true").exit_code == 0


@pytest.mark.parametrize("at_once", [False, True])
def test_task_is_stopped_on_a_full_disk(disk: SmallDisk, on_disk: Machine, at_once: bool) -> None:
    attempt = on_disk.shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done", grace_s=60)
    on_disk.until_printed(attempt, b"ready")
    fill_with_journal(disk, on_disk)
    on_disk.runner.stop(attempt, Cause.CANCELLED, "by " + "a" * 100, at_once=at_once)
    end = on_disk.end_of(attempt)
    assert end.cause is Cause.CANCELLED
    assert end.detail.startswith("by aaaa")
    assert (end.exit_code, end.signal) == ((None, 9) if at_once else (5, None))


@pytest.mark.usefixtures("without_reserve")
def test_agent_that_starts_on_a_full_disk_finds_its_tasks_again(disk: SmallDisk, on_disk: Machine) -> None:
    os.mkfifo(on_disk.home / "go")
    attempt = on_disk.shell("read line < go; exit 7", cwd=str(on_disk.home))
    on_disk.start_of(attempt)
    on_disk.close()
    on_disk.events.clear()
    fill_with_journal(disk, on_disk)
    assert [event.attempt for event in on_disk.open() if isinstance(event, AttemptStarted)] == [attempt]
    (on_disk.home / "go").write_text("\n")
    assert on_disk.end_of(attempt).exit_code == 7
    disk.empty()


def test_output_beyond_its_first_part_is_dropped_while_the_disk_is_short(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    stream = Stream(read, str(disk.path / "1.0.1"), "stdout", 1 << 20)
    monkeypatch.setattr(Stream, "reserve_bytes", 2 << 20)
    data = bytes(output.CHUNK // 2)
    for _ in range(4):
        os.write(write, data)
        stream.pump()
    assert stream.lost == 0
    disk.fill(leave=1 << 20)
    os.write(write, data)
    stream.pump()
    assert stream.lost == len(data)
    disk.empty()
    os.write(write, data)
    stream.pump()
    assert stream.lost == len(data)
    os.close(write)
    stream.close()
    kept = sum(path.stat().st_size for path in (disk.path / "1.0.1").glob("stdout.*"))
    assert kept == 5 * len(data) > ALWAYS_KEPT


def test_first_part_of_output_is_kept_without_times_while_the_disk_is_short(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    stream = Stream(read, str(disk.path / "1.0.1"), "stdout", 1 << 20)
    monkeypatch.setattr(Stream, "reserve_bytes", 1 << 40)
    os.write(write, b"first")
    stream.pump()
    assert [path.name for path in (disk.path / "1.0.1").iterdir()] == ["stdout.0"]
    monkeypatch.setattr(Stream, "reserve_bytes", 0)
    os.write(write, b"second")
    stream.pump()
    os.close(write)
    stream.close()
    part = logs.read(disk.path / "1.0.1", "stdout", 0, 100)
    assert part.data == b"firstsecond"
    assert [(offset, us is None) for offset, us in part.times] == [(0, True), (5, False)]


def test_ledger_of_containers_is_never_replaced_by_half_of_it(disk: SmallDisk) -> None:
    ledger = Ledger(disk.path / "containers")
    ledger.open(0)
    for number in range(200):
        ledger.ended(f"{number}.0.1", Exit(Cause.EXITED, exit_code=number % 256, detail="x" * 200))
    ledger.close()
    disk.fill()
    again = Ledger(disk.path / "containers")
    again.open(0)
    again.close()
    entries = read_entries(disk.path / "containers")
    assert [entries[f"{number}.0.1"].exit for number in range(200)] == [
        Exit(Cause.EXITED, exit_code=number % 256, detail="x" * 200) for number in range(200)
    ]
