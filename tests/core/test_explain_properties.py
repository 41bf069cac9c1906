"""On random clusters: every answer agrees with what the planner then does."""

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.core.core_story import carry_out
from tests.core.picture_copy import as_advised
from tests.core.strategies import Story, stories
from tgpu.core.explain import explain
from tgpu.core.planner import plan

PROPERTY = settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))


def starts_if_it_takes_the_advice(story: Story, data: st.DataObject) -> None:
    picture, policy = story.picture, story.policy
    if not picture.waiting:
        return
    note(story.in_lines())
    task_id = data.draw(st.sampled_from(sorted(picture.waiting)))
    why = explain(picture, policy, task_id)
    assert why is not None
    if why.advice is not None:
        made = plan(as_advised(picture, task_id, why.advice), policy)
        begins = [start.task_id for start in made.starts]
        if "would give way" in why.advice.text:  # at most so late: it may find room at once, too
            begins += [claim.task_id for preempt in made.preempts for claim in preempt.claims]
        assert task_id in begins, why


@PROPERTY
@given(stories(settled=True), st.data())
def test_who_takes_the_advice_starts(story: Story, data: st.DataObject) -> None:
    carry_out(
        story.picture, plan(story.picture, story.policy, whole=True)
    )  # nothing starts: that is known now
    starts_if_it_takes_the_advice(story, data)


@PROPERTY
@given(stories(), st.data())
def test_who_takes_the_advice_starts_also_if_others_do(story: Story, data: st.DataObject) -> None:
    starts_if_it_takes_the_advice(story, data)


@PROPERTY
@given(stories(), st.data())
def test_who_starts_is_told_so_and_who_does_not_is_told_why(story: Story, data: st.DataObject) -> None:
    """Also before the plan has been made."""
    picture, policy = story.picture, story.policy
    if not picture.waiting:
        return
    note(story.in_lines())
    task_id = data.draw(st.sampled_from(sorted(picture.waiting)))
    starts = {start.task_id: start.node_id for start in plan(picture, policy).starts}
    why = explain(picture, policy, task_id)
    assert why is not None
    if task_id in starts:
        assert why.estimate == f"starts now on {starts[task_id]}"
    else:
        assert why.reasons
        assert why.summary in (f"waits: {why.reasons[0].text}", why.reasons[0].text)


@PROPERTY
@given(stories(), st.data())
def test_to_ask_changes_nothing(story: Story, data: st.DataObject) -> None:
    picture, policy = story.picture, story.policy
    if not picture.waiting:
        return
    note(story.in_lines())
    before = plan(picture, policy)
    version, reservations = picture.version, picture.reservations
    first = explain(picture, policy, data.draw(st.sampled_from(sorted(picture.waiting))))
    assert first is not None
    after = plan(picture, policy)
    assert (list(before.starts), before.preempts, before.reservations) == (
        list(after.starts),
        after.preempts,
        after.reservations,
    )
    assert (picture.version, picture.reservations) == (version, reservations)
