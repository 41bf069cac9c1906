"""Job listing: the filters, the sort order and the pages of a list that is searched and sorted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tgpu.domain.job import Job, JobSpec
from tgpu.domain.lifecycle import Status
from tgpu.domain.priority import TERMS, PriorityClass
from tgpu.store.job_filter import JobFilter, Seen

COMMAND_LENGTH = 200
"""How much of a command is kept for searching."""
STATUS_ORDER: Mapping[Status, int] = {
    status: rank
    for rank, status in enumerate(
        (
            Status.RUNNING,
            Status.SCHEDULED,
            Status.PENDING,
            Status.PREEMPTED,
            Status.FAILED,
            Status.CANCELLED,
            Status.COMPLETED,
        )
    )
}
CLASS_WEIGHT = 1 << 33
"""More than any two priorities within a class differ."""
LAST = 1 << 62
"""Sorts after every value in ascending order; -1 does so in descending order."""

SortValue = int | str


class SortKey(StrEnum):
    """What a list is sorted by; equal values are sorted by id."""

    ID = "id"
    SUBMITTED = "submitted"
    STARTED = "started"
    ENDED = "ended"
    RUN_TIME = "run_time"
    PRIORITY = "priority"
    GPUS = "gpus"
    TASKS = "tasks"
    NAME = "name"
    USER = "user"
    TENANT = "tenant"
    STATUS = "status"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Listing:
    """Which jobs are listed: `where`, narrowed by everything that is given here."""

    where: JobFilter
    tenants: frozenset[str] = frozenset()
    classes: frozenset[PriorityClass] = frozenset()
    text: str | None = None
    """Occurs in the name or user, begins the command, or is the id."""
    command_seen: Seen | None = None
    """Jobs whose command the caller may see; only those are found by it. None: all."""

    def has(self, job: Job) -> bool:
        """Whether a job passes what is given here; `where` is not looked at."""
        return (
            (not self.tenants or job.spec.tenant_id in self.tenants)
            and (not self.classes or job.spec.priority_class in self.classes)
            and (self.text is None or self._matches(job, self.text.lower()))
        )

    def _matches(self, job: Job, text: str) -> bool:
        spec = job.spec
        if text in spec.name.lower() or text in spec.user.lower() or text == str(job.job_id):
            return True
        sees_command = self.command_seen is None or self.command_seen.has(spec.user, spec.tenant_id)
        return sees_command and command_text(spec).lower().startswith(text)


@dataclass(frozen=True, slots=True)
class ListPage:
    """Which part of a listing, in which order."""

    limit: int
    key: SortKey = SortKey.ID
    descending: bool = True
    after: tuple[SortValue, int] | None = None
    """Sort value and id of the last job of the page before."""
    skip: int = 0
    """Jobs to leave out from there."""
    now_ms: int = 0
    """Until when running jobs have run; the same for all pages of a listing."""


@dataclass(frozen=True, slots=True)
class Listed:
    job: Job
    value: SortValue
    """What it was sorted by."""


def command_text(spec: JobSpec) -> str:
    """The first group's command in one line, shortened."""
    command = spec.groups[0].command
    return (command if isinstance(command, str) else " ".join(command))[:COMMAND_LENGTH]


def gpus_milli(spec: JobSpec) -> int:
    """What all tasks together ask for."""
    return sum(group.request.gpu_milli * group.tasks for group in spec.groups)


def sort_value(job: Job, page: ListPage) -> SortValue:
    return _VALUES[page.key](job, page)


def _or_last(value: int | None, page: ListPage) -> int:
    return value if value is not None else (-1 if page.descending else LAST)


def _run_ms(job: Job, page: ListPage) -> int | None:
    return None if job.started_ms is None else (job.ended_ms or page.now_ms) - job.started_ms


_VALUES: Mapping[SortKey, Callable[[Job, ListPage], SortValue]] = {
    SortKey.ID: lambda job, _: job.job_id,
    SortKey.SUBMITTED: lambda job, _: job.submitted_ms,
    SortKey.STARTED: lambda job, page: _or_last(job.started_ms, page),
    SortKey.ENDED: lambda job, page: _or_last(job.ended_ms, page),
    SortKey.RUN_TIME: lambda job, page: _or_last(_run_ms(job, page), page),
    SortKey.PRIORITY: lambda job, _: job.spec.priority - CLASS_WEIGHT * TERMS[job.spec.priority_class].rank,
    SortKey.GPUS: lambda job, _: gpus_milli(job.spec),
    SortKey.TASKS: lambda job, _: job.spec.task_count,
    SortKey.NAME: lambda job, _: job.spec.name,
    SortKey.USER: lambda job, _: job.spec.user,
    SortKey.TENANT: lambda job, _: job.spec.tenant_id,
    SortKey.STATUS: lambda job, _: STATUS_ORDER[job.status],
    SortKey.NODE: lambda job, _: job.node_id or "",
}
