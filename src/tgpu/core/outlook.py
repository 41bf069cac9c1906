"""What is left once everything that can start now has started: what answers are found on.

Nothing here changes the picture, except that kinds of request that somebody asked about become known to it.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from tgpu.core.backfill import Backfill, no_special
from tgpu.core.columns.table import mask_of
from tgpu.core.engine import Engine
from tgpu.core.gang_book import GangState
from tgpu.core.kernel.scores import NO_ROOM
from tgpu.core.kernel.shapes import NEVER, Flags, Ints, Kinds, Small, Special
from tgpu.core.outside import with_outside_scorers
from tgpu.core.paper import Paper
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan, Reservation, Start
from tgpu.core.planner import is_settled, plan
from tgpu.core.policy import Policy
from tgpu.core.units import Unit, domains, hardest_first, room_for, unit_at
from tgpu.core.whole_nodes import Site, sets_of_nodes
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import TERMS, grace_s
from tgpu.domain.quota import Admission


class Outlook:
    """The picture, and what the next plan would do if it has not been made yet."""

    def __init__(self, picture: Picture, policy: Policy, engine: Engine) -> None:
        self.picture, self.policy = picture, policy
        self._engine = with_outside_scorers(engine, picture, policy)
        settled = is_settled(picture) and not len(picture.table.verdict.refused)
        made = None if settled else plan(picture, policy, engine=engine)
        self.made = made
        given = picture.reservations if made is None else made.reservations
        self.reservations = [each for each in given if _is_there(picture, each)]
        self.preempts = [*picture.preempts, *(() if made is None else made.preempts)]

    def start_of(self, task_id: TaskId) -> Start | None:
        """If the next plan starts it."""
        starts = () if self.made is None else self.made.starts
        return next((start for start in starts if start.task_id == task_id), None)

    def reservation_of(self, task_id: TaskId) -> Reservation | None:
        return next((each for each in self.reservations if task_id in each.task_ids), None)

    def rank_of(self, task_id: TaskId) -> int:
        return TERMS[self.picture.waiting[task_id].priority_class].rank

    def ground(self, rank: int, task_id: TaskId, policy: Policy | None = None) -> "Ground":
        """For a task when it is the turn of that class: who stands below it has reserved nothing yet.

        Its own reservation, if it has one, does not stand in its way. `policy`: as if that one held.
        """
        paper = Paper(self.picture, policy or self.policy, self._engine)
        if self.made is not None:
            _carry_out(paper, self.made)
        backfill = Backfill(paper)
        for each in self.reservations:
            of_rank = self.rank_of(each.task_ids[0])
            if of_rank <= rank and task_id not in each.task_ids:
                slot = paper.table.waiting.slot_of[each.task_ids[0]]
                backfill.keep(unit_at(paper, slot), of_rank, each)
        ground, task = Ground(paper, backfill), self.picture.waiting[task_id]
        ground.keep_licences(task, rank)
        if task.held and self.made is not None:
            ground.keep_quotas(task, self._refused_before(rank, task, self.made.line))
            if not self._is_refused(task, self.made.line):
                ground.first_in_line = None
        return ground

    def _refused_before(self, rank: int, task: TaskBrief, line: Sequence[TaskId]) -> list[TaskBrief]:
        """Whom quotas refuse before the task is asked, if it is of that class; where only turns would tell
        who comes first, also those who may come later."""
        waiting, head = self.picture.table.waiting, head_of(self.picture, task)
        slot, found = waiting.slot_of[head], []
        for task_id in line:
            if self.rank_of(task_id) > rank or task_id == head:
                break
            if not waiting.stands_behind(waiting.slot_of[task_id], slot):
                found.append(self.picture.waiting[task_id])
        return found

    def _is_refused(self, task: TaskBrief, line: Sequence[TaskId]) -> bool:
        """It, or one alike before it."""
        waiting = self.picture.table.waiting
        slot, others = waiting.slot_of[head_of(self.picture, task)], [waiting.slot_of[each] for each in line]
        same = (waiting.kind[others] == waiting.kind[slot]) & (waiting.tenant[others] == waiting.tenant[slot])
        return bool(same.any())


class Ground:
    """Free room with everybody's reservations on it. What is tried here leaves no trace."""

    def __init__(self, paper: Paper, backfill: Backfill) -> None:
        self.paper, self.backfill = paper, backfill
        self.everywhere: Flags = np.ones(len(paper.nodes.takes), dtype=np.bool_)
        self.kept_licences: Ints = np.zeros_like(paper.cluster_free)
        """Of those that are free: kept for others who lack more."""
        self.keepers: dict[int, TaskBrief] = {}
        """By licence: for whom first."""
        self.first_in_line: TaskBrief | None = None
        """Of those for whom a part of a quota is kept, the first without whom there would be room."""

    def keep_licences(self, task: TaskBrief, rank: int) -> None:
        """The first of each kind who lacks some keeps those that are free, if it stands before the task."""
        paper, waiting = self.paper, self.paper.table.waiting
        lacks: Flags = np.any(paper.kinds.cluster_need > paper.cluster_free, axis=1)
        if not lacks.any():
            return
        own_slot = waiting.slot_of[head_of(paper.picture, task)]
        for name in sorted(name for name in waiting.queues if name.rank <= rank):
            slots = waiting.queues[name].slots
            if name == waiting.queue_of(own_slot):
                slots = slots[: waiting.queues[name].before(own_slot)]
            slots = slots[lacks[waiting.kind[slots]] & (slots != own_slot)]
            _, firsts = np.unique(waiting.kind[slots], return_index=True)
            for slot in slots[np.sort(firsts)].tolist():
                self._keep_licences_for(waiting.task(slot), paper.kinds.cluster_need[waiting.kind[slot]])

    def _keep_licences_for(self, other: TaskBrief, need: Ints) -> None:
        if self.backfill.left_for(TERMS[other.priority_class].rank, other.request.pool):
            self.kept_licences += np.minimum(need, self.paper.cluster_free - self.kept_licences)
            for column in np.flatnonzero(need).tolist():
                self.keepers.setdefault(column, other)

    def keep_quotas(self, task: TaskBrief, refused: list[TaskBrief]) -> None:
        """What these ask for is not for the task, which is held as they are."""
        paper, tasks = self.paper, members_of(self.paper.picture, task)
        lacks = self.lacks_quota(tasks)
        for other in refused:
            demand = self._demand(members_of(paper.picture, other))
            paper.engine.refuse(*demand, paper.tree, paper.refused.promised)
            if not lacks and self.lacks_quota(tasks):
                lacks, self.first_in_line = True, other

    def lacks_quota(self, tasks: Sequence[TaskBrief]) -> bool:
        """Whether some quota has no room for those that are held beside what is kept for others."""
        paper = self.paper
        lacks, _ = paper.engine.lacking(*self._demand(tasks), paper.tree, paper.refused.promised)
        return bool(lacks)

    def _demand(self, tasks: Sequence[TaskBrief]) -> tuple[int, int, Ints, int, int]:
        number = self.paper.table.tenants.number(tasks[0].tenant_id)
        gpu_ms = sum(self.paper.policy.gpu_ms(task) for task in tasks)
        return self.row_of(tasks[0]), number, self.asked(tasks), len(tasks), gpu_ms

    def kind_of(self, task: TaskBrief) -> int:
        kind = self.paper.table.kind_of(task)
        self.paper.kinds = self.paper.table.kinds.arrays()
        return kind

    def end_ms(self, task: TaskBrief) -> int:
        return self.paper.now_ms + 1000 * self.paper.policy.duration_s(task)

    def row_of(self, task: TaskBrief) -> int:
        tenants = self.paper.table.tenants
        return int(tenants.row_of[tenants.number(task.tenant_id)])

    def suits(self, kind: int) -> Flags:
        """The nodes that would do if they were empty and there."""
        nodes = self.paper.nodes._replace(takes=self.everywhere)
        found: Flags = self.paper.engine.nodes_large_enough(kind, nodes, self.paper.kinds)
        return found

    def has_room(self, kind: int, end_ms: int, row: int, kinds: Kinds, *, reserved: bool = True) -> Flags:
        """The nodes where one such task could start; as if nobody had reserved anything, if asked so."""
        paper = self.paper
        own = paper.new_index(1, 0)
        paper.engine.rate_all(
            kind,
            end_ms,
            row,
            self.everywhere,
            np.ones(len(self.everywhere), dtype=np.int32),
            paper.nodes,
            kinds,
            paper.layouts,
            paper.tree,
            own,
            paper.special if reserved else no_special(paper.special),
        )
        found: Flags = own.score[0] > NO_ROOM
        return found

    def left_beside(self, end_ms: int) -> tuple[Ints, Small]:
        """What a task that ends then could have of each node and device, reservations taken off."""
        nodes, special = self.paper.nodes, self.paper.special
        stays = special.flag & (end_ms > special.shadow_ms) & (special.shadow_ms < NEVER)
        free = np.where(stays[:, None], np.minimum(nodes.free, special.extra), nodes.free)
        gpu = np.where(stays[:, None], np.minimum(nodes.gpu_free, special.extra_gpu), nodes.gpu_free)
        return free, gpu

    def is_admitted(self, tasks: Sequence[TaskBrief]) -> bool:
        """Whether the quota has room for those that are held; or the burst, if their class may."""
        return not tasks[0].held or not self.lacks_quota(tasks) or self.fits_burst(tasks)

    def fits_burst(self, tasks: Sequence[TaskBrief]) -> bool:
        if not self.may_burst(tasks[0]):
            return False
        paper, row = self.paper, self.row_of(tasks[0])
        return bool(paper.engine.burst_has_room(row, self.asked(tasks), paper.tree))

    def may_burst(self, task: TaskBrief) -> bool:
        of_class = TERMS[task.priority_class].may_burst
        return of_class and self.paper.table.quotas.may_burst(task.tenant_id)

    def may_begin(self, tasks: Sequence[TaskBrief]) -> bool:
        """Whether their tenants may run so many tasks more, and use so many GPU-hours."""
        return self.short_of(tasks) < 0

    def short_of(self, tasks: Sequence[TaskBrief]) -> int:
        """See the kernel's."""
        paper = self.paper
        gpu_ms = sum(paper.policy.gpu_ms(task) for task in tasks)
        return int(paper.engine.short_of(self.row_of(tasks[0]), len(tasks), gpu_ms, paper.tree))

    def asked(self, tasks: Sequence[TaskBrief]) -> Ints:
        """What these ask their quotas for."""
        kinds = [self.kind_of(task) for task in tasks]
        total: Ints = self.paper.kinds.quota[kinds].sum(axis=0)
        return total

    def places_for(self, tasks: Sequence[TaskBrief], *, reserved: bool = True) -> list[str] | None:
        """Where these find room now, all of them together; None if they do not.

        `tasks` are one task, or the tasks of a gang that wait, or the hardest of them.
        """
        paper = self.paper
        kinds = np.array([self.kind_of(task) for task in tasks], dtype=np.int32)
        unit, special = self._unit(tasks), paper.special if reserved else no_special(paper.special)
        cluster_free = paper.cluster_free - self.kept_licences
        site = Site(paper.nodes, special, cluster_free, self.end_ms(tasks[0]), self.row_of(tasks[0]))
        sets = (sets_of_nodes(paper, unit, kinds, site, allowed) for allowed in domains(paper, unit))
        for chosen in chain.from_iterable(sets):
            out_node, length = kinds.copy(), int(paper.index.length[0])
            placed = paper.engine.place_gang(
                kinds,
                site.end_ms,
                site.tenant_row,
                chosen,
                room_for(paper, unit),
                paper.own_nodes(),
                paper.kinds,
                paper.layouts,
                paper.tree,
                paper.index,
                paper.new_index(1, 0),
                _own(special),
                cluster_free.copy(),
                paper.new_amounts(),
                out_node,
                kinds.astype(np.int64),
            )
            paper.index.length[0] = length  # nothing has changed
            if placed:
                return [paper.table.nodes.names[node] for node in out_node.tolist()]
        return None

    def _unit(self, tasks: Sequence[TaskBrief]) -> Unit:
        first = tasks[0]
        slots = tuple(self.paper.table.waiting.slot_of[task.task_id] for task in tasks)
        if first.gang is None:
            return Unit(slots[0], first, None, slots)
        known = self.paper.picture.gangs.of(first.task_id.job_id)
        gang = GangState(known.job_id, first.gang, known.waiting, known.running, known.over)
        return Unit(slots[0], first, gang, slots)


