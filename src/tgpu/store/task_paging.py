"""Which tasks of a job are wanted."""

from dataclasses import dataclass

from tgpu.domain.lifecycle import Status


@dataclass(frozen=True, slots=True)
class TaskPaging:
    """Tasks of one job in their order; `after` is the last index already seen."""

    limit: int = 1000
    after: int = -1
    statuses: frozenset[Status] = frozenset()
