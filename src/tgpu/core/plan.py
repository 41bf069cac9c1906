"""A decision as data: one field per kind of decision, one sentence each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tgpu.core.columns.verdict import NOBODY, Refusals
from tgpu.core.kernel.shapes import Ints
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.quota import Admission


@dataclass(frozen=True, slots=True)
class Start:
    """Start this task on this node with these devices (as the node numbers them)."""

    task_id: TaskId
    node_id: str
    devices: tuple[int, ...]
    admission: Admission = Admission.CHARGED


@dataclass(frozen=True, slots=True)
class Claim:
    """Keep this room for a task whose victims are leaving: it starts there once they are gone."""

    task_id: TaskId
    node_id: str
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop these attempts, with grace: what they free starts these tasks."""

    victims: tuple[AttemptId, ...]
    claims: tuple[Claim, ...]
    """One task, or every task of a gang."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The first who cannot start will, at this moment at the latest; whoever passes must not delay it."""

    task_ids: tuple[TaskId, ...]
    at_ms: int
    places: tuple[tuple[str, tuple[int, ...]], ...]
    """A node and devices for each of the tasks."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An opinion from outside the tree that failed: it was left out, and this is what it said."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    version: int
    """The picture it was made from."""
    starts: Sequence[Start] = ()
    preempts: tuple[Preempt, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    """All that hold now; those of the picture that are not here are given up."""
    faults: tuple[Fault, ...] = ()
    more: bool = False
    """There is more to decide than this plan had time for: plan again at once."""
    verdict: Ints | None = field(default=None, compare=False, repr=False)
    """Who was found to have no room, by class and kind: what the next cycle need not ask again."""
    deferred: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)
    """(class, kind) of those who get their reservation as soon as somebody could pass them."""
    refused: Refusals = field(default_factory=lambda: NOBODY, compare=False, repr=False)
    """Tenants and kinds of whom some were passed over for a quota: the next cycle asks them in any case."""
    line: tuple[TaskId, ...] = field(default=(), compare=False, repr=False)
    """Held tasks that their quota refused, in that order; of those alike, and of a gang, the first."""
