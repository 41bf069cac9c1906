"""The account of the process at the other end of a connection on this machine: is it the server's?

Any user can take a port of the loopback interface, or a path in a shared directory, while the server is down.
The kernel says whose process answers. Only root, the caller's own account and the one in TGPU_SERVER_USER are
trusted.
"""

# pathlib costs 7 ms of every start:
# ruff: noqa: PTH120, PTH123

from __future__ import annotations

import os
import socket
import sys

from tgpu.client.errors import UnreachableError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class Connected(Protocol):
        """As much of a connected socket as is looked at."""

        @property
        def family(self) -> int: ...
        def getsockname(self) -> object: ...
        def getpeername(self) -> object: ...
        def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


SERVER_USER = "TGPU_SERVER_USER"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED, _LISTEN, _NO_INODE = "01", "0A", "0"
_MAPPED = bytes(10) + b"\xff\xff"
_MOST_LOOKS = 100


def check_account(sock: Connected, what: object, path: str = "") -> None:
    """Raises UnreachableError if a process of another account answers on this machine. `path`: of a unix
    socket."""
    why = distrust_of(sock)
    if why is None and path:
        why = _directory_distrust(path)
    if why is not None:
        raise UnreachableError(
            f"{what} {why}, which is neither root nor your own account, so nothing was sent to it. If the "
            f"server runs as that account, set {SERVER_USER} to its name; if not, that account has taken the "
            "server's place: tell an administrator"
        )


def distrust_of(sock: Connected) -> str | None:
    """Why the other end is not trusted; None if it is, or if it is on another machine. Raises OSError if the
    connection is gone, or the kernel does not say whose it is."""
    if sock.family == socket.AF_UNIX:
        size = 12
        data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        accounts = {int.from_bytes(data[4:8], sys.byteorder)}
    elif is_on_this_machine(sock):
        accounts = _tcp_accounts(sock)
    else:
        return None
    strangers = sorted(accounts - _trusted())
    return f"is a process of {' and '.join(map(_named, strangers))}" if strangers else None


def is_on_this_machine(sock: Connected) -> bool:
    own, peer = _address(sock.getsockname())[0], _address(sock.getpeername())[0]
    loopback = peer[:1] == b"\x7f" if len(peer) == 4 else peer == bytes(15) + b"\x01"  # noqa: PLR2004  IPv4
    return loopback or own == peer


def _directory_distrust(path: str) -> str | None:
    owner = os.stat(os.path.dirname(path) or ".").st_uid  # noqa: PTH116  see above
    return None if owner in _trusted() else f"is in a directory of {_named(owner)}"


def _trusted() -> set[int]:
    trusted, said = {0, os.geteuid()}, os.environ.get(SERVER_USER, "").strip()
    if said.isascii() and said.isdigit():
        trusted.add(int(said))
    elif said:
        import pwd  # noqa: PLC0415  few have to say it

        try:
            trusted.add(pwd.getpwnam(said).pw_uid)
        except KeyError:
            raise UnreachableError(f"{SERVER_USER} is {said!r}, and there is no such account here") from None
    return trusted


def _named(uid: int) -> str:
    import pwd  # noqa: PLC0415  only for complaints

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _tcp_accounts(sock: Connected) -> set[int]:
    """Of the socket at the other end. A connection that waits to be accepted has no owner yet: it belongs to
    its listener, which cannot have changed as long as it waits."""
    own, peer = _address(sock.getsockname()), _address(sock.getpeername())
    for _ in range(_MOST_LOOKS):
        uid, inode = _other_end(peer, own)
        if inode != _NO_INODE:
            return {uid}
        listeners = _listeners(peer)
        if listeners and _other_end(peer, own)[1] == _NO_INODE:
            return listeners
    raise ConnectionResetError("the kernel does not say which process answers")


def _other_end(peer: tuple[bytes, int], own: tuple[bytes, int]) -> tuple[int, str]:
    """Its account and inode."""
    ends = {(local, remote) for local in _written(peer) for remote in _written(own)}
    for local, remote, state, uid, inode in _rows():
        if (local, remote) in ends and state == _ESTABLISHED:
            return uid, inode
    raise ConnectionResetError("the process that answered has closed the connection")


def _listeners(peer: tuple[bytes, int]) -> set[int]:
    everywhere = ((bytes(4), peer[1]), (bytes(16), peer[1]))
    heard_by = {text for address in (peer, *everywhere) for text in _written(address)}
    return {uid for local, _, state, uid, _ in _rows() if state == _LISTEN and local in heard_by}


def _rows() -> Iterator[tuple[str, str, str, int, str]]:
    for path in _TABLES:
        try:
            with open(path, encoding="ascii") as file:
                next(file, None)  # the names of the columns
                for line in file:
                    column = line.split()
                    yield column[1], column[2], column[3], int(column[7]), column[9]
        except FileNotFoundError:  # a kernel without IPv6
            continue


def _address(name: object) -> tuple[bytes, int]:
    """Bytes and port; an IPv4 address is the same however it is written."""
    assert isinstance(name, tuple)
    host, port = str(name[0]).partition("%")[0], int(name[1])
    data = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    return data.removeprefix(_MAPPED), port


def _written(address: tuple[bytes, int]) -> list[str]:
    """As the kernel's tables write it: words of four bytes in the machine's order."""
    data, port = address
    forms = [data] if len(data) > len(bytes(4)) else [data, _MAPPED + data]
    return [f"{_words(form)}:{port:04X}" for form in forms]


def _words(data: bytes) -> str:
    words = (data[i : i + 4] for i in range(0, len(data), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
