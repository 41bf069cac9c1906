"""Scorers from outside the tree: called from an engine of their own, which runs uncompiled."""

from collections.abc import Callable

from tgpu.core.engine import Engine, plain_with
from tgpu.core.kernel.scores import NO_ROOM
from tgpu.core.kernel.shapes import Nodes
from tgpu.core.picture import Picture
from tgpu.core.plan import Fault
from tgpu.core.policy import Left, OutsideScorer, Policy

Judge = Callable[[int, int, int, Nodes], float]


def with_outside_scorers(engine: Engine, picture: Picture, policy: Policy) -> Engine:
    """The same engine, unless a pool's scorer is not of this tree."""
    if not policy.scored_outside:
        return engine
    return plain_with({"outside": _judge(picture, policy)})


def _judge(picture: Picture, policy: Policy) -> Judge:
    names = sorted(policy.outside_scorers)

    def outside(kind: int, node: int, number: int, nodes: Nodes) -> float:
        request = picture.table.kinds.requests[kind]
        assert request is not None, "a gang has no score of its own"
        about = picture.table.nodes.nodes[node]
        cpu, memory, disk = (int(amount) for amount in nodes.free[node, :3])
        free = tuple(nodes.gpu_free[node, : len(about.capacity.devices)].tolist())
        left = Left(cpu, memory, disk, free)
        return _asked(names[number], policy.outside_scorers[names[number]], picture, request, about, left)

    return outside


def _asked(name: str, scorer: OutsideScorer, picture: Picture, *about: object) -> float:
    """What it says, if that is a number; one that fails finds all nodes equal, and is reported."""
    try:
        found = float(scorer(*about))  # type: ignore[arg-type]  # request, node, what is left
    except Exception as error:  # noqa: BLE001  whatever a plug-in raises is its own
        text = f"scorer {name} failed: {type(error).__name__}: {error}"
        picture.table.kinds.faults[name] = Fault(name, text)
        return 0.0
    return found if NO_ROOM < found < -NO_ROOM else 0.0
