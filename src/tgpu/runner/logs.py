"""Reading and clearing away the output that supervisors keep in segment files."""

import shutil
from collections.abc import Container
from itertools import pairwise
from pathlib import Path

from tgpu.domain.log_times import LogTimes
from tgpu.runner import time_index
from tgpu.runner.port import LogPart

STREAMS = ("stdout", "stderr")
DAY_S = 86400


def read(folder: Path, stream: str, offset: int, max_bytes: int) -> LogPart:
    """Across segments. What is older than the oldest segment is gone: then it begins there."""
    segments = _segments(folder, stream)
    if not segments:
        return LogPart(0, b"")
    last, path = segments[-1]
    end = last + _size(path)
    begin = max(segments[0][0], end + offset if offset < 0 else min(offset, end))
    parts: list[bytes] = []
    at = begin
    for start, path in segments:
        room = max_bytes - (at - begin)
        if room <= 0:
            break
        data = _part(path, at - start, room) if at >= start else b""
        parts.append(data)
        at += len(data)
    starts = [start for start, _ in segments]
    return LogPart(begin, b"".join(parts), _times(folder, stream, starts, begin, at))


def _times(folder: Path, stream: str, starts: list[int], begin: int, end: int) -> LogTimes:
    """Across segments; None where a segment has no times. Empty: none of them has."""
    found: list[tuple[int, int | None]] = []
    for start, next_start in pairwise([*starts, end]):
        first, last = max(start, begin), min(next_start, end)
        if first < last:
            path = f"{folder}/{stream}{time_index.TIMES}.{start}"
            records = time_index.read(path, first - start, last - start)
            if not records or records[0][0] > first - start:
                found.append((first, None))
            found += [(start + at, us) for at, us in records]
    return tuple(found) if any(us is not None for _, us in found) else ()


def sweep(logs: Path, before_s: float, keep: Container[str]) -> int:
    """Removes the output of attempts that are over and have not printed since; returns of how many."""
    removed = 0
    for folder in logs.iterdir() if logs.is_dir() else ():
        newest = max((path.stat().st_mtime for path in folder.iterdir()), default=folder.stat().st_mtime)
        if folder.name not in keep and newest < before_s:
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _segments(folder: Path, stream: str) -> list[tuple[int, Path]]:
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    starts = [name.partition(".") for name in names]
    return sorted((int(start), folder / f"{name}.{start}") for name, _, start in starts if name == stream)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it was dropped meanwhile
        return 0


def _part(path: Path, skip: int, length: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(skip)
            return file.read(length)
    except FileNotFoundError:
        return b""
