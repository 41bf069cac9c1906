"""One conversation with the server: JSON in, JSON out, and its refusals as exceptions."""

from __future__ import annotations

import json
import os
import time

from tgpu.client import locate
from tgpu.client.errors import DroppedError, ReadTimeoutError, SilentError, TgpuError, UnreachableError
from tgpu.client.means import Means
from tgpu.client.transport import Connection, Response

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import Any

    _Ask = tuple[str, str, dict[str, str], bytes]

_ASK_AGAIN_S = 10.0
_PAUSE_S = 0.2
_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~,:/")
_OK = range(200, 300)
_TRY_AGAIN = (429, 503)
_PASSING = (b"urn:tgpu:problem:no-leader", b"urn:tgpu:problem:too-much-at-once")
_REPEATABLE = frozenset({"GET", "POST", "PUT"})  # a POST carries a key by which the server knows it again
_JSON, _BYTES = "application/json", "application/octet-stream"


class Session:
    """Keeps one connection for short answers, and opens one more for each stream."""

    def __init__(
        self, server: str | None, token: str | None, timeout: float, means: Means | None = None
    ) -> None:
        self.means = means or Means()
        named = locate.with_sockets(locate.parse_all(server), os.environ) if server else None
        self._candidates = named or locate.candidates(os.environ)
        self._token = token
        self._timeout = timeout
        self._kept = Connection(self._candidates, timeout, self.means)

    @property
    def address(self) -> locate.Address:
        """The server that was reached, or the first that will be tried."""
        return self._kept.address

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        raw: bytes | None = None,
        if_version: int | None = None,
        key: str | None = None,
        once: bool = False,
    ) -> Any:  # noqa: ANN401  whatever JSON the server answers
        """The answer's JSON. Raises TgpuError with the server's own words. `raw` is a body that is no JSON;
        with `if_version` only that version is changed. `once`: the server would do it again if it were asked
        again."""
        data, content_type = raw or b"", None if raw is None else _BYTES
        if body is not None:
            data, content_type = json.dumps(body, allow_nan=False).encode(), _JSON
        headers = self._headers(content_type)
        if if_version is not None:
            headers["If-Match"] = f'"{if_version}"'
        if method == "POST":
            # A retried POST is harmless: the server knows the key again.
            headers["Idempotency-Key"] = key or os.urandom(16).hex()
        ask = (method, target(path, query), headers, data)
        if once:
            status, said = self._ask_only_once(ask)
        else:
            status, said = self._ask_until_led(ask)
        if status not in _OK:
            raise refusal(status, said)
        return json.loads(said) if said else {}

    def _ask_only_once(self, ask: _Ask) -> tuple[int, bytes]:
        """On a connection of its own: a kept one may have been closed meanwhile, and is asked again."""
        self._kept.close()
        try:
            return self._ask_once(ask)
        except (DroppedError, SilentError) as error:
            raise type(error)(
                f"{error}; whether it was done is not known: look before you ask for it again"
            ) from None

    def _ask_until_led(self, ask: _Ask) -> tuple[int, bytes]:
        """A request that was refused while no server leads, or while too large ones are under way, has done
        nothing: it is sent again for some seconds."""
        deadline = time.monotonic() + _ASK_AGAIN_S
        while True:
            status, said = self._ask_until_answered(ask) if ask[0] == "POST" else self._ask(ask)
            passes = status in _TRY_AGAIN and any(kind in said for kind in _PASSING)
            if not passes or time.monotonic() >= deadline:
                return status, said
            self.means.sleep(_PAUSE_S)

    def _ask_until_answered(self, ask: _Ask) -> tuple[int, bytes]:
        """If the server dies before it answers, nobody knows whether it took the job: so ask it again.
        A server that was not there in the first place is told at once."""
        try:
            return self._ask(ask)
        except DroppedError:
            deadline = time.monotonic() + _ASK_AGAIN_S
        while True:
            self.means.sleep(_PAUSE_S)
            try:
                return self._ask(ask)
            except UnreachableError:
                if time.monotonic() >= deadline:
                    raise

    def _ask(self, ask: _Ask) -> tuple[int, bytes]:
        """If one server stops in the middle, the next is asked what may be asked twice."""
        others = len(self._candidates) - 1 if ask[0] in _REPEATABLE else 0
        for _ in range(others):
            try:
                return self._ask_once(ask)
            except (DroppedError, SilentError):
                self._kept.give_up(self.address)
        return self._ask_once(ask)

    def _ask_once(self, ask: _Ask) -> tuple[int, bytes]:
        try:
            response = self._kept.request(*ask)
            raw = response.read()
        except ReadTimeoutError:
            self._kept.close()
            raise SilentError(f"the server at {self.address} stopped in the middle of an answer") from None
        except UnreachableError:
            self._kept.close()
            raise
        if not response.reusable:
            self._kept.close()
        return response.status, raw

    def stream(
        self, path: str, query: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> tuple[Connection, Response]:
        """A connection of its own, to be closed by the caller, and the answer's body to read from it."""
        connection = Connection(self._candidates, self._timeout, self.means)
        try:
            response = connection.request(
                "GET", target(path, query), self._headers(None) | dict(headers or {})
            )
            error = None if response.status in _OK else refusal(response.status, response.read())
        except BaseException:
            connection.close()
            raise
        if error is not None:
            connection.close()
            raise error
        return connection, response

    def raw_socket(self) -> tuple[socket.socket, dict[str, str], str]:
        """A connection for whoever speaks something else than HTTP on it, the headers that say who that is,
        and what the Host header says. To be closed by the caller."""
        connection = Connection(self._candidates, self._timeout, self.means)
        sock = connection.raw()
        return sock, self._headers(None, connection.address), connection.address.authority

    def close(self) -> None:
        self._kept.close()

    def _headers(self, content_type: str | None, to: locate.Address | None = None) -> dict[str, str]:
        headers = {"Content-Type": content_type} if content_type else {}
        token = self._token or locate.token(os.environ, to or self.address)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return headers


def target(path: str, query: Mapping[str, object] | None) -> str:
    """Path and query; parameters that are None were not given."""
    given = [(name, value) for name, value in (query or {}).items() if value is not None]
    if not given:
        return quote(path)
    return quote(path) + "?" + "&".join(f"{name}={quote(_text(value))}" for name, value in given)


def quote(text: str) -> str:
    """As urllib.parse.quote, which costs 4 ms to import."""
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in os.fsencode(text))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def refusal(status: int, raw: bytes) -> TgpuError:
    """The problem the server described, or as much of it as can be read."""
    try:
        problem = json.loads(raw)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return TgpuError(status, f"HTTP {status}", raw.decode("utf-8", "replace").strip()[:200])
    title = str(problem.get("title") or f"HTTP {status}")
    return TgpuError(status, title, str(problem.get("detail") or title), problem)
