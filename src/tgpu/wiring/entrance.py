"""The door of a server to other machines: its listening socket, its names, its TLS, and who is let in."""

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from tgpu.config.settings import Settings
from tgpu.control.hub import Hub
from tgpu.wiring import home
from tgpu.wiring.addresses import advertised_url, check_advertise, tcp_listener, url_of
from tgpu.wiring.crowd import Crowd
from tgpu.wiring.key_ring import KeyRing, Keys
from tgpu.wiring.keyed_link import KeyedAgentLink
from tgpu.wiring.one_port import LinkFactory
from tgpu.wiring.tls import Secrets, ServerTls, certified_names, server_tls


@dataclass(frozen=True, slots=True)
class Entrance:
    listener: socket.socket
    local_url: str
    """For this machine."""
    url: str
    """For all others."""
    names: frozenset[str]
    """Under which it may be called."""
    tls: ServerTls | None

    @property
    def context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else self.tls.context

    @property
    def ca_pem(self) -> str | None:
        return None if self.tls is None else self.tls.ca_pem

    def dialing(self) -> ssl.SSLContext | None:
        """For calls to the other servers."""
        return None if self.tls is None else self.tls.dialing()


async def open_entrance(settings: Settings, store: Secrets) -> Entrance | None:
    """None if the settings want none. Raises SettingsError."""
    check_advertise(settings)
    listener = tcp_listener(settings.listen, encrypted=settings.encrypted, last=home.last_url(settings))
    if listener is None:
        return None
    try:
        url = advertised_url(settings, listener)
        names = (
            frozenset(certified_names(settings, url))
            if settings.encrypted or settings.advertise
            else frozenset()
        )
        tls = await server_tls(settings, store, url)
    except BaseException:
        listener.close()
        raise
    return Entrance(listener, url_of(listener, encrypted=settings.encrypted), url, names, tls)


def agent_links(hub: Hub, keys: Keys, now_ms: Callable[[], int]) -> LinkFactory:
    """The server's ends of agents' streams over this door."""
    ring, crowd = KeyRing(keys), Crowd()
    return lambda visit: KeyedAgentLink(hub, ring, crowd, now_ms, visit)
