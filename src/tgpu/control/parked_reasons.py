"""Why a job that is parked does not start, in words for people; and until when whoever waits may wait."""

from collections.abc import Mapping
from dataclasses import replace

from tgpu.control.deadlines import Due
from tgpu.control.series_book import Entry
from tgpu.core.parked import rests_until
from tgpu.core.wording import exact_clock
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Cause
from tgpu.domain.needs import NeedKind
from tgpu.domain.timing import Timing
from tgpu.domain.views import Reason, Why

_MOST_NAMED = 10
_HAS_TO = {
    NeedKind.OK: "complete",
    NeedKind.NOT_OK: "fail or be cancelled",
    NeedKind.ANY: "be over",
    NeedKind.CORR: "complete index by index",
}


def why_parked(task: TaskBrief, needs: Mapping[int, NeedKind], now_ms: int) -> Why:
    """`needs`: the jobs that it still waits for, and how these have to end."""
    job_id, timing = task.task_id.job_id, task.timing or Timing()
    reasons: list[Reason] = []
    if timing.held_by is not None:
        text = f"is held by {timing.held_by}; `tgpu release {job_id}` lets it start"
        reasons.append(Reason("held", text, {"by": timing.held_by}))
    if timing.suspended_by is not None:
        text = f"is suspended by {timing.suspended_by}; `tgpu resume {job_id}` lets it go on"
        reasons.append(Reason("suspended", text, {"by": timing.suspended_by}))
    if timing.unmet:
        reasons.append(_needs(task, needs))
    reasons += _moment(task, now_ms)
    # Its moment came since the last turn.
    summary = f"waits: {reasons[0].text}" if reasons else "waits: it starts in the next cycle"
    return Why(job_id, True, summary, tuple(reasons))


def with_its_end(why: Why, due: Due | None, now_ms: int) -> Why:
    """The same, and what becomes of it if it goes on waiting until then."""
    if due is None:
        return why
    at, job_id = exact_clock(due.at_ms, now_ms), why.job_id
    data: dict[str, object] = {"in_s": max(0, -(-(due.at_ms - now_ms) // 1000))}
    if due.cause is Cause.DEADLINE:
        text = f"fails unless it starts by {at}, for its deadline; `tgpu edit {job_id} --deadline …` moves it"
        return replace(why, reasons=(*why.reasons, Reason("deadline", text, data)))
    text = f"fails unless it is placed by {at}; `tgpu edit {job_id} --max-wait …` gives it longer"
    return replace(why, reasons=(*why.reasons, Reason("max-wait", text, data)))


def with_the_rest(why: Why, entry: Entry) -> Why:
    """Of a series of which all that may run do: what becomes of the tasks that have not begun."""
    series, count = entry.job.spec.series, entry.to_come
    if series is None or not count:
        return why
    job_id, timing = entry.job.job_id, entry.job.timing or Timing()
    text = f"{count} of its {entry.job.spec.task_count} tasks have not begun"
    if timing.held_by is not None:
        text += f", for it is held by {timing.held_by}; `tgpu release {job_id}` lets them start"
    elif timing.suspended_by is not None:
        text += f", for it is suspended by {timing.suspended_by}; `tgpu resume {job_id}` lets them start"
    elif series.at_once is not None and len(entry.live) >= series.at_once:
        text += f", for at most {series.at_once} run at once"
    elif entry.hungry_ms is not None:
        text += f", for the quota of {entry.job.spec.tenant_id} has no room for more"
    rest = Reason("to-come", text, {"tasks": count})
    return replace(why, summary=f"{why.summary}; {text}", reasons=(*why.reasons, rest))


def _needs(task: TaskBrief, needs: Mapping[int, NeedKind]) -> Reason:
    if not needs:
        return Reason("needs", f"waits until no older job of {task.user} is live that is called {task.name}")
    parts = [_of_kind(kind, [on for on in sorted(needs) if needs[on] is kind]) for kind in _HAS_TO]
    text = f"needs {' and '.join(filter(None, parts))} first; `tgpu graph {task.task_id.job_id}` draws it"
    return Reason("needs", text, {"job_ids": sorted(needs)})


def _of_kind(kind: NeedKind, jobs: list[int]) -> str:
    if not jobs:
        return ""
    named = ", ".join(map(str, jobs[:_MOST_NAMED]))
    more = f" and {len(jobs) - _MOST_NAMED} more" if len(jobs) > _MOST_NAMED else ""
    return f"{'job' if len(jobs) == 1 else 'jobs'} {named}{more} to {_HAS_TO[kind]}"


def _moment(task: TaskBrief, now_ms: int) -> list[Reason]:
    """As it was asked for, or because its last attempt failed."""
    until_ms = rests_until(task)
    if until_ms <= now_ms:
        return []
    job_id, wait_s = task.task_id.job_id, -(-(until_ms - now_ms) // 1000)
    if task.timing is not None and task.timing.begin_ms == until_ms:
        at = exact_clock(until_ms, now_ms)
        text = f"is not to start before {at}; `tgpu edit {job_id} --without begin` lets it start now"
        return [Reason("begin", text, {"eligible_in_s": wait_s})]
    text = f"its last attempt failed; it is tried again in {wait_s} s"
    return [Reason("backoff", text, {"eligible_in_s": wait_s})]
