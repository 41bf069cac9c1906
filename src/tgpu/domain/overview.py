"""Cluster overview: nodes, devices, holders and queues as columns, small enough to be sent every second.

Columns of numbers are little-endian arrays in bytes, so that 80,000 devices cost a copy and not 80,000
objects. Nodes are in natural order of their names (`gpu2` before `gpu10`); the devices of all nodes follow
each other in that order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from tgpu.domain.lifecycle import NodeState
from tgpu.domain.priority import PriorityClass

NODE_STATES = tuple(NodeState)
"""A node's state is its place here."""
UNKNOWN = -1
"""Of a measured value that was not reported."""
NO_HOLDER = -1


class DeviceState(IntEnum):
    HEALTHY = 0
    UNHEALTHY = 1
    EXTERNAL = 2
    """An external process uses it, and nothing new is placed there."""
    RESERVED = 3
    """Its node is reserved, or under maintenance, now."""


class NodeFlag(IntFlag):
    DRAINED = 1
    DISCONNECTED = 2
    RESERVED = 4
    """A window is open on it that lets one tenant in."""
    MAINTENANCE = 8
    DISK_FULL = 16


@dataclass(frozen=True, slots=True)
class NodeTable:
    names: list[str]
    pools: list[str]
    """The names of all pools; a node's pool is a place here."""
    pool: bytes
    """int16"""
    state: bytes
    """int8, a place in NODE_STATES"""
    flags: bytes
    """uint8, of NodeFlag"""
    devices: bytes
    """uint8: how many devices it has"""
    cpu_milli: bytes
    """int64, as the following"""
    cpu_allocated_milli: bytes
    cpu_used_milli: bytes
    memory_mib: bytes
    memory_allocated_mib: bytes
    memory_used_mib: bytes
    silent_since_ms: bytes
    """0 while its agent is connected"""


@dataclass(frozen=True, slots=True)
class DeviceTable:
    models: list[str]
    model: bytes
    """int16, a place in `models`"""
    index: bytes
    """int16: its number on the node"""
    state: bytes
    """int8, of DeviceState"""
    allocated_milli: bytes
    """int16, with what a claim keeps for a preempting task"""
    busy: bytes
    """int8, percent"""
    holder: bytes
    """int32: the owner of the job with the largest part of it, a place in `owners`"""
    job: bytes
    """int64: that job; 0: none"""


@dataclass(frozen=True, slots=True)
class Owner:
    user: str
    tenant_id: str


@dataclass(frozen=True, slots=True)
class Waits:
    """Pending tasks of one priority class: of all owners, or of one."""

    priority_class: PriorityClass
    owner: int
    """A place in `owners`; -1: all."""
    tasks: int
    oldest_ms: int
    """When the one that waits longest was submitted, and half of them at the latest."""
    median_ms: int


@dataclass(frozen=True, slots=True)
class OwnerJobs:
    """Jobs of one owner: those with a task on a node, those with none, and those that may not start yet (on
    hold, or waiting for a dependency or a begin time)."""

    owner: int
    running: int
    pending: int
    held: int


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """What changes seldom, and is sent on request only."""

    labels: Mapping[str, str]
    taints: tuple[str, ...]
    serves: str
    drain_reason: str = ""
    drain_by: str = ""
    drain_since_ms: int = 0


@dataclass(frozen=True, slots=True)
class ClusterOverview:
    at_ms: int
    nodes: NodeTable
    devices: DeviceTable
    owners: list[Owner]
    waits: list[Waits]
    jobs: list[OwnerJobs]
    terms: list[NodeTerms] | None = None
    """Of each node, in the order of `nodes`."""
