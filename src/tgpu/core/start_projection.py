"""Projection of starts: the queue simulated forward, once per scenario of run times.

A scenario gives every running and pending task a run time from its distribution. The simulation then goes
from end to end: whenever a task leaves a node, the first pending tasks that fit there start, in the order of
classes, fair shares and queues; tasks that would delay the first one that does not fit are left out, as
backfill does. It is bounded by a number of steps: what has not started by then is extrapolated from the work
ahead of it. The same snapshot gives the same projection.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np

from tgpu.core.columns.waiting_columns import QueueName
from tgpu.core.kernel.shapes import NOWHERE, WHOLE, Floats, Ints
from tgpu.core.runtime_estimate import RunTimes, Work
from tgpu.core.start_snapshot import Snapshot
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.tenant import lineage

NO_QUOTA = "it waits for its tenant's quota"
NO_LICENCE = "when licences are returned is not known"
NEVER_FITS = "no node that takes tasks can run it"
SCENARIOS = 16
"""A power of two: every task meets each of as many quantiles once."""
MOST_STEPS = 100_000
"""Over all scenarios of one projection."""
MOST_SIMULATED = 1000
"""Units that are simulated one by one; those behind them are extrapolated."""
_MOST_CLONES = 200
"""Tasks of an array that have no rows yet, of one job."""
_CANDIDATE_NODES = 8
"""Where a reservation is looked for: the emptiest nodes that suit."""
_MOST_TRIED_AT_FIRST = 64
_MOST_PASSED = 8
"""Units that are looked at for one free place, if those before them may not have it."""
_MANY_KINDS = 24
INFINITE = float("inf")
_BREATHE_STEPS = 200
_BREATHE_UNITS = 200
_LARGE = 5_000
_VERY_LARGE = 30_000


@dataclass(slots=True)
class Unit:
    """What starts whole: one task, or all tasks of a gang."""

    job_id: int
    tenant: int
    kind: int
    """Of a gang: of its largest member."""
    limit_ms: int
    eligible_ms: int
    table: int
    """Its row in the table of run times."""
    step: tuple[int, int]
    """In which order it meets the quantiles of its run time."""
    samples: int
    """Runs that its run time was estimated from; 0: its limit alone."""
    number: int = 0
    rank: int = 0
    stream: int = 0
    queue: int = 0
    position: int = 0
    count: int = 1
    """Of a gang: its tasks."""
    per_node: int = 0
    """Of a gang: at most so many on one node; 0: any number."""
    is_clone: bool = False
    """A task of an array that has no row yet: it takes room as well."""


@dataclass(slots=True)
class KindFacts:
    need: tuple[tuple[int, int], ...]
    """(column, amount) of what it needs of a node."""
    gpus: int
    exclusive: bool
    device_need: list[list[int]]
    """[layout][device] thousandths it would take; 0: the device does not suit."""
    able: bytes
    """By node row: 1 if it could run there when the node is empty and takes tasks."""
    share: tuple[tuple[int, float], ...]
    """(dimension, part of the whole cluster) that it takes; GPUs are the last dimension."""
    size: float
    """The part that it takes of all GPUs or, without any, of what it takes most of."""


@dataclass(slots=True)
class Run:
    """A task on a node in a scenario."""

    limit_end: float
    kind: KindFacts
    row: int
    devices: tuple[int, ...]
    milli: int
    tenant: int
    samples: int


@dataclass(slots=True)
class NodeState:
    free: list[int]
    devices: list[int]
    tasks: int
    alone: int
    runs: dict[int, Run] | None = None


@dataclass(slots=True)
class Reserved:
    """Room that is kept for the first unit that does not fit."""

    rows: frozenset[int]
    at: float
    extra: dict[int, tuple[list[int], int]]
    """By row: amounts and devices that are left beside it at that moment."""


@dataclass(slots=True)
class Projection:
    now_ms: int
    units: list[Unit] = field(default_factory=list)
    starts_ms: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """[scenario, unit]"""
    samples: list[list[int]] = field(default_factory=list)
    """By scenario, of the simulated units: of the run whose end let it start, the number of earlier runs that
    it was estimated from."""
    left_out: dict[int, str] = field(default_factory=dict)
    """By job: why its start is not projected."""
    steps: int = 0


def project(
    snapshot: Snapshot,
    run_times: RunTimes,
    *,
    most_steps: int = MOST_STEPS,
    breathe: Callable[[], None] = lambda: None,
) -> Projection:
    """Of every unit in a queue that quotas and licences admit. `breathe` is called every now and then, so
    that a thread may let others work."""
    size = len(snapshot.attempts.job) + sum(len(slots) for _, slots in snapshot.queues)
    scenarios = SCENARIOS if size < _LARGE else SCENARIOS // 2 if size < _VERY_LARGE else SCENARIOS // 4
    model = Model(snapshot, run_times, scenarios, breathe)
    made = Projection(snapshot.now_ms, model.units, left_out=model.left_out)
    if not model.units:
        return made
    made.starts_ms = np.empty((scenarios, len(model.units)))
    for scenario in range(scenarios):
        one = Scenario(model, scenario, most_steps // scenarios)
        one.run()
        made.steps += one.steps
        made.starts_ms[scenario] = one.all_starts()
        made.samples.append(one.samples)
        breathe()
    return made


class Model:
    """What all scenarios of a projection share."""

    def __init__(
        self, snapshot: Snapshot, run_times: RunTimes, scenarios: int, breathe: Callable[[], None]
    ) -> None:
        self.snapshot, self.scenarios, self.breathe = snapshot, scenarios, breathe
        self._run_times = run_times
        self._quantiles = [(number + 0.5) / scenarios for number in range(scenarios)]
        self._tables: dict[Work, tuple[int, int, int | None]] = {}
        """By work: the row of its run times, how many runs these come from, and what similar tasks share."""
        self._draws: list[tuple[float, ...]] = []
        self._shared: dict[Work, int] = {}
        self._kinds: dict[int, KindFacts] = {}
        self._obstacles: dict[tuple[int, ...], str] = {}
        self._kinds_of_slots: list[int] = snapshot.kind_of_slot.tolist()
        self._limits: list[int] = snapshot.limit_ms.tolist()
        self.tenants: list[tuple[int, ...]] = []
        """By number: the numbers of its lineage, the root first."""
        self.names: list[str] = []
        self._tenant_numbers: dict[str, int] = {}
        self._total = np.maximum(1, snapshot.total).astype(np.float64)
        self.left_out: dict[int, str] = {}
        """By job: why its start is not projected."""
        self.units: list[Unit] = []
        self.queues: list[list[Unit]] = []
        """Those of each queue that are simulated."""
        self.stream_of: list[tuple[int, int]] = []
        """By queue: (class, order)."""
        self._add_units()
        self._lay_out()
        self._add_attempts()
        self.weights = [max(1, snapshot.weights.get(name, 1)) for name in self.names]
        self.running_limits = [snapshot.running_limits.get(name, -1) for name in self.names]
        self.windows: dict[int, list[tuple[int, int, str | None]]] = {}
        for window in snapshot.windows:
            row = self.windows.setdefault(window.row, [])
            row.append((window.from_ms, window.until_ms, window.tenant_id))

    def tenant(self, name: str) -> int:
        number = self._tenant_numbers.get(name)
        if number is None:
            above = tuple(self._tenant_numbers.get(each, NOWHERE) for each in lineage(name)[:-1])
            if NOWHERE in above:
                above = tuple(self.tenant(each) for each in lineage(name)[:-1])
            number = self._tenant_numbers[name] = len(self.names)
            self.names.append(name)
            self.tenants.append((*above, number))
        return number

    def kind(self, number: int) -> KindFacts:
        facts = self._kinds.get(number)
        if facts is None:
            facts = self._kinds[number] = self._kind(number)
        return facts

    def _kind(self, number: int) -> KindFacts:
        kinds, nodes = self.snapshot.kinds, self.snapshot.nodes
        need, gpus = kinds.need[number], int(kinds.gpus[number])
        able = nodes.takes & kinds.suits[number, nodes.kind]
        able &= ((need <= nodes.capacity) | (need <= 0)).all(axis=1)
        if gpus:
            able &= (kinds.device_need[number] > 0).sum(axis=1)[nodes.layout] >= gpus
        pinned = int(kinds.pinned[number])
        if pinned != NOWHERE:
            able &= np.arange(len(able)) == pinned
        dimensions = [(column, int(amount)) for column, amount in enumerate(need.tolist()) if amount > 0]
        share = [(column, amount / self._total[column]) for column, amount in dimensions]
        if gpus:
            each = int(kinds.device_need[number].max(initial=0))
            share.append((len(self._total) - 1, gpus * each / self._total[-1]))
        return KindFacts(
            tuple(dimensions),
            gpus,
            bool(kinds.exclusive[number]),
            kinds.device_need[number].tolist(),
            able.astype(np.uint8).tobytes(),
            tuple(share),
            float(share[-1][1]) if gpus else float(max((part for _, part in share), default=0.0)),
        )

    # Pending units

    def _add_units(self) -> None:
        snapshot = self.snapshot
        orders = {name: number for number, name in enumerate(snapshot.policy.order_names)}
        slots_of = {name: slots.tolist() for name, slots in snapshot.queues}
        arrivals: dict[QueueName, list[Unit]] = {}
        for task, kind, name, at_ms in snapshot.arrivals:
            if self._is_simulated(task, (kind,)):
                limit_ms = 1000 * snapshot.policy.duration_s(task)
                arrivals.setdefault(name, []).append(self._unit(task, (kind,), limit_ms, at_ms))
        names = sorted(
            slots_of.keys() | arrivals.keys(),
            key=lambda each: (each.rank, orders.get(each.order, 0), each.tenant),
        )
        lines = [[*self._queued(slots_of.get(name, [])), *arrivals.get(name, [])] for name in names]
        most = _fair_cut([len(line) for line in lines], MOST_SIMULATED)
        rest: list[Unit] = []
        for queue, (name, line) in enumerate(zip(names, lines, strict=True)):
            for position, unit in enumerate(line):
                unit.queue, unit.position = queue, position
                unit.rank, unit.stream = name.rank, orders.get(name.order, 0)
            self.queues.append(line[:most])
            self.units += line[:most]
            rest += line[most:]
            self.stream_of.append((name.rank, orders.get(name.order, 0)))
        self.simulated = len(self.units)
        self.units += rest
        for number, unit in enumerate(self.units):
            unit.number = number

    def _queued(self, slots: Sequence[int]) -> Iterator[Unit]:
        last: Unit | None = None
        for number, slot in enumerate(slots):
            if not number % _BREATHE_UNITS:
                self.breathe()
            task = self.snapshot.waiting[slot]
            kinds = () if task is None else self._member_kinds(task, slot)
            if task is None or not self._is_simulated(task, kinds):
                continue
            if last is not None and last.job_id != task.task_id.job_id:
                yield from self._clones(last)
            last = self._unit(task, kinds, self._limits[slot], task.eligible_ms)
            yield last
        if last is not None:
            yield from self._clones(last)

    def _is_simulated(self, task: TaskBrief, kinds: tuple[int, ...]) -> bool:
        """Notes why, if it is not: what waits for a quota or a licence starts by other rules."""
        why = NO_QUOTA if task.held else self._obstacle(kinds)
        if why:
            self.left_out[task.task_id.job_id] = why
        return not why

    def _obstacle(self, kinds: tuple[int, ...]) -> str:
        known = self._obstacles.get(kinds)
        if known is None:
            known = ""
            if self.snapshot.kinds.cluster_need[list(kinds)].any():
                known = NO_LICENCE
            elif not all(any(self.kind(kind).able) for kind in kinds):
                known = NEVER_FITS
            self._obstacles[kinds] = known
        return known

    def _member_kinds(self, task: TaskBrief, slot: int) -> tuple[int, ...]:
        members = None if task.gang is None else self.snapshot.gangs.get(task.task_id.job_id)
        if members is None:
            return (self._kinds_of_slots[slot],)
        return tuple(sorted({self.snapshot.member_kinds[each.request] for each in members}))

    def _unit(self, task: TaskBrief, kinds: tuple[int, ...], limit_ms: int, eligible_ms: int) -> Unit:
        table, samples, shared = self._table(task)
        kind = kinds[0]
        if len(kinds) > 1:
            kind = max(kinds, key=lambda each: sum(part for _, part in self.kind(each).share))
        step = _step(task.task_id, shared)
        tenant = self.tenant(task.tenant_id)
        unit = Unit(task.task_id.job_id, tenant, kind, limit_ms, eligible_ms, table, step, samples)
        members = None if task.gang is None else self.snapshot.gangs.get(task.task_id.job_id)
        if members is not None and task.gang is not None:
            unit.count = len(members)
            unit.per_node = task.gang.per_node or 0
            unit.eligible_ms = max(each.eligible_ms for each in members)
        return unit

    def _clones(self, unit: Unit) -> Iterator[Unit]:
        """Tasks of an array behind this one that have no rows yet: they take room as well."""
        for number in range(min(_MOST_CLONES, self.snapshot.unmaterialized.get(unit.job_id, 0))):
            step = _step(TaskId(unit.job_id, 1_000_000 + number), None)
            yield replace(unit, eligible_ms=0, step=step, is_clone=True)

    def _table(self, task: TaskBrief) -> tuple[int, int, int | None]:
        """The row of its run times, the number of runs that these come from, and what similar tasks share."""
        work = Work.of(task)
        known = self._tables.get(work)
        if known is None:
            draws, samples, shared = self._drawn(task, work, 0.0)
            known = self._tables[work] = len(self._draws), samples, shared
            self._draws.append(draws)
        return known

    def _drawn(
        self, task: TaskBrief, work: Work, elapsed_s: float
    ) -> tuple[tuple[float, ...], int, int | None]:
        """Remaining seconds at evenly spaced quantiles."""
        default_s = self.snapshot.policy.of(task.request.pool).default_limit_s
        made = self._run_times.distribution(work, default_s, elapsed_s)
        draws = tuple([made.remaining_s(elapsed_s, quantile) for quantile in self._quantiles])
        shared = None if made.is_close else self._shared.setdefault(work, len(self._shared))
        return draws, made.count, shared

    def _lay_out(self) -> None:
        """Columns of all units, for those that are extrapolated."""
        units, last = self.units, len(self._total) - 1
        self.tables = 1000 * np.array(self._draws).reshape(-1, self.scenarios)
        self._table_of = np.array([unit.table for unit in units], dtype=np.int64)
        self._steps = np.array([unit.step for unit in units], dtype=np.int64).reshape(-1, 2)
        self.sizes = np.array([unit.count * self.kind(unit.kind).size for unit in units])
        self.eligible = np.array([unit.eligible_ms for unit in units], dtype=np.float64)
        on_gpus = np.array([self.kind(unit.kind).gpus > 0 for unit in units], dtype=np.bool_)
        rank = np.array([unit.rank for unit in units], dtype=np.int64)
        position = np.array([unit.position for unit in units], dtype=np.int64)
        order = np.lexsort((position, rank))
        self.lanes = [(True, order[on_gpus[order]]), (False, order[~on_gpus[order]])]
        groups: dict[tuple[int, Alike], int] = {}
        group = [groups.setdefault((unit.queue, _alike(unit)), len(groups)) for unit in units]
        self.group = np.array(group, dtype=np.float64)
        self.in_line = np.lexsort((position, self.group))
        kinds = self.snapshot.attempts.kind
        self.freed = {
            lane: np.array([_part(self.kind(kind), last, on_gpus=lane) for kind in kinds.tolist()])
            for lane in (True, False)
        }

    def run_ms(self, unit: Unit, scenario: int) -> float:
        factor, offset = unit.step
        return float(self.tables[unit.table, (factor * scenario + offset) % self.scenarios])

    def runs_ms(self, scenario: int) -> Floats:
        at = (self._steps[:, 0] * scenario + self._steps[:, 1]) % self.scenarios
        found: Floats = self.tables[self._table_of, at]
        return found

    # Running tasks

    def _add_attempts(self) -> None:
        snapshot, attempts = self.snapshot, self.snapshot.attempts
        count = len(attempts.job)
        self.attempt_samples = [0] * count
        self.attempt_tenants = [0] * count
        self.by_row: dict[int, list[int]] = {}
        jobs, tasks, rows = attempts.job.tolist(), attempts.task.tolist(), attempts.node.tolist()
        starts, limits = attempts.start_ms.tolist(), attempts.limit_end_ms.tolist()
        stopping = attempts.stopping.tolist()
        scenarios = np.arange(self.scenarios)
        drawn = np.zeros((count, self.scenarios))
        at = np.zeros((count, self.scenarios), dtype=np.int64)
        for number in range(count):
            if not number % _BREATHE_STEPS:
                self.breathe()
            self.by_row.setdefault(rows[number], []).append(number)
            placed = snapshot.placed.get(TaskId(jobs[number], tasks[number]))
            if placed is None or stopping[number]:
                drawn[number] = (limits[number] - snapshot.now_ms) / 1000
                if placed is not None:
                    self.attempt_tenants[number] = self.tenant(placed.task.tenant_id)
                continue
            elapsed_s = max(0.0, (snapshot.now_ms - starts[number]) / 1000)
            draws, samples, shared = self._drawn(placed.task, Work.of(placed.task), elapsed_s)
            factor, offset = _step(placed.task.task_id, shared)
            drawn[number] = draws
            at[number] = (factor * scenarios + offset) % self.scenarios
            self.attempt_samples[number] = samples
            self.attempt_tenants[number] = self.tenant(placed.task.tenant_id)
        remaining = np.take_along_axis(drawn, at, axis=1)
        self.ends = np.ascontiguousarray(snapshot.now_ms + 1000 * remaining.T)

    def run_of(self, number: int) -> Run:
        attempts = self.snapshot.attempts
        mask, devices = int(attempts.devices[number]), []
        while mask:
            low = mask & -mask
            devices.append(low.bit_length() - 1)
            mask ^= low
        return Run(
            float(attempts.limit_end_ms[number]),
            self.kind(int(attempts.kind[number])),
            int(attempts.node[number]),
            tuple(devices),
            int(attempts.milli[number]),
            self.attempt_tenants[number],
            self.attempt_samples[number],
        )


def _step(task_id: TaskId, shared: int | None) -> tuple[int, int]:
    """In which order a task meets the quantiles; the factor is odd, so it meets each of them once."""
    seed = crc32(f"{task_id.job_id}.{task_id.task_index}".encode()) if shared is None else 40_503 * shared
    return 2 * (seed % 64) + 1, (seed >> 8) % 1024


Event = tuple[Run, ...] | Unit | int
"""Runs that end together, a unit that may start from now on, or a node row that opens."""


Alike = tuple[int, int]


class _Queue:
    """The units of one queue in a scenario: in order, and by kind."""

    __slots__ = ("alike", "order")

    def __init__(self) -> None:
        self.order: deque[Unit] = deque()
        self.alike: dict[Alike, deque[Unit]] = {}

    def add(self, unit: Unit) -> None:
        self.order.append(unit)
        self.alike.setdefault(_alike(unit), deque()).append(unit)


def _fit_kind(unit: Unit) -> int:
    """Gangs are told apart from single tasks of their kind."""
    return unit.kind if unit.count == 1 else -1 - unit.kind


def _alike(unit: Unit) -> Alike:
    """Units that start in the order of their queue: those with a much shorter limit may pass others."""
    return _fit_kind(unit), (unit.limit_ms // 1000).bit_length()


class Scenario:
    """One course of events."""

    def __init__(self, model: Model, number: int, most_steps: int) -> None:
        self._model, self._number, self._most_steps = model, number, most_steps
        snapshot = model.snapshot
        self._now = float(snapshot.now_ms)
        self._time = self._now
        self.steps = 0
        self._nodes: dict[int, NodeState] = {}
        order = np.argsort(model.ends[number], kind="stable")
        self._order: list[int] = order.tolist()
        self._ends: list[float] = model.ends[number][order].tolist()
        self._next = 0
        self._over = bytearray(len(self._order))
        self._heap: list[tuple[float, int, Event]] = []
        self._serial = 0
        self._starts: list[float] = [INFINITE] * model.simulated
        self.samples = [0] * model.simulated
        self._used: list[dict[int, float]] = [{} for _ in model.names]
        """By tenant with all below it: (dimension, part of the cluster) in use."""
        self._value = [0.0] * len(model.names)
        """By tenant: its weighted dominant share."""
        self._running = [0] * len(model.names)
        for attempt, kind in enumerate(snapshot.attempts.kind.tolist()):
            self._charge(model.attempt_tenants[attempt], model.kind(kind), 1)
        self._queues: list[_Queue] = [_Queue() for _ in model.queues]
        self._waiting: dict[int, dict[tuple[int, Alike], None]] = {}
        """By kind: the queues that have such units, and which of these are alike."""
        self._streams: dict[tuple[int, int], list[int]] = {}
        for queue, stream in enumerate(model.stream_of):
            self._streams.setdefault(stream, []).append(queue)
        self._in_order = sorted(self._streams)
        self._heads: dict[tuple[int, int], Unit] = {}
        self._reserved: dict[int, Reserved] = {}
        self._left = 0
        self._trigger = 0
        self._matrix: tuple[list[int], np.ndarray] | None = None

    def run(self) -> None:
        self._enter_units()
        self._at_first()
        while self._left and self.steps < self._most_steps:
            if not self._next_event():
                break
            if not self.steps % 16:
                self._model.breathe()

    def all_starts(self) -> Floats:
        """Those that were simulated, and the others by the work that is ahead of them."""
        model = self._model
        starts = np.full(len(model.units), INFINITE)
        starts[: model.simulated] = self._starts
        if not np.isfinite(starts).all():
            runs_ms = model.runs_ms(self._number)
            for on_gpus, order in model.lanes:
                self._extrapolate(starts, order[~np.isfinite(starts[order])], runs_ms, on_gpus=on_gpus)
            _keep_order(starts, model.group, model.in_line, self._now)
        return starts

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
        known = self._waiting.setdefault(_fit_kind(unit), {})
        if not known:
            self._matrix = None
        known[unit.queue, _alike(unit)] = None

    def _push(self, at: float, about: "Event") -> None:
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
        self._over[attempt] = 1
        self._leave(run, -1 - attempt)
        self._freed((run.row,), run.samples)
        return True

    def _happens(self, about: "Event") -> None:
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

    # Nodes

    def _node(self, row: int) -> NodeState:
        state = self._nodes.get(row)
        if state is None:
            nodes = self._model.snapshot.nodes
            state = self._nodes[row] = NodeState(
                nodes.free[row].tolist(),
                nodes.gpu_free[row].tolist(),
                int(nodes.tasks[row]),
                int(nodes.alone[row]),
            )
        return state

    def _runs(self, row: int) -> dict[int, Run]:
        """What is on a node, by number; built when it is first asked for."""
        state = self._node(row)
        if state.runs is None:
            model = self._model
            state.runs = {
                -1 - number: model.run_of(number)
                for number in model.by_row.get(row, ())
                if not self._over[number]
            }
        return state.runs

    def _leave(self, run: Run, number: int) -> None:
        state = self._node(run.row)
        for column, amount in run.kind.need:
            state.free[column] += amount
        for device in run.devices:
            state.devices[device] += run.milli
        state.tasks -= 1
        state.alone -= run.kind.exclusive
        if state.runs is not None:
            state.runs.pop(number, None)
        self._charge(run.tenant, run.kind, -1)

    def _charge(self, tenant: int, kind: KindFacts, sign: int) -> None:
        for each in self._model.tenants[tenant]:
            used = self._used[each]
            for dimension, part in kind.share:
                used[dimension] = used.get(dimension, 0.0) + sign * part
            self._value[each] = max(used.values(), default=0.0) / self._model.weights[each]
            self._running[each] += sign

    def _fits(self, kind: KindFacts, row: int, state: NodeState) -> bool:
        if not kind.able[row] or state.alone or (kind.exclusive and state.tasks):
            return False
        for column, amount in kind.need:
            if state.free[column] < amount:
                return False
        return not kind.gpus or self._idle(kind, row, state.devices) >= kind.gpus

    def _idle(self, kind: KindFacts, row: int, devices: Sequence[int]) -> int:
        needs = kind.device_need[int(self._model.snapshot.nodes.layout[row])]
        return sum(1 for need, left in zip(needs, devices, strict=True) if 0 < need <= left)

    def _place(self, unit: Unit, row: int) -> Run:
        kind, state = self._model.kind(unit.kind), self._node(row)
        needs = kind.device_need[int(self._model.snapshot.nodes.layout[row])]
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
        run = Run(self._time + unit.limit_ms, kind, row, devices, milli, unit.tenant, unit.samples)
        self._charge(unit.tenant, kind, 1)
        if state.runs is not None:
            state.runs[id(run)] = run
        return run

    # Starting

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
        state = self._node(row)
        found = [
            self._queues[queue].alike[alike][0]
            for kind in self._fitting(row, state)
            for queue, alike in self._waiting[kind]
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
        return [kind for kind in singles if self._fits(self._model.kind(kind), row, state)]

    def _key(self, unit: Unit) -> tuple[object, ...]:
        """Whose turn it is: by class, then by fair share, then by the place in its queue."""
        stream = (unit.rank, unit.stream)
        if len(self._streams[stream]) == 1:
            return (stream, (), unit.position)
        return (stream, self._shares(unit.tenant), unit.position)

    def _shares(self, tenant: int) -> tuple[float, ...]:
        value = self._value
        return tuple([value[each] for each in self._model.tenants[tenant]])

    def _may_start(self, unit: Unit, row: int) -> bool:
        return (
            self._within_limits(unit) and self._outside_windows(unit, row) and self._delays_no_head(unit, row)
        )

    def _within_limits(self, unit: Unit) -> bool:
        limits = self._model.running_limits
        return all(
            limits[each] < 0 or self._running[each] + unit.count <= limits[each]
            for each in self._model.tenants[unit.tenant]
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

    def _delays_no_head(self, unit: Unit, row: int) -> bool:
        for stream in self._in_order:
            if stream > (unit.rank, unit.stream):
                break
            head = self._head(stream)
            if head is None or head is unit or not self._model.kind(head.kind).able[row]:
                continue
            kept = self._reservation(head)
            if kept is None or row not in kept.rows or self._time + unit.limit_ms <= kept.at:
                continue
            if not self._beside(unit, row, kept):
                return False
        return True

    def _beside(self, unit: Unit, row: int, kept: Reserved) -> bool:
        amounts, devices = kept.extra.get(row, ([], 0))
        kind = self._model.kind(unit.kind)
        if not amounts or kind.gpus > devices:
            return False
        if any(amounts[column] < amount for column, amount in kind.need):
            return False
        left = amounts.copy()
        for column, amount in kind.need:
            left[column] -= amount
        kept.extra[row] = (left, devices - kind.gpus)
        return True

    def _head(self, stream: tuple[int, int]) -> Unit | None:
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
        kept = self._reserved.get(head.number)
        if kept is None or kept.at < self._time:
            self.steps += 20
            kept = self._reserve_gang(head) if head.count > 1 else self._reserve(head)
            if kept is not None:
                self._reserved[head.number] = kept
        return kept

    def _reserve(self, head: Unit) -> Reserved | None:
        """Where it fits first if all tasks there run into their limits."""
        kind = self._model.kind(head.kind)
        best: tuple[float, int, list[int], list[int]] | None = None
        for row in self._emptiest(kind):
            found = self._first_fit(kind, row)
            if found is not None and (best is None or (found[0], row) < best[:2]):
                best = found[0], row, found[1], found[2]
        if best is None:
            return None
        at, row, free, devices = best
        left = free.copy()
        for column, amount in kind.need:
            left[column] -= amount
        spare = self._idle(kind, row, devices) - kind.gpus if kind.gpus else len(devices)
        return Reserved(frozenset((row,)), at, {row: (left, spare)})

    def _emptiest(self, kind: KindFacts) -> list[int]:
        able = np.flatnonzero(np.frombuffer(kind.able, dtype=np.uint8))
        if len(able) <= _CANDIDATE_NODES:
            return [int(row) for row in able]
        column = kind.need[0][0] if kind.need else 0
        nodes = self._model.snapshot.nodes
        free = nodes.gpu_free[able].sum(axis=1) if kind.gpus else nodes.free[able, column]
        free = free.astype(np.int64)
        where = {int(row): at for at, row in enumerate(able.tolist())}
        for row, state in self._nodes.items():
            if row in where:
                free[where[row]] = sum(state.devices) if kind.gpus else state.free[column]
        chosen = np.argsort(-free, kind="stable")[:_CANDIDATE_NODES]
        return [int(able[at]) for at in chosen.tolist()]

    def _first_fit(self, kind: KindFacts, row: int) -> tuple[float, list[int], list[int]] | None:
        state, runs = self._node(row), self._runs(row)
        trial = NodeState(state.free.copy(), state.devices.copy(), state.tasks, state.alone)
        at = self._time
        for run in sorted(runs.values(), key=lambda each: each.limit_end):
            if self._fits(kind, row, trial):
                break
            at = max(at, run.limit_end)
            for column, amount in run.kind.need:
                trial.free[column] += amount
            for device in run.devices:
                trial.devices[device] += run.milli
            trial.tasks -= 1
            trial.alone -= run.kind.exclusive
        return (at, trial.free, trial.devices) if self._fits(kind, row, trial) else None

    def _start(self, unit: Unit, rows: Sequence[int]) -> None:
        self._starts[unit.number] = self._time
        self.samples[unit.number] = self._trigger
        queue, kind, alike = self._queues[unit.queue], _fit_kind(unit), _alike(unit)
        queue.alike[alike].popleft()
        if not queue.alike[alike]:
            del queue.alike[alike]
            del self._waiting[kind][unit.queue, alike]
            if not self._waiting[kind]:
                del self._waiting[kind]
                self._matrix = None
        self._left -= 1
        self._reserved.pop(unit.number, None)
        end = self._time + self._model.run_ms(unit, self._number)
        runs = tuple(self._place(unit, row) for row in rows)
        self._push(end, runs)

    def _try_unit(self, unit: Unit) -> None:
        """It may start from now on: on any node that has room."""
        if unit.count > 1:
            self._freed((), 0)
            return
        kind = self._model.kind(unit.kind)
        for row in np.flatnonzero(np.frombuffer(kind.able, dtype=np.uint8)).tolist():
            self.steps += 1
            if self._fits(kind, row, self._node(row)):
                self._freed((row,), 0)
                if self._starts[unit.number] != INFINITE:
                    return

    # Gangs

    def _start_gang(self) -> bool:
        """The first gang for which there is room on some nodes together."""
        found = [
            self._queues[queue].alike[alike][0]
            for kind in self._waiting
            if kind < 0
            for queue, alike in self._waiting[kind]
        ]
        for unit in sorted(found, key=self._key):
            self.steps += 10
            rows = self._rows_for_gang(unit, None)
            if (
                rows is not None
                and self._within_limits(unit)
                and all(
                    self._outside_windows(unit, row) and self._delays_no_head(unit, row)
                    for row in dict.fromkeys(rows)
                )
            ):
                self._start(unit, rows)
                return True
        return False

    def _rows_for_gang(self, unit: Unit, trial: dict[int, NodeState] | None) -> list[int] | None:
        """A node for each of its tasks, the emptiest first."""
        kind = self._model.kind(unit.kind)
        able = np.flatnonzero(np.frombuffer(kind.able, dtype=np.uint8)).tolist()
        rooms = []
        for row in able:
            state = self._node(row) if trial is None else trial.get(row) or self._node(row)
            slots = self._slots(kind, row, state)
            if unit.per_node:
                slots = min(slots, unit.per_node)
            if slots:
                rooms.append((-slots, row))
        self.steps += len(able) // 8
        if -sum(slots for slots, _ in rooms) < unit.count:
            return None
        rows: list[int] = []
        for slots, row in sorted(rooms):
            rows += [row] * min(-slots, unit.count - len(rows))
        return rows

    def _slots(self, kind: KindFacts, row: int, state: NodeState) -> int:
        """How many such tasks fit on a node."""
        if not self._fits(kind, row, state):
            return 0
        if kind.exclusive:
            return 1
        rooms = [state.free[column] // amount for column, amount in kind.need]
        if kind.gpus:
            needs = kind.device_need[int(self._model.snapshot.nodes.layout[row])]
            each = max(needs)
            if each >= WHOLE:
                rooms.append(self._idle(kind, row, state.devices) // kind.gpus)
            else:
                rooms.append(
                    sum(left // need for need, left in zip(needs, state.devices, strict=True) if need > 0)
                )
        return min(rooms, default=1)

    def _reserve_gang(self, head: Unit) -> Reserved | None:
        kind = self._model.kind(head.kind)
        able = np.flatnonzero(np.frombuffer(kind.able, dtype=np.uint8)).tolist()
        runs = sorted(
            (run for row in able for run in self._runs(row).values()), key=lambda each: each.limit_end
        )
        trial: dict[int, NodeState] = {}
        low, high = 0, len(runs)
        best: tuple[float, list[int]] | None = None
        while low <= high:
            middle = (low + high) // 2
            trial = self._after(runs[:middle])
            rows = self._rows_for_gang(head, trial)
            if rows is None:
                low = middle + 1
            else:
                best = (runs[middle - 1].limit_end if middle else self._time), rows
                high = middle - 1
        if best is None:
            return None
        return Reserved(frozenset(best[1]), max(self._time, best[0]), {})

    def _after(self, runs: Sequence[Run]) -> dict[int, NodeState]:
        trial: dict[int, NodeState] = {}
        for run in runs:
            state = trial.get(run.row)
            if state is None:
                now = self._node(run.row)
                state = trial[run.row] = NodeState(now.free.copy(), now.devices.copy(), now.tasks, now.alone)
            for column, amount in run.kind.need:
                state.free[column] += amount
            for device in run.devices:
                state.devices[device] += run.milli
            state.tasks -= 1
            state.alone -= run.kind.exclusive
        return trial

    # The rest of a long queue

    def _extrapolate(self, starts: Floats, lane: Ints, runs_ms: Floats, *, on_gpus: bool) -> None:
        """They start once enough has ended, and not before the cluster has done the work ahead of them."""
        if not len(lane):
            return
        model = self._model
        sizes = model.sizes[lane]
        ends, freed = self._ends_to_come(on_gpus=on_gpus)
        first = np.full(len(lane), self._time)
        if len(ends):
            at = np.searchsorted(np.cumsum(freed), np.cumsum(sizes) - 1e-9)
            first = ends[np.minimum(at, len(ends) - 1)]
        work = sizes * runs_ms[lane]
        busy = min(1.0, max(float(freed.sum()) if len(ends) else 1.0, float(sizes.max()), 1e-9))
        by_work = self._time + (np.cumsum(work) - work) / busy
        starts[lane] = np.maximum(np.maximum(first, by_work), model.eligible[lane])

    def _ends_to_come(self, *, on_gpus: bool) -> tuple[Floats, Floats]:
        """When what runs by now ends, and which part of the cluster each end frees."""
        last = len(self._model.snapshot.total) - 1
        ends = self._ends[self._next :]
        freed = self._model.freed[on_gpus][self._order[self._next :]].tolist()
        for at, _, about in self._heap:
            if isinstance(about, tuple):
                ends += [at] * len(about)
                freed += [_part(run.kind, last, on_gpus=on_gpus) for run in about]
        order = np.argsort(ends, kind="stable")
        return np.array(ends)[order], np.array(freed)[order]


def _keep_order(starts: Floats, group: Floats, in_line: Ints, now: float) -> None:
    """Of units alike in one queue, none starts before those ahead of it."""
    width = max(1.0, float(starts.max()) - now) + 1.0
    raised = np.maximum.accumulate(starts[in_line] - now + width * group[in_line])
    starts[in_line] = raised - width * group[in_line] + now


def _part(kind: KindFacts, last: int, *, on_gpus: bool) -> float:
    """What the end of such a task frees of the cluster's GPUs, or of the rest."""
    if on_gpus:
        return next((part for dimension, part in kind.share if dimension == last), 0.0)
    return max((part for dimension, part in kind.share if dimension != last), default=0.0)


def _fair_cut(lengths: Sequence[int], most: int) -> int:
    """How many of each queue are taken, so that there are about `most` in all."""
    low, high = 1, max((*lengths, 1))
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(length, middle) for length in lengths) <= most:
            low = middle
        else:
            high = middle - 1
    return low
