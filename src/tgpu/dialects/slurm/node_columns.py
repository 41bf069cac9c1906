"""Nodes as `sinfo` tells of them: those of one partition and one state are one line."""

from __future__ import annotations

from tgpu.dialects.slurm import hosts

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_COMPACT = {"allocated": "alloc", "mixed": "mix", "draining": "drng", "drained": "drain"}
_OUT = frozenset({"down*", "drained", "draining"})
NULL = "(null)"
DEFAULT = "%{P}P %.5a %.10l %.6D %.6t %N"
SUMMARY = "%{P}P %.5a %.10l %.16F %N"
LONG = "%{P}P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
BY_NODE = "%{N}N %.6D %{P}P %6t"
BY_NODE_LONG = "%{N}N %.6D %{P}P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E"
REASONS = "%20E %9u %19H %N"


def state_of(node: Mapping[str, Any]) -> str:
    """The long word."""
    busy = bool(node.get("running") or node.get("cpu_allocated") or node.get("gpu_allocated"))
    if node["status"] == "offline":
        return "down*"
    if node["status"] == "draining":
        return "draining" if busy else "drained"
    if not busy:
        return "idle"
    full = float(node["cpu_allocated"]) >= float(node["cpu_total"])
    return "allocated" if full else "mixed"


class Part:
    """Some nodes of one partition, which are alike in what is printed of them."""

    def __init__(self, pool: str, nodes: Sequence[Mapping[str, Any]], *, default: bool) -> None:
        self.pool, self.nodes, self.default = pool, nodes, default
        self.states = [state_of(node) for node in nodes]

    @property
    def state(self) -> str:
        return self.states[0] if self.states else "n/a"

    def count(self, *wanted: str) -> int:
        return sum(state in wanted for state in self.states)

    def least(self, field: str) -> str:
        """The smallest; with a + if others have more."""
        values = sorted({int(float(node.get(field) or 0)) for node in self.nodes})
        return f"{values[0]}{'+' if len(values) > 1 else ''}" if values else "0"

    @property
    def names(self) -> str:
        return hosts.compressed(str(node["node_id"]) for node in self.nodes)


def _by_state(part: Part) -> str:
    """`allocated/idle/other/total`."""
    used, idle = part.count("allocated", "mixed"), part.count("idle")
    return f"{used}/{idle}/{len(part.nodes) - used - idle}/{len(part.nodes)}"


