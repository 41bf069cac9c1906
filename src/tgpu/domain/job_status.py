"""Where a job stands, by where its tasks do: the one rule, whoever counts them."""

from collections.abc import Mapping

from tgpu.domain.lifecycle import Status

_BY_WEIGHT = (
    Status.RUNNING,
    Status.SCHEDULED,
    Status.PREEMPTED,
    Status.PENDING,
    Status.FAILED,
    Status.CANCELLED,
    Status.COMPLETED,
)


def status_of(counts: Mapping[Status, int], *, work_queue: bool = False) -> Status:
    """It runs if any task runs, and waits while one waits and none has a node. Once all are over it has
    failed if any failed, else it was cancelled if any was; a work queue has completed if any has."""
    if work_queue and counts.get(Status.COMPLETED) and all(status.is_final for status in counts):
        return Status.COMPLETED
    for status in _BY_WEIGHT:
        if counts.get(status):
            return status
    raise ValueError("a job has at least one task")


def over(counts: Mapping[Status, int]) -> int:
    """How many of its tasks are over."""
    return sum(number for status, number in counts.items() if status.is_final)


def holding(counts: Mapping[Status, int]) -> int:
    """How many of its tasks have a node."""
    return sum(number for status, number in counts.items() if status.holds_resources)
