"""Tasks that may not wait for ever: who has waited too long by now?"""

import heapq

from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.store.port import TaskClosed


class Deadlines:
    """A heap by time; a task that has gone meanwhile is simply passed over, and so is one that was placed
    and came back: it did not wait too long for its first place."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, TaskId]] = []

    def watch(self, task: TaskBrief) -> None:
        if task.max_wait_s is not None:
            heapq.heappush(self._heap, (task.submitted_ms + 1000 * task.max_wait_s, task.task_id))

    def take_in(self, picture: Picture, turn: Turn) -> None:
        while self._heap and self._heap[0][0] <= picture.now_ms:
            _, task_id = heapq.heappop(self._heap)
            waiting = picture.waiting.get(task_id)
            if waiting is None or waiting.attempts:
                continue
            task = picture.remove_waiting(task_id)
            picture.closed(task)
            detail = f"was not placed within {task.max_wait_s} s"
            turn.batch.closed.append(TaskClosed(task_id, Happening.FAILED, Cause.WAITED_TOO_LONG, detail))
