"""Processes of a task are known as such, however they try to get away from it."""

import os

import pytest

from tests.runner.conftest import Machine
from tgpu.domain.lifecycle import Cause
from tgpu.runner.process_origin import Origin, origins_of


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
