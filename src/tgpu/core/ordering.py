"""Who is served first: one function per order, smallest key first."""

from collections.abc import Callable

from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import TERMS

Key = tuple[int, int, int, int, int]
Order = Callable[[TaskBrief], Key]


def by_time(task: TaskBrief) -> Key:
    """First come, first served."""
    return (0, 0, task.submitted_ms, *task.task_id)


def by_priority(task: TaskBrief) -> Key:
    """The class strictly, then the integer priority, then the time."""
    return (TERMS[task.priority_class].rank, -task.priority, task.submitted_ms, *task.task_id)


ORDERS: dict[str, Order] = {"fifo": by_time, "priority": by_priority}
