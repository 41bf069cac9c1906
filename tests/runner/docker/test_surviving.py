"""What becomes of containers when the agent, or their engine, goes away and comes back."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker_engine import PrivateEngine
from tests.runner.docker.conftest import HUNGRY_CHILDREN, ContainerNode
from tgpu.domain.lifecycle import Cause
from tgpu.runner.limits import Limits
from tgpu.runner.port import AttemptEnded, AttemptStarted

COUNTING = "i=0; while [ $i -lt {most} ]; do echo line $i; i=$((i+1)); [ $((i%100)) = 0 ] && sleep 0.05; done"

READ_AT_ONCE = 1 << 16
"""Bytes that fill a pipe."""


def lines(most: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(most))


def numbers(printed: str) -> set[int]:
    return {int(number) for number in re.findall(r"line (\d+)\n", printed)}


def test_it_runs_on_without_the_agent_and_no_line_is_lost_or_doubled(node: ContainerNode) -> None:
    attempt = node.shell(COUNTING.format(most=4000) + "; exit 5")
    node.until_printed(attempt, b"line 300\n")
    for _ in range(3):
        node.close()
        node.events.clear()
        assert [type(event) for event in node.open()] == [AttemptStarted]
        known = len(node.output(attempt))
        node.until(lambda known=known: len(node.output(attempt)) > known)
    end = node.end_of(attempt)
    assert (end.cause, end.exit_code) == (Cause.EXITED, 5)
    assert node.output(attempt) == lines(4000)


def test_long_lines_survive_too(node: ContainerNode) -> None:
    script = "for i in 1 2 3 4 5 6; do head -c 50000 /dev/zero | tr '\\0' $i; echo; sleep 0.3; done; echo end"
    attempt = node.shell(script)
    node.until(lambda: len(node.output(attempt)) > 60_000)
    node.close()
    node.open()
    node.end_of(attempt)
    assert node.output(attempt) == b"".join(b"%d" % i * 50000 + b"\n" for i in range(1, 7)) + b"end\n"


def test_one_that_ended_meanwhile_is_found_with_its_output(node: ContainerNode) -> None:
    attempt = node.shell("echo begun; sleep 0.5; echo done; exit 4")
    node.until_printed(attempt, b"begun\n")
    node.close()
    node.engine.ask("POST", f"/containers/{node.name_of(attempt)}/wait")
    node.events.clear()
    returned_us = time.time_ns() // 1000
    node.open()
    assert node.end_of(attempt).exit_code == 4
    assert node.output(attempt) == b"begun\ndone\n"
    begun, done = node.runner.read_log(attempt, "stdout", 0, 100).times
    assert (begun[0], done[0]) == (0, 6)
    assert begun[1] < done[1] < returned_us


def test_an_end_is_told_again_until_it_is_forgotten(node: ContainerNode) -> None:
    attempt = node.shell("exit 2")
    end = node.end_of(attempt)
    node.close()
    assert node.open() == [AttemptEnded(attempt, end)]
    node.runner.forget(attempt)
    node.close()
    assert node.open() == []


def test_an_end_survives_that_the_engine_loses_the_container(node: ContainerNode) -> None:
    attempt = node.shell("exit 2")
    end = node.end_of(attempt)
    node.close()
    node.engine.ask("DELETE", f"/containers/{node.name_of(attempt)}?force=1")
    assert node.open() == [AttemptEnded(attempt, end)]


def test_a_stop_that_was_ordered_before_is_remembered(node: ContainerNode) -> None:
    attempt = node.shell("trap '' TERM; echo ready; while :; do sleep 1; done", grace_s=1)
    node.until_printed(attempt, b"ready\n")
    node.runner.stop(attempt, Cause.CANCELLED, "by ann")
    node.close()
    node.open()
    end = node.end_of(attempt)
    assert (end.cause, end.detail, end.signal) == (Cause.CANCELLED, "by ann", 9)


def test_a_time_limit_goes_on_from_the_start(node: ContainerNode) -> None:
    attempt = node.shell("echo ready; sleep 100", time_limit_s=2, grace_s=0)
    node.until_printed(attempt, b"ready\n")
    node.close()
    node.open()
    end = node.end_of(attempt)
    assert end.cause is Cause.TIME_LIMIT
    assert end.ended_ms - end.started_ms < 10_000


def test_who_is_removed_by_hand_is_lost(node: ContainerNode) -> None:
    attempt = node.shell("echo ready; sleep 100")
    node.until_printed(attempt, b"ready\n")
    node.engine.ask("DELETE", f"/containers/{node.name_of(attempt)}?force=1")
    end = node.end_of(attempt)
    assert (end.cause, end.detail) == (
        Cause.NODE_LOST,
        "its container is gone: somebody removed it, or the engine lost it",
    )


def test_containers_go_some_time_after_their_end(closed_node: ContainerNode) -> None:
    closed_node.keep_s = 0.0
    closed_node.open()
    attempt = closed_node.shell("true")
    closed_node.end_of(attempt)
    closed_node.until(lambda: closed_node.containers() == [])


def test_strangers_and_other_agents_containers_are_let_alone(node: ContainerNode, tmp_path: Path) -> None:
    attempt = node.shell("echo ready; sleep 100")
    node.until_printed(attempt, b"ready\n")
    other = ContainerNode(tmp_path / "other", node.engine)
    other.cluster = node.cluster
    assert other.open() == []
    other.close()
    other.loop.close()
    assert node.inspect(attempt)["State"]["Running"]


def test_what_was_made_and_never_started_is_made_anew(node: ContainerNode) -> None:
    name = node.name_of("7.0.1")
    node.engine.ask("POST", f"/containers/create?name={name}", {"Image": "tools:1", "Cmd": ["false"]})
    attempt = node.shell("echo anew", attempt="7.0.1")
    assert node.end_of(attempt).exit_code == 0
    assert node.output(attempt) == b"anew\n"


@pytest.fixture
def own_engine() -> Iterator[PrivateEngine]:
    made = PrivateEngine()
    try:
        made.start("--live-restore")
        made.bring()
        yield made
    finally:
        made.close()


def test_an_engine_that_goes_away_and_comes_back(
    own_engine: PrivateEngine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """One story on one engine, since starting one takes long."""
    node = ContainerNode(tmp_path, own_engine)
    request.addfinalizer(node.loop.close)
    request.addfinalizer(node.close)
    node.open()
    # With live-restore containers run on, and nothing that they print is lost, neither what was heard before
    # nor what the engine has kept: what it had read and not kept yet goes with it.
    attempt = node.shell(COUNTING.format(most=12_000))
    node.until_printed(attempt, b"line 200\n")
    own_engine.stop()
    waiting = node.shell("echo patient")
    node.until(lambda: not node.runner._keeper.is_present)
    heard = numbers(node.output(attempt).decode())
    own_engine.start("--live-restore")
    assert node.end_of(attempt).exit_code == 0
    copied = numbers(own_engine.ask("GET", f"/containers/{node.name_of(attempt)}/logs?stdout=1"))
    assert node.output(attempt) == b"".join(b"line %d\n" % number for number in sorted(heard | copied))
    assert copied >= {*range(200), 11_999}
    # One life of the engine reads on where the other stopped: what is lost is one piece, no larger than what
    # an engine reads at once.
    lost = sorted({*range(12_000)} - heard - copied)
    assert lost == [*range(lost[0], lost[-1] + 1)] if lost else True
    assert len(lines(12_000)) * len(lost) // 12_000 < READ_AT_ONCE
    assert node.end_of(waiting).exit_code == 0
    # Without it they end with the engine: not the job's doing, also if a process in it lacked memory before.
    own_engine.stop()
    own_engine.start()
    attempt = node.shell(f"{HUNGRY_CHILDREN}; echo ready; sleep 100", limits=Limits(memory_limit_mib=32))
    node.until_printed(attempt, b"ready\n")
    own_engine.stop()
    own_engine.start()
    end = node.end_of(attempt)
    assert node.inspect(attempt)["State"]["OOMKilled"]
    assert (end.cause, end.detail) == (
        Cause.NODE_LOST,
        "the container engine was stopped, and its containers with it",
    )
    # And so when it crashes.
    attempt = node.shell("echo ready; sleep 100")
    node.until_printed(attempt, b"ready\n")
    own_engine.kill()
    own_engine.start()
    assert node.end_of(attempt).cause is Cause.NODE_LOST
