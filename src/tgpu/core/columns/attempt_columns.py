"""Attempts as rows: who holds what, until when."""

from collections.abc import Callable, Mapping

import numpy as np

from tgpu.core.columns.growing import with_room
from tgpu.core.columns.verdict import RANKS
from tgpu.core.kernel.shapes import Attempts, Flags, Ints, Small

Column = Ints | Small | Flags
MOST_TASKS = 2**23
"""Of one job: so that job and task make one number."""


class AttemptColumns:
    """Rows are slots that are used again; `arrays` sorts those in use by node and estimated end."""

    def __init__(self) -> None:
        self._free_slots: list[int] = []
        self._used = 0
        self._per_rank = [0] * RANKS
        self.live = np.zeros(0, dtype=np.bool_)
        self.node = np.zeros(0, dtype=np.int32)
        self.kind = np.zeros(0, dtype=np.int32)
        self.start_ms = np.zeros(0, dtype=np.int64)
        self.limit_ms = np.zeros(0, dtype=np.int64)
        self.stop_ms = np.zeros(0, dtype=np.int64)
        """When it is gone at the latest, if it is being stopped; else 0."""
        self.rank = np.zeros(0, dtype=np.int32)
        self.gang = np.zeros(0, dtype=np.bool_)
        self.job = np.zeros(0, dtype=np.int64)
        self.task = np.zeros(0, dtype=np.int32)
        self.devices = np.zeros(0, dtype=np.int64)
        self.milli = np.zeros(0, dtype=np.int32)
        self.running = np.zeros(0, dtype=np.bool_)
        self.saved_ms = np.zeros(0, dtype=np.int64)
        """Its last checkpoint, or 0."""

    def new_slot(self, rank: int) -> int:
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot, self._used = self._used, self._used + 1
            if slot >= len(self.live):
                for name in _COLUMNS:
                    setattr(self, name, with_room(getattr(self, name), self._used))
        self.live[slot] = True
        self.rank[slot] = rank
        self._per_rank[rank] += 1
        self.stop_ms[slot] = 0
        return slot

    def free(self, slot: int) -> int:
        """The rank it had."""
        rank = self.rank.item(slot)
        self.live[slot] = False
        self._per_rank[rank] -= 1
        self._free_slots.append(slot)
        return rank

    def any_below(self, rank: int) -> bool:
        """Whether anybody ranks below this."""
        return any(self._per_rank[rank + 1 :])

    def row_inserted(self, row: int) -> None:
        self.node[self.node >= row] += 1

    def row_removed(self, row: int) -> None:
        self.node[self.node > row] -= 1

    def all_slots(self) -> Small:
        return np.flatnonzero(self.live[: self._used]).astype(np.int32)

    def slots_on(self, nodes: list[int]) -> Small:
        nodes_of = self.node[: self._used]
        there = nodes_of == nodes[0] if len(nodes) == 1 else np.isin(nodes_of, nodes)
        here = self.live[: self._used] & there
        return np.flatnonzero(here).astype(np.int32)

    def arrays(
        self,
        slots: Small,
        *,
        nodes: int,
        now_ms: int,
        min_run_ms: int,
        stopping: Mapping[int, int],
        started: Mapping[str, Column],
        sort: Callable[[Small, Ints, Ints, Small, Small, Ints], None],
    ) -> tuple[Attempts, Small]:
        """The attempts in these slots as the kernel reads them, and the slot of each.

        On top of what is: `stopping` attempts (by slot) are gone by then, and `started` ones (as columns)
        have begun; these have slot -1 and are nobody's victims.
        """
        more = len(started["node"])
        column = {name: getattr(self, name)[slots] for name in _STARTED}
        if more:
            column = {name: np.concatenate([column[name], started[name]]) for name in _STARTED}
        stop_ms = np.concatenate([self.stop_ms[slots], np.zeros(more, dtype=np.int64)])
        for slot, gone_ms in stopping.items():
            stop_ms[: len(slots)][slots == slot] = gone_ms
        end_ms = estimated_ends(column["start_ms"], column["limit_ms"], stop_ms, now_ms)
        by_id = np.argsort(column["job"] * MOST_TASKS + column["task"], kind="stable")  # mostly sorted
        order, begin = np.empty(len(by_id), dtype=np.int64), np.empty(nodes + 1, dtype=np.int32)
        sort(column["node"], end_ms, by_id, begin, np.zeros(nodes, dtype=np.int32), order)
        saved_ms = np.concatenate([self.saved_ms[slots], np.zeros(more, dtype=np.int64)])
        since_ms = np.maximum(saved_ms, column["start_ms"])  # an attempt before may have saved it
        cost = np.where(saved_ms > 0, now_ms - since_ms, end_ms - now_ms)
        had_its_time = self.running[slots] & (now_ms - self.start_ms[slots] >= min_run_ms)
        stoppable = np.zeros(len(slots) + more, dtype=np.bool_)
        stoppable[: len(slots)] = had_its_time | (min_run_ms == 0)
        stoppable &= stop_ms == 0
        arrays = Attempts(
            begin,
            column["kind"][order],
            end_ms[order],
            column["rank"][order],
            _units(column["job"], column["gang"], by_id)[order],
            column["devices"][order],
            column["milli"][order],
            cost[order],
            stoppable[order],
        )
        return arrays, np.concatenate([slots, np.full(more, -1, dtype=np.int32)])[order]


