"""Unpacks a snapshot into a folder of the task's user, as that user: a program of its own, started by root.

An archive is whatever its user made it. Nothing of it lands outside of the folder: names that lead out,
links that point out, and whatever is neither a file, a folder nor a link within are refused; and since this
process is by then the user's own, the worst archive could only do what the user can do anyway. Time and
memory are bounded by limits of this process.

The standard library's reader takes as much memory as a header announces, and its filters came with Python
3.11.4. This one knows what snapshots consist of (files, folders and links, in the formats ustar, GNU and pax)
and bounds every header. It needs only the standard library of Python 3.11.
"""

import contextlib
import ctypes
import errno
import gzip
import os
import resource
import signal
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tgpu.runner.task import Account, Refusal

_PDEATHSIG = 1
_REFUSED = 3
DISK_FULL = 4
"""The exit code if the node has no room for it."""
_MEMORY_BYTES = 256 << 20
_CPU_S = 300
_PIECE = 1 << 20
_NEWEST_S = 1 << 33
_BLOCK = 512
_LONGEST_NAME = 4096
_LONGEST_HEADER = 16 << 10
"""Of an extended header, which may also carry what is not needed here."""
_MOST_IN_A_ROW = 4
"""Extended headers before one member: a long name, a long target, and pax headers of it and of all."""
_GNU_NAME, _GNU_TARGET, _PAX, _PAX_OF_ALL = b"L", b"K", b"x", b"g"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class BadArchiveError(Exception):
    """The archive is not one that tgpu makes; the text says why."""


