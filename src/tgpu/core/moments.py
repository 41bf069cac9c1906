"""What the clock alone brings: who may start again, and who has run long enough to give way."""

import heapq
from typing import TypeVar

from tgpu.domain.ids import AttemptId, TaskId

Name = TypeVar("Name", TaskId, AttemptId)


class Moments:
    """Heaps by time. Whoever has gone meanwhile is still in there: whom it concerns looks again."""

    def __init__(self, min_run_ms: int) -> None:
        self._min_run_ms = min_run_ms
        self._sleeping: list[tuple[int, TaskId]] = []
        self._protected: list[tuple[int, AttemptId]] = []
        self._resting: list[tuple[int, TaskId]] = []

    @property
    def anybody_sleeps(self) -> bool:
        return bool(self._sleeping)

    @property
    def next_ms(self) -> int | None:
        """The first of all these moments."""
        heaps = (self._sleeping, self._protected, self._resting)
        return min((heap[0][0] for heap in heaps if heap), default=None)

    def sleeps(self, task_id: TaskId, until_ms: int) -> None:
        heapq.heappush(self._sleeping, (until_ms, task_id))

    def rests(self, task_id: TaskId, until_ms: int) -> None:
        """It is parked, and joins its queue then."""
        heapq.heappush(self._resting, (until_ms, task_id))

    def runs(self, attempt_id: AttemptId, since_ms: int) -> None:
        """It gives way to nobody until it has run for a while."""
        if self._min_run_ms:
            heapq.heappush(self._protected, (since_ms + self._min_run_ms, attempt_id))

    def woken(self, now_ms: int) -> list[TaskId]:
        return _due(self._sleeping, now_ms)

    def rested(self, now_ms: int) -> list[TaskId]:
        return _due(self._resting, now_ms)

    def unprotected(self, now_ms: int) -> list[AttemptId]:
        return _due(self._protected, now_ms)

    def nobody_sleeps(self) -> None:
        self._sleeping.clear()


def _due(heap: list[tuple[int, Name]], now_ms: int) -> list[Name]:
    found = []
    while heap and heap[0][0] <= now_ms:
        found.append(heapq.heappop(heap)[1])
    return found
