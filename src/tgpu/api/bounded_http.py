"""HTTP connection with limits: on the size of a request, on the time it takes, and on what is held for it."""

import asyncio
from enum import Enum
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl

from tgpu.api.peercred import PeerCredProtocol
from tgpu.api.problems import PROBLEM_TYPE, ProblemError, bad_request
from tgpu.api.request_meter import RequestMeter, RequestTooLargeError
from tgpu.observe.logs import logger

HEAD_S = 10.0
"""From the connection, or the first byte of a later request, to the end of a request's head."""
BODY_IDLE_S = 15.0
"""Between two pieces of a body."""
BODY_S = 30.0
"""For a whole body, and one second more for each `BODY_RATE` bytes of it that have come."""
BODY_RATE = 16 * 1024
STALLED_S = 30.0
"""How long an answer may wait for a client that does not read it."""
MOST_PIPELINED = 16
"""Requests that wait for the answer of an earlier one; further ones stay unread."""
_PIECE = 16 * 1024
"""Bytes parsed at once: between two pieces the limits are checked."""
_NO_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
_log = logger("http")


class Stage(Enum):
    """Of the request that is being received."""

    HEAD = "head"
    BODY = "body"
    COMPLETE = "complete"


class HeldFlow(FlowControl):
    """Reading stays paused while it is held, whoever else would resume it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._is_held = False

    def hold(self) -> None:
        self._is_held = True
        self.pause_reading()

    def release(self) -> None:
        self._is_held = False

    def resume_reading(self) -> None:
        if not self._is_held:
            super().resume_reading()


class BoundedProtocol(PeerCredProtocol):
    """uvicorn's protocol, which by itself has no limit but the one on idle connections."""

    flow: HeldFlow

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  whatever uvicorn hands over
        super().__init__(*args, **kwargs)
        self._stage = Stage.HEAD
        self._stage_began = self._last_read = self.loop.time()
        self._meter = RequestMeter()
        self._ignores_rest = False
        self._unparsed = b""
        self._patience: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        self.flow = HeldFlow(self.transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    # Parsing, piece by piece

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._last_read = self.loop.time()
        if not self._ignores_rest:
            self._parse(self._unparsed + data if self._unparsed else data)

    def _parse(self, data: bytes) -> None:
        if self._stage is Stage.COMPLETE:
            self._enter(Stage.HEAD)
            self._meter.start()
        at = 0
        while at < len(data) and not self.transport.is_closing() and len(self.pipeline) < MOST_PIPELINED:
            piece = data[at : at + _PIECE]
            at += len(piece)
            if not self._parse_piece(piece):
                return
        self._unparsed = b"" if self.transport.is_closing() else data[at:]
        if self._unparsed:
            self.flow.hold()
        self._watch()

    def _parse_piece(self, piece: bytes) -> bool:
        """False once the connection is not HTTP any more, or was refused."""
        try:
            self.parser.feed_data(piece)
            self._meter.fed(len(piece))
        except RequestTooLargeError as error:
            self._refuse(ProblemError(error.status, "too-large", error.detail))
            return False
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self._stop_timers()
                self.handle_websocket_upgrade()
                return False
            self._ignores_rest = True  # it would be the other protocol
            self.cycle.keep_alive = False
            return False
        except httptools.HttpParserError as error:
            self._refuse_broken(error)
            return False
        return True

    def _refuse_broken(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__  # what was raised in one of the callbacks below
        if isinstance(cause, RequestTooLargeError):
            self._refuse(ProblemError(cause.status, "too-large", cause.detail))
        else:
            _log.debug("a connection was closed: its request is not HTTP", why=str(error))
            self._refuse(bad_request("this request is not valid HTTP/1.1"))

    def _refuse(self, problem: ProblemError) -> None:
        """Answers and closes; without an answer where it could be taken for that of another request."""
        self._stop_timers()
        self._unparsed = b""
        if self.pipeline or (self._is_answering() and not self._is_first_answer()):
            self._plain.abort()
            return
        body = problem.body()
        phrase = HTTPStatus(problem.status).phrase
        more = "".join(f"{name.lower()}: {value}\r\n" for name, value in problem.headers.items())
        head = (
            f"HTTP/1.1 {problem.status} {phrase}\r\n{more}"
            f"content-type: {PROBLEM_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first

    def _is_first_answer(self) -> bool:
        """Whether the request that is being received is the one to be answered, and nothing was sent yet."""
        return self._stage is Stage.BODY and not self.cycle.response_started

    # Parser callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._meter.start()
        self._enter(Stage.HEAD)

    def on_url(self, url: bytes) -> None:
        self._meter.target(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage is Stage.HEAD:  # else a trailer: the request was judged by its head
            self._meter.header(name, value)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._meter.head_complete()
        self._enter(Stage.BODY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._meter.body(len(body))
        if self.scope["method"] in _NO_BODY or self.cycle.response_complete:
            if self._meter.discarded(len(body)):
                self.transport.close()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._enter(Stage.COMPLETE)
        super().on_message_complete()

    def _enter(self, stage: Stage) -> None:
        self._stop_patience()
        self._stage = stage
        self._stage_began = self._last_read

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._unparsed and not self.transport.is_closing():
            self.loop.call_soon(self._parse_rest)

    def _parse_rest(self) -> None:
        if self.transport.is_closing() or not self._unparsed:
            return
        self.flow.release()
        rest, self._unparsed = self._unparsed, b""
        self._unset_keepalive_if_required()
        self._parse(rest)
        if not self._unparsed and not self.pipeline:
            self.flow.resume_reading()

    # Patience: one timer, set only while a request is incomplete

    def _watch(self) -> None:
        if self._stage is Stage.COMPLETE or self.transport.is_closing():
            self._stop_patience()
        elif self._patience is None:
            self._patience = self.loop.call_later(self._left_s(), self._check_patience)

    def _left_s(self) -> float:
        now = self.loop.time()
        if self._stage is Stage.HEAD:
            return self._stage_began + HEAD_S - now
        whole_s = self._stage_began + BODY_S + self._meter.body_bytes / BODY_RATE
        return min(self._last_read + BODY_IDLE_S, whole_s) - now

    def _check_patience(self) -> None:
        self._patience = None
        if self.transport.is_closing():
            return
        if self._waits_for_us():
            self._stage_began = self._last_read = self.loop.time()
        if self._left_s() > 0 or self._stage is Stage.COMPLETE:
            self._watch()
        elif self._stage is Stage.BODY and self.cycle.response_complete:
            self.transport.close()
        else:
            self._too_slow("head" if self._stage is Stage.HEAD else "body")

    def _too_slow(self, part: str) -> None:
        self._refuse(
            ProblemError(408, "too-slow", f"the {part} of the request did not arrive in time; try again")
        )

    def _waits_for_us(self) -> bool:
        """Whether the client may have sent more, which is not read while an earlier request is answered or
        the body has not been taken."""
        return self.flow.read_paused or (self._stage is Stage.HEAD and self._is_answering())

    def _stop_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALLED_S, self._plain.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_stalled()

    def _stop_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _stop_timers(self) -> None:
        self._stop_patience()
        self._stop_stalled()
