"""Connection limits: how many connections one user, one address and all strangers together may hold open.

Descriptors beyond `total` are never given to strangers: they are left for the server's own files, for root
and the server's own user on the unix socket, and for agents that have shown their key.
"""

import ipaddress
import resource
from collections import defaultdict
from collections.abc import Callable, Hashable
from enum import Enum

from tgpu.config.settings import Settings

UNDECIDED_PER_ADDRESS = 8192
"""Connections that have not said what they are, and agents that have not shown their key: after a change of
leader all nodes connect at once, and those behind one gateway have one address."""
MOST_STRANGERS = 20_480
_IPV6_NETWORK_BITS = 64


class Kind(Enum):
    """What a connection is counted as."""

    USER = "user"
    """HTTP over the unix socket, by uid."""
    UNDECIDED = "undecided"
    """Over TCP, by address, before it has said what it is; also an agent before it has shown its key."""
    HTTP = "http"
    """HTTP over TCP, by address."""


class TooManyConnectionsError(Exception):
    """No room for one more; the text says of what there are too many."""


def _stays() -> bool:
    return False


class Visit:
    """One open connection, counted until it leaves."""

    __slots__ = ("_limits", "_place", "make_way")

    def __init__(self, limits: "ConnectionLimits", make_way: Callable[[], bool]) -> None:
        """`make_way`: closes the connection if it is idle, and returns whether it did."""
        self._limits: ConnectionLimits | None = limits
        self._place: tuple[Kind, Hashable] | None = None
        self.make_way = make_way

    def stay(self) -> None:
        """From now on it is in use, and does not make way."""
        self.make_way = _stays

    def count_as(self, kind: Kind, source: Hashable) -> None:
        """Raises TooManyConnectionsError, and is not counted then."""
        if self._limits is not None:
            limits = self._limits
            self._leave_place()
            limits.make_room(kind, source)
            self._place = (kind, source)
            limits.visits[self._place][self] = None
            limits.count += 1

    def leave(self) -> None:
        """Closed, or known and not limited any more. May be called again."""
        self._leave_place()
        self._limits = None

    def _leave_place(self) -> None:
        if self._limits is None or self._place is None:
            return
        limits, place = self._limits, self._place
        self._place = None
        del limits.visits[place][self]
        limits.count -= 1
        if not limits.visits[place]:
            del limits.visits[place]


class ConnectionLimits:
    """One for all listeners of a server."""

    def __init__(self, *, per_user: int, per_address: int, total: int) -> None:
        self._most = {
            Kind.USER: per_user,
            Kind.UNDECIDED: UNDECIDED_PER_ADDRESS,
            Kind.HTTP: per_address,
        }
        self._total = total
        self.visits: defaultdict[tuple[Kind, Hashable], dict[Visit, None]] = defaultdict(dict)
        """The oldest first."""
        self.count = 0

    @classmethod
    def of_this_process(cls, settings: Settings) -> "ConnectionLimits":
        """At most half of the descriptors that the process may have are for strangers."""
        return cls(
            per_user=settings.connections_per_user,
            per_address=settings.connections_per_address,
            total=min(MOST_STRANGERS, _raised_descriptor_limit() // 2),
        )

    def enter(self, kind: Kind, source: Hashable, make_way: Callable[[], bool]) -> Visit:
        """Raises TooManyConnectionsError."""
        visit = Visit(self, make_way)
        visit.count_as(kind, source)
        return visit

    def unlimited(self) -> Visit:
        """For root and the server's own user."""
        visit = Visit(self, _stays)
        visit.leave()
        return visit

    def make_room(self, kind: Kind, source: Hashable) -> None:
        """The oldest idle connection of the same source makes way for a new one; if the strangers are too
        many altogether, the oldest idle one of the source that has most. Raises TooManyConnectionsError."""
        own = self.visits.get((kind, source), {})
        if len(own) >= self._most[kind] and not _one_made_way(own):
            raise TooManyConnectionsError(f"{len(own)} connections of {_named(kind, source)} are in use")
        if self.count >= self._total and not _one_made_way(max(self.visits.values(), key=len)):
            raise TooManyConnectionsError(f"{self.count} connections are open, as many as this server allows")


def _one_made_way(visits: dict[Visit, None]) -> bool:
    for visit in visits:
        if visit.make_way():
            visit.leave()
            return True
    return False


def _named(kind: Kind, source: Hashable) -> str:
    return f"uid {source}" if kind is Kind.USER else f"address {source}"


def source_of(host: str) -> str:
    """By which connections over TCP are counted: an IPv6 host has a whole network of addresses."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _IPV6_NETWORK_BITS), strict=False))
    return str(address)


def _raised_descriptor_limit() -> int:
    """Many systems begin with 1,024 open files for a process, and a cluster has more nodes than that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return MOST_STRANGERS * 2 if hard == resource.RLIM_INFINITY else hard
