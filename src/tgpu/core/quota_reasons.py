"""Which quota a task waits for: the numbers, who has what it lacks, and when there is room if known."""

from collections import Counter

import numpy as np

from tgpu.core.begin_reasons import CANNOT, GPU_HOUR, ROOM, Told, begins, job_names
from tgpu.core.columns.quota_columns import GPU_MS, RUNNING
from tgpu.core.estimate import UNKNOWN, Estimate
from tgpu.core.kernel.shapes import WHOLE, Ints
from tgpu.core.outlook import Ground, head_of, members_of
from tgpu.core.picture import Placed
from tgpu.core.quota_room import End, Room, ends_of, jobs_of, kept_by_reservations, room_for, tenant_at
from tgpu.core.wording import are, bare_amount, clock, number
from tgpu.domain.job import TaskBrief
from tgpu.domain.quota import BASIC, GENERIC, GPU_MODEL
from tgpu.domain.views import Reason

_UNITS = {
    "cpu_milli": ("CPUs", WHOLE),
    "gpu_milli": ("GPUs", WHOLE),
    "memory_mib": ("memory", 1),
    "disk_mib": ("disk", 1),
}
_MOST_HOLDERS = 3


def quota(ground: Ground, tasks: list[TaskBrief]) -> tuple[list[Reason], Estimate]:
    """What of its tenant's limits keeps it from starting, what lasts longest first; and until when, if that
    is known."""
    told = sorted((*begins(ground, tasks), *_held(ground, tasks)), key=lambda each: not lasts(each[0]))
    reasons, room = [reason for reason, _ in told], Room(None)
    if any(at_ms == ROOM for _, at_ms in told):
        room = room_for(ground, tasks)
    moments = [room.at_ms if at_ms == ROOM else at_ms for _, at_ms in told]
    known = [at_ms for at_ms in moments if at_ms is not None]
    if len(known) < len(moments) or max(known, default=0) <= ground.paper.now_ms:
        return reasons, UNKNOWN
    at_ms = max(known)
    last, at = reasons[moments.index(at_ms)], clock(at_ms, ground.paper.now_ms)
    if last.code == "gpu-hours" and "spent" in last.data:
        return reasons, (at_ms, f"when the next period of GPU-hours begins: {at}")
    if last.code == "gpu-hours":
        return reasons, (at_ms, f"when others give hours back, at the latest when the period ends: {at}")
    if room.before:
        others = "the task before it" if room.before == 1 else f"the {room.before} tasks before it"
        return reasons, (at_ms, f"its quota has room ≈ {at}, if what runs and {others} take all their time")
    return reasons, (at_ms, f"its quota has room at the latest ≈ {at}, if what runs takes all its time")


def lasts(reason: Reason) -> bool:
    """Whether no end of others would make it none: the hours are spent, or it alone is above the limit."""
    needs, limit = reason.data.get("needs"), reason.data.get("limit")
    above = isinstance(needs, int | float) and isinstance(limit, int | float) and needs > limit
    return above or "spent" in reason.data


# Who was held at submission


def _held(ground: Ground, tasks: list[TaskBrief]) -> Told:
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
        yield _kept(ground, tasks, ground.first_in_line), ROOM


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
    others = members_of(ground.paper.picture, first)
    total, kept = ground.asked(tasks), ground.asked(others)
    job_id, where = first.task_id.job_id, _where(ground, tasks[0], total, kept)
    if where is None:
        return _kept_to_begin(ground, tasks, others)
    row, column = where
    tenant_id = tenant_at(ground, row)
    name, exact, said = _numbers(ground, row, column, total)
    label, unit = _label(name)
    beside, job_ids = _reserved(ground, tenant_id, column, unit)
    text = (
        f"held by the quota of tenant {tenant_id}: {_admitted(name, exact, said)}{beside}, job {job_id} "
        f"comes before it and needs {_in_words(column, unit, int(kept[column]))}, and it needs {said[3]}"
    )
    most, used, _, needs = (amount / unit for amount in exact)
    data: dict[str, object] = {"job_id": job_id, "tenant_id": tenant_id, "resource": label, "limit": most}
    data |= {"used": used, "kept": int(kept[column]) / unit, "needs": needs}
    return Reason("quota", text, data | ({"job_ids": job_ids} if job_ids else {}))


