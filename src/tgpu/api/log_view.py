"""JSON form of a task's output: chunks with the times at which they arrived."""

from binascii import b2a_base64
from itertools import pairwise

import msgspec

from tgpu.api.edge import rfc3339
from tgpu.api.log_stream import Chunk
from tgpu.domain.job import Attempt


class LogChunkOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Output that arrived at one time: as `text`, or as `base64` if its bytes by themselves are not UTF-8."""

    offset: int
    time: str | None
    text: str = ""
    base64: str = ""


class LogPartOut(msgspec.Struct, frozen=True, kw_only=True):
    """A bounded part of one stream of an attempt."""

    attempt: int | None
    """None: there is none yet."""
    stream: str
    offset: int
    next_offset: int
    complete: bool
    """Nothing follows, and nothing will."""
    timestamps: bool
    """Whether any time is known: older attempts and older agents recorded none."""
    chunks: list[LogChunkOut]


def part_out(attempt: Attempt | None, stream: str, part: Chunk) -> LogPartOut:
    return LogPartOut(
        attempt=None if attempt is None else attempt.attempt_id.number,
        stream=stream,
        offset=part.offset,
        next_offset=part.next_offset,
        complete=part.at_end,
        timestamps=any(us is not None for _, us in part.times),
        chunks=_chunks(part),
    )


def _chunks(part: Chunk) -> list[LogChunkOut]:
    """Empty of an empty part."""
    times = part.times
    if part.data and (not times or times[0][0] > part.offset):
        times = ((part.offset, None), *times)
    begins = [offset for offset, _ in times]
    ends = pairwise([*begins, part.next_offset])
    return [
        _chunk(begin, us, part.data[begin - part.offset : end - part.offset])
        for (begin, end), (_, us) in zip(ends, times, strict=True)
        if begin < end
    ]


def _chunk(offset: int, us: int | None, data: bytes) -> LogChunkOut:
    time = None if us is None else _rfc3339_us(us)
    try:
        return LogChunkOut(offset=offset, time=time, text=data.decode())
    except UnicodeDecodeError:
        return LogChunkOut(offset=offset, time=time, base64=b2a_base64(data, newline=False).decode("ascii"))


def _rfc3339_us(us: int) -> str:
    """With microseconds, and always of the same length: they sort as texts."""
    ms, rest = divmod(us, 1000)
    return f"{rfc3339(ms)[:-1]}{rest:03d}Z"