def _cpus_by_state(part: Part) -> str:
    used = idle = other = total = 0
    for node, state in zip(part.nodes, part.states, strict=True):
        has, taken = int(float(node["cpu_total"])), -(-int(float(node["cpu_allocated"]) * 1000) // 1000)
        used, total = used + taken, total + has
        if state in _OUT:
            other += has - taken
        else:
            idle += has - taken
    return f"{used}/{idle}/{other}/{total}"


def gres_of(node: Mapping[str, Any]) -> str:
    """`gpu:a100:8`, by model; spaces would break what reads it."""
    models: dict[str, int] = {}
    for device in node.get("devices") or ():
        model = str(device["model"]).replace(" ", "_").replace(":", "_")
        models[model] = models.get(model, 0) + 1
    parts = [f"gpu:{model}:{count}" for model, count in models.items()]
    return ",".join(parts + [f"{name}:{count}" for name, count in (node.get("generic_total") or {}).items()])


def _gres(part: Part) -> str:
    return (gres_of(part.nodes[0]) if part.nodes else "") or NULL


def features_of(node: Mapping[str, Any]) -> str:
    labels = {key: value for key, value in (node.get("labels") or {}).items() if not key.startswith("tgpu")}
    return ",".join(sorted(labels)) or NULL


def _drain(field: str) -> Callable[[Part], str]:
    def told(part: Part) -> str:
        drain = (part.nodes[0].get("drain") if part.nodes else None) or {}
        if field == "reason" and part.state == "down*" and not drain:
            return "Not responding"
        return str(drain.get(field) or ("none" if field == "reason" else "Unknown"))

    return told


def _partition(part: Part) -> str:
    return f"{part.pool}*" if part.default else part.pool


SHORT: dict[str, tuple[str, Callable[[Part], str]]] = {
    "a": ("AVAIL", lambda _: "up"),
    "A": ("NODES(A/I)", lambda part: f"{part.count('allocated', 'mixed')}/{part.count('idle')}"),
    "b": ("ACTIVE_FEATURES", lambda part: features_of(part.nodes[0]) if part.nodes else NULL),
    "B": ("MAX_CPUS_PER_NODE", lambda _: "UNLIMITED"),
    "c": ("CPUS", lambda part: part.least("cpu_total")),
    "C": ("CPUS(A/I/O/T)", _cpus_by_state),
    "d": ("TMP_DISK", lambda part: part.least("disk_total_mb")),
    "D": ("NODES", lambda part: str(len(part.nodes))),
    "e": ("FREE_MEM", lambda part: str(max(0, min((
        int(node["mem_total_mb"]) - int(node.get("mem_used_mb") or 0) for node in part.nodes), default=0)))),
    "E": ("REASON", _drain("reason")),
    "f": ("AVAIL_FEATURES", lambda part: features_of(part.nodes[0]) if part.nodes else NULL),
    "F": ("NODES(A/I/O/T)", _by_state),
    "g": ("GROUPS", lambda _: "all"),
    "G": ("GRES", _gres),
    "h": ("OVERSUBS", lambda _: "NO"),
    "H": ("TIMESTAMP", _drain("since")),
    "I": ("PRIO_JOB_FACTOR", lambda _: "1"),
    "l": ("TIMELIMIT", lambda _: "infinite"),
    "L": ("DEFAULTTIME", lambda _: "n/a"),
    "m": ("MEMORY", lambda part: part.least("mem_total_mb")),
    "M": ("PREEMPT_MODE", lambda _: "REQUEUE"),
    "n": ("HOSTNAMES", lambda part: part.names),
    "N": ("NODELIST", lambda part: part.names),
    "o": ("NODE_ADDR", lambda part: part.names),
    "O": ("CPU_LOAD", lambda part: (
        f"{float(part.nodes[0].get('cpu_used') or 0):.2f}" if part.nodes else "N/A")),
    "p": ("PRIO_TIER", lambda _: "1"),
    "P": ("PARTITION", _partition),
    "r": ("ROOT", lambda _: "no"),
    "R": ("PARTITION", lambda part: part.pool),
    "s": ("JOB_SIZE", lambda _: "1-infinite"),
    "S": ("ALLOCNODES", lambda _: "all"),
    "t": ("STATE", lambda part: _COMPACT.get(part.state, part.state)),
    "T": ("STATE", lambda part: part.state),
    "u": ("USER", _drain("by")),
    "U": ("USER", _drain("by")),
    "v": ("VERSION", lambda _: "tgpu"),
    "V": ("CLUSTER", lambda _: "tgpu"),
    "w": ("WEIGHT", lambda _: "1"),
    "X": ("SOCKETS", lambda _: "1"),
    "Y": ("CORES", lambda part: part.least("cpu_total")),
    "Z": ("THREADS", lambda _: "1"),
    "z": ("S:C:T", lambda part: f"1:{part.least('cpu_total')}:1"),
}  # fmt: skip
LONG_NAMES = {
    name: SHORT[letter]
    for name, letter in {
        "available": "a", "nodeai": "A", "features_act": "b", "maxcpuspernode": "B", "cpus": "c",
        "cpusstate": "C", "disk": "d", "nodes": "D", "freemem": "e", "reason": "E", "features": "f",
        "nodeaiot": "F", "groups": "g", "gres": "G", "oversubscribe": "h", "timestamp": "H",
        "priorityjobfactor": "I", "time": "l", "defaulttime": "L", "memory": "m", "preemptmode": "M",
        "nodehost": "n", "nodelist": "N", "nodeaddr": "o", "cpusload": "O", "prioritytier": "p",
        "priority": "p", "partition": "P", "root": "r", "partitionname": "R", "size": "s", "allocnodes": "S",
        "statecompact": "t", "statelong": "T", "statecomplete": "T", "user": "u", "userlong": "U",
        "version": "v", "cluster": "V", "weight": "w", "sockets": "X", "cores": "Y", "threads": "Z",
        "socketcorethread": "z",
    }.items()
}  # fmt: skip
LONG_NAMES["gresused"] = (
    "GRES_USED",
    lambda part: f"gpu:{sum(float(node.get('gpu_allocated') or 0) for node in part.nodes):g}",
)
LONG_NAMES["allocmem"] = ("ALLOCMEM", lambda part: part.least("mem_allocated_mb"))
OF_ONE_NODE = frozenset("nNoEHuUOefbcmdGwXYZz")
"""What may differ from node to node, so that nodes are told apart by it where it is asked for."""
