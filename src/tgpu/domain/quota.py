"""What a quota counts, in exact units, and what becomes of work that it has no room for."""

from dataclasses import dataclass
from enum import StrEnum

GPU_MODEL = "gpu:"
"""`gpu:a100`: GPUs of a model, in thousandths. The rest is written small, and matches models as a job's
`gpu_type` does: by being part of their name."""
GENERIC = "generic:"
"""`generic:licence`: a named resource."""

Named = tuple[tuple[str, int], ...]
"""Amounts by name, sorted; none of them is zero."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """The four dimensions that every task has, and those that few have."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    gpu_milli: int = 0
    named: Named = ()

    def plus(self, other: "Amounts") -> "Amounts":
        return self._sum(other, 1)

    def minus(self, other: "Amounts") -> "Amounts":
        return self._sum(other, -1)

    def _sum(self, other: "Amounts", sign: int) -> "Amounts":
        return Amounts(
            self.cpu_milli + sign * other.cpu_milli,
            self.memory_mib + sign * other.memory_mib,
            self.disk_mib + sign * other.disk_mib,
            self.gpu_milli + sign * other.gpu_milli,
            _sum_named(self.named, other.named, sign) if other.named else self.named,
        )

    def of(self, dimension: str) -> int:
        """Of one of `BASIC`, or of a name."""
        if dimension in BASIC:
            return int(getattr(self, dimension))
        return dict(self.named).get(dimension, 0)


BASIC = ("cpu_milli", "memory_mib", "disk_mib", "gpu_milli")


def _sum_named(one: Named, other: Named, sign: int) -> Named:
    total = dict(one)
    for name, amount in other:
        total[name] = total.get(name, 0) + sign * amount
    return tuple(sorted((name, amount) for name, amount in total.items() if amount))


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may be admitted at once; `None`, and a name that is not there, is without limit."""

    cpu_milli: int | None = None
    memory_mib: int | None = None
    disk_mib: int | None = None
    gpu_milli: int | None = None
    named: Named = ()
    """Here a limit of zero is one."""

    def exceeded_by(self, used: Amounts) -> str | None:
        """The first dimension in which `used` is too much, if any."""
        for name in BASIC:
            limit = getattr(self, name)
            if limit is not None and getattr(used, name) > limit:
                return name
        if self.named and used.named:
            taken = dict(used.named)
            for name, most in self.named:
                if taken.get(name, 0) > most:
                    return name
        return None


class Period(StrEnum):
    """Over which GPU-hours are counted; periods begin at midnight UTC."""

    DAY = "day"
    WEEK = "week"
    """From Monday on."""
    MONTH = "month"
    EVER = "ever"
    """One period that does not end."""


@dataclass(frozen=True, slots=True)
class JobLimits:
    """What is counted in jobs and in time, when they start rather than when they are asked for."""

    running: int | None = None
    """Tasks that have been given a node, at once."""
    waiting: int | None = None
    """Tasks that wait, at once: what would exceed it is refused at submission. One that is put back counts
    again and may exceed it."""
    gpu_ms: int | None = None
    """Thousandths of a GPU times seconds, in one period."""
    period: Period = Period.MONTH


@dataclass(frozen=True, slots=True)
class JobUse:
    """What is used of `JobLimits`."""

    running: int = 0
    waiting: int = 0
    gpu_ms: int = 0
    """What has been used in this period, and what running tasks have reserved by their time limits."""
    period_from_ms: int = 0
    """When this period began."""


class OverQuota(StrEnum):
    """What becomes of a job that its tenant's quota has no room for."""

    REJECT = "reject"
    """It is refused. What waits counts, too: a job is charged when it is submitted."""
    QUEUE = "queue"
    """It waits, held, and is admitted in its turn: a job is charged when it starts."""


class Admission(StrEnum):
    """How a task stands with its tenant's quota."""

    CHARGED = "charged"
    """Since its submission, or since an earlier attempt."""
    NOW = "now"
    """It was held, and the quota has room for it now."""
    BURST = "burst"
    """It was held, and runs on the burst while nobody else can use the room."""


class Standing(StrEnum):
    """How a live task is remembered to stand with its tenant's quota."""

    CHARGED = "charged"
    HELD = "held"
    """It waits, and nothing is charged for it."""
    BURST = "burst"
    """It has a node, and is charged to the burst; put back, it is held again."""


BURST_PART = 2
"""The burst, beside what is admitted, is at most the limit divided by this."""
