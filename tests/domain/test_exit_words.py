"""How an attempt ended, as people read it: in the API, in events and in the list alike."""

import pytest

from tgpu.domain.exit_words import ON_BURST, in_words
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause


@pytest.mark.parametrize(
    ("ended", "by", "limit_s", "words"),
    [
        (Exit(Cause.EXITED, exit_code=0), None, None, "exit code 0"),
        (Exit(Cause.EXITED, exit_code=7, detail="it said so"), None, None, "exit code 7: it said so"),
        (Exit(Cause.EXITED), None, None, "exited"),
        (Exit(Cause.SIGNALLED, signal=9), None, None, "killed by signal 9"),
        (Exit(Cause.SIGNALLED), None, None, "killed by a signal"),
        (Exit(Cause.TIME_LIMIT, detail="the limit"), None, 60, "ran into its time limit of 1m"),
        (Exit(Cause.TIME_LIMIT), None, None, "ran into its time limit"),
        (
            Exit(Cause.TIME_LIMIT, detail="its limit; and more"),
            None,
            9,
            "ran into its time limit of 9s: and more",
        ),
        (Exit(Cause.CANCELLED), "root", None, "cancelled by root"),
        (Exit(Cause.CANCELLED), None, None, "cancelled"),
        (Exit(Cause.PREEMPTED, signal=15), None, None, "gave way to a task of a higher class"),
        (
            Exit(Cause.COULD_NOT_START, detail="no such file"),
            None,
            None,
            "could not be started: no such file",
        ),
        (Exit(Cause.OUT_OF_MEMORY), None, None, "out of memory"),
    ],
)
def test_an_end_is_told_in_words(ended: Exit, by: str | None, limit_s: int | None, words: str) -> None:
    assert in_words(ended, by, limit_s) == words


@pytest.mark.parametrize("cause", Cause)
def test_no_cause_is_without_words(cause: Cause) -> None:
    words = in_words(Exit(cause), None, None)
    assert words
    assert "-" not in words


def test_who_ran_on_the_burst_gave_way_for_that() -> None:
    assert in_words(Exit(Cause.PREEMPTED), None, None, burst=True) == "gave way: it ran on the burst"
    told = Exit(Cause.PREEMPTED, detail=f"{ON_BURST}; 9 bytes of output could not be written")
    for burst in (True, False):
        words = in_words(told, None, None, burst=burst)
        assert words == "gave way: it ran on the burst: 9 bytes of output could not be written"
    assert in_words(Exit(Cause.EXITED, exit_code=1), None, None, burst=True) == "exit code 1"
