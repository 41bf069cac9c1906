"""Processes of a task are known as such, however they try to get away from it."""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tgpu.domain.lifecycle import Cause
from tgpu.runner import records
from tgpu.runner.process_origin import MOST_ANCESTORS, Origin, origins_of


@pytest.mark.parametrize("kind", ["machine", "grouped"])
def test_daemon_of_a_task_without_its_environment_is_known(kind: str, request: pytest.FixtureRequest) -> None:
    machine: Machine = request.getfixturevalue(kind)
    daemon = f"setsid sh -c '(env -i /bin/sleep 300 & echo $! >{machine.home}/pid)' &"
    attempt = machine.shell(f"{daemon} sleep 300")
    pid = int(machine.file("pid", within_s=60))
    found = origins_of(pid)
    assert Origin("records", attempt) in found, "by its supervisor, whose folder has this name here"
    if kind == "grouped":
        assert found[-1] == Origin(machine.cluster, attempt)
    machine.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
    machine.end_of(attempt)


def test_process_outside_of_tasks_has_no_origin() -> None:
    assert origins_of(1) == []


def test_process_that_is_gone_is_an_error() -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    with pytest.raises(ProcessLookupError):
        origins_of(child)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root and another user")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_records_in_a_folder_of_a_user_are_not_believed(tmp_path: Path, mode: int) -> None:
    """As of `su`, which has root's rights and stands where its user has called it."""
    forged = tmp_path / "cluster"
    (forged / records.CLAIMS).mkdir(parents=True)
    with in_nested_processes(1, forged) as (outer, inner):
        claim = records.claim_line("1.0.1", outer, records.birth_of(outer) or 0, 0)
        (forged / "exits.0").write_bytes(b"\n" + claim + b"\n")
        forged.chmod(0o700)
        assert Origin("cluster", "1.0.1") in origins_of(inner), "in a folder of the agent it counts"
        os.chown(forged, pwd.getpwnam("nobody").pw_uid, -1)
        forged.chmod(mode)
        assert Origin("cluster", "1.0.1") not in origins_of(inner)
        os.chown(forged, 0, -1)
        forged.chmod(mode | 0o020)
        assert Origin("cluster", "1.0.1") not in origins_of(inner), "others could have put it there"


def test_process_with_too_many_ancestors_is_an_error(tmp_path: Path) -> None:
    """A walk up a long chain would hold up the server; a walk cut short would miss the supervisor."""
    with in_nested_processes(MOST_ANCESTORS, tmp_path) as (_, inner), pytest.raises(ProcessLookupError):
        origins_of(inner)


@contextmanager
def in_nested_processes(depth: int, cwd: Path) -> Iterator[tuple[int, int]]:
    """A process in `cwd` and its descendant that many generations below; they end with the block."""
    say, said = os.pipe(), os.pipe()
    outer = os.fork()
    if outer == 0:
        os.chdir(cwd)
        os.close(say[1])
        for _ in range(depth):
            if os.fork():
                break
        else:
            os.write(said[1], str(os.getpid()).encode())
        os.read(say[0], 1)
        os._exit(0)
    os.close(say[0])
    try:
        yield outer, int(os.read(said[0], 20))
    finally:
        os.close(say[1])
        os.waitpid(outer, 0)
        for end in said:
            os.close(end)
