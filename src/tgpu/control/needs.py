"""Jobs that wait for other jobs: who may start once one is over, and who never can.

A book of edges, kept in memory: each is looked at once, when the job at its other end is over. The store
tells of them when jobs are submitted and when a term begins; what follows is committed with the next turn.
"""

from collections.abc import Iterable
from dataclasses import replace

from tgpu.control.corresponding import Corresponding
from tgpu.control.series_book import End
from tgpu.control.singletons import Singletons
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.needs import NeedKind
from tgpu.store import event_data, timings
from tgpu.store.needs_port import NeedRow
from tgpu.store.port import Changes, Receipt, TaskClosed

_ENDS = {
    Happening.SUCCEEDED.value: Status.COMPLETED,
    Happening.FAILED.value: Status.FAILED,
    Happening.CANCELLED.value: Status.CANCELLED,
    event_data.DROPPED: Status.CANCELLED,
}
_INSTEAD = {
    NeedKind.OK: "has to complete",
    NeedKind.NOT_OK: "has to fail",
}


class Needs:
    def __init__(self) -> None:
        self._left: dict[int, int] = {}
        """By job that waits for others: how many of its needs are not met yet."""
        self._behind: dict[int, list[tuple[int, NeedKind]]] = {}
        """By job that is waited for: who does, and how it has to end."""
        self._on: dict[int, set[int]] = {}
        """By job that waits: for whom, for people who ask."""
        self._met: list[int] = []
        self._never: dict[int, str] = {}
        """Jobs that can never start, and why."""
        self._singletons = Singletons()
        self._corresponding = Corresponding()

    def waits_for(self, job_id: int) -> dict[int, NeedKind]:
        """Jobs that this one still waits for, and how they have to end; of a singleton, those before it are
        not named."""
        return {
            on: kind
            for on in self._on.get(job_id, ())
            for waiting, kind in self._behind.get(on, ((job_id, NeedKind.CORR),))
            if waiting == job_id
        }

    def begin(self, picture: Picture, rows: Iterable[NeedRow]) -> None:
        """`rows`: of jobs that are parked in the picture."""
        alone: list[int] = []
        jobs: dict[int, list[NeedRow]] = {}
        for row in rows:
            jobs.setdefault(row.job_id, []).append(row)
        for job_id, needs in jobs.items():
            if job_id in self._left:
                continue
            self._left[job_id] = len(needs)
            self._on[job_id] = {row.on for row in needs if row.on}
            for row in needs:
                if row.kind is NeedKind.CORR:
                    self._corresponding.add(row)
                if row.kind is NeedKind.SINGLETON:
                    alone.append(job_id)
                elif row.status is None or row.status.is_final:
                    self._decide(job_id, row.kind, row.on, row.status)
                else:
                    self._behind.setdefault(row.on, []).append((job_id, row.kind))
        for job_id in self._singletons.watch(alone, picture) if alone else ():
            self._one_less(job_id)

    def take_in(self, picture: Picture, changes: Changes) -> None:
        for task in changes.submitted if self._singletons else ():
            self._singletons.submitted(task)
        for job_id in self._singletons.renamed(changes.altered, picture) if self._singletons else ():
            self._one_less(job_id)
        if changes.needs:
            self.begin(picture, changes.needs)

    def heard(self, receipt: Receipt) -> bool:
        """What was committed: whether something follows from it."""
        follows = False
        if self._left:
            for event in receipt.events:
                if (status := _ENDS.get(event.kind)) is not None:
                    follows |= self._corresponding.heard(event.job_id, event.task_index, status)
                    if event.job_id not in receipt.sums:
                        self._ended(event.job_id, status)
            for job_id, status in receipt.sums.items():
                if status.is_final:
                    self._ended(job_id, status)
            follows |= bool(self._corresponding) and bool(receipt.grown)
        return bool(follows or self._met or self._never)

    def settle(self, picture: Picture, turn: Turn) -> list[TaskBrief]:
        """Closes those that can never start, and whoever cannot because of that; lets go those that need not
        wait any more, and returns their tasks."""
        while self._never:
            job_id, why = self._never.popitem()
            tasks = picture.parked.of_job(job_id)
            for task in tasks:
                picture.parked.take(task.task_id)
                turn.batch.closed.append(
                    TaskClosed(task.task_id, Happening.FAILED, Cause.DEPENDENCY_FAILED, why)
                )
            if tasks or turn.series.get(job_id) is not None:
                turn.series.end(job_id, End(Cause.DEPENDENCY_FAILED, why))
                self._ended(job_id, Status.FAILED)
        met, self._met = self._met, []
        freed = [task for job_id in met for task in _let_go(job_id, picture, turn)]
        for job_id in self._corresponding.jobs():
            if self._left.get(job_id) == self._corresponding.count(job_id):  # nothing else is in its way
                freed += self._corresponding.settle(job_id, picture, turn)
        return freed

    def _ended(self, job_id: int, status: Status) -> None:
        self._left.pop(job_id, None)
        self._on.pop(job_id, None)
        self._corresponding.forget(job_id)
        for waiting, kind in self._behind.pop(job_id, ()):
            self._decide(waiting, kind, job_id, status)
        for waiting in self._singletons.ended(job_id) if self._singletons else ():
            self._one_less(waiting)

    def _decide(self, job_id: int, kind: NeedKind, on: int, status: Status | None) -> None:
        """`status`: how the other one ended; None: it was forgotten since, and nobody knows."""
        if job_id not in self._left:
            return
        if kind is NeedKind.ANY or (status is not None and kind.is_met_by(status)):
            self._corresponding.drop(job_id, on)
            self._on[job_id].discard(on)
            self._one_less(job_id)
            return
        if kind is NeedKind.CORR:
            self._corresponding.is_over(on)  # index by index: some may have completed
            return
        del self._left[job_id], self._on[job_id]
        ended = "is not remembered any more" if status is None else f"has {_said(status)}"
        self._never[job_id] = f"job {on} {ended}, and {_INSTEAD[kind]} before this one starts"

    def _one_less(self, job_id: int) -> None:
        if job_id not in self._left:
            return
        self._left[job_id] -= 1
        if not self._left[job_id]:
            del self._left[job_id], self._on[job_id]
            self._met.append(job_id)


def _said(status: Status) -> str:
    return "been cancelled" if status is Status.CANCELLED else status.value


def _let_go(job_id: int, picture: Picture, turn: Turn) -> list[TaskBrief]:
    """Those that somebody holds besides stay parked. Of a series, none may be left to let go: index by index,
    all were before, or none is live just now; what comes later need not wait either."""
    parked, entry = picture.parked.of_job(job_id), turn.series.get(job_id)
    if not parked and (entry is None or entry.end is not None):
        return []  # it was cancelled meanwhile
    turn.batch.released.append(job_id)
    freed: list[TaskBrief] = []
    for task in parked:
        if task.timing is None or not task.timing.unmet:
            continue  # index by index, it was let go before
        freed.append(replace(task, timing=timings.met(task.timing, turn.batch.at_ms)))
        picture.parked.take(task.task_id)
        picture.add_waiting(freed[-1])
    if entry is not None and entry.job.timing is not None:
        entry.job = replace(entry.job, timing=timings.met(entry.job.timing, turn.batch.at_ms))
        turn.series.touched.add(job_id)
    return freed
