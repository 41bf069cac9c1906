"""How often everybody who waits is looked at: the larger the cluster, the seldomer."""

from tgpu.core.picture import Picture

WHOLE_EVERY_S = 1.0
FACTS_PER_PERIOD = 20_000
WHOLE_SHARE = 0.003
"""The most of its time that a leader spends on whole cycles: an urgent task seldom has to wait for one."""


def whole_every_s(picture: Picture, took_s: float) -> float:
    """Until the next one, after one that took so long."""
    facts = len(picture.places) + len(picture.placed) + len(picture.waiting)
    return max(WHOLE_EVERY_S * (1 + facts / FACTS_PER_PERIOD), took_s / WHOLE_SHARE)
