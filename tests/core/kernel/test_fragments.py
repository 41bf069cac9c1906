import numpy as np
import pytest

from tests.core.kernel.compiled_here import compiled
from tests.core.kernel.small_world import DEVICES, World, bits, small_world
from tgpu.core.kernel import fragments

Mix = tuple[np.ndarray, np.ndarray]
Left = tuple[list[int], list[int], int, bool]
"""Free amounts, free parts of devices, tasks, whether one of them is alone there."""


def mix_of(world: World, seed: int) -> Mix:
    """Weights in sixty-fourths, so that sums of floats are exact, in whatever order."""
    dice = np.random.default_rng(seed)
    kinds = dice.permutation(len(world.kinds.gpus))[: dice.integers(1, 7)]
    cuts = np.sort(dice.integers(0, 65, len(kinds) - 1))
    return kinds.astype(np.int32), np.diff(np.concatenate(([0], cuts, [64]))) / 64


def fragment(world: World, node: int, left: Left, mix: Mix) -> float:
    """By the definition at the top of the module."""
    free, gpu, tasks, alone = left
    total = 0.0
    for kind, weight in zip(*mix, strict=True):
        runs = (
            world.kinds.gpus[kind] > 0
            and world.suits(kind, node)
            and not (tasks and alone)
            and world.has_room(kind, node, free, gpu, tasks)
        )
        used = sum(gpu[device] for device in world.usable(kind, node, gpu)) if runs else 0
        total += float(weight) * (sum(gpu) - used)
    return total


def by_hand(world: World, kind: int, node: int, mix: Mix) -> tuple[float, int]:
    free, gpu, tasks = world.freed(node, [])
    if not world.has_room(kind, node, free, gpu, tasks):
        return 0.0, -1
    before = fragment(world, node, (free, gpu, tasks, bool(world.nodes.alone[node])), mix)
    choices = [world.usual_devices(kind, node, gpu) or []]
    if world.kinds.gpus[kind] and not world.kinds.whole[kind]:
        choices = [[device] for device in world.usable(kind, node, gpu)]
    found = []
    for choice in choices:
        left = [has - int(need) for has, need in zip(free, world.kinds.need[kind], strict=True)]
        needs = world.kinds.device_need[kind, world.nodes.layout[node]]
        gpu_left = [
            gpu[device] - (int(needs[device]) if device in choice else 0) for device in range(DEVICES)
        ]
        alone = bool(world.kinds.exclusive[kind])
        gain = before - fragment(world, node, (left, gpu_left, tasks + 1, alone), mix)
        found.append((-gain, [gpu[device] for device in choice], choice))
    gain, _, choice = min(found)
    return -gain, bits(choice)


def without_reservations(seed: int) -> World:
    world = small_world(seed, crowded=4)
    world.reserved[:], world.reserved_gpu[:] = 0, 0
    world.nodes.takes[:] = True
    return world


@pytest.mark.parametrize("block", range(4))
def test_the_gain_is_the_fragment_before_less_the_fragment_after_on_the_best_device(block: int) -> None:
    gained = 0
    for seed in range(block * 60, block * 60 + 60):
        world = without_reservations(seed)
        mix = mix_of(world, seed)
        for node in range(len(world.nodes.takes)):
            for kind in range(len(world.kinds.gpus)):
                expected = by_hand(world, kind, node, mix)
                found = fragments.fragment_gain(kind, node, world.nodes, world.kinds, world.layouts, *mix)
                assert found == expected, (seed, node, kind)
                gained += expected[0] != 0
    assert gained > 100


def test_compiled_it_says_the_same() -> None:
    twins = compiled()
    for seed in range(100):
        world = without_reservations(seed)
        kinds = np.arange(len(world.kinds.gpus), dtype=np.int32)
        weights = np.random.default_rng(seed).dirichlet(np.ones(len(kinds)))  # and no sum of these is exact
        for node in range(len(world.nodes.takes)):
            for kind in range(len(kinds)):
                asked = (kind, node, world.nodes, world.kinds, world.layouts, kinds, weights)
                assert twins["fragment_gain"](*asked) == fragments.fragment_gain(*asked), (seed, node, kind)
