"""What a task lacks on the nodes there are, with numbers: room now, and nodes that are not to be had."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from tgpu.core.by_name import could_be_named, limited_by
from tgpu.core.columns.dimensions import BASIC
from tgpu.core.kernel.shapes import WHOLE, Flags, Floats, Ints
from tgpu.core.outlook import Ground, members_of
from tgpu.core.picture import Picture
from tgpu.core.rules import not_tolerated
from tgpu.core.wording import amount_of, bare_amount, gpus, gpus_asked, names, number
from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.views import Reason

ALONE = -2
GPUS = -1
"""What can be missing: these, and the columns of amounts."""
_MOST_TAINTS = 3
_BASIC = (("cpus", 1000), ("memory", 1), ("disk", 1))


@dataclass(frozen=True, slots=True)
class Match:
    """How the nodes stand to one task now."""

    task: TaskBrief
    kind: int
    suits: Flags
    """would do if they were empty and there"""
    takes: Flags
    """… and are ready and connected"""
    nearest: int | None
    """the one of these that lacks least; None if there is none, or if one has room"""
    missing: tuple[int, ...]
    """what the nearest one lacks"""


def match(ground: Ground, task: TaskBrief) -> Match:
    kind = ground.kind_of(task)
    suits = ground.suits(kind)
    takes = suits & ground.paper.nodes.takes
    if not takes.any():
        return Match(task, kind, suits, takes, None, ())
    short = _shortfalls(ground, kind)
    lacking = np.column_stack(list(short.values())) > 0
    # The fewest things first, then the smallest part of what is needed; of equals the first by name.
    parts = np.column_stack(list(short.values())).sum(axis=1)
    order = np.lexsort((np.arange(len(takes)), parts, lacking.sum(axis=1), ~takes))
    nearest = int(order[0])
    missing = tuple(what for what, lacks in zip(short, lacking[nearest].tolist(), strict=True) if lacks)
    return Match(task, kind, suits, takes, nearest if missing else None, missing)


def _shortfalls(ground: Ground, kind: int) -> dict[int, Floats]:
    """For each node: the part of what is needed that is missing there."""
    paper = ground.paper
    nodes, kinds = paper.nodes, paper.kinds
    not_alone = nodes.alone | (kinds.exclusive[kind] & (nodes.tasks > 0))
    found: dict[int, Floats] = {ALONE: not_alone.astype(np.float64)}
    if kinds.gpus[kind]:
        missing = np.maximum(kinds.gpus[kind] - _idle(ground, kind).sum(axis=1), 0)
        found[GPUS] = missing / kinds.gpus[kind]
    for column, need in enumerate(kinds.need[kind].tolist()):
        if need > 0:
            found[column] = np.maximum(need - nodes.free[:, column], 0) / need
    return found


def _idle(ground: Ground, kind: int) -> Flags:
    """[N, G] devices that have what the kind takes of them."""
    nodes = ground.paper.nodes
    need = ground.paper.kinds.device_need[kind][nodes.layout]
    found: Flags = (need > 0) & (need <= nodes.gpu_free)
    return found


# What is missing now


def missing_now(ground: Ground, found: Match) -> list[Reason]:
    """On the node that lacks least: one reason for each thing."""
    if found.nearest is None:
        return []
    return [_reason(ground, found, what) for what in found.missing]


def _reason(ground: Ground, found: Match, what: int) -> Reason:
    if what == ALONE:
        return _not_alone(ground, found)
    return _gpus(ground, found) if what == GPUS else _amount(ground, found, what)


def _where(ground: Ground, found: Match) -> tuple[str, int]:
    assert found.nearest is not None, "somebody lacks least"
    return ground.paper.table.nodes.names[found.nearest], int(found.takes.sum())


def _not_alone(ground: Ground, found: Match) -> Reason:
    node_id, nodes = _where(ground, found)
    if not found.task.request.exclusive:
        if nodes == 1:
            return Reason("not-alone", f"{node_id} is taken by a task that has it alone")
        text = f"{nodes} nodes match, {node_id} has most room and is taken by a task that has it alone"
        return Reason("not-alone", text, {"nodes": nodes, "node_id": node_id})
    if nodes == 1:
        return Reason("not-alone", f"{node_id} is not free for a task that wants it alone")
    text = f"wants a node alone; {nodes} nodes match, none of them is empty"
    return Reason("not-alone", text, {"nodes": nodes})


def _gpus(ground: Ground, found: Match) -> Reason:
    node_id, nodes = _where(ground, found)
    request, row = found.task.request, found.nearest
    paper = ground.paper
    suiting = paper.kinds.device_need[found.kind, paper.nodes.layout[row]] > 0
    free = paper.nodes.gpu_free[row][suiting]
    idle = int((free == WHOLE).sum())
    data: dict[str, object] = {"node_id": node_id, "needs": request.gpu_milli / WHOLE, "free": idle}
    data["of"] = len(free)
    if nodes > 1:
        data["nodes"] = nodes
    return Reason("gpus", _gpu_sentence(request, node_id, nodes, idle, free), data)


def _gpu_sentence(request: Request, node_id: str, nodes: int, idle: int, free: Ints) -> str:
    kind = f" {request.gpu_type}" if request.gpu_type else ""
    whole = request.gpu_milli >= WHOLE
    if nodes == 1 and whole:
        return f"needs {gpus(request.gpu_milli)}; {node_id} has {idle} of {len(free)}{kind} GPUs free"
    if nodes == 1:
        asked = gpus(request.gpu_milli) if request.gpu_milli else gpus_asked(request)
        return f"needs {asked}; no{kind} GPU of {node_id} has that much free"
    if not whole:
        most = number(int(free.max()) / WHOLE)
        return f"needs {gpus_asked(request)}; {nodes} nodes match, best has {most} of one free ({node_id})"
    asked = gpus_asked(request).replace(" GPU", " whole GPU", 1)
    return f"needs {asked} on one node; {nodes} nodes match, best has {idle} free ({node_id})"


def _amount(ground: Ground, found: Match, column: int) -> Reason:
    node_id, nodes = _where(ground, found)
    code, unit = _BASIC[column] if column < BASIC else ("generic", 1)
    name = "" if column < BASIC else ground.paper.table.dimensions.generic[column - BASIC]
    needs = int(ground.paper.kinds.need[found.kind, column])
    free = max(0, int(ground.paper.nodes.free[found.nearest, column]))
    data: dict[str, object] = {"node_id": node_id, "needs": needs / unit, "free": free / unit}
    wanted, has = amount_of(column, needs, name), bare_amount(column, free)
    if nodes == 1:
        return Reason(code, f"needs {wanted}; {node_id} has {has} free", data)
    text = f"needs {wanted}; {nodes} nodes match, best has {has} free ({node_id})"
    return Reason(code, text, data | {"nodes": nodes})


# Nodes that are not to be had


def away(picture: Picture, ground: Ground, found: Match) -> list[Reason]:
    """Nodes that would do and take no tasks now."""
    silent: list[str] = []
    draining: list[str] = []
    short: list[str] = []
    for row in np.flatnonzero(found.suits & ~ground.paper.nodes.takes).tolist():
        place = picture.places[ground.paper.table.nodes.names[row]]
        drains = place.node.state is NodeState.DRAINING
        lacks_disk = place.reachable and bool(place.shortage)
        (draining if drains else short if lacks_disk else silent).append(place.node.node_id)
    reasons = []
    if short:
        few, many = "is short of disk space and takes", "are short of disk space and take"
        reasons.append(_of_nodes("node-away", short, f"{few} no new tasks", f"{many} no new tasks"))
    if silent:
        reasons.append(_of_nodes("node-away", silent, "is not connected", "are not connected"))
    if draining:
        few, many = "is draining and takes no new tasks", "are draining and take no new tasks"
        reasons.append(_of_nodes("node-away", draining, few, many))
    return reasons


def tainted(ground: Ground, found: Match) -> list[Reason]:
    """Nodes that would do, were it not for a taint."""
    taints: dict[tuple[str, ...], list[str]] = {}
    for row in nodes_tainted(ground, found).tolist():
        node = ground.paper.table.nodes.nodes[row]
        missing = not_tolerated(found.task.request, node)
        if missing:
            taints.setdefault(missing, []).append(node.node_id)
    return [
        _of_nodes(
            "taint",
            node_ids,
            f"is tainted with {' and '.join(missing)}, which it does not tolerate",
            f"are tainted with {' and '.join(missing)}, which it does not tolerate",
            {"taints": list(missing)},
        )
        for missing, node_ids in sorted(taints.items())[:_MOST_TAINTS]
    ]


def nodes_tainted(ground: Ground, found: Match) -> Ints:
    """The rows of nodes that take tasks and would do if the task tolerated everything."""
    if not any(node.taints for node in ground.paper.table.nodes.kinds_of_node):
        return np.zeros(0, dtype=np.int64)
    bold = replace(found.task, request=replace(found.task.request, tolerations=("*",)))
    suits = ground.suits(ground.kind_of(bold))
    return np.flatnonzero(suits & ~found.suits & ground.paper.nodes.takes)


def barred(ground: Ground, found: Match) -> list[Reason]:
    """Models that a limit of its tenant's keeps it off, where nodes with such GPUs would do otherwise."""
    request = found.task.request
    if not request.gpu_types_barred or request.gpu_type is not None:
        return []  # who names a type wants no other
    bold = replace(found.task, request=replace(request, gpu_types_barred=()))
    nodes = np.flatnonzero(ground.suits(ground.kind_of(bold)) & ground.paper.nodes.takes)
    devices = [d for row in nodes.tolist() for d in ground.paper.table.nodes.nodes[row].capacity.devices]
    models = [
        name for name in request.gpu_types_barred if any(name in device.model.lower() for device in devices)
    ]
    picture = ground.paper.picture
    together = sum(charged_gpu_milli(each.request) for each in members_of(picture, found.task))
    named = could_be_named(picture, request, together, found.task.tenant_id)
    return [_barred(picture, found.task, model, named, together) for model in models]


