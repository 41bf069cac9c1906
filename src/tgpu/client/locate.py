"""Finds the server: TGPU_SERVER, then the socket in TGPU_HOME, then the cluster that was joined, then the
machine's own socket.
"""

# pathlib costs 7 ms of every start:
# ruff: noqa: PTH110, PTH118, PTH123

from __future__ import annotations

import os
import stat

from tgpu.client.errors import UnreachableError
from tgpu.config.home_path import SYSTEM_HOME, data_home, home_path, is_of_root

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping

SYSTEM_SOCKET = "/run/tgpu/tgpu.sock"
OWNER_SOCKET = "owner.sock"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Address:
    """Where a server listens: `unix`, `http` or `https`, and the path or the host and port."""

    __slots__ = ("host", "instead_of_tcp", "path", "port", "scheme")

    def __init__(
        self, scheme: str, *, path: str = "", host: str = "", port: int = 0, instead_of_tcp: bool = False
    ) -> None:
        """`instead_of_tcp`: the socket of a server that was named by its TCP address."""
        self.instead_of_tcp = instead_of_tcp
        self.scheme = scheme
        self.path = path
        self.host = host
        self.port = port

    def __str__(self) -> str:
        if self.scheme == "unix":
            return self.path
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """What the Host header says."""
        if self.scheme == "unix":
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse(url: str) -> Address:
    """`unix:///path`, `http://host:port`, `https://host`, or a bare path."""
    scheme, found, rest = url.partition("://")
    if not found and url.startswith("/"):
        return Address("unix", path=url)
    if scheme == "unix" and rest.startswith("/"):
        return Address("unix", path=rest)
    if scheme in _DEFAULT_PORTS:
        host, port = _host_and_port(rest.rstrip("/"), _DEFAULT_PORTS[scheme])
        if host and port:
            return Address(scheme, host=host, port=port)
    raise UnreachableError(
        f"TGPU_SERVER is {url!r}; it must look like unix:///run/tgpu/tgpu.sock or https://gpu1:7480"
    )


def parse_all(urls: str) -> list[Address]:
    """One server, or several of one cluster with commas between them."""
    return [parse(url.strip()) for url in urls.split(",") if url.strip()] or [parse(urls)]


def with_sockets(named: list[Address], environ: Mapping[str, str]) -> list[Address]:
    """Before a plain address of this machine, the unix socket of the installation that listens there: its
    path cannot be taken by another user while the server is down."""
    homes = {os.path.join(home_path(environ), "run"): "", os.path.join(SYSTEM_HOME, "run"): SYSTEM_SOCKET}
    found = []
    for address in named:
        if address.scheme == "http":
            for run, public in homes.items():
                if _listens_at(run) == str(address):
                    paths = (public, os.path.join(run, "tgpu.sock"))
                    path = next((path for path in paths if path and os.path.exists(path)), None)
                    if path is not None:
                        found.append(Address("unix", path=path, instead_of_tcp=True))
        found.append(address)
    return found


def _listens_at(run: str) -> str:
    """What the server of that installation has written there."""
    try:
        with open(os.path.join(run, "address"), encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def candidates(environ: Mapping[str, str]) -> list[Address]:
    """Where to try, in order. Who names servers or a home means those and no others."""
    said = environ.get("TGPU_SERVER")
    if said:
        return with_sockets(parse_all(said), environ)
    own = Address("unix", path=os.path.join(home_path(environ), "run", "tgpu.sock"))
    if not os.path.exists(own.path) and (joined := _servers_joined(environ)):
        return joined
    if environ.get("TGPU_HOME"):
        return [own]
    return [own, Address("unix", path=SYSTEM_SOCKET)]


def owner_socket(address: Address) -> str | None:
    """The socket beside this one that only root and the server's own user can open, if we can."""
    folder, name = os.path.split(address.path)
    path = os.path.join(folder, OWNER_SOCKET)
    return path if name == "tgpu.sock" and os.access(path, os.W_OK) else None


def _servers_joined(environ: Mapping[str, str]) -> list[Address]:
    """Those of the cluster of which this machine is a node, if it is one and that is ours to read."""
    path = os.path.join(home_path(environ), "agent", "identity.json")
    try:
        with open(path, encoding="utf-8") as file:
            import json  # noqa: PLC0415  only nodes pay for it

            return [parse(url) for url in json.load(file)["servers"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def token(environ: Mapping[str, str], address: Address) -> str | None:
    """TGPU_TOKEN, or over TCP the file `token` in the home; a unix socket knows its caller anyway."""
    said = environ.get("TGPU_TOKEN")
    if said:
        return said.strip()
    if address.scheme == "unix" and not address.instead_of_tcp:
        return None
    path = _own_file(environ, "token")
    if path is None:
        return None
    try:
        with open(path, encoding="ascii") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise UnreachableError(f"{path} can be read by others; run: chmod 600 {path}")
            return file.read().strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UnreachableError(f"cannot read the token in {path}: {error}") from error


def authority(environ: Mapping[str, str]) -> str | None:
    """The file of the certificate that servers are known by: TGPU_CA, or `ca.pem` in the home; None: whom the
    machine trusts. TGPU_CA may also be the certificate itself, as it is in containers."""
    said = environ.get("TGPU_CA")
    if said:
        return said
    return _own_file(environ, "ca.pem")


def _own_file(environ: Mapping[str, str], name: str) -> str | None:
    """In the home, or for root, whose home is the machine's, in root's own data directory; not in that of the
    user who called sudo."""
    homes = [home_path(environ)]
    if not environ.get("TGPU_HOME") and (os.geteuid() != 0 or is_of_root(data_home(environ))):
        homes.append(data_home(environ))
    paths = (os.path.join(home, name) for home in homes)
    return next((path for path in paths if os.path.lexists(path)), None)


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, _, rest = authority[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    if not port:
        return host, default
    return host, int(port) if port.isascii() and port.isdigit() else 0