class Kind(Enum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"
    HARD_LINK = "hard link"


_KINDS = {
    b"0": Kind.FILE,
    b"\0": Kind.FILE,
    b"7": Kind.FILE,
    b"1": Kind.HARD_LINK,
    b"2": Kind.LINK,
    b"5": Kind.FOLDER,
}
_OTHERS = {b"3": "a device", b"4": "a device", b"6": "a pipe", b"S": "a sparse file"}


@dataclass(frozen=True, slots=True)
class Member:
    name: bytes
    kind: Kind
    size: int
    mode: int
    mtime_s: int
    target: bytes
    """Of a link."""


class TarStream:
    """Yields members in order. What is not read of one is skipped."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._left = self._padding = 0

    def __iter__(self) -> Iterator[Member]:
        head = self._block()
        if not head:
            raise BadArchiveError("it is empty")
        while head.strip(b"\0"):
            yield self._member(head)
            self._skip()
            head = self._block()

    def read(self, most: int) -> bytes:
        """Some of the current member. Raises BadArchiveError if the archive ends within it."""
        piece = self._stream.read(min(most, self._left))
        if not piece:
            raise BadArchiveError("it ends too early")
        self._left -= len(piece)
        return piece

    def _member(self, head: bytes) -> Member:
        """With the extended headers that come before it."""
        known: dict[str, bytes] = {}
        for _ in range(_MOST_IN_A_ROW + 1):
            kind = head[156:157]
            size = int(known["size"]) if "size" in known and kind in _KINDS else _number(head[124:136])
            if kind in {_GNU_NAME, _GNU_TARGET, _PAX, _PAX_OF_ALL}:
                known |= self._extension(kind, size)
                head = self._block()
                if not head:
                    raise BadArchiveError("it ends too early")
                continue
            return self._plain(head, kind, size, known)
        raise BadArchiveError("it has too many headers before one file")

    def _plain(self, head: bytes, kind: bytes, size: int, known: dict[str, bytes]) -> Member:
        if kind not in _KINDS:
            raise BadArchiveError(f"it has {_OTHERS.get(kind, 'an unknown kind of file')} in it")
        name, target = known.get("path", _ustar_name(head)), known.get("linkpath", _text(head[157:257]))
        if max(len(name), len(target)) > _LONGEST_NAME:
            raise BadArchiveError(f"it has a name of more than {_LONGEST_NAME} bytes")
        is_old_folder = _KINDS[kind] is Kind.FILE and name.endswith(b"/")
        kept = Kind.FOLDER if is_old_folder else _KINDS[kind]
        self._expect(size if kept is Kind.FILE else 0)
        return Member(name, kept, self._left, _number(head[100:108]), _number(head[136:148]), target)

    def _extension(self, kind: bytes, size: int) -> dict[str, bytes]:
        if not 0 <= size <= _LONGEST_HEADER:
            raise BadArchiveError(f"it has a header of {size:,} bytes; at most {_LONGEST_HEADER:,} are read")
        self._expect(size)
        data = b""
        while len(data) < size:
            data += self.read(size)
        self._skip()
        if kind == _GNU_NAME:
            return {"path": _text(data)}
        if kind == _GNU_TARGET:
            return {"linkpath": _text(data)}
        records = _pax_records(data)
        return records if kind == _PAX else {}

    def _expect(self, size: int) -> None:
        if size < 0:
            raise BadArchiveError("it has a file of negative size")
        self._left, self._padding = size, -size % _BLOCK

    def _skip(self) -> None:
        self._left, self._padding = self._left + self._padding, 0
        while self._left:
            self.read(min(self._left, _PIECE))

    def _block(self) -> bytes:
        """The next header; empty where the archive ends."""
        head = self._stream.read(_BLOCK)
        while head and len(head) < _BLOCK:
            more = self._stream.read(_BLOCK - len(head))
            if not more:
                raise BadArchiveError("it ends too early")
            head += more
        if head.strip(b"\0"):
            summed = sum(head) - sum(head[148:156]) + 8 * ord(" ")
            if summed != _number(head[148:156]):
                raise BadArchiveError("it is no tar archive, or is damaged")
        return head


def _number(field: bytes) -> int:
    """In octal digits, or in binary if the first bit is set."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.split(b"\0")[0].strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        raise BadArchiveError("it is no tar archive, or is damaged") from None


def _text(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _ustar_name(head: bytes) -> bytes:
    name, prefix = _text(head[:100]), _text(head[345:500])
    return prefix + b"/" + name if prefix and head[257:263] == b"ustar\0" else name


def _pax_records(data: bytes) -> dict[str, bytes]:
    """`12 path=name`, one after the other: those that are needed here."""
    found: dict[str, bytes] = {}
    while data.strip(b"\0"):
        length, _, rest = data.partition(b" ")
        is_number = length.isdigit() and len(length) <= len(str(_LONGEST_HEADER))
        if not is_number or not len(length) + 2 < int(length) <= len(data):
            raise BadArchiveError("it has a damaged pax header")
        key, _, value = rest[: int(length) - len(length) - 2].partition(b"=")
        if key.startswith(b"GNU.sparse."):
            raise BadArchiveError("it has a sparse file in it")
        if key in {b"path", b"linkpath"}:
            found[key.decode()] = _text(value)
        elif key == b"size":
            if not value.isdigit() or len(value) > len(str(1 << 63)):
                raise BadArchiveError("it has a damaged pax header")
            found["size"] = value
        data = data[int(length) :]
    return found


class Unpacking:
    """Each name is followed from the folder down, one level at a time and through no link."""

    def __init__(self, folder: int, most_bytes: int, most_files: int) -> None:
        self._folder, self._most_bytes, self._most_files = folder, most_bytes, most_files
        self._bytes = self._files = 0

    def extract(self, archive: TarStream, member: Member) -> None:
        self._bytes += member.size
        if self._bytes > self._most_bytes:
            raise BadArchiveError(f"it has more than {self._most_bytes >> 20} MiB of files (snapshot_max_mb)")
        self._count()
        parts = _parts(member.name)
        if member.kind is Kind.FOLDER or not parts:
            os.close(self._opened(parts))
            return
        above, name = self._opened(parts[:-1]), parts[-1]
        try:
            _remove(above, name)
            if member.kind is Kind.FILE:
                _write(archive, member, above, name)
            elif member.kind is Kind.LINK:
                os.symlink(_inside(parts, member), name, dir_fd=above)
            else:
                self._link(member, above, name)
        finally:
            os.close(above)

    def _link(self, member: Member, above: int, name: bytes) -> None:
        parts = _parts(member.target)
        if not parts:
            raise BadArchiveError(f"the hard link {_shown(member.name)} leads to no file")
        source = self._opened(parts[:-1])
        try:
            os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=above, follow_symlinks=False)
        finally:
            os.close(source)

    def _opened(self, parts: list[bytes]) -> int:
        here = os.dup(self._folder)
        for part in parts:
            try:
                below = self._opened_below(here, part)
            finally:
                os.close(here)
            here = below
        return here

    def _opened_below(self, above: int, name: bytes) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=above)
        except FileNotFoundError:
            self._count()
            os.mkdir(name, 0o755, dir_fd=above)
            return os.open(name, _FOLDER, dir_fd=above)

    def _count(self) -> None:
        self._files += 1
        if self._files > self._most_files:
            raise BadArchiveError(f"it has more than {self._most_files} files")


