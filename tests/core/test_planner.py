"""Who starts now, and where; for whom room is kept."""

from tests.core.core_story import FIFO, PRIORITY, asks, device, node, picture_of, task
from tgpu.core.plan import Hold, Start
from tgpu.core.planner import plan
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.priority import PriorityClass

WHOLE = asks(gpus=1)


def start(job_id: int, node_id: str = "n1", *devices: int) -> Start:
    return Start(TaskId(job_id, 0), node_id, devices)


def test_everybody_starts_where_there_is_room_for_all() -> None:
    picture = picture_of([node(gpus=2)], [task(1, WHOLE), task(2), task(3, WHOLE)])
    made = plan(picture, PRIORITY)
    assert made.starts == (start(1, "n1", 0), start(2), start(3, "n1", 1))
    assert (made.hold, made.blocked, made.version) == (None, {}, picture.version)


def test_planning_changes_nothing_in_the_picture() -> None:
    picture = picture_of([node(gpus=2)], [task(1, WHOLE)])
    before = picture.version
    assert plan(picture, PRIORITY) == plan(picture, PRIORITY)
    assert (picture.version, list(picture.waiting), picture.placed) == (before, [TaskId(1, 0)], {})


def test_a_task_goes_to_the_fullest_node_that_has_room_for_it() -> None:
    nodes = [node("empty", gpus=4), node("fuller", gpus=4)]
    holder = (task(9, asks(gpus=2)), "fuller", (0, 1))
    assert plan(picture_of(nodes, [task(1, WHOLE)], [holder]), PRIORITY).starts == (start(1, "fuller", 2),)


def test_a_cpu_task_stays_off_a_node_with_idle_gpus() -> None:
    nodes = [node("gpus", cpus=2, gpus=4), node("plain", cpus=64)]
    assert plan(picture_of(nodes, [task(1)]), PRIORITY).starts == (start(1, "plain"),)


def test_the_first_who_cannot_start_keeps_what_it_could_already_use() -> None:
    holder = (task(9, WHOLE), "n1", (0,))
    big, small = task(1, asks(gpus=2)), task(2, WHOLE)
    made = plan(picture_of([node(gpus=2)], [big, small], [holder]), PRIORITY)
    assert made.starts == ()
    assert made.hold == Hold(TaskId(1, 0), "n1")
    assert made.blocked == {big.request: TaskId(1, 0), small.request: TaskId(2, 0)}


def test_a_small_task_passes_the_head_if_it_takes_nothing_that_the_head_could_use() -> None:
    holder = (task(9, asks(gpus=2)), "n1", (0, 1))
    head, small = task(1, asks(gpus=3, cpus=4)), task(2, asks(cpus=3))
    made = plan(picture_of([node(gpus=4, cpus=8)], [head, small], [holder]), PRIORITY)
    assert (made.starts, made.hold) == ((start(2),), Hold(TaskId(1, 0), "n1"))
    too_much = task(3, asks(cpus=4))  # 8 CPUs, less 1 in use and 4 kept for the head
    assert plan(picture_of([node(gpus=4, cpus=8)], [head, too_much], [holder]), PRIORITY).starts == ()


def test_nobody_takes_the_gpu_that_the_head_waits_with() -> None:
    holder = (task(9, asks(gpus=2)), "n1", (0, 1))
    head, small = task(1, asks(gpus=3)), task(2, asks(gpus=0.25))
    made = plan(picture_of([node(gpus=3)], [head, small], [holder]), PRIORITY)
    assert made.starts == ()


def test_more_idle_gpus_than_the_head_needs_are_free_for_others() -> None:
    holder = (task(9, asks(cpus=7)), "n1", ())
    head, small = task(1, asks(gpus=1, cpus=2)), task(2, asks(gpus=1, cpus=0))
    made = plan(picture_of([node(gpus=2)], [head, small], [holder]), PRIORITY)
    assert (made.starts, made.hold) == ((start(2, "n1", 1),), Hold(TaskId(1, 0), "n1"))


def test_room_is_kept_on_the_node_that_lacks_least_and_others_are_free() -> None:
    nodes = [node("far", gpus=4), node("near", gpus=4)]
    holders = [(task(8, asks(gpus=3)), "far", (0, 1, 2)), (task(9, WHOLE), "near", (0,))]
    made = plan(picture_of(nodes, [task(1, asks(gpus=4)), task(2, WHOLE)], holders), PRIORITY)
    assert (made.starts, made.hold) == ((start(2, "far", 3),), Hold(TaskId(1, 0), "near"))


def test_one_who_fits_on_no_node_keeps_no_room() -> None:
    made = plan(picture_of([node(gpus=1)], [task(1, asks(gpus=8)), task(2, WHOLE)]), PRIORITY)
    assert (made.starts, made.hold) == ((start(2, "n1", 0),), None)


def test_the_order_of_the_policy_decides_who_is_first() -> None:
    low = task(1, WHOLE, PriorityClass.LOW)
    high = task(2, WHOLE, PriorityClass.HIGH)
    assert plan(picture_of([node(gpus=1)], [low, high]), PRIORITY).starts == (start(2, "n1", 0),)
    assert plan(picture_of([node(gpus=1)], [low, high], policy=FIFO), FIFO).starts == (start(1, "n1", 0),)


def test_an_exclusive_task_wants_an_empty_node_and_keeps_others_away() -> None:
    alone = task(1, asks(exclusive=True))
    assert plan(picture_of([node()], [alone, task(2)]), PRIORITY).starts == (start(1),)
    made = plan(picture_of([node()], [alone, task(2)], [(task(9), "n1", ())]), PRIORITY)
    assert (made.starts, made.hold) == ((), Hold(TaskId(1, 0), "n1"))


def test_nothing_is_started_where_nobody_listens_or_that_drains() -> None:
    away, draining = node("away"), node("draining", state=NodeState.DRAINING)
    picture = picture_of([away, draining], [task(1)])
    picture.set_reachable("away", reachable=False)
    made = plan(picture, PRIORITY)
    assert (made.starts, made.hold) == ((), None)


def test_devices_are_named_as_the_node_names_them() -> None:
    odd = node(gpus=[device(4), device(7)])
    assert plan(picture_of([odd], [task(1, asks(gpus=2))]), PRIORITY).starts == (start(1, "n1", 4, 7),)


def test_what_runs_on_a_device_that_has_vanished_keeps_its_cpus() -> None:
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=1, cpus=7))], [(task(9, WHOLE), "n1", (1,))])
    picture.set_node(node(gpus=1))
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0),)
    picture.release(TaskId(9, 0))
    assert (picture.places["n1"].room.cpu_milli, picture.places["n1"].room.gpu_free) == (8000, [1000])
