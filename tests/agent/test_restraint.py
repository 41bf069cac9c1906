"""What a node adds to the limits of a task: the files of its GPUs, the CPUs next to them."""

from pathlib import Path

import pytest

from tgpu.agent.pinning import cpus_next_to, numa_cpus
from tgpu.agent.restraint import Restraint, oom_score
from tgpu.domain.node import Device
from tgpu.domain.priority import PriorityClass
from tgpu.runner.limits import Limits

NUMA = {0: frozenset({0, 1, 4, 5}), 1: frozenset({2, 3})}


def gpu(index: int, numa_node: int | None, minor: int | None = None) -> Device:
    return Device(index, f"GPU-{index}", "A100", 81920, numa_node=numa_node, minor=minor)


GPUS = (gpu(0, 0, 3), gpu(1, 0, 2), gpu(2, 1, 1), gpu(3, None, 0))


@pytest.mark.parametrize(
    ("given", "cpu_milli", "cpus"),
    [
        ((0, 1), 4000, (0, 1, 4, 5)),
        ((2,), 1000, (2, 3)),
        ((2,), 2001, ()),
        ((0, 2), 1000, ()),
        ((), 1000, ()),
    ],
)
def test_a_task_is_pinned_next_to_gpus_of_one_numa_node(
    given: tuple[int, ...], cpu_milli: int, cpus: tuple[int, ...]
) -> None:
    assert cpus_next_to(given, GPUS, NUMA, cpu_milli) == cpus


def test_nobody_is_pinned_where_there_is_one_numa_node_or_it_is_not_known() -> None:
    assert cpus_next_to((0,), GPUS, {0: NUMA[0]}, 1000) == ()
    assert cpus_next_to((3,), GPUS, NUMA, 1000) == ()


def test_numa_nodes_are_read_as_the_kernel_lists_them(tmp_path: Path) -> None:
    for name, cpus in (("node0", "0-1,4-5\n"), ("node1", "2-3\n"), ("node2", "\n"), ("node3", "8-9\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpulist").write_text(cpus)
    (tmp_path / "node4").mkdir()
    (tmp_path / "has_cpu").write_text("0-1")
    assert numa_cpus(frozenset(range(6)), tmp_path) == NUMA


def test_limits_are_completed_by_what_the_node_knows() -> None:
    restraint = Restraint(pids=99, user_pids=500, pin_cpus=True, devices=lambda: GPUS, numa=NUMA)
    asked = Limits(cpu_milli=1000, memory_limit_mib=64, devices=(1, 2))
    assert restraint.completed(asked) == Limits(
        cpu_milli=1000, memory_limit_mib=64, devices=(1, 2), pids=99, user_pids=500, minors=(2, 1), cpus=()
    )
    assert restraint.completed(Limits(devices=(2,))).cpus == (2, 3)
    assert restraint.completed(Limits(devices=())).minors == ()
    assert restraint.completed(Limits()).minors is None
    unpinned = Restraint(pids=0, user_pids=0, pin_cpus=False, devices=lambda: GPUS, numa=NUMA)
    assert unpinned.completed(Limits(devices=(2,))).cpus == ()


def test_limit_of_a_private_tmp_is_what_the_job_reserves_or_else_the_nodes_own() -> None:
    restraint = Restraint(
        pids=0, user_pids=0, pin_cpus=False, devices=lambda: (), disk_mib=lambda: 500, numa={}
    )
    assert restraint.completed(Limits(disk_mib=20)).disk_limit_mib == 20
    assert restraint.completed(Limits()).disk_limit_mib == 500


def test_gpus_whose_files_are_not_known_are_kept_from_nobody() -> None:
    restraint = Restraint(pids=0, user_pids=0, pin_cpus=False, devices=lambda: (gpu(0, None),), numa={})
    assert restraint.completed(Limits(devices=(0,))).minors is None


def test_the_kernels_choice_is_by_class_then_by_burst() -> None:
    scores = [oom_score(name, burst=burst) for name in PriorityClass for burst in (False, True)]
    assert scores == sorted(scores)
    assert len(set(scores)) == len(scores)
    assert 0 < scores[0] < scores[-1] < 1000
