"""Planned starts: room kept ahead for pending tasks, by backfill reservations and by claims of preemptors."""

from collections.abc import Sequence

from tgpu.core.engine import Engine
from tgpu.core.outlook import Outlook, gone_by_ms
from tgpu.core.picture import Picture
from tgpu.core.plan import Preempt, Reservation
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.views import PlannedStart, StartKind


def planned_starts(picture: Picture, policy: Policy, engine: Engine, most: int) -> list[PlannedStart]:
    """The first `most` of them, by time."""
    outlook = Outlook(picture, policy, engine)
    found = [
        _start(outlook, StartKind.RESERVATION, task_id, node_id, devices, reservation.at_ms)
        for reservation in _reservations(outlook, engine)
        for task_id, (node_id, devices) in zip(reservation.task_ids, reservation.places, strict=True)
    ]
    for preempt in outlook.preempts:
        at_ms = _room_by_ms(picture, preempt)
        found += [
            _start(outlook, StartKind.CLAIM, claim.task_id, claim.node_id, claim.devices, at_ms)
            for claim in preempt.claims
            if claim.task_id in picture.waiting
        ]
    return sorted(found, key=lambda start: (start.at_ms, start.task_id, start.node_id))[:most]


def _reservations(outlook: Outlook, engine: Engine) -> Sequence[Reservation]:
    """A small cluster puts off reservations that no pending task could delay: a whole plan has those, too."""
    picture = outlook.picture
    deferred = picture.table.verdict.deferred if outlook.made is None else outlook.made.deferred
    if not deferred:
        return outlook.reservations
    return plan(picture, outlook.policy, whole=True, engine=engine).reservations


def _start(  # noqa: PLR0917  what a planned start is made of
    outlook: Outlook, kind: StartKind, task_id: TaskId, node_id: str, devices: tuple[int, ...], at_ms: int
) -> PlannedStart:
    task = outlook.picture.waiting[task_id]
    until_ms = at_ms + 1000 * outlook.policy.duration_s(task)
    return PlannedStart(
        kind, task_id, task.user, task.tenant_id, task.name, node_id, devices, at_ms, until_ms
    )


def _room_by_ms(picture: Picture, preempt: Preempt) -> int:
    """When the last of the preempted attempts has left its node at the latest."""
    live = [placed for victim in preempt.victims if (placed := picture.live(victim)) is not None]
    return max((gone_by_ms(picture, placed.task.task_id) for placed in live), default=picture.now_ms)
