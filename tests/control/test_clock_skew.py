"""A node whose clock is wrong: its times are read by the difference, and by nothing else."""

import pytest

from tgpu.control.clock_skew import NodeClock
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Capacity
from tgpu.domain.quantities import MAX_TIME_MS
from tgpu.protocol.messages import PROTOCOL, AttemptReport, Heartbeat, Hello, NodeUse, Phase, Report

NOW_MS = 1_000_000


def hello(clock_ms: int, *attempts: AttemptReport) -> Hello:
    return Hello(
        protocol=PROTOCOL,
        node_id="n1",
        boot_id="b",
        version="1",
        capacity=Capacity(1000, 1, 0),
        pool="default",
        labels={},
        serves="*",
        attempts=attempts,
        clock_ms=clock_ms,
    )


def ended(started_ms: int | None, ended_ms: int) -> AttemptReport:
    how = Exit(Cause.EXITED, exit_code=0, started_ms=started_ms, ended_ms=ended_ms, cpu_ms=7)
    return AttemptReport(attempt="1.0.1", phase=Phase.ENDED, started_ms=started_ms, exit=how)


@pytest.mark.parametrize("ahead_ms", [-3_600_000, -2001, 2001, 3_600_000])
def test_times_of_a_wrong_clock_are_moved_to_ours(ahead_ms: int) -> None:
    clock = NodeClock(lambda: NOW_MS)
    theirs = NOW_MS + ahead_ms
    assert clock.read(hello(theirs, ended(theirs - 500, theirs - 100))) == hello(
        theirs, ended(NOW_MS - 500, NOW_MS - 100)
    )
    assert clock.read(Report(seq=1, attempts=(ended(theirs - 500, theirs),))) == Report(
        seq=1, attempts=(ended(NOW_MS - 500, NOW_MS),)
    )


@pytest.mark.parametrize("clock_ms", [NOW_MS, NOW_MS - 2000, NOW_MS + 2000, 0])
def test_a_small_difference_and_a_clock_that_is_not_told_change_nothing(clock_ms: int) -> None:
    clock = NodeClock(lambda: NOW_MS)
    said = hello(clock_ms, ended(5, 6))
    assert clock.read(said) is said


def test_what_has_no_time_gets_none() -> None:
    clock = NodeClock(lambda: NOW_MS)
    clock.read(hello(NOW_MS + 10_000))
    report = Report(seq=1, attempts=(AttemptReport(attempt="1.0.1", phase=Phase.STARTING), ended(None, 0)))
    assert clock.read(report) == report
    beat = Heartbeat(use=NodeUse(), sent=1.0)
    assert clock.read(beat) is beat


def test_a_clock_that_was_mended_is_believed_again() -> None:
    clock = NodeClock(lambda: NOW_MS)
    clock.read(hello(NOW_MS + 10_000))
    clock.read(hello(NOW_MS))
    report = Report(seq=1, attempts=(ended(1, 2),))
    assert clock.read(report) is report


def test_corrected_times_can_always_be_written() -> None:
    clock = NodeClock(lambda: MAX_TIME_MS)
    report = AttemptReport(attempt="1.0.1", phase=Phase.RUNNING, started_ms=MAX_TIME_MS)
    said = clock.read(hello(1, report))
    assert isinstance(said, Hello)
    assert said.attempts[0].started_ms == MAX_TIME_MS
