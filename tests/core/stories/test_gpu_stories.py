"""Which devices of a node does a task get?"""

from collections.abc import Sequence

from tests.core.core_story import PRIORITY, asks, device, node, picture_of, start, task
from tgpu.core.planner import plan
from tgpu.domain.job import Request
from tgpu.domain.node import Device

FOUR = [device(0, numa=0), device(1, numa=0), device(2, numa=1), device(3, numa=1)]


def chosen(devices: Sequence[Device], free: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """`free`: thousandths that are left of each device."""
    placed = []
    for position, left in enumerate(free):
        if left < 1000:
            holder = task(100 + position, asks(gpus=(1000 - left) / 1000, cpus=0))
            placed.append((holder, "n1", (devices[position].index,)))
    made = plan(picture_of([node(gpus=devices)], [task(1, request)], placed), PRIORITY)
    return made.starts[0].devices if made.starts else None


def test_a_task_without_gpus_gets_none() -> None:
    assert chosen(FOUR, [1000, 1000, 1000, 1000], asks()) == ()
    assert chosen(FOUR, [0, 0, 0, 0], asks()) == ()


def test_a_part_goes_onto_the_fullest_device_that_has_so_much_left() -> None:
    assert chosen(FOUR, [1000, 250, 500, 1000], asks(gpus=0.5)) == (2,)


def test_of_equal_devices_a_part_takes_the_first() -> None:
    assert chosen(FOUR, [1000, 1000, 1000, 1000], asks(gpus=0.25)) == (0,)


def test_a_part_is_never_put_together_from_several_devices() -> None:
    assert chosen(FOUR, [250, 250, 250, 250], asks(gpus=0.5)) is None


def test_a_device_is_shared_to_the_last_thousandth() -> None:
    waiting = [
        task(number, asks(gpus=gpus)) for number, gpus in ((1, 0.333), (2, 0.333), (3, 0.334), (4, 0.001))
    ]
    made = plan(picture_of([node(gpus=1)], waiting), PRIORITY)
    assert made.starts == (start(1, "n1", 0), start(2, "n1", 0), start(3, "n1", 0))


def test_whole_gpus_are_wholly_free_ones() -> None:
    assert chosen(FOUR, [750, 1000, 1000, 0], asks(gpus=2)) == (1, 2)
    assert chosen(FOUR, [750, 1000, 1000, 0], asks(gpus=3)) is None


def test_whole_gpus_stay_inside_one_numa_node_where_they_can() -> None:
    assert chosen(FOUR, [0, 1000, 1000, 1000], asks(gpus=2)) == (2, 3)


def test_one_gpu_comes_from_the_numa_node_that_is_left_with_the_least() -> None:
    assert chosen(FOUR, [1000, 1000, 0, 1000], asks(gpus=1)) == (3,)


def test_more_gpus_than_any_numa_node_has_are_taken_across() -> None:
    assert chosen(FOUR, [1000, 1000, 1000, 0], asks(gpus=3)) == (0, 1, 2)


def test_whole_gpus_come_from_the_smallest_island_that_has_enough() -> None:
    devices = [device(at, island=island) for at, island in enumerate((0, 0, 0, 0, 1, 1, 1, 2))]
    everything = [1000] * 8
    assert chosen(devices, everything, asks(gpus=1)) == (7,)
    assert chosen(devices, everything, asks(gpus=3)) == (4, 5, 6)
    assert chosen(devices, everything, asks(gpus=4)) == (0, 1, 2, 3)


def test_an_island_comes_before_a_numa_node() -> None:
    devices = [device(0, numa=0), device(1, numa=1, island=5), device(2, numa=0), device(3, numa=1, island=5)]
    assert chosen(devices, [1000] * 4, asks(gpus=2)) == (1, 3)
    assert chosen(devices, [1000, 1000, 1000, 0], asks(gpus=2)) == (0, 2)


def test_devices_without_an_island_form_none() -> None:
    devices = [device(0), device(1), device(2, island=0), device(3, island=0)]
    assert chosen(devices, [1000] * 4, asks(gpus=2)) == (2, 3)
    assert chosen(devices, [1000, 1000, 1000, 0], asks(gpus=2)) == (0, 1)


def test_of_equal_islands_the_one_whose_first_free_device_stands_first_is_taken() -> None:
    devices = [device(0, island=1), device(1, island=0), device(2, island=0), device(3, island=1)]
    assert chosen(devices, [1000] * 4, asks(gpus=2)) == (0, 3)


def test_by_memory_the_part_is_rounded_up_to_a_thousandth() -> None:
    """10 of 30 MiB are 334 thousandths: two fit, and 332 are left."""
    small = [device(0, memory_mib=30)]
    waiting = [
        task(1, asks(gpu_memory_mib=10)),
        task(2, asks(gpu_memory_mib=10)),
        task(3, asks(gpu_memory_mib=10)),
        task(4, asks(gpus=0.332)),
    ]
    made = plan(picture_of([node(gpus=small)], waiting), PRIORITY)
    assert made.starts == (start(1, "n1", 0), start(2, "n1", 0), start(4, "n1", 0))


def test_by_memory_the_tightest_device_is_the_one_with_the_least_left_of_it() -> None:
    devices = [device(0, memory_mib=81920), device(1, memory_mib=40960)]
    assert chosen(devices, [600, 700], asks(gpu_memory_mib=20480)) == (0,)
    assert chosen(devices, [200, 700], asks(gpu_memory_mib=20480)) == (1,)
    assert chosen(devices, [200, 400], asks(gpu_memory_mib=20480)) is None


def test_by_memory_no_device_is_too_large_and_some_are_too_small() -> None:
    devices = [device(0, memory_mib=1000), device(1, memory_mib=81920)]
    assert chosen(devices, [1000, 1000], asks(gpu_memory_mib=1001)) == (1,)
    assert chosen(devices, [1000, 1000], asks(gpu_memory_mib=1000)) == (0,)


def test_devices_are_named_as_the_node_names_them() -> None:
    assert chosen([device(4), device(7)], [1000, 1000], asks(gpus=2)) == (4, 7)


def test_what_runs_on_a_device_that_has_vanished_keeps_its_cpus() -> None:
    placed = [(task(9, asks(gpus=1)), "n1", (1,))]
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=1, cpus=7))], placed)
    picture.set_node(node(gpus=1))
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0),)
    picture.release(task(9).task_id)
    assert (picture.left("n1").cpu_milli, picture.left("n1").gpu_free) == (8000, (1000,))
