import numpy as np
import pytest

from tests.core.kernel.compiled_here import compiled
from tests.core.kernel.small_world import COLUMNS, DEVICES, World, bits, small_world
from tgpu.core.kernel import earliest
from tgpu.core.kernel.shapes import NEVER, NOWHERE

NOW = 5


def by_hand(world: World, kind: int) -> tuple[int, int, int]:
    """Every node at every moment that could matter, from scratch."""
    found = []
    for node in range(len(world.nodes.takes)):
        taken_alone = world.reserved_alone[node] or (
            world.kinds.exclusive[kind] and world.reserved_tasks[node]
        )
        if not world.suits(kind, node) or taken_alone:
            continue
        opens = max(NOW, int(world.opens_ms[node]))
        ends = {row: int(world.attempts.end_ms[row]) for row in world.rows(node)}
        for at in {opens, *(end for end in ends.values() if end > opens)}:
            free, gpu, tasks = world.freed(node, [row for row, end in ends.items() if end <= at])
            if world.has_room(kind, node, free, gpu, tasks):
                found.append((at, node, bits(world.usual_devices(kind, node, gpu) or [])))
    if not found:
        return NOWHERE, NEVER, 0
    at, node, devices = min(found)
    return node, at, devices


def asked(world: World, kind: int) -> tuple[object, ...]:
    return (
        kind, world.nodes, world.kinds, world.layouts, world.attempts, world.reserved, world.reserved_gpu,
        world.reserved_any, world.reserved_tasks, world.reserved_alone, world.opens_ms, NOW,
    )  # fmt: skip


@pytest.mark.parametrize("block", range(6))
def test_the_earliest_start_is_the_one_found_by_trying_every_moment(block: int) -> None:
    later = 0
    for seed in range(block * 50, block * 50 + 50):
        world = small_world(seed)
        for kind in range(len(world.kinds.gpus)):
            expected = by_hand(world, kind)
            assert earliest.earliest_start(*asked(world, kind)) == expected, (seed, kind)  # type: ignore[arg-type]
            later += NOW < expected[1] < NEVER
    assert later > 50  # many are worth asking


def test_compiled_it_says_the_same() -> None:
    twins = compiled()
    for seed in range(150):
        world = small_world(seed)
        for kind in range(len(world.kinds.gpus)):
            assert twins["earliest_start"](*asked(world, kind)) == by_hand(world, kind), (seed, kind)


def test_the_room_at_a_moment_is_what_is_free_and_what_has_ended() -> None:
    for seed in range(100):
        world = small_world(seed)
        world.reserved[:], world.reserved_gpu[:] = 0, 0
        for node in range(len(world.nodes.takes)):
            for at in (0, 10, 35, 100):
                free, gpu = np.zeros(COLUMNS, np.int64), np.zeros(DEVICES, np.int32)
                tasks = earliest.room_at(node, at, world.nodes, world.kinds, world.attempts, free, gpu)
                ended = [row for row in world.rows(node) if world.attempts.end_ms[row] <= at]
                assert (free.tolist(), gpu.tolist(), tasks) == world.freed(node, ended)
