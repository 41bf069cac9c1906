"""plan(picture, policy) -> Plan: who starts now and where, who gives way, and who is next."""

from functools import cached_property

import numpy as np

from tgpu.core.backfill import Backfill
from tgpu.core.columns.table import mask_of
from tgpu.core.engine import PLAIN, Engine
from tgpu.core.express import MOST_NODES, express
from tgpu.core.gang_book import GangState
from tgpu.core.kernel.filling import DONE, GANG, NO_LICENCE
from tgpu.core.kernel.shapes import NEVER, Stream
from tgpu.core.outside import with_outside_scorers
from tgpu.core.paper import Paper, nothing_blocked
from tgpu.core.pauses import Pauses
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan, Reservation
from tgpu.core.policy import Policy
from tgpu.core.preemption import Preemption
from tgpu.core.starting import (
    ADMITTED,
    CHARGED,
    burst_has_room,
    is_passed_over,
    lacks_only_licences,
    may_begin,
    quotas_allow,
    start,
)
from tgpu.core.starts import Starts
from tgpu.core.streams import line_up, stream_of
from tgpu.core.units import Unit, sleeps, unit_at
from tgpu.core.verdicts import cured
from tgpu.domain.priority import BURST_RANK, TERMS, PriorityClass


def plan(
    picture: Picture,
    policy: Policy,
    *,
    whole: bool = False,
    engine: Engine = PLAIN,
    most_starts: int | None = None,
) -> Plan:
    """Decide what can be decided. `whole`: look at everybody, not only at what an event may have cured.

    `most_starts`: end once there are about so many; the next plan goes on from there.
    """
    made = None if whole else express(picture, policy, most_starts)
    if made is not None:
        return made
    return Cycle(picture, policy, whole, with_outside_scorers(engine, picture, policy), most_starts).run()


