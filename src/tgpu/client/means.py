"""How a client reaches a server and lets time pass: it waits. Who must not wait brings other means."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time

from tgpu.client import locate
from tgpu.client.errors import UnreachableError
from tgpu.client.server_account import check_account

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from typing import ParamSpec, Protocol, TypeVar

    from tgpu.client.locate import Address

    P = ParamSpec("P")
    R = TypeVar("R")

    class Plug(Protocol):
        """As much of a socket as a client needs. Nothing came in time: TimeoutError."""

        def recv(self, at_most: int, /) -> bytes: ...
        def sendall(self, data: bytes, /) -> None: ...
        def settimeout(self, seconds: float | None, /) -> None: ...
        def close(self) -> None: ...


_LOOK_S = 5.0
_PEM = "-----BEGIN "


class Means:
    """Those of a thread that may wait."""

    def open(self, address: Address, timeout: float) -> Plug:
        """Connected. Raises OSError, or UnreachableError if the reason is known."""
        if address.scheme == "unix":
            return local_socket(address, timeout)
        if address.scheme == "http":
            return _plain(address, timeout)
        context = tls_context()
        sock = socket.create_connection((address.host, address.port), timeout)
        try:
            return context.wrap_socket(sock, server_hostname=address.host)
        except OSError as error:
            sock.close()
            told = distrust(address, error)
            if told is None:
                raise
            raise told from error

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def aside(self, ask: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """What may wait on something else than these means do."""
        return ask(*arguments, **named)


def local_socket(address: Address, timeout: float, *, waits: bool = True) -> socket.socket:
    """Connected to a server on this machine, by the owner's own socket if we can. Where many connect at once
    it waits in line; if it is not to, it raises BlockingIOError then. Raises OSError."""
    owners = locate.owner_socket(address)
    if owners is not None:
        try:
            return _connected(address, owners, timeout, waits=waits)
        except OSError:  # of a server that was killed, or is older
            pass
    return _connected(address, address.path, timeout, waits=waits)


def _connected(address: Address, path: str, timeout: float, *, waits: bool) -> socket.socket:
    """A socket with a timeout of Python's does not wait in line."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(waits)
    whole, part = divmod(timeout, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(whole), int(part * 1e6)))
    try:
        _connect(sock, path)
        check_account(sock, address, path)
    except BlockingIOError:
        sock.close()
        if not waits:
            raise
        raise TimeoutError(errno.ETIMEDOUT, "too many clients connect to it at once") from None
    except BaseException:
        sock.close()
        raise
    sock.settimeout(timeout)
    return sock


def _connect(sock: socket.socket, path: str) -> None:
    """Python takes a unix socket for connected if a signal interrupted the wait in line: then it waits again.
    Raises OSError."""
    while True:
        sock.connect(path)
        try:
            sock.getpeername()
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise
        else:
            return


def _plain(address: Address, timeout: float) -> socket.socket:
    sock = socket.create_connection((address.host, address.port), timeout)
    try:
        check_account(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def tls_context() -> ssl.SSLContext:
    """Trusts the cluster's authority, if it is known here, else whom the machine trusts."""
    import ssl  # noqa: PLC0415  only who speaks TLS pays for it

    trusted = locate.authority(os.environ)
    try:
        if trusted is not None and trusted.startswith(_PEM):
            return ssl.create_default_context(cadata=trusted)
        return ssl.create_default_context(cafile=trusted)
    except OSError as error:
        raise UnreachableError(
            f"cannot use the authority in {_named(trusted)} ({error.strerror or error}): set TGPU_CA to a "
            "file with what `tgpu server-ca` prints on a server's machine"
        ) from error


def _named(trusted: str | None) -> str:
    return "TGPU_CA" if trusted is not None and trusted.startswith(_PEM) else str(trusted)


def distrust(address: Address, error: OSError) -> UnreachableError | None:
    """What to do, if that is the error: the server's certificate is not trusted."""
    import ssl  # noqa: PLC0415  only who speaks TLS pays for it

    if not isinstance(error, ssl.SSLCertVerificationError):
        return None
    trusted = locate.authority(os.environ)
    by = f"by {_named(trusted)}" if trusted else "on this machine"
    return UnreachableError(
        f"the certificate of {address} is not trusted {by} ({error.verify_message}): fetch the cluster's "
        "with `tgpu server-ca` on a machine that has it, and put it into TGPU_HOME/ca.pem, or into a "
        "file that TGPU_CA names"
    )


def speaks_tls(address: Address) -> bool:
    """Nothing is told to it: whoever it is, they are asked only for which language they speak."""
    import ssl  # noqa: PLC0415  only who speaks TLS pays for it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((address.host, address.port), _LOOK_S) as sock:
            context.wrap_socket(sock).close()
    except OSError:
        return False
    return True
