"""Files of the user's own that a task's output is written to as well, and how their names are written."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from tgpu.domain.quantities import BadQuantityError

MAX_PATTERN = 1024
SIGNS = "jAaxNu%"
"""What may follow a percent sign: the job's number (twice), the task's index, the job's name, the node, the
user and a percent sign itself."""
_SIGN = re.compile(r"%(\d*)(.?)", re.DOTALL)
"""A number in between fills up another one with zeros: `%3a` is 007."""
_NUMBERS = "jAa"
_MOST_ZEROS = 10


class OpenMode(StrEnum):
    """What becomes of a file that is there already."""

    TRUNCATE = "truncate"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """As they were asked for: names with signs in them, relative to the task's directory."""

    output: str | None = None
    """None: stdout goes to no file."""
    error: str | None = None
    """None: stderr goes where stdout does."""
    mode: OpenMode | None = None
    """None: a first attempt begins anew, unless other tasks write to the same file; a later one goes on."""


@dataclass(frozen=True, slots=True)
class OutputPaths:
    """Of one attempt: whole paths on its node; an empty one is none."""

    output: str
    error: str
    append: bool


def checked_pattern(name: str, text: str) -> str:
    """Raises BadQuantityError, whose text begins with the name."""
    if not text.strip() or len(text.encode()) > MAX_PATTERN or not text.isprintable():
        raise BadQuantityError(
            f"{name} must be a file name of 1 to {MAX_PATTERN} printable characters, such as out-%j.txt"
        )
    if text.endswith("/"):
        raise BadQuantityError(f"{name} must name a file, not a directory; got {text!r}")
    for width, sign in _SIGN.findall(text):
        if width and (sign not in _NUMBERS or not sign or int(width[:3]) > _MOST_ZEROS):
            raise BadQuantityError(
                f"{name} has %{width}{sign}; %j, %A and %a can be filled up with zeros, as %3a, to at most "
                f"{_MOST_ZEROS} digits; got {text!r}"
            )
        if not sign or sign not in SIGNS:
            raise BadQuantityError(
                f"{name} has %{sign}, which is not known; %j and %A are the job's number, %a is the task's "
                f"index, %x the job's name, %N the node, %u the user, and %% a percent sign; got {text!r}"
            )
    return text


def expanded(pattern: str, values: dict[str, str]) -> str:
    """With what each sign stands for; a value never leads to another folder."""

    def value_of(match: re.Match[str]) -> str:
        value = values[match[2]].replace("/", "_").zfill(int(match[1] or 0))
        return "_" * len(value) if value in {".", ".."} else value

    return _SIGN.sub(value_of, pattern)


def paths_of(  # noqa: PLR0917  what a name may be made of
    files: OutputFiles,
    cwd: str,
    job_id: int,
    index: int,
    name: str,
    node: str,
    user: str,
    *,
    alone: bool,
    first: bool,
) -> OutputPaths:
    """`alone`: it is its job's only task. `first`: it is its task's first attempt."""
    number = str(job_id)
    values = {"j": number, "A": number, "a": str(index), "x": name, "N": node, "u": user, "%": "%"}

    def path(pattern: str | None) -> str:
        return "" if pattern is None else str(PurePosixPath(cwd, expanded(pattern, values)))

    output, error = path(files.output), path(files.error)
    if files.mode is None:
        said = [pattern for pattern in (files.output, files.error) if pattern is not None]
        append = not first or not (alone or all(is_by_task(pattern) for pattern in said))
    else:
        append = files.mode is OpenMode.APPEND
    return OutputPaths(output=output, error=error or output, append=append)


def is_by_task(pattern: str) -> bool:
    """Whether two tasks of a job write to two files."""
    return any(sign == "a" for _, sign in _SIGN.findall(pattern))
