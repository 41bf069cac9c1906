"""On any picture: a plan is the one that the plain reference makes, and it keeps every promise."""

from dataclasses import replace

from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from tests.core.core_story import carry_out
from tests.core.picture_copy import copied
from tests.core.reference_planner import reference_plan
from tests.core.strategies import SEEDS, Story, policies, some_job, stories
from tgpu.core.invariants import violations
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, named

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def in_lines(made: Plan) -> list[str]:
    """One line per decision, so that a difference can be read."""
    found = [
        f"start {each.task_id} on {each.node_id} {each.devices} {each.admission}" for each in made.starts
    ]
    for stop in made.preempts:
        victims = ", ".join(map(str, stop.victims))
        claims = ", ".join(f"{each.task_id} on {each.node_id} {each.devices}" for each in stop.claims)
        found.append(f"stop {victims} for {claims}")
    for each in made.reservations:
        tasks = ", ".join(map(str, each.task_ids))
        places = ", ".join(f"{node_id} {devices}" for node_id, devices in each.places)
        found.append(f"reserve for {tasks} at {each.at_ms} on {places}")
    return found


@settings(max_examples=300, deadline=None, suppress_health_check=SLOW)
@given(stories())
def test_every_plan_is_the_one_that_the_plain_reference_makes(story: Story) -> None:
    picture, policy = story.picture, story.policy
    note(story.in_lines())
    assert in_lines(plan(picture, policy, whole=True)) == in_lines(reference_plan(picture, policy))


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(stories(named("fair-tree"), fresh=True))
def test_where_nothing_has_ever_run_fair_tree_goes_by_name_as_in_the_reference(story: Story) -> None:
    picture, policy = story.picture, story.policy
    note(story.in_lines())
    assert in_lines(plan(picture, policy, whole=True)) == in_lines(reference_plan(picture, policy))


@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(stories())
def test_every_plan_keeps_every_promise_once_it_is_carried_out(story: Story) -> None:
    picture, policy = story.picture, story.policy
    waited = set(picture.waiting)
    note(story.in_lines())
    made = plan(picture, policy, whole=True)
    started = {each.task_id for each in made.starts}
    carry_out(picture, made)
    assert violations(picture) == []
    assert waited - set(picture.waiting) == started


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(stories())
def test_planning_changes_nothing_and_two_plans_of_one_picture_are_equal(story: Story) -> None:
    picture, policy = story.picture, story.policy
    before = facts(picture)
    first = plan(picture, policy, whole=True)
    assert plan(picture, policy, whole=True) == first
    assert facts(picture) == before


def facts(picture: Picture) -> tuple[object, ...]:
    return (
        picture.version,
        dict(picture.waiting),
        repr(picture.placed),
        dict(picture.claims),
        picture.reservations,
        [picture.left(node_id) for node_id in picture.places],
    )


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW)
@given(policies(preemption=False).flatmap(stories))
def test_a_second_plan_at_once_starts_nobody_and_keeps_every_reservation(story: Story) -> None:
    """Without preemption: victims that leave early can bring a reservation forward. And where nobody waits
    for a gang of unlike tasks: those are placed one by one, and may fit better once others have started."""
    picture, policy = story.picture, story.policy
    assume(not any(are_unlike(picture, job_id) for job_id in {each.job_id for each in picture.waiting}))
    note(story.in_lines())
    first = plan(picture, policy, whole=True)
    carry_out(picture, first)
    second = plan(picture, policy, whole=True)
    assert second.starts == ()
    assert second.preempts == ()
    assert [each for each in held_by(second) if each in held_by(first)] == held_by(first)


def are_unlike(picture: Picture, job_id: int) -> bool:
    asked = [each.request for task_id, each in picture.waiting.items() if task_id.job_id == job_id]
    return any(each != asked[0] for each in asked)


def held_by(made: Plan) -> list[tuple[object, ...]]:
    """Which nodes and devices they are may still change: others have started since."""
    return [(each.task_ids, each.at_ms) for each in made.reservations]


@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
@given(stories(settled=True), SEEDS)
def test_one_who_arrives_when_all_is_settled_is_decided_as_in_a_whole_plan(story: Story, seed: int) -> None:
    picture, policy = story.picture, story.policy
    carry_out(picture, plan(picture, policy, whole=True))
    for each in some_job(seed, story.next_id, picture.now_ms):
        picture.add_waiting(each)
    note(story.in_lines())
    new = story.next_id
    assert about(plan(picture, policy), new) == about(plan(picture, policy, whole=True), new)


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW)
@given(stories(settled=True))
def test_who_has_slept_long_enough_is_decided_as_in_a_whole_plan(story: Story) -> None:
    picture, policy = story.picture, story.policy
    carry_out(picture, plan(picture, policy, whole=True))
    slept = {each.task_id for each in picture.waiting.values() if each.eligible_ms > picture.now_ms}
    note(story.in_lines())
    picture.now_ms = max((picture.waiting[task_id].eligible_ms for task_id in slept), default=picture.now_ms)
    soon, whole = plan(picture, policy), plan(picture, policy, whole=True)
    assert [s for s in soon.starts if s.task_id in slept] == [s for s in whole.starts if s.task_id in slept]


def about(made: Plan, job_id: int) -> list[object]:
    """What happens to one job now; reservations are given out again in the next full cycle."""
    starts = [each for each in made.starts if each.task_id.job_id == job_id]
    return [*starts, *(each for each in made.preempts if each.claims[0].task_id.job_id == job_id)]


@settings(max_examples=200, deadline=None, suppress_health_check=SLOW)
@given(policies(preemption=False).flatmap(stories), st.integers(1, 5))
def test_plans_of_few_starts_each_decide_what_one_plan_of_all_does(story: Story, most: int) -> None:
    """Without preemption: the last plans may stop tasks that the first ones started. Stories in which a quota
    refuses a request that it does not refuse in the one plan are left out: from then on the quota is kept for
    that request. They are rare."""
    picture, policy = story.picture, story.policy
    note(story.in_lines())
    at_once, step_by_step = copied(picture, {}), copied(picture, {})
    made, refused = decided(at_once, policy, None)
    made_in_steps, refused_in_steps = decided(step_by_step, policy, most)
    assume(refused_in_steps <= refused)
    assert made_in_steps == made


def decided(picture: Picture, policy: Policy, most: int | None) -> tuple[list[str], set[tuple[int, ...]]]:
    """Decisions of the first plan, of those that continue it, and of the next whole plan. And the tenants and
    kinds of requests that found a quota too short."""
    made = plan(picture, policy, whole=True, most_starts=most)
    found, refused = in_lines(replace(made, reservations=())), refused_by(made)
    carry_out(picture, made)
    while made.more:
        made = plan(picture, policy, most_starts=most)
        found += in_lines(replace(made, reservations=()))
        refused |= refused_by(made)
        carry_out(picture, made)
    return sorted(found) + in_lines(plan(picture, policy, whole=True)), refused


def refused_by(made: Plan) -> set[tuple[int, ...]]:
    return set(map(tuple, made.refused.tolist()))
