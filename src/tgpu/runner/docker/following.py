"""What a container prints, taken from its engine into segment files: every byte once, across restarts.

While this agent is attached, bytes come as they are printed. The engine keeps them too. Whoever comes later,
or was cut off, takes the engine's copy from its beginning and passes over as many bytes as the files already
have.

Docker keeps a long line in pieces of 16 KiB, and some versions of it forget the end of such a line: a
shorter piece without an end, behind which another message comes, had one.

An engine that is stopped while containers run on loses what it has read of them and not kept yet. Some of
that may have been heard by who was attached: then the copy lacks it, and goes on with what came later.
"""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tgpu.runner.output import Stream
from tgpu.runner.time_index import INTERVAL_US, LastWriter

STDOUT, STDERR = 1, 2
NAMES = {STDOUT: "stdout", STDERR: "stderr"}
COPY_BYTES = 1 << 30
"""What the engine keeps of a container's output before it lets go of the oldest part."""
_SURELY_WHOLE = COPY_BYTES * 9 // 10
_IN_ITS_HANDS = 1 << 20
"""What an engine may have read of a container, and not kept yet."""
_HEAD = 8
_PIECE = 16 * 1024
_LINE_END = b"\n"
_LONGEST_STAMP = 40
_EPOCH = datetime.fromtimestamp(0, UTC)