def _kept_to_begin(ground: Ground, tasks: list[TaskBrief], others: list[TaskBrief]) -> Reason:
    """Of tasks that run, or of GPU-hours."""
    tree, row, policy = ground.paper.tree, ground.row_of(tasks[0]), ground.paper.policy
    kept, asks = ((len(each), sum(map(policy.gpu_ms, each))) for each in (others, tasks))
    job_id = others[0].task_id.job_id
    data: dict[str, object] = {"job_id": job_id}
    while row >= 0:
        for column in (RUNNING, GPU_MS):
            limit, used = int(tree.begin_limit[row, column]), int(tree.begun[row, column])
            if 0 <= limit < used + kept[column] + asks[column] and asks[column]:
                unit, resource = (1, "running tasks") if column == RUNNING else (GPU_HOUR, "GPU-hours")
                most, has, needs, wants = (n / unit for n in (limit, used, kept[column], asks[column]))
                text = (
                    f"held by the limit of tenant {tenant_at(ground, row)} on {resource}: {number(has)} of "
                    f"{number(most)} {are(has)} taken, job {job_id} comes before it and needs "
                    f"{number(needs)}, and it needs {number(wants)}"
                )
                data |= {"tenant_id": tenant_at(ground, row), "resource": resource, "limit": most}
                return Reason("quota", text, data | {"used": has, "kept": needs, "needs": wants})
        row = int(tree.parent[row])
    return Reason("quota", f"held: job {job_id} comes before it, and waits for its tenant's limits", data)


def _numbers(ground: Ground, row: int, column: int, total: Ints) -> tuple[str, list[int], list[str]]:
    """Of what; limit, admitted, on the burst and needed, exactly and in words."""
    tree = ground.paper.tree
    name = (*BASIC, *ground.paper.table.quotas.names)[column]
    exact = [
        int(amounts[column]) for amounts in (tree.limit[row], tree.admitted[row], tree.burst[row], total)
    ]
    exact[1] -= int(kept_by_reservations(ground, tenant_at(ground, row)).amounts[column])
    return name, exact, [_in_words(column, _label(name)[1], amount) for amount in exact]


def _in_words(column: int, unit: int, amount: int) -> str:
    return bare_amount(column, amount) if unit == 1 else number(amount / unit)


def _limit(ground: Ground, tasks: list[TaskBrief], row: int, column: int) -> tuple[Reason, int | None]:
    name, exact, said = _numbers(ground, row, column, ground.asked(tasks))
    label, unit = _label(name)
    tenant_id = tenant_at(ground, row)
    on_burst = f", {said[2]} more {'runs' if exact[2] == unit else 'run'} on the burst" if exact[2] else ""
    beside, kept_for = _reserved(ground, tenant_id, column, unit)
    most, used, _, needs = (amount / unit for amount in exact)
    data: dict[str, object] = {
        "tenant_id": tenant_id,
        "resource": label,
        "limit": most,
        "used": used,
        "needs": needs,
    }
    text = (
        f"held by the quota of tenant {tenant_id}: {_admitted(name, exact, said)}{on_burst}{beside}, "
        f"and it needs {said[3]}{CANNOT if needs > most else ''}"
    )
    charged = [end for end in ends_of(ground, tenant_id, column) if not end[2].task.burst]
    holders = _largest(charged)
    if holders:
        first, amount = holders[0]
        has = _in_words(column, unit, amount)
        text += f"; job {first.task.task_id.job_id} of {first.task.user} has {has}"
    job_ids = [placed.task.task_id.job_id for placed, _ in holders] + kept_for
    data |= {"job_ids": job_ids} if job_ids else {}
    return Reason("quota", text, data), None if needs > most else ROOM


def _reserved(ground: Ground, tenant_id: str, column: int, unit: int) -> tuple[str, list[int]]:
    """How much is kept, and for which jobs: who has a reservation waits for machines, not for its quota."""
    kept = kept_by_reservations(ground, tenant_id)
    amount = int(kept.amounts[column])
    if not amount:
        return "", []
    kept_for = jobs_of(task for task in kept.tasks if task.held and ground.asked([task])[column])
    verb, whom = are(amount / unit), job_names(kept_for)
    return f", {_in_words(column, unit, amount)} {verb} kept for {whom}", kept_for


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
    """The first level from the task up, and what there, that has no room, beside so much that may be kept;
    before all others, one that would have none if it were empty."""
    tree, row, found = ground.paper.tree, ground.row_of(task), None
    own = ground.paper.refused.promised[ground.paper.table.tenants.number(task.tenant_id)]
    while row >= 0:
        here = np.minimum(kept, np.maximum(own, tree.promised[row])[: len(total)])
        limited = (tree.limit[row] >= 0) & (total > 0)
        over = limited & (tree.admitted[row] + here + total > tree.limit[row])
        above = limited & (total > tree.limit[row])
        if above.any():
            return row, int(np.argmax(above))
        if over.any() and found is None:
            found = row, int(np.argmax(over))
        row = int(tree.parent[row])
    return found


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


def _largest(ends: list[End]) -> list[tuple[Placed, int]]:
    """The jobs with most of it, with how much: one attempt stands for each."""
    by_job: Counter[int] = Counter()
    first: dict[int, Placed] = {}
    for _, amount, placed in ends:
        by_job[placed.task.task_id.job_id] += amount
        first.setdefault(placed.task.task_id.job_id, placed)
    ranked = sorted(by_job, key=lambda job_id: (-by_job[job_id], job_id))
    return [(first[job_id], by_job[job_id]) for job_id in ranked[:_MOST_HOLDERS]]
