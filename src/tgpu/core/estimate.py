"""When will it start? By its reservation, or not before the moment that running tasks' limits allow."""

import numpy as np

from tgpu.core.columns.table import mask_of, milli_of
from tgpu.core.kernel.shapes import NEVER, NOWHERE, Attempts, Ints, Nodes
from tgpu.core.outlook import Ground, Outlook, gone_by_ms
from tgpu.core.units import unit_at
from tgpu.core.wording import clock, names
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import TERMS
from tgpu.domain.views import Reason

Estimate = tuple[int | None, str | None]
UNKNOWN: Estimate = (None, None)


def by_reservation(outlook: Outlook, task: TaskBrief) -> Estimate:
    reservation = outlook.reservation_of(task.task_id)
    if reservation is None:
        return UNKNOWN
    where = names(list(dict.fromkeys(node_id for node_id, _ in reservation.places)))
    at = clock(reservation.at_ms, outlook.picture.now_ms)
    return reservation.at_ms, f"has a reservation: starts ≈ {at} on {where}"


def not_before(
    outlook: Outlook, ground: Ground, task: TaskBrief, eligible_ms: int, position: int
) -> tuple[Estimate, list[Reason]]:
    """Once those who run have ended by their limits, and those with claims and reservations after them.

    Who else stands before it in line is not counted, so it may well be later; the first in line is told why
    it has no reservation: if another job has it, with a reason that names that one. Nothing is known of tasks
    for which there is room already: what they wait for does not end by a clock.
    """
    now_ms = ground.paper.now_ms
    at_ms = max(_earliest(outlook, ground, task), eligible_ms)
    if not now_ms < at_ms < NEVER:
        return UNKNOWN, []
    at = clock(at_ms, now_ms)
    if position > 1 or eligible_ms > now_ms:
        return (at_ms, f"not before {at}"), []
    in_words, reasons = _without_reservation(outlook, ground, task, at)
    return (at_ms, in_words), reasons


def _without_reservation(
    outlook: Outlook, ground: Ground, task: TaskBrief, at: str
) -> tuple[str, list[Reason]]:
    rank, pool = TERMS[task.priority_class].rank, task.request.pool
    if not outlook.policy.of(pool).reserve:
        return f"not before {at}: there are no reservations (reserve = 0), so others may pass it", []
    others = [r for of_rank, of_pool, r in ground.backfill.given if (of_rank, of_pool) == (rank, pool)]
    if others:
        job_id = others[0].task_ids[0].job_id
        reason = Reason("reserved", f"the reservation of its class is job {job_id}'s", {"job_id": job_id})
        return f"not before {at}: another job has the reservation of its class", [reason]
    deferred = outlook.picture.table.verdict.deferred if outlook.made is None else outlook.made.deferred
    if (rank, ground.kind_of(task)) in deferred:
        return f"starts ≈ {at}: nobody waits who could pass it, so it needs no reservation yet", []
    return f"not before {at}: it has no reservation yet", []


def _earliest(outlook: Outlook, ground: Ground, task: TaskBrief) -> int:
    paper, backfill = ground.paper, ground.backfill
    unit = unit_at(paper, paper.table.waiting.slot_of[task.task_id])
    if unit.gang is not None:
        found = backfill.reserve(unit, TERMS[task.priority_class].rank)
        return backfill.given[-1][2].at_ms if found else NEVER
    attempts, _ = paper.attempts()
    nodes, nothing = _with_reserved(ground), np.zeros_like(backfill.reserved.amounts)
    node, at_ms, _ = paper.engine.earliest_start(
        ground.kind_of(task),
        nodes,
        paper.kinds,
        paper.layouts,
        _with_their_ends(outlook, ground, attempts),
        nothing,
        np.zeros_like(backfill.reserved.gpu),
        np.zeros_like(backfill.reserved.some),
        np.zeros_like(backfill.reserved.tasks),
        np.zeros_like(backfill.reserved.alone),
        backfill.opens_ms(unit),
        paper.now_ms,
    )
    return NEVER if node == NOWHERE else int(at_ms)


def _with_reserved(ground: Ground) -> Nodes:
    """As if those with reservations were there already …"""
    nodes, reserved = ground.paper.own_nodes(), ground.backfill.reserved
    nodes.free[:] -= reserved.amounts
    nodes.gpu_free[:] -= reserved.gpu
    nodes.gpu_sum[:] -= reserved.gpu.sum(axis=1)
    nodes.tasks[:] += reserved.tasks
    nodes.alone[:] |= reserved.alone
    return nodes


def _with_their_ends(outlook: Outlook, ground: Ground, attempts: Attempts) -> Attempts:
    """… and left when their limits are over, from their moments on; claims, too, which are there already."""
    found = [
        _row(ground, task_id, reservation.at_ms, node_id, indices)
        for _, _, reservation in ground.backfill.given
        for task_id, (node_id, indices) in zip(reservation.task_ids, reservation.places, strict=True)
    ]
    for preempt in outlook.preempts:
        gone = [gone_by_ms(outlook.picture, v.task_id) for v in preempt.victims if outlook.picture.live(v)]
        at_ms = max(gone, default=ground.paper.now_ms)
        found += [_row(ground, c.task_id, at_ms, c.node_id, c.devices) for c in preempt.claims]
    more: Ints = np.array(found, dtype=np.int64).reshape(-1, 5)
    node_of = np.repeat(np.arange(len(attempts.begin) - 1), np.diff(attempts.begin))
    node_of = np.concatenate([node_of, more[:, 0]])
    end_ms = np.concatenate([attempts.end_ms, more[:, 1]])
    order = np.lexsort((end_ms, node_of))
    return attempts._replace(
        begin=np.searchsorted(node_of[order], np.arange(len(attempts.begin))).astype(np.int32),
        end_ms=end_ms[order],
        kind=np.concatenate([attempts.kind, more[:, 2].astype(np.int32)])[order],
        devices=np.concatenate([attempts.devices, more[:, 3]])[order],
        milli=np.concatenate([attempts.milli, more[:, 4].astype(np.int32)])[order],
    )


def _row(
    ground: Ground, task_id: TaskId, at_ms: int, node_id: str, indices: tuple[int, ...]
) -> tuple[int, ...]:
    """(node, end, kind, devices, thousandths of each) of a task that starts there at that moment."""
    table = ground.paper.table
    task, node = ground.paper.picture.waiting[task_id], table.nodes.row(node_id)
    about = table.nodes.nodes[node]
    end_ms = at_ms + ground.end_ms(task) - ground.paper.now_ms
    devices, milli = mask_of(about, indices), milli_of(about, indices, task.request)
    return node, end_ms, table.kind_of(task), devices, milli
