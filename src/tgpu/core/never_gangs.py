"""Could the nodes that are known ever run these tasks together, if all of them were empty and well?

Only what is certain is said: each sentence is about something that every way to place the gang would need.
"""

from collections import defaultdict
from collections.abc import Sequence

from tgpu.core.columns.dimensions import BASIC
from tgpu.core.columns.kind_columns import thousandths, wants_gpu
from tgpu.core.kernel.shapes import WHOLE
from tgpu.core.never import unsuitable
from tgpu.core.picture import Picture
from tgpu.core.rules import as_if_well
from tgpu.domain.job import Gang, Request
from tgpu.domain.node import Node

Members = Sequence[tuple[Request, int]]
"""What tasks of a gang ask for, and how many of them do."""


def gang_never_fits(gang: Gang, members: Members, picture: Picture) -> str | None:
    """Why the gang could never run here; None if it may, or if no node is known yet."""
    nodes = [place.node for place in picture.places.values()]
    if not nodes:
        return None
    anywhere = _too_few_nodes(gang, len(nodes)) or _too_many_licences(members, picture)
    if anywhere is not None:
        return anywhere
    if gang.topology is None:
        return _together(gang, members, nodes, picture, "all nodes")
    by_value: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if gang.topology in node.labels:
            by_value[node.labels[gang.topology]].append(node)
    if not by_value:
        return f"all its nodes must have one value of the label {gang.topology}, which no node has"
    found = None
    for value, some in sorted(by_value.items(), key=lambda item: len(item[1])):  # the largest speaks
        found = _together(gang, members, some, picture, f"the nodes with {gang.topology}={value}")
        if found is None:
            return None
    return found


def _too_few_nodes(gang: Gang, known: int) -> str | None:
    if gang.nodes is None or known >= gang.nodes:
        return None
    return f"it needs {gang.nodes} nodes; {'there is 1' if known == 1 else f'there are {known}'}"


def _too_many_licences(members: Members, picture: Picture) -> str | None:
    table = picture.table
    for name, has in zip(table.dimensions.cluster, table.cluster_total.tolist(), strict=True):
        asked = sum(dict(request.generic).get(name, 0) * count for request, count in members)
        if asked > has:
            return f"its tasks together ask for {asked} of licence {name}, the cluster has {has}"
    return None


def _together(
    gang: Gang, members: Members, nodes: Sequence[Node], picture: Picture, which: str
) -> str | None:
    """`which`: what these nodes are, in words."""
    if gang.nodes is not None:
        each = (gang.per_node or 1) if len(members) == 1 else 1
        enough = sum(
            any(_most_on(node, request, picture) >= each for request, _ in members) for node in nodes
        )
        if enough < gang.nodes:
            what = "its task" if each == 1 else f"{each} of its tasks"
            return f"it needs {gang.nodes} nodes with room for {what}; of {which} {_would_do(enough)}"
    for request, count in members:
        most = sum(min(_most_on(node, request, picture), gang.per_node or count) for node in nodes)
        if most < count:
            bound = f", {gang.per_node} on each," if gang.per_node is not None else ""
            return f"{count} of its tasks start together, and {which}{bound} have room for {most} at most"
    return None


def _would_do(enough: int) -> str:
    return "1 would do" if enough == 1 else f"{enough or 'none'} would do"


def _most_on(node: Node, request: Request, picture: Picture) -> int:
    """How many such tasks the empty node could hold, or more."""
    if unsuitable(request, node, picture) is not None:
        return 0
    if request.exclusive:
        return 1
    table = picture.table
    capacity = table.nodes.capacity[table.nodes.row(node.node_id)][:BASIC].tolist()
    asked = [(request.cpu_milli, capacity[0]), (request.memory_mib, capacity[1])]
    asked.append((request.disk_mib, capacity[2]))
    asked += [
        (amount, node.capacity.generic.get(name, 0))
        for name, amount in request.generic
        if name not in table.dimensions.cluster
    ]
    bounds = [has // amount for amount, has in asked if amount]
    if wants_gpu(request):
        parts = [part for part in _parts(node, request) if 0 < part <= WHOLE]
        bounds.append(sum(WHOLE // part for part in parts) // max(1, request.gpu_milli // WHOLE))
    return int(min(bounds)) if bounds else _NO_BOUND


def _parts(node: Node, request: Request) -> list[int]:
    return thousandths([as_if_well(device) for device in node.capacity.devices], request)


_NO_BOUND = 1 << 20
