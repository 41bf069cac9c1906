"""A series whose cap was lowered: of its tasks that wait, only so many stay in line as may still run.

More of them have rows than that. The others are parked until some have ended; their rows, and what they are
charged for, stay.
"""

from tgpu.control.series_book import Entry, SeriesBook
from tgpu.core.picture import Picture
from tgpu.domain.ids import TaskId


def has_stirred(picture: Picture, entry: Entry) -> bool:
    """Whether, since it was looked at, some have come back into line or onto a node, whoever let them."""
    return entry.at_rest != _standing(picture, entry)


def keep_back(picture: Picture, book: SeriesBook, entry: Entry) -> None:
    """Tasks are begun in the order of their indices, so that who gave way comes first."""
    if len(entry.live) > _cap(entry):
        book.crowded.add(entry.job.job_id)
    elif entry.job.job_id in book.crowded:
        book.crowded.discard(entry.job.job_id)
    else:
        return
    waiting = {task_id for task_id in entry.live if task_id in picture.waiting}
    kept = {task_id for task_id in entry.kept_back if task_id in picture.parked}
    others = entry.live - waiting - kept
    room = _cap(entry) - sum(not _waits_for_its_own(picture, task_id) for task_id in others)
    in_line = set(sorted(waiting | kept)[: max(0, room)])
    for task_id in waiting - in_line:
        picture.parked.add(picture.remove_waiting(task_id))
    for task_id in kept & in_line:
        picture.add_waiting(picture.parked.take(task_id))
    entry.kept_back = (waiting | kept) - in_line
    entry.at_rest = _standing(picture, entry)


def _standing(picture: Picture, entry: Entry) -> tuple[int, int]:
    return len(entry.live), picture.parked.number_of(entry.job.job_id)


def _waits_for_its_own(picture: Picture, task_id: TaskId) -> bool:
    """Behind another series: for the same index of that, before which it takes nobody's turn."""
    task = picture.parked.get(task_id)
    return task is not None and task.timing is not None and task.timing.unmet


def _cap(entry: Entry) -> int:
    """How many may be live."""
    spec = entry.job.spec
    at_once = None if spec.series is None else spec.series.at_once
    return at_once or spec.task_count
