"""The smallest change to a job that would start it now: tried where the job stands, never guessed."""

from dataclasses import fields, replace
from itertools import islice
from typing import Any

from tgpu.core.changes import Change, changes
from tgpu.core.obstacles import Match
from tgpu.core.outlook import Ground, Outlook
from tgpu.core.standing import held_before
from tgpu.core.wording import names
from tgpu.domain.job import Gang, Request, TaskBrief
from tgpu.domain.priority import TERMS, PriorityClass
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
    if task.held and held_before(ground, task) is not None:
        return None  # nobody held passes that one, whatever it asks for
    for change in islice(changes(ground, found, tasks), MOST_TRIED):
        where = _starts(ground, tasks, change)
        if where is not None:
            return _advice(task, change, where)
    higher = list(PriorityClass)[: TERMS[task.priority_class].rank]
    for priority_class in reversed(higher):  # the nearest first
        change = Change("priority_class", priority_class, f"with --class {priority_class}")
        where = _starts(outlook.ground(TERMS[priority_class].rank, task.task_id), tasks, change)
        if where is not None:
            return _advice(task, change, where)
    return None


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
    changed = [_changed(task, change.field, change.instead) for task in tasks]
    return ground.places_for(changed) if ground.is_admitted(changed) else None


def _advice(task: TaskBrief, change: Change, where: list[str]) -> Advice:
    nodes = names(sorted(set(where)))
    text = f"{change.words} it would start now{' by backfill' if change.by_backfill else ''} on {nodes}"
    return Advice(change.field, _value(task, change.field), change.instead, text)
