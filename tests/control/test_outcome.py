"""What an attempt's end means for its task, and how it is told."""

import pytest

from tests.control.control_story import task
from tgpu.control.outcome import happening, in_words
from tgpu.domain.job import Exit, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening

STUBBORN = task(requeue=False)
UNWANTED = task(cancel_by="bob")


@pytest.mark.parametrize(
    ("how", "whose", "happened", "words"),
    [
        (Exit(Cause.EXITED, 0), task(), Happening.SUCCEEDED, ""),
        (Exit(Cause.EXITED, 3), task(), Happening.FAILED, "exit code 3"),
        (Exit(Cause.EXITED, 0), UNWANTED, Happening.SUCCEEDED, ""),
        (Exit(Cause.SIGNALLED, signal=11), task(), Happening.FAILED, "killed by signal 11"),
        (
            Exit(Cause.TIME_LIMIT, signal=15, detail="it ran longer than its limit of 60 s"),
            task(time_limit_s=60),
            Happening.FAILED,
            "ran into its time limit of 1m",
        ),
        (Exit(Cause.CANCELLED, signal=15), UNWANTED, Happening.CANCELLED, "cancelled by bob"),
        (
            Exit(Cause.CANCELLED, detail="stopped before it started"),
            UNWANTED,
            Happening.CANCELLED,
            "cancelled by bob: stopped before it started",
        ),
        (Exit(Cause.CANCELLED), task(), Happening.CANCELLED, "cancelled"),
        (
            Exit(Cause.COULD_NOT_START, detail="nosuch: command not found"),
            task(),
            Happening.FAILED,
            "could not be started: nosuch: command not found",
        ),
        (Exit(Cause.REBOOTED), task(), Happening.REQUEUED, "its machine restarted"),
        (
            Exit(Cause.REBOOTED),
            STUBBORN,
            Happening.FAILED,
            "its machine restarted; --no-requeue forbids to try again",
        ),
        (Exit(Cause.REBOOTED), UNWANTED, Happening.CANCELLED, "its machine restarted"),
        (
            Exit(Cause.MEMORY_PRESSURE, signal=15, detail="it held 9 MiB"),
            task(),
            Happening.PREEMPTED,
            "gave way because its node ran short of memory: it held 9 MiB",
        ),
        (
            Exit(Cause.DISK_PRESSURE, signal=9, detail="its /tmp held 9 MiB"),
            task(),
            Happening.PREEMPTED,
            "was ended because its node ran short of disk space: its /tmp held 9 MiB",
        ),
        (
            Exit(Cause.DISK_LIMIT, signal=9, detail="its /tmp held 9 of at most 8 MiB"),
            task(),
            Happening.FAILED,
            "used more disk space than it may: its /tmp held 9 of at most 8 MiB",
        ),
        (
            Exit(Cause.MEMORY_PRESSURE, signal=15),
            STUBBORN,
            Happening.FAILED,
            "gave way because its node ran short of memory; --no-requeue forbids to try again",
        ),
        (
            Exit(Cause.OUT_OF_MEMORY, signal=9, detail="it used 9 MiB of its limit of 9 MiB"),
            task(),
            Happening.FAILED,
            "out of memory: it used 9 MiB of its limit of 9 MiB",
        ),
        (
            Exit(Cause.PREEMPTED, signal=15),
            task(),
            Happening.PREEMPTED,
            "gave way to a task of a higher class",
        ),
        (
            Exit(Cause.PREEMPTED, detail="stopped before it started"),
            task(),
            Happening.PREEMPTED,
            "gave way to a task of a higher class: stopped before it started",
        ),
        (
            Exit(Cause.PREEMPTED, signal=15),
            STUBBORN,
            Happening.FAILED,
            "gave way to a task of a higher class; --no-requeue forbids to try again",
        ),
        (
            Exit(Cause.PREEMPTED, signal=15),
            task(requeue=False, cancel_by="bob"),
            Happening.CANCELLED,
            "gave way to a task of a higher class",
        ),
        (
            Exit(Cause.PREEMPTED, signal=9),
            UNWANTED,
            Happening.CANCELLED,
            "gave way to a task of a higher class",
        ),
        (
            Exit(Cause.PREEMPTED, 0),  # it saved its work when it was told to go, and is not done
            task(),
            Happening.PREEMPTED,
            "gave way to a task of a higher class",
        ),
        (Exit(Cause.NODE_LOST), task(), Happening.REQUEUED, "its node lost it"),
        (Exit(Cause.DEVICE_LOST, 1, detail="GPU 0"), task(), Happening.REQUEUED, "its GPU failed: GPU 0"),
        (
            Exit(Cause.DEVICE_LOST),
            STUBBORN,
            Happening.FAILED,
            "its GPU failed; --no-requeue forbids to try again",
        ),
        (
            Exit(Cause.SUPERVISOR_LOST),
            task(),
            Happening.REQUEUED,
            "its supervisor was killed, so how it ended is not known",
        ),
        (Exit(Cause.OUT_OF_MEMORY), task(), Happening.FAILED, "out of memory"),
    ],
)
def test_an_end_is_judged_and_told(how: Exit, whose: TaskBrief, happened: Happening, words: str) -> None:
    assert (happening(how, whose), in_words(how, whose)) == (happened, words)
