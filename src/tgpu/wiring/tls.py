"""TLS by one setting: what a server's port speaks, and how its certificate is kept young."""

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import psutil

from tgpu.config.settings import Settings, SettingsError
from tgpu.observe.logs import logger
from tgpu.wiring import cluster_ca
from tgpu.wiring.addresses import host_of
from tgpu.wiring.trust import client_context

SECRET = "ca"  # noqa: S105  the name of it
RENEW_BEFORE = timedelta(days=30)
LOOK_EVERY_S = 3600.0
ALWAYS = ("localhost", "127.0.0.1", "::1")
_log = logger("tls")


class Secrets(Protocol):
    """What is asked of the store."""

    @property
    def cluster_id(self) -> str: ...

    async def secret(self, name: str, proposed: bytes) -> bytes: ...


class ServerTls(Protocol):
    """What a server's port speaks, whoever signed it."""

    context: ssl.SSLContext
    ca_pem: str | None
    """The cluster's own authority; None if the certificate comes from elsewhere."""

    def dialing(self) -> ssl.SSLContext:
        """For this server's own calls to the others."""
        ...

    def refresh(self) -> bool:
        """Takes a newer certificate, if one is due; says whether it did."""
        ...


async def server_tls(
    settings: Settings, store: Secrets, advertised: str, now: Callable[[], datetime] = cluster_ca.utc_now
) -> ServerTls | None:
    """None when the port is to be plain. Raises SettingsError for files that cannot be used."""
    if settings.tls_cert:
        return FileTls(Path(settings.tls_cert), Path(settings.tls_key))
    if not settings.encrypted:
        return None
    kept = await store.secret(SECRET, cluster_ca.found(store.cluster_id, now()))
    return OwnTls(cluster_ca.load(kept), certified_names(settings, advertised), now)


async def keep_certificate(tls: ServerTls) -> None:
    """Until cancelled: a server that runs for years is never met with an old certificate."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        try:
            if tls.refresh():
                _log.info("a new certificate is in use")
        except SettingsError as error:
            _log.error("the new certificate cannot be used; the old one stays", why=str(error))


class OwnTls:
    """Signed by the cluster's own authority, at every start anew."""

    def __init__(
        self, authority: cluster_ca.Authority, names: Iterable[str], now: Callable[[], datetime]
    ) -> None:
        self._authority, self._names, self._now = authority, tuple(names), now
        self.context = _server_context()
        self.ca_pem: str | None = authority.pem
        self._expires = self._issue()

    def _issue(self) -> datetime:
        made = cluster_ca.issue(self._authority, self._names, self._now())
        _take(self.context, made)
        return cluster_ca.expires(made)

    def refresh(self) -> bool:
        if self._now() < self._expires - RENEW_BEFORE:
            return False
        self._expires = self._issue()
        return True

    def dialing(self) -> ssl.SSLContext:
        return client_context(self.ca_pem)


class FileTls:
    """From files of the house's own, read again when they change."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key
        self.context = _server_context()
        self.ca_pem: str | None = None
        self._load(self.context)
        self._changed = self._stamp()

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            if self._key.stat().st_mode & 0o007:
                raise SettingsError(f"tls_key {self._key} is open to every user; run: chmod o= {self._key}")
            context.load_cert_chain(self._certificate, self._key)
        except OSError as error:  # what OpenSSL refuses is one, too
            raise SettingsError(
                f"tls_cert {self._certificate} and tls_key {self._key} cannot be used: "
                f"{error.strerror or error}; both must be PEM files, and belong together"
            ) from error

    def _stamp(self) -> tuple[int, int]:
        return self._certificate.stat().st_mtime_ns, self._key.stat().st_mtime_ns

    def refresh(self) -> bool:
        try:
            changed = self._stamp()
        except OSError as error:
            raise SettingsError(f"cannot look at {error.filename}: {error.strerror}") from error
        if changed == self._changed:
            return False
        self._load(_server_context())  # tried aside: half a pair must not spoil the one in use
        self._load(self.context)
        self._changed = changed
        return True

    def dialing(self) -> ssl.SSLContext:
        return client_context(None)


def certified_names(settings: Settings, advertised: str) -> list[str]:
    """Every name and address under which this server may be called."""
    listened = settings.listen.rpartition(":")[0].strip("[]")
    names = [host_of(advertised), socket.gethostname(), socket.getfqdn(), *ALWAYS]
    if _is_every_address(listened):
        names += _addresses()
    elif listened:
        names.append(listened)
    return list(dict.fromkeys(name for name in names if name and name.isascii()))


def _is_every_address(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _addresses() -> list[str]:
    """Of all interfaces; those that mean something on one link only are left out."""
    return [
        address.address
        for interface in psutil.net_if_addrs().values()
        for address in interface
        if address.family in (socket.AF_INET, socket.AF_INET6) and "%" not in address.address
    ]


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _take(context: ssl.SSLContext, chain: bytes) -> None:
    """OpenSSL reads files only: this one is in memory, and gone afterwards."""
    descriptor = os.memfd_create("tgpu-certificate")
    try:
        os.write(descriptor, chain)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