def stopped(attempts: Attempts, slots: Small, stopping: Mapping[int, int]) -> tuple[Attempts, Small]:
    """The same attempts when these (by slot) are to be gone by then: only their nodes are sorted again."""
    attempts = Attempts._make([attempts.begin, *(column.copy() for column in attempts[1:])])
    slots = slots.copy()
    rows = np.flatnonzero(np.isin(slots, list(stopping)))
    for row in rows.tolist():
        attempts.end_ms[row] = min(int(attempts.end_ms[row]), stopping[int(slots[row])])
        attempts.stoppable[row] = False
    for node in np.unique(np.searchsorted(attempts.begin, rows, side="right") - 1).tolist():
        here = slice(int(attempts.begin[node]), int(attempts.begin[node + 1]))
        order = np.lexsort((attempts.unit[here], attempts.end_ms[here]))
        for column in (*attempts[1:], slots):
            column[here] = column[here][order]
    return attempts, slots


def estimated_ends(start_ms: Ints, limit_ms: Ints, stop_ms: Ints, now_ms: int) -> Ints:
    """A limit that has passed counts twice, four times, … until it has not."""
    limit_ms = np.maximum(limit_ms, 1)
    end_ms = start_ms + limit_ms
    late = end_ms <= now_ms
    if late.any():
        periods = (now_ms - start_ms[late]) // limit_ms[late]
        doublings = np.frompyfunc(int.bit_length, 1, 1)(periods).astype(np.int64)
        end_ms[late] = start_ms[late] + (limit_ms[late] << doublings)
    return np.where(stop_ms > 0, np.minimum(end_ms, np.maximum(stop_ms, now_ms + 1)), end_ms)


def _units(job: Ints, gang: Flags, by_id: Ints) -> Small:
    """Numbered in the order of jobs and tasks; the tasks of one gang have one number."""
    job, gang = job[by_id], gang[by_id]
    begins = np.ones(len(job), dtype=np.bool_)
    begins[1:] = ~gang[1:] | (job[1:] != job[:-1])
    units = np.empty(len(job), dtype=np.int32)
    units[by_id] = np.cumsum(begins) - 1
    return units


_STARTED = ("node", "kind", "start_ms", "limit_ms", "rank", "gang", "job", "task", "devices", "milli")
_COLUMNS = (*_STARTED, "live", "stop_ms", "running", "saved_ms")
