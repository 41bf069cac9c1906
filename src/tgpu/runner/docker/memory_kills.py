"""Out-of-memory kills inside a container: the engine's word, checked against the kernel's log.

An engine learns of a kill from an event that may arrive after the container's end. If the container's cgroup
is removed first, the event never arrives. The kernel writes a line to its log before the process is dead, but
limits the rate of these lines: both sources are needed.
"""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from tgpu.runner.docker.engine import Engine
from tgpu.runner.docker.states import State

KERNEL_LOG = Path("/dev/kmsg")
LATE_S = 1.0
"""How long a failed container's event is awaited where the kernel's log cannot be read."""
LOOKS_WHILE_LATE = 10
_RECORD_BYTES = 8192
"""The kernel refuses to write a record into less."""
_KILLED = b"oom-kill:"
_GROUP = b",task_memcg="


async def state_of(engine: Engine, name: str, *, is_limited: bool) -> State | None:
    """None: there is no such container. `is_limited`: it has a memory limit that its processes can exceed."""
    inspected = await engine.inspect(name)
    if inspected is None:
        return None
    state = State.of(inspected)
    if state.is_running or state.lacked_memory or not is_limited:
        return state
    killed = None
    if engine.is_local:
        killed = await asyncio.to_thread(had_kill, KERNEL_LOG, str(inspected["Id"]))
    if killed is None and state.exit_code:
        killed = await _is_reported_late(engine, name)
    return replace(state, lacked_memory=bool(killed))


def had_kill(log: Path, container_id: str) -> bool | None:
    """Whether the kernel's log has a kill in the cgroup of this container; None: it cannot be read."""
    try:
        file = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _has_kill(file, container_id.encode())
    except OSError:
        return None
    finally:
        os.close(file)


def _has_kill(file: int, container_id: bytes) -> bool:
    while True:
        try:
            record = os.read(file, _RECORD_BYTES)
        except BrokenPipeError:  # the oldest record was overwritten: the next read goes on behind it
            continue
        except BlockingIOError:
            return False
        if not record:
            return False
        if any(_is_kill_in(container_id, line) for line in record.splitlines()):
            return True


def _is_kill_in(container_id: bytes, line: bytes) -> bool:
    return _KILLED in line and container_id in line.partition(_GROUP)[2].partition(b",")[0]


async def _is_reported_late(engine: Engine, name: str) -> bool:
    for _ in range(LOOKS_WHILE_LATE):
        await asyncio.sleep(LATE_S / LOOKS_WHILE_LATE)
        inspected = await engine.inspect(name)
        if inspected is None or State.of(inspected).lacked_memory:
            return inspected is not None
    return False
