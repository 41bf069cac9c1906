"""Who uses a GPU outside of tgpu: whom it belongs to, when it counts, and what is told of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tgpu.agent.inventory.foreign import LOOKS_AFTER, ForeignUsers
from tgpu.agent.inventory.owners import NAMELESS, Owners
from tgpu.domain.gpu_words import foreign_in_words
from tgpu.domain.node import Device, ForeignUse
from tgpu.runner.journal import Claim
from tgpu.runner.records import birth_of
from tgpu.runner.roots import Roots

GPU = Device(0, "GPU-0", "A100", 81920)
BOB = ForeignUse(4711, "bob", "python", 12288)
ASLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]


def users(floor_mib: int = 512, *, avoid: bool = True) -> ForeignUsers:
    """As they are after a first look, with nobody there."""
    made = ForeignUsers(floor_mib, avoid=avoid)
    assert made.marked(GPU, []) == GPU
    return made


def test_a_process_counts_when_it_was_seen_twice_and_until_it_was_missed_for_a_while() -> None:
    seen = users()
    assert seen.marked(GPU, [BOB]) == GPU
    held = seen.marked(GPU, [BOB])
    assert (held.foreign, held.avoided, held.is_usable, held.healthy) == ((BOB,), True, False, True)
    for _ in range(LOOKS_AFTER - 1):
        assert seen.marked(GPU, []) == held
    assert seen.marked(GPU, []) == GPU


def test_a_flicker_is_nobodys_use() -> None:
    seen = users()
    for _ in range(5):
        assert seen.marked(GPU, [BOB]) == GPU
        assert seen.marked(GPU, []) == GPU


def test_whoever_is_there_at_the_first_look_has_been_there() -> None:
    assert ForeignUsers(512, avoid=True).marked(GPU, [BOB]).avoided


def test_memory_is_told_anew_only_when_it_has_changed_a_lot() -> None:
    seen = users()
    told = []
    for memory_mib in (10000, 10100, 10700, 9500, 10400, 20000, 20100, 19000):
        device = seen.marked(GPU, [ForeignUse(1, "bob", "python", memory_mib)])
        told += [use.memory_mib for use in device.foreign]
    assert told == [9984, 9984, 9984, 9984, 19968, 19968, 19968]


def test_what_is_below_the_floor_does_not_count_and_what_nobody_tells_does() -> None:
    small = [ForeignUse(pid, "ann", "Xorg", 256) for pid in (1, 2)]
    assert not ForeignUsers(1024, avoid=True).marked(GPU, small).foreign
    assert ForeignUsers(512, avoid=True).marked(GPU, small).foreign == tuple(small)
    unknown = ForeignUse(3, "ann", "python", 0)
    assert ForeignUsers(1024, avoid=True).marked(GPU, [unknown]).foreign == (unknown,)


def test_where_gpus_are_shared_others_are_shown_and_not_avoided() -> None:
    shared = ForeignUsers(512, avoid=False).marked(GPU, [BOB])
    assert (shared.foreign, shared.is_usable) == ((BOB,), True)


def test_each_gpu_has_its_own_users() -> None:
    seen, other = ForeignUsers(512, avoid=True), Device(1, "GPU-1", "A100", 81920)
    assert seen.marked(GPU, [BOB]).avoided
    assert not seen.marked(other, []).avoided


@pytest.mark.parametrize(
    ("foreign", "words"),
    [
        ((BOB,), "GPU 0 of n1 is used by bob outside of tgpu: python, 12 GiB"),
        ((ForeignUse(1, "bob", "python", 0),), "GPU 0 of n1 is used by bob outside of tgpu: python"),
        (
            (ForeignUse(1, "eve", "Xorg", 512), BOB),
            "GPU 0 of n1 is used by bob and eve outside of tgpu: bob's python, 12 GiB; eve's Xorg, 512 MiB",
        ),
        (
            tuple(ForeignUse(pid, "bob", "worker", 1024) for pid in range(5)),
            (
                "GPU 0 of n1 is used by bob outside of tgpu: "
                "worker, 1 GiB; worker, 1 GiB; worker, 1 GiB and 2 more"
            ),
        ),
    ],
)
def test_they_are_put_into_words(foreign: tuple[ForeignUse, ...], words: str) -> None:
    assert foreign_in_words(Device(0, "u", "A100", 1, foreign=foreign), "n1") == words


@pytest.fixture
def processes() -> Iterator[list["subprocess.Popen[bytes]"]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def asleep(processes: list["subprocess.Popen[bytes]"], **env: str) -> int:
    """Once it runs: until then its environment cannot be seen."""
    processes.append(subprocess.Popen(ASLEEP, env=env, stdout=subprocess.PIPE))
    assert processes[-1].stdout is not None
    processes[-1].stdout.readline()
    return processes[-1].pid


def test_a_tasks_process_is_known_by_its_environment(processes: list["subprocess.Popen[bytes]"]) -> None:
    pid = asleep(processes, TGPU_ATTEMPT_KEY="c1:42.0.1")
    assert Owners("c1").attempt_of(pid) == "42.0.1"
    assert Owners("c1").foreign(pid, 100) is None


def test_what_descends_from_this_agent_is_its_own_whatever_it_has_forgotten(
    processes: list["subprocess.Popen[bytes]"],
) -> None:
    assert Owners("c1").attempt_of(asleep(processes)) == NAMELESS


def fake_proc(folder: Path, pid: int, parent: int, environ: str = "", cgroup: str = "0::/user") -> None:
    (folder / str(pid)).mkdir()
    for name, text in (
        ("environ", environ),
        ("cgroup", f"{cgroup}\n"),
        ("comm", "python\n"),
        ("stat", f"{pid} (a) b) S {parent} 1 1"),
    ):
        (folder / str(pid) / name).write_text(text)


@pytest.mark.parametrize(
    ("environ", "cgroup", "owner"),
    [
        ("A=1\0TGPU_ATTEMPT_KEY=c1:42.0.1\0B=2", "0::/user", "42.0.1"),
        ("TGPU_ATTEMPT_KEY=c2:42.0.1", "0::/user", None),
        ("XTGPU_ATTEMPT_KEY=c1:42.0.1", "0::/user", None),
        ("", "4:memory:/\n1:freezer:/a/tgpu-c1/42.0.1", "42.0.1"),
        ("", "0::/tgpu-c1/42.0.1/inner", "42.0.1"),
        ("", "0::/tgpu-c2/42.0.1", None),
        ("", "0::/", None),
    ],
)
def test_before_it_is_known_what_runs_here_their_word_is_taken_but_not_for_another_cluster(
    tmp_path: Path, environ: str, cgroup: str, owner: str | None
) -> None:
    fake_proc(tmp_path, 1000001, 1, environ, cgroup)
    owners = Owners("c1", proc=tmp_path)
    assert owners.attempt_of(1000001) == owner
    who = owners.foreign(1000001, 2048)
    if owner is None:
        assert who is not None
        assert (who.pid, who.program, who.memory_mib) == (1000001, "python", 2048)
        assert who.user == Path(tmp_path).owner()
    else:
        assert who is None


def test_one_that_has_lost_its_marks_is_known_by_its_ancestors(tmp_path: Path) -> None:
    fake_proc(tmp_path, 1000001, 1, "TGPU_ATTEMPT_KEY=c1:42.0.1")
    fake_proc(tmp_path, 1000002, 1000001)
    fake_proc(tmp_path, 1000003, 1000002)
    fake_proc(tmp_path, 1000004, 1)
    assert [Owners("c1", proc=tmp_path).attempt_of(pid) for pid in (1000003, 1000004)] == ["42.0.1", None]


@pytest.fixture
def outsider() -> Iterator[int]:
    """Somebody's own process, nobody's child here, that says it is a task's."""
    script = "TGPU_ATTEMPT_KEY=c1:42.0.1 sleep 60 >/dev/null 2>&1 & echo $!"
    started = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    yield int(started.stdout)
    os.kill(int(started.stdout), 9)


