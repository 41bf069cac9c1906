"""What starts whole: one task, or all tasks of a gang."""

from dataclasses import dataclass

import numpy as np

from tgpu.core.gang_book import GangState
from tgpu.core.kernel.shapes import Flags, Small
from tgpu.core.paper import Paper
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Status


@dataclass(frozen=True, slots=True)
class Unit:
    slot: int
    """The task itself, or the one that stands for the gang."""
    task: TaskBrief
    gang: GangState | None
    members: tuple[int, ...]
    """Slots, hardest first."""
    may_preempt: bool = True
    """Who was preempted does not preempt in turn."""
    eligible_ms: int = 0
    """Not to be started before this moment."""


def unit_at(paper: Paper, slot: int) -> Unit:
    task = paper.table.waiting.task(slot)
    if task.gang is None:
        return Unit(slot, task, None, (slot,), task.status is not Status.PREEMPTED, task.eligible_ms)
    gang = paper.picture.gangs.of(task.task_id.job_id)
    members = [paper.table.waiting.slot_of[task_id] for task_id in gang.waiting]
    members.sort(key=lambda member: hardest_first(paper.table.waiting.task(member)))
    tasks = [paper.table.waiting.task(member) for member in members]
    preempted = any(member.status is Status.PREEMPTED for member in tasks)
    eligible_ms = max(member.eligible_ms for member in tasks)
    return Unit(slot, task, gang, tuple(members), not preempted, eligible_ms)


def sleeps(paper: Paper, unit: Unit) -> bool:
    """Whether it was preempted so shortly ago that it may not start yet."""
    return unit.eligible_ms > paper.now_ms


def hardest_first(task: TaskBrief) -> tuple[bool, int, int, int, TaskId]:
    """Who may be on few nodes goes before who would take those as well as any other."""
    request = task.request
    anywhere = not (request.node_id or request.node_selector or request.node_rules or request.gpu_type)
    return (anywhere, -request.gpu_milli, -request.cpu_milli, -request.memory_mib, task.task_id)


def member_kinds(paper: Paper, unit: Unit) -> Small:
    """Their own kinds, also of the one that stands for the gang."""
    table = paper.table
    kinds = [table.kind_of(table.waiting.task(slot)) for slot in unit.members]
    return np.array(kinds, dtype=np.int32)


def domains(paper: Paper, unit: Unit) -> list[Flags]:
    """The sets of nodes on which all of it may be, the most filled first; one set if it does not matter."""
    topology = unit.gang.gang.topology if unit.gang is not None else None
    count = len(paper.nodes.takes)
    if unit.gang is None or topology is None:
        return [np.ones(count, dtype=np.bool_)]
    values = [node.labels.get(topology) for node in paper.table.nodes.nodes]
    live = [values[paper.table.nodes.row(node_id)] for node_id in nodes_of(paper, unit.gang)]
    wanted = set(live) if live else {value for value in values if value is not None}
    found = []
    for value in wanted:
        flags = np.array([has == value for has in values], dtype=np.bool_)
        found.append((int(paper.nodes.gpu_sum[flags & paper.nodes.takes].sum()), str(value), flags))
    found.sort(key=lambda item: item[:2])
    return [flags for _, _, flags in found] if len(wanted) == 1 or not live else []


def room_for(paper: Paper, unit: Unit) -> Small:
    """How many more of its tasks each node may get."""
    per_node = unit.gang.gang.per_node if unit.gang is not None else None
    count = len(paper.nodes.takes)
    if unit.gang is None or per_node is None:
        return np.full(count, len(unit.members), dtype=np.int32)
    room = np.full(count, per_node, dtype=np.int32)
    for node_id in nodes_of(paper, unit.gang):
        room[paper.table.nodes.row(node_id)] -= 1
    return room


def nodes_of(paper: Paper, gang: GangState) -> list[str]:
    """By name, of those of it that run."""
    return [paper.picture.placed[task_id].node_id for task_id in gang.running]
