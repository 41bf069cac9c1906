"""A decision as data: what is to be started, for whom room is kept, and who cannot start."""

from dataclasses import dataclass, field

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request


@dataclass(frozen=True, slots=True)
class Start:
    """Start this task on this node with these devices."""

    task_id: TaskId
    node_id: str
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """The first task that cannot start keeps what it could use on one node: nobody behind it delays it."""

    task_id: TaskId
    node_id: str


@dataclass(frozen=True, slots=True)
class Plan:
    version: int
    """The picture it was made from."""
    starts: tuple[Start, ...] = ()
    hold: Hold | None = None
    blocked: dict[Request, TaskId] = field(default_factory=dict)
    """Each kind of request that cannot be met now, with the first task of that kind."""
