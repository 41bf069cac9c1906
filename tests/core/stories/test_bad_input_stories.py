"""What cannot be meant is refused by name, or does no harm."""

import re

import pytest

from tests.core.core_story import PRIORITY, asks, decisions, device, gang, node, picture_of, start, task
from tgpu.core.edge import MAX_GENERIC, MAX_WEIGHT, BadPictureError
from tgpu.core.picture import Picture
from tgpu.core.plan import Fault
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Capacity, Node
from tgpu.domain.quantities import MAX_CPU_MILLI, MAX_GPU_MILLI, MAX_MIB, MAX_SECONDS
from tgpu.domain.tenant import Tenant


def refused(text: str) -> "pytest.RaisesExc[BadPictureError]":
    return pytest.raises(BadPictureError, match=f"^{re.escape(text)}$")


def test_a_node_that_has_nothing_harms_nobody() -> None:
    nothing = Node("n0", NodeState.READY, Capacity(0, 0, 0))
    for waiting in ([task(1)], [task(1, asks(gpus=1))], [task(1, asks(memory_mib=1))]):
        assert plan(picture_of([nothing, node("n1", gpus=1)], waiting), PRIORITY).starts[0].node_id == "n1"
    assert decisions(plan(picture_of([nothing], [task(1)]), PRIORITY)) == ((), (), ())


def test_a_task_that_needs_nothing_starts_even_where_there_is_nothing() -> None:
    nothing = Node("n1", NodeState.READY, Capacity(0, 0, 0))
    assert plan(picture_of([nothing], [task(1, asks(cpus=0))]), PRIORITY).starts == (start(1),)


def test_an_empty_picture_has_an_empty_plan() -> None:
    assert decisions(plan(Picture(PRIORITY), PRIORITY)) == ((), (), ())


def test_a_device_twice_is_refused() -> None:
    with refused("node n1 has device 3 twice"):
        picture_of([node(gpus=[device(3), device(3)])])


def test_more_devices_than_can_be_told_apart_are_refused() -> None:
    with refused("node n1 has 63 devices; at most 62 can be told apart"):
        picture_of([node(gpus=63)])
    picture = picture_of([node(gpus=62)], [task(1, asks(gpus=62))])
    assert len(plan(picture, PRIORITY).starts[0].devices) == 62


def test_a_tenant_without_its_parent_is_refused() -> None:
    with refused("tenant a/b has no parent: there is no a"):
        Picture(PRIORITY).set_tenant(Tenant("a/b"))


@pytest.mark.parametrize("weight", [0, -1, MAX_WEIGHT + 1])
def test_a_weight_that_is_none_is_refused(weight: int) -> None:
    with refused(f"tenant a has weight {weight}; it must be from 1 to 1000000000"):
        Picture(PRIORITY).set_tenant(Tenant("a", weight))


LARGEST = Request(MAX_CPU_MILLI, MAX_MIB, MAX_MIB, MAX_GPU_MILLI, generic=(("fpga", MAX_GENERIC),))


@pytest.mark.parametrize("order", ["drf", "fair-tree", "priority", "fifo"])
@pytest.mark.parametrize("scorer", ["tightest", "spread", "fragmentation"])
def test_requests_at_the_bounds_of_the_integers_overflow_nowhere(order: str, scorer: str) -> None:
    policy = Policy(PoolPolicy(order, scorer))
    largest = Node(
        "n1", NodeState.READY, Capacity(MAX_CPU_MILLI, MAX_MIB, MAX_MIB, (), {"fpga": MAX_GENERIC})
    )
    without_gpus = Request(MAX_CPU_MILLI, MAX_MIB, MAX_MIB, generic=(("fpga", MAX_GENERIC),))
    waiting = [task(1, LARGEST, time_limit_s=MAX_SECONDS), task(2, without_gpus, time_limit_s=MAX_SECONDS)]
    picture = picture_of([largest], waiting, policy=policy)
    assert decisions(plan(picture, policy)) == ((start(2),), (), ())


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (Request(cpu_milli=-1), f"cpu_milli is -1; it must be from 0 to {MAX_CPU_MILLI}"),
        (
            Request(cpu_milli=MAX_CPU_MILLI + 1),
            f"cpu_milli is {MAX_CPU_MILLI + 1}; it must be from 0 to {MAX_CPU_MILLI}",
        ),
        (Request(memory_mib=2**63), f"memory_mib is {2**63}; it must be from 0 to {MAX_MIB}"),
        (Request(disk_mib=-5), f"disk_mib is -5; it must be from 0 to {MAX_MIB}"),
        (Request(gpu_milli=1500), "1500 thousandths are neither a part nor whole GPUs"),
        (Request(gpu_milli=-1000), f"gpu_milli is -1000; it must be from 0 to {MAX_GPU_MILLI}"),
        (Request(gpu_memory_mib=-1), f"gpu_memory_mib is -1; it must be from 0 to {MAX_MIB}"),
        (Request(generic=(("fpga", -1),)), f"fpga is -1; it must be from 0 to {MAX_GENERIC}"),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused(request_: Request, text: str) -> None:
    with refused(f"task 1.0: {text}"):
        picture_of([], [task(1, request_)])


def test_a_time_limit_that_cannot_be_meant_is_refused() -> None:
    with refused(f"task 1.0: time_limit_s is -1; it must be from 0 to {MAX_SECONDS}"):
        picture_of([], [task(1, time_limit_s=-1)])


def test_what_is_refused_leaves_the_picture_as_it_was() -> None:
    picture = picture_of([node()], [task(1)])
    before = picture.version
    with pytest.raises(BadPictureError):
        picture.add_waiting(task(2, Request(cpu_milli=-1)))
    with pytest.raises(BadPictureError):
        picture.set_node(node(gpus=[device(0), device(0)]))
    assert picture.version == before
    assert plan(picture, PRIORITY).starts == (start(1),)


def test_an_order_from_outside_that_fails_falls_back_to_time_and_is_reported() -> None:
    def broken(each: TaskBrief, _now_ms: int) -> tuple[int, ...]:
        raise KeyError(each.user)

    policy = Policy(PoolPolicy("broken"), outside_orders={"broken": broken})
    picture = picture_of([node(cpus=1)], [task(2, priority=9), task(1)], policy=policy)
    made = plan(picture, policy)
    assert made.starts == (start(1),)
    assert [fault.name for fault in made.faults] == ["broken"]
    assert isinstance(made.faults[0], Fault)
    assert "KeyError: 'ada'" in made.faults[0].text


def test_a_time_limit_of_nothing_is_a_time_limit() -> None:
    picture = picture_of([node(gpus=1)], [task(1, asks(gpus=1), time_limit_s=0), task(2, asks(gpus=1))])
    made = plan(picture, PRIORITY)
    assert made.starts == (start(1, "n1", 0),)
    assert made.reservations[0].at_ms == picture.now_ms + 1


def test_a_gang_of_one_is_a_gang() -> None:
    assert plan(picture_of([node()], gang(1, [asks()])), PRIORITY).starts == (start(1),)
