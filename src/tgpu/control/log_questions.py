"""Questions to nodes about the output of tasks: an answer counts only on the stream that was asked."""

import asyncio
from typing import Protocol

from msgspec.structs import replace

from tgpu.protocol.messages import LogChunk, ReadLog

LOG_ANSWER_S = 10.0


class NodeAwayError(Exception):
    """The node is not connected, or did not answer in time."""


class Line(Protocol):
    """A node's stream."""

    def send(self, message: ReadLog) -> None: ...


class LogQuestions:
    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, tuple[Line, asyncio.Future[LogChunk]]] = {}

    def heard(self, line: Line, answer: LogChunk) -> None:
        asked, waiting = self._open.get(answer.request, (None, None))
        if waiting is not None and asked is line and not waiting.done():
            waiting.set_result(answer)

    def left(self, line: Line) -> None:
        """That stream is over: nothing asked on it is answered any more."""
        for asked, waiting in self._open.values():
            if asked is line and not waiting.done():
                waiting.set_exception(NodeAwayError("the connection to its node broke: try again shortly"))

    def number(self) -> int:
        """One that no other question has."""
        self._last += 1
        return self._last

    async def ask(self, line: Line, node_id: str, question: ReadLog) -> LogChunk:
        """Raises NodeAwayError, also if the answer does not fit the question."""
        number = self.number()
        waiting: asyncio.Future[LogChunk] = asyncio.get_running_loop().create_future()
        self._open[number] = (line, waiting)
        line.send(replace(question, request=number))
        try:
            answer = await asyncio.wait_for(waiting, question.wait_s + LOG_ANSWER_S)
        except TimeoutError:
            raise NodeAwayError(f"{node_id} did not answer: try again shortly") from None
        finally:
            self._open.pop(number, None)
        if not answer.error and not _fits(question, answer):
            raise NodeAwayError(f"{node_id} sent other output than was asked for: look at its agent")
        return answer


def _fits(question: ReadLog, answer: LogChunk) -> bool:
    """Not more than was asked for, and not from before it."""
    if not answer.data:
        return True
    return len(answer.data) <= max(1, question.max_bytes) and answer.offset >= question.offset
