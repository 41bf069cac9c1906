"""Columns of the cluster overview, made from the cluster state.

A snapshot of 10,000 nodes with 8 GPUs each is made every second. So rows of nodes are made again only when
the node's description or its last heartbeat is another object, owners of attempts only when a slot holds
another job; the rest is arithmetic on the arrays that plans are made with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tgpu.control.series_book import SeriesBook
from tgpu.core.columns.table import Table
from tgpu.core.kernel.shapes import WHOLE
from tgpu.core.picture import Picture, Place
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Job
from tgpu.domain.node import Node, as_counted
from tgpu.domain.overview import (
    NO_HOLDER,
    NODE_STATES,
    UNKNOWN,
    ClusterOverview,
    DeviceState,
    DeviceTable,
    NodeFlag,
    NodeTable,
    NodeTerms,
    Owner,
    OwnerJobs,
    Waits,
)
from tgpu.domain.priority import TERMS, PriorityClass
from tgpu.protocol.messages import NodeUse

MANY_PENDING = 20_000
"""From this many pending tasks on, queues are counted every MANY_PENDING_MS only."""
MANY_PENDING_MS = 5_000
MOST_OWNERS = 10_000
"""Owners are numbered as they come; then numbering begins again."""
CLASSES = tuple(PriorityClass)
MOST_STALE_NAMES = 1000
"""Names of pools and GPU models that no node has any more, until they are numbered again."""
_LARGEST = int(np.iinfo(np.int16).max)
"""Of columns that are sent as 16-bit numbers: a node may claim any device index and any number of models."""
_STATE_NUMBERS = {state: number for number, state in enumerate(NODE_STATES)}
_RANKS = {name: TERMS[name].rank for name in CLASSES}

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of agents: their last measurements, and when each was last heard, on the loop's clock."""

    use: Mapping[str, NodeUse]
    at: Mapping[str, float]
    now: float


