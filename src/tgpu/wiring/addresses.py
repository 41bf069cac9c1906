"""The TCP address of the API: loopback only."""

import ipaddress
import socket

from tgpu.config.settings import SettingsError

PREFERRED_PORT = 7480


def tcp_listener(listen: str) -> socket.socket | None:
    """`auto` prefers the usual port and takes any free one if another installation has it."""
    if listen == "off":
        return None
    if listen == "auto":
        try:
            return _bind("127.0.0.1", PREFERRED_PORT)
        except OSError:
            return _bind("127.0.0.1", 0)
    host, port = _parse(listen)
    try:
        return _bind(host, port)
    except OSError as error:
        raise SettingsError(f"cannot listen on {listen}: {error.strerror}; choose another port") from error


def check_listen(listen: str) -> None:
    """Raises SettingsError for what could never be listened on."""
    if listen not in ("auto", "off"):
        _parse(listen)


def _parse(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if host == "localhost":
        host = "127.0.0.1"
    if not port.isdigit() or int(port) > 65535:  # noqa: PLR2004
        raise SettingsError(f"listen must be HOST:PORT, such as 127.0.0.1:7480; got {listen!r}")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise SettingsError(f"listen must be a loopback address, such as 127.0.0.1:{port}; got {listen!r}")
    return host, int(port)


def _bind(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
