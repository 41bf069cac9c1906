"""Standard output and standard error that never raise, and the rotation of the log file behind them."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TextIO

STDOUT, STDERR = 1, 2
_LOST = '{{"part": "log", "lines": {lines}, "event": "log lines could not be written", "level": "warning"}}\n'


@dataclass(frozen=True, slots=True)
class Rotation:
    """A log file is renamed to FILE.1 when it exceeds `max_bytes`; FILE.`keep` is the oldest that stays."""

    path: Path
    max_bytes: int
    keep: int

    def rotate(self) -> int:
        """Returns the descriptor of the new, empty file. Raises OSError."""
        fresh = self._numbered(0)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            for number in range(self.keep, 1, -1):
                with suppress(FileNotFoundError):
                    self._numbered(number - 1).replace(self._numbered(number))
            if self.keep:
                self.path.replace(self._numbered(1))
            fresh.replace(self.path)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


class LogOutput:
    """A text stream on a descriptor. A line that cannot be written (full disk, closed pipe) is counted, and
    the count is written once writing works again."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, descriptor: int = STDERR, rotation: Rotation | None = None) -> None:
        """`rotation` applies only if the descriptor leads to that very file: a file of the caller's, a pipe
        or a terminal is never renamed."""
        self._descriptor = descriptor
        self._lock = Lock()
        self._lost_lines = 0
        self._rotation = rotation if rotation is not None and _leads_to(descriptor, rotation.path) else None
        self._bytes = os.fstat(descriptor).st_size if self._rotation is not None else 0

    def write(self, text: str) -> int:
        data = text.encode(self.encoding, self.errors)
        with self._lock:
            try:
                self._rotate_if_full()
                if self._lost_lines:
                    self._write(_LOST.format(lines=self._lost_lines).encode())
                    self._lost_lines = 0
                self._write(data)
            except OSError:
                self._lost_lines += text.count("\n")
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""

    def isatty(self) -> bool:
        with suppress(OSError):
            return os.isatty(self._descriptor)
        return False

    def fileno(self) -> int:
        return self._descriptor

    def _write(self, data: bytes) -> None:
        self._bytes += len(data)
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _rotate_if_full(self) -> None:
        if self._rotation is None or self._bytes <= self._rotation.max_bytes:
            return
        self._bytes = 0
        try:
            fresh = self._rotation.rotate()
        except OSError:
            return  # the old file is used further, and rotated after as many bytes again
        shared = [fd for fd in (STDOUT, STDERR) if fd != self._descriptor and _is_same(fd, self._descriptor)]
        for descriptor in (self._descriptor, *shared):
            os.dup2(fresh, descriptor)
        os.close(fresh)


def guard_standard_streams(rotation: Rotation | None = None) -> None:
    """From now on `print` and tracebacks of this process never raise, and its log file is rotated."""
    out, err = _descriptor(sys.stdout, STDOUT), _descriptor(sys.stderr, STDERR)
    sys.stdout = LogOutput(out)
    sys.stderr = LogOutput(err, rotation)


def _descriptor(stream: TextIO | None, usual: int) -> int:
    """Of a stream that was closed from the start, that of /dev/null: by now another file may have its
    number."""
    if stream is None:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    with suppress(OSError, ValueError):
        stream.flush()
    return usual


def _leads_to(descriptor: int, path: Path) -> bool:
    try:
        there, here = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _is_same(one: int, other: int) -> bool:
    try:
        return os.path.samestat(os.fstat(one), os.fstat(other))
    except OSError:
        return False
