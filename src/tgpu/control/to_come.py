"""Tasks of series that have no rows yet: no queue has them, and they wait all the same."""

from tgpu.control.series_book import Entry, SeriesBook
from tgpu.core.queues import Key, ToCome
from tgpu.domain.views import Reason


def to_come(book: SeriesBook) -> dict[Key, ToCome]:
    """By tenant and class, but for those that somebody holds back; the first job is the oldest."""
    found: dict[Key, ToCome] = {}
    for entry in sorted(book, key=lambda each: each.job.job_id):
        timing = entry.job.timing
        if entry.end is not None or (timing is not None and timing.is_parked) or not (tasks := entry.to_come):
            continue
        key = entry.job.spec.tenant_id, entry.job.spec.priority_class
        if key in found:
            found[key] = found[key]._replace(tasks=found[key].tasks + tasks)
        else:
            found[key] = ToCome(tasks, entry.job.job_id, _reason(entry))
    return found


def _reason(entry: Entry) -> Reason:
    series = entry.job.spec.series
    most = None if series is None else series.at_once
    if most is not None and len(entry.live) >= most:
        return Reason("at-once", f"at most {most} of its tasks are live at once")
    return Reason("quota", "its quota has no room for more of its tasks until others leave")
