"""Lines of a task's output with their times: whole lines, merged by time, printed behind prefixes."""

from __future__ import annotations

import sys
from heapq import merge

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Chunk = tuple[str | None, bytes]
    Block = tuple[str | None, bytes]
    """Whole lines, and when they began to arrive."""

NO_TIME = "-"


class Lines:
    """One stream, cut into whole lines. A line without an end is kept until its end comes."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._time: str | None = None

    def of(self, chunks: Iterable[Chunk]) -> Iterator[Block]:
        for time, chunk in chunks:
            data = chunk
            if self._rest:
                end = data.find(b"\n") + 1
                self._rest += data[:end] if end else data
                if not end:
                    continue
                yield from self.rest()
                data = data[end:]
            end = data.rfind(b"\n") + 1
            if end:
                yield time, data[:end]
            self._rest += data[end:]
            self._time = time

    def rest(self) -> Iterator[Block]:
        """The line without an end, if there is one."""
        line, self._rest = bytes(self._rest), bytearray()
        if line:
            yield self._time, line


def merged(streams: Mapping[str, Iterable[Block]]) -> Iterator[tuple[str, Block]]:
    """All blocks with the names of their streams, by time. Without times, one stream after the other."""

    def named(name: str, blocks: Iterable[Block]) -> Iterator[tuple[str, Block]]:
        return ((name, block) for block in blocks)

    each = [named(name, blocks) for name, blocks in streams.items()]
    return merge(*each, key=lambda item: item[1][0] or "")


def with_prefix(prefix: str, block: bytes) -> bytes:
    """Each line behind the prefix; the last one gets an end."""
    start = prefix.encode()
    lines = block.removesuffix(b"\n").split(b"\n")
    return b"".join(start + line + b"\n" for line in lines)


def write(stream: str, data: bytes) -> None:
    target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    target.write(data)
    target.flush()
