"""What administrators order of nodes, brought into the picture: only the loop writes a node's row."""

from collections.abc import Sequence
from dataclasses import replace

from tgpu.control.hub import Hub
from tgpu.control.turn import Turn
from tgpu.core.holdings import holdings_on
from tgpu.core.picture import Picture
from tgpu.domain.label_rules import holds, written
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Drain, Node
from tgpu.domain.node_orders import NodeOrder, NodesOrdered, NodeVerb
from tgpu.store.cluster_port import NodeInUseError
from tgpu.store.port import Store

REPEATED_WITHIN_MS = 60_000
"""A client that lost the answer asks again: the same drain by the same user, so soon after, is that one."""


def take_in(picture: Picture, order: NodeOrder, turn: Turn) -> NodesOrdered:
    """To drain, or no longer to: all of them or none. No longer to drain what is not drained is no error:
    a client that lost the answer asks again."""
    chosen = _chosen(picture, order)
    if isinstance(chosen, NodesOrdered):
        return chosen
    if order.verb is NodeVerb.UNDRAIN:
        for name in chosen:
            if picture.places[name].node.drain is not None:
                _set_drain(picture, name, None, turn)
        return NodesOrdered(tuple(chosen))
    repeated = [name for name in chosen if _is_repeated(picture.places[name].node, order, picture.now_ms)]
    done = [name for name in chosen if picture.places[name].node.drain is not None and name not in repeated]
    if done and order.node_ids:
        return _refused("; ".join(_done_already(picture.places[name].node) for name in done))
    due = [name for name in chosen if name not in done]
    if not due:
        return _refused(f"every node with {_in_words(order)} is draining already")
    for name in due:
        if name not in repeated:
            _set_drain(picture, name, Drain(order.by, picture.now_ms, order.reason), turn)
    return NodesOrdered(tuple(due))


async def remove(picture: Picture, order: NodeOrder, hub: Hub, store: Store, epoch: int) -> NodesOrdered:
    """A node that is away and holds nothing; or one that was let in and never came, known by its key only.

    It is forgotten in a transaction of its own: what this turn commits later is not about it."""
    keyed = [
        name for name in order.node_ids if name not in picture.places and await store.node_key_digest(name)
    ]
    chosen = _chosen(picture, replace(order, node_ids=tuple(n for n in order.node_ids if n not in keyed)))
    if isinstance(chosen, NodesOrdered):
        return chosen
    reasons = [reason for name in chosen if (reason := _kept(picture, hub, name)) is not None]
    if reasons:
        return _refused("; ".join(reasons))
    names = (*keyed, *chosen)
    try:
        await store.remove_nodes(epoch, names)
    except NodeInUseError as error:
        return _refused(str(error))
    for name in names:
        hub.forget(name)
        if name in picture.places:
            picture.remove_node(name)
    return NodesOrdered(names)


def _chosen(picture: Picture, order: NodeOrder) -> Sequence[str] | NodesOrdered:
    if order.rules:
        matching = [place.node.node_id for place in picture.places.values() if _suits(place.node, order)]
        return matching or _refused(
            f"no node has {_in_words(order)}: `tgpu nodes` shows labels", unknown=True
        )
    names = list(dict.fromkeys(order.node_ids))
    unknown = [name for name in names if name not in picture.places]
    if unknown:
        return _refused(f"there is no node {', '.join(unknown)}: `tgpu nodes` lists them", unknown=True)
    return names


def _suits(node: Node, order: NodeOrder) -> bool:
    return all(holds(rule, node.labels.get(rule.key)) for rule in order.rules)


def _in_words(order: NodeOrder) -> str:
    return " and ".join(map(written, order.rules))


def _is_repeated(node: Node, order: NodeOrder, now_ms: int) -> bool:
    if node.drain is None:
        return False
    is_recent = now_ms - node.drain.since_ms <= REPEATED_WITHIN_MS
    return is_recent and (node.drain.by, node.drain.reason) == (order.by, order.reason)


def _set_drain(picture: Picture, name: str, drain: Drain | None, turn: Turn) -> None:
    node = replace(picture.places[name].node, drain=drain)
    if node.state is not NodeState.OFFLINE:
        node = replace(node, state=node.state_when_heard)
    picture.set_node(node)
    turn.batch.nodes.append(node)


def _done_already(node: Node) -> str:
    assert node.drain is not None
    why = f" ({node.drain.reason})" if node.drain.reason else ""
    return f"{node.node_id} is draining already, ordered by {node.drain.by}{why}"


def _kept(picture: Picture, hub: Hub, name: str) -> str | None:
    """Why this node cannot be forgotten now."""
    if hub.session_of(name) is not None:
        return (
            f"{name} is connected: stop its agent first (`systemctl stop tgpu-agent` there), then remove it"
        )
    held = len(picture.places[name].attempts) + sum(1 for _ in holdings_on(picture, name))
    if held:
        return f"{name} still holds {held} attempts: cancel their jobs, or wait until they run elsewhere"
    return None


def _refused(text: str, *, unknown: bool = False) -> NodesOrdered:
    return NodesOrdered(refusal=text, unknown=unknown)
