"""The agent's side of the journals: reading them, writing to them, and when a file may go.

A supervisor keeps the journal open that was current when it was forked. So a journal is never rewritten:
when it has grown, a new one is begun, and an old one is removed once every attempt that may be in it is
forgotten. Its first line says in which life of the machine it was begun.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from tgpu.domain.job import Exit
from tgpu.observe.disk_space import allocate
from tgpu.runner import process_signals, records

FULL_BYTES = 4 << 20
RESERVE_BYTES = 1 << 18
"""Blocks that a journal has before it needs them: ends are recorded there also while the disk is full."""
FULL_LINKS = 20_000  # ext4 allows 65,000


class TmpLimit(NamedTuple):
    """Of a private /tmp: which user writes in it, and how much."""

    user: str
    reserved_mib: int
    limit_mib: int
    """0: no limit."""


class Claim(NamedTuple):
    """Which process supervises an attempt: named by pid and birth."""

    pid: int
    birth: int
    started_ms: int
    tmp: TmpLimit | None = None
    """None: the attempt has no private /tmp."""

    def is_alive(self) -> bool:
        """Only of use in the life of the machine in which it was made."""
        return records.birth_of(self.pid) == self.birth

    def send(self, number: int) -> None:
        """A signal to that process, if it is alive."""
        process_signals.send(self.pid, number, lambda _: self.is_alive())


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A journal's line, and what a supervisor says: that it has its task, or how that ended."""

    attempt: str = ""
    claim: Claim | None = None
    exit: Exit | None = None
    forgotten: bool = False
    boot: str = ""
    tmp: TmpLimit | None = None
    """Beside a claim, so that agents of older versions read that."""
    unclaimed: bool = False
    """Said, and never written: the disk had no room for the claim, so the task was not started."""

    @property
    def whole_claim(self) -> Claim | None:
        return None if self.claim is None else self.claim._replace(tmp=self.tmp)


decode = msgspec.json.Decoder(Message).decode
encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Contents:
    """All that the journals say."""

    claims: dict[str, Claim] = field(default_factory=dict)
    exits: dict[str, Exit] = field(default_factory=dict)
    """Of two ends of one attempt, the first."""
    forgotten: set[str] = field(default_factory=set)
    generation: dict[str, int] = field(default_factory=dict)
    """By attempt: where its claim stands."""
    boots: dict[int, str] = field(default_factory=dict)
    inodes: dict[int, int] = field(default_factory=dict)
    """Generation by inode: a claim whose line is missing is still a link to its journal."""


class Journals:
    """`exits.0`, `exits.1`, …: the last one is current."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = -1
        self.current = -1

    def begin(self, boot: str) -> int:
        """A new journal, whose name is on disk before anybody writes to it."""
        generation = max([self.current, *self._generations()]) + 1
        fresh = os.open(self._path(generation), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            records.write_line(fresh, encode(Message(boot=boot)))
            os.fsync(fresh)
        except OSError:  # the one before is used further
            os.close(fresh)
            self._path(generation).unlink(missing_ok=True)
            raise
        self.close()
        self._fd, self.current = fresh, generation
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self.keep_reserve()
        return self.current

    def resume(self, boot: str) -> bool:
        """Uses the last journal further, if it was begun in this life of the machine."""
        last = max(self._generations(), default=-1)
        if last < 0 or self.read().boots.get(last) != boot:
            return False
        self.close()
        self._fd = os.open(self._path(last), os.O_WRONLY | os.O_APPEND)
        self.current = last
        return True

    def keep_reserve(self) -> None:
        allocate(self._fd, os.fstat(self._fd).st_size, RESERVE_BYTES)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def is_full(self) -> bool:
        about = os.fstat(self._fd)
        return about.st_size > FULL_BYTES or about.st_nlink > FULL_LINKS

    def append(self, message: Message) -> None:
        records.write_line(self._fd, encode(message))

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def read(self) -> Contents:
        contents = Contents()
        for generation in sorted(self._generations()):
            path = self._path(generation)
            contents.inodes[path.stat().st_ino] = generation
            for line in path.read_bytes().split(b"\n"):
                try:
                    message = decode(line)
                except msgspec.DecodeError:  # blank, or torn by a crash of the machine
                    continue
                _add(contents, generation, message)
        return contents

    def remove_unused(self, in_use: Iterable[int]) -> None:
        for generation in set(self._generations()) - {self.current, *in_use}:
            self._path(generation).unlink(missing_ok=True)

    def _generations(self) -> list[int]:
        return [int(path.suffix[1:]) for path in self._folder.glob("exits.*")]

    def _path(self, generation: int) -> Path:
        return self._folder / f"exits.{generation}"


def _add(contents: Contents, generation: int, message: Message) -> None:
    if message.boot:
        contents.boots[generation] = message.boot
    elif message.forgotten:
        contents.forgotten.add(message.attempt)
    elif message.exit is not None:
        contents.exits.setdefault(message.attempt, message.exit)
    elif (claim := message.whole_claim) is not None:
        contents.claims[message.attempt] = claim
        contents.generation[message.attempt] = generation
