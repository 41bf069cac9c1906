"""Scenario: one course of events, in which every task has one run time.

Whenever a task leaves a node, the first pending units that fit there start, in the order of classes, fair
shares and queues. Units that would delay the first one that does not fit are left out, as backfill does.
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tgpu.core.estimates.extrapolation import extrapolate, keep_order
from tgpu.core.estimates.model import Alike, Model, Run, Unit, alike, fit_kind, part_of
from tgpu.core.estimates.reservations import Reserved, reserve
from tgpu.core.estimates.trial_nodes import NodeState, TrialNodes
from tgpu.core.kernel.shapes import Floats, Ints

INFINITE = float("inf")
_MOST_TRIED_AT_FIRST = 64
_MOST_PASSED = 8
"""Units that are looked at for one free place, if those before them may not have it."""
_MANY_KINDS = 24
_RESERVATION_STEPS = 20
_GANG_STEPS = 10
_ROWS_PER_STEP = 8
"""Nodes that can be tried for a gang in the time of one other step."""

Event = tuple[Run, ...] | Unit | int
"""Runs that end together, a unit that may start from now on, or a node row that opens."""
Stream = tuple[int, int]
"""A class and an order."""


class _Queue:
    """The units of one queue in a scenario: in order, and by kind."""

    __slots__ = ("alike", "order")

    def __init__(self) -> None:
        self.order: deque[Unit] = deque()
        self.alike: dict[Alike, deque[Unit]] = {}

    def add(self, unit: Unit) -> None:
        self.order.append(unit)
        self.alike.setdefault(alike(unit), deque()).append(unit)


class Scenario:
    """One course of events."""

    def __init__(self, model: Model, number: int, most_steps: int) -> None:
        self._model, self._number, self._most_steps = model, number, most_steps
        snapshot = model.snapshot
        self._now = float(snapshot.now_ms)
        self._time = self._now
        self.steps = 0
        self._nodes = TrialNodes(model)
        self._shares = model.shares.copy()
        order = np.argsort(model.ends[number], kind="stable")
        self._order: list[int] = order.tolist()
        self._ends: list[float] = model.ends[number][order].tolist()
        self._next = 0
        self._heap: list[tuple[float, int, Event]] = []
        self._serial = 0
        self._starts: list[float] = [INFINITE] * model.simulated
        self.samples = [0] * model.simulated
        self._queues: list[_Queue] = [_Queue() for _ in model.queues]
        self._waiting: dict[int, dict[tuple[int, Alike], None]] = {}
        """By kind: the queues that have such units, and which of these are alike."""
        self._streams: dict[Stream, list[int]] = {}
        for queue, stream in enumerate(model.stream_of):
            self._streams.setdefault(stream, []).append(queue)
        self._in_order = sorted(self._streams)
        self._heads: dict[Stream, Unit] = {}
        self._reserved: dict[int, Reserved | None] = {}
        """By unit; None: a gang for which the nodes are too few, whatever ends."""
        self._left = 0
        self._trigger = 0
        self._matrix: tuple[list[int], Ints] | None = None

    def run(self) -> None:
        self._enter_units()
        self._at_first()
        while self._left and self.steps < self._most_steps:
            if not self._next_event():
                break
            self._model.breathe()

    def all_starts(self) -> Floats:
        """Those that were simulated, and the others by the work that is ahead of them."""
        model = self._model
        starts = np.full(len(model.units), INFINITE)
        starts[: model.simulated] = self._starts
        if not np.isfinite(starts).all():
            runs_ms = model.runs_ms(self._number)
            for on_gpus, order in model.lanes:
                lane = order[~np.isfinite(starts[order])]
                to_come = self._ends_to_come(on_gpus=on_gpus)
                extrapolate(starts, lane, runs_ms=runs_ms, model=model, now=self._time, to_come=to_come)
            keep_order(starts, model.group, model.in_line, self._now)
        return starts

    def _ends_to_come(self, *, on_gpus: bool) -> tuple[Floats, Floats]:
        """When what runs by now ends, and which part of the cluster each end frees."""
        last = len(self._model.snapshot.total) - 1
        ends = self._ends[self._next :]
        freed = self._model.freed[on_gpus][self._order[self._next :]].tolist()
        for at, _, about in self._heap:
            if isinstance(about, tuple):
                ends += [at] * len(about)
                freed += [part_of(run.kind, last, on_gpus=on_gpus) for run in about]
        order = np.argsort(ends, kind="stable")
        return np.array(ends)[order], np.array(freed)[order]

    # Events

    def _enter_units(self) -> None:
        for queue in self._model.queues:
            for unit in queue:
                self._left += 1
                if unit.eligible_ms > self._now:
                    self._push(float(unit.eligible_ms), unit)
                else:
                    self._enter(unit)
        for row, windows in self._model.windows.items():
            for _, until_ms, _ in windows:
                self._push(float(until_ms), row)

    def _enter(self, unit: Unit) -> None:
        self._queues[unit.queue].add(unit)
        known = self._waiting.setdefault(fit_kind(unit), {})
        if not known:
            self._matrix = None
        known[unit.queue, alike(unit)] = None

    def _push(self, at: float, about: Event) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (at, self._serial, about))

    def _next_event(self) -> bool:
        """Processes what happens next; False if nothing is left to happen."""
        self.steps += 1
        base = self._ends[self._next] if self._next < len(self._ends) else INFINITE
        if self._heap and self._heap[0][0] <= base:
            at, _, about = heapq.heappop(self._heap)
            self._time = max(self._time, at)
            self._happens(about)
            return True
        if self._next >= len(self._ends):
            return False
        attempt = self._order[self._next]
        self._next += 1
        self._time = max(self._time, base)
        run = self._model.run_of(attempt)
        self._nodes.over[attempt] = 1
        self._leave(run, -1 - attempt)
        self._freed((run.row,), run.samples)
        return True

    def _happens(self, about: Event) -> None:
        if isinstance(about, Unit):
            self._trigger = 0
            self._enter(about)
            self._try_unit(about)
        elif isinstance(about, int):
            self._freed((about,), 0)
        else:
            for run in about:
                self._leave(run, id(run))
            self._freed(tuple(dict.fromkeys(run.row for run in about)), about[0].samples)

    # Starts

    def _at_first(self) -> None:
        """What could start at this very moment: the next scheduling cycle starts it."""
        nodes = self._model.snapshot.nodes
        rows: dict[int, None] = {}
        for number in list(self._waiting):
            kind = self._model.kind(number if number >= 0 else -1 - number)
            mask = np.frombuffer(kind.able, dtype=np.uint8).astype(np.bool_)
            for column, amount in kind.need:
                mask &= nodes.free[:, column] >= amount
            if kind.gpus:
                mask &= nodes.gpu_free.sum(axis=1) > 0
            rows.update(dict.fromkeys(np.flatnonzero(mask)[:_MOST_TRIED_AT_FIRST].tolist()))
        self._freed(tuple(rows), 0)

    def _leave(self, run: Run, number: int) -> None:
        self._nodes.release(run, number)
        self._shares.charge(run.tenant, run.kind.share, -1)

    def _freed(self, rows: Iterable[int], samples: int) -> None:
        """There may be room on these nodes."""
        self._trigger = samples
        for row in rows:
            while self._left and self._start_on(row):
                pass
        while self._left and self._start_gang():
            pass

    def _start_on(self, row: int) -> bool:
        """The first unit that fits on this node starts there."""
        state = self._nodes.state(row)
        found = [
            self._queues[queue].alike[same][0]
            for kind in self._fitting(row, state)
            for queue, same in self._waiting[kind]
        ]
        self.steps += 1 + len(found)
        for _ in range(_MOST_PASSED):
            if not found:
                break
            unit = min(found, key=self._key)
            if self._may_start(unit, row):
                self._start(unit, [row])
                return True
            found.remove(unit)
        return False

    def _fitting(self, row: int, state: NodeState) -> list[int]:
        singles = [kind for kind in self._waiting if kind >= 0]
        if len(singles) > _MANY_KINDS:
            if self._matrix is None:
                need = self._model.snapshot.kinds.need[singles]
                self._matrix = singles, need
            singles, need = self._matrix
            enough = ((need <= np.array(state.free)) | (need <= 0)).all(axis=1)
            singles = [singles[at] for at in np.flatnonzero(enough).tolist() if singles[at] in self._waiting]
        return [kind for kind in singles if self._nodes.fits(self._model.kind(kind), row, state)]

    def _key(self, unit: Unit) -> tuple[object, ...]:
        """Whose turn it is: by class, then by fair share, then by the place in its queue."""
        stream = (unit.rank, unit.stream)
        if len(self._streams[stream]) == 1:
            return (stream, (), unit.position)
        return (stream, self._shares.turn(unit.tenant), unit.position)

    def _may_start(self, unit: Unit, row: int) -> bool:
        return (
            self._shares.may_run(unit.tenant, unit.count)
            and self._outside_windows(unit, row)
            and self._delays_no_head(unit, {row: 1})
        )

    def _outside_windows(self, unit: Unit, row: int) -> bool:
        windows = self._model.windows.get(row)
        if windows is None:
            return True
        names = {self._model.names[each] for each in self._model.tenants[unit.tenant]}
        return all(
            tenant in names or self._time >= until_ms or self._time + unit.limit_ms <= from_ms
            for from_ms, until_ms, tenant in windows
        )

    def _delays_no_head(self, unit: Unit, tasks: Mapping[int, int]) -> bool:
        """Whether the unit may start with so many tasks on these nodes. If so, it takes its part of what the
        first units leave beside them; if not, it takes nothing."""
        kind, taken = self._model.kind(unit.kind), []
        for stream in self._in_order:
            if stream > (unit.rank, unit.stream):
                break
            head = self._head(stream)
            if head is None or head is unit:
                continue
            able = self._model.kind(head.kind).able
            for row, count in tasks.items():
                kept = self._reservation(head) if able[row] else None
                if kept is None or row not in kept.rows or self._time + unit.limit_ms <= kept.at:
                    continue
                if not kept.has_room(kind, row, count):
                    return False
                taken.append((kept, row, count))
        for kept, row, count in taken:
            kept.take(kind, row, count)
        return True

    def _head(self, stream: Stream) -> Unit | None:
        """The first unit of a class: what backfill keeps room for, until it starts."""
        head = self._heads.get(stream)
        if head is not None and self._starts[head.number] == INFINITE:
            return head
        firsts = []
        for number in self._streams[stream]:
            order = self._queues[number].order
            while order and self._starts[order[0].number] != INFINITE:
                order.popleft()
            if order:
                firsts.append(order[0])
        self.steps += len(firsts)
        if not firsts:
            return None
        head = self._heads[stream] = min(firsts, key=self._key)
        return head

    def _reservation(self, head: Unit) -> Reserved | None:
        known = head.number in self._reserved
        kept = self._reserved.get(head.number)
        if not known or (kept is not None and kept.at < self._time):
            self.steps += _RESERVATION_STEPS
            kept = reserve(self._nodes, head, self._model.kind(head.kind), self._time)
            if kept is not None or head.count > 1:
                self._reserved[head.number] = kept
            self._count_visits()
        return kept

    def _count_visits(self) -> None:
        self.steps += self._nodes.visited // _ROWS_PER_STEP
        self._nodes.visited = 0

    def _start(self, unit: Unit, rows: Sequence[int]) -> None:
        self._starts[unit.number] = self._time
        self.samples[unit.number] = self._trigger
        queue, kind, same = self._queues[unit.queue], fit_kind(unit), alike(unit)
        queue.alike[same].popleft()
        if not queue.alike[same]:
            del queue.alike[same]
            del self._waiting[kind][unit.queue, same]
            if not self._waiting[kind]:
                del self._waiting[kind]
                self._matrix = None
        self._left -= 1
        self._reserved.pop(unit.number, None)
        end = self._time + self._model.run_ms(unit, self._number)
        runs = tuple([self._nodes.place(unit, row, self._time) for row in rows])
        for run in runs:
            self._shares.charge(unit.tenant, run.kind.share, 1)
        self._push(end, runs)

    def _try_unit(self, unit: Unit) -> None:
        """It may start from now on: on any node that has room."""
        if unit.count > 1:
            self._freed((), 0)
            return
        kind = self._model.kind(unit.kind)
        for row in self._nodes.able(kind):
            self.steps += 1
            if self._nodes.fits(kind, row, self._nodes.state(row)):
                self._freed((row,), 0)
                if self._starts[unit.number] != INFINITE:
                    return

    # Gangs

    def _start_gang(self) -> bool:
        """The first gang for which there is room on some nodes together."""
        found = [
            self._queues[queue].alike[same][0]
            for kind in self._waiting
            if kind < 0
            for queue, same in self._waiting[kind]
        ]
        for unit in sorted(found, key=self._key):
            self.steps += _GANG_STEPS
            rows = self._nodes.rows_for_gang(unit)
            self._count_visits()
            if (
                rows is not None
                and self._shares.may_run(unit.tenant, unit.count)
                and all(self._outside_windows(unit, row) for row in dict.fromkeys(rows))
                and self._delays_no_head(unit, Counter(rows))
            ):
                self._start(unit, rows)
                return True
            if self.steps >= self._most_steps:
                return False
        return False
