"""How a container ended, by what its engine says of it and who had a hand in it."""

import pytest

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.runner.docker.states import State, exit_of

STOPPED = Exit(Cause.NODE_LOST, detail="the container engine was stopped")
CHILD = "out of memory, a process in its container was killed: its limit is 64 MiB"


def ended(code: int, stop: tuple[Cause, str] | None = None, struck: Exit | None = None) -> tuple[Cause, str]:
    """Of one in which, at some time, a process was killed for lack of memory."""
    said = {
        "Running": False,
        "ExitCode": code,
        "OOMKilled": True,
        "StartedAt": "2026-01-31T14:05:00.1Z",
        "FinishedAt": "2026-01-31T14:20:00.1Z",
    }
    end = exit_of(State.of({"State": said}), stop, 64, struck)
    return end.cause, end.detail


def test_one_whose_first_process_was_killed_ran_out_of_memory() -> None:
    assert ended(137) == (Cause.OUT_OF_MEMORY, "it used more than its 64 MiB")


def test_one_that_ended_by_its_engine_is_lost_whatever_happened_in_it_before() -> None:
    assert ended(143, struck=STOPPED) == (Cause.NODE_LOST, "the container engine was stopped")
    assert ended(137, struck=STOPPED) == (Cause.NODE_LOST, "the container engine was stopped")


def test_one_that_was_stopped_ended_for_that() -> None:
    assert ended(137, stop=(Cause.CANCELLED, "by ann")) == (Cause.CANCELLED, "by ann")


@pytest.mark.parametrize(("code", "cause"), [(0, Cause.EXITED), (1, Cause.EXITED), (143, Cause.SIGNALLED)])
def test_one_that_ended_by_itself_tells_of_a_child_that_was_killed(code: int, cause: Cause) -> None:
    assert ended(code) == (cause, CHILD)
