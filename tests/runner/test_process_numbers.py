"""How many processes one user's tasks, and all tasks together, may have."""

import os
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tests.runner.test_cgroup import needs_cgroups
from tgpu.runner import task
from tgpu.runner.isolation import OF_PARTS, TASKS_PART
from tgpu.runner.process_numbers import kernel_pids, user_pids

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can run another user's job")
CROWD = "sleep 300 & echo ready; sleep 300 & sleep 300 & wait"


def become(user: task.Account, script: str, most_pids: int) -> tuple[int, int]:
    """Its pid, and where it says what it has to say."""
    said, says = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child:
        os.close(says)
        return child, said
    try:
        os.dup2(says, 1)
        os.dup2(says, 2)
        env = {"PATH": task.DEFAULT_PATH}
        task.become(["sh", "-c", script], env, "/", user, parent, {}, most_pids=most_pids)
    except task.Refusal as refusal:
        os.write(1, str(refusal).encode())
    finally:
        os._exit(1)


@root_only
def test_tasks_of_one_user_share_one_limit() -> None:
    user = object.__new__(task.Account)  # whose number nobody else has
    user.name, user.uid, user.gid = "crowd", 1_500_000_000 + os.getpid(), 1_500_000_000
    user.groups = []
    first, said = become(user, CROWD, 3)
    second = -1
    try:
        with os.fdopen(said) as words:
            told = [words.readline().strip(), words.readline()]
        assert told[0] == "ready"
        assert "fork" in told[1], "the third process of the first task is one too many"
        second, said = become(user, "echo never", 2)
        with os.fdopen(said) as words:
            refusal = words.read()
        assert refusal.startswith("crowd has 2 processes and threads on this node already, the most that")
    finally:
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and folder.exists() and folder.stat().st_uid == user.uid:
                os.kill(int(folder.name), 9)
        for child in {first, second} - {-1}:
            os.waitpid(child, 0)


@needs_cgroups
def test_all_tasks_together_leave_some_processes_to_the_machine(grouped: Machine) -> None:
    base = grouped.runner._cgroups.bases.get("pids")
    assert base is not None
    assert int(Path(base, "pids.max").read_text()) == kernel_pids() * TASKS_PART // OF_PARTS


def test_limit_of_a_user_is_a_part_of_the_kernels_unless_it_is_named() -> None:
    assert [user_pids(said, 32768) for said in ("auto", "500", "0")] == [8192, 500, 0]
