"""Which quota a task waits for: the numbers, who has what it lacks, and when there is room if known."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tgpu.core.columns.attempt_columns import estimated_ends
from tgpu.core.columns.quota_columns import GPU_MS, RUNNING
from tgpu.core.estimate import UNKNOWN, Estimate
from tgpu.core.kernel.shapes import NEVER, WHOLE, Ints
from tgpu.core.outlook import Ground, head_of, members_of
from tgpu.core.picture import Placed
from tgpu.core.wording import are, bare_amount, clock, number
from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.job import TaskBrief
from tgpu.domain.periods import period_until_ms
from tgpu.domain.priority import TERMS, grace_s
from tgpu.domain.quantities import time_in_words
from tgpu.domain.quota import BASIC, BURST_PART, GENERIC, GPU_MODEL
from tgpu.domain.tenant import is_within
from tgpu.domain.views import Reason

GPU_HOUR = WHOLE * 3600
_UNITS = {
    "cpu_milli": ("CPUs", WHOLE),
    "gpu_milli": ("GPUs", WHOLE),
    "memory_mib": ("memory", 1),
    "disk_mib": ("disk", 1),
}
_MOST_HOLDERS = 3
_LEAST_LIMIT_S = 60
"""Nobody is told to ask for less time."""


def quota(ground: Ground, tasks: list[TaskBrief]) -> tuple[list[Reason], Estimate]:
    """What of its tenant's limits keeps it from starting, and until when at the latest, if that is known."""
    reasons, moments = [], []
    for reason, at_ms in (*_begins(ground, tasks), *_held(ground, tasks)):
        reasons.append(reason)
        moments.append(at_ms)
    known = [at_ms for at_ms in moments if at_ms is not None]
    if not known or len(known) < len(moments):
        return reasons, UNKNOWN
    at_ms = max(known)
    last, at = reasons[moments.index(at_ms)], clock(at_ms, ground.paper.now_ms)
    if last.code == "gpu-hours" and "spent" in last.data:
        return reasons, (at_ms, f"when the next period of GPU-hours begins: {at}")
    if last.code == "gpu-hours":
        return reasons, (at_ms, f"when others give hours back, at the latest when the period ends: {at}")
    return reasons, (at_ms, f"its quota has room at the latest ≈ {at}, if what runs takes all its time")


_Told = Iterator[tuple[Reason, int | None]]
"""A reason, and from when on it may be none any more."""


# What counts when tasks begin


def _begins(ground: Ground, tasks: list[TaskBrief]) -> _Told:
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
    used = int(ground.paper.tree.begun[row, RUNNING])
    jobs = "job" if most == 1 else "jobs"
    text = f"tenant {tenant_id} may run {most} {jobs} at once, and {used} {are(used)} running"
    if needs > 1:
        text += f"; it needs {needs} more"
    data = {"tenant_id": tenant_id, "limit": most, "used": used, "needs": needs}
    ends = _ends(ground, tenant_id)
    missing = used + needs - most
    at_ms = ends[missing - 1][0] if missing <= len(ends) else None
    return Reason("running-limit", text, data), at_ms


def _too_many_hours(
    ground: Ground, row: int, tasks: list[TaskBrief], needs: int
) -> tuple[Reason, int | None]:
    tenant_id, now_ms = tenant_at(ground, row), ground.paper.now_ms
    limit, used = (
        int(column[row, GPU_MS]) for column in (ground.paper.tree.begin_limit, ground.paper.tree.begun)
    )
    period = ground.paper.picture.tenants[tenant_id].job_limits.period
    until_ms = period_until_ms(period, now_ms)
    hours = [number(amount / GPU_HOUR) for amount in (used, limit, needs)]
    text = (
        f"tenant {tenant_id} has used or reserved {hours[0]} of its {hours[1]} GPU-hours"
        f"{'' if until_ms is None else f' of this {period}'}, and it may take {hours[2]}"
    )
    data: dict[str, object] = {"tenant_id": tenant_id, "limit": limit / GPU_HOUR, "used": used / GPU_HOUR}
    data |= {"needs": needs / GPU_HOUR, "until_ms": until_ms}
    spent = ground.paper.picture.hours.spent[tenant_id]
    if spent + needs > limit:
        text += f"; {number(spent / GPU_HOUR)} are spent and do not come back before"
        text += " the limit is raised" if until_ms is None else " that ends"
        text += ", so others may pass it" if tasks[0].held else ""
        data["spent"] = spent / GPU_HOUR
    if until_ms is not None:
        text += f"; the next {period} begins {clock(until_ms, now_ms)}"
    shorter_s = hours_left_s(ground, tasks)
    if shorter_s is not None:
        text += f"; with --time {time_in_words(shorter_s)} there would be enough"
        data["time_limit_s"] = shorter_s
    return Reason("gpu-hours", text, data), until_ms


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


# Who was held at submission


