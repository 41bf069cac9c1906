# ruff: noqa: PTH108, PTH116  pathlib is too heavy for a supervisor
"""Time index of a stream: when its output arrived, in records of a fixed size beside each segment.

A record says that output from this offset of its segment on arrived at this time, up to the next record. The
index of a segment is made and removed with it. A record is written when the stream has been quiet for
`INTERVAL_US`, or when the task's other stream wrote last: then the order of the two follows from their
times. Within its allowance the index stays below a tenth of its segment, whatever a task prints; beyond it
a record stands for at least `RECORD * SHARE` bytes of output.

A record that could be written only in part is not read, and the next one is written over it.
"""

import os

TIMES = "-times"
"""Stands between the name of a stream and the offset of a segment."""
OFFSET_SIZE, TIME_SIZE = 5, 7
RECORD = OFFSET_SIZE + TIME_SIZE
INTERVAL_US = 10_000
SHARE, FREE_SHARE = 16, 32
"""It may take this part of what was written to its segment, and besides this part of what fits into that."""
MAX_US = 253_402_300_799_000_000
"""The last time that can be written as a date."""
_BLOCK = 4096 * RECORD


class LastWriter:
    """Which stream of a task wrote last."""

    __slots__ = ("index",)

    def __init__(self) -> None:
        self.index: TimeIndex | None = None


class TimeIndex:
    """The writing end, for one stream."""

    __slots__ = ("_at", "_count", "_file", "_free", "_last_us", "_path", "_writer")

    def __init__(self, segment_bytes: int, writer: LastWriter) -> None:
        self._writer = writer
        self._free = segment_bytes // FREE_SHARE
        self._file = -1
        self._path = ""
        self._count = 0
        self._at = -1
        """Of the last record."""
        self._last_us = 0

    def begin(self, path: str) -> None:
        """For a new segment: the index before it is complete."""
        self.close()
        self._path, self._count, self._at = path, 0, -1

    def resume(self, path: str) -> None:
        """Goes on where an earlier process ended, perhaps in the middle of a record."""
        self.begin(path)
        try:
            self._count = os.stat(path).st_size // RECORD
        except OSError:  # there is none: it is made with the next output
            return

    def note(self, at: int, now_us: int) -> None:
        """The byte at this offset of the segment is written next."""
        switched, self._writer.index = self._writer.index is not self, self
        if self._at >= 0 and not switched and 0 <= now_us - self._last_us < INTERVAL_US:
            return
        is_new = at != self._at  # else nothing could be written since: the record is corrected
        if is_new and self._count * RECORD > at // SHARE + self._free:
            return
        try:
            self._write(at, now_us, self._count - (not is_new))
        except (OSError, OverflowError):  # a full disk, or a clock that is far off: no time is recorded
            return
        self._count += is_new
        self._at, self._last_us = at, now_us

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, at: int, now_us: int, number: int) -> None:
        """The whole record, over what an earlier write may have left of one."""
        record = at.to_bytes(OFFSET_SIZE, "little") + now_us.to_bytes(TIME_SIZE, "little")
        if self._file < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (0 if number else os.O_TRUNC)
            self._file = os.open(self._path, flags, 0o600)
        if os.pwrite(self._file, record, number * RECORD) < RECORD:
            raise OSError


def remove(path: str) -> None:
    """Harmless if there is none."""
    try:
        os.unlink(path)
    except OSError:
        return


def read(path: str, begin: int, end: int) -> list[tuple[int, int]]:
    """(offset, microseconds since 1970) of what stands in a segment from `begin` to `end`: first what holds
    at `begin`, then by rising offset. Empty: no times are known. What is no record is passed over."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        at = _last_until(file, begin, os.fstat(file).st_size // RECORD)
        return _records(file, at, begin, end)
    except OSError:
        return []
    finally:
        os.close(file)


def _last_until(file: int, begin: int, count: int) -> int:
    """The number of the last record that is not behind `begin`; the first one, if all are."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _offset(os.pread(file, OFFSET_SIZE, middle * RECORD)) <= begin:
            low = middle + 1
        else:
            high = middle
    return max(0, low - 1)


def _records(file: int, number: int, begin: int, end: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while block := os.pread(file, _BLOCK, number * RECORD):
        for at in range(0, len(block) - RECORD + 1, RECORD):
            offset = max(begin, _offset(block[at : at + OFFSET_SIZE]))
            if offset >= end:
                return found
            us = int.from_bytes(block[at + OFFSET_SIZE : at + RECORD], "little")
            if found and offset == found[-1][0]:
                found.pop()
            if us <= MAX_US and (not found or offset > found[-1][0]):
                found.append((offset, us))
        if len(block) < _BLOCK:
            return found
        number += _BLOCK // RECORD
    return found


def _offset(data: bytes) -> int:
    return int.from_bytes(data, "little")
