"""A batch script: its text as it travels, and the options in its `#SBATCH` lines."""

from __future__ import annotations

import shlex

from tgpu.dialects.slurm.refusal import SlurmError

_MARK = "#SBATCH"
_BYTES_MARK = b"#SBATCH"
_MOST_BYTES = 120 * 1024  # a command of tgpu's has 128 KiB


def is_one(data: bytes) -> bool:
    """Whether the script speaks to Slurm: a `#SBATCH` line before its first command."""
    for line in data.splitlines():
        if line.startswith(_BYTES_MARK):
            return True
        if line.strip() and not line.lstrip().startswith(b"#"):
            return False
    return False


def text_of(name: str, data: bytes) -> str:
    """The script, if it can be run: UTF-8, with an interpreter, with the line ends of Unix."""
    if not data.strip():
        raise SlurmError(f"{name} is empty: it must begin with #! and an interpreter, such as #!/bin/bash")
    if b"\0" in data:
        raise SlurmError(f"{name} is no script: it has NUL characters; run a program with --wrap")
    if not data.startswith(b"#!") or not data.split(b"\n", 1)[0][2:].strip():
        raise SlurmError(f"{name} line 1: must be #! and an interpreter, such as #!/bin/bash")
    if b"\r\n" in data:
        line = data[: data.index(b"\r\n")].count(b"\n") + 1
        raise SlurmError(
            f"{name} line {line}: ends as on Windows (\\r\\n), which no interpreter understands: "
            f"convert it with `sed -i 's/\\r$//' {name}`"
        )
    if len(data) > _MOST_BYTES:
        raise SlurmError(f"{name} is larger than {_MOST_BYTES // 1024} KiB: call the rest of it from a file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SlurmError(
            f"{name} line {line}: is not UTF-8: convert it with `iconv -f latin1 -t utf-8`"
        ) from None


def wrapped(command: str) -> str:
    """What `--wrap` makes of a command."""
    return f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n"


def directives(name: str, text: str) -> list[tuple[str, list[str]]]:
    """The words of each `#SBATCH` line, with where it stands; up to the first command."""
    found: list[tuple[str, list[str]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        where = f"{name} line {number}"
        if line.startswith(_MARK) and line[len(_MARK) :][:1] in ("", " ", "\t"):
            words = _words(where, line[len(_MARK) :])
            if words in (["hetjob"], ["packjob"]):
                raise SlurmError(
                    f"{where}: jobs of several parts are written as groups: see docs/gangs.md, `groups`"
                )
            if words:
                found.append((where, words))
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return found


def _words(where: str, text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise SlurmError(f"{where}: {str(error).lower()}: close the quotation") from None


def interpreter(text: str) -> list[str]:
    """As the kernel reads a first line: a program, and all the rest as one argument."""
    said = text.split("\n", 1)[0][2:].strip().split(None, 1)
    return [said[0], said[1].rstrip()] if len(said) > 1 else said
