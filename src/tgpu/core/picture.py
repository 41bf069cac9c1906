"""The world as the core sees it: nodes and their room, what is placed, who waits.

The picture owns its indexes: every change goes through a method that keeps them right. Deciding never
changes a picture; `plan` tries on paper.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tgpu.core import edge
from tgpu.core.columns.table import Table
from tgpu.core.gang_book import GangBook
from tgpu.core.gpu_hours import GpuHours
from tgpu.core.moments import Moments
from tgpu.core.parked import Parked, rests_until
from tgpu.core.placed import Place, Placed, Window
from tgpu.core.plan import Claim, Plan, Preempt, Reservation
from tgpu.core.policy import Left, Policy
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import AttemptState, Cause, NodeState, Status
from tgpu.domain.node import Node
from tgpu.domain.priority import grace_s
from tgpu.domain.quota import Admission
from tgpu.domain.tenant import Tenant, lineage

__all__ = ["Picture", "Place", "Placed", "Window"]

AGE_EVERY_MS = 60_000
MOST_BACKOFF_S = 600


class Picture:
    """Live state in memory; `now_ms` is the only clock the core knows."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._now_ms = 0
        self.moments = Moments(1000 * policy.min_run_s if policy.preemption else 0)
        self._aged_ms = 0
        self.version = 0
        self.places: dict[str, Place] = {}
        self.placed: dict[TaskId, Placed] = {}
        self.tenants: dict[str, Tenant] = {}
        self.parked = Parked()
        self.claims: dict[TaskId, Claim] = {}
        self.preempts: list[Preempt] = []
        """Those whose claims still wait for their victims to leave."""
        self.reservations: tuple[Reservation, ...] = ()
        self.windows: tuple[Window, ...] = ()
        self.gangs = GangBook()
        self.hours = GpuHours(policy)
        self.table = Table(policy, self.hours)
        """The same facts as arrays: what plans are made on."""

    @property
    def waiting(self) -> Mapping[TaskId, TaskBrief]:
        return self.table.waiting

    @property
    def now_ms(self) -> int:
        return self._now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        """Who slept long enough may start, who ran long enough may give way, who waited long moves up."""
        self._now_ms = now_ms
        for task_id in self.moments.woken(now_ms):
            task = self.waiting.get(task_id)
            if task is not None and task.eligible_ms <= now_ms:
                gang = None if task.gang is None else self.gangs.of(task_id.job_id)
                self.table.wake(task_id if gang is None else min(gang.waiting))
        for task_id in self.moments.rested(now_ms):
            if task_id in self.parked:
                self.add_waiting(self.parked.take(task_id))
        for attempt_id in self.moments.unprotected(now_ms):
            placed = self.live(attempt_id)
            if placed is not None:
                self.table.gives_way(placed.node_id)
        if now_ms - self._aged_ms >= AGE_EVERY_MS:
            self._aged_ms = now_ms
            self.table.age(now_ms)

    # Nodes

    def set_node(self, node: Node) -> None:
        """A node that is new, or is described anew; what runs there stays there."""
        edge.check_node(node)
        self.version += 1
        place = self.places.get(node.node_id)
        if place is None:
            place = self.places[node.node_id] = Place(node)
        changed = place.node.capacity != node.capacity
        place.node = node
        if changed or not place.takes_tasks:
            self.give_up_claims(node.node_id)
        if not self.table.can_hold_node(node):
            self.lay_out()
            return
        self.table.set_node(node, place.is_open)
        for placed in place.attempts.values():
            self.table.take_again(placed.task.task_id)
        for claim in self.claims.values():
            if claim.node_id == node.node_id:
                self.table.claim_again(claim.task_id)

    def remove_node(self, node_id: str) -> None:
        """A node that holds nothing any more; who was promised a place there is promised another."""
        assert not self.places[node_id].attempts, "a node that holds tasks cannot be forgotten"
        self.version += 1
        self.give_up_claims(node_id)
        del self.places[node_id]
        self.table.remove_node(node_id)
        kept = [r for r in self.reservations if all(name != node_id for name, _ in r.places)]
        self.reservations = tuple(kept)
        self.table.doubt_all()

    def set_reachable(self, node_id: str, reachable: bool) -> None:
        self.places[node_id].reachable = reachable
        self._state_changed(node_id)

    def set_shortage(self, node_id: str, shortage: str) -> None:
        self.places[node_id].shortage = shortage
        self._state_changed(node_id)

    def set_state(self, node_id: str, state: NodeState) -> Node:
        place = self.places[node_id]
        place.node = replace(place.node, state=state)
        self._state_changed(node_id)
        return place.node

    def _state_changed(self, node_id: str) -> None:
        self.version += 1
        place = self.places[node_id]
        self.table.set_state(place.node, place.is_open)
        if not place.takes_tasks:
            self.give_up_claims(node_id)

    def set_windows(self, windows: Iterable[Window]) -> None:
        self.version += 1
        self.windows = tuple(windows)
        self.table.doubt_all()

    def left(self, node_id: str) -> Left:
        return self.table.left(self.places[node_id].node)

    # Tenants

    def set_tenant(self, tenant: Tenant) -> None:
        """New, or with another weight or quota: counts from the next plan on."""
        edge.check_tenant(tenant, self.tenants)
        self.version += 1
        self.tenants[tenant.tenant_id] = tenant
        self.hours.set(tenant)
        self.table.set_tenant(tenant)

    def _know_tenant(self, tenant_id: str) -> None:
        """Whoever has tasks is a tenant, of weight 1 until something else is said."""
        if tenant_id not in self.tenants:
            for name in lineage(tenant_id):
                if name not in self.tenants:
                    self.set_tenant(Tenant(name))

    # Waiting tasks

    def add_waiting(self, task: TaskBrief) -> None:
        """In its queue, or beside all of them if its job is held, or waits for others or for a moment."""
        edge.check_task(task)
        if (until_ms := rests_until(task)) > self._now_ms:
            self.moments.rests(task.task_id, until_ms)
        if until_ms > self._now_ms or (task.timing is not None and task.timing.is_parked):
            self.parked.add(task)
            return
        self.version += 1
        self._know_tenant(task.tenant_id)
        if not self.table.can_hold_request(task.request):
            self.lay_out(task)
        else:
            self._enter(task)
        self.table.arrived(task)
        self._outrank(task.task_id)

    def put_back(self, task: TaskBrief) -> None:
        """It was preempted: it waits at its old place in line, but not before some time has passed."""
        backoff_s = min(MOST_BACKOFF_S, self.policy.backoff_s << min(task.attempts - 1, 16))
        again_ms = self._now_ms + 1000 * backoff_s
        self.add_waiting(replace(task, status=Status.PREEMPTED, burst=False, eligible_ms=again_ms))

    def _enter(self, task: TaskBrief) -> None:
        if task.gang is not None:
            self.gangs.waits(task)
        self.table.add_waiting(task)
        if task.eligible_ms > self._now_ms:
            self.moments.sleeps(task.task_id, task.eligible_ms)
        if task.task_id not in self.claims:
            self._queue(task.task_id)

    def _queue(self, task_id: TaskId) -> None:
        task = self.waiting[task_id]
        if task.gang is None:
            self.table.queue(task_id, asleep=task.eligible_ms > self._now_ms)
        else:
            gang = self.gangs.of(task_id.job_id)
            if gang.complete and self.claims.keys().isdisjoint(gang.waiting):
                self.table.queue_gang(gang)

    def _outrank(self, task_id: TaskId) -> None:
        """Who joins a queue with a higher priority comes first: a reservation behind it is given up."""
        waiting = self.table.waiting
        if not self.reservations or self.waiting[task_id].held:
            return
        kept = [
            reservation
            for reservation in self.reservations
            if not waiting.outranks(task_id, min(reservation.task_ids))
        ]
        if len(kept) < len(self.reservations):
            self.reservations = tuple(kept)
            self.table.doubt_all()

    def remove_waiting(self, task_id: TaskId) -> TaskBrief:
        self.version += 1
        if task_id in self.claims:
            self._unclaim(task_id)
        task = self.waiting[task_id]
        if task.gang is not None:
            self.table.unqueue_gang(self.gangs.of(task_id.job_id))
            self.gangs.left(task)
        self.table.remove_waiting(task_id)
        if self.reservations and any(task_id in r.task_ids for r in self.reservations):
            self.reservations = tuple(r for r in self.reservations if task_id not in r.task_ids)
            self.table.doubt_all()
        return task

    # Placed tasks

    def place(
        self,
        task: TaskBrief,
        attempt_id: AttemptId,
        node_id: str,
        devices: tuple[int, ...],
        admission: Admission = Admission.CHARGED,
    ) -> Placed:
        """The task has been given this node and these devices (its attempt is assigned). If it was held, its
        tenant is charged for it from now on, or it is on the burst for as long as it has this attempt."""
        task = task.moved(Status.SCHEDULED, attempt_id.number)
        if admission is Admission.NOW:
            task = replace(task, held=False)
        elif admission is Admission.BURST:
            task = replace(task, burst=True)
        self.hours.reserve(task)
        return self.restore(
            Placed(task, attempt_id, node_id, devices, AttemptState.ASSIGNED, assigned_ms=self._now_ms)
        )

    def restore(self, placed: Placed) -> Placed:
        self.version += 1
        self.placed[placed.task.task_id] = placed
        self.places[placed.node_id].attempts[placed.attempt_id] = placed
        if placed.task.gang is not None:
            self.gangs.runs(placed.task)
        self._know_tenant(placed.task.tenant_id)
        self.hours.runs(placed.task, 1)
        if not self.table.can_hold_request(placed.task.request):
            self.lay_out()
        else:
            self.table.hold(placed, self._now_ms)
        if placed.state is AttemptState.RUNNING:
            self.moments.runs(placed.attempt_id, placed.since_ms)
        return placed

    def started(self, placed: Placed, at_ms: int) -> None:
        placed.started_ms = at_ms
        placed.task = placed.task.moved(Status.RUNNING, placed.task.attempts)
        if placed.state is AttemptState.ASSIGNED:
            placed.state = AttemptState.RUNNING
            self.moments.runs(placed.attempt_id, at_ms)
        self.table.attempt_changed(placed)

    def saved(self, placed: Placed, at_ms: int) -> None:
        """What it has done so far would not be lost any more."""
        placed.task = replace(placed.task, checkpoint_ms=at_ms)
        self.table.attempt_changed(placed)

    def stopping(self, placed: Placed, cause: Cause) -> None:
        """It is told to stop, and is gone after its grace at the latest."""
        placed.state = AttemptState.STOPPING
        placed.stop_cause = cause
        placed.stop_by_ms = self._now_ms + 1000 * grace_s(placed.task.priority_class, placed.task.grace_s)
        self.table.attempt_changed(placed)

    def release(self, task_id: TaskId) -> Placed:
        """The task holds nothing any more."""
        self.version += 1
        placed = self.placed.pop(task_id)
        del self.places[placed.node_id].attempts[placed.attempt_id]
        if placed.task.gang is not None:
            self.gangs.left(placed.task)
        self.hours.runs(placed.task, -1)
        self.hours.settle(placed, self._now_ms)
        self.table.release(task_id, self._now_ms)
        return placed

    def ended(self, task: TaskBrief) -> None:
        """A task that left its place is over: what is left of its gang may have waited for that."""
        gang = None if task.gang is None else self.gangs.ended(task.task_id.job_id)
        if gang is not None and gang.waiting and gang.complete:
            self._queue(min(gang.waiting))

    def closed(self, task: TaskBrief) -> None:
        """A task that waited no more is over, and whoever waits of its gang is about to be."""
        if task.gang is not None:
            self.gangs.ended(task.task_id.job_id)

    def live(self, attempt_id: AttemptId) -> Placed | None:
        placed = self.placed.get(attempt_id.task_id)
        return placed if placed is not None and placed.attempt_id == attempt_id else None

    # What plans leave behind

    def preempt(self, preempt: Preempt) -> None:
        """From now on the room that the victims leave belongs to these tasks."""
        self.version += 1
        self.preempts.append(preempt)
        for claim in preempt.claims:
            task = self.waiting[claim.task_id]
            if task.gang is not None:
                self.table.unqueue_gang(self.gangs.of(claim.task_id.job_id))
            self.claims[claim.task_id] = claim
            self.hours.promise(task, 1)
            self.table.claim(claim, self.places[claim.node_id].node, self._now_ms)

    def fulfil(self, task_ids: Collection[TaskId]) -> None:
        """These start now: what they had claimed is given to them for good by `place`."""
        for preempt in list(self.preempts):
            if any(claim.task_id in task_ids for claim in preempt.claims):
                self.preempts.remove(preempt)
                for claim in preempt.claims:
                    self._give_back(claim)

    def give_up_claims(self, node_id: str) -> None:
        """The node takes no tasks: who had a claim there waits like everybody else."""
        for preempt in list(self.preempts):
            if any(claim.node_id == node_id for claim in preempt.claims):
                self._dissolve(preempt)

    def _unclaim(self, task_id: TaskId) -> None:
        for preempt in list(self.preempts):
            if any(claim.task_id == task_id for claim in preempt.claims):
                self._dissolve(preempt)

    def _dissolve(self, preempt: Preempt) -> None:
        self.preempts.remove(preempt)
        for claim in preempt.claims:
            self._give_back(claim)
        for claim in preempt.claims:
            self._queue(claim.task_id)

    def _give_back(self, claim: Claim) -> None:
        del self.claims[claim.task_id]
        self.hours.promise(self.waiting[claim.task_id], -1)
        self.table.unclaim(claim.task_id, self._now_ms)

    def settle(self, made: Plan) -> None:
        """The plan has been carried out: who it found no room for need not be asked again soon."""
        self.reservations = made.reservations
        if made.verdict is not None:
            self.table.verdict.settled(made.verdict, made.deferred, made.refused)

    def in_order(self) -> list[TaskId]:
        """All who wait in queues, class by class: inside a class, queue by queue."""
        return self.table.in_order()

    def position(self, task_id: TaskId) -> int:
        """1 for the first in its queue."""
        return self.table.position(task_id)

    def lay_out(self, *newcomers: TaskBrief) -> None:
        """The arrays anew: something came that has no column yet."""
        waiting, holdings = (*self.waiting.values(), *newcomers), self.table.holdings.values()
        requests = [*(task.request for task in waiting), *(holding.request for holding in holdings)]
        requests += [placed.task.request for placed in self.placed.values()]
        self.table = Table(self.policy, self.hours)
        self.table.lay_out([place.node for place in self.places.values()], requests)
        self.table.set_nodes([(place.node, place.is_open) for place in self.places.values()])
        for holding in holdings:
            self.table.keep(holding)
        for tenant in self.tenants.values():
            self.table.set_tenant(tenant)
        for placed in self.placed.values():
            self.table.hold(placed, self._now_ms)
        self.table.age(self._aged_ms)
        self.gangs.forget_waiting()
        self.moments.nobody_sleeps()
        for task in waiting:
            self._enter(task)
        for claim in self.claims.values():
            self.table.claim(claim, self.places[claim.node_id].node, self._now_ms)
