"""What a store has to do for jobs of very many tasks: rows that appear as they are needed, or never."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Job, TaskBrief
from tgpu.domain.lifecycle import Cause
from tgpu.store.refusals import StoreError

MOST_SKIPPED = 4096
"""Rows of tasks that were cancelled before they had any: so many are made in one go. If those are all that is
left, and there are more, none of them gets one."""


class WithoutIndexError(StoreError):
    """Whoever schedules could not launch such a task, and would come to grief over it in every term."""

    def __init__(self, tasks: int, indices: int) -> None:
        super().__init__(f"a series of {tasks} tasks has {indices} indices")


@dataclass(frozen=True, slots=True)
class Grown:
    """A decision: so many more tasks of a series may wait. Those that were cancelled before they had rows
    count as that, even if it is none."""

    job_id: int
    count: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A decision: those of its tasks that have no rows never get any. They count as cancelled."""

    job_id: int
    cause: Cause
    detail: str = ""


class GrownTo(NamedTuple):
    """What became of it."""

    job_id: int
    born: int
    """So many of its tasks have rows now."""
    tasks: list[TaskBrief]
    """Those that wait since then: fewer than asked for if a quota had no room for more."""


class RestartAsked(NamedTuple):
    """A task that has a node is to start anew."""

    job_id: int
    task_index: int
    by: str


class TasksCancelled(NamedTuple):
    """Some tasks of a job are to be cancelled."""

    job_id: int
    positions: IndexSet
    by: str
    now: bool = False


class SeriesStore(Protocol):
    async def cancel_tasks(
        self, job_id: int, positions: IndexSet, by: str, at_ms: int, *, now: bool = False
    ) -> Job | None:
        """Records the wish for these tasks of a live job; those without rows count as cancelled from
        the next `Grown` on. Returns the job as it was before."""
        ...

    async def restart_tasks(self, job_id: int, positions: Sequence[int], by: str, at_ms: int) -> list[int]:
        """Those of these tasks that have a node are to be stopped, and to start anew without this counting as
        a failure. Returns which they are."""
        ...

    async def suspend(self, job_id: int, by: str, at_ms: int) -> Job | None:
        """Nothing of it runs from now on: what waits is not started, what runs is stopped, to start anew.
        Returns the job as it was before; one that is over, or suspended, stays as it is."""
        ...

    async def forget(self, epoch: int, at_ms: int, most: int = 100) -> int:
        """Removes jobs that ended so long ago that they need not be remembered, with all that happened to
        them, unless somebody still waits for them; what they used stays. Returns how many. Raises
        DeposedError."""
        ...

    async def resume(self, job_id: int, by: str, at_ms: int) -> Job | None:
        """Takes `suspend` back, likewise."""
        ...
