"""The agent's end of the spawner: the lock that makes it the only one, its start, its pipe, its death."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tgpu.runner import process_signals, records

LOCK_PATIENCE_S = 2.0
"""How long the spawner of an agent that has died may take to end by itself."""
LOCK_LIMIT_S = 10.0
LOG_MAX_BYTES = 1 << 20
LAST_WORDS = 2000
"""So many bytes of what a spawner said before it died are told."""
_ROOT = Path(__file__).parents[2]
_CODE = "import sys; sys.path.append({root!r}); from tgpu.runner.spawner import main; main({pipe}, {lock})"


class LockTakenError(RuntimeError):
    """Another agent works on the same records."""


async def take_lock(folder: Path) -> int:
    """Whoever holds it may claim attempts. It is free once the last spawner, and every supervisor of it
    that has not yet claimed its attempt, is gone."""
    lock = os.open(folder / records.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    loop = asyncio.get_running_loop()
    began = loop.time()
    ended = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = loop.time() - began
        else:
            return lock
        if waited > LOCK_PATIENCE_S and not ended:
            ended = True
            _end_holder(lock)
        if waited > LOCK_LIMIT_S:
            os.close(lock)
            raise LockTakenError(f"{folder / records.LOCK} stays locked: is another agent using {folder}?")
        await asyncio.sleep(0.005)


def _end_holder(lock: int) -> None:
    pid, _, birth = os.pread(lock, 64, 0).decode().partition(":")
    if birth:
        process_signals.send(int(pid), signal.SIGKILL, lambda holder: str(records.birth_of(holder)) == birth)


class Spawner(asyncio.Protocol):
    """A running spawner. It must be given its place and a journal before its first order."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", log: Path, said: int, on_death: Callable[["Spawner"], None]
    ) -> None:
        """`said`: how long the log was before it began."""
        self.process = process
        self.born = asyncio.get_running_loop().time()
        self._log, self._said = log, said
        self._on_death = on_death
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def start(cls, folder: Path, lock: int, on_death: Callable[["Spawner"], None]) -> "Spawner":
        """The lock becomes the spawner's."""
        ours, theirs = socket.socketpair()
        log = folder / "spawner.log"
        too_long = log.exists() and log.stat().st_size > LOG_MAX_BYTES
        code = _CODE.format(root=str(_ROOT), pipe=theirs.fileno(), lock=lock)
        with theirs, log.open("wb" if too_long else "ab") as errors:
            os.fchmod(errors.fileno(), 0o600)
            said = errors.tell()
            process = subprocess.Popen(  # noqa: ASYNC220  it returns when the child has been executed
                [sys.executable, "-I", "-S", "-E", "-X", "no_debug_ranges", "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={"LD_BIND_NOW": "1"},  # else each supervisor would have to find all functions anew
                pass_fds=(theirs.fileno(), lock),
            )
        os.close(lock)
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        _, spawner = await loop.create_unix_connection(lambda: cls(process, log, said, on_death), sock=ours)
        return spawner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's is none by inheritance

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  named by asyncio
        self._transport = None
        self._on_death(self)

    def send(self, frame: bytes) -> None:
        """What the spawner does not get because it dies is sent again to the next one."""
        if self._transport is not None:
            self._transport.write(frame)

    def last_words(self) -> str:
        """The last that it, or a supervisor of it, said; empty if nothing."""
        try:
            with self._log.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._said, end - LAST_WORDS))
                return log.read().decode(errors="replace").strip()
        except OSError:
            return ""

    async def close(self) -> None:
        """It ends when it has read everything."""
        if self._transport is not None:
            self._transport.close()
        await asyncio.to_thread(self.process.wait)
