"""What a tenant's limits count when tasks begin: how many run, and GPU-hours. Which of them is in the way?"""

from collections.abc import Iterator

from tgpu.core.columns.quota_columns import GPU_MS, RUNNING
from tgpu.core.kernel.shapes import NEVER, WHOLE
from tgpu.core.outlook import Ground, head_of, members_of
from tgpu.core.quota_room import hours_before, jobs_of, kept_by_reservations, tenant_at
from tgpu.core.wording import are, clock, names, number
from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.job import TaskBrief
from tgpu.domain.periods import period_until_ms
from tgpu.domain.priority import TERMS, grace_s
from tgpu.domain.quantities import time_in_words
from tgpu.domain.views import Reason

GPU_HOUR = WHOLE * 3600
ROOM = -1
"""Instead of a moment: when there is room in what its quota counts."""
CANNOT = ": it cannot start unless that limit is raised"
_LEAST_LIMIT_S = 60
"""Nobody is told to ask for less time."""

Told = Iterator[tuple[Reason, int | None]]
"""A reason, and from when on it may be none any more."""


def begins(ground: Ground, tasks: list[TaskBrief]) -> Told:
    if ground.may_begin(tasks):
        other = begin_before(ground, tasks)
        if other is not None:
            job_id = other.task_id.job_id
            text = f"job {job_id} of its tenant comes before it, and has to wait for its tenant's limits"
            yield Reason("quota", text, {"job_id": job_id}), None
        return
    tree, row = ground.paper.tree, ground.row_of(tasks[0])
    needs = len(tasks), sum(ground.paper.policy.gpu_ms(task) for task in tasks)
    while row >= 0:
        limits, used = tree.begin_limit[row].tolist(), tree.begun[row].tolist()
        if 0 <= limits[RUNNING] < used[RUNNING] + needs[RUNNING]:
            yield _too_many_run(ground, row, needs[RUNNING])
        if needs[GPU_MS] and 0 <= limits[GPU_MS] < used[GPU_MS] + needs[GPU_MS]:
            yield _too_many_hours(ground, row, tasks, needs[GPU_MS])
        row = int(tree.parent[row])


def begin_before(ground: Ground, tasks: list[TaskBrief]) -> TaskBrief | None:
    """Somebody of its tenant, served before it, who may not begin, and takes not more than this one. Who is
    held is in nobody's way like that, except on the burst."""
    if not ground.paper.table.quotas.limits_begin:
        return None
    waiting, picture = ground.paper.table.waiting, ground.paper.picture
    slot = waiting.slot_of[head_of(picture, tasks[0])]
    gpu_ms = sum(ground.paper.policy.gpu_ms(task) for task in tasks)
    asked: set[tuple[int, int]] = set()
    on_burst = tasks[0].held and ground.may_burst(tasks[0]) and ground.lacks_quota(tasks)
    for other in _served_before(ground, slot):
        if waiting.held[other] and not on_burst:
            continue
        kind = (int(waiting.kind[other]), int(waiting.gpu_ms[other]))
        short = -1 if kind in asked else ground.short_of(members_of(picture, waiting.task(other)))
        if 0 <= short <= gpu_ms:
            return waiting.task(other)
        asked.add(kind)
    return None


def _served_before(ground: Ground, slot: int) -> Iterator[int]:
    """The slots of others of its tenant: in its own queue, in higher classes, and what gangs lack."""
    waiting, gangs = ground.paper.table.waiting, ground.paper.picture.gangs
    own, rank = waiting.queue_of(slot), TERMS[waiting.task(slot).priority_class].rank
    lacking = [waiting.slot_of[min(gang.waiting)] for gang in gangs.damaged()]
    yield from (s for s in lacking if s != slot and waiting.tenant[s] == waiting.tenant[slot])
    for name in sorted(name for name in waiting.queues if name.rank <= rank):
        slots = waiting.queues[name].slots
        if name == own:
            slots = slots[: waiting.queues[name].before(slot)]
        yield from slots[(waiting.tenant[slots] == waiting.tenant[slot]) & (slots != slot)].tolist()


