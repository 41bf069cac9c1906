"""Plan previews on random clusters: they agree with what the planner does, and leave the state as it is."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.core.core_story import DRF, asks, carry_out, node, picture_of, task
from tests.core.strategies import Story, stories
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.preview import preview, with_jobs
from tgpu.core.trial_state import trial_copy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, TaskBrief
from tgpu.domain.preview import FIRST_HYPOTHETICAL_ID, StartPreview, Starts
from tgpu.domain.priority import PriorityClass

PROPERTY = settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
FIRST = FIRST_HYPOTHETICAL_ID


def facts(thing: object, seen: dict[int, int] | None = None) -> Any:  # noqa: PLR0911  by its type
    """Everything reachable from the state, as plain values: equal for equal states."""
    seen = {} if seen is None else seen
    if isinstance(thing, np.ndarray):
        return (thing.shape, thing.tobytes())
    if thing is None or isinstance(thing, str | int | float | bool | bytes):
        return thing
    if id(thing) in seen:
        return ("again", seen[id(thing)])
    seen[id(thing)] = len(seen)
    if isinstance(thing, dict):
        return [(facts(key, seen), facts(value, seen)) for key, value in thing.items()]
    if isinstance(thing, list | tuple):
        return [facts(each, seen) for each in thing]
    if isinstance(thing, set | frozenset):
        return sorted(map(repr, thing))
    return [type(thing).__name__, *((name, facts(value, seen)) for name, value in attributes(thing))]


def attributes(thing: object) -> Iterator[tuple[str, object]]:
    names = list(getattr(thing, "__dict__", ())) or [
        name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())
    ]
    for name in names:
        if hasattr(thing, name) and not callable(getattr(thing, name)) and not name.startswith("__"):
            yield name, getattr(thing, name)


def hypothetical(tasks: list[TaskBrief], place: int = 0) -> list[TaskBrief]:
    return [replace(each, task_id=TaskId(FIRST + place, at)) for at, each in enumerate(tasks)]


def one(picture: Picture, brief: TaskBrief) -> StartPreview:
    (found,) = preview(with_jobs(picture, [hypothetical([brief])]), picture.policy, [hypothetical([brief])])
    return found


def drawn_jobs(story: Story, data: st.DataObject) -> list[list[TaskBrief]]:
    """Jobs like those that wait, or their gangs, submitted once more."""
    gangs: dict[int, list[TaskBrief]] = {}
    for each in story.picture.waiting.values():
        if each.gang is not None:
            gangs.setdefault(each.task_id.job_id, []).append(each)
    whole = [some for some in gangs.values() if len(some) == some[0].gang.size]  # type: ignore[union-attr]
    single = [[each] for each in story.picture.waiting.values() if each.gang is None]
    if not whole and not single:
        return []
    chosen = data.draw(st.lists(st.sampled_from(single + whole), min_size=1, max_size=3))
    now_ms = story.picture.now_ms
    fresh = [
        [replace(each, submitted_ms=now_ms, eligible_ms=0, attempts=0) for each in job] for job in chosen
    ]
    return [hypothetical(job, place) for place, job in enumerate(fresh)]


@PROPERTY
@given(stories(), st.data())
def test_preview_agrees_with_the_plan_after_a_submission(story: Story, data: st.DataObject) -> None:
    picture, policy = story.picture, story.policy
    note(story.in_lines())
    jobs = drawn_jobs(story, data)
    if not jobs:
        return
    found = preview(with_jobs(picture, jobs), policy, jobs)
    for tasks in jobs:
        for each in tasks:
            picture.add_waiting(each)
    made = plan(picture, policy)
    for tasks, told in zip(jobs, found, strict=True):
        job_id = tasks[0].task_id.job_id
        starts = [(each.node_id, each.devices) for each in made.starts if each.task_id.job_id == job_id]
        assert (told.starts is Starts.NOW) == bool(starts)
        assert told.starting_tasks == len(starts)
        if starts:
            assert list(told.places) == starts
        claims = {
            victim.job_id
            for each in made.preempts
            if each.claims[0].task_id.job_id == job_id
            for victim in each.victims
        }
        assert set(told.preempts) == (set() if starts else claims)


@PROPERTY
@given(stories(), st.data(), st.booleans())
def test_preview_leaves_the_cluster_state_as_it_was(story: Story, data: st.DataObject, settled: bool) -> None:
    picture, policy = story.picture, story.policy
    jobs = drawn_jobs(story, data)
    if not jobs:
        return
    if settled:
        carry_out(picture, plan(picture, policy, whole=True))
    before = pickle.dumps(facts(picture))
    told = preview(with_jobs(picture, jobs), policy, jobs)
    assert pickle.dumps(facts(picture)) == before
    assert preview(with_jobs(picture, jobs), policy, jobs) == told


@PROPERTY
@given(stories())
def test_trial_copy_is_planned_as_the_original(story: Story) -> None:
    trial = trial_copy(story.picture)
    assert list(plan(trial, story.policy).starts) == list(plan(story.picture, story.policy).starts)


def test_preview_names_node_and_gpus_of_a_job_that_starts_now() -> None:
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=4)], [], [], DRF)
    found = one(picture, task(1, asks(gpus=3)))
    assert (found.starts, found.places, found.jobs_ahead) == (Starts.NOW, (("n2", (0, 1, 2)),), 0)


def test_preview_gives_the_time_and_the_jobs_ahead() -> None:
    running = task(1, asks(gpus=4), time_limit_s=3600)
    waiting = [task(2, asks(gpus=4), time_limit_s=3600), task(3, asks(gpus=4), time_limit_s=3600)]
    picture = picture_of([node(gpus=4)], waiting, [(running, "n1", (0, 1, 2, 3))], DRF)
    carry_out(picture, plan(picture, picture.policy, whole=True))
    found = one(picture, task(4, asks(gpus=4), time_limit_s=3600, submitted_ms=picture.now_ms))
    assert (found.starts, found.jobs_ahead, found.is_lower_bound) == (Starts.AT, 2, True)
    assert found.why.starts_at_ms is not None
    assert found.why.starts_at_ms >= picture.now_ms + 3_600_000


def test_preview_counts_the_jobs_that_would_be_preempted() -> None:
    low = task(1, asks(gpus=4), priority_class=PriorityClass.BEST_EFFORT)
    picture = picture_of([node(gpus=4)], [], [(low, "n1", (0, 1, 2, 3))], DRF)
    picture.now_ms += 3_600_000
    found = one(picture, task(2, asks(gpus=2), priority_class=PriorityClass.HIGH))
    assert (found.starts, found.preempts) == (Starts.AT, (1,))


def test_preview_of_several_jobs_lets_them_compete_and_names_them_by_place() -> None:
    picture = picture_of([node(gpus=4)], [], [], DRF)
    jobs = [hypothetical([task(1, asks(gpus=4), time_limit_s=3600)], place) for place in range(3)]
    found = preview(with_jobs(picture, jobs), picture.policy, jobs)
    assert [each.starts for each in found] == [Starts.NOW, Starts.AT, Starts.AT]
    assert not any(str(FIRST)[:8] in repr(each) for each in found)


def test_preview_of_a_gang_places_it_whole() -> None:
    picture = picture_of([node("n1", gpus=4), node("n2", gpus=4)], [], [], DRF)
    gang = [task(1, asks(gpus=4), gang=Gang(2)) for _ in range(2)]
    (found,) = preview(with_jobs(picture, [hypothetical(gang)]), picture.policy, [hypothetical(gang)])
    assert (found.starts, sorted(found.places)) == (
        Starts.NOW,
        [("n1", (0, 1, 2, 3)), ("n2", (0, 1, 2, 3))],
    )