class OverviewColumns:
    """Keeps what it has made for the next snapshot of the same cluster state."""

    def __init__(self) -> None:
        self._picture: Picture | None = None
        self._table: Table
        self._names: list[str] = []

    def make(
        self, picture: Picture, series: SeriesBook, heard: Heard, now_ms: int, *, terms: bool = False
    ) -> ClusterOverview:
        self._follow(picture)
        self._describe()
        self._measure(heard, now_ms)
        nodes, devices = self._node_table(now_ms), self._device_table()
        self._count_jobs(series, now_ms)
        return ClusterOverview(
            at_ms=now_ms,
            nodes=nodes,
            devices=devices,
            owners=list(self._owners),
            waits=self._waits,
            jobs=self._jobs,
            terms=[_terms(self._nodes[row]) for row in self._order.tolist()] if terms else None,
        )

    # Rows of nodes

    def _follow(self, picture: Picture) -> None:
        """Begins again where rows have moved, or arrays were laid out again."""
        columns = picture.table.nodes
        known = self._picture is picture and self._table is picture.table
        if not known or len(self._owners) > MOST_OWNERS:
            self._picture, self._table = picture, picture.table
            self._owners: dict[Owner, int] = {}
            self._of_attempts, self._of_waiting = _Slots(), _Slots()
            self._waits: list[Waits] = []
            self._jobs: list[OwnerJobs] = []
            self._counted_ms = 0
            self._running_version = -1
        elif self._names == columns.names:
            return
        self._names = list(columns.names)
        count, most = columns.gpu_free.shape
        self._places: list[Place] = [picture.places[name] for name in self._names]
        self._uses: list[NodeUse | None] = [None] * count
        self._silent: dict[str, tuple[float, int]] = {}
        self._order = np.array(sorted(range(count), key=lambda row: as_counted(self._names[row])), np.int64)
        self._number_names()
        self._pool, self._state = np.zeros(count, np.int16), np.zeros(count, np.int8)
        self._drained = np.zeros(count, np.bool_)
        self._count = np.zeros(count, np.uint8)
        self._total = np.zeros((2, count), np.int64)
        self._used = np.full((2, count), UNKNOWN, np.int64)
        self._model, self._index = np.zeros((count, most), np.int16), np.zeros((count, most), np.int16)
        self._health = np.zeros((count, most), np.int8)
        self._busy = np.full((count, most), UNKNOWN, np.int8)

    def _number_names(self) -> None:
        """Pools and GPU models are numbered as they come: nodes that change theirs leave numbers behind."""
        self._pools: dict[str, int] = {}
        self._models: dict[str, int] = {}
        nodes = [place.node for place in self._places]
        in_use = {node.pool for node in nodes} | {
            each.model for node in nodes for each in node.capacity.devices
        }
        self._most_names = len(in_use) + MOST_STALE_NAMES
        self._nodes: list[Node | None] = [None] * len(nodes)

    def _describe(self) -> None:
        if len(self._pools) + len(self._models) > self._most_names:
            self._number_names()
        nodes = self._table.nodes.nodes
        for row in [row for row, node in enumerate(nodes) if node is not self._nodes[row]]:
            node = self._nodes[row] = nodes[row]
            self._pool[row] = min(self._pools.setdefault(node.pool, len(self._pools)), _LARGEST)
            self._state[row] = _STATE_NUMBERS[node.state]
            self._drained[row] = node.drain is not None
            devices = node.capacity.devices
            self._count[row] = len(devices)
            self._total[:, row] = node.capacity.cpu_milli, node.capacity.memory_mib
            for position, device in enumerate(devices):
                model = self._models.setdefault(device.model, len(self._models))
                self._model[row, position] = min(model, _LARGEST)
                self._index[row, position] = min(device.index, _LARGEST)
                healthy = DeviceState.EXTERNAL if device.avoided or device.foreign else DeviceState.HEALTHY
                self._health[row, position] = healthy if device.healthy else DeviceState.UNHEALTHY

    def _measure(self, heard: Heard, now_ms: int) -> None:
        uses = [heard.use.get(name) for name in self._names]
        for row in [row for row, use in enumerate(uses) if use is not self._uses[row]]:
            use = self._uses[row] = uses[row]
            self._busy[row] = UNKNOWN
            if use is None:
                self._used[:, row] = UNKNOWN
                continue
            self._used[:, row] = use.cpu_milli, use.memory_mib
            percent = use.gpu_percent[: self._count.item(row)]
            self._busy[row, : len(percent)] = [
                UNKNOWN if each is None else min(each, 100) for each in percent
            ]
        self._connected = np.array([place.reachable for place in self._places], np.bool_)
        silent = {}
        for row in np.flatnonzero(~self._connected).tolist():
            name = self._names[row]
            at = heard.at.get(name, heard.now)
            known = self._silent.get(name)
            unchanged = known is not None and (known[0] == at or name not in heard.at)
            silent[name] = known if known and unchanged else (at, now_ms - round(1000 * (heard.now - at)))
        self._silent = silent

    # Tables

    def _node_table(self, now_ms: int) -> NodeTable:
        columns, order = self._table.nodes, self._order
        flags = self._drained * np.uint8(NodeFlag.DRAINED)
        flags |= ~self._connected * np.uint8(NodeFlag.DISCONNECTED)
        flags |= np.array([bool(place.shortage) for place in self._places], np.bool_) * np.uint8(
            NodeFlag.DISK_FULL
        )
        flags |= self._windows(now_ms)
        self._flags = flags
        allocated = np.maximum(columns.capacity[:, :2] - columns.free[:, :2], 0).T
        used = np.where(self._connected, self._used, UNKNOWN)
        since = np.zeros(len(order), np.int64)
        for name, (_, since_ms) in self._silent.items():
            since[columns.row(name)] = since_ms
        return NodeTable(
            names=[self._names[row] for row in order.tolist()],
            pools=list(self._pools),
            pool=self._pool[order].tobytes(),
            state=self._state[order].tobytes(),
            flags=flags[order].tobytes(),
            devices=self._count[order].tobytes(),
            cpu_milli=self._total[0][order].tobytes(),
            cpu_allocated_milli=allocated[0][order].tobytes(),
            cpu_used_milli=used[0][order].tobytes(),
            memory_mib=self._total[1][order].tobytes(),
            memory_allocated_mib=allocated[1][order].tobytes(),
            memory_used_mib=used[1][order].tobytes(),
            silent_since_ms=since[order].tobytes(),
        )

    def _windows(self, now_ms: int) -> Array:
        """Of every node: the flags of windows that are open on it."""
        assert self._picture is not None
        flags = np.zeros(len(self._names), np.uint8)
        columns = self._table.nodes
        for window in self._picture.windows:
            if window.from_ms <= now_ms < window.until_ms:
                flag = NodeFlag.MAINTENANCE if window.tenant_id is None else NodeFlag.RESERVED
                rows = [columns.row(name) for name in window.node_ids if columns.known(name)]
                flags[rows] |= np.uint8(flag)
        return flags

    def _device_table(self) -> DeviceTable:
        columns, order = self._table.nodes, self._order
        count, most = columns.gpu_free.shape
        there = (np.arange(most) < self._count[:, None])[order]
        kept = (self._flags & (NodeFlag.RESERVED | NodeFlag.MAINTENANCE)) > 0
        state = np.where(
            (self._health == DeviceState.HEALTHY) & kept[:, None], DeviceState.RESERVED, self._health
        )
        busy = np.where(self._connected[:, None], self._busy, UNKNOWN)
        holder, job = self._holders(count, most)

        def flat(values: Array, kind: type) -> bytes:
            return values[order][there].astype(kind, copy=False).tobytes()

        return DeviceTable(
            models=list(self._models),
            model=flat(self._model, np.int16),
            index=flat(self._index, np.int16),
            state=flat(state, np.int8),
            allocated_milli=flat(np.clip(WHOLE - columns.gpu_free, 0, WHOLE), np.int16),
            busy=flat(busy, np.int8),
            holder=flat(holder, np.int32),
            job=flat(job, np.int64),
        )

    def _holders(self, count: int, most: int) -> tuple[Array, Array]:
        """Of a device that several jobs share, the one with the largest part; of equals, the oldest."""
        attempts = self._table.attempts
        slots = attempts.all_slots()
        shared = attempts.milli[slots] < WHOLE
        if shared.any():
            parts = slots[shared]
            parts = parts[np.lexsort((-attempts.job[parts], attempts.milli[parts]))]
            slots = np.concatenate([slots[~shared], parts])
        owners = self._attempt_owners(slots)
        jobs, rows, masks = attempts.job[slots], attempts.node[slots], attempts.devices[slots]
        holder, job = np.full((count, most), NO_HOLDER, np.int32), np.zeros((count, most), np.int64)
        for position in range(most):
            here = (masks >> position) & 1 == 1
            holder[rows[here], position] = owners[here]
            job[rows[here], position] = jobs[here]
        return holder, job

    # Owners

    def _attempt_owners(self, slots: Array) -> Array:
        assert self._picture is not None
        columns, known, placed = self._table.attempts, self._of_attempts, self._picture.placed
        for slot in known.changed(slots, columns.job):
            task = placed[TaskId(columns.job.item(slot), columns.task.item(slot))].task
            known.set(slot, columns.job.item(slot), self._owner(task.user, task.tenant_id))
        return known.owner[slots]

    def _waiting_owners(self, slots: Array) -> Array:
        columns, known = self._table.waiting, self._of_waiting
        for slot in known.changed(slots, columns.job):
            task = columns.task(slot)
            owner = self._owner(task.user, task.tenant_id)
            known.set(slot, columns.job.item(slot), owner, _RANKS[task.priority_class])
        return known.owner[slots]

    def _owner(self, user: str, tenant_id: str) -> int:
        return self._owners.setdefault(Owner(user, tenant_id), len(self._owners))

    # Queues

    def _count_jobs(self, series: SeriesBook, now_ms: int) -> None:
        assert self._picture is not None
        picture, waiting = self._picture, self._table.waiting
        if len(waiting) >= MANY_PENDING and 0 <= now_ms - self._counted_ms < MANY_PENDING_MS:
            return
        self._counted_ms = now_ms
        slots = np.fromiter(waiting.slot_of.values(), np.int64, len(waiting))
        owners = self._waiting_owners(slots)
        ranks, weights = self._of_waiting.rank[slots], np.ones(len(slots), np.int64)
        submitted = waiting.submitted_ms[slots]
        arrays = _unmaterialized(series)
        later = [
            (
                self._owner(job.spec.user, job.spec.tenant_id),
                _RANKS[job.spec.priority_class],
                tasks,
                job.submitted_ms,
            )
            for job, tasks in arrays
        ]
        if later:
            more = np.array(later, np.int64).T
            owners, ranks = np.concatenate([owners, more[0]]), np.concatenate([ranks, more[1]])
            weights, submitted = np.concatenate([weights, more[2]]), np.concatenate([submitted, more[3]])
        by_class = _waits(ranks, np.full(len(ranks), -1), weights, submitted)
        self._waits = by_class + _waits(ranks, owners, weights, submitted)
        jobs = np.concatenate([waiting.job[slots], np.array([job.job_id for job, _ in arrays], np.int64)])
        pending = _first_of_each(jobs, owners)
        held = [
            (task.task_id.job_id, self._owner(task.user, task.tenant_id))
            for task in picture.parked.one_of_each_job()
        ]
        parked = np.array(held, np.int64).reshape(-1, 2).T
        self._jobs = _tally(self._running(), pending, (parked[0], parked[1]), len(self._owners))

    def _running(self) -> "Jobs":
        assert self._picture is not None
        if self._running_version != self._picture.version:
            self._running_version = self._picture.version
            slots = self._table.attempts.all_slots()
            self._running_jobs = _first_of_each(
                self._table.attempts.job[slots], self._of_attempts.owner[slots]
            )
        return self._running_jobs


