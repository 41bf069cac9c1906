"""Answers to questions about output: the times of it, as many as an answer may have."""

import asyncio

import pytest

from tgpu.agent.log_service import answer
from tgpu.agent.use.uses import Uses
from tgpu.domain.log_times import LogTimes, most_times, thinned
from tgpu.protocol.messages import LogChunk, ReadLog
from tgpu.protocol.validation import checked
from tgpu.runner.port import LogPart


class OneOutput:
    """A runner that has one piece of output."""

    def __init__(self, part: LogPart) -> None:
        self._part = part

    def read_log(self, _attempt: str, _stream: str, _offset: int, _max_bytes: int) -> LogPart:
        return self._part


def answered(data: bytes, times: LogTimes) -> LogChunk:
    question = ReadLog(request=1, attempt="1.0.1", stream="stdout", offset=0, max_bytes=1 << 20)
    runner = OneOutput(LogPart(0, data, times))
    return asyncio.run(answer(question, runner, lambda _: True, Uses()))  # type: ignore[arg-type]


def test_answer_has_the_times_of_its_output() -> None:
    assert answered(b"one\ntwo\n", ((0, 5), (4, None))).times == ((0, 5), (4, None))
    assert answered(b"one\n", ()).times == ()


@pytest.mark.parametrize("size", [1, 100, 4096, 1 << 20])
def test_answer_with_too_many_times_is_thinned_to_what_a_server_takes(size: int) -> None:
    times = tuple((at, at) for at in range(min(size, 100_000)))
    chunk = answered(bytes(size), times)
    assert len(chunk.times) <= most_times(size)
    assert chunk.times[0] == (0, 0)
    assert checked(chunk) == chunk


def test_few_times_are_kept_as_they_are() -> None:
    assert thinned(((0, 1), (9, 2)), 64) == ((0, 1), (9, 2))
