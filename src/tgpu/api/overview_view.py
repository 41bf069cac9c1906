"""Overview of the cluster as JSON: the whole as columns, then only what has changed.

Every caller who may see the same jobs gets the same bytes: a view is made once for all of them. Users and
jobs that a caller may not know of are replaced by HIDDEN before anything is compared or encoded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tgpu.api.edge import decimal, optional_rfc3339, rfc3339
from tgpu.api.visibility import Visibility
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.overview import (
    NODE_STATES,
    ClusterOverview,
    DeviceState,
    NodeFlag,
    NodeTerms,
    OwnerJobs,
    Waits,
)
from tgpu.domain.priority import PriorityClass
from tgpu.domain.views import Alert

NOBODY, HIDDEN = -1, -2
"""Instead of a user: the device is free; it is held by a job that the caller may not know of."""
Array = npt.NDArray[Any]
Columns = dict[str, Array]
_encode = msgspec.json.Encoder().encode
_DECIMALS = [decimal(milli) for milli in range(1001)]


class OverviewNodes(msgspec.Struct, kw_only=True):
    """Nodes as columns, in natural order of their names."""

    name: list[str]
    pool: list[str]
    status: list[NodeState]
    gpus: list[int]
    """How many GPUs it has: those of the first node come first in the columns of `devices`."""
    cpu_total: list[int | float]
    cpu_allocated: list[int | float]
    cpu_used: list[int | float | None]
    mem_total_mb: list[int]
    mem_allocated_mb: list[int]
    mem_used_mb: list[int | None]
    silent_since: list[str | None]
    """When its agent was last heard, if it is not connected."""


class OverviewDevices(msgspec.Struct, kw_only=True):
    """GPUs of all nodes as columns."""

    index: list[int]
    """Its number on the node."""
    model: list[int]
    """A place in `models`."""
    allocated: list[int | float]
    busy_percent: list[int | None]
    user: list[int]
    """A place in `users`: the owner of the job that has it, or its largest part. -1: it is free; -2: it is
    held by a job that the caller may not know of."""
    job_id: list[int]
    """That job; 0 if there is none that the caller may know of."""


class OverviewUser(msgspec.Struct, kw_only=True):
    user_id: str
    tenant_id: str


class OverviewFlags(msgspec.Struct, kw_only=True):
    """Nodes, by their places in the columns."""

    drained: list[int]
    reserved: list[int]
    """A reservation for a tenant is open on them now."""
    maintenance: list[int]
    disk_full: list[int]


class OverviewHealth(msgspec.Struct, kw_only=True):
    """Devices, by their places in the columns."""

    unhealthy: list[int]
    external: list[int]
    """Used by processes outside of tgpu."""


class OverviewQueue(msgspec.Struct, kw_only=True):
    """Tasks of one priority class that wait for resources; `median_since`: half of them wait at least since
    then (of a caller who may see some jobs only, an approximation)."""

    priority_class: PriorityClass
    pending: int
    oldest_since: str
    median_since: str


class OverviewJobs(msgspec.Struct, kw_only=True):
    """How many jobs have a task on a node, wait for resources, and may not start yet (on hold, or waiting for
    a dependency or a begin time)."""

    running: int
    pending: int
    held: int


class OverviewResource(msgspec.Struct, kw_only=True):
    """Over all nodes that are not offline; `used` is measured. Of GPUs, `used` is what is busy."""

    total: int | float
    allocated: int | float
    used: int | float | None


class OverviewAlert(msgspec.Struct, kw_only=True):
    name: str
    text: str
    since: str


class OverviewNodeTerms(msgspec.Struct, kw_only=True):
    """What changes seldom: only in answers to `terms=true`."""

    labels: list[Mapping[str, str]]
    taints: list[Sequence[str]]
    serves: list[str]
    drain_reason: list[str]
    drain_by: list[str]
    drain_since: list[str | None]


class OverviewOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The cluster at a glance."""

    whole: bool
    at: str
    nodes: OverviewNodes
    devices: OverviewDevices
    models: list[str]
    users: list[OverviewUser]
    flags: OverviewFlags
    health: OverviewHealth
    queue: list[OverviewQueue]
    jobs: OverviewJobs
    resources: dict[str, OverviewResource]
    alerts: list[OverviewAlert]
    terms: OverviewNodeTerms | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the leader answered, as arrays."""

    of: ClusterOverview
    nodes: Columns
    devices: Columns

    def same_layout(self, other: "Snapshot") -> bool:
        """Whether rows mean the same nodes and devices, with the same totals."""
        mine, theirs = self.of, other.of
        return (
            mine.nodes.names == theirs.nodes.names
            and mine.nodes.pools == theirs.nodes.pools
            and mine.devices.models == theirs.devices.models
            and mine.nodes.pool == theirs.nodes.pool
            and mine.nodes.devices == theirs.nodes.devices
            and mine.nodes.cpu_milli == theirs.nodes.cpu_milli
            and mine.nodes.memory_mib == theirs.nodes.memory_mib
            and mine.devices.model == theirs.devices.model
            and mine.devices.index == theirs.devices.index
            and mine.owners[: len(theirs.owners)] == theirs.owners
        )


def snapshot_of(of: ClusterOverview) -> Snapshot:
    def read(table: object, kinds: Mapping[str, str]) -> Columns:
        return {name: np.frombuffer(getattr(table, name), kind) for name, kind in kinds.items()}

    amounts = dict.fromkeys(
        (
            "cpu_milli", "cpu_allocated_milli", "cpu_used_milli", "memory_mib", "memory_allocated_mib",
            "memory_used_mib", "silent_since_ms",
        ),
        "<i8",
    )  # fmt: skip
    nodes = read(of.nodes, {"pool": "<i2", "state": "i1", "flags": "u1", "devices": "u1", **amounts})
    devices = read(
        of.devices,
        {
            "model": "<i2", "index": "<i2", "state": "i1", "allocated_milli": "<i2", "busy": "i1",
            "holder": "<i4", "job": "<i8",
        },
    )  # fmt: skip
    return Snapshot(of, nodes, devices)


_NODE_CHANGES = ("state", "cpu_allocated_milli", "memory_allocated_mib", "silent_since_ms")
_NODE_USE = ("cpu_used_milli", "memory_used_mib")
_DEVICE_CHANGES = ("allocated_milli", "holder", "job")


class OverviewView:
    """What callers of one visibility see, and what has changed since they last did."""

    def __init__(self, visibility: Visibility, snapshot: Snapshot, alerts: Sequence[Alert]) -> None:
        self._visibility = visibility
        self._take(snapshot, alerts)

    def update(self, snapshot: Snapshot, alerts: Sequence[Alert]) -> bytes | None:
        """The changes as a document; None if there are none. Of another layout, the whole."""
        before, nodes, devices, sections = self._snapshot, self._nodes, self._devices, self._sections
        self._take(snapshot, alerts)
        if snapshot is not before and not snapshot.same_layout(before):
            return self.whole()
        parts = {
            "nodes": _changes(nodes, self._nodes, _NODE_CHANGES),
            "use": _changes(nodes, self._nodes, _NODE_USE),
            "devices": _changes(devices, self._devices, _DEVICE_CHANGES),
            "busy": _changes(devices, self._devices, ("busy",)),
        }
        found: dict[str, object] = {name: part for name, part in parts.items() if part is not None}
        found |= {name: msgspec.Raw(text) for name, text in self._sections.items() if text != sections[name]}
        if not found:
            return None
        return _encode({"whole": False, "at": rfc3339(self._snapshot.of.at_ms), **found})

    def whole(self, terms: Sequence[NodeTerms] | None = None) -> bytes:
        of = self._snapshot.of
        nodes, devices = self._nodes, self._devices
        return _encode(
            {
                "whole": True,
                "at": rfc3339(of.at_ms),
                "nodes": {
                    "name": of.nodes.names,
                    "pool": [of.nodes.pools[number] for number in nodes["pool"].tolist()],
                    "gpus": nodes["devices"].tolist(),
                    "cpu_total": _decimals(nodes["cpu_milli"]),
                    "mem_total_mb": nodes["memory_mib"].tolist(),
                    **_out(nodes, _NODE_CHANGES),
                    **_out(nodes, _NODE_USE),
                },
                "devices": {
                    "index": devices["index"].tolist(),
                    "model": devices["model"].tolist(),
                    **_out(devices, _DEVICE_CHANGES),
                    **_out(devices, ("busy",)),
                },
                "models": of.devices.models,
                **{name: msgspec.Raw(text) for name, text in self._sections.items()},
                **({} if terms is None else {"terms": terms_out(terms)}),
            }
        )

    def _take(self, snapshot: Snapshot, alerts: Sequence[Alert]) -> None:
        self._snapshot = snapshot
        owners = snapshot.of.owners
        seen = [self._visibility.sees(owner.user, owner.tenant_id) for owner in owners]
        places = np.cumsum(np.array(seen, np.bool_), dtype=np.int32) - 1
        numbers = np.append(np.where(seen, places, HIDDEN), NOBODY).astype(np.int32)  # a holder of -1 is last
        holder = numbers[snapshot.devices["holder"]]
        job = np.where(holder >= 0, snapshot.devices["job"], 0)
        taken = (holder == NOBODY) & (snapshot.devices["allocated_milli"] > 0)
        self._nodes = snapshot.nodes
        self._devices = {**snapshot.devices, "holder": np.where(taken, HIDDEN, holder), "job": job}
        shown = {number for number, sees in enumerate(seen) if sees}
        self._sections = {
            "users": _encode(
                [
                    OverviewUser(user_id=owner.user, tenant_id=owner.tenant_id)
                    for owner, sees in zip(owners, seen, strict=True)
                    if sees
                ]
            ),
            "flags": _encode(_flags(snapshot.nodes["flags"])),
            "health": _encode(_health(snapshot.devices["state"])),
            "queue": _encode(_queue(snapshot.of.waits, None if self._visibility.everyone else shown)),
            "jobs": _encode(_jobs(snapshot.of.jobs, shown)),
            "resources": _encode(_resources(snapshot)),
            "alerts": _encode(
                [
                    OverviewAlert(name=alert.name, text=alert.text, since=rfc3339(alert.since_ms))
                    for alert in alerts
                    if self._visibility.knows(alert.tenants)
                ]
            ),
        }


def _changes(before: Columns, now: Columns, names: Sequence[str]) -> dict[str, object] | None:
    """Rows in which any of these columns has changed, and their values there."""
    if before is now:
        return None
    differ = before[names[0]] != now[names[0]]
    for name in names[1:]:
        differ = differ | (before[name] != now[name])
    rows = np.flatnonzero(differ)
    if not len(rows):
        return None
    return {"row": rows.tolist(), **_out({name: now[name][rows] for name in names}, names)}


def _decimals(milli: Array) -> list[int | float]:
    if not (milli % 1000).any():
        whole: list[int | float] = (milli // 1000).tolist()
        return whole
    return [decimal(each) for each in milli.tolist()]


def _known(values: Array) -> list[int | None]:
    return [None if value < 0 else value for value in values.tolist()]


_WRITTEN: dict[str, tuple[str, Callable[[Array], list[Any]]]] = {
    "state": ("status", lambda values: [NODE_STATES[number] for number in values.tolist()]),
    "cpu_allocated_milli": ("cpu_allocated", _decimals),
    "memory_allocated_mib": ("mem_allocated_mb", lambda values: values.tolist()),
    "silent_since_ms": (
        "silent_since",
        lambda values: [optional_rfc3339(each or None) for each in values.tolist()],
    ),
    "cpu_used_milli": (
        "cpu_used",
        lambda values: [None if each < 0 else decimal(each) for each in values.tolist()],
    ),
    "memory_used_mib": ("mem_used_mb", _known),
    "allocated_milli": ("allocated", lambda values: [_DECIMALS[each] for each in values.tolist()]),
    "holder": ("user", lambda values: values.tolist()),
    "job": ("job_id", lambda values: values.tolist()),
    "busy": ("busy_percent", _known),
}
"""Columns by their inner names: their names outside, and how their values are written."""


def _out(columns: Columns, names: Sequence[str]) -> dict[str, list[Any]]:
    return {_WRITTEN[name][0]: _WRITTEN[name][1](columns[name]) for name in names}


def _flags(flags: Array) -> OverviewFlags:
    def rows(flag: NodeFlag) -> list[int]:
        found: list[int] = np.flatnonzero(flags & flag).tolist()
        return found

    return OverviewFlags(
        drained=rows(NodeFlag.DRAINED),
        reserved=rows(NodeFlag.RESERVED),
        maintenance=rows(NodeFlag.MAINTENANCE),
        disk_full=rows(NodeFlag.DISK_FULL),
    )


def _health(state: Array) -> OverviewHealth:
    return OverviewHealth(
        unhealthy=np.flatnonzero(state == DeviceState.UNHEALTHY).tolist(),
        external=np.flatnonzero(state == DeviceState.EXTERNAL).tolist(),
    )


def _queue(waits: Sequence[Waits], shown: set[int] | None) -> list[OverviewQueue]:
    """`shown`: the owners that the caller may know of; None: all."""
    found = []
    for priority_class in PriorityClass:
        here = [
            each
            for each in waits
            if each.priority_class is priority_class
            and (each.owner == NOBODY if shown is None else each.owner in shown)
        ]
        if here:
            found.append(
                OverviewQueue(
                    priority_class=priority_class,
                    pending=sum(each.tasks for each in here),
                    oldest_since=rfc3339(min(each.oldest_ms for each in here)),
                    median_since=rfc3339(_median(here)),
                )
            )
    return found


def _median(waits: Sequence[Waits]) -> int:
    """By the medians of all owners, each as often as it has tasks."""
    ordered, half = sorted(waits, key=lambda each: each.median_ms), sum(each.tasks for each in waits) / 2
    passed = 0
    for each in ordered:
        passed += each.tasks
        if passed >= half:
            return each.median_ms
    return ordered[-1].median_ms


def _jobs(jobs: Sequence[OwnerJobs], shown: set[int]) -> OverviewJobs:
    seen = [each for each in jobs if each.owner in shown]
    return OverviewJobs(
        running=sum(each.running for each in seen),
        pending=sum(each.pending for each in seen),
        held=sum(each.held for each in seen),
    )


def _resources(snapshot: Snapshot) -> dict[str, OverviewResource]:
    nodes, devices = snapshot.nodes, snapshot.devices
    up = nodes["state"] != NODE_STATES.index(NodeState.OFFLINE)
    up_devices = np.repeat(up, nodes["devices"])
    healthy = up_devices & (devices["state"] != DeviceState.UNHEALTHY)
    told = up_devices & (devices["busy"] >= 0)
    return {
        "gpu": OverviewResource(
            total=int(healthy.sum()),
            allocated=decimal(int(devices["allocated_milli"][up_devices].sum(dtype=np.int64))),
            used=decimal(10 * int(devices["busy"][told].sum(dtype=np.int64))) if told.any() else None,
        ),
        "cpu": _amount(nodes, up, ("cpu_milli", "cpu_allocated_milli", "cpu_used_milli"), decimal),
        "mem_mb": _amount(nodes, up, ("memory_mib", "memory_allocated_mib", "memory_used_mib"), int),
    }


def _amount(
    nodes: Columns, up: Array, names: tuple[str, str, str], out: Callable[[int], int | float]
) -> OverviewResource:
    total, allocated, used = (nodes[name][up] for name in names)
    told = used[used >= 0]
    return OverviewResource(
        total=out(int(total.sum())),
        allocated=out(int(allocated.sum())),
        used=out(int(told.sum())) if len(told) else None,
    )


def terms_out(terms: Sequence[NodeTerms]) -> OverviewNodeTerms:
    return OverviewNodeTerms(
        labels=[each.labels for each in terms],
        taints=[each.taints for each in terms],
        serves=[each.serves for each in terms],
        drain_reason=[each.drain_reason for each in terms],
        drain_by=[each.drain_by for each in terms],
        drain_since=[optional_rfc3339(each.drain_since_ms or None) for each in terms],
    )
