"""How heavily containers weigh on their node's memory: asked only when that runs short."""

import asyncio
from collections.abc import Sequence

from tgpu.runner import tree
from tgpu.runner.burden import KIB_IN_MIB, Burden
from tgpu.runner.cgroups import files
from tgpu.runner.docker.engine import Engine, EngineAwayError, EngineRefusedError
from tgpu.runner.docker.life import Life
from tgpu.runner.docker.look import place_of

PATIENCE_S = 2.0
"""A node that is short of memory cannot wait long for its engine."""
_MIB = 1 << 20


async def burdens(engine: Engine, lives: Sequence[Life]) -> list[Burden]:
    """Of those that run; one of which the engine does not tell in time is left out."""
    if not engine.is_local:
        return []
    pids = await asyncio.gather(*(_pid(engine, life.name) for life in lives))
    found = [(life, pid) for life, pid in zip(lives, pids, strict=True) if pid]
    return await asyncio.to_thread(
        lambda: [burden_of(life.attempt, pid, life.reserved_mib) for life, pid in found]
    )


async def _pid(engine: Engine, name: str) -> int:
    """Of its first process; 0: it has none, or nobody says."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            inspected = await engine.inspect(name)
    except (TimeoutError, EngineAwayError, EngineRefusedError):
        return 0
    return 0 if inspected is None else int(inspected["State"].get("Pid") or 0)


def burden_of(attempt: str, pid: int, reserved_mib: int) -> Burden:
    """Blocks. The score is the kernel's, which has it from the engine."""
    score = files.read(f"/proc/{pid}/oom_score_adj").strip()
    return Burden(attempt, int(score or 0), reserved_mib, _held_mib(pid))


def _held_mib(pid: int) -> int:
    """What its group holds that cannot be read again from a disk; where nobody counts that, its processes."""
    place, held = place_of(pid), 0
    if place is not None and place.version == 1:
        held = _sum(place.folders["memory"], ("total_rss", "total_shmem"))
    elif place is not None:
        held = _sum(place.folders[""], ("anon", "shmem"))
    if held:
        return held
    pids = (pid, *tree.descendants(pid))
    return sum(files.entry_kib(f"/proc/{one}/status", "RssAnon:") for one in pids) // KIB_IN_MIB


def _sum(folder: str, names: Sequence[str]) -> int:
    return sum(files.entry(f"{folder}/memory.stat", name) for name in names) // _MIB
