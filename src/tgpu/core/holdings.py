"""Room that attempts still take though their tasks have left them behind.

A task goes on with one attempt. Another one that lives on a node that can be reached keeps its room until
the node says that it has ended, or no longer knows it: nobody else may be given that room meanwhile.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tgpu.core.picture import Picture
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import AttemptState


@dataclass(frozen=True, slots=True)
class Holding:
    """What such an attempt takes, and where. Its tenant is charged for the task once, not for this too."""

    attempt_id: AttemptId
    node_id: str
    devices: tuple[int, ...]
    request: Request
    state: AttemptState
    """As the store has it: stopping (superseded), lost, or ended and yet there."""
    stays: bool = False
    """It runs on, and only its job is set aside: it is neither stopped nor written off."""


def hold(picture: Picture, holding: Holding) -> None:
    picture.version += 1
    picture.table.holdings[holding.attempt_id] = holding
    if picture.table.can_hold_request(holding.request):
        picture.table.keep(holding)
    else:
        picture.lay_out()


def let_go(picture: Picture, attempt_id: AttemptId) -> Holding:
    """It is gone, and its room is free."""
    picture.version += 1
    return picture.table.let_go(attempt_id)


def holdings_on(picture: Picture, node_id: str) -> Iterator[Holding]:
    return (holding for holding in list(picture.table.holdings.values()) if holding.node_id == node_id)
