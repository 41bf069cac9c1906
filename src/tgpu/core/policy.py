"""A policy is a list of opinions: whom to serve first, where a task may go, and which place is best."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tgpu.core.rules import RULES, Rule
from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.node import Node
from tgpu.domain.priority import grace_s

ORDERS = ("drf", "fair-tree", "priority", "fifo")
SCORERS = ("tightest", "spread", "fragmentation")

OutsideOrder = Callable[[TaskBrief, int], tuple[int, ...]]
"""(task, now in ms) → a key; the smallest is served first."""
OutsideScorer = Callable[[Request, Node, "Left"], float]
"""(request, node, what is left there) → a score; the highest is taken."""


class OnGpuFailure(StrEnum):
    """What becomes of a task whose GPU failed."""

    REQUEUE = "requeue"
    KEEP = "keep"
    FAIL = "fail"


class UnknownPolicyError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Left:
    """What a node has left, as a scorer from outside sees it."""

    cpu_milli: int
    memory_mib: int
    disk_mib: int
    gpu_free: tuple[int, ...]
    """Thousandths, by position in the node's list of devices."""


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """What is chosen per pool."""

    order: str = "drf"
    scorer: str = "tightest"
    cpu_overcommit: int = 1000
    """Thousandths of what a node has that may be given out."""
    memory_overcommit: int = 1000
    default_limit_s: int = 24 * 3600
    """How long a task without a time limit is taken to run."""
    reserve: int = 1
    """How many of those who cannot start get a reservation, in each class."""


@dataclass(frozen=True, slots=True)
class Policy:
    default: PoolPolicy = field(default_factory=PoolPolicy)
    """For tasks that name no pool, and for pools that are not named here."""
    pools: Mapping[str, PoolPolicy] = field(default_factory=dict)
    aging_step_s: int = 3600
    aging_most: int = 24
    preemption: bool = True
    min_run_s: int = 0
    backoff_s: int = 10
    half_life_s: int = 7 * 24 * 3600
    cluster_generic: Mapping[str, int] = field(default_factory=dict)
    """What the cluster as a whole has of a named resource: licences."""
    on_gpu_failure: OnGpuFailure = OnGpuFailure.REQUEUE
    rules: Mapping[str, Rule] = field(default_factory=lambda: dict(RULES))
    outside_rules: Mapping[str, Rule] = field(default_factory=dict)
    outside_orders: Mapping[str, OutsideOrder] = field(default_factory=dict)
    outside_scorers: Mapping[str, OutsideScorer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        orders = (*ORDERS, *sorted(self.outside_orders))
        scorers = (*SCORERS, *sorted(self.outside_scorers))
        for pool in (self.default, *self.pools.values()):
            if pool.order not in orders:
                raise UnknownPolicyError(
                    f"there is no policy {pool.order!r}; take one of {', '.join(orders)}"
                )
            if pool.scorer not in scorers:
                raise UnknownPolicyError(
                    f"there is no scorer {pool.scorer!r}; take one of {', '.join(scorers)}"
                )

    def of(self, pool: str | None) -> PoolPolicy:
        return self.default if pool is None else self.pools.get(pool, self.default)

    @property
    def scored_outside(self) -> bool:
        """Whether a pool's scorer is not of this tree."""
        used = {self.default.scorer, *(pool.scorer for pool in self.pools.values())}
        return bool(used & self.outside_scorers.keys())

    def duration_s(self, task: TaskBrief) -> int:
        """Its time limit, or its pool's default."""
        return self.of(task.request.pool).default_limit_s if task.time_limit_s is None else task.time_limit_s

    def gpu_ms(self, task: TaskBrief) -> int:
        """What it takes of GPU-hours if it runs as long as it may: thousandths of a GPU times seconds."""
        milli = charged_gpu_milli(task.request)
        if not milli:
            return 0
        return milli * (self.duration_s(task) + grace_s(task.priority_class, task.grace_s))

    @property
    def order_names(self) -> tuple[str, ...]:
        """Every order in use, in the sequence in which they are served."""
        used = {self.default.order, *(pool.order for pool in self.pools.values())}
        return tuple(name for name in (*ORDERS, *sorted(self.outside_orders)) if name in used)


def named(order: str, scorer: str = "tightest") -> Policy:
    return Policy(PoolPolicy(order=order, scorer=scorer))
