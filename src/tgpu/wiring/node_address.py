"""Where the tasks of a gang reach this node."""

import socket
from urllib.parse import urlsplit

from tgpu.config.settings import Settings

_ANY_PORT = 9


def node_address(settings: Settings, called: str) -> str:
    """As the settings say; else the address by which it reaches the server that it called last; else, of the
    server's own machine, the host name."""
    if settings.node_address:
        return settings.node_address
    return _towards(called) or socket.gethostname()


def _towards(url: str) -> str | None:
    """The machine's own address on the way there: nothing is sent to find out."""
    try:
        host = urlsplit(url).hostname if url.startswith(("http://", "https://")) else None
        if host is None:
            return None
        family, kind, protocol, _, address = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return None