def _held(ground: Ground, tasks: list[TaskBrief]) -> _Told:
    """A limit on the way to the root, or somebody who waits for one before it."""
    if not tasks[0].held:
        return
    if ground.is_admitted(tasks):
        other = burst_before(ground, tasks)
        if other is not None:
            job_id = other.task_id.job_id
            text = (
                f"held: job {job_id} comes before it, and neither quota nor burst has room for that one yet"
            )
            yield Reason("quota", text, {"job_id": job_id}), None
        return
    total = ground.asked(tasks)
    where = _where(ground, tasks[0], total)
    if where is not None:
        yield _limit(ground, tasks, *where)
    elif ground.first_in_line is not None:
        yield _kept(ground, tasks, ground.first_in_line), None


def burst_before(ground: Ground, tasks: list[TaskBrief]) -> TaskBrief | None:
    """Of one who may only have the burst: the first before it in its queue for whom the burst has no room."""
    if not ground.may_burst(tasks[0]) or not ground.lacks_quota(tasks):
        return None
    waiting, picture = ground.paper.table.waiting, ground.paper.picture
    slot = waiting.slot_of[head_of(picture, tasks[0])]
    name = waiting.queue_of(slot)
    if name is None:
        return None
    slots = waiting.queues[name].slots[: waiting.queues[name].before(slot)]
    slots = slots[waiting.held[slots]]
    asked: set[tuple[int, int]] = set()
    for other in slots.tolist():
        kind, task = (int(waiting.kind[other]), int(waiting.tenant[other])), waiting.task(other)
        if kind not in asked and ground.may_burst(task) and not ground.fits_burst(members_of(picture, task)):
            return task
        asked.add(kind)
    return None


def _kept(ground: Ground, tasks: list[TaskBrief], first: TaskBrief) -> Reason:
    """There would be room, if nobody else waited for some of it."""
    total, kept = ground.asked(tasks), ground.asked(members_of(ground.paper.picture, first))
    job_id, where = first.task_id.job_id, _where(ground, tasks[0], total, kept)
    data: dict[str, object] = {"job_id": job_id}
    if where is None:  # tasks that run, or GPU-hours
        text = f"held: job {job_id} comes before it, and waits for a limit that both of them need"
        return Reason("quota", text, data)
    row, column = where
    name, exact, said = _numbers(ground, row, column, total)
    kept_for = int(kept[column])
    label, unit = _label(name)
    text = (
        f"held by the quota of tenant {tenant_at(ground, row)}: {_admitted(name, exact, said)}, job {job_id} "
        f"comes before it and needs {_in_words(column, unit, kept_for)}, and it needs {said[3]}"
    )
    most, used, _, needs = (amount / unit for amount in exact)
    data |= {"tenant_id": tenant_at(ground, row), "resource": label, "limit": most, "used": used}
    return Reason("quota", text, data | {"kept": kept_for / unit, "needs": needs})


def _numbers(ground: Ground, row: int, column: int, total: Ints) -> tuple[str, list[int], list[str]]:
    """Of what; limit, admitted, on the burst and needed, exactly and in words."""
    tree = ground.paper.tree
    name = (*BASIC, *ground.paper.table.quotas.names)[column]
    exact = [
        int(amounts[column]) for amounts in (tree.limit[row], tree.admitted[row], tree.burst[row], total)
    ]
    return name, exact, [_in_words(column, _label(name)[1], amount) for amount in exact]


def _in_words(column: int, unit: int, amount: int) -> str:
    return bare_amount(column, amount) if unit == 1 else number(amount / unit)


