"""Jobs of several tasks within one commit: read once, moved as their tasks are, written once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from tgpu.domain.lifecycle import Status
from tgpu.store.job_sum import JobSum, tally_of, text_of
from tgpu.store.sql import moves
from tgpu.store.sql.session import Session, Values

T = TypeVar("T")


class JobSums:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._jobs: dict[int, JobSum] = {}

    def each(self, things: Sequence[T], job_of: Callable[[T], int]) -> Iterator[tuple[T, JobSum]]:
        """Each of them with its job, which is held, to be changed."""
        if things:
            self._read(dict.fromkeys(map(job_of, things)))
        for thing in things:
            yield thing, self._jobs[job_of(thing)]

    def _read(self, job_ids: Iterable[int]) -> None:
        unknown = [job_id for job_id in job_ids if job_id not in self._jobs]
        rows = self._session.row_each(moves.JOB_SUM, [{"job": job_id} for job_id in unknown])
        for job_id, row in zip(unknown, rows, strict=True):
            assert row is not None, moves.JOB_SUM.sentence
            tally, node_id, attempts, started_ms = row
            self._jobs[job_id] = JobSum(tally_of(tally), node_id, attempts, started_ms)

    @property
    def statuses(self) -> dict[int, Status]:
        """Where they stand now."""
        return {job_id: job.status for job_id, job in self._jobs.items()}

    def write(self) -> None:
        if self._jobs:
            rows = [_row(job_id, job) for job_id, job in self._jobs.items()]
            self._session.change_all(moves.SUM_UP_JOB, rows)


def _row(job_id: int, job: JobSum) -> Values:
    ending = job.ending
    return {
        "job": job_id,
        "new_status": job.status.value,
        "new_tally": text_of(job.tally),
        "new_number": job.attempts,
        "where_to": job.node_id,
        "begun": job.started_ms,
        "why": None if ending is None else ending.cause.value,
        "told": "" if ending is None else ending.detail,
        "code": None if ending is None else ending.exit_code,
        "at": job.ended_ms,
    }
