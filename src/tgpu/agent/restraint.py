"""What this node adds to a task's limits: what only it knows of its devices, its CPUs and its settings."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tgpu.agent.pinning import cpus_next_to, numa_cpus
from tgpu.domain.node import Device
from tgpu.domain.priority import TERMS, PriorityClass
from tgpu.runner.limits import Limits

FIRST_SCORE, SCORE_STEP, BURST_SCORE, UNRESERVED_SCORE = 50, 100, 45, 500


def oom_score(priority_class: PriorityClass, *, burst: bool, reserves: bool = True) -> int:
    """The higher, the sooner it gives way when memory is used up: to the kernel, and to `pressure`. A task
    that reserves no memory comes before every task that does, whatever their classes."""
    score = FIRST_SCORE + SCORE_STEP * TERMS[priority_class].rank
    return score + (BURST_SCORE if burst else 0) + (0 if reserves else UNRESERVED_SCORE)


@dataclass(frozen=True, slots=True)
class Restraint:
    """`devices`: what the node has now."""

    pids: int
    user_pids: int
    pin_cpus: bool
    devices: Callable[[], Sequence[Device]]
    disk_mib: Callable[[], int] = lambda: 0
    """The limit of a private /tmp whose task reserves no disk; 0: none."""
    numa: dict[int, frozenset[int]] = field(
        default_factory=lambda: numa_cpus(frozenset(os.sched_getaffinity(0)))
    )

    def completed(self, limits: Limits) -> Limits:
        given, devices = limits.devices, self.devices()
        return replace(
            limits,
            pids=self.pids,
            user_pids=self.user_pids,
            disk_limit_mib=limits.disk_mib or self.disk_mib(),
            minors=None if given is None else _minors(given, devices),
            cpus=cpus_next_to(given, devices, self.numa, limits.cpu_milli) if given and self.pin_cpus else (),
        )


def _minors(given: Sequence[int], devices: Sequence[Device]) -> tuple[int, ...] | None:
    """None unless the file of every GPU here is known: those that are simulated or stated have none."""
    numbers = {device.index: device.minor for device in devices}
    if None in numbers.values() or not numbers.keys() >= set(given):
        return None
    return tuple(number for index in given if (number := numbers[index]) is not None)
