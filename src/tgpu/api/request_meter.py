"""Request meter: counts what one HTTP request has sent and refuses what no honest client sends."""

from http import HTTPStatus

MOST_HEAD_BYTES = 64 * 1024
MOST_HEADERS = 100
MOST_FRAMING_BYTES = 64 * 1024
"""Of a body's chunk sizes, chunk extensions and trailers, beside those of `FRAMING_PER_BODY_BYTE`."""
FRAMING_PER_BODY_BYTE = 16
"""A chunk of one byte costs five more; a client may write the size with leading zeros."""
MOST_DISCARDED_BYTES = 1024 * 1024
"""Of a body that arrives although its request is answered already; then the connection is closed."""
_AROUND_HEADER = 4
"""The colon, the blank and the end of the line."""


class RequestTooLargeError(Exception):
    """`status` is what the client gets; the text says which limit it exceeded."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class RequestMeter:
    """One for each connection, started again with each request."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A request begins."""
        self.in_head = True
        self._fed = self._head = self._headers = 0
        self._body_fed = self._body = self._discarded = 0

    def fed(self, size: int) -> None:
        """The parser took `size` bytes and has called back for their content. Raises RequestTooLargeError."""
        if self.in_head:
            self._fed += size
            if self._fed >= MOST_HEAD_BYTES:
                raise _head_too_large()
            return
        self._body_fed += size
        if self._body_fed - self._body > MOST_FRAMING_BYTES + FRAMING_PER_BODY_BYTE * self._body:
            raise RequestTooLargeError(
                HTTPStatus.BAD_REQUEST, "the body has more chunk extensions and trailers than content"
            )

    def target(self, size: int) -> None:
        """A piece of the request's target."""
        self._count_in_head(size)

    def header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        if self._headers > MOST_HEADERS:
            raise RequestTooLargeError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the request may have at most {MOST_HEADERS} headers; send fewer",
            )
        self._count_in_head(len(name) + len(value) + _AROUND_HEADER)

    def _count_in_head(self, size: int) -> None:
        self._head += size
        if self._head > MOST_HEAD_BYTES:
            raise _head_too_large()

    def head_complete(self) -> None:
        self.in_head = False

    def body(self, size: int) -> None:
        self._body += size

    def discarded(self, size: int) -> bool:
        """Whether so much of the body was for nothing that the connection should be closed."""
        self._discarded += size
        return self._discarded > MOST_DISCARDED_BYTES

    @property
    def body_bytes(self) -> int:
        return self._body


def _head_too_large() -> RequestTooLargeError:
    return RequestTooLargeError(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        f"the head of a request may have at most {MOST_HEAD_BYTES // 1024} KiB; send shorter headers",
    )
