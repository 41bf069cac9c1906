"""What would be if the plan so far were carried out; the picture stays as it is."""

from collections.abc import Mapping

import numpy as np

from tgpu.core.columns.attempt_columns import stopped
from tgpu.core.columns.verdict import RANKS
from tgpu.core.engine import Engine
from tgpu.core.kernel.best_node import BLOCK
from tgpu.core.kernel.shapes import (
    NEVER,
    Attempts,
    Flags,
    Index,
    Ints,
    Nodes,
    Small,
    Special,
    Started,
)
from tgpu.core.picture import Picture
from tgpu.core.policy import Policy
from tgpu.core.refusals import Refused


class Paper:
    """Copies of what a plan changes, and what is decided so far."""

    def __init__(self, picture: Picture, policy: Policy, engine: Engine) -> None:
        table = picture.table
        self.picture, self.policy, self.engine, self.table = picture, policy, engine, table
        self.now_ms = picture.now_ms
        self.kinds = table.kinds.arrays()
        self.layouts = table.nodes.layouts()
        self.nodes = own_nodes(table.nodes.arrays())
        self.tree = table.tree(picture.now_ms)
        self.short: Ints = np.full(len(table.tenants.row_of), NEVER, dtype=np.int64)
        """See `Stream.short`: in all classes."""
        self.refused = Refused(table, len(self.kinds.gpus))
        self.waiting = table.waiting.arrays()
        self.cluster_free = table.cluster_free.copy()
        self.special = _no_special(self.nodes)
        waiting, count = len(self.waiting.kind), len(self.nodes.takes)
        self.index = self.new_index(len(self.kinds.gpus), 2 * waiting + 4 * count + 16)
        self.started = _nothing_started(waiting + 1)
        self.stopping: dict[int, int] = {}
        """Attempts (by slot) that this plan stops, and when they are gone."""
        self._ranks: list[tuple[int, int]] = []
        self._attempts: tuple[tuple[int, int], Attempts, Small] | None = None
        self._before: tuple[Attempts, Small] | None = None

    def new_index(self, rows: int, log: int) -> Index:
        count = len(self.nodes.takes)
        return Index(
            np.empty((rows, count), dtype=np.float64),
            np.empty((rows, (count + BLOCK - 1) // BLOCK), dtype=np.float64),
            np.empty((rows, count), dtype=np.bool_),
            np.full(rows, -1, dtype=np.int64),
            np.empty(log, dtype=np.int32),
            np.zeros(1, dtype=np.int64),
            self.table.mix.kinds,
            self.table.mix.weights,
        )

    def own_nodes(self) -> Nodes:
        """A copy to try things on that may come to nothing."""
        return own_nodes(self.nodes)

    def tenant_row(self, slot: int) -> int:
        return int(self.table.tenants.row_of[self.waiting.tenant[slot]])

    def end_ms(self, slot: int) -> int:
        return self.now_ms + int(self.waiting.limit_ms[slot])

    def enter_class(self, rank: int) -> None:
        """What is started from now on is of this class."""
        self._ranks.append((int(self.started.filled[0]), rank))

    def new_amounts(self) -> Ints:
        return np.zeros(self.table.dimensions.of_tenants, dtype=np.int64)

    def new_quota(self) -> Ints:
        return np.zeros(self.tree.limit.shape[1], dtype=np.int64)

    def note_change(self, row: int) -> None:
        self.engine.note_change(row, self.index)

    # Time

    def attempts(self) -> tuple[Attempts, Small]:
        """Everybody who holds something by now, sorted; with their slots, -1 for who starts in this plan."""
        key = (int(self.started.filled[0]), len(self.stopping))
        if self._attempts is None or self._attempts[0] != key:
            if key[0]:
                every = self.table.attempts.all_slots()
                found = self._arrays(every, self.stopping, np.arange(key[0]))
            else:
                found = stopped(*self.attempts_before(), self.stopping)
            self._attempts = (key, *found)
        return self._attempts[1], self._attempts[2]

    def attempts_on(self, rows: list[int]) -> Attempts:
        """Like `attempts`, of these nodes only."""
        count = int(self.started.filled[0])
        started = np.flatnonzero(np.isin(self.started.node[:count], rows)) if count else np.arange(0)
        slots = self.table.attempts.slots_on(rows)
        stopping = {slot: at_ms for slot, at_ms in self.stopping.items() if slot in slots}
        return self._arrays(slots, stopping, started)[0]

    def attempts_before(self) -> tuple[Attempts, Small]:
        """Everybody who held something when the plan began."""
        if self._before is None:
            self._before = self._arrays(self.table.attempts.all_slots(), {}, np.arange(0))
        return self._before

    def _arrays(self, slots: Small, stopping: Mapping[int, int], started: Ints) -> tuple[Attempts, Small]:
        return self.table.attempts.arrays(
            slots,
            nodes=len(self.nodes.takes),
            now_ms=self.now_ms,
            min_run_ms=1000 * self.policy.min_run_s,
            stopping=stopping,
            started=self._as_columns(started),
            sort=self.engine.sort_by_node,
        )

    def _as_columns(self, started: Ints) -> dict[str, Ints | Small | Flags]:
        """These starts of the plan in the form of attempts."""
        count = len(started)
        slots, kinds = self.started.slot[started], self.started.kind[started]
        nodes, devices = self.started.node[started], self.started.devices[started]
        tasks = self.table.waiting
        first = np.zeros(count, dtype=np.int64)
        first[devices > 0] = np.log2(devices[devices > 0] & -devices[devices > 0]).astype(np.int64)
        milli = np.zeros(count, dtype=np.int32)
        if self.kinds.device_need.shape[2]:
            milli = self.kinds.device_need[kinds, self.nodes.layout[nodes], first]
        return {
            "node": nodes,
            "kind": kinds,
            "start_ms": np.full(count, self.now_ms, dtype=np.int64),
            "limit_ms": self.waiting.limit_ms[slots],
            "rank": self._ranks_of(int(self.started.filled[0]))[started],
            "gang": tasks.in_gang[slots],
            "job": tasks.job[slots],
            "task": tasks.task_index[slots],
            "devices": devices,
            "milli": milli,
        }

    def _ranks_of(self, count: int) -> Small:
        ranks = np.zeros(count, dtype=np.int32)
        for begin, rank in self._ranks:
            ranks[begin:] = rank
        return ranks


class Reserved:
    """What reservations hold on each node; nodes without any are not touched."""

    def __init__(self, nodes: Nodes) -> None:
        self.amounts: Ints = np.zeros(nodes.free.shape, dtype=np.int64)
        self.gpu: Small = np.zeros(nodes.gpu_free.shape, dtype=np.int32)
        self.some: Flags = np.zeros(len(nodes.takes), dtype=np.bool_)
        self.tasks: Small = np.zeros(len(nodes.takes), dtype=np.int32)
        self.alone: Flags = np.zeros(len(nodes.takes), dtype=np.bool_)
        self.at: dict[int, list[tuple[int, int, int]]] = {}
        """By node: (moment, kind, devices) of every task that is to start there."""


def nothing_blocked(kinds: int) -> Ints:
    return np.full((RANKS, kinds), NEVER, dtype=np.int64)


def own_nodes(nodes: Nodes) -> Nodes:
    return Nodes(
        nodes.free.copy(),
        nodes.capacity,
        nodes.gpu_free.copy(),
        nodes.gpu_sum.copy(),
        nodes.tasks.copy(),
        nodes.alone.copy(),
        nodes.takes,
        nodes.kind,
        nodes.layout,
    )


def _no_special(nodes: Nodes) -> Special:
    count = len(nodes.takes)
    return Special(
        np.zeros(count, dtype=np.bool_),
        np.zeros(count, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
        np.full(count, NEVER, dtype=np.int64),
        np.zeros(nodes.free.shape, dtype=np.int64),
        np.zeros(nodes.gpu_free.shape, dtype=np.int32),
        np.zeros(count, dtype=np.bool_),
        np.full(count, NEVER, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
        np.zeros(0, dtype=np.int64),
        np.zeros(0, dtype=np.int32),
        np.zeros(nodes.gpu_free.shape[1], dtype=np.int32),
    )


def _nothing_started(most: int) -> Started:
    return Started(
        np.empty(most, dtype=np.int32),
        np.empty(most, dtype=np.int32),
        np.empty(most, dtype=np.int32),
        np.empty(most, dtype=np.int64),
        np.empty(most, dtype=np.int32),
        np.zeros(1, dtype=np.int64),
    )
