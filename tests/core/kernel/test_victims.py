from itertools import combinations

import numpy as np
import pytest

from tests.core.kernel.compiled_here import compiled
from tests.core.kernel.small_world import World, small_world
from tgpu.core.kernel import victims
from tgpu.core.kernel.shapes import NOWHERE
from tgpu.core.kernel.victim_answer import BUDGET

Answer = tuple[int, list[int]]


def enough(world: World, kind: int, node: int, units: tuple[int, ...]) -> bool:
    free, gpu, tasks = world.freed(
        node, [row for row in world.rows(node) if world.attempts.unit[row] in units]
    )
    return world.has_room(kind, node, free, gpu, tasks)


def open_nodes(world: World, kind: int) -> list[int]:
    return [
        node
        for node in range(len(world.nodes.takes))
        if world.suits(kind, node)
        and not world.reserved_alone[node]
        and not (world.kinds.exclusive[kind] and world.reserved_any[node])
    ]


def lower_units(world: World, rank: int, node: int) -> list[int]:
    attempts = world.attempts
    return sorted(
        {
            int(attempts.unit[row])
            for row in world.rows(node)
            if attempts.rank[row] > rank and world.unit_stoppable[attempts.unit[row]]
        }
    )


def by_hand(world: World, kind: int, rank: int) -> Answer:
    """Every set on every node."""
    best = None
    for node in open_nodes(world, kind):
        units = lower_units(world, rank, node)
        for size in range(1, len(units) + 1):
            for chosen in combinations(units, size):
                if enough(world, kind, node, chosen):
                    tasks = sum(int(world.unit_tasks[unit]) for unit in chosen)
                    cost = sum(int(world.unit_cost[unit]) for unit in chosen)
                    answer = (tasks, cost, node, list(chosen))
                    best = answer if best is None else min(best, answer)
    return (NOWHERE, []) if best is None else best[2:]


def ask(find: object, world: World, kind: int, rank: int, budget: int = BUDGET) -> Answer:
    out = np.zeros(len(world.attempts.unit) + 1, np.int32)
    node, count = find(  # type: ignore[operator]
        kind, rank, world.nodes, world.kinds, world.attempts, world.unit_tasks, world.unit_cost,
        world.unit_stoppable, world.reserved, world.reserved_gpu, world.reserved_any, world.reserved_alone,
        budget, out,
    )  # fmt: skip
    return node, out[:count].tolist()


@pytest.mark.parametrize("block", range(6))
def test_the_victims_are_the_best_of_all_sets(block: int) -> None:
    several = 0
    for seed in range(block * 80, block * 80 + 80):
        world = small_world(seed, crowded=20)
        for kind in range(len(world.kinds.gpus)):
            rank = (seed + kind) % 2
            expected = by_hand(world, kind, rank)
            assert ask(victims.find_victims, world, kind, rank) == expected, (seed, kind)
            several += len(expected[1]) > 1
    assert several > 15  # many are worth searching


def test_compiled_it_says_the_same() -> None:
    twins = compiled()
    for seed in range(300, 400):
        world = small_world(seed, crowded=10)
        for kind in range(len(world.kinds.gpus)):
            assert ask(twins["find_victims"], world, kind, 0) == by_hand(world, kind, 0), (seed, kind)


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_without_steps_enough_the_set_still_suffices_and_nobody_is_stopped_without_need(budget: int) -> None:
    several = 0
    for seed in range(120):
        world = small_world(seed, crowded=12)
        for kind in range(len(world.kinds.gpus)):
            node, units = ask(victims.find_victims, world, kind, 0, budget)
            if by_hand(world, kind, 0)[0] == NOWHERE:
                assert (node, units) == (NOWHERE, [])
                continue
            several += len(units) > 1
            assert node in open_nodes(world, kind)
            assert set(units) <= set(lower_units(world, 0, node))
            assert enough(world, kind, node, tuple(units))
            for unit in units if len(units) > 1 else ():
                assert not enough(world, kind, node, tuple(other for other in units if other != unit))
    assert several > 50
