"""Which devices of a node a task gets."""

from tests.core.core_story import asks, device
from tgpu.core.devices import choose

FOUR = [device(0, numa=0), device(1, numa=0), device(2, numa=1), device(3, numa=1)]


def test_a_task_without_gpus_gets_none_even_where_there_are_none() -> None:
    assert choose([], [], asks()) == ()
    assert choose(FOUR, [0, 0, 0, 0], asks()) == ()


def test_a_fraction_goes_onto_the_fullest_device_that_has_room_for_it() -> None:
    assert choose(FOUR, [1000, 250, 500, 1000], asks(gpus=0.5)) == (2,)


def test_of_equal_devices_a_fraction_takes_the_first() -> None:
    assert choose(FOUR, [1000, 1000, 1000, 1000], asks(gpus=0.25)) == (0,)


def test_a_fraction_is_never_put_together_from_several_devices() -> None:
    assert choose(FOUR, [250, 250, 250, 250], asks(gpus=0.5)) is None


def test_whole_gpus_are_idle_ones() -> None:
    assert choose(FOUR, [750, 1000, 1000, 0], asks(gpus=2)) == (1, 2)
    assert choose(FOUR, [750, 1000, 1000, 0], asks(gpus=3)) is None


def test_whole_gpus_stay_inside_one_numa_node_where_they_can() -> None:
    assert choose(FOUR, [0, 1000, 1000, 1000], asks(gpus=2)) == (2, 3)


def test_one_gpu_comes_from_the_numa_node_that_is_left_with_the_least() -> None:
    assert choose(FOUR, [1000, 1000, 0, 1000], asks(gpus=1)) == (3,)


def test_more_gpus_than_any_numa_node_has_are_taken_across() -> None:
    assert choose(FOUR, [1000, 1000, 1000, 0], asks(gpus=3)) == (0, 1, 2)


def test_a_gpu_type_is_a_part_of_the_model_in_any_case() -> None:
    mixed = [device(0, "Tesla T4"), device(1, "NVIDIA A100-SXM4-80GB")]
    assert choose(mixed, [1000, 1000], asks(gpus=1, gpu_type="a100")) == (1,)
    assert choose(mixed, [1000, 1000], asks(gpus=0.5, gpu_type="t4")) == (0,)
    assert choose(mixed, [1000, 1000], asks(gpus=1, gpu_type="h100")) is None


def test_a_sick_device_is_given_to_nobody() -> None:
    devices = [device(0, healthy=False), device(1)]
    assert choose(devices, [1000, 1000], asks(gpus=1)) == (1,)
    assert choose(devices, [1000, 1000], asks(gpus=2)) is None
    assert choose(devices[:1], [1000], asks(gpus=0.1)) is None
