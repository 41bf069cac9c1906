"""Why a job that is parked does not start, in words for people."""

from collections.abc import Sequence

from tgpu.core.wording import clock
from tgpu.domain.job import TaskBrief
from tgpu.domain.views import Reason, Why

_MOST_NAMED = 10


def why_parked(task: TaskBrief, needs: Sequence[int], now_ms: int) -> Why:
    """`needs`: the jobs that it still waits for."""
    assert task.timing is not None, "nobody is parked without a reason"
    job_id, timing = task.task_id.job_id, task.timing
    reasons: list[Reason] = []
    if timing.held_by is not None:
        text = f"is held by {timing.held_by}; `tgpu release {job_id}` lets it start"
        reasons.append(Reason("held", text, {"by": timing.held_by}))
    if timing.suspended_by is not None:
        text = f"is suspended by {timing.suspended_by}; `tgpu resume {job_id}` lets it go on"
        reasons.append(Reason("suspended", text, {"by": timing.suspended_by}))
    if timing.unmet:
        reasons.append(_needs(task, needs))
    if timing.begin_ms is not None and timing.begin_ms > now_ms:
        text = f"is not to start before {clock(timing.begin_ms, now_ms)}"
        reasons.append(Reason("begin", text, {"eligible_in_s": -(-(timing.begin_ms - now_ms) // 1000)}))
    return Why(job_id, True, f"waits: {reasons[0].text}", tuple(reasons))


def _needs(task: TaskBrief, needs: Sequence[int]) -> Reason:
    if not needs:
        return Reason("needs", f"waits until no older job of {task.user} is live that is called {task.name}")
    named = ", ".join(map(str, needs[:_MOST_NAMED]))
    more = f" and {len(needs) - _MOST_NAMED} more" if len(needs) > _MOST_NAMED else ""
    text = f"needs job {named} to end first" if len(needs) == 1 else f"needs jobs {named}{more} to end first"
    return Reason("needs", text, {"job_ids": list(needs)})
