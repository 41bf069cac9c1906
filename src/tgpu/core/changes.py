"""Changes to a job that might start it, the smallest first: each as large as what is left allows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tgpu.core.begin_reasons import hours_left_s
from tgpu.core.columns.dimensions import BASIC
from tgpu.core.columns.kind_columns import wants_gpu
from tgpu.core.kernel.shapes import NEVER, WHOLE, Flags, Small
from tgpu.core.obstacles import Match, nodes_tainted
from tgpu.core.outlook import Ground
from tgpu.core.quota_reasons import limits_models
from tgpu.core.rules import not_tolerated
from tgpu.core.wording import limit_before, number, size, whole_gib
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.label_rules import written
from tgpu.domain.quantities import time_in_words
from tgpu.domain.quota import GENERIC

_MOST_OF_A_SORT = 3
"""Selectors, rules, taints, moments: more of one sort are not tried."""


@dataclass(frozen=True, slots=True)
class Change:
    field: str
    instead: object
    words: str
    by_backfill: bool = False


def changes(ground: Ground, found: Match, tasks: list[TaskBrief]) -> Iterator[Change]:
    """Lazily: who takes the first that helps has not paid for the others."""
    yield from _fewer_gpus(ground, found)
    yield from _smaller_amounts(ground, found)
    yield from _fewer_licences(ground, found, len(tasks))
    yield from _shorter(ground, found)
    yield from _fewer_gpu_hours(ground, tasks)
    yield from _less_choosy(ground, found.task)
    yield from _more_tolerant(ground, found)
    if found.task.request.pool is not None:
        yield Change("pool", None, f"without --pool {found.task.request.pool}")
    if found.task.request.exclusive:
        yield Change("exclusive", False, "without --exclusive")
    yield from _a_part(ground, found)
    gang = found.task.gang
    if gang is not None and gang.topology is not None:
        yield Change("topology", None, f"without its topology {gang.topology}")
    if gang is not None and gang.per_node is not None:
        yield Change("per_node", None, "with any number of its tasks on one node")


def _fewer_gpus(ground: Ground, found: Match) -> Iterator[Change]:
    wanted = found.task.request.gpu_milli // WHOLE
    if wanted <= 1:
        return
    fits = _fits_with(ground, found, gpus=True)
    need, left = _devices(ground, found)
    most = int(((need > 0) & (need <= left)).sum(axis=1)[fits].max(initial=0))
    most = min(most, wanted - 1, _headroom(ground, found, ground.paper.table.dimensions.gpu) // WHOLE)
    least = (
        1 if found.task.gang is not None else most
    )  # of a gang all must fit: the most for one may be too much
    for count in list(range(most, max(0, least - 1), -1))[:_MOST_OF_A_SORT]:
        yield Change("gpu_milli", WHOLE * count, f"with --gpus {count}")


def _a_part(ground: Ground, found: Match) -> Iterator[Change]:
    """A part of a GPU instead of a whole one, or a smaller part; only as much memory as one has left."""
    request = found.task.request
    if not wants_gpu(request):
        return
    fits = _fits_with(ground, found, gpus=True)
    need, left = _devices(ground, found)
    if not request.gpu_milli:
        yield from _less_gpu_memory(ground, request, fits, need, left)
        return
    most = int(np.where(need > 0, left, 0)[fits].max(initial=0))
    most = min(most, _headroom(ground, found, ground.paper.table.dimensions.gpu))
    if 0 < most < min(request.gpu_milli, WHOLE):
        yield Change("gpu_milli", most, f"with --gpus {number(most / WHOLE)}")


def _less_gpu_memory(
    ground: Ground, request: Request, fits: Flags, need: Small, left: Small
) -> Iterator[Change]:
    most = 0
    for row in np.flatnonzero(fits & (need > 0).any(axis=1)).tolist():
        for at, device in enumerate(ground.paper.table.nodes.nodes[row].capacity.devices):
            if need[row, at]:
                most = max(most, int(left[row, at]) * device.memory_mib // WHOLE)
    most = whole_gib(min(most, request.gpu_memory_mib))
    if 0 < most < request.gpu_memory_mib:
        yield Change("gpu_memory_mib", most, f"with --gpu-memory {size(most)}")


def _smaller_amounts(ground: Ground, found: Match) -> Iterator[Change]:
    request, generic = found.task.request, dict(found.task.request.generic)
    cpus = _most(ground, found, 0)
    cpus -= cpus % WHOLE if cpus >= WHOLE else 0
    if 0 < cpus < request.cpu_milli:
        yield Change("cpu_milli", cpus, f"with --cpus {number(cpus / WHOLE)}")
    for column, field, flag in ((1, "memory_mib", "--memory"), (2, "disk_mib", "--disk")):
        most = whole_gib(_most(ground, found, column))
        if 0 < most < getattr(request, field):
            yield Change(field, most, f"with {flag} {size(most)}")
    for column, name in enumerate(ground.paper.table.dimensions.generic, BASIC):
        if name in generic and (most := _most(ground, found, column)) < generic[name]:
            yield _with_generic(request, name, max(0, most))


def _fewer_licences(ground: Ground, found: Match, tasks: int) -> Iterator[Change]:
    asked = dict(found.task.request.generic)
    free = (ground.paper.cluster_free - ground.kept_licences).tolist()
    for name, left in zip(ground.paper.table.dimensions.cluster, free, strict=True):
        most = max(0, left // tasks)
        if most < asked.get(name, 0):
            yield _with_generic(found.task.request, name, most)


def _with_generic(request: Request, name: str, amount: int) -> Change:
    others = {**dict(request.generic), name: amount}
    if not amount:
        del others[name]
    words = f"with --resource {name}={amount}" if amount else f"without --resource {name}"
    return Change("generic", tuple(sorted(others.items())), words)


def _shorter(ground: Ground, found: Match) -> Iterator[Change]:
    """Short enough to be gone before a reserved moment, or before a window opens."""
    task, special, now_ms = found.task, ground.paper.special, ground.paper.now_ms
    end_ms = ground.end_ms(task)
    room = ground.has_room(found.kind, end_ms, ground.row_of(task), ground.paper.kinds, reserved=False)
    moments = np.minimum(special.shadow_ms, special.closes_ms)
    useful = room & special.flag & (moments < min(NEVER, end_ms)) & (moments > now_ms)
    for moment in sorted(set(moments[useful].tolist()), reverse=True)[:_MOST_OF_A_SORT]:
        limit_s = limit_before(moment, now_ms)
        if limit_s > 0:
            reserved = bool((special.shadow_ms[useful] == moment).any())
            words = f"with --time {time_in_words(limit_s)}"
            yield Change("time_limit_s", limit_s, words, by_backfill=reserved)


def _fewer_gpu_hours(ground: Ground, tasks: list[TaskBrief]) -> Iterator[Change]:
    limit_s = hours_left_s(ground, tasks)
    if limit_s is not None:
        yield Change("time_limit_s", limit_s, f"with --time {time_in_words(limit_s)}")


def _less_choosy(ground: Ground, task: TaskBrief) -> Iterator[Change]:
    request = task.request
    if request.gpu_type is not None and not limits_models(ground, task):
        yield Change("gpu_type", None, f"without --gpu-type {request.gpu_type}")
    if request.gpu_memory_mib and request.gpu_milli:
        yield Change("gpu_memory_mib", 0, "without --gpu-memory")
    for key, value in request.node_selector[:_MOST_OF_A_SORT]:
        rest = tuple(pair for pair in request.node_selector if pair != (key, value))
        yield Change("node_selector", rest, f"without --node-selector {key}={value}")
    for rule in request.node_rules[:_MOST_OF_A_SORT]:
        rest_of_rules = tuple(other for other in request.node_rules if other != rule)
        yield Change("node_rules", rest_of_rules, f"without --where '{written(rule)}'")


def _more_tolerant(ground: Ground, found: Match) -> Iterator[Change]:
    has = found.task.request.tolerations
    nodes = [ground.paper.table.nodes.nodes[row] for row in nodes_tainted(ground, found).tolist()]
    missing = {not_tolerated(found.task.request, node) for node in nodes} - {()}
    for taints in sorted(missing, key=lambda some: (len(some), some))[:_MOST_OF_A_SORT]:
        words = " ".join(f"--tolerate {taint}" for taint in taints)
        yield Change("tolerations", (*has, *taints), f"with {words}")


# How much of something is left where everything else fits


def _most(ground: Ground, found: Match, column: int) -> int:
    fits = _fits_with(ground, found, column)
    free, _ = ground.left_beside(ground.end_ms(found.task))
    return min(int(free[fits, column].max(initial=0)), _headroom(ground, found, column))


def _fits_with(ground: Ground, found: Match, column: int | None = None, *, gpus: bool = False) -> Flags:
    """The nodes where it would start if it needed none of this."""
    kinds = ground.paper.kinds
    if column is not None:
        kinds = kinds._replace(need=kinds.need.copy())
        kinds.need[found.kind, column] = 0
    if gpus:
        kinds = kinds._replace(gpus=kinds.gpus.copy())
        kinds.gpus[found.kind] = 0
    return ground.has_room(found.kind, ground.end_ms(found.task), ground.row_of(found.task), kinds)


def _devices(ground: Ground, found: Match) -> tuple[Small, Small]:
    """[N, G] what the task takes of each device, and what it could have of it."""
    need = ground.paper.kinds.device_need[found.kind][ground.paper.nodes.layout]
    _, left = ground.left_beside(ground.end_ms(found.task))
    return need, left


def _headroom(ground: Ground, found: Match, column: int) -> int:
    """What the quota of a held task leaves, from its tenant to the root."""
    least, row, tree = NEVER, ground.row_of(found.task), ground.paper.tree
    counted = _quota_column(ground, column)
    while found.task.held and counted is not None and row >= 0:
        limit = int(tree.limit[row, counted])
        if limit >= 0:
            least = min(least, limit - int(tree.admitted[row, counted]))
        row = int(tree.parent[row])
    return max(0, least)


def _quota_column(ground: Ground, column: int) -> int | None:
    """Where quotas count what nodes, or tenants, have in that column; None if none does."""
    dimensions, names = ground.paper.table.dimensions, ground.paper.table.quotas.names
    if column < BASIC:
        return column
    if column == dimensions.gpu:
        return BASIC
    name = f"{GENERIC}{dimensions.generic[column - BASIC]}"
    return BASIC + 1 + names.index(name) if name in names else None
