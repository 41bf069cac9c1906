"""A WebSocket into a running job: bytes to a program there, and bytes back."""

from __future__ import annotations

import json
from collections import deque

from tgpu.client.errors import DroppedError, SilentError, TgpuError
from tgpu.client.session import refusal, target

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Self

    from tgpu.client.session import Session

WINDOW = 256 * 1024
CHUNK = 32 * 1024
_READ = 65536
_SWITCHED = 101
_LONGEST = 1 << 20


class Output:
    """What was printed: `stream` is 1 for stdout and 2 for stderr."""

    __slots__ = ("data", "stream")

    def __init__(self, stream: int, data: bytes) -> None:
        self.stream = stream
        self.data = data


class Over:
    """The last that comes. `exit_code` is None if no program's end was it; `lost`: the way there broke, and
    what runs there may be looked for again."""

    __slots__ = ("detail", "exit_code", "lost")

    def __init__(self, exit_code: int | None, detail: str, *, lost: bool) -> None:
        self.exit_code = exit_code
        self.detail = detail
        self.lost = lost


class Terminal:
    """Open from the first moment: `fileno` is for `select`, `hear` for when that says that something came.

    Without a command it is the job's own terminal; with one, that program beside the job's.
    """

    def __init__(
        self,
        session: Session,
        job_id: int,
        command: Sequence[str] = (),
        *,
        task: int | None = None,
        attempt: int | None = None,
        tty: bool = False,
        size: tuple[int, int] = (24, 80),
        term: str = "",
    ) -> None:
        """`task`: by default the job's first. Raises TgpuError."""
        self._untaken = 0
        self._closed = False
        self._heard: deque[bytes | dict[str, Any]] = deque()
        """Messages that have come and were not asked for yet."""
        self._over: Over | None = None
        query = {"task": task, "attempt": attempt}
        self._socket, headers, authority = session.raw_socket()
        try:
            self._shake_hands(authority, target(f"/jobs/{job_id}/terminal", query), headers)
            rows, cols = size
            asked = {"command": list(command), "tty": tty, "rows": rows, "cols": cols, "term": term}
            self._say(asked)
            self._await_opening()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def room(self) -> int:
        """How many bytes may be typed now."""
        return WINDOW - self._untaken

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_more(self) -> bool:
        """Whether something came that `select` does not see, because it is read or decrypted already."""
        pending = getattr(self._socket, "pending", None)
        return bool(self._heard) or (pending is not None and pending() > 0)

    def type(self, data: bytes) -> None:
        """Not more than there is room for."""
        self._untaken += len(data)
        for start in range(0, len(data), CHUNK):
            self._protocol.send_binary(data[start : start + CHUNK])
        self._flush()

    def end_input(self) -> None:
        self._say({"end": True})

    def resize(self, rows: int, cols: int) -> None:
        self._say({"resize": [rows, cols]})

    def hear(self) -> Iterator[Output | Over]:
        """What has come. Each piece of output counts as dealt with when the next thing is asked for."""
        if not self._heard:
            self._receive()
        while self._heard:
            message = self._heard.popleft()
            if isinstance(message, bytes):
                yield Output(message[0], message[1:])
                self._say({"taken": len(message) - 1})
            else:
                yield from self._obey(message)
        if self._closed and self._over is None:
            self._over = Over(None, "the connection to the server broke", lost=True)
            yield self._over

    def close(self) -> None:
        """A program that runs there gets SIGHUP; the job's own terminal is let alone."""
        try:
            self._protocol.send_close(1000)
            self._flush()
        except (TgpuError, OSError, self._broken):
            pass
        self._socket.close()

    def _obey(self, told: dict[str, Any]) -> Iterator[Over]:
        if "taken" in told:
            self._untaken -= int(told["taken"])
        problem = told.get("refused")
        if problem is not None:
            raise refusal(int(problem["status"]), json.dumps(problem).encode())
        over = told.get("over")
        if over is not None:
            self._over = Over(over.get("exit_code"), str(over["detail"]), lost=bool(over.get("lost")))
            yield self._over

    def _await_opening(self) -> None:
        while not self._heard:
            if self._closed:
                raise DroppedError("the server closed the connection before anything was opened")
            self._receive()
        first = self._heard.popleft()
        for over in self._obey(first if isinstance(first, dict) else {}):
            raise DroppedError(over.detail)

    # The WebSocket

    def _shake_hands(self, authority: str, path: str, headers: dict[str, str]) -> None:
        from websockets.client import ClientProtocol  # noqa: PLC0415  only who goes inside pays for it
        from websockets.exceptions import InvalidState  # noqa: PLC0415
        from websockets.http11 import Response  # noqa: PLC0415
        from websockets.uri import parse_uri  # noqa: PLC0415

        self._broken: type[Exception] = InvalidState
        # Whether it is encrypted is the socket's own business.
        self._protocol = ClientProtocol(parse_uri(f"ws://{authority}{path}"), max_size=_LONGEST)
        request = self._protocol.connect()
        request.headers.update(headers)
        self._protocol.send_request(request)
        self._flush()
        while True:
            for event in self._received():
                if isinstance(event, Response):
                    if event.status_code != _SWITCHED:
                        raise refusal(event.status_code, bytes(event.body or b""))
                    return
            if self._closed:
                raise DroppedError(f"the server closed the connection: {self._protocol.handshake_exc}")

    def _take_in(self, event: object) -> None:
        from websockets.frames import Frame, Opcode  # noqa: PLC0415  see above

        if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
            self._heard.append(json.loads(bytes(event.data)))
        elif isinstance(event, Frame) and event.opcode is Opcode.BINARY and len(event.data) > 0:
            self._heard.append(bytes(event.data))

    def _say(self, what: dict[str, Any]) -> None:
        try:
            self._protocol.send_text(json.dumps(what).encode())
        except self._broken:  # it is closing: what it said last is still to be heard
            return
        self._flush()

    def _receive(self) -> None:
        for event in self._received():
            self._take_in(event)

    def _received(self) -> list[object]:
        try:
            data = self._socket.recv(_READ)
        except TimeoutError:
            raise SilentError("the server stopped in the middle of an answer") from None
        except OSError:
            data = b""
        if data:
            self._protocol.receive_data(data)
        else:
            self._closed = True
            self._protocol.receive_eof()
        self._flush()
        return list(self._protocol.events_received())

    def _flush(self) -> None:
        """Also what the protocol itself has to say: that it is still here, or goes."""
        for data in self._protocol.data_to_send():
            try:
                if data:
                    self._socket.sendall(data)
            except OSError:  # it is read to its end, and that says so
                return
