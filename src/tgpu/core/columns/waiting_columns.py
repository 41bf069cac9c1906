"""Everybody who waits as rows, and the queues they stand in."""

from collections.abc import Callable, Iterator, Mapping, ValuesView
from functools import partial
from operator import index
from typing import NamedTuple

import numpy as np

from tgpu.core.columns.growing import with_room
from tgpu.core.columns.own_copy import own_copy
from tgpu.core.columns.queue import Key, Queue
from tgpu.core.columns.verdict import RANKS
from tgpu.core.kernel.shapes import NEVER, Small, Waiting
from tgpu.core.plan import Fault
from tgpu.core.policy import OutsideOrder, Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import TERMS, PriorityClass

EVERYBODY = -1
"""Instead of a tenant: of an order that has one queue for all."""
FAIR = ("drf", "fair-tree")
BY_PRIORITY = (*FAIR, "priority")


class QueueName(NamedTuple):
    rank: int
    order: str
    tenant: int


class _Tasks(ValuesView[TaskBrief]):
    """Without a look at each name: now and then somebody goes through 100,000 of them."""

    _mapping: "WaitingColumns"

    def __iter__(self) -> Iterator[TaskBrief]:
        return map(self._mapping.task, self._mapping.slot_of.values())


class WaitingColumns(Mapping[TaskId, TaskBrief]):
    """Read as a mapping: who waits, in the order in which they came. Rows are slots that are used again."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._free_slots: list[int] = []
        self.aged_ms = 0
        """As of when waiting counts for the order."""
        self.slot_of: dict[TaskId, int] = {}
        self.tasks: list[TaskBrief | None] = []
        self.any_held = False
        """Whether there has ever been one whom the quota did not admit at once."""
        self.queues: dict[QueueName, Queue] = {}
        self.streams: dict[tuple[int, str], dict[int, Queue]] = {}
        """The same queues by class and order, then by tenant."""
        self.count = np.zeros((RANKS, 16), dtype=np.int64)
        """[class, kind] how many stand in queues"""
        self.shortest_ms = np.full((RANKS, 16), NEVER, dtype=np.int64)
        """[class, kind] none of them has a shorter limit"""
        self.faults: dict[str, Fault] = {}
        self._outside_keys: dict[int, Key] = {}
        """By slot: asked once, as a queue must stay sorted whatever a plug-in says the next time."""
        self._names: list[QueueName | None] = []
        """By slot: where it stands."""
        self._known_names: dict[tuple[str | None, PriorityClass, int], QueueName] = {}
        """By pool, class and tenant: so that 100,000 in one queue share its name."""
        self.kind = np.zeros(0, dtype=np.int32)
        self.limit_ms = np.zeros(0, dtype=np.int64)
        self.tenant = np.zeros(0, dtype=np.int32)
        self.apart = np.zeros(0, dtype=np.bool_)
        """Looked at one by one when its turn comes: it stands for a gang, or sleeps."""
        self.held = np.zeros(0, dtype=np.bool_)
        self.gpu_ms = np.zeros(0, dtype=np.int64)
        """Of who stands for a gang: what all of it takes."""
        self.priority = np.zeros(0, dtype=np.int64)
        self.submitted_ms = np.zeros(0, dtype=np.int64)
        self.job = np.zeros(0, dtype=np.int64)
        self.task_index = np.zeros(0, dtype=np.int32)
        self.in_gang = np.zeros(0, dtype=np.bool_)

    def trial_copy(self) -> "WaitingColumns":
        trial = own_copy(self)
        trial.streams = {stream: {} for stream in self.streams}
        for name, queue in self.queues.items():
            twin = trial.queues[name] = queue.trial_copy(trial.key_of(name.order))
            trial.streams[name.rank, name.order][name.tenant] = twin
        return trial

    def __getitem__(self, task_id: TaskId) -> TaskBrief:
        return self.task(self.slot_of[task_id])

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self.slot_of)

    def __len__(self) -> int:
        return len(self.slot_of)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self.slot_of

    def values(self) -> ValuesView[TaskBrief]:
        return _Tasks(self)

    def add(self, task: TaskBrief, kind: int, tenant: int) -> int:
        """Known, and in no queue yet: it may sleep, or another may stand for its gang."""
        slot = self._new_slot()
        self.tasks[slot] = task
        self.slot_of[task.task_id] = slot
        self.kind[slot] = kind
        self.limit_ms[slot] = 1000 * self._policy.duration_s(task)
        self.tenant[slot] = tenant
        self.apart[slot] = False
        self.held[slot] = task.held
        self.gpu_ms[slot] = self._policy.gpu_ms(task)
        self.any_held = self.any_held or task.held
        self.priority[slot], self.submitted_ms[slot] = task.priority, task.submitted_ms
        self.job[slot], self.task_index[slot] = task.task_id
        self.in_gang[slot] = task.gang is not None
        self._names[slot] = None
        return slot

    def enqueue(self, slot: int) -> None:
        task = self.task(slot)
        name = self._name_of(task, self.tenant.item(slot))
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(self.key_of(name.order))
            self.streams.setdefault((name.rank, name.order), {})[name.tenant] = queue
        queue.priorities.add(task.priority)
        queue.add(slot)
        self._names[slot] = name
        self._counted(name.rank, slot)

    def _name_of(self, task: TaskBrief, tenant: int) -> QueueName:
        pool, priority_class = task.request.pool, task.priority_class
        name = self._known_names.get((pool, priority_class, tenant))
        if name is None:
            order = self._policy.of(pool).order
            name = QueueName(TERMS[priority_class].rank, order, tenant if order in FAIR else EVERYBODY)
            self._known_names[pool, priority_class, tenant] = name
        return name

    def _counted(self, rank: int, slot: int) -> None:
        kind, limit_ms = self.kind.item(slot), self.limit_ms.item(slot)
        if kind >= self.count.shape[1]:
            more = max(kind + 1, 2 * self.count.shape[1]) - self.count.shape[1]
            self.count = np.pad(self.count, ((0, 0), (0, more)))
            self.shortest_ms = np.pad(self.shortest_ms, ((0, 0), (0, more)), constant_values=NEVER)
        self.count[rank, kind] += 1
        self.shortest_ms[rank, kind] = min(self.shortest_ms.item(rank, kind), limit_ms)

    def dequeue(self, slot: int) -> None:
        name = self._names[slot]
        if name is None:
            return
        queue = self.queues[name]
        queue.remove(slot)
        self._names[slot] = None
        kind = self.kind.item(slot)
        left = self.count.item(name.rank, kind) - 1
        self.count[name.rank, kind] = left
        if not left:
            self.shortest_ms[name.rank, kind] = NEVER
        if not queue:
            del self.queues[name]
            del self.streams[name.rank, name.order][name.tenant]

    def remove(self, task_id: TaskId) -> None:
        slot = self.slot_of.pop(task_id)
        self.dequeue(slot)
        self._outside_keys.pop(slot, None)
        self.tasks[slot] = None
        self._free_slots.append(slot)

    def task(self, slot: int) -> TaskBrief:
        task = self.tasks[slot]
        assert task is not None, "a slot in use has a task"
        return task

    def queue_of(self, slot: int) -> QueueName | None:
        return self._names[slot]

    def key_of(self, order: str) -> Callable[[int], Key]:
        """Where somebody stands in a queue of this order, smallest first."""
        if order == "fifo":
            return self._by_time
        outside = self._policy.outside_orders.get(order)
        return self._by_priority if outside is None else partial(self._by_outside, order, outside)

    def _by_time(self, slot: int) -> Key:
        task = self.task(slot)
        return (0, task.submitted_ms, *task.task_id)

    def _by_priority(self, slot: int) -> Key:
        task = self.task(slot)
        return (-self.effective_priority(task), task.submitted_ms, *task.task_id)

    def _by_outside(self, order: str, outside: OutsideOrder, slot: int) -> Key:
        known = self._outside_keys.get(slot)
        if known is not None:
            return known
        task = self.task(slot)
        try:
            key = (*map(index, outside(task, self.aged_ms)), *task.task_id)
        except Exception as error:  # noqa: BLE001  whatever a plug-in raises is its own
            text = f"order {order} failed on job {task.task_id.job_id}: {type(error).__name__}: {error}"
            self.faults[order] = Fault(order, text)
            key = self._by_time(slot)
        self._outside_keys[slot] = key
        return key

    def effective_priority(self, task: TaskBrief) -> int:
        waited_s = (self.aged_ms - task.submitted_ms) // 1000
        if waited_s < self._policy.aging_step_s:  # as most who join a queue
            return task.priority
        return task.priority + min(self._policy.aging_most, waited_s // self._policy.aging_step_s)

    def outranks(self, task_id: TaskId, other_id: TaskId) -> bool:
        """Whether it stands in the same queue with a higher priority."""
        slot, other = self.slot_of[task_id], self.slot_of[other_id]
        name = self._names[slot]
        if name is None or name != self._names[other] or name.order not in BY_PRIORITY:
            return False
        return self.effective_priority(self.task(slot)) > self.effective_priority(self.task(other))

    def stands_behind(self, slot: int, other: int) -> bool:
        """In the same queue."""
        name = self._names[slot]
        if name is None or name != self._names[other]:
            return False
        return self.queues[name].before(slot) > self.queues[name].before(other)

    def age(self, now_ms: int) -> None:
        """Waiting counts as of now: only where priorities differ can that change an order."""
        self.aged_ms = now_ms
        self._outside_keys.clear()
        for name, queue in self.queues.items():
            if name.order in self._policy.outside_orders:
                queue.sort_again()
            elif name.order != "fifo" and len(queue.priorities) > 1:
                queue.slots[:] = self._sorted_by_priority(queue.slots)

    def _sorted_by_priority(self, slots: Small) -> Small:
        """By the keys of `_by_priority`, of all of them at once: 100,000 may be in these queues."""
        submitted_ms = self.submitted_ms[slots]
        steps = (self.aged_ms - submitted_ms) // 1000 // self._policy.aging_step_s
        aged = self.priority[slots] + np.clip(steps, 0, self._policy.aging_most)
        return slots[np.lexsort((self.task_index[slots], self.job[slots], submitted_ms, -aged))]

    def arrays(self) -> Waiting:
        count = len(self.tasks)
        return Waiting(
            self.kind[:count],
            self.limit_ms[:count],
            self.tenant[:count],
            self.apart[:count],
            self.held[:count],
            self.gpu_ms[:count],
            np.zeros(count, dtype=np.bool_),
        )

    def _new_slot(self) -> int:
        if self._free_slots:
            return self._free_slots.pop()
        slot = len(self.tasks)
        self.tasks.append(None)
        self._names.append(None)
        if slot >= len(self.kind):
            for name in _COLUMNS:
                setattr(self, name, with_room(getattr(self, name), slot + 1))
        return slot


_COLUMNS = (
    "kind", "limit_ms", "tenant", "apart", "held", "gpu_ms", "priority", "submitted_ms", "job", "task_index",
    "in_gang",
)  # fmt: skip