def _barred(picture: Picture, task: TaskBrief, model: str, named: list[str], together: int) -> Reason:
    limited, data = limited_by(picture, task.tenant_id, model), {"gpu_type": model}
    if limited is not None:
        data["tenant_id"] = limited[0]
    if limited is not None and model not in named:
        most, needs = limited[1] / WHOLE, together / WHOLE
        of = "GPU" if most == 1 else "GPUs"
        text = f"tenant {limited[0]} may have {number(most)} {model} {of}, and it needs {number(needs)}"
        return Reason("gpu-type-limit", text, {**data, "limit": most, "needs": needs})
    whose = f"tenant {limited[0]} has" if limited else "when it was submitted its tenant had"
    text = f"{whose} a limit on {model} GPUs: name the type with --gpu-type {model} to use them"
    return Reason("gpu-type-limit", text, data)


def _of_nodes(
    code: str, node_ids: list[str], few: str, many: str, data: Mapping[str, object] = MappingProxyType({})
) -> Reason:
    """`n1 is …`, or `3 nodes that would do are …`."""
    if len(node_ids) == 1:
        return Reason(code, f"{node_ids[0]} {few}", {"node_id": node_ids[0], **data})
    text = f"{len(node_ids)} nodes that would do {many}: {names(node_ids)}"
    return Reason(code, text, {"nodes": len(node_ids), **data})
