"""What the leader keeps in mind of jobs as a whole: how far each series has come, and what became of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Job, TaskBrief
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.needs import NeedKind
from tgpu.domain.retries import Retries
from tgpu.store.growth import Skipped


class End(NamedTuple):
    """Why a job ends before all of its tasks have."""

    cause: Cause
    detail: str
    by: TaskId | None = None
    """The task by which it does, until the job was told."""


@dataclass(slots=True)
class Entry:
    job: Job
    born: int
    """How many of its tasks have rows."""
    failures: int
    """How many attempts failed and count."""
    failed: int
    """How many of its tasks failed for good."""
    completed: int
    dropped: bool
    skipped: Skipped
    """Those that were cancelled before they had rows."""
    passes_over: bool
    """Whether some of these may not be counted yet."""
    begun: bool
    """Whether any of its tasks has had a place, as far as somebody had to know."""
    live: set[TaskId] = field(default_factory=set)
    kept_back: set[TaskId] = field(default_factory=set)
    """Those of them that are parked, for more are live than may be since its cap was lowered."""
    at_rest: tuple[int, int] = (0, 0)
    """Of one of which some are kept back: how many were live, and how many parked, when they were chosen."""
    end: End | None = None
    asked: int = 0
    """How many more tasks it asked for last."""
    hungry_ms: int | None = None
    """When to ask again for more tasks than a quota had room for."""

    @property
    def retries(self) -> Retries | None:
        return self.job.spec.retries

    @property
    def is_done(self) -> bool:
        """A work queue whose work is done: what still runs may end, and nothing is tried again."""
        return self.job.spec.is_work_queue and self.completed > 0

    @property
    def goes_index_by_index(self) -> bool:
        """Behind another series: its tasks wait one by one."""
        return bool(_goes_behind(self.job))

    @property
    def waits_whole(self) -> bool:
        """Whether its tasks wait for their first place together: those of an array, and none behind another
        one, where each is for itself."""
        return self.job.spec.series is not None and not self.goes_index_by_index

    @property
    def unborn(self) -> int:
        return 0 if self.dropped else self.job.spec.task_count - self.born

    @property
    def to_come(self) -> int:
        """Of these, those that nobody cancelled, and those that are kept back."""
        if not self.unborn:
            return len(self.kept_back)
        passed_over = self.skipped.number_between(self.born, self.job.spec.task_count)
        return len(self.kept_back) + self.unborn - passed_over

    @property
    def deadline_ms(self) -> int | None:
        allowed_s = self.job.spec.active_deadline_s
        if allowed_s is None:
            return None
        timing, since_ms = self.job.timing, self.job.submitted_ms
        if timing is not None and timing.suspended_by is not None:
            return None
        return (since_ms if timing is None else timing.waits_since(since_ms)) + 1000 * allowed_s


class SeriesBook:
    def __init__(self) -> None:
        self._jobs: dict[int, Entry] = {}
        self.touched: set[int] = set()
        """Those to which something has happened in this turn."""
        self.crowded: set[int] = set()
        """Those of which more tasks are live than may be: they are looked at also when somebody else lets
        some of them go."""
        self.look_ms = 0
        """When to look again who is due by the clock."""
        self._behind: dict[int, set[int]] = {}
        """By series: those that go index by index behind it."""
        self.owed: list[tuple[AttemptId, Cause, str]] = []
        """Whom to stop, why and for whom: somebody asked for it in an earlier term."""

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._jobs.values())

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def get(self, job_id: int) -> Entry | None:
        return self._jobs.get(job_id)

    def begin(self, jobs: Iterable[Job], tasks: Iterable[TaskBrief]) -> None:
        """`jobs`: new ones, and such as were held, released or edited, maybe while nothing of them was live.
        `tasks`: live ones, of these jobs and of others."""
        for job in jobs:
            self.touched.add(job.job_id)
            if job.job_id in self._jobs:
                self._jobs[job.job_id].job = job
            else:
                self._jobs[job.job_id] = _entry(job)
                for on in _goes_behind(job):
                    self._behind.setdefault(on, set()).add(job.job_id)
        for task in tasks if self._jobs else ():
            entry = self._jobs.get(task.task_id.job_id)
            if entry is not None:
                entry.live.add(task.task_id)

    def tasks_of(self, job_id: int, tasks: int) -> list[TaskId]:
        """Of a job of so many tasks those that may be live."""
        entry = self._jobs.get(job_id)
        if entry is None:
            return [TaskId(job_id, index) for index in range(tasks)]
        return sorted(entry.live)

    def left_its_place(self, job_id: int) -> None:
        """One of its tasks, whatever becomes of it."""
        entry = self._jobs.get(job_id)
        if entry is not None:
            entry.begun = True
            self.touched.add(job_id)

    def is_over(self, task_id: TaskId, status: Status) -> None:
        entry = self._jobs.get(task_id.job_id)
        if entry is None or task_id not in entry.live:
            return
        entry.live.discard(task_id)
        entry.kept_back.discard(task_id)
        entry.failed += status is Status.FAILED
        entry.completed += status is Status.COMPLETED
        self.touched.add(task_id.job_id)

    def pass_over(self, job_id: int, by: str, positions: IndexSet) -> None:
        """Some of its tasks were cancelled; those without rows never wait."""
        entry = self._jobs.get(job_id)
        if entry is not None and positions.highest >= entry.born:
            entry.skipped, entry.passes_over = entry.skipped.and_these(by, positions), True
        self.touched.add(job_id)

    def end(self, job_id: int, end: End) -> None:
        """It ends for this, unless for something else already."""
        entry = self._jobs.get(job_id)
        if entry is not None and entry.end is None:
            entry.end = end
            self.touched.add(job_id)

    def reach(self, entry: Entry) -> int:
        """How many of its tasks can be of use: none before the same one has a row in each series that it goes
        behind. It would be charged for them, and the quota have no room for those that it waits for."""
        unborn = (other.born for other in self._ahead_of(entry) if other.unborn)
        return min(unborn, default=entry.job.spec.task_count)

    def gives_precedence(self, entry: Entry) -> bool:
        """Whether one that it goes behind has nothing live, perhaps for want of the same quota, which may be
        that of a tenant above both: that comes first, for without it nothing of this one could start."""
        ahead = (other for other in self._ahead_of(entry) if other.unborn and not other.live)
        return any(_at_the_top(other.job) == _at_the_top(entry.job) for other in ahead)

    def _ahead_of(self, entry: Entry) -> list[Entry]:
        return [other for on in _goes_behind(entry.job) if (other := self._jobs.get(on)) is not None]

    def went_on(self, job_id: int) -> None:
        """More of its tasks have rows, or never will: those behind it may go on."""
        self.touched |= self._behind.get(job_id, set())

    def forget(self, job_id: int) -> None:
        entry = self._jobs.pop(job_id, None)
        self.crowded.discard(job_id)
        self.went_on(job_id)
        self._behind.pop(job_id, None)
        for on in () if entry is None else _goes_behind(entry.job):
            if others := self._behind.pop(on, set()) - {job_id}:
                self._behind[on] = others


def _at_the_top(job: Job) -> str:
    return job.spec.tenant_id.partition("/")[0]


def _goes_behind(job: Job) -> list[int]:
    return [need.on for need in job.spec.needs if need.kind is NeedKind.CORR]


def _entry(job: Job) -> Entry:
    counts = job.task_counts
    born = job.spec.task_count if job.born is None else job.born
    return Entry(
        job,
        born,
        job.failures,
        counts.get(Status.FAILED, 0),
        counts.get(Status.COMPLETED, 0),
        dropped=job.dropped > 0,
        skipped=Skipped(job.skipped),
        passes_over=bool(job.skipped),
        begun=job.attempts > 0,
        end=None if job.cancel_by is None else End(Cause.CANCELLED, f"cancelled by {job.cancel_by}"),
    )
