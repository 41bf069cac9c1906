"""Nodes of a scenario: what is free on each, what runs there, and what fits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tgpu.core.estimates.model import KindFacts, Model, Run, Unit
from tgpu.core.kernel.shapes import WHOLE

T = TypeVar("T")
_BREATHE_ROWS = 200
_CANDIDATE_NODES = 8
"""Where a reservation is looked for: the emptiest nodes that suit."""


@dataclass(slots=True)
class NodeState:
    free: list[int]
    devices: list[int]
    tasks: int
    alone: int
    runs: dict[int, Run] | None = None

    def release(self, run: Run) -> None:
        for column, amount in run.kind.need:
            self.free[column] += amount
        for device in run.devices:
            self.devices[device] += run.milli
        self.tasks -= 1
        self.alone -= run.kind.exclusive

    def trial(self) -> "NodeState":
        return NodeState(self.free.copy(), self.devices.copy(), self.tasks, self.alone)


class TrialNodes:
    """States are made when a node is first looked at: most are not."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._layout: list[int] = model.snapshot.nodes.layout.tolist()
        self._states: dict[int, NodeState] = {}
        self.over = bytearray(len(model.snapshot.attempts.job))
        """By attempt of the snapshot: 1 once it has ended."""
        self.visited = 0
        """Nodes that were looked at for gangs: a gang is tried on all of them, which is most of the work."""

    def state(self, row: int) -> NodeState:
        state = self._states.get(row)
        if state is None:
            nodes = self._model.snapshot.nodes
            state = self._states[row] = NodeState(
                nodes.free[row].tolist(),
                nodes.gpu_free[row].tolist(),
                int(nodes.tasks[row]),
                int(nodes.alone[row]),
            )
        return state

    def runs(self, row: int) -> dict[int, Run]:
        """What is on a node, by number; built when it is first asked for."""
        state = self.state(row)
        if state.runs is None:
            model = self._model
            state.runs = {
                -1 - number: model.run_of(number)
                for number in model.by_row.get(row, ())
                if not self.over[number]
            }
        return state.runs

    def release(self, run: Run, number: int) -> None:
        """`number`: of the run on its node."""
        state = self.state(run.row)
        state.release(run)
        if state.runs is not None:
            state.runs.pop(number, None)

    def fits(self, kind: KindFacts, row: int, state: NodeState) -> bool:
        if not kind.able[row] or state.alone or (kind.exclusive and state.tasks):
            return False
        for column, amount in kind.need:
            if state.free[column] < amount:
                return False
        return not kind.gpus or self.idle(kind, row, state.devices) >= kind.gpus

    def idle(self, kind: KindFacts, row: int, devices: Sequence[int]) -> int:
        needs = kind.device_need[self._layout[row]]
        return sum(1 for need, left in zip(needs, devices, strict=True) if 0 < need <= left)

    def place(self, unit: Unit, row: int, now: float) -> Run:
        kind, state = self._model.kind(unit.kind), self.state(row)
        needs = kind.device_need[self._layout[row]]
        suitable = (
            [device for device, left in enumerate(state.devices) if 0 < needs[device] <= left]
            if kind.gpus
            else []
        )
        if kind.gpus == 1:
            suitable.sort(key=lambda device: state.devices[device])
        devices = tuple(suitable[: kind.gpus])
        milli = needs[devices[0]] if devices else 0
        for column, amount in kind.need:
            state.free[column] -= amount
        for device in devices:
            state.devices[device] -= milli
        state.tasks += 1
        state.alone += kind.exclusive
        run = Run(now + unit.limit_ms, kind, row, devices, milli, unit.tenant, unit.samples)
        if state.runs is not None:
            state.runs[id(run)] = run
        return run

    def slots(self, kind: KindFacts, row: int, state: NodeState) -> int:
        """How many such tasks fit on a node."""
        if not self.fits(kind, row, state):
            return 0
        if kind.exclusive:
            return 1
        rooms = [state.free[column] // amount for column, amount in kind.need]
        if kind.gpus:
            needs = kind.device_need[self._layout[row]]
            each = max(needs)
            if each >= WHOLE:
                rooms.append(self.idle(kind, row, state.devices) // kind.gpus)
            else:
                rooms.append(
                    sum(left // need for need, left in zip(needs, state.devices, strict=True) if need > 0)
                )
        return min(rooms, default=1)

    def emptiest(self, kind: KindFacts) -> list[int]:
        able = np.flatnonzero(np.frombuffer(kind.able, dtype=np.uint8))
        if len(able) <= _CANDIDATE_NODES:
            return [int(row) for row in able]
        column = kind.need[0][0] if kind.need else 0
        nodes = self._model.snapshot.nodes
        free = nodes.gpu_free[able].sum(axis=1) if kind.gpus else nodes.free[able, column]
        free = free.astype(np.int64)
        where = {int(row): at for at, row in enumerate(able.tolist())}
        for row, state in self._states.items():
            if row in where:
                free[where[row]] = sum(state.devices) if kind.gpus else state.free[column]
        chosen = np.argsort(-free, kind="stable")[:_CANDIDATE_NODES]
        return [int(able[at]) for at in chosen.tolist()]

    def first_fit(self, kind: KindFacts, row: int, now: float) -> tuple[float, list[int], list[int]] | None:
        """When it fits there if all tasks run into their limits; what is free by then, with devices."""
        trial, at = self.state(row).trial(), now
        for run in sorted(self.runs(row).values(), key=lambda each: each.limit_end):
            if self.fits(kind, row, trial):
                break
            at = max(at, run.limit_end)
            trial.release(run)
        return (at, trial.free, trial.devices) if self.fits(kind, row, trial) else None

    def after(self, runs: Sequence[Run]) -> dict[int, NodeState]:
        """Nodes on which these have ended."""
        trial: dict[int, NodeState] = {}
        for run in self._counted(runs):
            state = trial.get(run.row)
            if state is None:
                state = trial[run.row] = self.state(run.row).trial()
            state.release(run)
        return trial

    def all_runs(self, kind: KindFacts) -> list[Run]:
        """What is on the nodes that could run such a task."""
        return [run for row in self._counted(self.able(kind)) for run in self.runs(row).values()]

    def _counted(self, things: Sequence[T]) -> Iterator[T]:
        """One by one; other threads work in between."""
        for number, thing in enumerate(things):
            if not number % _BREATHE_ROWS:
                self._model.breathe()
            self.visited += 1
            yield thing

    def able(self, kind: KindFacts) -> list[int]:
        """The nodes that could run it when they are empty."""
        return [int(row) for row in np.flatnonzero(np.frombuffer(kind.able, dtype=np.uint8))]

    def rows_for_gang(self, unit: Unit, trial: dict[int, NodeState] | None = None) -> list[int] | None:
        """A node for each of its tasks, the emptiest first; None if there are too few."""
        kind = self._model.kind(unit.kind)
        rooms = []
        for row in self._counted(self.able(kind)):
            state = self.state(row) if trial is None else trial.get(row) or self.state(row)
            slots = self.slots(kind, row, state)
            if unit.per_node:
                slots = min(slots, unit.per_node)
            if slots:
                rooms.append((-slots, row))
        if -sum(slots for slots, _ in rooms) < unit.count:
            return None
        rows: list[int] = []
        for slots, row in sorted(rooms):
            rows += [row] * min(-slots, unit.count - len(rows))
        return rows
