"""One at a time: jobs that start only once no older job of the same user and name is live."""

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain

from tgpu.core.picture import Picture
from tgpu.domain.job import TaskBrief

Key = tuple[str, str]
"""A user, and a name."""


class Singletons:
    """Only names that such jobs have are looked after, and only while one of them waits: who began or ended
    at other times is not told here, so that what is known is forgotten with the last that waits."""

    def __init__(self) -> None:
        self._live: dict[Key, list[int]] = {}
        """A heap of jobs; who is over is still in there until its turn comes."""
        self._keys: dict[int, Key] = {}
        """Of the live ones."""
        self._waiting: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def watch(self, job_ids: Iterable[int], picture: Picture) -> list[int]:
        """These are such jobs, and are parked; returns those that need not wait."""
        fresh = {job_id: _key(tasks[0]) for job_id in job_ids if (tasks := picture.parked.of_job(job_id))}
        self._waiting.update(fresh)
        new = set(fresh.values()) - self._live.keys()
        self._live.update((key, []) for key in new)
        for task in _everybody(picture) if new else ():
            if _key(task) in new:
                self.submitted(task)
        for job_id, key in fresh.items():
            self._enter(job_id, key)
        free = [job_id for key in sorted(set(fresh.values())) for job_id in self._first(key)]
        self._forget_if_idle()
        return free

    def renamed(self, tasks: Iterable[TaskBrief], picture: Picture) -> list[int]:
        """Jobs may be called something else by now; returns who need not wait any more."""
        if all(self._keys.get(task.task_id.job_id) == self._watched(task) for task in tasks):
            return []
        waiting = sorted(self._waiting)
        self._forget()
        return self.watch(waiting, picture)

    def _watched(self, task: TaskBrief) -> Key | None:
        key = _key(task)
        return key if key in self._live else None

    def submitted(self, task: TaskBrief) -> None:
        key = _key(task)
        if key in self._live:
            self._enter(task.task_id.job_id, key)

    def _enter(self, job_id: int, key: Key) -> None:
        if job_id not in self._keys:
            self._keys[job_id] = key
            heapq.heappush(self._live[key], job_id)

    def ended(self, job_id: int) -> list[int]:
        """Returns who need not wait any more."""
        key = self._keys.pop(job_id, None)
        self._waiting.discard(job_id)
        free = [] if key is None else self._first(key)
        self._forget_if_idle()
        return free

    def _forget_if_idle(self) -> None:
        if not self._waiting:
            self._forget()

    def _forget(self) -> None:
        self._live.clear()
        self._keys.clear()
        self._waiting.clear()

    def _first(self, key: Key) -> list[int]:
        """The oldest live job of the name, if it waits for nothing but that."""
        heap = self._live[key]
        while heap and heap[0] not in self._keys:
            heapq.heappop(heap)
        if not heap:
            del self._live[key]
            return []
        if heap[0] not in self._waiting:
            return []
        self._waiting.discard(heap[0])
        return [heap[0]]


def _key(task: TaskBrief) -> Key:
    return task.user, task.name


def _everybody(picture: Picture) -> Iterator[TaskBrief]:
    placed = (each.task for each in picture.placed.values())
    return chain(picture.waiting.values(), placed, picture.parked)
