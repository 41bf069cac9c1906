"""What a gang lacks: places for all of its tasks together."""

import numpy as np

from tgpu.core.kept import kept_on
from tgpu.core.outlook import Ground, Outlook
from tgpu.domain.job import Gang, TaskBrief
from tgpu.domain.views import Reason


def gang_reasons(outlook: Outlook, ground: Ground, tasks: list[TaskBrief]) -> list[Reason]:
    """`tasks`: all of the gang that wait, hardest first."""
    gang = tasks[0].gang
    assert gang is not None, "these are tasks of a gang"
    state = outlook.picture.gangs.of(tasks[0].task_id.job_id)
    if state.running and not gang.repairs:
        text = f"its gang starts anew: {len(state.running)} of its {gang.size} tasks have yet to stop"
        return [Reason("gang", text, {"stopping": len(state.running), "of": gang.size})]
    if not state.complete:
        known = state.known
        text = f"{known} of the {gang.size} tasks of its gang are known; it starts when all are"
        return [Reason("gang", text, {"known": known, "of": gang.size})]
    if ground.places_for(tasks) is not None:
        return []
    places = ground.places_for(tasks, reserved=False)
    if places is not None:
        room = np.isin(ground.paper.table.nodes.names, places)
        reasons = kept_on(outlook, ground, tasks[0], room)
        if reasons:
            return reasons
    found = _found_together(ground, tasks)
    text = f"needs {len(tasks)} places together{_terms(gang)}; {found} found"
    return [Reason("gang", text, {"needs": len(tasks), "found": found})]


def _terms(gang: Gang) -> str:
    words = f", at most {gang.per_node} on a node" if gang.per_node is not None else ""
    if gang.nodes is not None and gang.per_node is not None:
        words = f", {gang.per_node} on each of {gang.nodes} nodes"
    return words + (f", all on nodes with one value of {gang.topology}" if gang.topology is not None else "")


def _found_together(ground: Ground, tasks: list[TaskBrief]) -> int:
    """How many of them, hardest first, would find room; by halving, as fewer always fit where more do."""
    low, high = 0, len(tasks)
    while low + 1 < high:
        middle = (low + high) // 2
        if ground.places_for(tasks[:middle]) is None:
            high = middle
        else:
            low = middle
    return low
