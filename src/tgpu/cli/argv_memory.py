"""The process's command line as every user sees it in `ps`: secrets in it are overwritten."""

from __future__ import annotations

import sys

_ARG_START, _ARG_END = 45, 46
"""Fields of /proc/self/stat, counted from behind the program's name."""
_BLANK = b"*"


def blank(secret: str) -> bool:
    """Overwrites every occurrence in the kernel's view of the arguments; `sys.argv` keeps its own copy.
    False if the command line could not be changed."""
    import ctypes  # noqa: PLC0415  only old command lines pay for it

    wanted = secret.encode(sys.getfilesystemencoding(), "surrogateescape")
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  light
            fields = file.read().rpartition(")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
        if not start < end:
            return False
        memory = (ctypes.c_char * (end - start)).from_address(start)
        text = memory.raw
        if not wanted or wanted not in text:
            return False
        memory.raw = text.replace(wanted, _BLANK * len(wanted))
    except (OSError, ValueError, IndexError):
        return False
    return True
