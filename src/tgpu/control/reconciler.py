"""Does the picture still tell the truth? Compared with the store every few seconds; drift is counted."""

from collections.abc import Collection
from itertools import chain

from tgpu.core.picture import Picture
from tgpu.domain.lifecycle import Status
from tgpu.store.port import LiveSummary


def drift(picture: Picture, summary: LiveSummary, aside: Collection[int] = ()) -> int:
    """How many facts differ. `aside`: jobs that the picture leaves out; with them sums tell nothing."""
    return (0 if aside else _tasks_that_differ(picture, summary)) + _attempts_that_differ(
        picture, summary, aside
    )


def _tasks_that_differ(picture: Picture, summary: LiveSummary) -> int:
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
    return found


def _attempts_that_differ(picture: Picture, summary: LiveSummary, aside: Collection[int]) -> int:
    attempts = {(placed.attempt_id, placed.node_id) for placed in picture.placed.values()}
    left_behind = picture.table.holdings.values()
    attempts |= {(each.attempt_id, each.node_id) for each in left_behind if each.state.is_live}
    return sum(attempt_id.job_id not in aside for attempt_id, _ in attempts ^ summary.attempts)


def _count(into: dict[Status, list[int]], status: Status, job_id: int) -> None:
    entry = into.setdefault(status, [0, 0])
    entry[0] += 1
    entry[1] += job_id