def _parts(name: bytes) -> list[bytes]:
    """Absolute names land inside, as in other programs."""
    parts = [part for part in name.split(b"/") if part not in {b"", b"."}]
    if b".." in parts:
        raise BadArchiveError(f"the name {_shown(name)} leads out of the folder")
    return parts


def _inside(parts: list[bytes], member: Member) -> bytes:
    """The target of a symbolic link, if it stays in the folder."""
    at = os.path.normpath(b"/".join([*parts[:-1], member.target]))
    if member.target.startswith(b"/") or at == b".." or at.startswith(b"../"):
        raise BadArchiveError(f"the link {_shown(member.name)} leads out of the folder")
    return member.target


def _shown(name: bytes) -> str:
    return ascii(os.fsdecode(name[:200]))


def _remove(above: int, name: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=above)


def _write(archive: TarStream, member: Member, above: int, name: bytes) -> None:
    mode = member.mode & 0o755 | 0o600
    fd = os.open(name, _NEW_FILE, mode if mode & 0o100 else mode & 0o644, dir_fd=above)
    with open(fd, "wb") as file:  # noqa: PTH123  a descriptor
        left = member.size
        while left:
            piece = archive.read(min(left, _PIECE))
            file.write(piece)
            left -= len(piece)
        file.flush()
        if 0 <= member.mtime_s < _NEWEST_S:
            os.utime(fd, (member.mtime_s, member.mtime_s))


def main(user: str, place: str, most_bytes: int, most_files: int) -> None:
    """Into the current folder; the archive is on stdin. `place`: where the task will stand in it."""
    _become(user)
    _limit(most_bytes)
    here = Path.cwd()
    if not os.access(here, os.W_OK | os.X_OK):
        raise BadArchiveError(
            f"{user} may not pass to {here}: an administrator should start tgpu with a TGPU_HOME that all "
            "may pass, such as /var/lib/tgpu"
        )
    unpacking = Unpacking(os.open(here, _FOLDER), most_bytes, most_files)
    with gzip.GzipFile(fileobj=sys.stdin.buffer) as packed:
        archive = TarStream(packed)
        for member in archive:
            unpacking.extract(archive, member)
    Path(place).mkdir(parents=True, exist_ok=True)  # Git keeps no empty folders


def _become(user: str) -> None:
    account = Account(user)
    if os.getuid() != account.uid:
        account.assume()
    os.umask(0o022)
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the unpacker ends with its agent


def _limit(most_bytes: int) -> None:
    for kind, most in (
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_CPU, _CPU_S),
        (resource.RLIMIT_FSIZE, most_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)  # noqa: PLW2901  as far as allowed
        resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    except MemoryError:
        sys.stderr.write(f"it needs more than {_MEMORY_BYTES >> 20} MiB of memory to unpack\n")
        sys.exit(_REFUSED)
    except (BadArchiveError, Refusal, OSError, EOFError, zlib.error) as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC  # a quota would be the user's own
        sys.stderr.write(f"{error}\n")
        sys.exit(DISK_FULL if full else _REFUSED)
