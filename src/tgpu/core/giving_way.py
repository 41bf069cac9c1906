"""Who gives way, who would give way to a task, and why nobody does: the last two are tried on paper."""

from dataclasses import dataclass, replace

import numpy as np

from tgpu.core.outlook import Outlook, gone_by_ms, head_of
from tgpu.core.picture import Picture, Placed
from tgpu.core.policy import Policy
from tgpu.core.preemption import Preemption
from tgpu.core.units import unit_at
from tgpu.core.wording import clock
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.priority import TERMS
from tgpu.domain.quantities import time_in_words
from tgpu.domain.views import Reason

MOST_SEARCHED = 250_000
"""Tasks times nodes that a search for victims on paper looks at, which takes about 0.1 s: the control loop
waits for it."""


def giving_way(picture: Picture) -> list[int]:
    """The jobs that are being stopped for others."""
    columns = picture.table.attempts
    stopping = [
        picture.table.task_of(slot) for slot in np.flatnonzero(columns.live & (columns.stop_ms > 0)).tolist()
    ]
    victims = [task_id for task_id in stopping if picture.placed[task_id].stop_cause is Cause.PREEMPTED]
    return sorted({task_id.job_id for task_id in victims})


@dataclass(frozen=True, slots=True)
class Yielding:
    """Whose end would let a unit start, and where."""

    victims: tuple[Placed, ...]
    node_ids: tuple[str, ...]
    gone_ms: int
    """When the last of them has gone at the latest."""

    @property
    def jobs(self) -> int:
        return len({placed.task.task_id.job_id for placed in self.victims})


def would_yield(
    outlook: Outlook, task: TaskBrief, rank: int, policy: Policy | None = None, *, gentle: bool = True
) -> Yielding | None:
    """Who would be stopped for it if it were of that class; None if that would not start it, or if it is a
    gang that is too large to try.

    `policy`: as if that one held. Not `gentle`: as if it had not been preempted itself.
    """
    picture = outlook.picture
    if task.gang is not None and _is_too_large(picture, task):
        return None
    ground = outlook.ground(rank, task.task_id, policy)
    paper = ground.paper
    paper.cluster_free -= ground.kept_licences
    unit = unit_at(paper, paper.table.waiting.slot_of[head_of(picture, task)])
    preemption = Preemption(paper, ground.backfill)
    if not preemption.make_room(unit if gentle else replace(unit, may_preempt=True), rank):
        return None
    (preempt,) = preemption.preempts
    victims = [picture.live(victim) for victim in preempt.victims]
    going = {victim for each in outlook.preempts for victim in each.victims}
    if going & set(preempt.victims):
        return None  # the next plan stops them for others
    placed = tuple(victim for victim in victims if victim is not None)
    gone_ms = max(gone_by_ms(picture, victim.task.task_id) for victim in placed)
    return Yielding(placed, tuple(dict.fromkeys(claim.node_id for claim in preempt.claims)), gone_ms)


def _is_too_large(picture: Picture, task: TaskBrief) -> bool:
    tasks = len(picture.gangs.of(task.task_id.job_id).waiting)
    return tasks * len(picture.places) > MOST_SEARCHED


def nobody_yields(outlook: Outlook, tasks: list[TaskBrief]) -> list[Reason]:
    """What keeps those of lower classes from giving way, if they otherwise would."""
    task, policy = tasks[0], outlook.policy
    rank = TERMS[task.priority_class].rank
    preempted = any(each.status is Status.PREEMPTED for each in tasks)
    if policy.preemption and not policy.min_run_s and not preempted:
        return []
    willing = replace(policy, preemption=True, min_run_s=0)
    found = would_yield(outlook, task, rank, willing, gentle=False)
    if found is None:
        return []
    whom = _whom(found)
    job_ids = sorted({placed.task.task_id.job_id for placed in found.victims})
    data: dict[str, object] = {"job_ids": job_ids}
    if not policy.preemption:
        text = f'{whom} would give way to it, but preemption is off (preemption = "off" in the settings)'
        return [Reason("preemption-off", text, data)]
    if preempted:
        text = f"{whom} would give way to it, but who was preempted does not preempt in turn"
        return [Reason("was-preempted", text, data)]
    return [_protected(outlook, found, whom, data)]


def _protected(outlook: Outlook, found: Yielding, whom: str, data: dict[str, object]) -> Reason:
    min_run_s, now_ms = outlook.policy.min_run_s, outlook.picture.now_ms
    until_ms = max(placed.since_ms for placed in found.victims) + 1000 * min_run_s
    until = f"until {clock(until_ms, now_ms)}" if until_ms > now_ms else "for a moment"
    text = (
        f"{whom} may give way to it, but not {until}: a job runs {time_in_words(min_run_s)} first (min_run)"
    )
    return Reason("min-run", text, data | {"until_ms": until_ms})


def _whom(found: Yielding) -> str:
    """`job 17 of ann`, `job 17 of ann and 2 other jobs`."""
    first, more = found.victims[0].task, found.jobs - 1
    whom = f"job {first.task_id.job_id} of {first.user}"
    return whom if not more else f"{whom} and {more} other {'job' if more == 1 else 'jobs'}"
