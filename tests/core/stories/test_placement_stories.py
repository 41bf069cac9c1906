"""Among nodes with room, which one is taken?"""

from tests.core.core_story import PRIORITY, asks, device, node, picture_of, start, task
from tgpu.core.plan import Fault
from tgpu.core.planner import plan
from tgpu.core.policy import Left, Policy, PoolPolicy, named
from tgpu.domain.job import Request
from tgpu.domain.node import Node

SPREAD = named("priority", "spread")
FRAGMENTATION = named("priority", "fragmentation")
WHOLE = asks(gpus=1)


def test_tightest_takes_the_fullest_node_that_has_room() -> None:
    nodes = [node("empty", gpus=4), node("fuller", gpus=4)]
    placed = [(task(9, asks(gpus=2)), "fuller", (0, 1))]
    assert plan(picture_of(nodes, [task(1, WHOLE)], placed), PRIORITY).starts == (start(1, "fuller", 2),)


def test_tightest_looks_at_what_is_needed_and_at_nothing_else() -> None:
    """n1 has less memory left, but only CPUs are asked for, and of these n2 has less."""
    nodes = [node("n1", cpus=8, memory_mib=10), node("n2", cpus=4)]
    assert plan(picture_of(nodes, [task(1)]), PRIORITY).starts == (start(1, "n2"),)


def test_tightest_keeps_a_cpu_task_off_idle_gpus() -> None:
    nodes = [node("gpus", cpus=2, gpus=4), node("plain", cpus=64)]
    assert plan(picture_of(nodes, [task(1)]), PRIORITY).starts == (start(1, "plain"),)


def test_tightest_counts_only_the_gpus_that_suit() -> None:
    a100s = [device(index) for index in range(2)]
    t4s = [device(index, "Tesla T4") for index in range(2, 4)]
    nodes = [node("mixed", gpus=[*a100s, *t4s]), node("pure", gpus=3)]
    waiting = [task(1, asks(gpus=1, gpu_type="a100"))]
    assert plan(picture_of(nodes, waiting), PRIORITY).starts == (start(1, "mixed", 0),)


def test_spread_takes_the_emptiest_node() -> None:
    nodes = [node("fuller", gpus=4), node("larger", gpus=8)]
    placed = [
        (task(9, asks(gpus=1, cpus=0)), "fuller", (0,)),
        (task(8, asks(gpus=1, cpus=0)), "larger", (0,)),
    ]
    picture = picture_of(nodes, [task(1, asks(gpus=1, cpus=0))], placed, SPREAD)
    assert plan(picture, SPREAD).starts == (start(1, "larger", 1),)


def test_spread_puts_equal_tasks_onto_nodes_in_turn() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    waiting = [task(number) for number in (1, 2, 3, 4)]
    made = plan(picture_of(nodes, waiting, policy=SPREAD), SPREAD)
    assert [each.node_id for each in made.starts] == ["n1", "n2", "n3", "n1"]


def test_of_equal_nodes_the_smaller_name_is_taken() -> None:
    for policy in (PRIORITY, SPREAD, FRAGMENTATION):
        nodes = [node("n2", gpus=1), node("n1", gpus=1), node("n10", gpus=1)]
        picture = picture_of(nodes, [task(1, WHOLE)], policy=policy)
        assert plan(picture, policy).starts == (start(1, "n1", 0),)


def test_fragmentation_leaves_whole_gpus_to_those_who_usually_come() -> None:
    """Most who come want two whole GPUs: a half goes where such a pair is broken already."""
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=3)], policy=FRAGMENTATION)
    for number in range(100, 110):
        picture.add_waiting(task(number, asks(gpus=2)))
    picture.now_ms += 60_000
    for number in range(100, 110):
        picture.remove_waiting(task(number).task_id)
    picture.add_waiting(task(1, asks(gpus=0.5)))
    assert plan(picture, FRAGMENTATION).starts == (start(1, "n2", 0),)


def test_the_scorer_is_that_of_the_pool_that_is_asked_for() -> None:
    policy = Policy(PoolPolicy("priority", "tightest"), {"wide": PoolPolicy("priority", "spread")})
    nodes = [node("n1", cpus=8, pool="wide"), node("n2", cpus=4, pool="wide")]
    placed = [(task(9), "n2", ())]
    made = plan(picture_of(nodes, [task(1, asks(pool="wide")), task(2)], placed, policy), policy)
    assert made.starts == (start(1, "n1"), start(2, "n2"))


def test_a_pool_may_give_out_more_cpus_and_memory_than_it_has() -> None:
    policy = Policy(
        PoolPolicy("priority"),
        {"loose": PoolPolicy("priority", cpu_overcommit=1500, memory_overcommit=2000)},
    )
    waiting = [task(number, asks(cpus=2, memory_mib=600)) for number in (1, 2, 3, 4)]
    nodes = [node("n1", cpus=4, memory_mib=1000, pool="loose")]
    made = plan(picture_of(nodes, waiting, policy=policy), policy)
    assert made.starts == (start(1), start(2), start(3))


def test_a_scorer_from_outside_decides_and_one_that_fails_finds_all_nodes_equal() -> None:
    def last(_request: Request, candidate: Node, left: Left) -> float:
        assert left.cpu_milli == 8000
        return float(candidate.node_id.removeprefix("n"))

    def broken(_request: Request, _node: Node, _left: Left) -> float:
        raise RuntimeError("no opinion")

    nodes = [node("n1"), node("n2")]
    policy = Policy(PoolPolicy("priority", "last"), outside_scorers={"last": last})
    assert plan(picture_of(nodes, [task(1)], policy=policy), policy).starts == (start(1, "n2"),)
    policy = Policy(PoolPolicy("priority", "broken"), outside_scorers={"broken": broken})
    made = plan(picture_of(nodes, [task(1)], policy=policy), policy)
    assert made.starts == (start(1, "n1"),)
    assert made.faults == (Fault("broken", "scorer broken failed: RuntimeError: no opinion"),)
