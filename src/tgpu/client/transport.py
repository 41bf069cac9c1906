"""HTTP/1.1 over a unix socket or TCP: as much of it as a client of one server needs, and quick to import."""

from __future__ import annotations

import socket

from tgpu.client.errors import DroppedError, ReadTimeoutError, SilentError, UnreachableError
from tgpu.client.means import speaks_tls

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping

    from tgpu.client.locate import Address
    from tgpu.client.means import Means, Plug

_PIECE = 65536
_MAX_LINE = 65536
_MAX_HEADERS = 200
_MAX_INTERIM = 16  # answers such as 100 Continue before the real one
_MAX_BODY = 256 * 1024 * 1024  # of an answer that is read whole
_MAX_DIGITS = 15
_HEX = frozenset(b"0123456789abcdefABCDEF")
_ONE_OF_SEVERAL_S = 5.0  # to be reached, where there is another one to try


class Connection:
    """One kept-alive connection, one request at a time: read an answer whole before the next request."""

    def __init__(self, candidates: list[Address], timeout: float, means: Means) -> None:
        self._candidates = candidates
        self._timeout = timeout
        self._means = means
        self._socket: Plug | None = None
        self._wire: Wire | None = None
        self.address = candidates[0]

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """A kept connection may have been closed meanwhile: then, and only then, it is asked once more.
        That is safe because every POST carries an Idempotency-Key."""
        if self._wire is None:
            return self._ask(method, target, headers, body)
        try:
            return self._ask(method, target, headers, body)
        except DroppedError:
            self.close()
            return self._ask(method, target, headers, body)

    def _ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Response:
        wire = self._wire or self._connect()
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.address.authority}", "Accept: */*"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method in {"POST", "PUT", "PATCH"}:
            lines += [f"Content-Length: {len(body)}"]
        try:
            wire.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
            return Response(wire, method)
        except ReadTimeoutError:
            self.close()
            raise SilentError(
                f"the server at {self.address} did not answer within {self._timeout:g} s; "
                "`tgpu doctor` looks closer"
            ) from None
        except DroppedError:
            self.close()
            if self.address.scheme == "http" and self._means.aside(speaks_tls, self.address):
                raise UnreachableError(
                    f"{self.address} speaks TLS: write https in place of http in TGPU_SERVER"
                ) from None
            raise

    def _connect(self) -> Wire:
        """To the first that can be reached. Those that cannot are tried last from now on."""
        patience = self._timeout if len(self._candidates) == 1 else min(self._timeout, _ONE_OF_SEVERAL_S)
        for last, address in enumerate(list(self._candidates), start=1 - len(self._candidates)):
            self.address = address
            try:
                self._socket = self._means.open(address, patience)
            except OSError as error:
                if last == 0:
                    raise UnreachableError(_why_not(self._candidates, address, error)) from error
                if address.scheme != "unix":  # which socket is asked first is the machine's business
                    self.give_up(address)
            else:
                break
        assert self._socket is not None
        self._socket.settimeout(self._timeout)
        self._wire = Wire(self._socket)
        return self._wire

    def raw(self) -> socket.socket:
        """Its socket, connected, for whoever speaks another language; from now on it is theirs."""
        self._connect()
        sock, self._socket, self._wire = self._socket, None, None
        assert isinstance(sock, socket.socket)
        return sock

    def give_up(self, address: Address) -> None:
        """The next connection tries the others first; whoever shares the list does, too."""
        self._candidates.remove(address)
        self._candidates.append(address)

    def set_timeout(self, timeout: float) -> None:
        if self._socket is not None:
            self._socket.settimeout(timeout)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = self._wire = None


class Wire:
    """Bytes as they come. A timeout loses nothing: what arrived stays in the buffer."""

    def __init__(self, sock: Plug) -> None:
        self._socket = sock
        self._buffer = bytearray()

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise ReadTimeoutError from None
        except OSError as error:
            raise DroppedError(f"the server closed the connection: {error}") from error

    def fill(self) -> bool:
        """False at the end of the stream."""
        try:
            data = self._socket.recv(_PIECE)
        except TimeoutError:
            raise ReadTimeoutError from None
        except OSError as error:
            raise DroppedError(f"the server closed the connection: {error}") from error
        self._buffer += data
        return bool(data)

    def line(self) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _MAX_LINE:
                raise DroppedError("the server's answer is not HTTP; is TGPU_SERVER right?")
            self._must_fill()
        line = bytes(self._buffer[:end]).rstrip(b"\r")
        del self._buffer[: end + 1]
        return line

    def some(self, at_most: int) -> bytes:
        """At least one byte; b"" only at the end of the stream."""
        if not self._buffer and not self.fill():
            return b""
        data = bytes(self._buffer[:at_most])
        del self._buffer[:at_most]
        return data

    def skip(self, count: int) -> None:
        while len(self._buffer) < count:
            self._must_fill()
        del self._buffer[:count]

    def _must_fill(self) -> None:
        if not self.fill():
            raise DroppedError("the server closed the connection in the middle of an answer")


class Response:
    """Status and headers; the body is read piece by piece or whole."""

    def __init__(self, wire: Wire, method: str) -> None:
        self._wire = wire
        for _ in range(_MAX_INTERIM):
            self.status = _status(wire.line())
            self.headers = _headers(wire)
            if self.status >= 200:  # noqa: PLR2004  1xx are not the answer yet
                break
        else:
            raise DroppedError("the server never came to its answer; is TGPU_SERVER right?")
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        self._crlf_due = False
        bodyless = method == "HEAD" or self.status in {204, 304}
        self._left: int | None = 0 if self._chunked or bodyless else _length(self.headers)
        self._done = self._left == 0 and not (self._chunked and not bodyless)

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry the next request."""
        return self._done and self.headers.get("connection", "").lower() != "close"

    def read_some(self) -> bytes:
        """The next piece; b"" once the body has ended. Raises DroppedError if it ended too early."""
        if self._done:
            return b""
        if self._chunked and self._left == 0 and not self._next_chunk():
            return b""
        piece = self._wire.some(_PIECE if self._left is None else min(self._left, _PIECE))
        if not piece:
            if self._left is not None:
                raise DroppedError("the server closed the connection in the middle of an answer")
            self._done = True
            self.headers["connection"] = "close"
        elif self._left is not None:
            self._left -= len(piece)
            self._crlf_due = self._chunked and self._left == 0
            self._done = not self._chunked and self._left == 0
        return piece

    def read(self) -> bytes:
        """Whole. Raises DroppedError if it is larger than any answer of a server."""
        pieces, size = [], 0
        while piece := self.read_some():
            pieces.append(piece)
            size += len(piece)
            if size > _MAX_BODY:
                raise DroppedError(f"the server's answer has more than {_MAX_BODY >> 20} MiB; it is not read")
        return b"".join(pieces)

    def _next_chunk(self) -> bool:
        if self._crlf_due:
            self._wire.skip(2)
            self._crlf_due = False
        size = self._wire.line().split(b";")[0].strip()
        if not size or len(size) > _MAX_DIGITS or not _HEX.issuperset(size):
            raise DroppedError(f"the server sent a broken chunk size: {size[:20]!r}")
        self._left = int(size, 16)
        if self._left == 0:
            _headers(self._wire)  # trailers, which mean nothing here
            self._done = True
        return not self._done


def _why_not(tried: list[Address], address: Address, error: OSError) -> str:
    if address.scheme != "unix" and len(tried) > 1:
        return f"none of {', '.join(map(str, tried))} answers ({error.strerror or error}); check TGPU_SERVER"
    if address.scheme != "unix":
        return f"no server at {address}: {error.strerror or error}; check TGPU_SERVER"
    if isinstance(error, PermissionError):
        return f"no permission to use {address}: ask its owner, or start your own with `tgpu up`"
    if isinstance(error, FileNotFoundError | ConnectionRefusedError | TimeoutError):
        return f"no server at {tried[0]}: start it with `tgpu up`"
    return f"cannot reach the server at {address}: {error}"


def _status(line: bytes) -> int:
    parts = line.split(None, 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not _is_status(parts[1]):  # noqa: PLR2004
        raise DroppedError("the server's answer is not HTTP; is TGPU_SERVER right?")
    return int(parts[1])


def _is_status(text: bytes) -> bool:
    return len(text) == 3 and text.isdigit()  # noqa: PLR2004


def _length(headers: Mapping[str, str]) -> int | None:
    """None: the body ends with the connection."""
    text = headers.get("content-length", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise DroppedError(f"the server sent a broken Content-Length: {text[:20]!r}")
    return int(text)


def _headers(wire: Wire) -> dict[str, str]:
    headers: dict[str, str] = {}
    count = 0
    while line := wire.line():
        count += 1
        if count > _MAX_HEADERS:
            raise DroppedError(f"the server's answer has more than {_MAX_HEADERS} headers; it is not read")
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers
