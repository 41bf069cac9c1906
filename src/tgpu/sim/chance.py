"""Whether something happens, decided by the seed."""

from random import Random


def happens(random: Random, probability: float) -> bool:
    return random.random() < probability
