"""The tables, tested as data."""

import pytest

from tgpu.domain.lifecycle import (
    ATTEMPT_MOVES,
    FINAL,
    HOLDING,
    LIVE,
    TABLES,
    TASK_MOVES,
    WAITING,
    AttemptHappening,
    AttemptState,
    Cause,
    Happening,
    IllegalMoveError,
    Status,
    attempt_after,
    task_after,
)


@pytest.mark.parametrize("name", TABLES)
def test_no_table_says_two_things_about_the_same_happening(name: str) -> None:
    seen = [(move.source, move.happening) for move in TABLES[name]]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("name", TABLES)
def test_every_state_can_be_reached(name: str) -> None:
    reached: set[object] = {None}
    for _ in TABLES[name]:
        reached |= {move.target for move in TABLES[name] if move.source in reached}
    assert {move.source for move in TABLES[name]} <= reached


def test_every_status_is_final_or_holds_resources_or_waits_and_never_two_of_them() -> None:
    assert set(Status) == FINAL | HOLDING | WAITING
    assert not FINAL & HOLDING
    assert not FINAL & WAITING
    assert not HOLDING & WAITING


def test_nothing_leaves_a_final_state() -> None:
    assert not [move for move in TASK_MOVES if move.source in FINAL]
    assert not [move for move in ATTEMPT_MOVES if move.source is AttemptState.ENDED]


def test_every_status_that_holds_resources_has_a_way_out_when_its_node_is_lost() -> None:
    for status in HOLDING:
        assert task_after(status, Happening.REQUEUED) is Status.PENDING
        assert task_after(status, Happening.LOST) is Status.PENDING
        assert task_after(status, Happening.FAILED) is Status.FAILED


def test_every_live_status_can_be_cancelled() -> None:
    for status in set(Status) - FINAL:
        assert task_after(status, Happening.CANCELLED) is Status.CANCELLED


def test_every_live_attempt_can_be_stopped_or_is_being_stopped_and_can_end() -> None:
    for state in LIVE:
        assert attempt_after(state, AttemptHappening.ENDED) is AttemptState.ENDED
        if state is not AttemptState.STOPPING:
            assert attempt_after(state, AttemptHappening.STOP_ORDERED) is AttemptState.STOPPING


def test_an_attempt_that_holds_nothing_is_over_or_may_return() -> None:
    assert set(AttemptState) - LIVE == {AttemptState.LOST, AttemptState.ENDED}
    for state in LIVE:
        assert attempt_after(state, AttemptHappening.LOST) is AttemptState.LOST
    assert attempt_after(AttemptState.LOST, AttemptHappening.RETURNED) is AttemptState.RUNNING
    assert attempt_after(AttemptState.LOST, AttemptHappening.GONE) is AttemptState.ENDED


def test_every_live_task_can_go_on_with_an_attempt_that_returns() -> None:
    for status in set(Status) - FINAL:
        assert task_after(status, Happening.RETURNED) is Status.RUNNING


def test_a_move_that_is_not_in_the_table_is_refused_in_words() -> None:
    with pytest.raises(IllegalMoveError, match="a task that is completed cannot be started"):
        task_after(Status.COMPLETED, Happening.STARTED)
    with pytest.raises(IllegalMoveError, match="an attempt that is ended cannot be started"):
        attempt_after(AttemptState.ENDED, AttemptHappening.STARTED)


def test_only_failures_of_infrastructure_are_retried() -> None:
    causes = {
        Cause.NODE_LOST,
        Cause.REBOOTED,
        Cause.DEVICE_LOST,
        Cause.MEMORY_PRESSURE,
        Cause.DISK_PRESSURE,
        Cause.SUPERVISOR_LOST,
    }
    assert {cause for cause in Cause if cause.is_infrastructure} == causes


def test_where_a_happening_leads_does_not_depend_on_where_it_came_from() -> None:
    for happening in Happening:
        targets = {move.target for move in TASK_MOVES if move.happening is happening}
        assert len(targets) == 1, happening
