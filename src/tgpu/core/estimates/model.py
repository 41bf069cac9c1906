"""Model of a projection: pending units, running tasks and their run times, the same in all scenarios."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from tgpu.core.columns.waiting_columns import QueueName
from tgpu.core.estimates.run_times import RunTimes, Work
from tgpu.core.estimates.snapshot import Snapshot
from tgpu.core.estimates.tenant_shares import TenantShares
from tgpu.core.kernel.shapes import NOWHERE, Floats
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.tenant import DEFAULT_TENANT, lineage

NO_QUOTA = "it waits for its tenant's quota"
NO_LICENCE = "when licences are returned is not known"
NEVER_FITS = "no node that takes tasks can run it"
MOST_SIMULATED = 1000
"""Units that are simulated one by one; those behind them are extrapolated."""
_MOST_CLONES = 200
"""Tasks of an array that have no rows yet, of one job."""
_BREATHE_UNITS = 200

Alike = tuple[int, int]


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
        self.shares = TenantShares(
            self.tenants,
            [max(1, snapshot.weights.get(name, 1)) for name in self.names],
            [snapshot.running_limits.get(name) for name in self.names],
        )
        """As of now: scenarios copy them."""
        for tenant, kind in zip(self.attempt_tenants, snapshot.attempts.kind.tolist(), strict=True):
            self.shares.charge(tenant, self.kind(kind).share, 1)
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
        group = [groups.setdefault((unit.queue, alike(unit)), len(groups)) for unit in units]
        self.group = np.array(group, dtype=np.float64)
        self.in_line = np.lexsort((position, self.group))
        kinds = self.snapshot.attempts.kind
        self.freed = {
            lane: np.array([part_of(self.kind(kind), last, on_gpus=lane) for kind in kinds.tolist()])
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
            if not number % _BREATHE_UNITS:
                self.breathe()
            self.by_row.setdefault(rows[number], []).append(number)
            placed = snapshot.placed.get(TaskId(jobs[number], tasks[number]))
            if placed is None or stopping[number]:
                drawn[number] = (limits[number] - snapshot.now_ms) / 1000
                tenant_id = DEFAULT_TENANT if placed is None else placed.task.tenant_id
                self.attempt_tenants[number] = self.tenant(tenant_id)
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


def fit_kind(unit: Unit) -> int:
    """Gangs are told apart from single tasks of their kind."""
    return unit.kind if unit.count == 1 else -1 - unit.kind


def alike(unit: Unit) -> Alike:
    """Units that start in the order of their queue: those with a much shorter limit may pass others."""
    return fit_kind(unit), (unit.limit_ms // 1000).bit_length()


def part_of(kind: KindFacts, last: int, *, on_gpus: bool) -> float:
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
