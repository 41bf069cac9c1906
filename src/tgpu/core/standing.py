"""Where a task stands: in the line, and with those who are being stopped for it."""

import numpy as np

from tgpu.core.columns.waiting_columns import EVERYBODY, QueueName
from tgpu.core.kernel.shapes import Stream
from tgpu.core.kernel.turns import comes_first
from tgpu.core.outlook import Ground, Outlook, gone_by_ms
from tgpu.core.plan import Preempt
from tgpu.core.quota_room import tenant_at
from tgpu.core.streams import stream_of
from tgpu.core.wording import are, number, ordinal
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Status
from tgpu.domain.priority import TERMS
from tgpu.domain.views import Reason

# Who is being stopped for it


def preempt_for(outlook: Outlook, task_id: TaskId) -> Preempt | None:
    return next((p for p in outlook.preempts if any(claim.task_id == task_id for claim in p.claims)), None)


def claim(outlook: Outlook, task_id: TaskId, preempt: Preempt) -> tuple[Reason, int]:
    """The reason, and when the last of its victims has gone at the latest."""
    picture = outlook.picture
    node_id = next(claim.node_id for claim in preempt.claims if claim.task_id == task_id)
    live = [placed for victim in preempt.victims if (placed := picture.live(victim)) is not None]
    if not live:
        reason = Reason("claim", f"it starts on {node_id} in the next cycle", {"node_id": node_id})
        return reason, picture.now_ms
    first, more = live[0].task, len(live) - 1
    whom = f"job {first.task_id.job_id} of {first.user}"
    text = f"{whom} is being stopped for it; it starts on {node_id} when that has gone"
    if more:
        others = f"{whom} and {more} other {'tasks' if more > 1 else 'task'}"
        text = f"{others} are being stopped for it; it starts on {node_id} when they have gone"
    data: dict[str, object] = {"node_id": node_id, "job_ids": [p.task.task_id.job_id for p in live]}
    return Reason("claim", text, data), max(gone_by_ms(picture, p.task.task_id) for p in live)


def backoff(outlook: Outlook, tasks: list[TaskBrief]) -> tuple[list[Reason], int]:
    """After a preemption, or when the store did not take its start; with the moment from which on it may
    start (0: any). Who failed, or is to begin later, is parked instead."""
    now_ms = outlook.picture.now_ms
    eligible_ms = max(task.eligible_ms for task in tasks)
    if eligible_ms <= now_ms:
        return [], 0
    wait_s = -(-(eligible_ms - now_ms) // 1000)
    preempted = any(task.status is Status.PREEMPTED for task in tasks)
    text = f"was preempted; it may start again in {wait_s} s"
    if not preempted:
        text = f"its quota had no room after all when it was to start; it is tried again in {wait_s} s"
    return [Reason("backoff", text, {"eligible_in_s": wait_s})], eligible_ms


# The line


def line(ground: Ground, task: TaskBrief, position: int, *, holds_reservation: bool) -> list[Reason]:
    """Who is served before it: in its queue, by the turns that tenants take, and in higher classes.

    Those with reservations stand in no queue any more, and wait for nobody's turn.
    """
    name = None if holds_reservation else _queue(ground, task)
    return [*_place(task, position, name), *_share(ground, task, name), *_higher(ground, task)]


def _place(task: TaskBrief, position: int, name: QueueName | None) -> list[Reason]:
    if position <= 1:
        return []
    data: dict[str, object] = {"ahead": position - 1, "class": task.priority_class.value}
    where = f"in class {task.priority_class}"
    if name is not None and name.tenant != EVERYBODY:
        where, data["tenant_id"] = f"of tenant {task.tenant_id} {where}", task.tenant_id
    return [Reason("in-line", f"{ordinal(position)} in line {where}", data)]


def _queue(ground: Ground, task: TaskBrief) -> QueueName | None:
    waiting = ground.paper.table.waiting
    return waiting.queue_of(waiting.slot_of[task.task_id])


def _share(ground: Ground, task: TaskBrief, name: QueueName | None) -> list[Reason]:
    """Its tenant's standing, where tenants take turns by share.

    On the way from the root to the tenant, the first level is told at which a sibling with waiting tasks of
    this class is served before it: its weighted share (`fair-tree`: past use), divided by the mean of all
    siblings there that have such tasks, itself included. 1.4 is 40 % more than an equal part.
    """
    if name is None or name.tenant == EVERYBODY:
        return []
    stream = stream_of(ground.paper, name.rank, name.order)
    if stream is None:
        return []
    for row in _from_the_root(ground, ground.row_of(task)):
        siblings = _siblings(ground, stream, row)
        before = [s for s in siblings if s != row and comes_first(s, row, stream)]
        mean = float(np.mean(stream.value[siblings])) if siblings else 0.0
        if before and mean > 0:
            times = round(float(stream.value[row]) / mean, 2)
            tenant_id, others = tenant_at(ground, row), len(before)
            text = (
                f"tenant {tenant_id} is at {number(times)} times its share; "
                f"{are(others, 'other tenant')} served first"
            )
            return [Reason("share", text, {"tenant_id": tenant_id, "times": times, "before": others})]
    return []


def _from_the_root(ground: Ground, row: int) -> list[int]:
    path = []
    while row > 0:
        path.append(row)
        row = int(ground.paper.tree.parent[row])
    return path[::-1]


def _siblings(ground: Ground, stream: Stream, row: int) -> list[int]:
    parent = int(ground.paper.tree.parent[row])
    first = int(ground.paper.tree.first_child[parent])
    found: list[int] = stream.heap[first : first + int(stream.heap_size[parent])].tolist()
    return found


def _higher(ground: Ground, task: TaskBrief) -> list[Reason]:
    rank = TERMS[task.priority_class].rank
    ahead = int(ground.paper.table.waiting.count[:rank].sum())
    if not ahead:
        return []
    verb = "waits" if ahead == 1 else "wait"
    text = f"{ahead} {'task' if ahead == 1 else 'tasks'} of higher classes {verb} before it"
    return [Reason("higher-class", text, {"ahead": ahead})]
