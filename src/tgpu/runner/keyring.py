"""Session keyrings of the kernel: keys in one are open to every process that has inherited it."""

import errno
import os
from ctypes import CDLL, c_long, get_errno

_KEYCTL = {"x86_64": 250, "i686": 288, "ppc64le": 271, "s390x": 280}
"""Number of the system call; on newer architectures it is the same everywhere."""
_KEYCTL_ELSEWHERE = 219
_JOIN_SESSION = 1
_NO_KEYRINGS = (errno.ENOSYS, errno.EPERM)
"""The kernel has none, or lets nothing below this process use them (the default in a container)."""
_libc = CDLL(None, use_errno=True)


def renew() -> None:
    """Gives this process and what it will start an empty session keyring, instead of the one that it
    shares with the agent and with every other task. An agent that is not root runs tasks of its own user
    alone, and shares that user's keys with them. Raises OSError."""
    if os.geteuid() != 0:
        return
    if _libc.syscall(c_long(number()), c_long(_JOIN_SESSION), None) < 0 and get_errno() not in _NO_KEYRINGS:
        raise OSError(get_errno(), f"no session keyring of its own: {os.strerror(get_errno())}")


def number() -> int:
    """Of the system call `keyctl` on this machine."""
    return _KEYCTL.get(os.uname().machine, _KEYCTL_ELSEWHERE)
