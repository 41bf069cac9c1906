"""Does the picture still tell the truth? Compared with the store every few seconds; drift is counted."""

from itertools import chain

from tgpu.core.picture import Picture
from tgpu.domain.lifecycle import Status
from tgpu.store.port import LiveSummary


def drift(picture: Picture, summary: LiveSummary) -> int:
    """How many facts differ."""
    mine: dict[Status, list[int]] = {}
    for task in chain(picture.waiting.values(), picture.parked):
        _count(mine, task.status, task.task_id.job_id)
    for placed in picture.placed.values():
        _count(mine, placed.task.status, placed.task.task_id.job_id)
    found = 0
    for status in mine.keys() | summary.tasks.keys():
        number, total = mine.get(status, [0, 0])
        stored_number, stored_total = summary.tasks.get(status, (0, 0))
        if (number, total) != (stored_number, stored_total):
            found += max(1, abs(number - stored_number))
    attempts = {(placed.attempt_id, placed.node_id) for placed in picture.placed.values()}
    left_behind = picture.table.holdings.values()
    attempts |= {(each.attempt_id, each.node_id) for each in left_behind if each.state.is_live}
    return found + len(attempts ^ summary.attempts)


def _count(into: dict[Status, list[int]], status: Status, job_id: int) -> None:
    entry = into.setdefault(status, [0, 0])
    entry[0] += 1
    entry[1] += job_id
