"""Who has what a task lacks: GPUs and amounts of the nearest node, licences of the cluster."""

from collections.abc import Collection

from tgpu.core.obstacles import GPUS, Match
from tgpu.core.outlook import Ground
from tgpu.core.picture import Picture, Placed
from tgpu.domain.views import Holder

_MOST = 20


def holders(ground: Ground, found: Match, licences: Collection[str]) -> tuple[Holder, ...]:
    """Those on the node that lacks least, then those with the licences that are short; each once."""
    picture = ground.paper.picture
    chosen = {placed.attempt_id: placed for placed in _on_the_nearest(ground, found, picture)}
    for placed in picture.placed.values() if licences else ():
        if any(name in licences for name, _ in placed.task.request.generic):
            chosen.setdefault(placed.attempt_id, placed)
    return tuple(_holder(placed, picture, licences) for placed in list(chosen.values())[:_MOST])


def _on_the_nearest(ground: Ground, found: Match, picture: Picture) -> list[Placed]:
    """GPU holders if GPUs are missing there, else everybody; the largest first."""
    if found.nearest is None:
        return []
    place = picture.places[ground.paper.table.nodes.names[found.nearest]]
    here = [p for p in place.attempts.values() if p.devices or GPUS not in found.missing]
    return sorted(here, key=lambda placed: (-_gpu_milli(placed, picture), placed.attempt_id))


def _gpu_milli(placed: Placed, picture: Picture) -> int:
    """What it is charged for: also what was asked for by memory."""
    return int(picture.table.charged(placed.task.task_id)[picture.table.dimensions.gpu])


def _holder(placed: Placed, picture: Picture, licences: Collection[str]) -> Holder:
    running_s = (picture.now_ms - placed.started_ms) / 1000 if placed.started_ms is not None else None
    task, limit_s = placed.task, placed.task.time_limit_s
    remaining_s = max(0.0, limit_s - running_s) if limit_s is not None and running_s is not None else None
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
        licences=tuple(pair for pair in task.request.generic if pair[0] in licences),
    )