Jobs = tuple[Array, Array]
"""Numbers of jobs, each once, and their owners."""


class _Slots:
    """Owners (and classes) of slots that are used again, each as long as it holds a task of the same job."""

    def __init__(self) -> None:
        self._job, self.owner = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.rank = np.zeros(0, np.int8)

    def changed(self, slots: Array, jobs: Array) -> list[int]:
        missing = len(jobs) - len(self._job)
        if missing > 0:
            self._job = np.concatenate([self._job, np.zeros(missing, np.int64)])
            self.owner = np.concatenate([self.owner, np.zeros(missing, np.int32)])
            self.rank = np.concatenate([self.rank, np.zeros(missing, np.int8)])
        found: list[int] = slots[self._job[slots] != jobs[slots]].tolist()
        return found

    def set(self, slot: int, job_id: int, owner: int, rank: int = 0) -> None:
        self._job[slot], self.owner[slot], self.rank[slot] = job_id, owner, rank


def _unmaterialized(series: SeriesBook) -> list[tuple[Job, int]]:
    """Array jobs with tasks that have no rows yet and are not on hold, and how many."""
    found = []
    for entry in series:
        timing = entry.job.timing
        if entry.end is None and not (timing is not None and timing.is_parked) and (tasks := entry.to_come):
            found.append((entry.job, tasks))
    return found


