"""Where may a task run at all?"""

from typing import Any

import pytest

from tests.core.core_story import (
    PRIORITY,
    asks,
    at,
    decisions,
    device,
    node,
    picture_of,
    reservation,
    start,
    task,
)
from tgpu.core.never import never_fits
from tgpu.core.picture import Window
from tgpu.core.plan import Fault
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.job import LabelOp, LabelRule, Request
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import ForeignUse, Node
from tgpu.domain.views import Reason


def runs_on(request: Request, candidate: Node, policy: Policy = PRIORITY) -> bool:
    made = plan(picture_of([candidate], [task(1, request)], policy=policy), policy)
    return [each.node_id for each in made.starts] == [candidate.node_id]


def test_a_selector_wants_every_label_to_be_equal() -> None:
    wants = asks(node_selector=(("disk", "ssd"), ("rack", "r1")))
    assert runs_on(wants, node(labels={"disk": "ssd", "rack": "r1", "more": "x"}))
    assert not runs_on(wants, node(labels={"disk": "ssd"}))
    assert not runs_on(wants, node(labels={"disk": "hdd", "rack": "r1"}))


@pytest.mark.parametrize(
    ("rule", "label", "holds"),
    [
        (LabelRule("k", LabelOp.IN, ("a", "b")), "b", True),
        (LabelRule("k", LabelOp.IN, ("a", "b")), "c", False),
        (LabelRule("k", LabelOp.IN, ("a", "b")), None, False),
        (LabelRule("k", LabelOp.NOT_IN, ("a",)), "b", True),
        (LabelRule("k", LabelOp.NOT_IN, ("a",)), "a", False),
        (LabelRule("k", LabelOp.NOT_IN, ("a",)), None, True),
        (LabelRule("k", LabelOp.EXISTS), "", True),
        (LabelRule("k", LabelOp.EXISTS), None, False),
        (LabelRule("k", LabelOp.ABSENT), None, True),
        (LabelRule("k", LabelOp.ABSENT), "a", False),
        (LabelRule("k", LabelOp.ABOVE, ("40",)), "41", True),
        (LabelRule("k", LabelOp.ABOVE, ("40",)), "40", False),
        (LabelRule("k", LabelOp.BELOW, ("40",)), "9", True),
        (LabelRule("k", LabelOp.BELOW, ("40",)), "40", False),
        (LabelRule("k", LabelOp.AT_LEAST, ("40",)), "40.0", True),
        (LabelRule("k", LabelOp.AT_LEAST, ("40",)), "39.9", False),
        (LabelRule("k", LabelOp.AT_MOST, ("40",)), "40", True),
        (LabelRule("k", LabelOp.AT_MOST, ("40",)), "41", False),
        (LabelRule("k", LabelOp.AT_MOST, ("40",)), "many", False),
        (LabelRule("k", LabelOp.AT_LEAST, ("40",)), None, False),
    ],
)
def test_a_rule_about_labels_is_equality_sets_existence_or_comparison(
    rule: LabelRule, label: str | None, holds: bool
) -> None:
    labels = {} if label is None else {"k": label}
    assert runs_on(asks(node_rules=(rule,)), node(labels=labels)) is holds


def test_a_label_that_changes_counts_at_once() -> None:
    picture = picture_of([node()], [task(1, asks(node_selector=(("disk", "ssd"),)))])
    assert plan(picture, PRIORITY).starts == ()
    picture.set_node(node(labels={"disk": "ssd"}))
    assert plan(picture, PRIORITY).starts == (start(1),)


def test_a_taint_is_for_those_who_tolerate_it_by_key_by_value_or_all_of_them() -> None:
    tainted = node(taints=("spot=yes", "old"))
    assert not runs_on(asks(), tainted)
    assert not runs_on(asks(tolerations=("spot",)), tainted)
    assert not runs_on(asks(tolerations=("spot=no", "old")), tainted)
    assert runs_on(asks(tolerations=("spot", "old")), tainted)
    assert runs_on(asks(tolerations=("spot=yes", "old")), tainted)
    assert runs_on(asks(tolerations=("*",)), tainted)


