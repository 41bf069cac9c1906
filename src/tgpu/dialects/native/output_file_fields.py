"""A job's fields about its output's files, under the names people use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.dialects.native.problems import JobFieldError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OPEN_MODES = ("truncate", "append")


def _pattern(name: str, value: object) -> str:
    """Read here already, so that what is wrong is told with the name that was written."""
    from tgpu.domain.output_files import checked_pattern  # noqa: PLC0415  only who uses it

    if not isinstance(value, str):
        raise JobFieldError(f"{name} must be a file name such as out-%j.txt; got {value!r}")
    return checked_pattern(name, value)


def _open_mode(name: str, value: object) -> str:
    if value not in OPEN_MODES:
        raise JobFieldError(f"{name} must be {' or '.join(OPEN_MODES)}; got {value!r}")
    return str(value)


FILE_FIELDS: dict[str, Callable[[str, Any], object]] = {
    "output": _pattern,
    "error": _pattern,
    "open_mode": _open_mode,
}


def expanded(fields: dict[str, Any], expand: Callable[[str], str]) -> dict[str, Any]:
    """With `~` replaced in the names of output files: a shell leaves a quoted one as it is, and nothing
    expands it later."""
    return fields | {name: expand(fields[name]) for name in ("output", "error") if name in fields}
