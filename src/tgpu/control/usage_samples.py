"""Usage samples: what agents measured, once a minute for the last 24 hours, of each node and of the cluster.

They are kept in memory only, and end with the leader's term: the next leader begins again. A sample is three
bytes, so that 10,000 nodes take 43 MB for a whole day.
"""

from collections.abc import Mapping, Sequence
from math import isnan

import numpy as np

from tgpu.domain.node import Node
from tgpu.domain.utilization import MeasuredSteps
from tgpu.protocol.messages import NodeUse

STEP_MS = 60_000
STEPS = 24 * 60
_UNKNOWN = 255
_FULL = 250
"""A node that uses all of its CPUs or memory; GPUs are in half percents, too."""
_CPU, _MEMORY, _GPU = range(3)


class UsageSamples:
    """A ring of minutes; `[minute, what, node]`."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._free_rows: list[int] = []
        self._shares = np.full((STEPS, 3, 0), _UNKNOWN, np.uint8)
        self._sums = np.full((STEPS, 3), np.nan)
        """Of the cluster: milli-CPUs, MiB, and the average of busy GPUs in percent."""
        self._last = -1
        """The minute of the last sample, since 1970."""
        self._first = -1

    def take(self, now_ms: int, nodes: Sequence[Node], use: Mapping[str, NodeUse]) -> None:
        """At most one a minute. `nodes`: those whose agents are connected."""
        minute = now_ms // STEP_MS
        if minute <= self._last:
            return
        self._skip_to(minute)
        self._keep_rows({node.node_id for node in nodes})
        at = minute % STEPS
        cpu = memory = busy = devices = 0
        for node in nodes:
            used = use.get(node.node_id)
            if used is None:
                continue
            row, has = self._rows[node.node_id], node.capacity
            percent = [each for each in used.gpu_percent if each is not None]
            cpu, memory = cpu + used.cpu_milli, memory + used.memory_mib
            busy, devices = busy + sum(percent), devices + len(percent)
            self._shares[at, _CPU, row] = _share(used.cpu_milli, has.cpu_milli)
            self._shares[at, _MEMORY, row] = _share(used.memory_mib, has.memory_mib)
            if percent:
                self._shares[at, _GPU, row] = _share(sum(percent), 100 * len(percent))
        self._sums[at] = cpu, memory, busy / devices if devices else np.nan

    def since(self, from_ms: int, node: Node | None = None) -> MeasuredSteps:
        """From that minute on, or from the first sample: of a node, or of the cluster."""
        if self._last < 0:
            return MeasuredSteps()
        first = max(from_ms // STEP_MS, self._first, self._last - STEPS + 1)
        minutes = np.arange(first, self._last + 1)
        if node is None:
            values = self._sums[minutes % STEPS]
        elif (row := self._rows.get(node.node_id)) is None:
            return MeasuredSteps()
        else:
            shares = self._shares[minutes % STEPS, :, row].astype(np.float64)
            shares[shares == _UNKNOWN] = np.nan
            values = shares / _FULL * [node.capacity.cpu_milli, node.capacity.memory_mib, 100]
        cpu, memory, busy = (
            [None if isnan(each) else each for each in column] for column in values.T.tolist()
        )
        return MeasuredSteps(
            from_ms=int(first) * STEP_MS,
            step_ms=STEP_MS,
            cpu_milli=[None if each is None else round(each) for each in cpu],
            memory_mib=[None if each is None else round(each) for each in memory],
            gpu_busy_percent=[None if each is None else round(each, 1) for each in busy],
        )

    def _skip_to(self, minute: int) -> None:
        if self._last < 0 or minute - self._last > STEPS:
            self._first = minute
            self._last = minute - 1
        for missed in range(self._last + 1, minute + 1):
            self._shares[missed % STEPS] = _UNKNOWN
            self._sums[missed % STEPS] = np.nan
        self._last = minute

    def _keep_rows(self, names: set[str]) -> None:
        """Rows of nodes that are gone for good would only be found by their names: they are used again once
        all of their samples are unknown."""
        new = [name for name in names if name not in self._rows]
        if not new:
            return
        if len(new) > self._shares.shape[2] - len(self._rows):
            self._forget_silent(names)
        missing = len(new) - (self._shares.shape[2] - len(self._rows))
        if missing > 0:
            more = max(missing, self._shares.shape[2] // 4, 16)
            added = np.full((STEPS, 3, more), _UNKNOWN, np.uint8)
            begin = self._shares.shape[2]
            self._shares = np.concatenate([self._shares, added], axis=2)
            self._free_rows += range(begin, begin + more)
        for name in new:
            self._rows[name] = self._free_rows.pop()

    def _forget_silent(self, names: set[str]) -> None:
        """But not these, which are connected."""
        silent = (self._shares == _UNKNOWN).all(axis=(0, 1))
        for name in [name for name, row in self._rows.items() if silent[row] and name not in names]:
            self._free_rows.append(self._rows.pop(name))


def _share(used: int, whole: int) -> int:
    return min(_FULL, round(_FULL * used / whole)) if whole else _UNKNOWN
