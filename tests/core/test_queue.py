"""A queue is always in order, whoever joins and leaves."""

import random

from tgpu.core.columns.queue import Queue


def test_whoever_joins_and_leaves_the_others_stand_in_order() -> None:
    dice = random.Random(3)
    keys = {slot: (dice.randint(0, 9), slot) for slot in range(500)}
    queue, inside = Queue(lambda slot: keys[slot]), set()
    for _ in range(4000):
        slot = dice.randrange(500)
        if slot in inside:
            assert queue.before(slot) == sum(keys[other] < keys[slot] for other in inside)
            queue.remove(slot)
            inside.remove(slot)
        else:
            queue.add(slot)
            inside.add(slot)
        assert len(queue) == len(inside)
    assert queue.slots.tolist() == sorted(inside, key=keys.__getitem__)


def test_when_keys_change_it_is_sorted_again() -> None:
    keys = {0: (1,), 1: (2,), 2: (3,)}
    queue = Queue(lambda slot: keys[slot])
    for slot in (2, 0, 1):
        queue.add(slot)
    keys[2] = (0,)
    queue.sort_again()
    assert queue.slots.tolist() == [2, 0, 1]
