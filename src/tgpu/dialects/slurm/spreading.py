"""Job requests that depend on the cluster's nodes: over how many its tasks are spread, and how many GPUs a
whole node has."""

from __future__ import annotations

from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.step_gpus import NAMING
from tgpu.dialects.slurm.translation import translated

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from tgpu.dialects.slurm.given import Given
    from tgpu.dialects.slurm.translation import Around, Translated

    Nodes = Sequence[Mapping[str, Any]]

_SHARED_OUT = ("nodes", "nodelist", "ntasks-per-node", "array")
"""Who says one of these has said it; and an index of an array is on one node."""


def fitted(given: Given, around: Around, all_nodes: Callable[[], Nodes]) -> Translated:
    """A job that no node can hold stays on one node, and the server says why it cannot run. `all_nodes`: as
    the API shows them, asked for only if it matters."""
    made = translated(given, around)
    is_laid_out = made.layout.nodes > 1 or made.layout.tasks == 1 or any(map(given.has, _SHARED_OUT))
    takes_gpus = given.has("exclusive") and not any(map(given.has, NAMING))
    if is_laid_out and not takes_gpus:
        return made
    nodes = [node for node in all_nodes() if node["pool"] == made.fields.get("pool", node["pool"])]
    if takes_gpus:
        made = _with_all_gpus(given, around, made, nodes)
    return made if is_laid_out else _spread(given, around, made, nodes)


def _with_all_gpus(given: Given, around: Around, made: Translated, nodes: Nodes) -> Translated:
    """`--exclusive` allocates all GPUs of a node. They are asked for by number, so that quotas count them: as
    many as every node has that the job may run on."""
    named = set(made.layout.hosts)
    counts = {int(node["gpu_total"] or 0) for node in nodes if not named or node["node_id"] in named}
    least = min(counts, default=0)
    if least:
        given.say("gpus-per-node", str(least), given.where("exclusive"))
        made = translated(given, around)
    if len(counts) > 1:
        made.warnings.append(
            f"{given.where('exclusive')}: --exclusive asks for {least} GPUs, because nodes have {least} to "
            f"{max(counts)}: name the number that is wanted, such as --gpus-per-node={max(counts)}"
        )
    return made


def _spread(given: Given, around: Around, made: Translated, nodes: Nodes) -> Translated:
    """Tasks go to one node, or to as few as can hold them."""
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


def _holders(made: Translated, nodes: Nodes) -> int:
    """How many nodes are large enough."""
    layout = made.layout
    needs = (("cpu_total", layout.cpus), ("gpu_total", layout.gpus), ("mem_total_mb", layout.memory_mib or 0))
    return sum(all(float(node[name] or 0) >= need for name, need in needs) for node in nodes)
