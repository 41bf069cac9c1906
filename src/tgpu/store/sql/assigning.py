"""How waiting tasks are given their attempts: what every quota has room for, gangs whole or not at all."""

from collections.abc import Sequence
from typing import NamedTuple

from tgpu.domain.ids import TaskId
from tgpu.domain.job import JobSpec
from tgpu.domain.lifecycle import AttemptState, Happening, Status, task_sources
from tgpu.domain.quota import Standing
from tgpu.store import event_data
from tgpu.store.book import Book
from tgpu.store.port import Assigned
from tgpu.store.sql import codec, moves
from tgpu.store.sql.job_sums import JobSums
from tgpu.store.sql.postings import Postings
from tgpu.store.sql.session import Session
from tgpu.store.sql.stage import Happened, Numbered, Outcomes, Stage, TaskNow, of_task

_WAITS = {status.value for status in task_sources(Happening.ASSIGNED)}


class _Candidate(NamedTuple):
    """The change and its place, and the task."""

    place: int
    change: Assigned
    task: TaskNow
    spec: str | None
    """The text of its job's specification; None of a job of several tasks, of which it is read once."""
    in_gang: bool

    @property
    def job_id(self) -> int:
        return self.change.attempt_id.job_id


class _Admitted(NamedTuple):
    place: int
    change: Assigned
    task: TaskNow
    spec: str | None
    standing: Standing


class Assigning(Stage):
    def __init__(
        self, session: Session, at_ms: int, postings: Postings, sums: JobSums, seen_seq: int
    ) -> None:
        super().__init__(session, at_ms, postings, sums)
        self._seen_seq = seen_seq
        self.specs: dict[int, JobSpec] = {}
        """The jobs of the assignments that were taken."""

    def assign(self, changes: Sequence[Numbered[Assigned]]) -> Outcomes:
        """All of a commit, in their order, which decides who gets what is left of a quota; several may be of
        one job."""
        taken = self._admitted(self._candidates(changes))
        if not taken:
            return {}
        self._write(moves.ASSIGN_TASK, [
            of_task(one.change.attempt_id.task_id) | {
                "old_status": one.task.status,
                "new_status": Status.SCHEDULED.value,
                "new_number": one.change.attempt_id.number,
                "new_standing": one.standing.value,
                "reserved": one.change.reserve_gpu_ms,
            }
            for one in taken
        ])  # fmt: skip
        placed = [
            (one.change.attempt_id, one.change.node_id, codec.text_of(one.change.devices), one.task)
            for one in taken
        ]
        self._session.change_many(moves.ADD_ATTEMPT, [
            {
                "job_id": attempt_id.job_id,
                "task_index": attempt_id.task_index,
                "number": attempt_id.number,
                "state": AttemptState.ASSIGNED.value,
                "node_id": node_id,
                "devices": devices,
                "assigned_ms": self._at_ms,
            }
            for attempt_id, node_id, devices, _ in placed
        ])  # fmt: skip
        self._write(moves.ASSIGN_JOB, [
            {
                "job": attempt_id.job_id,
                "new_status": Status.SCHEDULED.value,
                "new_number": attempt_id.number,
                "where_to": node_id,
                "on_devices": devices,
            }
            for attempt_id, node_id, devices, task in placed if task.tasks == 1
        ])  # fmt: skip
        several = [one for one in placed if one[3].tasks > 1]
        for (attempt_id, node_id, _, task), job in self._sums.each(several, lambda it: it[0].job_id):
            job.moved(Status(task.status), Status.SCHEDULED)
            job.assigned(attempt_id, node_id)
        self._read_specs(taken)
        return {
            one.place: Happened(
                Happening.ASSIGNED.value,
                one.change.attempt_id.task_id,
                event_data.on_assigned(one.change),
                one.task.user,
            )
            for one in taken
        }

    def _read_specs(self, taken: Sequence[_Admitted]) -> None:
        tenants = {one.change.attempt_id.job_id: one.task.tenant_id for one in taken}
        texts = {one.change.attempt_id.job_id: one.spec for one in taken}
        several = [job_id for job_id, text in texts.items() if text is None]
        for job_id, row in self._found(moves.SPEC, several, [{"job": job_id} for job_id in several]):
            texts[job_id] = row[0]
        for job_id, text in texts.items():
            assert text is not None, moves.SPEC.sentence
            self.specs[job_id] = codec.spec_from(text, tenants[job_id])

    def _candidates(self, changes: Sequence[Numbered[Assigned]]) -> list[_Candidate]:
        """Those whose tasks wait for just this attempt, and which nobody wants cancelled, held or otherwise
        than when it was decided; of a gang all for which that holds, or none."""
        rows = [of_task(change.attempt_id.task_id) for _, change in changes]
        found: list[_Candidate] = []
        gangs: set[int] = set()
        for (place, change), row in self._found(moves.CANDIDATE, changes, rows):
            *task, attempts, cancel_by, changed_seq, spec, in_gang = row
            known = cancel_by is None and (changed_seq is None or changed_seq <= self._seen_seq)
            if task[0] in _WAITS and known and attempts == change.attempt_id.number - 1:
                found.append(_Candidate(place, change, TaskNow(*task), spec, bool(in_gang)))
            if in_gang:
                gangs.add(change.attempt_id.job_id)
        if not gangs:
            return found
        taken = {one.place for one in found}
        torn = {change.attempt_id.job_id for place, change in changes if place not in taken} & gangs
        return [one for one in found if one.job_id not in torn]

    def _admitted(self, candidates: Sequence[_Candidate]) -> list[_Admitted]:
        """Those that every quota has room for, in order, and how they stand then; once per task."""
        book = self._postings.book({one.task.tenant_id for one in candidates})
        admitted: list[_Admitted] = []
        given: set[TaskId] = set()
        torn: set[int] = set()
        for place, change, task, spec, in_gang in candidates:
            job_id, task_id = change.attempt_id.job_id, change.attempt_id.task_id
            if task_id in given or job_id in torn:
                continue
            standing = book.of(task.tenant_id).assign(task.charged, change.admission, change.reserve_gpu_ms)
            if standing is not None:
                given.add(task_id)
                admitted.append(_Admitted(place, change, task, spec, standing))
            elif in_gang:
                torn.add(job_id)
                _take_back([one for one in admitted if one.change.attempt_id.job_id == job_id], book)
        return [one for one in admitted if one.change.attempt_id.job_id not in torn]


def _take_back(admitted: Sequence[_Admitted], book: Book) -> None:
    """At once: what the rest of a gang would have had is there for others who come after it."""
    for one in admitted:
        tenants = book.of(one.task.tenant_id)
        tenants.unassign(one.task.charged, one.standing, one.change.reserve_gpu_ms)
