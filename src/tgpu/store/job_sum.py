"""The row of a job of several tasks: the sum of what happened to them, the same in every store.

A job of one task shows that task, and needs none of this.
"""

from dataclasses import dataclass, field

import msgspec

from tgpu.domain import job_status
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Status

_COMPLETED, _CANCELLED, _STOPPED_WITH_IT, _FAILED, _DID_THE_WORK, _FAILED_THE_JOB = range(6)
"""How much the end of a task weighs: the weightiest is the job's. Who was stopped because another one of its
gang failed tells less than that one; whoever ended the whole job tells more than those that failed before."""


class Ending(msgspec.Struct, frozen=True):
    """How one task ended, as its job may show it."""

    weight: int
    cause: Cause
    detail: str
    exit_code: int | None
    at_ms: int


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of it beside the row's own fields."""

    counts: dict[Status, int]
    ending: Ending | None = None
    """The weightiest so far, of equal ones the first."""
    last_ms: int = 0
    """When the last of those that are over ended."""
    dropped: int = 0
    """Of a series: how many of those that count as cancelled never had rows."""
    failures: int = 0
    """How many attempts failed and count."""
    work_queue: bool = False
    """It has done its work once one of its tasks has, whatever became of the others."""
    tried: int = 0
    """Of a series in a store that was put back: how often each of those without rows may have been tried."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Tally)


def tally_of(text: str) -> Tally:
    return _decoder.decode(text)


def text_of(tally: Tally) -> str:
    return _encoder.encode(tally).decode()


@dataclass(slots=True)
class JobSum:
    """While a transaction works on it."""

    tally: Tally
    node_id: str | None = None
    """The first that was given to any of its tasks, while any has one."""
    attempts: int = 0
    """The most that any of its tasks has had."""
    started_ms: int | None = None
    """When the first of them began; None again if all of them wait again."""
    _counts: dict[Status, int] = field(init=False)
    _before: Ending | None = field(init=False)

    def __post_init__(self) -> None:
        self._counts, self._before = dict(self.tally.counts), self.tally.ending

    @property
    def status(self) -> Status:
        return job_status.status_of(self._counts, work_queue=self.tally.work_queue)

    @property
    def ending(self) -> Ending | None:
        """How the job ended, once it has."""
        return self.tally.ending if self.status.is_final else None

    @property
    def ended_ms(self) -> int | None:
        return self.tally.last_ms if self.status.is_final else None

    def moved(self, before: Status, after: Status) -> None:
        self._counts[before] -= 1
        if not self._counts[before]:
            del self._counts[before]
        self._counts[after] = self._counts.get(after, 0) + 1
        if not job_status.holding(self._counts) and not self.status.is_final:
            self.node_id = None
            if not job_status.over(self._counts):
                self.started_ms = None
        self._keep(self.tally.ending, self.tally.last_ms)

    def assigned(self, attempt_id: AttemptId, node_id: str) -> None:
        self.attempts = max(self.attempts, attempt_id.number)
        self.node_id = self.node_id or node_id

    def began(self, at_ms: int | None) -> None:
        if at_ms is not None:
            self.started_ms = at_ms if self.started_ms is None else min(self.started_ms, at_ms)

    def ended(self, status: Status, how: Exit, detail: str, at_ms: int, fails_job: str = "") -> None:
        """One of its tasks, for good. Of several that failed in one transaction the earliest counts: their
        reports come in any order. `fails_job`: what the job says, if it fails as a whole by this one."""
        weight = _FAILED_THE_JOB if fails_job else _weight(status, how.cause)
        if self.tally.work_queue and status is Status.COMPLETED:
            weight = _DID_THE_WORK
        new = Ending(weight, how.cause, fails_job or detail, how.exit_code, at_ms)
        old = self.tally.ending
        earlier = old is not None and old is not self._before and new.at_ms < old.at_ms
        if old is None or new.weight > old.weight or (new.weight == old.weight and earlier):
            old = new
        self._keep(old, max(self.tally.last_ms, at_ms))

    def failed(self) -> None:
        """An attempt of one of its tasks, and it counts."""
        self.tally = msgspec.structs.replace(self.tally, failures=self.tally.failures + 1)

    def pass_over(self, tasks: int, how: Exit, at_ms: int) -> None:
        """So many of its tasks, which wait without rows, are cancelled."""
        if not tasks:
            return
        self._counts[Status.PENDING] -= tasks
        if not self._counts[Status.PENDING]:
            del self._counts[Status.PENDING]
        self._counts[Status.CANCELLED] = self._counts.get(Status.CANCELLED, 0) + tasks
        self.ended(Status.CANCELLED, how, how.detail, at_ms)

    def drop(self, tasks: int, how: Exit, at_ms: int, *, counted: int = 0) -> None:
        """So many of its tasks, which have no rows, never get any; some count as cancelled already."""
        self.pass_over(tasks - counted, how, at_ms)
        self.tally = msgspec.structs.replace(self.tally, dropped=self.tally.dropped + tasks)

    def _keep(self, ending: Ending | None, last_ms: int) -> None:
        self.tally = msgspec.structs.replace(
            self.tally, counts=dict(self._counts), ending=ending, last_ms=last_ms
        )


def new_tally(tasks: int, status: Status, *, work_queue: bool = False) -> Tally:
    return Tally({status: tasks}, work_queue=work_queue)


def _weight(status: Status, cause: Cause) -> int:
    if status is Status.COMPLETED:
        return _COMPLETED
    if status is Status.CANCELLED:
        return _CANCELLED
    return _STOPPED_WITH_IT if cause is Cause.GANG_BROKEN else _FAILED