class Cycle:
    """One cycle on paper."""

    def __init__(
        self, picture: Picture, policy: Policy, whole: bool, engine: Engine, most_starts: int | None
    ) -> None:
        self._picture, self._policy = picture, policy
        self._whole = whole or picture.table.verdict.all_open
        self._paper = Paper(picture, policy, engine)
        self._backfill = Backfill(self._paper)
        self._preemption = Preemption(self._paper, self._backfill)
        kinds = len(self._paper.kinds.gpus)
        self._blocked_ms = nothing_blocked(kinds) if self._whole else cured(self._paper, policy)
        if not self._whole:
            self._paper.refused.recall()
        self._orders = policy.order_names
        self._deferred: list[tuple[int, int]] = []
        """(class, kind) of those whose reservation is nobody's concern yet."""
        self._asleep: list[tuple[int, Unit]] = []
        """(class, unit) of those who sleep and have no place for the time after."""
        self._pauses = Pauses(self._paper, most_starts)
        self._unserved: list[Reservation] = []
        """Promises to classes that the plan did not come to, kept for the next one."""

    def run(self) -> Plan:
        # 0. Who was waiting for victims to leave.
        self._start_claims()
        for rank in self._ranks():
            if self._pauses.enough:
                self._put_off_holders(rank)
                continue
            self._paper.enter_class(rank)
            # 1. Gangs that lost a task, before anything new.
            self._repair_gangs(rank)
            # 2. Who was promised a place.
            self._serve_holders(rank)
            # 3. Everybody else, in the order of the policy.
            for order in self._orders:
                self._fill(rank, order)
        # 4. What is left, to those beyond their quota.
        self._burst()
        return self._plan()

    def _ranks(self) -> list[int]:
        """The classes with anybody in them."""
        ranks = {rank for (rank, _), queues in self._paper.table.waiting.streams.items() if queues}
        named = [reservation.task_ids[0] for reservation in self._picture.reservations]
        named += [min(gang.waiting) for gang in self._picture.gangs.damaged()]
        waiting = self._picture.waiting
        return sorted(ranks | {TERMS[waiting[task_id].priority_class].rank for task_id in named})

    def _start_claims(self) -> None:
        """Those whose victims have gone. The room is theirs already: nothing is taken anew."""
        paper = self._paper
        for preempt in self._picture.preempts:
            if any(self._picture.live(it) or it in paper.table.holdings for it in preempt.victims):
                continue
            for claim in preempt.claims:
                slot = paper.table.waiting.slot_of[claim.task_id]
                kind = paper.table.kind_of(paper.table.waiting.task(slot))
                row = paper.table.nodes.row(claim.node_id)
                devices = mask_of(paper.table.nodes.nodes[row], claim.devices)
                admission = ADMITTED if paper.waiting.held[slot] else CHARGED
                paper.engine.write_down(slot, kind, row, devices, admission, paper.started)
                paper.waiting.taken[slot] = True

    def _repair_gangs(self, rank: int) -> None:
        for gang in self._picture.gangs.damaged():
            unit = unit_at(self._paper, self._paper.table.waiting.slot_of[min(gang.waiting)])
            if TERMS[unit.task.priority_class].rank != rank or not self._can_be_repaired(gang):
                continue
            if quotas_allow(self._paper, unit):
                self._try(unit, rank, self._promised(unit))

    def _can_be_repaired(self, gang: GangState) -> bool:
        """Not while it has claims, sleeps, or the rest of it is being stopped."""
        picture = self._picture
        if any(picture.placed[task_id].stop_cause is not None for task_id in gang.running):
            return False
        return not any(
            task_id in picture.claims or picture.waiting[task_id].eligible_ms > picture.now_ms
            for task_id in gang.waiting
        )

    def _serve_holders(self, rank: int) -> None:
        waiting = self._paper.table.waiting
        for reservation in self._picture.reservations:
            unit = unit_at(self._paper, waiting.slot_of[min(reservation.task_ids)])
            if TERMS[unit.task.priority_class].rank != rank or not self._is_free(unit):
                continue
            if self._still_holds(unit, rank, reservation):
                in_the_way = self._anybody_open(rank, BURST_RANK) or self._anybody_held or self._anybody_due
                self._backfill.keep(unit, rank, reservation, in_the_way=in_the_way)
            else:
                self._try(unit, rank, reservation)

    def _put_off_holders(self, rank: int) -> None:
        """Those above them may have taken their places: the next plan asks anew."""
        waiting = self._paper.table.waiting
        for reservation in self._picture.reservations:
            slot = waiting.slot_of[min(reservation.task_ids)]
            if TERMS[waiting.task(slot).priority_class].rank == rank:
                self._unserved.append(reservation)
                self._blocked_ms[rank, self._paper.waiting.kind[slot]] = NEVER

    def _promised(self, unit: Unit) -> Reservation | None:
        task_id = unit.task.task_id
        return next((r for r in self._picture.reservations if task_id in r.task_ids), None)

    def _is_free(self, unit: Unit) -> bool:
        """Not decided yet, not held back by its quota, and whole: a damaged gang was looked at before."""
        if self._paper.waiting.taken[unit.slot] or not quotas_allow(self._paper, unit):
            return False
        return unit.gang is None or (unit.gang.complete and not unit.gang.running)

    def _still_holds(self, unit: Unit, rank: int, reservation: Reservation) -> bool:
        """Nothing was cured for it, and nobody has touched its nodes in this plan."""
        if self._whole or not self._is_settled(unit, rank) or reservation.at_ms <= self._picture.now_ms:
            return False
        nodes, index = self._paper.table.nodes, self._paper.index
        changed = set(index.log[: index.length[0]].tolist())
        return not any(nodes.row(node_id) in changed for node_id, _ in reservation.places)

    def _is_settled(self, unit: Unit, rank: int) -> bool:
        waiting = self._paper.waiting
        return bool(waiting.limit_ms[unit.slot] >= self._blocked_ms[rank, waiting.kind[unit.slot]])

    def _fill(self, rank: int, order: str) -> None:
        """Compiled as long as tasks fit; who needs a closer look is looked at here."""
        stream = stream_of(self._paper, rank, order) if self._anybody_to_ask(rank) else None
        if stream is None:
            return
        self._pauses.mark(stream)
        while not self._pauses.enough:
            why, slot, queue = self._run_kernel(stream, rank)
            if why == DONE:
                break
            if self._pauses.lift(slot):
                continue
            unit = unit_at(self._paper, slot)
            if why == GANG and (is_passed_over(self._paper, unit) or self._is_settled(unit, rank)):
                stream.head[queue] += 1
                continue
            self._look_closer(why, unit, rank)
            if why == GANG or self._paper.waiting.taken[slot]:
                line_up(self._paper, stream)
            if not self._anybody_to_ask(rank):
                break

    def _run_kernel(self, stream: Stream, rank: int) -> tuple[int, int, int]:
        paper = self._paper
        why, slot, queue = paper.engine.fill(
            paper.nodes,
            paper.kinds,
            paper.layouts,
            paper.tree,
            paper.waiting,
            stream,
            paper.index,
            paper.special,
            paper.cluster_free,
            self._blocked_ms[rank],
            paper.now_ms,
            paper.new_amounts(),
            paper.started,
        )
        return int(why), int(slot), int(queue)

    def _look_closer(self, why: int, unit: Unit, rank: int) -> None:
        """Who sleeps comes as a gang does: the kernel starts neither."""
        if why == GANG:
            self._try(unit, rank)
        elif why == NO_LICENCE or not self._preemption.make_room(unit, rank):
            self._wait(unit, rank)

    def _try(self, unit: Unit, rank: int, promised: Reservation | None = None) -> None:
        if sleeps(self._paper, unit):
            self._keep_place(unit, rank, promised)
        elif not start(self._paper, unit) and not self._preemption.make_room(unit, rank):
            self._wait(unit, rank, promised)

    def _keep_place(self, unit: Unit, rank: int, promised: Reservation | None) -> None:
        """Who may not start yet has what it could have as soon as it may; later, if a reservation is left."""
        may_wait = promised is not None or self._backfill.left_for(rank, unit.task.request.pool)
        if not self._backfill.reserve(unit, rank, promised, NEVER if may_wait else unit.eligible_ms):
            self._paper.waiting.taken[list(unit.members)] = True
            self._asleep.append((rank, unit))

    def _wait(self, unit: Unit, rank: int, promised: Reservation | None = None) -> None:
        """With a reservation, if it has one or one is left; with licences, if it lacks only these."""
        pool = unit.task.request.pool
        if promised is None and self._can_be_deferred(unit, rank):
            return
        if promised is not None or self._backfill.left_for(rank, pool):
            if self._paper.cluster_free.size and lacks_only_licences(self._paper, unit):
                self._backfill.keep_licences(unit, rank)
                return
            if self._backfill.reserve(unit, rank, promised):
                return
        if unit.gang is None or not unit.gang.running:
            self._block(unit, rank)

    def _can_be_deferred(self, unit: Unit, rank: int) -> bool:
        """Where nobody is left who could pass it, its moment need not be known before the next cycle.

        On a workstation that is most of the work; in a cluster it is little, and better done once.
        """
        small = len(self._paper.nodes.takes) <= MOST_NODES
        if self._whole or not small or unit.gang is not None or self._anybody_held:
            return False
        kind = int(self._paper.waiting.kind[unit.slot])
        before = self._blocked_ms[:, kind].copy()
        self._block(unit, rank)
        if self._anybody_open(rank, BURST_RANK):
            self._blocked_ms[:, kind] = before
            return False
        self._deferred.append((rank, kind))
        return True

    def _block(self, unit: Unit, rank: int) -> None:
        """Nor is there room for others of its kind, here or in lower classes, that last as long."""
        kind, limit_ms = int(self._paper.waiting.kind[unit.slot]), self._paper.waiting.limit_ms[unit.slot]
        row = self._blocked_ms[rank:, kind]
        np.minimum(row, limit_ms, out=row)

    def _anybody_open(self, rank: int, end: int) -> bool:
        """Whether there is somebody to try in the classes from this one up to the other."""
        shortest_ms = self._paper.table.waiting.shortest_ms
        kinds = min(shortest_ms.shape[1], self._blocked_ms.shape[1])
        return bool((shortest_ms[rank:end, :kinds] < self._blocked_ms[rank:end, :kinds]).any())

    def _anybody_to_ask(self, rank: int) -> bool:
        """Somebody to try, or somebody for whom a part of a quota may have to be kept."""
        return self._anybody_open(rank, rank + 1) or self._paper.refused.anybody_recalled(rank)

    @cached_property
    def _anybody_held(self) -> bool:
        return bool(self._paper.waiting.held.any())

    @cached_property
    def _anybody_due(self) -> bool:
        """Who is tried in every plan: gangs that lost a task, and those whose promised moment has come."""
        now_ms = self._picture.now_ms
        return any(self._picture.gangs.damaged()) or any(
            reservation.at_ms <= now_ms for reservation in self._picture.reservations
        )

    def _burst(self) -> None:
        if not self._anybody_held:
            return
        for priority_class in PriorityClass:
            terms = TERMS[priority_class]
            if not terms.may_burst:
                continue
            for order in self._orders:
                stream = stream_of(self._paper, terms.rank, order, burst=True)
                self._paper.enter_class(BURST_RANK)
                if stream is not None:
                    self._fill_burst(stream, terms.rank)

    def _fill_burst(self, stream: Stream, rank: int) -> None:
        self._pauses.mark(stream)
        while not self._pauses.enough:
            why, slot, queue = self._run_kernel(stream, rank)
            if why == DONE:
                return
            if self._pauses.lift(slot):
                continue
            unit = unit_at(self._paper, slot)
            if sleeps(self._paper, unit):
                self._paper.waiting.taken[list(unit.members)] = True
            elif why == GANG and not may_begin(self._paper, unit):
                continue
            elif why == GANG and not burst_has_room(self._paper, unit):
                stream.held_stop[queue] = True
            elif why == GANG and start(self._paper, unit, burst=True):
                line_up(self._paper, stream)
            else:
                self._block(unit, rank)

    def _plan(self) -> Plan:
        """With what the next cycle need not ask again: who has a reservation, or sleeps, is settled, too."""
        settled = [(rank, unit.slot) for rank, unit in self._asleep]
        slot_of = self._paper.table.waiting.slot_of
        settled += [(rank, slot_of[min(given.task_ids)]) for rank, _, given in self._backfill.given]
        if self._pauses.enough:
            settled = []  # others of their kinds may not have been asked yet
        for rank, slot in settled:
            kind, limit_ms = self._paper.waiting.kind[slot], self._paper.waiting.limit_ms[slot]
            self._blocked_ms[rank, kind] = min(self._blocked_ms[rank, kind], limit_ms)
        for rank, kind in self._preemption.put_off:
            self._blocked_ms[rank, kind] = NEVER
        return Plan(
            version=self._picture.version,
            starts=Starts(self._paper),
            preempts=tuple(self._preemption.preempts),
            reservations=(*(reservation for _, _, reservation in self._backfill.given), *self._unserved),
            faults=self._paper.table.faults,
            more=bool(self._preemption.put_off) or self._pauses.enough,
            verdict=self._blocked_ms,
            deferred=tuple(self._deferred),
            refused=self._paper.refused.found(cut_short=self._pauses.enough),
            line=self._paper.refused.in_line(),
        )


def is_settled(picture: Picture) -> bool:
    """Nothing has happened since the last plan that could let anybody start."""
    verdict, waiting = picture.table.verdict, picture.table.waiting
    if verdict.all_open or verdict.freed or picture.preempts:
        return False
    kinds = min(waiting.count.shape[1], verdict.blocked_ms.shape[1])
    return not (waiting.shortest_ms[:, :kinds] < verdict.blocked_ms[:, :kinds]).any()
