"""The one TCP address of a server: what it listens on, and under which name others reach it."""

import asyncio
import contextlib
import errno
import ipaddress
import random
import socket
from urllib.parse import urlsplit

import psutil

from tgpu.config.settings import Settings, SettingsError

PREFERRED_PORT = 7480
BACKLOG = 4096
"""A cluster's agents all come at once after a change of leader."""
_MOST_PORT = 65535
_KEPT_FREE = range(20_000, 30_000)
_TRIES = 20
_TWINS = {"127.0.0.1": "::1", "::1": "127.0.0.1"}
_NO_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def tcp_listener(listen: str, *, encrypted: bool = False, last: str = "") -> socket.socket | None:
    """`auto` is the port of the URL `last`, on which this server listened before. At the first start it is
    the usual port, or any free one if another installation has that. A server does not move by itself:
    clients and agents would go on calling whichever process took its port."""
    if listen == "off":
        return None
    host, port = _last(last) if listen == "auto" else _parse(listen, encrypted=encrypted)
    if port is None:
        try:
            return _bind_with_twin(host, PREFERRED_PORT)
        except OSError:
            return _bind_free(host)
    if port == 0 and not encrypted:
        return _bind_any(host)
    try:
        return _bind(host, port)
    except OSError as error:
        raise SettingsError(_why_not(listen, f"{_in_url(host)}:{port}", port, error)) from error


def _bind_free(host: str) -> socket.socket:
    """On a port that no outgoing connection is given, so that it is free at the next start, too."""
    for port in random.sample(_KEPT_FREE, 20):
        with contextlib.suppress(OSError):
            return _bind_with_twin(host, port)
    return _bind_any(host)


def _bind_any(host: str) -> socket.socket:
    for _ in range(_TRIES):
        with contextlib.suppress(OSError):
            return _bind_with_twin(host, 0)
    return _bind(host, 0)


def _bind_with_twin(host: str, port: int) -> socket.socket:
    """On a port that is free on the other loopback address, too. Raises OSError."""
    listener = _bind(host, port)
    try:
        twin = loopback_twin(listener)
    except OSError:
        listener.close()
        raise
    if twin is not None:
        twin.close()
    return listener


def loopback_twin(listener: socket.socket) -> socket.socket | None:
    """The same port on the other of the two loopback addresses. Browsers try both for a name below
    `localhost`, so another user's process must not get that one. None if the machine has no such address, or
    the listener is not on one of them. Raises OSError if another process has the port."""
    host, port = listener.getsockname()[:2]
    other = _TWINS.get(host)
    if other is None:
        return None
    try:
        return _bind(other, port)
    except OSError as error:
        if error.errno in _NO_ADDRESS:
            return None
        raise


def has_localhost_name(listener: socket.socket) -> bool:
    """Whether names below `localhost` lead to it."""
    return listener.getsockname()[0] in _TWINS


def _last(url: str) -> tuple[str, int | None]:
    try:
        return "127.0.0.1", urlsplit(url).port
    except ValueError:
        return "127.0.0.1", None


def _why_not(listen: str, address: str, port: int, error: OSError) -> str:
    before = ", where this server listened before" if listen == "auto" else ""
    if error.errno != errno.EADDRINUSE:
        return f"cannot listen on {address}{before}: {error.strerror}; choose another address or port"
    return (
        f"cannot listen on {address}{before}: {_holder(port)} has that port. Stop that process, or choose "
        "another address or port with --listen (TGPU_LISTEN; port 0 is any free one)"
    )


def _holder(port: int) -> str:
    """The process that listens there, as far as the system tells this user."""
    try:
        pids = [
            each.pid
            for each in psutil.net_connections("tcp")
            if each.laddr and each.laddr.port == port and each.status == psutil.CONN_LISTEN
        ]
        process = psutil.Process(next(pid for pid in pids if pid is not None))
        return f"process {process.pid} ({process.name()}, user {process.username()})"
    except (psutil.Error, OSError, StopIteration):
        return "another process"


def check_listen(listen: str, *, encrypted: bool = False) -> None:
    """Raises SettingsError for what could never be listened on."""
    if listen not in ("auto", "off"):
        _parse(listen, encrypted=encrypted)


def _parse(listen: str, *, encrypted: bool) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    host = host.strip("[]")
    if host == "localhost":
        host = "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) <= _MOST_PORT):
        raise SettingsError(f"listen must be HOST:PORT, such as 127.0.0.1:7480; got {listen!r}")
    if not colon:
        raise SettingsError(f"listen must be HOST:PORT: write 127.0.0.1:{port}, or with TLS 0.0.0.0:{port}")
    if not encrypted and not _is_loopback(host):
        raise SettingsError(
            f"listen = {listen!r} is reached from other machines, which needs TLS: set tls = "
            f'"auto" (TGPU_TLS=auto), '
            f"or listen on a loopback address, such as 127.0.0.1:{port}"
        )
    return host or "0.0.0.0", int(port)  # noqa: S104  who turns TLS on and names no host means every one


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket, *, encrypted: bool = False) -> str:
    """As this machine itself reaches it."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"{_scheme(encrypted)}://{_in_url(host)}:{port}"


def advertised_url(settings: Settings, listener: socket.socket) -> str:
    """As other machines reach it: what the settings say, else its address, else the host's name."""
    host, port = listener.getsockname()[:2]
    if settings.advertise:
        return _advertised(settings.advertise, settings.encrypted, port)
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"{_scheme(settings.encrypted)}://{_in_url(host)}:{port}"


def check_advertise(settings: Settings) -> None:
    """Raises SettingsError for what could not be told to anybody."""
    if settings.advertise:
        _advertised(settings.advertise, settings.encrypted, PREFERRED_PORT)


def _advertised(url: str, encrypted: bool, port: int) -> str:
    """A URL without a port means the port that is listened on."""
    scheme = _scheme(encrypted)
    try:
        parts = urlsplit(url)
        said = parts.port
    except ValueError:
        parts, said = urlsplit(""), None
    if parts.scheme != scheme or not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
        raise SettingsError(f"advertise must be a URL such as {scheme}://gpu1.example.org:7480; got {url!r}")
    return f"{scheme}://{_in_url(parts.hostname)}:{said or port}"


async def reach(host: str, port: int) -> socket.socket:
    """Connected. Raises OSError if none of the host's addresses takes the call."""
    loop, failure = asyncio.get_running_loop(), OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


def host_of(url: str) -> str:
    return urlsplit(url).hostname or ""


def _scheme(encrypted: bool) -> str:
    return "https" if encrypted else "http"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
