"""What one attempt was given and what it used: the unit of accounting, and how it is cut and added up.

All of it is in integers. What an attempt was given in a stretch of its time is the difference of two sums
that are rounded down, so the parts of an attempt always add up to the whole, wherever it is cut.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import NamedTuple

from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit, Request
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Node
from tgpu.domain.priority import PriorityClass

_UNTOLD = frozenset({Cause.NODE_LOST, Cause.REBOOTED, Cause.SUPERVISOR_LOST})
"""After these nobody may be left who could say what was used."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of an attempt that holds nothing any more, or of one that runs, up to now."""

    attempt_id: AttemptId
    user: str
    tenant_id: str
    priority_class: PriorityClass
    node_id: str
    pool: str
    gpu_type: str
    """The models of its devices; empty without any."""
    started_ms: int
    """When it began to run; if it never did, its end."""
    ended_ms: int
    wait_ms: int
    """From its submission, or from the end of its task's attempt before, until it began; if it never did,
    until its end."""
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    """What it had been given, all the time."""
    used_cpu_ms: int | None
    """None, as the next: nobody is left who could say."""
    peak_memory_mib: int | None
    used_gpu_ms: int | None
    """Busy milliseconds of its devices, added up; None if nobody measured."""
    cause: Cause | None
    """None while it runs."""
    lost_ms: int = 0
    """Of its running time, what was thrown away: it was stopped for others, or lost with its node, or another
    attempt's work counted."""

    @property
    def run_ms(self) -> int:
        return self.ended_ms - self.started_ms


class Owner(NamedTuple):
    """Whose job it is."""

    user: str
    tenant_id: str
    priority_class: PriorityClass
    request: Request


class Times(NamedTuple):
    """Of an attempt, as they were reported; clocks may differ."""

    waiting_since_ms: int
    started_ms: int | None
    ended_ms: int


def usage_of(
    attempt_id: AttemptId, owner: Owner, place: tuple[str, str, str], times: Times, end: Exit | None
) -> Usage:
    """`place`: its node, that node's pool, the model of its devices. `end` is None while it runs."""
    ended_ms = max(times.ended_ms, times.started_ms or 0)
    started_ms = ended_ms if times.started_ms is None else times.started_ms
    told = end is not None and not (end.cause in _UNTOLD and end.cpu_ms == end.peak_memory_mib == 0)
    request = owner.request
    return Usage(
        attempt_id,
        owner.user,
        owner.tenant_id,
        owner.priority_class,
        *place,
        started_ms,
        ended_ms,
        max(0, started_ms - times.waiting_since_ms),
        request.cpu_milli,
        request.memory_mib,
        charged_gpu_milli(request),
        end.cpu_ms if end is not None and told else None,
        end.peak_memory_mib if end is not None and told else None,
        None if end is None else end.gpu_ms,
        None if end is None else end.cause,
    )


def models_of(node: Node | None, devices: Sequence[int]) -> str:
    """Of those devices of a node, each once."""
    if node is None or not devices:
        return ""
    models = {device.model for device in node.capacity.devices if device.index in devices}
    return " + ".join(sorted(models))


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over attempts, or parts of attempts: times; milliseconds of a CPU and of a GPU, and MiB times
    seconds of memory, given and used."""

    attempts: int = 0
    """That began in the time looked at."""
    jobs: int = 0
    """Whose first attempt did."""
    wait_ms: int = 0
    """Of those attempts."""
    longest_wait_ms: int = 0
    run_ms: int = 0
    cpu_ms: int = 0
    memory_mib_s: int = 0
    gpu_ms: int = 0
    used_cpu_ms: int = 0
    used_memory_mib_s: int = 0
    """By the peak of each, which is all that is known: an upper bound."""
    used_gpu_ms: int = 0
    told_cpu_ms: int = 0
    """Of `cpu_ms`, the part of those attempts whose use is known; likewise the next two."""
    told_memory_mib_s: int = 0
    told_gpu_ms: int = 0
    lost_ms: int = 0
    lost_gpu_ms: int = 0

    def plus(self, other: "Figures") -> "Figures":
        return Figures(*added(astuple(self), astuple(other)))


def added(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Of the fields of `Figures`: all are sums but the longest wait."""
    sums = [mine + theirs for mine, theirs in zip(one, other, strict=True)]
    sums[LONGEST] = max(one[LONGEST], other[LONGEST])
    return sums


LONGEST = [item.name for item in fields(Figures)].index("longest_wait_ms")


class Cut(NamedTuple):
    """What is cut when a part of an attempt is counted: numbers only, for there may be many."""

    is_first: bool
    """It is the first attempt of its job."""
    started_ms: int
    ended_ms: int
    wait_ms: int
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    used_cpu_ms: int
    peak_memory_mib: int
    used_gpu_ms: int
    lost_ms: int
    is_told: bool
    is_gpu_told: bool

    def between(self, from_ms: int, until_ms: int) -> tuple[int, ...] | None:
        """The fields of `Figures` of the part in [from, until); None if no part of it is."""
        started_ms, run_ms = self.started_ms, self.ended_ms - self.started_ms
        begins = from_ms <= started_ms < until_ms
        first = from_ms - started_ms if from_ms > started_ms else 0
        last = run_ms if until_ms > self.ended_ms else until_ms - started_ms
        if last <= first:
            if not begins:
                return None
            last = first
        cpu = self.cpu_milli * last // 1000 - self.cpu_milli * first // 1000
        memory = self.memory_mib * last // 1000 - self.memory_mib * first // 1000
        gpu = self.gpu_milli * last // 1000 - self.gpu_milli * first // 1000
        peak = self.peak_memory_mib
        lost_gpu_ms = self.gpu_milli * self.lost_ms // 1000
        return (
            int(begins),
            int(begins and self.is_first),
            self.wait_ms if begins else 0,
            self.wait_ms if begins else 0,
            last - first,
            cpu,
            memory,
            gpu,
            _share(self.used_cpu_ms, first, last, run_ms),
            peak * last // 1000 - peak * first // 1000,
            _share(self.used_gpu_ms, first, last, run_ms),
            cpu if self.is_told else 0,
            memory if self.is_told else 0,
            gpu if self.is_gpu_told else 0,
            _share(self.lost_ms, first, last, run_ms),
            _share(lost_gpu_ms, first, last, run_ms),
        )


def _share(total: int, first: int, last: int, whole: int) -> int:
    """The proportional part of a total; all of it is at the beginning of what took no time."""
    if not total or whole <= 0:
        return total
    return total * last // whole - total * first // whole


def cut_of(usage: Usage) -> Cut:
    return Cut(
        usage.attempt_id.number == 1 and usage.attempt_id.task_index == 0,
        usage.started_ms,
        usage.ended_ms,
        usage.wait_ms,
        usage.cpu_milli,
        usage.memory_mib,
        usage.gpu_milli,
        usage.used_cpu_ms or 0,
        usage.peak_memory_mib or 0,
        usage.used_gpu_ms or 0,
        usage.lost_ms,
        usage.used_cpu_ms is not None,
        usage.used_gpu_ms is not None,
    )
