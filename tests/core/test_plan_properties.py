"""On any picture: a plan keeps every promise, and it is the one that the plain reference makes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.core_story import PRIORITY, asks, device, node, picture_of, task
from tests.core.reference_planner import reference_plan
from tgpu.control.committer import assume
from tgpu.control.turn import Turn
from tgpu.core.invariants import violations
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Node
from tgpu.domain.priority import PriorityClass
from tgpu.store.port import Assigned, Batch

MODELS = ("NVIDIA A100", "Tesla T4")


@st.composite
def nodes(draw: st.DrawFn, node_id: str) -> Node:
    devices = [
        device(
            index,
            draw(st.sampled_from(MODELS)),
            draw(st.sampled_from((None, 0, 1))),
            healthy=draw(st.integers(0, 5)) > 0,
        )
        for index in range(draw(st.integers(0, 4)))
    ]
    state = draw(st.sampled_from((NodeState.READY, NodeState.READY, NodeState.READY, NodeState.DRAINING)))
    return node(node_id, draw(st.integers(1, 8)), draw(st.sampled_from((512, 4096))), devices, state)


def requests() -> st.SearchStrategy[Request]:
    return st.builds(
        asks,
        gpus=st.sampled_from((0, 0, 0.25, 0.5, 0.75, 1, 2, 4)),
        cpus=st.sampled_from((0, 0.5, 1, 2, 4, 8)),
        memory_mib=st.sampled_from((0, 128, 512, 4096)),
        gpu_type=st.sampled_from((None, None, "a100", "t4")),
        exclusive=st.sampled_from((False, False, False, True)),
    )


@st.composite
def tasks(draw: st.DrawFn, first_id: int, most: int) -> list[TaskBrief]:
    return [
        task(
            first_id + number,
            draw(requests()),
            draw(st.sampled_from(tuple(PriorityClass))),
            draw(st.integers(-1, 1)),
            submitted_ms=draw(st.integers(0, 3)),
        )
        for number in range(draw(st.integers(0, most)))
    ]


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    """A first plan fills some of it, so that what is placed is placed as a scheduler would."""
    named = [draw(nodes(f"n{number}")) for number in range(draw(st.integers(0, 3)))]
    picture = picture_of(named, draw(tasks(1, 8)))
    assume(picture, plan(picture, PRIORITY), Turn(Batch(0)))
    for waiting in draw(tasks(100, 10)):
        picture.add_waiting(waiting)
    for place in picture.places.values():
        picture.set_reachable(place.node.node_id, reachable=draw(st.integers(0, 5)) > 0)
    return picture


@settings(max_examples=150, deadline=None)
@given(pictures())
def test_every_plan_keeps_every_promise_once_it_is_assumed(picture: Picture) -> None:
    made, turn = plan(picture, PRIORITY), Turn(Batch(0))
    waited = set(picture.waiting)
    assume(picture, made, turn)
    assert violations(picture) == []
    assert waited - set(picture.waiting) == {start.task_id for start in made.starts}
    assert turn.batch.assigned == [
        Assigned(start.task_id.attempt(1), start.node_id, start.devices) for start in made.starts
    ]


@settings(max_examples=150, deadline=None)
@given(pictures())
def test_every_plan_is_the_one_that_the_plain_reference_makes(picture: Picture) -> None:
    made = plan(picture, PRIORITY)
    assert (list(made.starts), made.hold) == reference_plan(picture)


@settings(max_examples=60, deadline=None)
@given(pictures())
def test_a_second_plan_finds_nothing_more_to_start_than_the_hold_allowed(picture: Picture) -> None:
    """Once a plan is assumed, the next one keeps room for the same head."""
    first = plan(picture, PRIORITY)
    assume(picture, first, Turn(Batch(0)))
    second = plan(picture, PRIORITY)
    assert (second.starts, second.hold) == ((), first.hold)
