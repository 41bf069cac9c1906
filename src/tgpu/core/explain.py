"""Why does it wait, when will it start, what would start it now? The rules that decide, put into words."""

from dataclasses import replace

from tgpu.core.advice import advice
from tgpu.core.engine import PLAIN, Engine
from tgpu.core.estimate import Estimate, by_reservation, not_before
from tgpu.core.gang_reasons import gang_reasons
from tgpu.core.giving_way import nobody_yields, would_yield
from tgpu.core.holders import holders
from tgpu.core.kept import kept, licences
from tgpu.core.never import never_fits
from tgpu.core.obstacles import away, barred, match, missing_now, tainted
from tgpu.core.outlook import Ground, Outlook, head_of, members_of
from tgpu.core.picture import Picture, Placed
from tgpu.core.policy import Policy
from tgpu.core.quota_reasons import lasts, quota
from tgpu.core.standing import backoff, claim, line, preempt_for
from tgpu.core.unusable import unusable_gpus
from tgpu.core.wording import clock
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Cause
from tgpu.domain.priority import TERMS
from tgpu.domain.views import Holder, Reason, Why

__all__ = ["explain", "explain_waiting", "never_fits"]

_AHEAD = frozenset({"in-line", "share"})
"""Somebody else of its class would be served first: nobody would give way to this one."""

_HIGHER = "it gives way to a task of a higher class"


def explain(picture: Picture, policy: Policy, task_id: TaskId, engine: Engine = PLAIN) -> Why | None:
    """The whole answer for a live task; None if it is not in the picture."""
    if task_id in picture.waiting:
        return explain_waiting(Outlook(picture, policy, engine), task_id)
    placed = picture.placed.get(task_id)
    if placed is not None:
        return Why(task_id.job_id, waiting=False, summary=_placed_summary(placed, picture.now_ms))
    return None


def explain_waiting(outlook: Outlook, task_id: TaskId) -> Why:
    """The same for a task that is in a queue."""
    picture = outlook.picture
    task = picture.waiting[task_id]
    position = _position(outlook, task)
    start, preempt = outlook.start_of(task_id), preempt_for(outlook, task_id)
    if start is not None:
        estimate = picture.now_ms, f"starts now on {start.node_id}"
        return _answer(task, [], position, estimate)
    if preempt is not None:
        reason, gone_ms = claim(outlook, task_id, preempt)
        return _answer(
            task, [reason], position, (gone_ms, f"starts ≈ {clock(gone_ms, picture.now_ms)} at the latest")
        )
    return _explain_waiting(outlook, task, position)


def _position(outlook: Outlook, task: TaskBrief) -> int:
    """In its queue; those with reservations stand before everybody else of their class."""
    picture, reservation = outlook.picture, outlook.reservation_of(task.task_id)
    rank = TERMS[task.priority_class].rank
    of_class = [each for each in outlook.reservations if outlook.rank_of(each.task_ids[0]) == rank]
    if reservation is not None:
        return 1 + of_class.index(reservation)
    head, waiting = head_of(picture, task), picture.table.waiting
    position, queue = picture.position(head), waiting.queue_of(waiting.slot_of[head])
    heads = [min(each.task_ids) for each in of_class]
    passing = [each for each in heads if waiting.queue_of(waiting.slot_of[each]) == queue]
    return position + sum(picture.position(each) > position for each in passing)


def _answer(
    task: TaskBrief,
    reasons: list[Reason],
    position: int,
    estimate: Estimate,
    held_by: tuple[Holder, ...] = (),
) -> Why:
    starts_at_ms, in_words = estimate
    return Why(
        task.task_id.job_id,
        True,
        _summary(reasons),
        tuple(reasons),
        held_by,
        position,
        starts_at_ms,
        in_words,
    )


