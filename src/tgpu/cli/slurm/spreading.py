"""Over how many nodes tasks go that nobody has shared out: one, or as few as can hold them."""

from __future__ import annotations

from tgpu.client import Client
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.translation import translated

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any

    from tgpu.dialects.slurm.given import Given
    from tgpu.dialects.slurm.translation import Around, Translated

_SHARED_OUT = ("nodes", "nodelist", "ntasks-per-node", "array")
"""Who says one of these has said it; and an index of an array is on one node."""


def spread(given: Given, around: Around) -> Translated:
    """What can be held nowhere stays on one node, where the server says why it cannot run."""
    made = translated(given, around)
    if made.layout.nodes > 1 or made.layout.tasks == 1 or any(given.has(name) for name in _SHARED_OUT):
        return made
    with Client() as client:
        nodes = [node for node in client.nodes() if node["pool"] == made.fields.get("pool", node["pool"])]
    if _holders(made, nodes):
        return made
    for count in range(2, min(made.layout.tasks, len(nodes)) + 1):
        given.say("nodes", str(count), "ntasks")
        try:
            wider = translated(given, around)
        except SlurmError:  # GPUs that cannot be shared out among so many
            continue
        if _holders(wider, nodes) >= count:
            return wider
    return made


def _holders(made: Translated, nodes: list[dict[str, Any]]) -> int:
    """How many nodes are large enough."""
    layout = made.layout
    needs = (("cpu_total", layout.cpus), ("gpu_total", layout.gpus), ("mem_total_mb", layout.memory_mib or 0))
    return sum(all(float(node[name] or 0) >= need for name, need in needs) for node in nodes)
