"""Keeps web pages out: a browser's request is told by its Host and Origin, which a page cannot forge."""

import re
from collections.abc import Collection

from starlette.types import Scope

from tgpu.api.peercred import peer_of
from tgpu.api.problems import ProblemError, forbidden

_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?P<port>:[0-9]{1,5})?")
_PAGES = {"ws": "http", "wss": "https"}
"""How a page is fetched that opens a WebSocket."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def check_origin(scope: Scope, names: Collection[str]) -> None:
    """Raises ProblemError for a foreign Host (DNS rebinding) or a foreign Origin (cross-site request).
    `names`: what this server is called, in small letters, besides loopback."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if peer_of(scope) is not None:
        if origins:
            raise forbidden("no web page talks to the unix socket: send no Origin header")
        return
    if len(hosts) != 1 or not _is_own(hosts[0].decode("latin-1"), scope, names):
        raise ProblemError(
            421,
            "wrong-host",
            "this server answers only to "
            + ", ".join((*_LOOPBACK, *sorted(names)))
            + ": check the Host header; the setting `advertise` adds a name",
        )
    scheme = _PAGES.get(scope["scheme"], scope["scheme"])
    own = f"{scheme}://".encode() + hosts[0].lower()
    if any(origin.lower() != own for origin in origins):
        raise forbidden("requests made by web pages of other origins are refused")


def requested_host(scope: Scope) -> tuple[str, str]:
    """The Host header's name in lower case, and its port with the colon, if it has one; `check_origin` has
    checked it. Empty on the unix socket."""
    match = None
    if peer_of(scope) is None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        match = _HOST.fullmatch(hosts[0].decode("latin-1")) if hosts else None
    return ("", "") if match is None else (match["name"].lower(), match["port"] or "")


def _is_own(host: str, scope: Scope, names: Collection[str]) -> bool:
    """The address that the caller reached is no name that somebody else could point here."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match["name"].strip("[]").lower()
    reached = scope["server"][0] if scope["server"] else None
    return name in _LOOPBACK or name in names or name == reached
