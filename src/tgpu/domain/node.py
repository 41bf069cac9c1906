"""A machine that runs tasks, and the devices in it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tgpu.domain.lifecycle import NodeState

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
NOT_NODE_NAMES = frozenset(
    {"drain", "undrain", "remove", "approve", "join-token", "join-tokens", "list", "show"}
)
"""Words that stand where a node's name does, in commands and in the API's paths."""


def as_counted(name: str) -> list[str | int]:
    """In this order `gpu2` stands before `gpu10`."""
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"(\d+)", name))]


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """A process on a GPU that belongs to no task of this cluster's."""

    pid: int
    user: str
    program: str
    memory_mib: int
    """About so much: told anew only when it has changed a lot. 0 is not known."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU, known by its index on the node; a sick one is not given out."""

    index: int
    uuid: str
    model: str
    memory_mib: int
    healthy: bool = True
    numa_node: int | None = None
    note: str = ""
    island: int | None = None
    """Devices of one number reach each other directly (NVLink)."""
    lost: bool = False
    """It is not healthy, and what runs on it cannot go on."""
    foreign: tuple[ForeignUse, ...] = ()
    """Who uses it outside of tgpu."""
    avoided: bool = False
    """Nothing new is put there while others use it."""
    minor: int | None = None
    """`/dev/nvidiaN`, which need not be its index."""
    pci: str = ""
    """Its address, as `/sys/bus/pci/devices` has it."""

    @property
    def is_usable(self) -> bool:
        """Whether something new may be put there."""
        return self.healthy and not self.avoided


@dataclass(frozen=True, slots=True)
class DeviceSigns:
    """What was measured of a GPU beside its use; None of what it does not tell."""

    temperature_c: int | None = None
    power_w: int | None = None
    throttled: str = ""
    """Why it runs slower than it could, if it does: `heat`, `power`, or both."""
    ecc_uncorrected: int | None = None
    """Memory errors that could not be corrected since the driver was loaded…"""
    ecc_uncorrected_ever: int | None = None
    """…and since it was made."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a node has to give."""

    cpu_milli: int
    memory_mib: int
    disk_mib: int
    devices: tuple[Device, ...] = ()
    generic: Mapping[str, int] = field(default_factory=dict)

    @property
    def gpu_milli(self) -> int:
        return 1000 * sum(device.healthy for device in self.devices)


@dataclass(frozen=True, slots=True)
class Drain:
    """An order that nothing new is to start on a node, until it is taken back."""

    by: str
    since_ms: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the server knows it."""

    node_id: str
    state: NodeState
    capacity: Capacity
    pool: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    """`key` or `key=value`: only tasks that tolerate every one of them may start here."""
    boot_id: str = ""
    joined_ms: int = 0
    heard_ms: int = 0
    serves: str = "*"
    """`*` when the agent is root and runs anyone's jobs, else the one user name it can run."""
    drain: Drain | None = None
    """Outlives silence and restarts, of the node and of the servers."""
    session: int = 0
    """The last one in which an agent that keeps a record of them was admitted; 0: none."""

    @property
    def state_when_heard(self) -> NodeState:
        return NodeState.READY if self.drain is None else NodeState.DRAINING
