"""Which process plays a part here: a file with its pid, locked for as long as it lives."""

import fcntl
import os
from pathlib import Path

from tgpu.observe.logs import logger


class AlreadyRunningError(Exception):
    def __init__(self, part: str, pid: int) -> None:
        super().__init__(f"the {part} already runs here (pid {pid}); `tgpu down` stops it")
        self.part, self.pid = part, pid


def claim(path: Path, part: str) -> int:
    """Returns the descriptor that holds the lock until this process ends, however it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise AlreadyRunningError(part, holder(path) or 0) from None
    text = f"{os.getpid()}\n".encode()
    try:
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
    except OSError as error:  # a full disk: the lock holds all the same
        logger(part).warning("no pid written: `tgpu down` will not find this process", error=str(error))
    return descriptor


def release(descriptor: int) -> None:
    """Leaves no pid behind that could be another process's by the time it is read."""
    os.ftruncate(descriptor, 0)
    os.close(descriptor)


def holder(path: Path) -> int | None:
    """The pid of the living process that holds the file; None if nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).decode().strip()
        return int(text) if text.isdigit() else None
    else:
        return None
    finally:
        os.close(descriptor)
