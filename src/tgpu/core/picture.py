"""The world as the core sees it: nodes and their room, what is placed, who waits.

The picture owns its indexes: every change goes through a method that keeps them right. Deciding never
changes a picture; `plan` tries on paper.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tgpu.core.ordering import Key, Order
from tgpu.core.queue_line import Line, task_of
from tgpu.core.room import Room
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.lifecycle import AttemptState, NodeState, Status
from tgpu.domain.node import Node


@dataclass(slots=True)
class Placed:
    """A task that holds resources: its attempt, where it is, and how far it has come."""

    task: TaskBrief
    attempt_id: AttemptId
    node_id: str
    devices: tuple[int, ...]
    """Device indices, as the node names them."""
    state: AttemptState
    started_ms: int | None = None


@dataclass(slots=True)
class Place:
    """A node in the picture."""

    node: Node
    room: Room
    reachable: bool = False
    """Whether its agent is connected: nothing new is sent where nobody listens."""
    attempts: dict[AttemptId, Placed] = field(default_factory=dict)

    @property
    def takes_tasks(self) -> bool:
        return self.reachable and self.node.state is NodeState.READY


class Picture:
    """Live state in memory; `now_ms` is the only clock the core knows."""

    def __init__(self, order: Order) -> None:
        self.now_ms = 0
        self.version = 0
        self.places: dict[str, Place] = {}
        self.placed: dict[TaskId, Placed] = {}
        self.waiting: dict[TaskId, TaskBrief] = {}
        self.lines: dict[Request, Line] = {}
        self._order = order

    # Nodes

    def set_node(self, node: Node) -> None:
        """A node that is new, or is described anew; what runs there stays there."""
        self.version += 1
        known = self.places.get(node.node_id)
        place = Place(node, Room.whole(node.capacity), known.reachable if known else False)
        self.places[node.node_id] = place
        for placed in known.attempts.values() if known else ():
            self._hold(placed)

    def set_reachable(self, node_id: str, reachable: bool) -> None:
        self.version += 1
        self.places[node_id].reachable = reachable

    # Waiting tasks

    def add_waiting(self, task: TaskBrief) -> None:
        self.version += 1
        self.waiting[task.task_id] = task
        line = self.lines.get(task.request)
        if line is None:
            line = self.lines[task.request] = Line()
        line.add(self._order(task))

    def remove_waiting(self, task_id: TaskId) -> TaskBrief:
        self.version += 1
        task = self.waiting.pop(task_id)
        line = self.lines[task.request]
        line.remove(self._order(task))
        if not line:
            del self.lines[task.request]
        return task

    # Placed tasks

    def place(self, task: TaskBrief, attempt_id: AttemptId, node_id: str, devices: tuple[int, ...]) -> Placed:
        """The task has been given this node and these devices (its attempt is assigned)."""
        task = replace(task, status=Status.SCHEDULED, attempts=attempt_id.number)
        return self.restore(Placed(task, attempt_id, node_id, devices, AttemptState.ASSIGNED))

    def restore(self, placed: Placed) -> Placed:
        self.version += 1
        self.placed[placed.task.task_id] = placed
        self._hold(placed)
        return placed

    def release(self, task_id: TaskId) -> Placed:
        """The task holds nothing any more."""
        self.version += 1
        placed = self.placed.pop(task_id)
        place = self.places[placed.node_id]
        del place.attempts[placed.attempt_id]
        place.room.give_back(placed.task.request, positions_of(place.node, placed.devices))
        return placed

    def live(self, attempt_id: AttemptId) -> Placed | None:
        placed = self.placed.get(attempt_id.task_id)
        return placed if placed is not None and placed.attempt_id == attempt_id else None

    def _hold(self, placed: Placed) -> None:
        place = self.places[placed.node_id]
        place.attempts[placed.attempt_id] = placed
        place.room.take(placed.task.request, positions_of(place.node, placed.devices))

    # Questions

    def key(self, task: TaskBrief) -> Key:
        return self._order(task)

    def in_order(self) -> Iterable[TaskId]:
        """All who wait, first served first: for small pictures and for people."""
        keys = [line.at(at) for line in self.lines.values() for at in range(len(line))]
        return [task_of(key) for key in sorted(key for key in keys if key is not None)]

    def position(self, task_id: TaskId) -> int:
        """1 for the first in line."""
        key = self._order(self.waiting[task_id])
        return 1 + sum(line.before(key) for line in self.lines.values())


def positions_of(node: Node, devices: tuple[int, ...]) -> tuple[int, ...]:
    """Where the named devices stand in the node's list; one that has vanished has no position."""
    if not devices:
        return ()
    where = {device.index: position for position, device in enumerate(node.capacity.devices)}
    return tuple(where[index] for index in devices if index in where)
