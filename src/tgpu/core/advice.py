"""The smallest change to a job that would start it now: tried where the job stands, never guessed."""

from dataclasses import fields, replace
from itertools import islice
from typing import Any

from tgpu.core.begin_reasons import begin_before
from tgpu.core.changes import Change, changes
from tgpu.core.giving_way import Yielding, would_yield
from tgpu.core.obstacles import Match
from tgpu.core.outlook import Ground, Outlook
from tgpu.core.quota_reasons import burst_before
from tgpu.core.units import hardest_first
from tgpu.core.wording import names
from tgpu.domain.job import Gang, Request, TaskBrief
from tgpu.domain.priority import TERMS, PriorityClass
from tgpu.domain.quantities import time_in_words
from tgpu.domain.views import Advice

MOST_TRIED = 12
_OF_REQUEST = frozenset(field.name for field in fields(Request))
_OF_GANG = frozenset(field.name for field in fields(Gang))


def advice(outlook: Outlook, ground: Ground, found: Match, tasks: list[TaskBrief]) -> Advice | None:
    """The first that helps; None if nothing does.

    The job is thought to keep its place in line and its reservation: "had it asked for that, it would start".
    What can start without it has started already, so a change never counts on room that others get.
    """
    task = found.task
    gang = outlook.picture.gangs.of(task.task_id.job_id) if task.gang is not None else None
    if gang is not None and (gang.running or not gang.complete):
        return None  # what runs of it is as it was asked for
    if any(each.task_id in outlook.picture.claims for each in tasks):
        return None  # a part of it has its room already, and waits for who is leaving it
    if task.held and burst_before(ground, tasks) is not None:
        return None  # nobody passes that one on the burst, whatever it asks for
    if begin_before(ground, tasks) is not None:
        return None  # nor does anybody of its tenant who is limited alike
    for change in islice(changes(ground, found, tasks), MOST_TRIED):
        where = _starts(ground, tasks, change)
        if where is not None:
            return _advice(task, change, where)
    return _of_higher_class(outlook, tasks)


def _of_higher_class(outlook: Outlook, tasks: list[TaskBrief]) -> Advice | None:
    """The nearest that starts it at once; else the nearest to which others would give way."""
    task = tasks[0]
    higher = list(PriorityClass)[: TERMS[task.priority_class].rank][::-1]
    changes_of_class = [Change("priority_class", each, f"with --class {each}") for each in higher]
    for priority_class, change in zip(higher, changes_of_class, strict=True):
        ground = outlook.ground(TERMS[priority_class].rank, task.task_id)
        if task.held and ground.lacks_quota([replace(each, priority_class=priority_class) for each in tasks]):
            continue  # whether it would have the burst then, only the planner's own queue tells
        where = _starts(ground, tasks, change)
        if where is not None:
            return _advice(task, change, where)
    if task.held or not outlook.ground(0, task.task_id).may_begin(tasks):
        return None  # whether its quota admits it then, only the planner's own queue tells
    for priority_class, change in zip(higher, changes_of_class, strict=True):
        found = would_yield(outlook, task, TERMS[priority_class].rank)
        if found is not None:
            return _if_others_yield(outlook, task, change, found)
    return None


def _if_others_yield(outlook: Outlook, task: TaskBrief, change: Change, found: Yielding) -> Advice:
    within_s = -(-(found.gone_ms - outlook.picture.now_ms) // 1000)
    text = (
        f"{change.words} it would start in at most {time_in_words(within_s)} on "
        f"{names(sorted(found.node_ids))}; {found.jobs} {'job' if found.jobs == 1 else 'jobs'} would give way"
    )
    return Advice(change.field, _value(task, change.field), change.instead, text)


def advised(task: TaskBrief, given: Advice) -> TaskBrief:
    """The task as it would be; for a gang, each of its tasks is changed alike."""
    return _changed(task, given.field, given.instead)


def _changed(task: TaskBrief, field: str, value: Any) -> TaskBrief:  # noqa: ANN401  whatever the field holds
    if field in _OF_GANG:
        assert task.gang is not None, "only gangs have such fields"
        return replace(task, gang=replace(task.gang, **{field: value}))
    if field in _OF_REQUEST:
        return replace(task, request=replace(task.request, **{field: value}))
    return replace(task, **{field: value})


def _value(task: TaskBrief, field: str) -> object:
    if field in _OF_GANG:
        return getattr(task.gang, field)
    return getattr(task.request if field in _OF_REQUEST else task, field)


def _starts(ground: Ground, tasks: list[TaskBrief], change: Change) -> list[str] | None:
    """Where all of it would start, so changed. Tasks of one gang that differ in this are not made alike."""
    if any(_value(task, change.field) != _value(tasks[0], change.field) for task in tasks):
        return None
    changed = sorted((_changed(task, change.field, change.instead) for task in tasks), key=hardest_first)
    return ground.places_for(changed) if ground.is_admitted(changed) and ground.may_begin(changed) else None


def _advice(task: TaskBrief, change: Change, where: list[str]) -> Advice:
    nodes = names(sorted(set(where)))
    text = f"{change.words} it would start now{' by backfill' if change.by_backfill else ''} on {nodes}"
    return Advice(change.field, _value(task, change.field), change.instead, text)
