"""`fork` into a cgroup of version 2: the child is there before its first instruction."""

import ctypes
import os

from tgpu.runner.light import signal

_CLONE3 = 435
_INTO_CGROUP = 0x2_0000_0000
_FIELDS = (
    "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls", "set_tid",
    "set_tid_size", "cgroup",
)  # fmt: skip
_FLAGS, _EXIT_SIGNAL, _CGROUP = _FIELDS.index("flags"), _FIELDS.index("exit_signal"), _FIELDS.index("cgroup")
_process = ctypes.PyDLL(None, use_errno=True)  # which keeps the interpreter's lock: the child needs it
_syscall = _process.syscall


def fork_into(folder: int) -> int:
    """Like `os.fork`, for a child that is about to execute a program. Another thread may be writing: without
    the interpreter's lock it holds nothing but what the interpreter itself makes anew in the child."""
    numbers = (ctypes.c_uint64 * len(_FIELDS))()
    numbers[_FLAGS] = _INTO_CGROUP
    numbers[_EXIT_SIGNAL] = signal.SIGCHLD
    numbers[_CGROUP] = folder
    _process.PyOS_BeforeFork()
    child: int = _syscall(_CLONE3, ctypes.byref(numbers), ctypes.sizeof(numbers))
    error = ctypes.get_errno()
    if child == 0:
        _process.PyOS_AfterFork_Child()
    else:
        _process.PyOS_AfterFork_Parent()
    if child < 0:
        raise OSError(error, os.strerror(error))
    return child