class Segments(Stream):
    """The segments of one stream, gone on with where they end."""

    def __init__(self, folder: str, name: str, cap_bytes: int, writer: LastWriter) -> None:
        super().__init__(-1, folder, name, cap_bytes, writer=writer)
        starts = sorted(
            int(path.suffix[1:]) for path in Path(folder).glob(f"{name}.*") if path.suffix[1:].isdigit()
        )
        self.written_s = 0.0
        """When the last byte that was here before was written."""
        if starts:
            last = self._path(starts[-1])
            self._file = os.open(last, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            about = os.fstat(self._file)
            self.written_s = about.st_mtime
            self._begin = starts[-1]
            self._end = starts[-1] + about.st_size
            self._older = starts[-2] if len(starts) > 1 else None
            self._times.resume(self._times_path(self._begin))

    @property
    def end(self) -> int:
        return self._end

    def keep(self, data: bytes, us: int | None = None) -> None:
        """`us`: when it was printed, in microseconds since 1970; by default now."""
        self._store(data, time.time_ns() // 1000 if us is None else us)

    def tail(self, since: int) -> bytes:
        """Of what was written last, and from this offset on, as much as an engine may lack."""
        size = min(_IN_ITS_HANDS, self._end - max(self._begin, since))
        if self._file < 0 or size <= 0:
            return b""
        with Path(self._path(self._begin)).open("rb") as file:
            file.seek(-size, os.SEEK_END)
            return file.read(size)

    def close(self) -> None:
        self._close_files()


class _Copied:
    """One stream of the engine's copy: what is still to be passed over, and what is to be kept."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._forgets_ends = False
        self._lacking = self._lacked = 0
        """So many bytes of ours the copy was found not to have, all of them before that offset of ours."""
        self._skip = 0
        self._tail = b""
        self._pending = bytearray()
        self._printed_us: int | None = None
        """When the first of what is pending was printed, if the engine says so."""
        self._lacks_end = False

    def begin(self, *, whole: bool, forgets_ends: bool) -> None:
        """`whole`: it comes from its own beginning on."""
        self._skip = self._segments.end - self._lacking if whole else 0
        self._tail = self._segments.tail(self._lacked) if whole else b""
        self._forgets_ends = forgets_ends
        self._pending.clear()
        self._lacks_end = False

    def message(self, data: memoryview, us: int | None) -> None:
        if us is None or self._printed_us is None or not 0 <= us - self._printed_us < INTERVAL_US:
            self.flush()
            self._printed_us = us
        if self._lacks_end:
            self._add(memoryview(_LINE_END))
        self._add(data)
        lacks_end = len(data) != _PIECE and bytes(data[-1:]) != _LINE_END
        self._lacks_end = lacks_end and self._forgets_ends

    def flush(self) -> None:
        if self._pending:
            self._segments.keep(bytes(self._pending), self._printed_us)
            self._pending.clear()
        self._printed_us = None

    def _add(self, data: memoryview) -> None:
        if 0 < self._skip <= len(self._tail) and self._is_later_than_ours(bytes(data)):
            self._lacking, self._lacked = self._lacking + self._skip, self._segments.end
            self._skip = 0
        passed = min(self._skip, len(data))
        self._skip -= passed
        self._pending += data[passed:]

    def _is_later_than_ours(self, data: bytes) -> bool:
        """Whether it stands nowhere in what should come now. In doubt it does: then some of it is lost, and
        none is doubled."""
        at = len(self._tail) - self._skip
        return not self._tail.startswith(data[: self._skip], at) and self._tail.find(data, at) < 0


class Follower:
    """Keeps the output of one container. Its folder is there as soon as this is."""

    def __init__(self, folder: Path, cap_bytes: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        writer = LastWriter()
        self._streams = {
            number: Segments(str(folder), name, cap_bytes, writer) for number, name in NAMES.items()
        }
        self._copied = {number: _Copied(segments) for number, segments in self._streams.items()}
        self._buffer = bytearray()
        self._is_stamped = False
        self._last: _Copied | None = None

    def printed(self, number: int, data: bytes) -> None:
        """As it comes from the container itself."""
        if number in self._streams:
            self._streams[number].keep(data)

    def end_of(self, number: int) -> int:
        """How much of this stream was kept in all."""
        return self._streams[number].end

    def begin_copy(self, *, forgets_ends: bool = False, stamped: bool = False) -> str:
        """From when on the engine's copy is to be read: from the beginning, unless that may be gone already;
        then from the last that was written, and what was printed in that very moment may come twice.
        `forgets_ends`: whether this engine is one that does. `stamped`: each frame begins with its time."""
        self._buffer.clear()
        self._is_stamped = stamped
        whole = sum(segments.end for segments in self._streams.values()) < _SURELY_WHOLE
        for stream in self._copied.values():
            stream.begin(whole=whole, forgets_ends=forgets_ends)
        return "0" if whole else f"{max(one.written_s for one in self._streams.values()):.9f}"

    def copied(self, data: bytes) -> None:
        """A stretch of the copy, in frames that may be cut anywhere."""
        self._buffer += data
        with memoryview(self._buffer) as view:
            used = self._frames(view)
        del self._buffer[:used]
        for stream in self._copied.values():
            stream.flush()

    def close(self) -> None:
        for segments in self._streams.values():
            segments.close()

    def _frames(self, view: memoryview) -> int:
        at = 0
        while len(view) - at >= _HEAD:
            end = at + _HEAD + int.from_bytes(view[at + 4 : at + _HEAD], "big")
            if len(view) < end:
                break
            stream = self._copied.get(view[at])
            if stream is not None:
                self._message(stream, view[at + _HEAD : end])
            at = end
        return at

    def _message(self, stream: _Copied, data: memoryview) -> None:
        if self._last is not None and self._last is not stream:
            self._last.flush()  # so that the times of both are in their order
        self._last = stream
        us, skip = _stamp(bytes(data[:_LONGEST_STAMP])) if self._is_stamped else (None, 0)
        stream.message(data[skip:], us)


def _stamp(data: bytes) -> tuple[int | None, int]:
    """When a message was printed, by the engine, and the length of `2026-11-18T16:40:50.250731000Z `."""
    text, space, _ = data.partition(b" ")
    try:
        printed = datetime.fromisoformat(text.decode("ascii"))
        us = (printed - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, TypeError):  # no time, or one without a zone
        return None, 0
    return (us, len(text) + 1) if space else (None, 0)
