"""Changes that a silent node brings about: its attempts are lost, and may return when others run instead."""

from dataclasses import dataclass

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Attempt, Exit, JobSpec


@dataclass(frozen=True, slots=True)
class AttemptLost:
    """A decision: the node has been silent for too long, and the attempt holds nothing there any more."""

    attempt_id: AttemptId
    exit: Exit
    """What is said of it until it returns or is gone."""
    requeue: bool
    """Whether the task waits again, or has failed."""
    detail: str = ""
    fails_job: str = ""
    """As of one that ended."""


@dataclass(frozen=True, slots=True)
class AttemptReturned:
    """A report, and a decision: an attempt that was lost runs, and its task goes on with it. Another live one
    that the task has by now is to be superseded in the same batch."""

    attempt_id: AttemptId
    started_ms: int
    reserve_gpu_ms: int = 0
    """What it may take of its tenants' GPU-hours, if its task waits; if not, that is reserved already."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A decision: this attempt is to be stopped, while its task goes on with another one, or is over."""

    attempt_id: AttemptId
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AttemptGone:
    """A report, or a decision: an attempt that was lost or superseded, or whose task is over, is over too."""

    attempt_id: AttemptId
    exit: Exit


@dataclass(frozen=True, slots=True)
class Origin:
    """What is remembered of an attempt that a node has, and of its job: by this its return is judged."""

    attempt: Attempt
    spec: JobSpec