def test_a_pool_a_working_directory_and_a_user_bind_a_task_to_nodes() -> None:
    assert runs_on(asks(pool="big"), node(pool="big"))
    assert not runs_on(asks(pool="big"), node())
    assert runs_on(asks(), node(pool="big"))
    assert runs_on(asks(node_id="n1"), node())
    assert not runs_on(asks(node_id="n2"), node())
    assert runs_on(asks(user="bob"), node(serves="bob"))
    assert not runs_on(asks(user="ada"), node(serves="bob"))


def test_a_task_waits_for_the_node_of_its_working_directory_to_join() -> None:
    picture = picture_of([node("n1"), node("n3")], [task(1, asks(node_id="n2"))])
    assert plan(picture, PRIORITY).starts == ()
    picture.set_node(node("n2"))
    picture.set_reachable("n2", reachable=True)
    assert plan(picture, PRIORITY).starts == (start(1, "n2"),)


def test_a_gpu_type_is_a_part_of_the_model_in_any_case_with_dashes_or_spaces() -> None:
    mixed = [device(0, "Tesla T4"), device(1, "NVIDIA A100-SXM4-80GB")]
    for wanted, devices in (("a100", (1,)), ("T4", (0,)), ("tesla-t4", (0,))):
        picture = picture_of([node(gpus=mixed)], [task(1, asks(gpus=1, gpu_type=wanted))])
        assert plan(picture, PRIORITY).starts == (start(1, "n1", *devices),)
    assert not runs_on(asks(gpus=1, gpu_type="h100"), node(gpus=mixed))


def test_each_gpu_must_have_the_memory_that_is_asked_for() -> None:
    devices = [device(0, memory_mib=40960), device(1, memory_mib=81920)]
    picture = picture_of([node(gpus=devices)], [task(1, asks(gpus=1, gpu_memory_mib=40961))])
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 1),)
    assert runs_on(asks(gpus=2, gpu_memory_mib=40960), node(gpus=devices))
    assert not runs_on(asks(gpus=2, gpu_memory_mib=40961), node(gpus=devices))


def test_a_sick_device_is_given_to_nobody() -> None:
    devices = [device(0, healthy=False), device(1)]
    picture = picture_of([node(gpus=devices)], [task(1, asks(gpus=1)), task(2, asks(gpus=0.1))])
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 1),)
    assert not runs_on(asks(gpus=2), node(gpus=devices))


def test_generic_resources_are_counted_on_the_node() -> None:
    waiting = [task(number, asks(generic=(("fpga", 1),))) for number in (1, 2, 3)]
    made = plan(picture_of([node(generic={"fpga": 2})], waiting), PRIORITY)
    assert made.starts == (start(1), start(2))
    assert not runs_on(asks(generic=(("fpga", 1),)), node())


def test_licences_are_counted_over_the_whole_cluster() -> None:
    policy = Policy(PoolPolicy("priority"), cluster_generic={"matlab": 3})
    waiting = [task(number, asks(generic=(("matlab", 1),))) for number in (1, 2, 3, 4)]
    picture = picture_of([node("n1", cpus=2), node("n2", cpus=2)], waiting, policy=policy)
    made = plan(picture, policy)
    assert [each.task_id.job_id for each in made.starts] == [1, 2, 3]
    assert {each.node_id for each in made.starts} == {"n1", "n2"}


def test_who_lacks_only_licences_keeps_those_that_are_free() -> None:
    """Else a stream of small ones would starve it."""
    policy = Policy(PoolPolicy("priority"), cluster_generic={"matlab": 3})
    placed = [(task(9, asks(generic=(("matlab", 2),))), "n1", ())]
    large, small = task(1, asks(generic=(("matlab", 2),))), task(2, asks(generic=(("matlab", 1),)))
    plain = task(3)
    made = plan(picture_of([node()], [large, small, plain], placed, policy), policy)
    assert made.starts == (start(3),)


