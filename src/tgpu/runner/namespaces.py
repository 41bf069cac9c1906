"""Mount namespaces that this process makes itself: opened once, verified, and joined by descriptor.

A namespace is never found by the number of a process that a user controls: by the time it is opened, that
process may have moved to one that the user has prepared.
"""

import os
from ctypes import CDLL, c_ulong, get_errno

_NEW_MOUNTS = 0x20000
_GET_OWNER = 0xB701  # NS_GET_USERNS
_GET_KIND = 0xB703  # NS_GET_NSTYPE
_RECURSIVE, _PRIVATE = 16384, 1 << 18
_OWN_MOUNTS, _OWN_USERS = "/proc/self/ns/mnt", "/proc/self/ns/user"
_libc = CDLL(None, use_errno=True)


def open_own() -> int:
    """A descriptor of the mount namespace that this process is in. Raises OSError."""
    descriptor = os.open(_OWN_MOUNTS, os.O_RDONLY | os.O_CLOEXEC)
    try:
        verify(descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def verify(descriptor: int) -> None:
    """Raises PermissionError unless it is a mount namespace that belongs to this process's user namespace.
    One that an unprivileged user has made belongs to a user namespace of its own."""
    if _libc.ioctl(descriptor, c_ulong(_GET_KIND)) != _NEW_MOUNTS:
        raise PermissionError(1, "this is not a mount namespace")
    owner = _libc.ioctl(descriptor, c_ulong(_GET_OWNER))
    if owner < 0:  # EPERM: the owner is outside of what this process may see
        raise PermissionError(get_errno(), "the owner of this mount namespace is unknown")
    try:
        found, own = os.fstat(owner), os.stat(_OWN_USERS)  # noqa: PTH116  pathlib is too heavy for a supervisor
    finally:
        os.close(owner)
    if (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino):
        raise PermissionError(1, "this mount namespace belongs to another user namespace")


def join(descriptor: int) -> None:
    """Leaves this process at the root of that namespace. Raises OSError."""
    check(_libc.setns(descriptor, _NEW_MOUNTS))


def unshare() -> None:
    """Moves this process into a copy of its mount namespace, from which no mount reaches the original."""
    check(_libc.unshare(_NEW_MOUNTS))
    mount(None, "/", None, _RECURSIVE | _PRIVATE)


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    check(_libc.mount(*words, c_ulong(flags), options.encode()))


def check(result: int) -> None:
    if result != 0:
        error = get_errno()
        raise OSError(error, os.strerror(error))
