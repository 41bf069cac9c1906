"""Whom to stop so that a unit can start: only where this very plan proves that it then does."""

from dataclasses import dataclass, field

import numpy as np

from tgpu.core.backfill import Backfill, give, indices_of, no_special
from tgpu.core.kernel.shapes import NOWHERE, Attempts, Flags, Ints, Nodes, Small
from tgpu.core.kernel.victim_answer import BUDGET
from tgpu.core.paper import Paper
from tgpu.core.plan import Claim, Preempt
from tgpu.core.starting import admit
from tgpu.core.units import Unit, domains, member_kinds, room_for
from tgpu.core.whole_nodes import fills_nodes
from tgpu.domain.ids import AttemptId
from tgpu.domain.priority import BURST_RANK, grace_s

MOST_STUCK = 4
"""So many nodes are tried that turn out not to be filled by a gang that fills nodes."""
MOST_SEARCHES = 32
"""In one plan; then it says that there is more to decide."""


@dataclass(frozen=True, slots=True)
class _Field:
    """Who could be stopped: as things were when the plan began, for what it starts gives way to nobody."""

    attempts: Attempts
    slots: Small
    unit_tasks: Small
    unit_cost: Ints
    unit_stoppable: Flags

    @property
    def any_burst(self) -> bool:
        return bool((self.attempts.rank == BURST_RANK).any())


@dataclass(slots=True)
class _Search:
    """Hypothetical: the victims so far are gone, the members so far are there."""

    nodes: Nodes
    victims: list[int] = field(default_factory=list)
    """Units, by number."""
    spots: list[tuple[int, int]] = field(default_factory=list)
    """(node, devices) of each member."""


