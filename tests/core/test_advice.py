"""The smallest change that would start a job now: said, and true."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.core.core_story import PRIORITY, asks, carry_out, device, gang, node, picture_of, task
from tests.core.picture_copy import as_advised
from tgpu.core.explain import explain
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.domain.ids import TaskId
from tgpu.domain.job import LabelOp, LabelRule, Request, TaskBrief
from tgpu.domain.lifecycle import Status
from tgpu.domain.node import Node
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Limits
from tgpu.domain.tenant import Tenant

Placement = tuple[TaskBrief, str, tuple[int, ...]]
A100 = device(0)
T4 = device(0, "Tesla T4", memory_mib=16384)


def advice_for(picture: Picture, job_id: int = 1) -> str | None:
    """The text, the same before and after the plan has been made.

    Whoever takes the advice starts, or gets a claim on the room of those who give way.
    """
    task_id = TaskId(job_id, 0)
    before = explain(picture, picture.policy, task_id)
    carry_out(picture, plan(picture, picture.policy))
    why = explain(picture, picture.policy, task_id)
    assert why is not None
    assert before == why
    if why.advice is None:
        return None
    made = plan(as_advised(picture, task_id, why.advice), picture.policy)
    starts = {start.node_id for start in made.starts if start.task_id.job_id == job_id}
    if "would give way" in why.advice.text:
        (stop,) = made.preempts
        starts = {claim.node_id for claim in stop.claims if claim.task_id.job_id == job_id}
    assert starts, f"{why.advice.text}: it does not"
    assert all(node_id in why.advice.text for node_id in starts)
    return why.advice.text


def runs(job_id: int, request: Request, node_id: str, *devices: int) -> Placement:
    return (task(job_id, request, time_limit_s=3600), node_id, devices)


@pytest.mark.parametrize(
    ("asked", "nodes", "running", "text"),
    [
        (asks(gpus=4), [node(gpus=4)], [runs(9, asks(gpus=1), "n1", 0)], "with --gpus 3"),
        (asks(gpus=1), [node(gpus=1)], [runs(9, asks(gpus=0.25), "n1", 0)], "with --gpus 0.75"),
        (asks(cpus=8), [node()], [runs(9, asks(cpus=2.5), "n1")], "with --cpus 5"),
        (asks(cpus=1), [node(cpus=1)], [runs(9, asks(cpus=0.25), "n1")], "with --cpus 0.75"),
        (
            asks(memory_mib=16384),
            [node()],
            [runs(9, asks(memory_mib=1000), "n1")],
            "with --memory 15G",
        ),
        (
            Request(disk_mib=1000),
            [node()],
            [runs(9, Request(disk_mib=100), "n1")],
            "with --disk 900M",
        ),
        (
            asks(generic=(("fpga", 2), ("tape", 1))),
            [node(generic={"fpga": 2, "tape": 1})],
            [runs(9, asks(generic=(("fpga", 1),)), "n1")],
            "with --resource fpga=1",
        ),
        (
            asks(gpus=1, gpu_type="a100"),
            [node(gpus=[A100]), node("n2", gpus=[T4])],
            [runs(9, asks(gpus=1), "n1", 0)],
            "without --gpu-type a100",
        ),
        (
            asks(gpus=1, gpu_memory_mib=40960),
            [node(gpus=[A100]), node("n2", gpus=[T4])],
            [runs(9, asks(gpus=1), "n1", 0)],
            "without --gpu-memory",
        ),
        (
            asks(gpu_memory_mib=40960),
            [node(gpus=[A100])],
            [runs(9, asks(gpus=0.75), "n1", 0)],
            "with --gpu-memory 20G",
        ),
        (
            asks(node_selector=(("disk", "ssd"), ("rack", "a"))),
            [node(labels={"rack": "a"})],
            [],
            "without --node-selector disk=ssd",
        ),
        (
            asks(node_rules=(LabelRule("speed", LabelOp.AT_LEAST, ("2",)),)),
            [node(labels={"speed": "1"})],
            [],
            "without --where 'speed >= 2'",
        ),
        (asks(), [node(taints=("spot=yes", "old"))], [], "with --tolerate spot=yes --tolerate old"),
        (asks(tolerations=("old",)), [node(taints=("spot=yes", "old"))], [], "with --tolerate spot=yes"),
        (asks(pool="big"), [node()], [], "without --pool big"),
        (asks(exclusive=True), [node()], [runs(9, asks(), "n1")], "without --exclusive"),
    ],
)
def test_one_change_that_helps_is_found(
    asked: Request, nodes: Iterable[Node], running: Iterable[Placement], text: str
) -> None:
    found = advice_for(picture_of(nodes, [task(1, asked)], running))
    assert found is not None
    assert found.startswith(f"{text} it would start now on ")


def test_where_no_one_change_helps_there_is_no_advice() -> None:
    """It lacks both GPUs and CPUs, and nobody is of a class that would give way."""
    running = (task(9, asks(gpus=1), PriorityClass.REAL_TIME), "n1", (0,))
    assert advice_for(picture_of([node(gpus=4)], [task(1, asks(gpus=4, cpus=8))], [running])) is None


def test_as_much_as_is_left_beside_a_reservation_is_advised() -> None:
    """Job 1 gets 3 of the 4 GPUs in an hour: one may be had until then and after."""
    running = [runs(8, asks(gpus=1, cpus=4), "n1", 0), runs(9, asks(gpus=1), "n1", 1)]
    waiting = [task(1, asks(gpus=3, cpus=4)), task(2, asks(gpus=2))]
    picture = picture_of([node(gpus=4)], waiting, running)
    assert advice_for(picture, 2) == "with --gpus 1 it would start now on n1"


def test_a_shorter_limit_lets_a_job_pass_by_backfill() -> None:
    waiting = [task(1, asks(gpus=2)), task(2, asks(gpus=1), time_limit_s=7200)]
    picture = picture_of([node(gpus=2)], waiting, [runs(9, asks(gpus=1), "n1", 0)])
    assert advice_for(picture, 2) == "with --time 58m it would start now by backfill on n1"


def test_a_higher_class_is_the_last_resort() -> None:
    """A reservation in its own class keeps it out, and no time limit is short enough."""
    waiting = [task(1, asks(gpus=2)), task(2, asks(gpus=1))]
    picture = picture_of([node(gpus=2)], waiting, [(task(9, asks(gpus=1), time_limit_s=0), "n1", (0,))])
    assert advice_for(picture, 2) == "with --class high it would start now on n1"


def test_a_class_to_which_others_give_way_is_advised_with_what_it_costs() -> None:
    running = [
        (task(8, asks(gpus=1), time_limit_s=3600), "n1", (0,)),
        (task(9, asks(gpus=1), time_limit_s=3600, grace_s=20), "n1", (1,)),
    ]
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2, cpus=7))], running)
    assert advice_for(picture) == (
        "with --class high it would start in at most 1m on n1; 2 jobs would give way"
    )


def test_no_class_is_advised_if_nobody_is_to_give_way() -> None:
    running = [(task(9, asks(gpus=1), time_limit_s=3600), "n1", (0,))]
    off = replace(PRIORITY, preemption=False)
    assert advice_for(picture_of([node(gpus=1)], [task(1, asks(gpus=1))], running, off)) is None


def test_a_limit_that_leaves_no_time_to_type_it_is_not_advised() -> None:
    """11 s before the moment it is 1 s; from 10 s on there is none."""
    for left_s, text in ((11, "with --time 1s it would start now by backfill on n1"), (10, None)):
        waiting = [task(1, asks(gpus=2), PriorityClass.REAL_TIME), task(2, asks(gpus=1), PriorityClass.HIGH)]
        running = (task(9, asks(gpus=1), PriorityClass.REAL_TIME, time_limit_s=left_s), "n1", (0,))
        assert advice_for(picture_of([node(gpus=2)], waiting, [running]), 2) == text


def test_who_would_still_be_behind_a_higher_class_gets_no_advice() -> None:
    waiting = [task(1, asks(gpus=1), PriorityClass.REAL_TIME), task(2, asks(gpus=1))]
    running = [(task(9, asks(gpus=1), PriorityClass.REAL_TIME), "n1", (0,))]
    assert advice_for(picture_of([node(gpus=1)], waiting, running), 2) is None


def test_a_gang_is_told_what_each_of_its_tasks_could_ask_for() -> None:
    nodes = [node("n1", gpus=2), node("n2", gpus=2)]
    assert advice_for(picture_of(nodes, gang(1, [asks(gpus=2)] * 3))) == (
        "with --gpus 1 it would start now on n1 and n2"
    )
    assert advice_for(picture_of([node(gpus=4)], gang(1, [asks(gpus=1)] * 4, per_node=2))) == (
        "with any number of its tasks on one node it would start now on n1"
    )


def test_a_gang_is_advised_as_it_would_be_placed_those_who_ask_for_certain_nodes_first() -> None:
    nodes = [node("n1", gpus=1), node("n2", gpus=[device(0, "Tesla T4"), device(1, "Tesla T4")])]
    asked = [asks(gpus=1, cpus=2), asks(gpus=1, cpus=2), asks(gpus=1, gpu_type="a100")]
    assert advice_for(picture_of(nodes, gang(1, asked, per_node=1))) == (
        "with any number of its tasks on one node it would start now on n1 and n2"
    )


def test_one_who_is_held_is_not_told_to_hope_for_the_burst_of_another_class() -> None:
    """Job 1 waits for it already, and nobody passes it there."""
    low, best_effort = PriorityClass.LOW, PriorityClass.BEST_EFFORT
    waiting = [task(1, asks(cpus=3), low, held=True), task(2, asks(cpus=1), best_effort, held=True)]
    picture = picture_of([node(cpus=64)], waiting, [(task(9, asks(cpus=4)), "n1", ())])
    picture.set_tenant(Tenant("default", limits=Limits(cpu_milli=4000)))
    assert advice_for(picture, 2) is None


def test_tasks_of_a_gang_that_differ_are_not_made_alike() -> None:
    picture = picture_of([node(gpus=3)], gang(1, [asks(gpus=2), asks(gpus=2), asks()]))
    assert advice_for(picture) is None


def test_who_backs_off_gets_no_advice() -> None:
    sleeping = task(1, asks(gpus=2), status=Status.PREEMPTED, eligible_ms=2_000_000_000)
    assert advice_for(picture_of([node(gpus=1)], [sleeping])) is None


def test_to_ask_twice_gives_the_same_answer() -> None:
    picture = picture_of([node(gpus=4)], [task(1, asks(gpus=8))])
    task_id = TaskId(1, 0)
    assert explain(picture, PRIORITY, task_id) == explain(picture, PRIORITY, task_id)
