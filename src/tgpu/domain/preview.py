"""Plan previews: hypothetical jobs, and what the planner would do with them at this moment."""

from dataclasses import dataclass, replace
from enum import StrEnum

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.views import Why

MAX_PREVIEWED_JOBS = 20
"""Of one submission."""
FIRST_HYPOTHETICAL_ID = 1 << 39
"""Job ids from here on belong to no real job."""


class Starts(StrEnum):
    """Whether and when a hypothetical job would start."""

    NOW = "now"
    AT = "at"
    WAITS = "waits"
    """No time can be estimated."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class HypotheticalJob:
    """A job that was not submitted, as the scheduler would know it if it had been."""

    task: TaskBrief
    """Any of its tasks: what they have in common is read from it."""
    groups: tuple[tuple[Request, int], ...]
    """What tasks reserve, and how many of them reserve it."""

    def tasks(self, job_id: int) -> list[TaskBrief]:
        requests = [request for request, number in self.groups for _ in range(number)]
        return [
            replace(self.task, task_id=TaskId(job_id, index), request=request)
            for index, request in enumerate(requests)
        ]


@dataclass(frozen=True, slots=True)
class StartPreview:
    """What the next scheduling cycle would do with a hypothetical job."""

    starts: Starts
    why: Why
    """As for a pending job: reasons, holders, position, expected start, advice."""
    tasks: int = 1
    """How many of its tasks were planned."""
    starting_tasks: int = 0
    """How many of these would start now."""
    places: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Nodes and devices of the first tasks: where they would start now or, for `at`, are expected to."""
    jobs_ahead: int = 0
    """Pending jobs that are served first: before it in its queue, and of higher classes."""
    preempts: tuple[int, ...] = ()
    """Jobs that would be preempted for it."""
    is_lower_bound: bool = False
    """For `at`: it will not start earlier, and possibly later."""
