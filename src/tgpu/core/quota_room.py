"""When a quota has room for one who waits: what runs ends by its limits, and those before it come first."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from tgpu.core.columns.attempt_columns import estimated_ends
from tgpu.core.columns.quota_columns import RUNNING
from tgpu.core.kernel.shapes import Flags, Ints, Small
from tgpu.core.outlook import Ground, head_of, members_of
from tgpu.core.picture import Placed
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import TERMS
from tgpu.domain.quota import BURST_PART
from tgpu.domain.tenant import is_within

_MOST_BEFORE = 200
"""Nobody behind more than these is told a moment: each of them would have to be counted."""


class Room(NamedTuple):
    at_ms: int | None
    """None: nobody knows."""
    before: int = 0
    """How many who wait are counted as served before."""


class _Limit(NamedTuple):
    """One on the way to the root."""

    tenant_id: str
    column: int | None
    """None: tasks that run."""
    most: int
    used: int
    on_burst: int
    needs: int


class _Before(NamedTuple):
    surely: list[int]
    """slots, in the order in which they are served"""
    perhaps: list[int]
    """whose turn may come before"""


class _Ledger:
    """What a limit has left, as time goes on: whoever asks for some of it is served in turn."""

    def __init__(self, limit: _Limit, ends: list[tuple[int, int]], now_ms: int) -> None:
        """`ends`: (when, how much) is given back."""
        self.limit = limit
        self._free, self._at_ms, self._ends = limit.most - limit.used, now_ms, ends
        heapify(ends)

    def room_ms(self, amount: int) -> int | None:
        """From when on there is so much; None if nobody knows: some of it is charged for tasks that wait."""
        while self._free < amount:
            if not self._ends:
                return None
            end_ms, given_back = heappop(self._ends)
            self._at_ms, self._free = max(self._at_ms, end_ms), self._free + given_back
        return self._at_ms

    def take(self, amount: int, from_ms: int, until_ms: int) -> None:
        self._free, self._at_ms = self._free - amount, from_ms
        heappush(self._ends, (until_ms, amount))


def room_for(ground: Ground, tasks: list[TaskBrief]) -> Room:
    """When all limits of its tenants have room for it, except those on GPU-hours: if what runs takes all its
    time, everybody before it starts once the same limits let it, and takes all its time, too."""
    now_ms = ground.paper.now_ms
    limits = list(_limits(ground, tasks))
    ledgers = [_Ledger(limit, _given_back(ground, limit), now_ms) for limit in limits]
    before = served_before(ground, tasks, limits[-1].tenant_id) if limits else None
    if before is None or any(_may_be_passed(ground, limit, before.perhaps) for limit in limits):
        return Room(None)
    counted = _let_pass(ground, ledgers, before.surely)
    if counted is None:
        return Room(None)
    needed = [ledger for ledger in ledgers if ledger.limit.needs]
    moments = {ledger.limit: ledger.room_ms(ledger.limit.needs) for ledger in needed}
    admitted_ms = _last(at_ms for limit, at_ms in moments.items() if limit.column is not None)
    if tasks[0].held and not counted and ground.may_burst(tasks[0]):
        either = [admitted_ms, _last(_burst_moments(ground, limits))]
        admitted_ms = min((at_ms for at_ms in either if at_ms is not None), default=None)
    runs_ms = _last(at_ms for limit, at_ms in moments.items() if limit.column is None)
    return Room(_last([admitted_ms, runs_ms]), counted)


def _last(moments: Iterable[int | None]) -> int | None:
    """None if one of them is not known; 0 if there are none."""
    found = list(moments)
    known = [at_ms for at_ms in found if at_ms is not None]
    return max(known, default=0) if len(known) == len(found) else None


def _may_be_passed(ground: Ground, limit: _Limit, slots: list[int]) -> bool:
    """Whether it waits for a limit that some of these wait for, too."""
    lacks = 0 < limit.needs > limit.most - limit.used
    return lacks and any(_amount(ground, slot, limit) for slot in slots)


def _let_pass(ground: Ground, ledgers: list[_Ledger], slots: list[int]) -> int | None:
    """These have their turns, one after the other: how many of them need some of it. None if nobody knows
    when one of them has room."""
    limit_ms, counted = ground.paper.table.waiting.limit_ms, 0
    for slot in slots:
        asked = [(ledger, _amount(ground, slot, ledger.limit)) for ledger in ledgers]
        asked = [(ledger, amount) for ledger, amount in asked if amount]
        at_ms = _last(ledger.room_ms(amount) for ledger, amount in asked)
        if at_ms is None:
            return None
        for ledger, amount in asked:
            ledger.take(amount, at_ms, at_ms + int(limit_ms[slot]))
        counted += bool(asked)
    return counted


def _amount(ground: Ground, slot: int, limit: _Limit) -> int:
    """What somebody who waits takes there once it is admitted, or begins. Who is not held is charged now."""
    paper, waiting = ground.paper, ground.paper.table.waiting
    task = waiting.task(slot)
    if not is_within(task.tenant_id, limit.tenant_id):
        return 0
    members = members_of(paper.picture, task)
    if limit.column is None:
        return len(members)
    return int(ground.asked(members)[limit.column]) if task.held else 0


def _limits(ground: Ground, tasks: list[TaskBrief]) -> Iterator[_Limit]:
    """Also those on what it does not need: somebody before it may wait for that, and keep what it needs."""
    tree, row, total = ground.paper.tree, ground.row_of(tasks[0]), ground.asked(tasks)
    while row >= 0:
        most, used, on_burst = (column[row].tolist() for column in (tree.limit, tree.admitted, tree.burst))
        for column, asked in enumerate(total.tolist()):
            if most[column] >= 0:
                name, needs = tenant_at(ground, row), asked if tasks[0].held else 0
                yield _Limit(name, column, most[column], used[column], on_burst[column], needs)
        if tree.begin_limit[row, RUNNING] >= 0:
            most_run, run = int(tree.begin_limit[row, RUNNING]), int(tree.begun[row, RUNNING])
            yield _Limit(tenant_at(ground, row), None, most_run, run, 0, len(tasks))
        row = int(tree.parent[row])


def _burst_moments(ground: Ground, limits: list[_Limit]) -> Iterator[int | None]:
    for limit in limits:
        if limit.column is not None and limit.needs:
            ends = ends_of(ground, limit.tenant_id, limit.column)
            bursting = [(at_ms, amount) for at_ms, amount, placed in ends if placed.task.burst]
            burst = limit._replace(most=limit.most // BURST_PART, used=limit.on_burst)
            yield _Ledger(burst, bursting, ground.paper.now_ms).room_ms(limit.needs)


# Who comes before it


def served_before(ground: Ground, tasks: list[TaskBrief], tenant_id: str) -> _Before | None:
    """Of the tenant and everybody below: who is waited for. None if they are too many to be counted, or if
    a gang lacks some of its tasks: those come first, and wait in no queue."""
    paper, waiting, found = ground.paper, ground.paper.table.waiting, _Before([], [])
    for gang in paper.picture.gangs.damaged():
        if is_within(waiting[min(gang.waiting)].tenant_id, tenant_id):
            return None
    for surely, slots in _queues_before(ground, tasks, tenant_id):
        if len(found.surely) + len(found.perhaps) + len(slots) > _MOST_BEFORE:
            return None
        (found.surely if surely else found.perhaps).extend(_waited_for(ground, slots.tolist()))
    return found


def hours_before(ground: Ground, tasks: list[TaskBrief], tenant_id: str, limit: int) -> int:
    """What those who may be served before it take of GPU-hours, if they are ever admitted."""
    gpu_ms = ground.paper.table.waiting.gpu_ms
    found = [gpu_ms[slots] for _, slots in _queues_before(ground, tasks, tenant_id)]
    return sum(int(amounts[amounts <= limit].sum()) for amounts in found)


def _queues_before(ground: Ground, tasks: list[TaskBrief], tenant_id: str) -> Iterator[tuple[bool, Small]]:
    """The slots of each queue in which somebody of the tenant, or below, waits before it; and whether they
    surely come first. Of its own class in another queue, turns tell."""
    tenants, waiting = ground.paper.table.tenants, ground.paper.table.waiting
    slot, rank = waiting.slot_of[head_of(ground.paper.picture, tasks[0])], TERMS[tasks[0].priority_class].rank
    numbers = [tenants.number(name) for name in tenants.top_row if is_within(name, tenant_id)]
    for name in sorted(name for name in waiting.queues if name.rank <= rank):
        slots, is_own = waiting.queues[name].slots, name == waiting.queue_of(slot)
        if is_own:
            slots = slots[: waiting.queues[name].before(slot)]
        slots = slots[np.isin(waiting.tenant[slots], numbers) & (slots != slot)]
        yield is_own or name.rank < rank, _still_waiting(ground, slots)


def _still_waiting(ground: Ground, slots: Small) -> Small:
    """Without those who are about to start, or have claims or reservations: they are charged on paper."""
    claims, waiting = ground.paper.picture.claims, ground.paper.table.waiting
    claimed: Flags = np.isin(slots, [waiting.slot_of[each] for each in claims if each in waiting.slot_of])
    found: Small = slots[~ground.paper.waiting.taken[slots] & ~claimed]
    return found


def _waited_for(ground: Ground, slots: list[int]) -> Iterator[int]:
    """Without those for whom nothing is kept, as no end of others would make room for them."""
    paper, waiting, asked = ground.paper, ground.paper.table.waiting, dict[tuple[int, int, int], bool]()
    for slot in slots:
        members = members_of(paper.picture, waiting.task(slot))
        alike = int(waiting.kind[slot]), int(waiting.tenant[slot]), int(waiting.gpu_ms[slot])
        if len(members) > 1 or alike not in asked:
            row, gpu_ms = ground.row_of(members[0]), sum(paper.policy.gpu_ms(task) for task in members)
            total = ground.asked(members)
            asked[alike] = not paper.engine.out_of_reach(row, total, len(members), gpu_ms, paper.tree)
        if asked[alike]:
            yield slot


# Who has it, and until when


End = tuple[int, int, Placed]
"""When an attempt has ended by its limit, what it is charged for, and which it is."""


def ends_of(ground: Ground, tenant_id: str, column: int | None = None) -> list[End]:
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


def _given_back(ground: Ground, limit: _Limit) -> list[tuple[int, int]]:
    """(when, how much) by those who run, are about to start, or have reservations."""
    paper, waiting = ground.paper, ground.paper.table.waiting
    found = [
        (at_ms, amount)
        for at_ms, amount, placed in ends_of(ground, limit.tenant_id, limit.column)
        if limit.column is None or not placed.task.burst
    ]
    started = paper.started.slot[: int(paper.started.filled[0])].tolist()
    to_come = [(waiting.task(slot), paper.now_ms) for slot in started]
    to_come = [(task, at_ms) for task, at_ms in to_come if not (task.held and ground.may_burst(task))]
    to_come += [(task, at_ms) for task, at_ms in _reserved(ground)]
    for task, at_ms in to_come:
        if is_within(task.tenant_id, limit.tenant_id):
            amount = 1 if limit.column is None else int(ground.asked([task])[limit.column])
            found.append((at_ms + 1000 * paper.policy.duration_s(task), amount))
    return found


def _reserved(ground: Ground) -> Iterator[tuple[TaskBrief, int]]:
    """Who has a reservation, from when on."""
    for _, _, reservation in ground.backfill.given:
        for task_id in reservation.task_ids:
            yield ground.paper.picture.waiting[task_id], reservation.at_ms


class Kept(NamedTuple):
    """What a tenant's limits keep for those who have reservations: these are not charged yet."""

    amounts: Ints
    tasks: Sequence[TaskBrief]
    """Whose tasks are kept a place among those that run, and GPU-hours."""

    def begun(self, ground: Ground, column: int) -> int:
        return len(self.tasks) if column == RUNNING else sum(map(ground.paper.policy.gpu_ms, self.tasks))


def kept_by_reservations(ground: Ground, tenant_id: str) -> Kept:
    tasks = [task for task, _ in _reserved(ground) if is_within(task.tenant_id, tenant_id)]
    held = [task for task in tasks if task.held]
    amounts = ground.asked(held) if held else ground.paper.new_quota()
    return Kept(amounts, tasks)


def jobs_of(tasks: Iterable[TaskBrief]) -> list[int]:
    return sorted({task.task_id.job_id for task in tasks})


def tenant_at(ground: Ground, row: int) -> str:
    """Whose row it is; of a row for somebody's own tasks, the name of that one."""
    names = {of_row: name for name, of_row in ground.paper.table.tenants.top_row.items()}
    return names[row] if row in names else names[int(ground.paper.tree.parent[row])]
