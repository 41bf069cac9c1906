"""Whether a container that was struck down fell with its engine: one that stops ends them, untold."""

import asyncio

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.runner.docker.engine import Engine, EngineAwayError, EngineRefusedError
from tgpu.runner.docker.keeper import Keeper
from tgpu.runner.docker.states import ENGINE_STOPPED, State, fell_with_its_engine

STRUCK_DOWN_S = 1.5
"""An engine that stops ends its containers first: so long it is watched whether it is about to."""
LOOKS_WHILE_STRUCK = 5


async def who_struck(engine: Engine, keeper: Keeper, name: str, state: State, *, outage: bool) -> Exit | None:
    """What ended it from outside, if the engine did. `outage`: it was away while the container ran; of one
    that may have run out of memory, that alone says nothing."""
    stopped = Exit(Cause.NODE_LOST, detail=ENGINE_STOPPED)
    if state.was_lost_by_engine or (outage and not state.looks_out_of_memory):
        return stopped
    for _ in range(LOOKS_WHILE_STRUCK):
        await asyncio.sleep(STRUCK_DOWN_S / LOOKS_WHILE_STRUCK)
        try:
            await engine.ping()
        except EngineAwayError:
            keeper.lost()
            return stopped
    try:
        about = await engine.about()  # anew: it may not be the one that we knew
        fell = fell_with_its_engine(await engine.remembered(), name, state, live_restore=about.live_restore)
    except (EngineAwayError, EngineRefusedError):
        return None
    return stopped if fell else None
