"""What a job's tasks ask of their tenants' quotas."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tgpu.domain.charges import asks_for_model, charged_gpu_milli, charged_of
from tgpu.domain.job import JobSpec, Request
from tgpu.domain.priority import PriorityClass, grace_s
from tgpu.domain.quota import GPU_MODEL, Amounts

Demand = tuple[Request, int]
"""What one task reserves, and how many tasks are alike."""


def demands(spec: JobSpec) -> list[Demand]:
    """Of a job, group by group."""
    return [(group.request, group.tasks) for group in spec.groups]


def charge_of(request: Request, names: tuple[str, ...] = ()) -> dict[str, int]:
    """By dimension, without those that it asks nothing of; `names` are limits that a tenant has beyond the
    four that all have."""
    charge = {
        "cpu_milli": request.cpu_milli,
        "memory_mib": request.memory_mib,
        "disk_mib": request.disk_mib,
        "gpu_milli": charged_gpu_milli(request),
    }
    for name in names:
        charge[name] = charged_of(request, name)
    return {dimension: amount for dimension, amount in charge.items() if amount}


def charge_of_all(asked: Sequence[Demand], names: tuple[str, ...] = ()) -> dict[str, int]:
    """Of several tasks together."""
    if len(asked) == 1 and asked[0][1] == 1:
        return charge_of(asked[0][0], names)
    total: dict[str, int] = {}
    for request, number in asked:
        for dimension, amount in charge_of(request, names).items():
            total[dimension] = total.get(dimension, 0) + number * amount
    return total


def amounts_of(charges: dict[str, int]) -> Amounts:
    """The same, as it is shown."""
    basic = {name: charges.get(name, 0) for name in _BASIC}
    named = sorted((name, amount) for name, amount in charges.items() if amount and name not in _BASIC)
    return Amounts(**basic, named=tuple(named))


_BASIC = frozenset({"cpu_milli", "memory_mib", "disk_mib", "gpu_milli"})


def within_limits(request: Request, names: frozenset[str]) -> Request:
    """As the task is to be kept: GPUs of a model that its tenants limit are given to who asks for them by
    name, and to nobody else."""
    if not names or not charged_gpu_milli(request):
        return request
    models = (name.removeprefix(GPU_MODEL) for name in names if name.startswith(GPU_MODEL))
    barred = tuple(sorted(model for model in models if not asks_for_model(request, model)))
    return replace(request, gpu_types_barred=barred) if barred else request


class Run(NamedTuple):
    """From when to when an attempt had its GPUs; one that never began had them never."""

    started_ms: int | None
    ended_ms: int

    def gpu_ms(self, request: Request, since_ms: int = 0) -> int:
        """Thousandths of a GPU times seconds, after some moment."""
        if self.started_ms is None:
            return 0
        ran_ms = max(0, self.ended_ms - max(self.started_ms, since_ms))
        return charged_gpu_milli(request) * ran_ms // 1000


NEVER_RAN = Run(None, 0)


def longest_s(time_limit_s: int | None, priority_class: PriorityClass, own_grace_s: int | None) -> int | None:
    """How long an attempt may have its GPUs: its time limit, and then its grace; None: nothing bounds it."""
    return None if time_limit_s is None else time_limit_s + grace_s(priority_class, own_grace_s)


def longest_of(spec: JobSpec) -> int | None:
    return longest_s(spec.time_limit_s, spec.priority_class, spec.grace_s)


def whole_run_gpu_ms(request: Request, longest_s: int | None) -> int | None:
    """If it runs as long as it may; None if nothing bounds that."""
    gpu_milli = charged_gpu_milli(request)
    if not gpu_milli:
        return 0
    return None if longest_s is None else gpu_milli * longest_s
