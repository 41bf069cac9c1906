"""Address under which browsers reach the dashboard of this server process."""

import re
import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import Scope

from tgpu.api.origin import requested_host
from tgpu.api.peercred import peer_of

NO_PORT = "this server has no port for browsers: the setting `listen` is `off`"


@dataclass(frozen=True, slots=True)
class BrowserAccess:
    """With TLS, the server's advertised URL. Without, a host name that only this process uses: cookies ignore
    ports, so under `localhost` or 127.0.0.1 every server on the machine would receive them."""

    url: str = ""
    """Such as `http://tgpu-5f0c93a1d2.localhost:7480`; empty if browsers cannot sign in here."""
    closed: str = NO_PORT
    """Why browsers cannot sign in, if `url` is empty."""
    server_id: str = ""
    """Of the home: it marks sessions that end with the process, so that the next one can revoke them."""

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("https:")

    @property
    def own_name(self) -> str:
        """The host name of this process; empty with TLS, where the certificate identifies the server."""
        return "" if self.is_encrypted else urlsplit(self.url).hostname or ""

    def url_for(self, scope: Scope) -> str:
        """The URL for the sender of this request, which may have come through a tunnel from another port."""
        if not self.url or peer_of(scope) is not None:
            return self.url
        name, port = requested_host(scope)
        host = self.own_name or name
        return f"{'https' if self.is_encrypted else 'http'}://{host}{port}"


_OWN_NAME = re.compile(r"tgpu-[0-9a-f]{10}\.localhost")


def is_process_name(name: str) -> bool:
    """Whether it is, or was, the host name of a server process."""
    return _OWN_NAME.fullmatch(name) is not None


def new_host_name() -> str:
    """Browsers resolve every name below `localhost` to loopback (RFC 6761)."""
    return f"tgpu-{secrets.token_hex(5)}.localhost"
