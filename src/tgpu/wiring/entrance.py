"""The door of a server to other machines: its listening socket, its names, its TLS, and who is let in."""

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from tgpu.api.auth.browser_access import BrowserAccess, new_host_name
from tgpu.config.settings import Settings
from tgpu.control.hub import Hub
from tgpu.wiring import home
from tgpu.wiring.addresses import (
    advertised_url,
    check_advertise,
    has_localhost_name,
    loopback_twin,
    tcp_listener,
    url_of,
)
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
    twin: socket.socket | None = None
    """The same port on the other loopback address."""
    browser: BrowserAccess = field(default_factory=BrowserAccess)

    @property
    def listeners(self) -> list[socket.socket]:
        return [self.listener] if self.twin is None else [self.listener, self.twin]

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
    local_url = url_of(listener, encrypted=settings.encrypted)
    if tls is not None:
        browser = BrowserAccess(url, server_id=home.server_id(settings))
        return Entrance(listener, local_url, url, names, tls, browser=browser)
    twin, browser = _plain_access(settings, listener)
    return Entrance(listener, local_url, url, names, None, twin, browser)


def _plain_access(settings: Settings, listener: socket.socket) -> tuple[socket.socket | None, BrowserAccess]:
    """Browsers can sign in on a plain port only if no other process answers for its host name."""
    port = listener.getsockname()[1]
    if not has_localhost_name(listener):
        return None, BrowserAccess(
            closed=f"browsers cannot sign in on {settings.listen}: set listen to 127.0.0.1:{port}, or use TLS"
        )
    try:
        twin = loopback_twin(listener)
    except OSError as error:
        return None, BrowserAccess(
            closed=f"browsers cannot sign in, because another process has port {port} on the other loopback "
            f"address and would receive their requests ({error.strerror}): stop it and restart tgpu, or "
            "choose another port with --listen"
        )
    url = f"http://{new_host_name()}:{port}"
    return twin, BrowserAccess(url, server_id=home.server_id(settings))


def agent_links(hub: Hub, keys: Keys, now_ms: Callable[[], int]) -> LinkFactory:
    """The server's ends of agents' streams over this door."""
    ring, crowd = KeyRing(keys), Crowd()
    return lambda visit: KeyedAgentLink(hub, ring, crowd, now_ms, visit)
