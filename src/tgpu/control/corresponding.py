"""Series that go index by index behind other series: a task starts once the same one there has completed."""

from dataclasses import replace

from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.store import timings
from tgpu.store.needs_port import NeedRow
from tgpu.store.port import TaskClosed


class Corresponding:
    """Their tasks are parked, with all of their job, and let go one by one."""

    def __init__(self) -> None:
        self._on: dict[int, set[int]] = {}
        """By job: behind which others it goes."""
        self._ends: dict[int, dict[int, Status]] = {}
        """By job that others go behind: which of its tasks are over, and how."""
        self._over: set[int] = set()
        """Those of them that are over as a whole: what had no row there never gets one."""

    def __bool__(self) -> bool:
        return bool(self._on)

    def add(self, row: NeedRow) -> None:
        self._on.setdefault(row.job_id, set()).add(row.on)
        self._ends.setdefault(row.on, {}).update(row.ends)

    def count(self, job_id: int) -> int:
        return len(self._on.get(job_id, ()))

    def jobs(self) -> list[int]:
        return sorted(self._on)

    def drop(self, job_id: int, on: int) -> None:
        """All of the other job has completed."""
        theirs = self._on.get(job_id, set())
        theirs.discard(on)
        if not theirs:
            self._on.pop(job_id, None)

    def forget(self, job_id: int) -> None:
        self._on.pop(job_id, None)

    def is_over(self, on: int) -> None:
        self._over.add(on)

    def heard(self, on: int, task_index: int | None, status: Status) -> bool:
        """A task is over: whether somebody may have waited for it. None: such as never had rows are; what is
        behind them is decided once the whole job is over."""
        if on not in self._ends:
            return False
        if task_index is not None:
            self._ends[on][task_index] = status
        return True

    def settle(self, job_id: int, picture: Picture, turn: Turn) -> list[TaskBrief]:
        """Returns those that need not wait any more; closes those that can never start."""
        freed: list[TaskBrief] = []
        for task in picture.parked.of_job(job_id):
            if task.timing is None or not task.timing.unmet:
                continue  # it was let go before, and something else keeps it
            others = {on: self._status(on, task.task_id.task_index) for on in sorted(self._on[job_id])}
            never = next(
                (on for on, status in others.items() if status and status is not Status.COMPLETED), None
            )
            if never is not None:
                picture.parked.take(task.task_id)
                detail = (
                    f"the same index of job {never} has not completed, as it has to before this one starts"
                )
                turn.batch.closed.append(
                    TaskClosed(task.task_id, Happening.FAILED, Cause.DEPENDENCY_FAILED, detail)
                )
            elif all(others.values()):
                freed.append(replace(task, timing=timings.met(task.timing, turn.batch.at_ms)))
        for task in freed:
            picture.parked.take(task.task_id)
            picture.add_waiting(task)
        return freed

    def _status(self, on: int, position: int) -> Status | None:
        known = self._ends[on].get(position)
        return Status.CANCELLED if known is None and on in self._over else known