def test_an_exclusive_task_wants_an_empty_node_and_keeps_others_away() -> None:
    alone = task(1, asks(exclusive=True))
    assert plan(picture_of([node()], [alone, task(2)]), PRIORITY).starts == (start(1),)
    placed = [(task(9, time_limit_s=100), "n1", ())]
    made = plan(picture_of([node()], [alone], placed), PRIORITY)
    assert decisions(made) == ((), (), (reservation(1, 100),))


@pytest.mark.parametrize("state", [NodeState.DRAINING, NodeState.OFFLINE])
def test_a_node_that_drains_or_is_gone_takes_nobody_and_is_reserved_for_nobody(state: NodeState) -> None:
    made = plan(picture_of([node(state=state)], [task(1)]), PRIORITY)
    assert decisions(made) == ((), (), ())


def test_nothing_is_sent_where_nobody_listens() -> None:
    picture = picture_of([node()], [task(1)])
    picture.set_reachable("n1", reachable=False)
    assert decisions(plan(picture, PRIORITY)) == ((), (), ())


def window(**more: Any) -> Window:
    return Window(frozenset({"n1"}), at(1000), at(2000), **more)


def test_nobody_may_run_into_a_window() -> None:
    waiting = [task(1, time_limit_s=1000), task(2, time_limit_s=1001)]
    picture = picture_of([node()], waiting)
    picture.set_windows([window()])
    assert decisions(plan(picture, PRIORITY)) == ((start(1),), (), (reservation(2, 2000),))


def test_during_a_window_only_its_guests_start_and_after_it_everybody() -> None:
    waiting = [
        task(1, time_limit_s=10, tenant_id="a"),
        task(2, asks(cpus=2), tenant_id="b/x", time_limit_s=10),
    ]
    picture = picture_of([node()], waiting)
    picture.set_windows([window(tenant_id="b")])
    picture.now_ms = at(1500)
    assert plan(picture, PRIORITY).starts == (start(2),)
    picture.now_ms = at(2000)
    assert plan(picture, PRIORITY).starts == (start(1), start(2))


def test_a_rule_from_outside_may_object_and_one_that_fails_does() -> None:
    def no_mondays(_request: Request, candidate: Node) -> Reason | None:
        return Reason("monday", "not on mondays") if candidate.node_id == "n1" else None

    def broken(_request: Request, candidate: Node) -> Reason | None:
        raise RuntimeError(f"no idea of {candidate.node_id}")

    objects = Policy(PoolPolicy("priority"), outside_rules={"mondays": no_mondays})
    made = plan(picture_of([node("n1"), node("n2")], [task(1)], policy=objects), objects)
    assert made.starts == (start(1, "n2"),)
    fails = Policy(PoolPolicy("priority"), outside_rules={"broken": broken})
    made = plan(picture_of([node("n1")], [task(1)], policy=fails), fails)
    assert made.starts == ()
    assert made.faults == (Fault("broken", "rule broken failed on n1: RuntimeError: no idea of n1"),)


def test_a_device_that_others_use_is_given_to_nobody_until_they_have_gone() -> None:
    bob = ForeignUse(4711, "bob", "python", 12288)
    held = node(gpus=[device(0, foreign=(bob,)), device(1)])
    picture = picture_of([held], [task(1, asks(gpus=1)), task(2, asks(gpus=0.1)), task(3, asks(gpus=2))])
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 1),)
    assert never_fits(asks(gpus=2), picture) is None, "it is there, and comes back"
    picture.set_node(node(gpus=[device(0), device(1)]))
    assert {each.task_id.job_id for each in plan(picture, PRIORITY).starts} == {1, 2}
