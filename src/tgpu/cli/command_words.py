"""What to run, from the words after the flags: a list as it is, a string for the shell, or a script."""

from __future__ import annotations

import os
from pathlib import Path

_SHELL = ["/bin/sh"]
_BY_SUFFIX = {".py": ["python3"], ".bash": ["bash"], ".zsh": ["zsh"], ".R": ["Rscript"], ".jl": ["julia"]}


def split(argv: list[str]) -> tuple[list[str], list[str] | None]:
    """The flags, and the words after the first `--` (None if there is none)."""
    if "--" not in argv:
        return argv, None
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def command(words: list[str]) -> list[str] | str:
    """`-- python train.py`, `-- 'python train.py'` and `-- cmd='python train.py'` mean the same."""
    if len(words) == 1:
        only = words[0]
        if only.startswith("cmd="):
            return only.removeprefix("cmd=")
        if any(char.isspace() for char in only) and not Path(only).is_file():
            return only
    return words


def script(words: list[str]) -> list[str] | str:
    """Without `--`: a file is run, by its first line's interpreter if need be; else as after `--`."""
    path = Path(words[0])
    if not path.is_file():
        return command(words)
    absolute = str(path.absolute())
    if os.access(path, os.X_OK):
        return [absolute, *words[1:]]
    return [*_interpreter(path), absolute, *words[1:]]


def _interpreter(path: Path) -> list[str]:
    with path.open("rb") as file:
        first = file.readline(256)
    if first.startswith(b"#!"):
        said = first[2:].decode("utf-8", "replace").strip().split(None, 1)
        if said:
            return said
    return _BY_SUFFIX.get(path.suffix, _SHELL)
