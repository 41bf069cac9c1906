"""What stands in a picture: tasks that have a place, nodes, and windows in which nodes are kept."""

from dataclasses import dataclass, field, replace

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import AttemptState, Cause, NodeState
from tgpu.domain.node import Node
from tgpu.domain.priority import BURST_RANK, TERMS


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
    assigned_ms: int = 0
    stop_cause: Cause | None = None
    """Why it was told to stop, if it was."""
    stop_detail: str = ""
    """What its node is told of it, where the cause alone does not tell."""
    stop_by_ms: int | None = None
    """When it is gone at the latest, then."""
    saved_wrote_ms: int = 0
    """When it was last written down that it saved its work."""

    @property
    def since_ms(self) -> int:
        return self.assigned_ms if self.started_ms is None else self.started_ms

    @property
    def rank(self) -> int:
        return BURST_RANK if self.task.burst else TERMS[self.task.priority_class].rank


@dataclass(slots=True)
class Place:
    """A node in the picture."""

    node: Node
    reachable: bool = False
    """Whether its agent is connected: nothing new is sent where nobody listens."""
    attempts: dict[AttemptId, Placed] = field(default_factory=dict)
    shortage: str = ""
    """Why its agent starts nothing new now (a full disk), in its own words; empty: it does."""

    @property
    def is_open(self) -> bool:
        """Whether its agent could start something, whatever state the node is in."""
        return self.reachable and not self.shortage

    @property
    def takes_tasks(self) -> bool:
        return self.is_open and self.node.state is NodeState.READY

    def begin_session(self, session: int) -> Node:
        """No plan depends on it."""
        self.node = replace(self.node, session=session)
        return self.node


@dataclass(frozen=True, slots=True)
class Window:
    """Nodes that are kept for somebody, or for maintenance, from one moment to another."""

    node_ids: frozenset[str]
    from_ms: int
    until_ms: int
    tenant_id: str | None = None
    """Who may use them, with everybody below; None: nobody."""