class Preemption:
    """All that one plan does about it."""

    def __init__(self, paper: Paper, backfill: Backfill) -> None:
        self._paper = paper
        self._backfill = backfill
        self._searches = 0
        self._known: _Field | None = None
        self._hopeless: dict[int, int] = {}
        """By kind: from this class down there are no victims that would help; how long it runs is all one."""
        self._lowest = self._lowest_rank() if paper.policy.preemption else 0
        self.preempts: list[Preempt] = []
        self.put_off: list[tuple[int, int]] = []
        """(class, kind) of those for whom there was no time to look."""

    def make_room(self, unit: Unit, rank: int) -> bool:
        """True if victims were found: the unit has its claim, and they are to go."""
        paper = self._paper
        kind = int(paper.waiting.kind[unit.slot])
        if not unit.may_preempt or rank >= self._hopeless.get(kind, self._lowest):
            return False
        if self._searches >= MOST_SEARCHES:
            self.put_off.append((rank, kind))
            return False
        self._searches += 1
        kinds = member_kinds(paper, unit)
        if not self._licensed(kinds):
            return False
        for allowed in domains(paper, unit):
            search = self._search_anew(unit, kinds, rank, allowed)
            if search is not None and search.victims:
                self._decide(unit, kinds, search)
                return True
        self._hopeless[kind] = rank
        return False

    @property
    def _field(self) -> _Field:
        if self._known is None:
            attempts, slots = self._paper.attempts_before()
            self._known = _Field(attempts, slots, *_by_unit(attempts))
            self._spare_gangs_with_claims(self._known)
        return self._known

    def _spare_gangs_with_claims(self, known: _Field) -> None:
        """The rest of such a gang is about to start: it would then run without those who were stopped."""
        picture, columns = self._paper.picture, self._paper.table.attempts
        gangs = [task_id.job_id for task_id in picture.claims if picture.waiting[task_id].gang is not None]
        if gangs:
            known.unit_stoppable[known.attempts.unit[np.isin(columns.job[known.slots], gangs)]] = False

    def _lowest_rank(self) -> int:
        """Of those who could be stopped at all: from there down nobody finds victims."""
        columns = self._paper.table.attempts
        ranks = columns.rank[columns.live & (columns.stop_ms == 0)]
        return int(ranks.max()) if len(ranks) else 0

    def _licensed(self, kinds: Small) -> bool:
        need = self._paper.kinds.cluster_need[kinds].sum(axis=0)
        return bool((need <= self._paper.cluster_free).all())

    def _search_anew(self, unit: Unit, kinds: Small, rank: int, allowed: Flags) -> _Search | None:
        """A gang that fills nodes may have begun on one that cannot be filled: then without that one."""
        for _ in range(MOST_STUCK if fills_nodes(unit) else 1):
            found = self._search(unit, kinds, rank, allowed)
            if isinstance(found, _Search):
                return found
            if found != NOWHERE:
                allowed = allowed & (np.arange(len(allowed)) != found)
        return None

    def _search(self, unit: Unit, kinds: Small, rank: int, allowed: Flags) -> _Search | int:
        """Where it got stuck, if it did: a node that was begun to be filled, or nowhere."""
        paper = self._paper
        nodes = paper.own_nodes()
        room = room_for(paper, unit)
        takes = nodes.takes & allowed & self._open_now(unit) & (room > 0)
        search, evenly, stuck = _Search(nodes._replace(takes=takes.copy())), fills_nodes(unit), NOWHERE
        for kind in kinds.tolist():
            spot = self._place(search, kind, rank, unit, room)
            if spot is None:
                self._field.unit_stoppable[search.victims] = True
                return stuck
            search.spots.append(spot)
            node = spot[0]
            room[node] -= 1
            takes[node] &= room[node] > 0
            stuck = node if evenly and takes[node] else NOWHERE
            search.nodes.takes[:] = takes if stuck == NOWHERE else np.arange(len(takes)) == stuck
        return search

    def _open_now(self, unit: Unit) -> Flags:
        """Nodes whose windows do not shut it out."""
        return self._backfill.opens_ms(unit) <= self._paper.now_ms

    def _place(
        self, search: _Search, kind: int, rank: int, unit: Unit, room: Small
    ) -> tuple[int, int] | None:
        """Where it fits, else where it does once the cheapest victims are gone, those on the burst first."""
        node = self._fits(search, kind, unit, room) if unit.gang is not None else NOWHERE
        if node == NOWHERE and self._field.any_burst and rank < BURST_RANK - 1:
            node = self._with_victims(search, kind, BURST_RANK - 1)
        if node == NOWHERE:
            node = self._with_victims(search, kind, rank)
        if node == NOWHERE:
            return None
        devices = self._take(search, kind, node)
        return node, devices

    def _fits(self, search: _Search, kind: int, unit: Unit, room: Small) -> int:
        paper, own = self._paper, self._paper.new_index(1, 0)
        scratch = self._less_reserved(search.nodes)
        paper.engine.rate_all(
            kind,
            paper.end_ms(unit.slot),
            paper.tenant_row(unit.slot),
            scratch.takes,
            room,
            scratch,
            paper.kinds,
            paper.layouts,
            paper.tree,
            own,
            no_special(paper.special),
        )
        return int(paper.engine.first_best(0, own))

    def _with_victims(self, search: _Search, kind: int, rank: int) -> int:
        paper, reserved = self._paper, self._backfill.reserved
        known = self._field
        out = np.empty(len(known.attempts.unit) + 1, dtype=np.int32)
        node, count = paper.engine.find_victims(
            kind,
            rank,
            search.nodes,
            paper.kinds,
            known.attempts,
            known.unit_tasks,
            known.unit_cost,
            known.unit_stoppable,
            reserved.amounts,
            reserved.gpu,
            reserved.some,
            reserved.alone,
            BUDGET,
            out,
        )
        for unit in out[:count].tolist():
            self._remove(search, unit)
        return int(node)

    def _remove(self, search: _Search, victim: int) -> None:
        search.victims.append(victim)
        attempts = self._field.attempts
        self._field.unit_stoppable[victim] = False
        for row in np.flatnonzero(attempts.unit == victim).tolist():
            node = int(np.searchsorted(attempts.begin, row, side="right")) - 1
            self._paper.engine.release(row, node, search.nodes, self._paper.kinds, attempts)

    def _take(self, search: _Search, kind: int, node: int) -> int:
        paper = self._paper
        scratch = self._less_reserved(search.nodes)
        layout = int(search.nodes.layout[node])
        devices = int(
            paper.engine.devices_for(kind, layout, scratch.gpu_free[node], paper.kinds, paper.layouts)
        )
        give(search.nodes, paper.kinds, kind, node, devices)
        return devices

    def _less_reserved(self, nodes: Nodes) -> Nodes:
        reserved = self._backfill.reserved
        return nodes._replace(
            free=nodes.free - reserved.amounts,
            gpu_free=nodes.gpu_free - reserved.gpu,
            gpu_sum=nodes.gpu_sum - reserved.gpu.sum(axis=1),
            tasks=nodes.tasks + reserved.tasks,
            alone=nodes.alone | reserved.alone,
        )

    def _decide(self, unit: Unit, kinds: Small, search: _Search) -> None:
        """The room is the unit's from now on; it is in debt until the victims have gone."""
        paper = self._paper
        claims = []
        for slot, kind, (node, devices) in zip(unit.members, kinds.tolist(), search.spots, strict=True):
            give(paper.nodes, paper.kinds, kind, node, devices)
            paper.cluster_free -= paper.kinds.cluster_need[kind]
            paper.note_change(node)
            paper.waiting.taken[slot] = True
            amounts = paper.table.charge_of(kind, gpu_taken(paper, kind, node, devices))
            paper.engine.charge_use(paper.tenant_row(slot), amounts, 1, paper.tree)
            task_id = paper.table.waiting.task(slot).task_id
            names = paper.table.nodes.names
            claims.append(Claim(task_id, names[node], indices_of(paper.table.nodes.nodes[node], devices)))
        rows = np.flatnonzero(np.isin(self._field.attempts.unit, search.victims))
        victims = sorted(self._stop(int(self._field.slots[row])) for row in rows)
        self.preempts.append(Preempt(tuple(victims), tuple(claims)))
        admit(paper, unit)
        for node in {node for node, _ in search.spots} | {int(n) for n in self._nodes_of(rows)}:
            self._backfill.touched(node)

    def _nodes_of(self, rows: Ints) -> Ints:
        return np.searchsorted(self._field.attempts.begin, rows, side="right") - 1

    def _stop(self, slot: int) -> AttemptId:
        paper = self._paper
        columns, picture = paper.table.attempts, paper.picture
        placed = picture.placed[paper.table.task_of(slot)]
        task = placed.task
        paper.stopping[slot] = paper.now_ms + 1000 * grace_s(task.priority_class, task.grace_s)
        amounts = paper.table.charged(task.task_id)
        row = int(paper.table.tenants.row_of[paper.table.tenants.number(task.tenant_id)])
        paper.engine.charge_use(row, amounts, -1, paper.tree)
        assert columns.live[slot], "only who holds something can be stopped"
        return placed.attempt_id


def gpu_taken(paper: Paper, kind: int, node: int, devices: int) -> int:
    need = paper.kinds.device_need[kind, paper.nodes.layout[node]].tolist()
    return sum(amount for device, amount in enumerate(need) if (devices >> device) & 1)


def _by_unit(attempts: Attempts) -> tuple[Small, Ints, Flags]:
    """Per unit: tasks, what is lost, and whether all of it may be stopped."""
    units = int(attempts.unit.max()) + 1 if len(attempts.unit) else 0
    tasks = np.bincount(attempts.unit, minlength=units).astype(np.int32)
    cost = np.zeros(units, dtype=np.int64)
    np.add.at(cost, attempts.unit, attempts.cost)
    stoppable = np.ones(units, dtype=np.bool_)
    stoppable[attempts.unit[~attempts.stoppable]] = False
    return tasks, cost, stoppable
