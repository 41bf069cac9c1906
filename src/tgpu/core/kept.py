"""Room that is there and not for this task: kept for others, in a window, or licences that are out."""

import numpy as np

from tgpu.core.kernel.best_node import runs_into_window
from tgpu.core.kernel.shapes import NEVER, Flags
from tgpu.core.obstacles import Match
from tgpu.core.outlook import Ground, Outlook
from tgpu.core.shut import shut
from tgpu.core.wording import are, clock, limit_before
from tgpu.domain.job import TaskBrief
from tgpu.domain.quantities import time_in_words
from tgpu.domain.views import Reason


def kept(outlook: Outlook, ground: Ground, found: Match) -> list[Reason]:
    """Why a task may not have the room that there is: who would be delayed, which window is in the way."""
    end_ms, row = ground.end_ms(found.task), ground.row_of(found.task)
    room = ground.has_room(found.kind, end_ms, row, ground.paper.kinds, reserved=False)
    if not room.any() or ground.has_room(found.kind, end_ms, row, ground.paper.kinds).any():
        return []
    return kept_on(outlook, ground, found.task, room)


def kept_on(outlook: Outlook, ground: Ground, task: TaskBrief, room: Flags) -> list[Reason]:
    """`room`: the nodes where it would fit."""
    special = ground.paper.special
    closed = special.flag & (ground.end_ms(task) > special.closes_ms)
    for node in np.flatnonzero(room & closed).tolist():
        closed[node] = runs_into_window(
            node, ground.end_ms(task), ground.row_of(task), ground.paper.tree, special
        )
    reasons = []
    reserved = np.flatnonzero(room & ~closed & (special.shadow_ms < NEVER))
    if len(reserved):
        node = int(reserved[np.argmax(special.shadow_ms[reserved])])  # where most time is left
        reasons.append(_delayed(outlook, ground, node))
    names = [ground.paper.table.nodes.names[node] for node in np.flatnonzero(room & closed).tolist()]
    if names:
        reasons += shut(outlook.picture.windows, task, names, ground.paper.now_ms)
    return reasons


def _delayed(outlook: Outlook, ground: Ground, node: int) -> Reason:
    node_id = ground.paper.table.nodes.names[node]
    here = [each for _, _, each in ground.backfill.given if any(name == node_id for name, _ in each.places)]
    first = min(here, key=lambda each: (each.at_ms, each.task_ids))
    other = outlook.picture.waiting[first.task_ids[0]]
    now_ms = ground.paper.now_ms
    text = (
        f"it would fit on {node_id} but would delay job {other.task_id.job_id} of {other.user}, "
        f"which starts there at about {clock(first.at_ms, now_ms)}"
    )
    data: dict[str, object] = {"job_id": other.task_id.job_id, "user": other.user, "node_id": node_id}
    passes_s = limit_before(int(ground.paper.special.shadow_ms[node]), now_ms)
    if passes_s > 0:
        text += f"; with a time limit of at most {time_in_words(passes_s)} it would pass"
        data["time_limit_s"] = passes_s
    return Reason("kept-for", text, data)


# Licences


def licences(ground: Ground, tasks: list[TaskBrief]) -> list[Reason]:
    """What the cluster as a whole has too little of, for one task or a whole gang."""
    paper = ground.paper
    need = sum(paper.kinds.cluster_need[ground.kind_of(task)] for task in tasks)
    reasons = []
    for column, name in enumerate(paper.table.dimensions.cluster):
        columns = (need, paper.cluster_free, ground.kept_licences, paper.table.cluster_total)
        needs, free, kept_free, of = (max(0, int(amounts[column])) for amounts in columns)
        text = f"needs {needs} of licence {name}; {free} of {of} {are(free)} free"
        data: dict[str, object] = {"name": name, "needs": needs, "free": free, "of": of}
        if needs > free:
            reasons.append(Reason("licence", text, data))
        elif needs > free - kept_free:
            other = ground.keepers[column]
            data |= {"job_id": other.task_id.job_id, "user": other.user}
            text += f" and kept for job {other.task_id.job_id} of {other.user}"
            reasons.append(Reason("licence", text, data))
    return reasons
