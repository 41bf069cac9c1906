"""Holders of what a task lacks: GPUs and amounts of the nearest node (of all nodes for a gang), licences."""

from collections.abc import Collection, Iterable

import numpy as np

from tgpu.core.columns.dimensions import BASIC
from tgpu.core.obstacles import ALONE, GPUS, Match
from tgpu.core.outlook import Ground
from tgpu.core.picture import Picture, Placed
from tgpu.domain.job import Request
from tgpu.domain.views import Holder

_MOST = 20


def holders(ground: Ground, found: Match, licences: Collection[str]) -> tuple[Holder, ...]:
    """Tasks on the node that lacks least, then those with the licences that are short; each once."""
    picture = ground.paper.picture
    lacking = _Lacking(ground, found, licences)
    chosen = {placed.attempt_id: placed for placed in lacking.holding(_in_the_way(ground, found))}
    for placed in picture.placed.values() if licences else ():
        if any(name in licences for name, _ in placed.task.request.generic):
            chosen.setdefault(placed.attempt_id, placed)
    return tuple(lacking.holder(placed) for placed in list(chosen.values())[:_MOST])


def _in_the_way(ground: Ground, found: Match) -> list[Placed]:
    """Tasks on the nearest node. A gang each of whose tasks fits alone lacks nothing on any single node: then
    all tasks on the nodes that it could use are in its way."""
    picture, names = ground.paper.picture, ground.paper.table.nodes.names
    if found.nearest is not None:
        rows = [found.nearest]
    elif found.task.gang is not None:
        rows = np.flatnonzero(found.takes).tolist()
    else:
        return []
    return [placed for row in rows for placed in picture.places[names[row]].attempts.values()]


class _Lacking:
    """What a task lacks, and how much of that others have."""

    def __init__(self, ground: Ground, found: Match, licences: Collection[str]) -> None:
        self._picture: Picture = ground.paper.picture
        self._licences = licences
        request = found.task.request
        self._columns = {column for column in found.missing if column >= 0}
        self._alone = ALONE in found.missing
        self._gpus = GPUS in found.missing
        if found.nearest is None and found.task.gang is not None:  # it may lack whatever it asks for
            self._gpus = bool(request.gpu_milli or request.gpu_memory_mib)
            self._columns = set() if self._gpus else {0, 1}
        names = ground.paper.table.dimensions.generic
        self._generic = {names[column - BASIC] for column in self._columns if column >= BASIC}

    def holding(self, placed: Iterable[Placed]) -> list[Placed]:
        """Those that have any of it, the largest part first."""
        kept = [each for each in placed if self._alone or each.task.request.exclusive or any(self._has(each))]
        return sorted(kept, key=lambda each: (*(-amount for amount in self._has(each)), each.attempt_id))

    def _has(self, placed: Placed) -> tuple[int, ...]:
        gpus = self._gpu_milli(placed) if self._gpus else 0
        amounts = self._amounts(placed.task.request)
        return gpus, *amounts, sum(number for _, number in self._of_generic(placed.task.request))

    def _gpu_milli(self, placed: Placed) -> int:
        """What it is charged for: also what was asked for by memory."""
        return int(self._picture.table.charged(placed.task.task_id)[self._picture.table.dimensions.gpu])

    def _amounts(self, request: Request) -> tuple[int, ...]:
        basic = (request.cpu_milli, request.memory_mib, request.disk_mib)
        return tuple(amount if column in self._columns else 0 for column, amount in enumerate(basic))

    def _of_generic(self, request: Request) -> tuple[tuple[str, int], ...]:
        return tuple(pair for pair in request.generic if pair[0] in self._generic)

    def holder(self, placed: Placed) -> Holder:
        now_ms, task, limit_s = self._picture.now_ms, placed.task, placed.task.time_limit_s
        running_s = (now_ms - placed.started_ms) / 1000 if placed.started_ms is not None else None
        remaining_s = max(0.0, limit_s - running_s) if limit_s is not None and running_s is not None else None
        cpu_milli, memory_mib, disk_mib = self._amounts(task.request)
        return Holder(
            job_id=task.task_id.job_id,
            user=task.user,
            name=task.name,
            gpu_milli=task.request.gpu_milli,
            devices=placed.devices,
            node_id=placed.node_id,
            running_s=running_s,
            remaining_s=remaining_s,
            gpu_memory_mib=0 if task.request.gpu_milli else task.request.gpu_memory_mib,
            licences=tuple(pair for pair in task.request.generic if pair[0] in self._licences),
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
            disk_mib=disk_mib,
            generic=self._of_generic(task.request),
        )
