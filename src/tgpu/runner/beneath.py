"""Folders below an open folder, opened without following any link or entering any mount on the way.

What is below belongs to a user, who may put a link in the place of a folder at any moment.
"""

import ctypes
import errno
import os
import sys

_OPENAT2 = 437  # the same on every architecture that Python runs on but one, which has no GPUs
_NO_MOUNTS, _NO_LINKS, _BENEATH = 0x01, 0x04, 0x08
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_SUCH_CALL = (errno.ENOSYS, errno.EPERM)
"""An older kernel, or a container that forbids it."""
_libc = ctypes.CDLL(None, use_errno=True)


def open_folder(name: str, above: int) -> int:
    """Raises OSError. Without the system call, only the last component of `name` is checked."""
    words = (os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, _NO_MOUNTS | _NO_LINKS | _BENEATH)
    how = b"".join(word.to_bytes(8, sys.byteorder) for word in words)
    found: int = _libc.syscall(
        ctypes.c_long(_OPENAT2), above, os.fsencode(name), how, ctypes.c_size_t(len(how))
    )
    if found >= 0:
        return found
    error = ctypes.get_errno()
    if error in _NO_SUCH_CALL:
        return os.open(name, _FOLDER, dir_fd=above)
    raise OSError(error, os.strerror(error), name)