def _too_many_run(ground: Ground, row: int, needs: int) -> tuple[Reason, int | None]:
    tenant_id, most = tenant_at(ground, row), int(ground.paper.tree.begin_limit[row, RUNNING])
    kept = kept_by_reservations(ground, tenant_id)
    kept_for, reserved = jobs_of(kept.tasks), kept.begun(ground, RUNNING)
    used = int(ground.paper.tree.begun[row, RUNNING]) - reserved
    jobs = "job" if most == 1 else "jobs"
    text = f"tenant {tenant_id} may run {most} {jobs} at once, and {used} {are(used)} running"
    text += f", {reserved} {are(reserved)} kept for {job_names(kept_for)}" if reserved else ""
    if needs > most:
        text += f", and it needs {needs}" if needs > 1 else ""
        text += CANNOT
    elif needs > 1:
        text += f"; it needs {needs} more"
    data: dict[str, object] = {"tenant_id": tenant_id, "limit": most, "used": used, "needs": needs}
    data |= {"job_ids": kept_for} if reserved else {}
    return Reason("running-limit", text, data), None if needs > most else ROOM


def _too_many_hours(
    ground: Ground, row: int, tasks: list[TaskBrief], needs: int
) -> tuple[Reason, int | None]:
    tenant_id, now_ms = tenant_at(ground, row), ground.paper.now_ms
    kept = kept_by_reservations(ground, tenant_id)
    kept_for, reserved = jobs_of(kept.tasks), kept.begun(ground, GPU_MS)
    limit = int(ground.paper.tree.begin_limit[row, GPU_MS])
    used = int(ground.paper.tree.begun[row, GPU_MS]) - reserved
    period = ground.paper.picture.tenants[tenant_id].job_limits.period
    until_ms = period_until_ms(period, now_ms)
    hours = [number(amount / GPU_HOUR) for amount in (used, limit, reserved, needs)]
    text = (
        f"tenant {tenant_id} has used or reserved {hours[0]} of its {hours[1]} GPU-hours"
        f"{'' if until_ms is None else f' of this {period}'}"
        f"{f', {hours[2]} {are(reserved / GPU_HOUR)} kept for {job_names(kept_for)}' if reserved else ''}"
        f", and it may take {hours[3]}"
    )
    data: dict[str, object] = {"tenant_id": tenant_id, "limit": limit / GPU_HOUR, "used": used / GPU_HOUR}
    data |= {"needs": needs / GPU_HOUR, "until_ms": until_ms}
    data |= {"job_ids": kept_for} if reserved else {}
    if needs > limit:
        text, until_ms = text + CANNOT, None
    else:
        more, of_spent = _spent(ground, tenant_id, tasks, limit - needs, until_ms)
        text, data = text + more, data | of_spent
    if until_ms is not None:
        text += f"; the next {period} begins {clock(until_ms, now_ms)}"
    shorter_s = hours_left_s(ground, tasks)
    if shorter_s is not None:
        text += f"; with --time {time_in_words(shorter_s)} there would be enough"
        data["time_limit_s"] = shorter_s
    if hours_before(ground, tasks, tenant_id, limit) + needs > limit:
        until_ms = None  # those before it may take the next period's
    return Reason("gpu-hours", text, data), until_ms


def _spent(
    ground: Ground, tenant_id: str, tasks: list[TaskBrief], most: int, until_ms: int | None
) -> tuple[str, dict[str, object]]:
    """What is said if more is spent than leaves enough for them."""
    spent = ground.paper.picture.hours.spent[tenant_id]
    if spent <= most:
        return "", {}
    text = f"; {number(spent / GPU_HOUR)} are spent and do not come back before"
    text += " the limit is raised" if until_ms is None else " that ends"
    return text + (", so others may pass it" if tasks[0].held else ""), {"spent": spent / GPU_HOUR}


def job_names(job_ids: list[int]) -> str:
    return f"{'job' if len(job_ids) == 1 else 'jobs'} {names([str(job_id) for job_id in job_ids])}"


def hours_left_s(ground: Ground, tasks: list[TaskBrief]) -> int | None:
    """A time limit with which they would stay within the GPU-hours that are left, if they do not already."""
    tree, row, left = ground.paper.tree, ground.row_of(tasks[0]), NEVER
    needs = sum(ground.paper.policy.gpu_ms(task) for task in tasks)
    while needs and row >= 0:
        if tree.begin_limit[row, GPU_MS] >= 0:
            left = min(left, int(tree.begin_limit[row, GPU_MS] - tree.begun[row, GPU_MS]))
        row = int(tree.parent[row])
    limit_s = _time_left_s(tasks, left) if needs > left else 0
    return limit_s if limit_s >= _LEAST_LIMIT_S else None


def _time_left_s(tasks: list[TaskBrief], gpu_ms: int) -> int:
    """The longest time limit, in whole minutes, with which all of these stay within so many GPU-hours."""
    milli = sum(charged_gpu_milli(task.request) for task in tasks)
    grace = max(grace_s(task.priority_class, task.grace_s) for task in tasks)
    left_s = gpu_ms // milli - grace
    return left_s - left_s % _LEAST_LIMIT_S
