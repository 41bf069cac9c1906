"""GPUs that are there and not to be had: ill, or used by others outside of tgpu."""

from collections.abc import Iterator

import numpy as np

from tgpu.core.columns.kind_columns import wants_gpu
from tgpu.core.kernel.shapes import Flags
from tgpu.core.outlook import Ground
from tgpu.core.picture import Picture
from tgpu.core.rules import as_if_well, device_suits, right_node
from tgpu.domain.gpu_words import foreign_in_words, ill_in_words, named
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.node import Device, Node
from tgpu.domain.views import Reason

_MOST_NAMED = 3


def nodes_with_trouble(picture: Picture) -> list[Node]:
    """Those that are here and have a GPU that is ill, or that others use."""
    return _with_trouble(picture, picture.table.nodes.counts)


def _with_trouble(picture: Picture, among: Flags) -> list[Node]:
    """Looked for by the few layouts there are, not on every node."""
    nodes = picture.table.nodes
    odd = [any(not each.is_usable or each.foreign for each in devices) for devices in nodes.device_layouts]
    if not any(odd):
        return []
    rows = np.flatnonzero(np.array(odd)[nodes.layout] & among).tolist()
    return [nodes.nodes[row] for row in rows]


def unusable_gpus(picture: Picture, ground: Ground, task: TaskBrief, suits: Flags) -> list[Reason]:
    """Those that would do for the task on nodes where it may run. Of nodes that take no tasks only where
    there is nothing else to say: without a GPU to be had they are not told to be away."""
    if not wants_gpu(task.request):
        return []
    takes = ground.paper.nodes.takes
    found = [*_that_would_do(picture, ground, task.request, takes)]
    if not found and not suits.any():
        found = [*_that_would_do(picture, ground, task.request, ~takes)]
    reasons = [_reason(device, node) for device, node in found[:_MOST_NAMED]]
    rest = found[_MOST_NAMED:]
    if rest:
        device, node = rest[0]
        text = f"{len(rest)} more GPUs that would do are not to be had, such as {named(device, node.node_id)}"
        reasons.append(Reason("gpu-unusable", text, {"gpus": len(rest)}))
    return reasons


def _that_would_do(
    picture: Picture, ground: Ground, request: Request, among: Flags
) -> Iterator[tuple[Device, Node]]:
    for node in _with_trouble(picture, among):
        if right_node(request, node) is not None:
            continue
        if ground.paper.table.kinds.objection(request, node) is None:
            for device in node.capacity.devices:
                if not device.is_usable and device_suits(as_if_well(device), request):
                    yield device, node


def _reason(device: Device, node: Node) -> Reason:
    data: dict[str, object] = {"node_id": node.node_id, "gpu": device.index}
    if not device.healthy:
        return Reason("gpu-unhealthy", ill_in_words(device, node.node_id), data)
    pids = [use.pid for use in device.foreign]
    return Reason("gpu-foreign", foreign_in_words(device, node.node_id), data | {"pids": pids})
