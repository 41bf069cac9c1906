"""What to run, from the words after the flags: a list as it is, a string for the shell, or a script."""

from __future__ import annotations

import os
from pathlib import Path

from tgpu.cli.exits import UsageError

_SHELL = ["/bin/sh"]
_HEAD_BYTES = 256
_BY_SUFFIX = {".py": ["python3"], ".bash": ["bash"], ".zsh": ["zsh"], ".R": ["Rscript"], ".jl": ["julia"]}
_SCRIPTS = (".sh", *_BY_SUFFIX)


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
    return [*_interpreter(path), str(path.absolute()), *words[1:]]


def check_there(words: list[str]) -> None:
    """Refuses a script that does not exist, which would fail only after the job has been pending."""
    word = words[0]
    is_path = "/" in word or word.endswith(_SCRIPTS)
    if not is_path or word.startswith(("/", "cmd=")) or any(map(str.isspace, word)):
        return  # a program, a command for the shell, or a path that may exist on nodes only
    path = Path(word)
    if path.is_dir():
        raise UsageError(f"{word} is a folder: name a script in it, or write `-- COMMAND`")
    if not path.exists() and not _is_program(word):
        raise UsageError(
            f"there is no {word} in {Path.cwd()}: check the name, say --cwd DIR if it is elsewhere, or write "
            f"`-- {word}` if only nodes have it"
        )


def _is_program(word: str) -> bool:
    """On PATH, by the name of a script."""
    from shutil import which  # noqa: PLC0415  only who is about to be refused

    return "/" not in word and which(word) is not None


def _interpreter(path: Path) -> list[str]:
    """Nobody, of what the kernel runs by itself. A script that may be executed and does not say by whom is
    run by the shell, as a shell would."""
    may_run = os.access(path, os.X_OK)
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except PermissionError:
        if may_run:
            return []
        raise
    if may_run and (head.startswith(b"#!") or b"\0" in head):
        return []
    first = head.split(b"\n", 1)[0]
    if first.startswith(b"#!"):
        said = first[2:].decode("utf-8", "replace").strip().split(None, 1)
        if said:
            return said
    return _BY_SUFFIX.get(path.suffix, _SHELL)
