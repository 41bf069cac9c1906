"""Keeps web pages out: a browser's request is told by its Host and Origin, which a page cannot forge."""

import re

from litestar.types import Scope

from tgpu.api.peercred import peer_of
from tgpu.api.problems import ProblemError, forbidden

_LOOPBACK = re.compile(rb"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


def check_origin(scope: Scope) -> None:
    """Raises ProblemError for a foreign Host (DNS rebinding) or a foreign Origin (cross-site request)."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if peer_of(scope) is not None:
        if origins:
            raise forbidden("no web page talks to the unix socket: send no Origin header")
        return
    if len(hosts) != 1 or not _LOOPBACK.fullmatch(hosts[0]):
        raise ProblemError(
            421,
            "wrong-host",
            "this server answers only to 127.0.0.1, localhost and [::1]: check the Host header",
        )
    if any(origin.lower() != b"http://" + hosts[0].lower() for origin in origins):
        raise forbidden("requests made by web pages of other origins are refused")
