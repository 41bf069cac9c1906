"""Reads of the tasks of a job: a page of them, or the statuses of all."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from tgpu.domain.lifecycle import Status


@dataclass(frozen=True, slots=True)
class TaskPaging:
    """Tasks of one job in their order; `after` is the last index already seen."""

    limit: int = 1000
    after: int = -1
    statuses: frozenset[Status] = frozenset()


class StatusRun(NamedTuple):
    """Neighbouring tasks with the same status."""

    status: Status
    tasks: int


def runs_of(statuses: Iterable[str]) -> list[StatusRun]:
    return [StatusRun(Status(status), sum(1 for _ in alike)) for status, alike in groupby(statuses)]
