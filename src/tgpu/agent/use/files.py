# ruff: noqa: PTH103, PTH104  hundreds of these are written in a minute, and pathlib takes longer than the calls
"""The course of each attempt's use on disk, beside its output and removed with it."""

import os
from collections.abc import Mapping
from pathlib import Path

from tgpu.protocol.use import UseFile, packed, unpacked

NAME = "use"
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600
_ANEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def read(logs: Path, attempt: str) -> bytes:
    """Empty if there is none."""
    try:
        return (logs / attempt / NAME).read_bytes()
    except OSError:
        return b""


def found(logs: Path, attempts: list[str]) -> dict[str, UseFile]:
    """Those that can be read."""
    files = {attempt: unpacked(read(logs, attempt)) for attempt in attempts}
    return {attempt: file for attempt, file in files.items() if file is not None}


def write(logs: Path, kept: Mapping[str, UseFile]) -> OSError | None:
    """Each whole or not at all; the last error, if there was one. Nothing is forced to disk: a few seconds of
    it are worth no such wait."""
    failure = None
    for attempt, file in kept.items():
        try:
            _write(f"{logs}/{attempt}", packed(file))
        except OSError as error:
            failure = error
    return failure


def _write(folder: str, data: bytes) -> None:
    draft = f"{folder}/.{NAME}"
    try:
        fd = os.open(draft, _ANEW, _FILE_MODE)
    except FileNotFoundError:
        os.makedirs(folder, _FOLDER_MODE, exist_ok=True)
        fd = os.open(draft, _ANEW, _FILE_MODE)
    try:
        written = os.write(fd, data)
    finally:
        os.close(fd)
    if written == len(data):
        os.rename(draft, f"{folder}/{NAME}")
