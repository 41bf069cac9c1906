"""GET /jobs/{job_id}/logs: a task's output as it is, from an offset, from the end, or as it grows."""

from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response, StreamingResponse

from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.log_stream import PART_BYTES, Chunk, LogStream
from tgpu.api.log_view import LogPartOut, part_out
from tgpu.api.needs import READ_OUTPUT
from tgpu.api.permission import is_still_admitted
from tgpu.api.problems import bad_request, not_found
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import JOB_ID
from tgpu.domain.ids import MAX_JOB_ID, TaskId
from tgpu.domain.index_set import MAX_INDEX
from tgpu.domain.job import Attempt, Job

_MAX_LINES = 1_000_000
_MAX_RANGE = 1024 * 1024
"""As much as a node answers at once."""
_DEFAULT_RANGE = 256 * 1024
_MAX_WAIT_S = 20
_RANGE = ("length", "last", "wait")
_JSON_LINES = "application/x-ndjson"


async def read_log(call: Call) -> Response:
    query, services = call.query, call.services
    offset, tail = query.whole("offset", 0, MAX_JOB_ID), query.whole("tail", 0, _MAX_LINES)
    if offset is not None and tail is not None:
        raise bad_request("offset and tail exclude each other: give one of them")
    as_json = query.choice("format", ("text", "json"), "text") == "json"
    task_id, attempt = await attempt_asked_for(call)
    if any(query.one(name) is not None for name in _RANGE):
        return await _read_range(call, task_id, attempt)
    stream = LogStream(
        services,
        task_id,
        query.choice("stream", ("stdout", "stderr"), "stdout"),
        follow=query.flag("follow"),
    )
    if attempt is None:
        first = Chunk(0, b"", at_end=False)
    elif tail is not None:
        first = await stream.tail(attempt, tail)
    else:
        first = await stream.read(attempt, offset or 0)
    chunks = _while_admitted(call, stream.chunks(attempt, first, only=query.one("attempt") is not None))
    return StreamingResponse(
        _json_lines(stream.name, chunks) if as_json else _bytes(chunks),
        media_type=_JSON_LINES if as_json else "text/plain",
        headers={"X-Tgpu-Offset": str(first.offset), "X-Content-Type-Options": "nosniff"},
    )


async def _read_range(call: Call, task_id: TaskId, attempt: Attempt | None) -> Response:
    """A bounded part, so that a reader of a fast job can skip ahead instead of falling behind."""
    query = call.query
    if query.one("tail") is not None or query.flag("follow"):
        raise bad_request("length, last and wait read one part: leave out tail and follow")
    offset, last = query.whole("offset", 0, MAX_JOB_ID), query.whole("last", 1, _MAX_RANGE)
    if offset is not None and last is not None:
        raise bad_request("offset and last exclude each other: give one of them")
    length = query.whole("length", 1, _MAX_RANGE) or last or _DEFAULT_RANGE
    wait_s = query.whole("wait", 0, _MAX_WAIT_S) or 0
    name = query.choice("stream", ("stdout", "stderr"), "stdout")
    part = Chunk(0, b"", at_end=False)
    if attempt is not None:
        stream = LogStream(call.services, task_id, name, follow=False)
        part = await stream.read(attempt, (offset or 0) if last is None else -last, length, wait_s)
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "X-Tgpu-Offset": str(part.offset),
    }
    if attempt is not None:
        headers["X-Tgpu-Attempt"] = str(attempt.attempt_id.number)
        headers["X-Tgpu-Complete"] = "true" if part.at_end else "false"
    if query.one("format") == "json":
        return json_reply(part_out(attempt, name, part), headers=headers)
    return Response(part.data, media_type="text/plain", headers=headers)


async def attempt_asked_for(call: Call) -> tuple[TaskId, Attempt | None]:
    """By `task` and `attempt`; None: it has had none yet."""
    job, query = call.job, call.query
    number, index = query.whole("attempt", 1, 2**31), query.whole("task", 0, MAX_INDEX)
    task_id = TaskId(job.job_id, position_of(job, index))
    attempts = await call.services.store.attempts(job.job_id, task_id.task_index)
    return task_id, _chosen(attempts, number, task_id)


