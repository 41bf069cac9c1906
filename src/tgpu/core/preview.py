"""Plan preview: hypothetical jobs, planned and explained on a trial copy of the cluster state."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from tgpu.core.engine import PLAIN, Engine
from tgpu.core.explain import explain_waiting
from tgpu.core.outlook import Outlook, head_of
from tgpu.core.picture import Picture
from tgpu.core.plan import Start
from tgpu.core.policy import Policy
from tgpu.core.standing import preempt_for
from tgpu.core.trial_state import trial_copy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.preview import FIRST_HYPOTHETICAL_ID, StartPreview, Starts
from tgpu.domain.priority import TERMS
from tgpu.domain.views import Reason, Why

_MOST_PLACES = 32
_HYPOTHETICAL = re.compile(r"(?:\bjob )?\b(\d{12,})\b")


Jobs = Sequence[Sequence[TaskBrief]]
"""Their tasks. Ids begin at FIRST_HYPOTHETICAL_ID; only capacity, quota and order keep them from starting."""


def with_jobs(picture: Picture, jobs: Jobs) -> Picture:
    """A trial copy of the cluster state with these jobs in it."""
    trial = trial_copy(picture)
    for tasks in jobs:
        for task in tasks:
            trial.add_waiting(task)
    return trial


def preview(
    trial: Picture,
    policy: Policy,
    jobs: Jobs,
    engine: Engine = PLAIN,
    is_over: Callable[[], bool] = lambda: False,
) -> list[StartPreview]:
    """What the next cycle would do with these jobs, which were added to the trial copy. Once the time
    `is_over`, no further job is looked at: then fewer are returned, but one at least."""
    outlook = Outlook(trial, policy, engine)
    starts = _starts(outlook)
    found: list[StartPreview] = []
    for tasks in jobs:
        found.append(_preview(outlook, tasks, starts.get(tasks[0].task_id.job_id, [])))
        if is_over():
            break
    return found


def _starts(outlook: Outlook) -> dict[int, list[Start]]:
    """What the next plan starts of the hypothetical jobs."""
    found: dict[int, list[Start]] = {}
    for start in () if outlook.made is None else outlook.made.starts:
        if start.task_id.job_id >= FIRST_HYPOTHETICAL_ID:
            found.setdefault(start.task_id.job_id, []).append(start)
    return found


def _preview(outlook: Outlook, tasks: Sequence[TaskBrief], started: list[Start]) -> StartPreview:
    first = started[0].task_id if started else tasks[0].task_id
    found = _expected(outlook, tasks, first)
    if started:
        places = tuple((start.node_id, start.devices) for start in islice(started, _MOST_PLACES))
        found = _Expected(Starts.NOW, places)
    why = _in_plain_words(explain_waiting(outlook, first))
    if why.reasons and why.reasons[0].code == "never-fits":
        found = _Expected(Starts.NEVER)
    elif found.starts is Starts.WAITS and why.starts_at_ms is not None:
        # The estimate itself says whether other jobs may pass this one.
        found = _Expected(Starts.AT, is_lower_bound=(why.estimate or "").startswith("not before"))
    return StartPreview(
        starts=found.starts,
        why=why,
        tasks=len(tasks),
        starting_tasks=len(started),
        places=found.places,
        jobs_ahead=0 if started else _jobs_ahead(outlook, outlook.picture.waiting[first]),
        preempts=found.preempts,
        is_lower_bound=found.is_lower_bound,
    )


@dataclass(frozen=True, slots=True)
class _Expected:
    starts: Starts
    places: tuple[tuple[str, tuple[int, ...]], ...] = ()
    preempts: tuple[int, ...] = ()
    is_lower_bound: bool = False


def _expected(outlook: Outlook, tasks: Sequence[TaskBrief], first: TaskId) -> _Expected:
    """For a job of which nothing starts now: by preemption, by its reservation, or not known."""
    preempt, reservation = preempt_for(outlook, first), outlook.reservation_of(first)
    if preempt is not None:
        own = {task.task_id for task in tasks}
        places = tuple((claim.node_id, claim.devices) for claim in preempt.claims if claim.task_id in own)
        victims = tuple(sorted({victim.job_id for victim in preempt.victims}))
        return _Expected(Starts.AT, places[:_MOST_PLACES], victims)
    if reservation is not None:
        return _Expected(Starts.AT, reservation.places[:_MOST_PLACES])
    return _Expected(Starts.WAITS)


def _jobs_ahead(outlook: Outlook, task: TaskBrief) -> int:
    """Without those that the next plan starts, and without the job itself."""
    waiting, rank = outlook.picture.table.waiting, TERMS[task.priority_class].rank
    slot = waiting.slot_of[head_of(outlook.picture, task)]
    own = waiting.queue_of(slot)
    ahead = [queue.slots for name, queue in waiting.queues.items() if name.rank < rank]
    if own is not None:
        queue = waiting.queues[own]
        ahead.append(queue.slots[: queue.before(slot)])
    if not ahead:
        return 0
    started = [] if outlook.made is None else [waiting.slot_of[each.task_id] for each in outlook.made.starts]
    slots = np.setdiff1d(np.concatenate(ahead), np.array(started, dtype=np.int32))
    return len(set(waiting.job[slots].tolist()) - {task.task_id.job_id})


def _in_plain_words(why: Why) -> Why:
    """Jobs of the same submission have no ids yet: texts name them by their place in it."""
    reasons = tuple(
        Reason(reason.code, _without_ids(reason.text), _without_hypothetical(reason.data))
        for reason in why.reasons
    )
    holders = tuple(holder for holder in why.holders if holder.job_id < FIRST_HYPOTHETICAL_ID)
    estimate = None if why.estimate is None else _without_ids(why.estimate)
    return replace(
        why, job_id=0, summary=_without_ids(why.summary), reasons=reasons, holders=holders, estimate=estimate
    )


def _without_ids(text: str) -> str:
    return _HYPOTHETICAL.sub(_place_in_request, text)


def _place_in_request(match: re.Match[str]) -> str:
    job_id = int(match[1])
    return match[0] if job_id < FIRST_HYPOTHETICAL_ID else f"jobs[{job_id - FIRST_HYPOTHETICAL_ID}]"


def _without_hypothetical(data: Mapping[str, object]) -> Mapping[str, object]:
    kept = dict(data)
    if isinstance(job_id := kept.get("job_id"), int) and job_id >= FIRST_HYPOTHETICAL_ID:
        del kept["job_id"]
    if isinstance(job_ids := kept.get("job_ids"), list):
        kept["job_ids"] = [each for each in job_ids if each < FIRST_HYPOTHETICAL_ID]
    return kept
