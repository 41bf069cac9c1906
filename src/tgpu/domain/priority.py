"""The five priority classes, and what each of them grants."""

from dataclasses import dataclass
from enum import StrEnum


class PriorityClass(StrEnum):
    """In falling order: a class is served before every class below it."""

    REAL_TIME = "real-time"
    HIGH = "high"
    DEFAULT = "default"
    LOW = "low"
    BEST_EFFORT = "best-effort"


@dataclass(frozen=True, slots=True)
class ClassTerms:
    """What a class is worth: its rank (0 first) and the grace its tasks get before SIGKILL."""

    rank: int
    grace_s: int
    may_preempt: frozenset[PriorityClass]
    may_burst: bool


_ORDER = tuple(PriorityClass)
_GRACE_S = {
    PriorityClass.REAL_TIME: 120,  # never a victim; this is its grace when it is cancelled
    PriorityClass.HIGH: 120,
    PriorityClass.DEFAULT: 60,
    PriorityClass.LOW: 30,
    PriorityClass.BEST_EFFORT: 10,
}

TERMS = {
    name: ClassTerms(
        rank=rank,
        grace_s=_GRACE_S[name],
        may_preempt=frozenset(_ORDER[rank + 1 :]),
        may_burst=name is PriorityClass.LOW,
    )
    for rank, name in enumerate(_ORDER)
}


def grace_s(priority_class: PriorityClass, own_s: int | None) -> int:
    """Between SIGTERM and SIGKILL: the job's own, or its class's."""
    return TERMS[priority_class].grace_s if own_s is None else own_s


MAX_GRACE_S = 24 * 3600
"""No setting allows more."""
USER_CLASSES = (PriorityClass.DEFAULT, PriorityClass.LOW, PriorityClass.BEST_EFFORT)
"""What ordinary users may give their jobs, unless an administrator or operator allows something else."""
BURST_RANK = len(_ORDER)
"""What runs on burst quota ranks below every class."""