def _waits(ranks: Array, owners: Array, weights: Array, submitted: Array) -> list[Waits]:
    """By class and owner, with the weighted median."""
    if not len(ranks):
        return []
    order = np.lexsort((submitted, owners, ranks))
    ranks, owners, weights, submitted = ranks[order], owners[order], weights[order], submitted[order]
    begins = np.flatnonzero(
        np.diff(ranks, prepend=-1).astype(np.bool_) | np.diff(owners, prepend=-2).astype(np.bool_)
    )
    found = []
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(ranks)], strict=True):
        sums = np.cumsum(weights[begin:end])
        middle = begin + int(np.searchsorted(sums, (int(sums[-1]) + 1) // 2))
        priority_class = CLASSES[ranks.item(begin)]
        times = submitted.item(begin), submitted.item(middle)
        found.append(Waits(priority_class, owners.item(begin), int(sums[-1]), *times))
    return found


def _first_of_each(jobs: Array, owners: Array) -> Jobs:
    found, first = np.unique(jobs, return_index=True)
    return found, owners[first]


def _tally(running: Jobs, pending: Jobs, held: Jobs, owners: int) -> list[OwnerJobs]:
    """A job with a task on a node runs, whatever else of it waits."""
    waits = ~np.isin(pending[0], running[0])
    rests = ~(np.isin(held[0], running[0]) | np.isin(held[0], pending[0]))
    counts = np.stack(
        [
            np.bincount(each.astype(np.int64), minlength=owners)
            for each in (running[1], pending[1][waits], held[1][rests])
        ],
        axis=1,
    )
    return [
        OwnerJobs(owner, *counts[owner].tolist()) for owner in np.flatnonzero(counts.any(axis=1)).tolist()
    ]


def _terms(node: Node) -> NodeTerms:
    if node.drain is None:
        return NodeTerms(node.labels, node.taints, node.serves)
    drain = node.drain
    return NodeTerms(node.labels, node.taints, node.serves, drain.reason, drain.by, drain.since_ms)