def position_of(job: Job, index: int | None) -> int:
    """Of the task that is meant, by default the first. Raises ProblemError."""
    series = job.spec.series
    if index is None:
        return 0
    position = index if series is None else series.indices.position_of(index)
    if position is None or position >= job.spec.task_count:
        known = f"{job.spec.task_count}, from 0 on" if series is None else series.indices.text[:200]
        raise not_found(f"job {job.job_id} has no task {index}; it has {known}")
    return position


Chunks = AsyncIterator[tuple[Attempt, Chunk]]


async def _while_admitted(call: Call, chunks: Chunks) -> Chunks:
    """A caller that follows for hours is authenticated again and again: a token may have been revoked."""
    async for chunk in chunks:
        if not await is_still_admitted(call, READ_OUTPUT):
            return
        yield chunk


async def _bytes(chunks: Chunks) -> AsyncIterator[bytes]:
    async for _, chunk in chunks:
        yield chunk.data


async def _json_lines(stream: str, chunks: Chunks) -> AsyncIterator[bytes]:
    """A bounded part on each line."""
    async for attempt, chunk in chunks:
        for part in chunk.parts(chunk.offset, PART_BYTES):
            yield msgspec.json.encode(part_out(attempt, stream, part)) + b"\n"


def _chosen(attempts: list[Attempt], number: int | None, task_id: TaskId) -> Attempt | None:
    """The one asked for, or the latest; None if there is none yet."""
    if number is None:
        return attempts[-1] if attempts else None
    for attempt in attempts:
        if attempt.attempt_id.number == number:
            return attempt
    name = task_id if task_id.task_index else task_id.job_id
    raise not_found(f"job {name} has no attempt {number}; it has had {len(attempts)}")


ENDPOINTS = (
    Endpoint(
        "GET",
        "/jobs/{job_id}/logs",
        read_log,
        READ_OUTPUT,
        "jobs",
        "Read a job's output",
        "The bytes as the task wrote them. The header X-Tgpu-Offset says where they begin: later than asked "
        "if the older part is gone. With `follow` the answer goes on until the job ends, through new "
        "attempts too unless one was named. With `length`, `last` or `wait` it is one part of at most 1 MiB: "
        "X-Tgpu-Attempt says of which attempt, and X-Tgpu-Complete whether nothing follows it. With "
        "`format=json` such a part has chunks with the times at which they arrived on the node; otherwise "
        "there is one part per line (application/x-ndjson).",
        {
            200: Answer(
                "The output.",
                LogPartOut,
                {
                    "attempt": 1,
                    "stream": "stdout",
                    "offset": 0,
                    "next_offset": 18,
                    "complete": False,
                    "timestamps": True,
                    "chunks": [
                        {"offset": 0, "time": "2026-01-31T14:05:01.250731Z", "text": "epoch 1: loss 0.7\n"}
                    ],
                },
                headers={"X-Tgpu-Offset": "0"},
                as_text={"text/plain": "epoch 1: loss 0.7\n"},
            )
        },
        errors=(404,),
        params=(
            JOB_ID,
            Param("stream", "Which output.", {"type": "string", "enum": ["stdout", "stderr"]}, "stdout"),
            Param(
                "task",
                "Of which task, by its index; by default the first.",
                {"type": "integer", "minimum": 0},
                0,
            ),
            Param("attempt", "Which attempt; by default the latest.", {"type": "integer", "minimum": 1}, 1),
            Param("offset", "Where to begin, in bytes.", {"type": "integer", "minimum": 0}, 0),
            Param("tail", "Only so many lines from the end.", {"type": "integer", "minimum": 0}, 100),
            Param(
                "length",
                "One part of at most this many bytes.",
                {"type": "integer", "minimum": 1, "maximum": _MAX_RANGE},
                65536,
            ),
            Param(
                "last",
                "One part: this many bytes from the end.",
                {"type": "integer", "minimum": 1, "maximum": _MAX_RANGE},
                65536,
            ),
            Param(
                "wait",
                "One part: for how many seconds to wait for output, if there is none yet.",
                {"type": "integer", "minimum": 0, "maximum": _MAX_WAIT_S},
                10,
            ),
            Param(
                "format",
                "As it was written, or in chunks with their times.",
                {"type": "string", "enum": ["text", "json"]},
                "json",
            ),
            Param("follow", "Whether to go on as it grows.", {"type": "boolean"}, False),
        ),
    ),
)