def _limit(ground: Ground, tasks: list[TaskBrief], row: int, column: int) -> tuple[Reason, int | None]:
    name, exact, said = _numbers(ground, row, column, ground.asked(tasks))
    label, unit = _label(name)
    tenant_id = tenant_at(ground, row)
    on_burst = f", {said[2]} more {'runs' if exact[2] == unit else 'run'} on the burst" if exact[2] else ""
    too_much = "" if exact[3] <= exact[0] else ": it cannot start unless that limit is raised"
    text = (
        f"held by the quota of tenant {tenant_id}: {_admitted(name, exact, said)}{on_burst}, and it needs "
        f"{said[3]}{too_much}"
    )
    most, used, _, needs = (amount / unit for amount in exact)
    data: dict[str, object] = {
        "tenant_id": tenant_id,
        "resource": label,
        "limit": most,
        "used": used,
        "needs": needs,
    }
    ends = _ends(ground, tenant_id, column)
    charged = [end for end in ends if not end[2].task.burst]
    holders = _largest(charged)
    if holders:
        first, amount = holders[0]
        has = _in_words(column, unit, amount)
        text += f"; job {first.task.task_id.job_id} of {first.task.user} has {has}"
        data["job_ids"] = [placed.task.task_id.job_id for placed, _ in holders]
    freed = [_freed_ms(charged, exact[1] + exact[3] - exact[0])]
    if ground.may_burst(tasks[0]):
        bursting = [end for end in ends if end[2].task.burst]
        freed.append(_freed_ms(bursting, exact[2] + exact[3] - exact[0] // BURST_PART))
    return Reason("quota", text, data), min((at_ms for at_ms in freed if at_ms is not None), default=None)


def _admitted(name: str, exact: list[int], said: list[str]) -> str:
    """`3 of 4 GPUs are admitted`; of a limit that was lowered, `3 GPUs are admitted, its limit is 1`."""
    label, unit = _label(name)
    limit, used = exact[:2]
    above = used > limit
    if name in ("memory_mib", "disk_mib"):
        of, verb = f"of {label}", "is"
    else:
        one = (used if above else limit) == unit and (name in _UNITS or name.startswith(GPU_MODEL))
        of, verb = label.removesuffix("s") if one else label, are(used / unit)
    if above:
        return f"{said[1]} {of} {verb} admitted, its limit is {said[0]}"
    return f"{said[1]} of {said[0]} {of} {verb} admitted"


def _where(ground: Ground, task: TaskBrief, total: Ints, kept: Ints | int = 0) -> tuple[int, int] | None:
    """The first level from the task up, and what there, that has no room, beside so much that may be kept."""
    tree, row = ground.paper.tree, ground.row_of(task)
    own = ground.paper.refused.promised[ground.paper.table.tenants.number(task.tenant_id)]
    while row >= 0:
        here = np.minimum(kept, np.maximum(own, tree.promised[row])[: len(total)])
        over = (tree.limit[row] >= 0) & (total > 0) & (tree.admitted[row] + here + total > tree.limit[row])
        if over.any():
            return row, int(np.argmax(over))
        row = int(tree.parent[row])
    return None


def limits_models(ground: Ground, task: TaskBrief) -> bool:
    """Whether a tenant from the task's up limits some model of GPU, which is then given only by name."""
    tree, row = ground.paper.tree, ground.row_of(task)
    names = (*BASIC, *ground.paper.table.quotas.names)
    models = [column for column, name in enumerate(names) if name.startswith(GPU_MODEL)]
    while row >= 0 and models:
        if (tree.limit[row, models] >= 0).any():
            return True
        row = int(tree.parent[row])
    return False


def _label(name: str) -> tuple[str, int]:
    if name.startswith(GPU_MODEL):
        return f"{name.removeprefix(GPU_MODEL)} GPUs", WHOLE
    return _UNITS[name] if name in _UNITS else (name.removeprefix(GENERIC), 1)


# Who has it, and until when


_End = tuple[int, int, Placed]
"""When an attempt has ended by its limit, what it is charged for, and which it is."""


def _ends(ground: Ground, tenant_id: str, column: int | None = None) -> list[_End]:
    """Of the tenant and everybody below, those who end first, first; only who has something of the column."""
    picture, columns = ground.paper.picture, ground.paper.table.attempts
    here = [p for p in picture.placed.values() if is_within(p.task.tenant_id, tenant_id)]
    slots = np.array([ground.paper.table.slot_of(p.task.task_id) for p in here], dtype=np.int64)
    if not len(slots):
        return []
    ends = estimated_ends(
        columns.start_ms[slots], columns.limit_ms[slots], columns.stop_ms[slots], ground.paper.now_ms
    )
    need = ground.paper.kinds.quota[columns.kind[slots]]
    amounts = np.ones(len(slots), dtype=np.int64) if column is None else need[:, column]
    found = zip(ends.tolist(), amounts.tolist(), here, strict=True)
    return sorted((each for each in found if each[1]), key=lambda each: (each[0], each[2].attempt_id))


def _freed_ms(ends: list[_End], missing: int) -> int | None:
    """When so much has been given back; None if nobody knows: some of it is charged for tasks that wait."""
    for at_ms, amount, _ in ends:
        missing -= amount
        if missing <= 0:
            return at_ms
    return None


def _largest(ends: list[_End]) -> list[tuple[Placed, int]]:
    """The jobs with most of it, with how much: one attempt stands for each."""
    by_job: Counter[int] = Counter()
    first: dict[int, Placed] = {}
    for _, amount, placed in ends:
        by_job[placed.task.task_id.job_id] += amount
        first.setdefault(placed.task.task_id.job_id, placed)
    ranked = sorted(by_job, key=lambda job_id: (-by_job[job_id], job_id))
    return [(first[job_id], by_job[job_id]) for job_id in ranked[:_MOST_HOLDERS]]


def tenant_at(ground: Ground, row: int) -> str:
    """Whose row it is; of a row for somebody's own tasks, the name of that one."""
    names = {of_row: name for name, of_row in ground.paper.table.tenants.top_row.items()}
    return names[row] if row in names else names[int(ground.paper.tree.parent[row])]
