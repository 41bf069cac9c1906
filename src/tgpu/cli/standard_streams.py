"""Standard streams that are closed or cannot be written: an error of one line, never a traceback."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Literal, TextIO


def replace_closed() -> None:
    """Python has None for a stream that was closed at its start (`>&-`). Stdout becomes one that refuses
    every write, as was asked for; and its descriptor is taken, so that no socket ends up as stdout."""
    if sys.stdin is None:
        sys.stdin = _null(os.O_RDONLY, "r")
    if sys.stdout is None:
        sys.stdout = _null(os.O_RDONLY, "w")
    if sys.stderr is None:
        sys.stderr = _null(os.O_WRONLY, "w")


def silence_stdout() -> None:
    """After a write has failed: Python would complain once more when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _null(flags: int, mode: Literal["r", "w"]) -> TextIO:
    return os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8")
