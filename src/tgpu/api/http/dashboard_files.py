"""Dashboard files: serves the built web interface at `/ui/`, from memory, to any browser.

The files contain no data of the cluster; what a page shows it asks of the API, which authenticates it.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from tgpu.api.auth.browser_access import BrowserAccess, is_process_name
from tgpu.api.origin import requested_host
from tgpu.api.peercred import peer_of
from tgpu.config.dashboard_folder import INDEX

ROOT = "/ui/"
_METHODS = frozenset({"GET", "HEAD"})
_ASSETS = "assets/"
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_SECURITY = {
    "content-security-policy": _CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
    ".map": "application/json",
}
_ENCODINGS = {"br": ".br", "gzip": ".gz"}
"""The preferred one first."""
_FOREVER, _CHECKED, _NEVER = "public, max-age=31536000, immutable", "no-cache", "no-store"
_MISSING = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tgpu: dashboard not built</title></head>
<body><h1>The dashboard is not built</h1>
<p>This installation of tgpu has no dashboard files. In a source tree, run <code>make web</code> (it needs
Node.js) and reload this page. Packages made with <code>make wheel</code> contain the dashboard.</p>
<p>The command line and the HTTP API work without it.</p></body></html>
"""


@dataclass(frozen=True, slots=True)
class _File:
    content_type: str
    cache: str
    etag: str
    bodies: Mapping[str, bytes]
    """By content encoding; the plain one under the empty name."""


@dataclass(frozen=True, slots=True)
class _Build:
    """The folder's files by their path below it, as of one state of the folder."""

    stamp: tuple[int, ...]
    files: Mapping[str, _File]


class DashboardFiles:
    """An ASGI application for `/ui/`, and for `/` if a browser asks."""

    def __init__(self, browser: BrowserAccess, folder: Path) -> None:
        self._browser, self._folder = browser, folder
        self._build = _Build((), {})
        self._reading = asyncio.Lock()

    def answers(self, scope: Scope) -> bool:
        """Called for every request: it must cost next to nothing."""
        path = scope["path"]
        return path.startswith(ROOT) or path == "/ui" or (path == "/" and _is_browser(scope))

    def redirects(self, scope: Scope) -> bool:
        """Whether the request names an earlier process of a server on this port, as a page does that was open
        while the server was restarted."""
        name, own = requested_host(scope)[0], self._browser.own_name
        return bool(own) and name != own and is_process_name(name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  as ASGI has it
        if scope.get("method") not in _METHODS:
            await _send(send, 405, {"allow": "GET, HEAD", "content-type": _TYPES[".txt"]}, b"GET or HEAD\n")
            return
        location = self._elsewhere(scope)
        if location is not None:
            await _send(send, 303, {"location": location, "cache-control": _NEVER}, b"")
            return
        name = scope["path"].removeprefix(ROOT)
        build = await self._current()
        found = build.files.get(name)
        if found is None and name.startswith(_ASSETS):
            await _send(send, 404, {"content-type": _TYPES[".txt"], "cache-control": _NEVER}, b"not found\n")
            return
        found = found or build.files.get(INDEX)
        if found is None:
            headers = {"content-type": _TYPES[".html"], "cache-control": _NEVER}
            await _send(send, 503, headers, _MISSING)
            return
        await _send_file(scope, send, found)

    def _elsewhere(self, scope: Scope) -> str | None:
        """Where the browser should go instead: below `/ui/`, and on plain ports to the host name of this
        process, so that no other server receives its cookie."""
        path = scope["path"]
        target = path if path.startswith(ROOT) else ROOT
        own = self._browser.own_name
        if own and peer_of(scope) is None and not path.startswith(ROOT + _ASSETS):
            name, port = requested_host(scope)
            if name != own:
                return f"http://{own}{port}{_quoted(scope, target)}"
        return None if target == path else target

    async def _current(self) -> _Build:
        """Read again when the folder was built again."""
        stamp = _stamp(self._folder)
        if stamp != self._build.stamp:
            async with self._reading:
                if stamp != self._build.stamp:
                    self._build = _Build(stamp, await asyncio.to_thread(_read, self._folder))
        return self._build


def _is_browser(scope: Scope) -> bool:
    accepts_html = any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
    return accepts_html and scope.get("method") in _METHODS


def _quoted(scope: Scope, target: str) -> str:
    """As the browser sent it: nothing in it needs to be escaped again."""
    if target != scope["path"]:
        return target
    query = scope["query_string"]
    raw: bytes = scope["raw_path"] + (b"?" + query if query else b"")
    return raw.decode("latin-1")


def _stamp(folder: Path) -> tuple[int, ...]:
    found: list[int] = []
    for path in (folder / INDEX, folder / _ASSETS):
        try:
            status = path.stat()
        except OSError:
            return ()
        found += (status.st_ino, status.st_mtime_ns)
    return tuple(found)


def _read(folder: Path) -> dict[str, _File]:
    plain = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in _ENCODINGS.values()]
    return {path.relative_to(folder).as_posix(): _file(folder, path) for path in plain}


def _file(folder: Path, path: Path) -> _File:
    name, content = path.relative_to(folder).as_posix(), path.read_bytes()
    bodies = {"": content}
    for encoding, suffix in _ENCODINGS.items():
        packed = path.with_name(path.name + suffix)
        if packed.is_file():
            bodies[encoding] = packed.read_bytes()
    cache = _NEVER if name == INDEX else _FOREVER if name.startswith(_ASSETS) else _CHECKED
    digest = hashlib.sha256(content).hexdigest()[:32]
    return _File(_TYPES.get(path.suffix, "application/octet-stream"), cache, digest, bodies)


async def _send_file(scope: Scope, send: Send, file: _File) -> None:
    encoding = _encoding(scope, file)
    etag = f'"{file.etag}-{encoding}"' if encoding else f'"{file.etag}"'
    headers = {"etag": etag, "cache-control": file.cache}
    if len(file.bodies) > 1:
        headers["vary"] = "accept-encoding"
    if _has(scope, etag):
        await _send(send, 304, headers, b"")
        return
    headers["content-type"] = file.content_type
    if encoding:
        headers["content-encoding"] = encoding
    await _send(send, 200, headers, file.bodies[encoding])


def _encoding(scope: Scope, file: _File) -> str:
    accepted: set[str] = set()
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            for part in value.decode("latin-1").lower().split(","):
                coding, _, quality = part.partition(";")
                if quality.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}:
                    accepted.add(coding.strip())
    return next((each for each in _ENCODINGS if each in accepted and each in file.bodies), "")


def _has(scope: Scope, etag: str) -> bool:
    said = [value.decode("latin-1") for name, value in scope["headers"] if name == b"if-none-match"]
    return any(etag == one.strip().removeprefix("W/") for value in said for one in value.split(","))


async def _send(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    written = {**_SECURITY, **headers}
    if status != 304:  # noqa: PLR2004
        written["content-length"] = str(len(body))
    head: Any = {
        "type": "http.response.start",
        "status": status,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in written.items()],
    }
    await send(head)
    await send({"type": "http.response.body", "body": body, "more_body": False})
