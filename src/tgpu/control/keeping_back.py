"""A series whose cap was lowered: of its tasks that wait, only so many stay in line as may still run.

More of them have rows than that. The others are parked until some have ended; their rows, and what they are
charged for, stay.
"""

from tgpu.control.series_book import Entry, SeriesBook
from tgpu.core.picture import Picture


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
    room = _cap(entry) - (len(entry.live) - len(waiting) - len(kept))
    in_line = set(sorted(waiting | kept)[: max(0, room)])
    for task_id in waiting - in_line:
        picture.parked.add(picture.remove_waiting(task_id))
    for task_id in kept & in_line:
        picture.add_waiting(picture.parked.take(task_id))
    entry.kept_back = (waiting | kept) - in_line
    entry.at_rest = _standing(picture, entry)


def _standing(picture: Picture, entry: Entry) -> tuple[int, int]:
    return len(entry.live), picture.parked.number_of(entry.job.job_id)


def _cap(entry: Entry) -> int:
    """How many may be live. Behind another series its tasks are let go one by one, and are not told apart."""
    spec = entry.job.spec
    if spec.series is None or entry.goes_index_by_index:
        return spec.task_count
    return spec.series.at_once or spec.task_count
