"""What this agent knows of its containers, on disk: an end must survive that the engine loses the container.

One file of lines, written anew when an agent starts. A container's name is what keeps an attempt from running
twice; this remembers it after the container is removed.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.observe.disk_space import allocate
from tgpu.runner.journal import RESERVE_BYTES
from tgpu.runner.records import DETAIL_MAX, write_line

_FILE = "containers.jsonl"
_FULL_BYTES = 4 << 20


class Line(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One of these things is true of an attempt from now on."""

    attempt: str
    started_ms: int | None = None
    boot: str = ""
    """In which life of the machine it was started."""
    warned: bool = False
    """That its time limit comes near."""
    stop: tuple[Cause, str] | None = None
    exit: Exit | None = None
    forgotten_ms: int | None = None


@dataclass(slots=True)
class Entry:
    """All that is known of one attempt."""

    started_ms: int | None = None
    boot: str = ""
    warned: bool = False
    stop: tuple[Cause, str] | None = None
    exit: Exit | None = None
    forgotten_ms: int | None = None

    def add(self, line: Line) -> None:
        self.started_ms = line.started_ms if self.started_ms is None else self.started_ms
        self.boot = self.boot or line.boot
        self.warned = self.warned or line.warned
        self.stop = self.stop or line.stop
        self.exit = self.exit or line.exit
        self.forgotten_ms = line.forgotten_ms if self.forgotten_ms is None else self.forgotten_ms

    def as_line(self, attempt: str) -> Line:
        return Line(
            attempt=attempt,
            started_ms=self.started_ms,
            boot=self.boot,
            warned=self.warned,
            stop=self.stop,
            exit=self.exit,
            forgotten_ms=self.forgotten_ms,
        )


_decode = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder().encode


def read_entries(folder: Path) -> dict[str, Entry]:
    """By attempt, as they stand on disk; nothing is changed there."""
    entries: dict[str, Entry] = {}
    path = folder / _FILE
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            read = _decode(line)
        except msgspec.DecodeError:  # blank, or torn by a crash of the machine
            continue
        entries.setdefault(read.attempt, Entry()).add(read)
    return entries


@dataclass(slots=True)
class Ledger:
    """Belongs to one agent at a time."""

    folder: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    _file: int = -1

    def open(self, forget_before_ms: int) -> None:
        """Reads it, leaves out what was forgotten before then, and writes it anew."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.entries = {
            attempt: entry
            for attempt, entry in read_entries(self.folder).items()
            if entry.forgotten_ms is None or entry.forgotten_ms >= forget_before_ms
        }
        try:
            self._write_anew()
        except OSError:  # a full disk: then it goes on in the old one
            self._file = os.open(
                self.folder / _FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def started(self, attempt: str, at_ms: int, boot: str) -> None:
        self._add(Line(attempt=attempt, started_ms=at_ms, boot=boot))

    def warned(self, attempt: str) -> None:
        self._add(Line(attempt=attempt, warned=True))

    def told_to_stop(self, attempt: str, cause: Cause, detail: str) -> None:
        self._add(Line(attempt=attempt, stop=(cause, detail[:DETAIL_MAX])))

    def ended(self, attempt: str, end: Exit) -> None:
        """On disk when this returns."""
        self._add(Line(attempt=attempt, exit=end))
        os.fdatasync(self._file)

    def forgotten(self, attempt: str, at_ms: int) -> None:
        self._add(Line(attempt=attempt, forgotten_ms=at_ms))

    def drop(self, attempt: str) -> None:
        """It is as if it had never been; known again if the agent starts anew before it is written anew."""
        self.entries.pop(attempt, None)

    def tend(self, forget_before_ms: int) -> None:
        """Writes it anew once most of it is history."""
        old = [
            attempt
            for attempt, entry in self.entries.items()
            if entry.forgotten_ms is not None and entry.forgotten_ms < forget_before_ms
        ]
        for attempt in old:
            del self.entries[attempt]
        if os.fstat(self._file).st_size > _FULL_BYTES:
            self._write_anew()

    def _add(self, line: Line) -> None:
        self.entries.setdefault(line.attempt, Entry()).add(line)
        write_line(self._file, _encode(line))

    def _write_anew(self) -> None:
        """The old file stays until the new one is whole on disk."""
        draft = self.folder / f".{_FILE}"
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            for attempt, entry in self.entries.items():
                write_line(file, _encode(entry.as_line(attempt)))
            os.fsync(file)
            draft.rename(self.folder / _FILE)
        except OSError:
            os.close(file)
            draft.unlink(missing_ok=True)
            raise
        self.close()
        self._file = file
        allocate(file, os.fstat(file).st_size, RESERVE_BYTES)