def _explain_waiting(outlook: Outlook, task: TaskBrief, position: int) -> Why:
    picture = outlook.picture
    tasks = members_of(picture, task)
    ground = outlook.ground(TERMS[task.priority_class].rank, task.task_id)
    task = _without_room(ground, tasks)
    found = match(ground, task)
    reasons = _never(picture, tasks)
    never = bool(reasons)
    asleep, eligible_ms = backoff(outlook, tasks)
    blocked, room_by = quota(ground, tasks)
    lacking = [*missing_now(ground, found), *licences(ground, tasks)] if not never else []
    # A quota comes first where more free capacity would not start the task: it has enough, the quota lasts,
    # or other tasks would be preempted for it.
    lasting = any(lasts(reason) for reason in blocked)
    has_room = bool(found.takes.any()) and not lacking
    first = bool(blocked) and (
        lasting or has_room or would_yield(outlook, task, TERMS[task.priority_class].rank) is not None
    )
    reasons += [*blocked, *lacking] if first else lacking
    if not never:
        reasons += [*away(picture, ground, found), *tainted(ground, found), *barred(ground, found)]
        reasons += unusable_gpus(picture, ground, task, found.suits)
        reasons += kept(outlook, ground, found) if task.gang is None else []
    reasons += [*([] if first else blocked), *asleep]
    if task.gang is not None and not never:
        reasons += gang_reasons(outlook, ground, tasks)
    estimate = by_reservation(outlook, task)
    holds = estimate[0] is not None
    in_line = line(ground, picture.waiting[head_of(picture, task)], position, holds_reservation=holds)
    short = [str(reason.data["name"]) for reason in lacking if reason.code == "licence"]
    waits_for_a_clock = not never and not blocked and not short
    if waits_for_a_clock and not asleep and not any(r.code in _AHEAD for r in in_line):
        reasons += nobody_yields(outlook, tasks)
    reasons += in_line
    claimed = any(each.task_id in picture.claims for each in tasks)  # the rest of its gang waits for victims
    helps = None if asleep or claimed else advice(outlook, ground, found, tasks)
    if not holds and waits_for_a_clock:
        # The last: a gang is reserved room on paper.
        estimate, others = not_before(outlook, ground, task, eligible_ms, position)
        reasons += others
    elif blocked and not never and not short:
        estimate = room_by
    why = _answer(task, reasons, position, estimate, holders(ground, found, short))
    return replace(why, advice=helps)


def _without_room(ground: Ground, tasks: list[TaskBrief]) -> TaskBrief:
    """Of a gang whose tasks are not all alike, the hardest to place of those that find no room even alone; it
    would say nothing to ask about one that does."""
    kinds = {each.request: each for each in reversed(tasks)}
    if len(kinds) > 1:
        for each in sorted(kinds.values(), key=tasks.index):
            if missing_now(ground, match(ground, each)):
                return each
    return tasks[0]


def _never(picture: Picture, tasks: list[TaskBrief]) -> list[Reason]:
    if not picture.places:
        return [Reason("no-nodes", "no node has joined yet")]
    for request in dict.fromkeys(task.request for task in tasks):
        never = never_fits(request, picture, tasks[0].tenant_id, len(tasks))
        if never is not None:
            return [Reason("never-fits", f"can never run here: {never}")]
    return []


def _summary(reasons: list[Reason]) -> str:
    if not reasons:
        return "waits: it starts in the next cycle"
    first = reasons[0]
    return first.text if first.code == "never-fits" else f"waits: {first.text}"


def _is_out_of_time(placed: Placed, now_ms: int) -> bool:
    """Its node has told it to stop, and tells us when it is gone."""
    limit_s = placed.task.time_limit_s
    return (
        limit_s is not None and placed.started_ms is not None and now_ms >= placed.started_ms + 1000 * limit_s
    )


def _placed_summary(placed: Placed, now_ms: int) -> str:
    where = f"on {placed.node_id}"
    if placed.devices:
        where += f", GPU {', '.join(map(str, placed.devices))}"
    if placed.stop_cause is Cause.PREEMPTED:
        then = "waits again" if placed.task.requeue else "has then failed, for it is not to be tried again"
        way = "it gives way, for it ran on the burst" if placed.task.burst else _HIGHER
        return f"is being stopped {where}: {way}, and {then}"
    if placed.stop_cause is Cause.DEVICE_LOST:
        return f"is being stopped {where}: {placed.stop_detail or 'a GPU that it has failed'}"
    if placed.stop_cause is Cause.CANCELLED:
        return f"is being stopped {where}: somebody asked to cancel it"
    if _is_out_of_time(placed, now_ms):
        return f"is being stopped {where}: it has reached its time limit, and has its grace"
    verb = "runs" if placed.started_ms is not None else "is being started"
    if placed.task.burst:
        return f"{verb} {where}, beyond its tenant's quota: it is the first to give way"
    return f"{verb} {where}"
