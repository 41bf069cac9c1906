"""A job's fields about its output's files, under the names people use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OPEN_MODES = ("truncate", "append")


def _pattern(name: str, value: object) -> str:
    """Read here already, so that what is wrong is told with the name that was written."""
    from tgpu.domain.output_files import checked_pattern  # noqa: PLC0415  only who uses it

    if not isinstance(value, str):
        raise UsageError(f"{name} must be a file name such as out-%j.txt; got {value!r}")
    # A shell leaves a quoted `~` as it is, and nobody expands it later.
    return checked_pattern(name, os.path.expanduser(value))  # noqa: PTH111  a pattern, and no path yet


def _open_mode(name: str, value: object) -> str:
    if value not in OPEN_MODES:
        raise UsageError(f"{name} must be {' or '.join(OPEN_MODES)}; got {value!r}")
    return str(value)


FILE_FIELDS: dict[str, Callable[[str, Any], object]] = {
    "output": _pattern,
    "error": _pattern,
    "open_mode": _open_mode,
}
FILE_FLAGS = (
    (
        "--output",
        "output",
        "FILE",
        "write stdout there, too: %%j job, %%a index, %%x name, %%N node, %%u user",
    ),
    ("--error", "error", "FILE", "write stderr there, too (default: as --output)"),
    ("--open-mode", "open_mode", "MODE", "truncate or append (default: begin anew, later attempts append)"),
)