@pytest.mark.parametrize("containers", [{}, {"42.0.1": 0}, {"43.0.1": 0}])
def test_who_only_says_to_be_a_tasks_is_foreign(outsider: int, containers: dict[str, int]) -> None:
    """Also if that attempt runs here, in a container: it is not in one."""
    owners = Owners("c1", lambda: Roots({}, containers))
    assert owners.attempt_of(outsider) is None
    assert owners.foreign(outsider, 100).pid == outsider


def _only_child(pid: int) -> int:
    while not (said := Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        os.sched_yield()
    return int(said[0])


def test_what_descends_from_a_supervisor_is_its_tasks_whatever_it_says(outsider: int) -> None:
    def roots(birth: int) -> Roots:
        return Roots({outsider: ("7.0.1", Claim(outsider, birth, 0))}, {})

    assert Owners("c1", lambda: roots(birth_of(outsider))).attempt_of(outsider) == "7.0.1"
    assert Owners("c1", lambda: roots(1)).attempt_of(outsider) is None, "another process of that number"


def test_in_a_container_it_is_known_by_its_namespace() -> None:
    script = "TGPU_ATTEMPT_KEY=c1:42.0.1 unshare --pid --fork --kill-child sleep 60 >/dev/null 2>&1 & echo $!"
    started = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    outer = int(started.stdout)
    inner = _only_child(outer)
    try:
        for known in (0, inner):
            owners = Owners("c1", lambda known=known: Roots({}, {"42.0.1": known}))
            assert owners.attempt_of(inner) == "42.0.1"
            assert owners.attempt_of(outer) is None
        silent = Owners("another", lambda: Roots({}, {"42.0.1": inner}))
        assert silent.attempt_of(inner) == "42.0.1", "whatever it says of itself"
        other = Owners("c1", lambda: Roots({}, {"42.0.1": os.getpid()}))
        assert other.attempt_of(inner) is None, "it says to be in a container in which it is not"
    finally:
        os.kill(outer, 9)


def test_a_process_that_is_gone_is_nobodys_use() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert Owners("c1").foreign(child.pid, 100) is None


def test_who_owns_this_very_process_is_no_question_of_its_rights() -> None:
    assert Owners("c1").attempt_of(os.getpid()) == NAMELESS
