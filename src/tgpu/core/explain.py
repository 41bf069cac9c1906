"""Why does it wait? The same rules that decide, put into words."""

from tgpu.core.devices import matches
from tgpu.core.feasibility import gpus, shortages, unsuitable
from tgpu.core.picture import Picture, Place, Placed
from tgpu.core.plan import Plan
from tgpu.core.planner import plan, suitable
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.views import Holder, Reason, Why

_MOST_HOLDERS = 20


def never_fits(request: Request, picture: Picture) -> str | None:
    """Why no node that is known could ever run this; None if one could, or if none is known yet."""
    found = [unsuitable(request, place.node) for place in picture.places.values()]
    if not found or any(reason is None for reason in found):
        return None
    reasons = [reason for reason in found if reason is not None]
    if any(reason.code == "too-many-gpus" for reason in reasons):
        largest = max(
            sum(matches(device, request.gpu_type) for device in place.node.capacity.devices)
            for place in picture.places.values()
        )
        kind = f" of type {request.gpu_type}" if request.gpu_type else ""
        asked = f"{gpus(request.gpu_milli)}{kind}"
        return f"it asks for {asked}, the largest node has {largest}"
    return "; ".join(sorted({reason.text for reason in reasons}))


def explain(picture: Picture, policy: Policy, task_id: TaskId) -> Why | None:
    """The whole answer for a live task; None if it is not in the picture."""
    placed = picture.placed.get(task_id)
    if placed is not None:
        return Why(task_id.job_id, waiting=False, summary=_placed_summary(placed))
    task = picture.waiting.get(task_id)
    if task is None:
        return None
    reasons, holders = _obstacles(task, picture, plan(picture, policy))
    position = picture.position(task_id)
    if position > 1:
        word = "task is" if position == 2 else "tasks are"  # noqa: PLR2004
        reasons.append(
            Reason("in-line", f"{position - 1} waiting {word} served before it", {"ahead": position - 1})
        )
    return Why(task_id.job_id, True, _summary(reasons), tuple(reasons), tuple(holders), position)


def _summary(reasons: list[Reason]) -> str:
    if not reasons:
        return "waits: it starts in the next cycle"
    first = reasons[0]
    return first.text if first.code == "never-fits" else f"waits: {first.text}"


def _placed_summary(placed: Placed) -> str:
    where = f"on {placed.node_id}"
    if placed.devices:
        where += f", GPU {', '.join(map(str, placed.devices))}"
    return f"runs {where}" if placed.started_ms is not None else f"is being started {where}"


def _obstacles(task: TaskBrief, picture: Picture, made: Plan) -> tuple[list[Reason], list[Holder]]:
    places = suitable(task.request, picture)
    if not places:
        return _no_place(task.request, picture), []
    by_place = [(shortages(task.request, place.node, place.room), place) for place in places]
    lacking, nearest = min(by_place, key=lambda pair: (len(pair[0]), pair[1].node.node_id))
    reasons = list(lacking)
    if made.hold is not None and made.hold.task_id != task.task_id:
        ahead = picture.waiting[made.hold.task_id]
        first = f"job {ahead.task_id.job_id} of {ahead.user}"
        text = f"{first} is first in line and keeps what it needs on {made.hold.node_id}"
        data = {"job_id": ahead.task_id.job_id, "user": ahead.user, "node_id": made.hold.node_id}
        reasons.append(Reason("kept-for", text, data))
    return reasons, _holders(task.request, nearest, picture.now_ms) if lacking else []


def _no_place(request: Request, picture: Picture) -> list[Reason]:
    if not picture.places:
        return [Reason("no-nodes", "no node has joined yet")]
    never = never_fits(request, picture)
    if never is not None:
        return [Reason("never-fits", f"can never run here: {never}")]
    return [
        Reason("node-away", _away(place), {"node_id": place.node.node_id})
        for place in picture.places.values()
        if unsuitable(request, place.node) is None and not place.takes_tasks
    ]


def _away(place: Place) -> str:
    if place.node.state is NodeState.DRAINING:
        return f"{place.node.node_id} is draining and takes no new tasks"
    return f"{place.node.node_id} is not connected"


def _holders(request: Request, place: Place, now_ms: int) -> list[Holder]:
    """Who has what is missing on this node: GPU holders if GPUs are missing, else everybody there."""
    missing_gpus = any(reason.code == "gpus" for reason in shortages(request, place.node, place.room))
    relevant = [p for p in place.attempts.values() if p.task.request.gpu_milli or not missing_gpus]
    relevant.sort(key=lambda placed: (-placed.task.request.gpu_milli, placed.attempt_id))
    return [_holder(placed, now_ms) for placed in relevant[:_MOST_HOLDERS]]


def _holder(placed: Placed, now_ms: int) -> Holder:
    running_s = (now_ms - placed.started_ms) / 1000 if placed.started_ms is not None else None
    limit_s = placed.task.time_limit_s
    remaining_s = max(0.0, limit_s - running_s) if limit_s is not None and running_s is not None else None
    return Holder(
        job_id=placed.task.task_id.job_id,
        user=placed.task.user,
        name=placed.task.name,
        gpu_milli=placed.task.request.gpu_milli,
        devices=placed.devices,
        node_id=placed.node_id,
        running_s=running_s,
        remaining_s=remaining_s,
    )
