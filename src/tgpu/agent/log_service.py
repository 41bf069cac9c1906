"""Answers the server's questions for a task's output, waiting a little where it is asked to."""

import asyncio
from collections.abc import Callable

from tgpu.agent.use.uses import Uses
from tgpu.domain.log_times import most_times, thinned
from tgpu.protocol.messages import LogChunk, ReadLog
from tgpu.protocol.use import STREAM
from tgpu.runner.port import Runner

POLL_S = 0.1
MOST_BYTES = 1024 * 1024
MOST_WAIT_S = 30.0


async def answer(question: ReadLog, runner: Runner, is_over: Callable[[str], bool], uses: Uses) -> LogChunk:
    """`is_over` is asked before reading, so that nothing written before the end is missed."""
    if question.stream == STREAM:
        return LogChunk(request=question.request, offset=0, data=uses.read(question.attempt), at_end=True)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(question.wait_s, MOST_WAIT_S)
    size = max(1, min(question.max_bytes, MOST_BYTES))
    while True:
        over = is_over(question.attempt)
        part = runner.read_log(question.attempt, question.stream, question.offset, size)
        if part is None and over:
            return LogChunk(
                request=question.request,
                offset=0,
                data=b"",
                at_end=True,
                error="its output is no longer kept",
            )
        if part is not None and (part.data or over):
            at_end = over and len(part.data) < size
            times = thinned(part.times, most_times(len(part.data)))
            return LogChunk(
                request=question.request, offset=part.offset, data=part.data, at_end=at_end, times=times
            )
        if loop.time() >= deadline:
            offset = part.offset if part is not None else 0
            return LogChunk(request=question.request, offset=offset, data=b"", at_end=False)
        await asyncio.sleep(POLL_S)
