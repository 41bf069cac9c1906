"""A supervisor costs little: it is copied from a process that has loaded all it needs, and nothing else."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.runner.conftest import Machine
from tgpu.domain.lifecycle import Cause
from tgpu.runner.cgroups import files
from tgpu.runner.folders import Folders
from tgpu.runner.port import AttemptEnded, AttemptStarted
from tgpu.runner.spawner import CROWD

SRC = Path(__file__).parents[2] / "src"
HEAVY = {"asyncio", "collections", "enum", "functools", "json", "pathlib", "re", "signal", "socket", "typing"}
A_BUSY_AGENT = """
import socket, sys
sys.path.append(sys.argv[1])
from tgpu.runner import records
from tgpu.runner.place import Place
place = Place(sys.argv[2], sys.argv[2], "c", 0, {}, {}, 0)
print(place.tell(b"nobody is there"))
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.bind(records.SOCKET)
agent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sender.setblocking(False)
try:
    while True:
        sender.sendto(b"x", records.SOCKET)
except BlockingIOError:
    print(place.tell(b"it is there, and does not listen"))
"""


def run(code: str, *words: str) -> list[str]:
    command = [sys.executable, "-I", "-S", "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def libraries(pid: int) -> set[str]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if ".so" in line}


def stop(machine: Machine, *attempts: str) -> None:
    for attempt in attempts:
        machine.runner.stop(attempt, Cause.CANCELLED, "")
    for attempt in attempts:
        assert machine.end_of(attempt).cause == Cause.CANCELLED


def test_what_is_copied_for_each_has_nothing_heavy_in_it() -> None:
    code = "import sys; sys.path.append(sys.argv[1]); import tgpu.runner.spawner; print(*sys.modules)"
    assert not HEAVY & set(run(code, str(SRC)))


def test_a_supervisor_loads_nothing_that_its_spawner_has_not(grouped: Machine) -> None:
    attempt = grouped.launch("sleep", "60")
    grouped.start_of(attempt)
    supervisor = grouped.runner._known.supervisor_of(attempt).pid
    grouped.until(lambda: files.read(f"/proc/{supervisor}/stat").rpartition(")")[2].split()[0] == "S")
    loaded = libraries(supervisor)
    stop(grouped, attempt)
    assert loaded == libraries(grouped.runner._spawner.process.pid)


def test_more_at_once_than_a_crowd_are_all_run_once(machine: Machine) -> None:
    short = [machine.launch("true") for _ in range(CROWD)]
    long = [machine.launch("sleep", "60") for _ in range(CROWD + 5)]
    short += [machine.launch("true") for _ in range(CROWD)]
    for attempt in short:
        assert machine.end_of(attempt).exit_code == 0
    for attempt in long:
        machine.start_of(attempt)
    told = Counter((type(event), event.attempt) for event in machine.events)
    stop(machine, *long)
    assert set(told.values()) == {1}
    assert {attempt for kind, attempt in told if kind is AttemptEnded} == set(short)
    assert {attempt for kind, attempt in told if kind is AttemptStarted} >= set(long)


def test_who_is_too_busy_to_listen_is_not_taken_for_gone(tmp_path: Path) -> None:
    assert run(A_BUSY_AGENT, str(SRC), str(tmp_path)) == ["False", "True"]


def test_many_that_are_stopped_for_one_reason_share_a_file(tmp_path: Path) -> None:
    folders, stops = Folders(tmp_path), tmp_path / "stops"
    for number in range(3):
        folders.order_stop(f"{number}.0.1", "cancelled", "by ada", at_once=False)
    folders.order_stop("3.0.1", "preempted", "", at_once=False)
    folders.order_stop("0.0.1", "cancelled", "by ada", at_once=True)
    folders.order_stop("4.0.1", "cancelled", "by ada", at_once=True)
    texts = [(stops / f"{number}.0.1").read_text() for number in range(5)]
    assert texts == [
        "cancelled\nby ada\0at once",
        "cancelled\nby ada",
        "cancelled\nby ada",
        "preempted\n",
        "cancelled\nby ada\0at once",
    ]
    assert (stops / "1.0.1").samefile(stops / "2.0.1")
    assert not (stops / "0.0.1").samefile(stops / "1.0.1")


def test_a_long_list_of_members_is_read_to_its_end(tmp_path: Path) -> None:
    pids = list(range(1, 30_001))
    (tmp_path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    assert files.members(str(tmp_path)) == pids
