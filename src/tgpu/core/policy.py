"""A policy is a list of opinions: whom to serve first, and where to place them."""

from dataclasses import dataclass

from tgpu.core.ordering import ORDERS, Order
from tgpu.core.scoring import SCORERS, Scorer


class UnknownPolicyError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    order: Order
    score: Scorer


def named(order: str, score: str = "tightest") -> Policy:
    if order not in ORDERS:
        raise UnknownPolicyError(f"there is no policy {order!r}; take one of {', '.join(ORDERS)}")
    if score not in SCORERS:
        raise UnknownPolicyError(f"there is no scorer {score!r}; take one of {', '.join(SCORERS)}")
    return Policy(order, ORDERS[order], SCORERS[score])
