"""When a node runs short of memory, one task gives way before the kernel has to choose.

Tasks may hold more than they reserved: where they have a higher limit, or none, or where memory is given
out more than once. The one that gives way is tried again, elsewhere or later. One that is alone has nobody to
give way to: if it takes everything, the kernel ends it, and it has run out of memory.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tgpu.domain.lifecycle import Cause
from tgpu.observe.logs import logger
from tgpu.runner.burden import Burden

LOOK_EVERY_S = 1.0
AT_ONCE_PART = 4
"""With less than this part of the reserve left, there is no time for a grace."""
RESERVED_PART = 50
LEAST_MIB, MOST_MIB = 64, 2048


class Pressed(Protocol):
    async def burdens(self) -> list[Burden]: ...

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class GiveWay:
    attempt: str
    detail: str
    at_once: bool


def reserve_of(total_mib: int) -> int:
    """Where nobody has said."""
    return min(max(total_mib // RESERVED_PART, LEAST_MIB), MOST_MIB)


def who_gives_way(
    burdens: Sequence[Burden], left_mib: int, reserve_mib: int, stopping: Iterable[str] = ()
) -> GiveWay | None:
    """A task that holds more than it reserved, or reserved nothing, before any other. Of these the lowest
    class, in it a task that runs on the burst, then the one furthest above what it reserved.

    Nobody, as long as one who was told to go is still there, unless there is no time left.
    """
    if left_mib >= reserve_mib or len(burdens) <= 1:
        return None
    at_once = left_mib * AT_ONCE_PART < reserve_mib
    going = set(stopping) & {burden.attempt for burden in burdens}
    if going and not at_once:
        return None
    candidates = [burden for burden in burdens if burden.attempt in going] or burdens
    chosen = max(candidates, key=_rank)
    detail = (
        f"{left_mib} MiB were left of the {reserve_mib} MiB that are kept free; it held {chosen.used_mib} MiB"
    )
    return GiveWay(chosen.attempt, detail, at_once)


def _rank(burden: Burden) -> tuple[bool, int, int, str]:
    is_above = burden.excess_mib > 0 or not burden.reserved_mib
    return is_above, burden.score, burden.excess_mib, burden.attempt


async def watch_for_ever(runners: Sequence[Pressed], left: Callable[[], int], reserve_mib: int) -> None:
    """Until cancelled. `left`: how much memory this node has left, in MiB."""
    stopping: dict[str, bool] = {}
    while reserve_mib:
        await asyncio.sleep(LOOK_EVERY_S)
        left_mib = await asyncio.to_thread(left)
        for runner in runners if left_mib < reserve_mib else ():
            burdens = await runner.burdens()
            leaver = who_gives_way(burdens, left_mib, reserve_mib, stopping)
            if leaver is not None and stopping.get(leaver.attempt) is not leaver.at_once:
                stopping[leaver.attempt] = leaver.at_once
                logger("agent").warning("memory-pressure", attempt=leaver.attempt, left_mib=left_mib)
                runner.stop(leaver.attempt, Cause.MEMORY_PRESSURE, leaver.detail, at_once=leaver.at_once)
        if left_mib >= reserve_mib:
            stopping.clear()
