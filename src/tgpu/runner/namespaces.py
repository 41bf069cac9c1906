"""The view of the file system that a task has, if it is not everybody's."""

import os
from ctypes import CDLL, get_errno

from tgpu.runner.task import Refusal

_CLONE_NEWNS = 0x00020000
_libc = CDLL(None, use_errno=True)


def join_mounts(main: int) -> None:
    """Sees from now on what the process sees. A namespace that the task has made for itself in a user
    namespace of its own is left alone: only the machine's own root may lead another process into one."""
    if not _differs(main, "mnt") or _differs(main, "user"):
        return
    try:
        fd = os.open(f"/proc/{main}/ns/mnt", os.O_RDONLY)
    except OSError as error:
        raise Refusal(f"cannot see what the task sees: {error.strerror}") from None
    if _libc.setns(fd, _CLONE_NEWNS) != 0:
        raise Refusal(f"cannot see what the task sees: {os.strerror(get_errno())}")
    os.close(fd)


def _differs(main: int, kind: str) -> bool:
    """Of a task that is gone, or that we may not look at, nothing does."""
    try:
        return os.stat(f"/proc/{main}/ns/{kind}").st_ino != os.stat(f"/proc/self/ns/{kind}").st_ino  # noqa: PTH116  pathlib is too heavy for a supervisor
    except OSError:
        return False