def _is_there(picture: Picture, reservation: Reservation) -> bool:
    """A node may have gone since the reservation was given."""
    return all(node_id in picture.places for node_id, _ in reservation.places)


def head_of(picture: Picture, task: TaskBrief) -> TaskId:
    """Who stands in the queue for it: of a gang, the first."""
    return task.task_id if task.gang is None else min(picture.gangs.of(task.task_id.job_id).waiting)


def members_of(picture: Picture, task: TaskBrief) -> list[TaskBrief]:
    """What starts with this task, hardest first; the task itself if it is of no gang."""
    if task.gang is None:
        return [task]
    tasks = [picture.waiting[task_id] for task_id in picture.gangs.of(task.task_id.job_id).waiting]
    return sorted(tasks, key=hardest_first)


def _own(special: Special) -> Special:
    return special._replace(extra=special.extra.copy(), extra_gpu=special.extra_gpu.copy())


def _carry_out(paper: Paper, made: Plan) -> None:
    for start in made.starts:
        if start.task_id not in paper.picture.claims:  # their room is theirs already
            kind, node, devices = _give(paper, start.task_id, start.node_id, start.devices)
            slot = paper.table.waiting.slot_of[start.task_id]
            paper.engine.write_down(slot, kind, node, devices, 0, paper.started)
            _count(paper, slot, kind, burst=start.admission is Admission.BURST)
    for preempt in made.preempts:
        for claim in preempt.claims:
            kind, _, _ = _give(paper, claim.task_id, claim.node_id, claim.devices)
            _count(paper, paper.table.waiting.slot_of[claim.task_id], kind)
        for victim in preempt.victims:
            columns = paper.table.attempts
            same = columns.live & (columns.job == victim.job_id) & (columns.task == victim.task_index)
            paper.stopping[int(np.argmax(same))] = gone_by_ms(paper.picture, victim.task_id)


