"""Nodes whose disks are full: they take no new tasks, and administrators are told which."""

from tgpu.control.alerts import NODES_DISK_FULL
from tgpu.control.hub import Hub
from tgpu.core.picture import Picture

NAMED = 10
"""So many are named in an alert."""


def show(picture: Picture, hub: Hub) -> None:
    """Which nodes are connected, and which of those are short of disk space: only the hub knows."""
    for node_id in picture.places:
        picture.set_reachable(node_id, reachable=hub.session_of(node_id) is not None)
        if node_id in hub.disk_shortages:
            picture.set_shortage(node_id, hub.disk_shortages[node_id])


def alerts(picture: Picture) -> dict[str, str | None]:
    return {NODES_DISK_FULL: _complaint(picture)}


def _complaint(picture: Picture) -> str | None:
    short = [place for place in picture.places.values() if place.reachable and place.shortage]
    if not short:
        return None
    named = "; ".join(f"{place.node.node_id}: {place.shortage}" for place in short[:NAMED])
    more = f" and {len(short) - NAMED} more" if len(short) > NAMED else ""
    return f"take no new tasks until there is space again: {named}{more}. Free some space on them"