def _count(paper: Paper, slot: int, kind: int, *, burst: bool = False) -> None:
    row, gpu_ms = paper.tenant_row(slot), paper.policy.gpu_ms(paper.table.waiting.task(slot))
    if paper.waiting.held[slot]:
        paper.engine.admit(row, paper.kinds.quota[kind], paper.tree, burst)
    paper.engine.begin(row, 1, gpu_ms, paper.tree)
    paper.waiting.taken[slot] = True


def _give(paper: Paper, task_id: TaskId, node_id: str, indices: tuple[int, ...]) -> tuple[int, int, int]:
    table, nodes = paper.table, paper.nodes
    kind, node = table.kind_of(table.waiting.task(table.waiting.slot_of[task_id])), table.nodes.row(node_id)
    devices = mask_of(table.nodes.nodes[node], indices)
    need = paper.kinds.device_need[kind, nodes.layout[node]]
    chosen = np.array([(devices >> at) & 1 for at in range(len(need))], dtype=np.int32)
    nodes.free[node] -= paper.kinds.need[kind]
    nodes.gpu_free[node] -= need * chosen
    nodes.gpu_sum[node] -= int((need * chosen).sum())
    nodes.tasks[node] += 1
    nodes.alone[node] += paper.kinds.exclusive[kind]
    paper.cluster_free -= paper.kinds.cluster_need[kind]
    return kind, node, devices


def gone_by_ms(picture: Picture, task_id: TaskId) -> int:
    """When somebody who is being stopped, or is about to be, has gone at the latest."""
    placed = picture.placed[task_id]
    if placed.stop_by_ms is not None:
        return placed.stop_by_ms
    return picture.now_ms + 1000 * grace_s(placed.task.priority_class, placed.task.grace_s)
