"""What `tgpu doctor` looks at in a cluster: the store and the servers."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tgpu.cli import words
from tgpu.cli.findings import FAIL, OK, WARN, Finding
from tgpu.client import TgpuError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.client import Client

_MOST_SKEW_S = 2.0
_DIAL_S = 5.0
_DAY_S = 86400
_EXPIRES_SOON_DAYS = 30
_MOST_HEALTH = 65536
_MEND_DATABASE = "its database is away: mend that; servers and nodes go on by themselves"
_SYNCHRONISE = "synchronise the clocks, e.g. with chrony"


def of_cluster(client: Client) -> Iterator[Finding]:
    """As the server that answers sees it; one of an older version has nothing to say."""
    try:
        cluster = client.cluster()
    except TgpuError as error:
        if error.status == http.client.NOT_FOUND:
            return
        raise
    yield _store(cluster["store"])
    servers = cluster["servers"]
    if len(servers) > 1:
        yield from _servers(servers)
    urls = [server["url"] for server in servers if server["url"].startswith("https:")]
    if urls:
        authority = client.authority() or None
        for url in urls:
            yield dialled(url, authority)


def of_store(url: str) -> Finding:
    """If no server answers: is it the database?"""
    from tgpu.store.port import StoreUnavailableError, StoreUnusableError  # noqa: PLC0415  only for databases
    from tgpu.store.postgres_schema import look  # noqa: PLC0415

    try:
        program, revision = look(url)
    except (StoreUnavailableError, StoreUnusableError) as error:
        return Finding(
            "store", FAIL, str(error), "mend that; a server that waits for its store goes on by itself"
        )
    tables = "without tables yet" if revision is None else f"tables of revision {revision}"
    return Finding("store", OK, f"{program}, {tables}")


def _store(store: dict[str, Any]) -> Finding:
    said = f"{store['program']}, tables of revision {store['revision']}"
    if store["revision"] > store["known_revision"]:
        return Finding(
            "store", WARN, f"{said}; this server knows {store['known_revision']}", "update this server soon"
        )
    ahead = store["clock_ahead_s"]
    if abs(ahead) > _MOST_SKEW_S:
        return Finding("store", WARN, f"{said}; its clock differs by {ahead:+.1f} s", _SYNCHRONISE)
    return Finding("store", OK, said)


def _servers(servers: list[dict[str, Any]]) -> Iterator[Finding]:
    names = ", ".join(_name(server) for server in servers)
    leader = next((_name(server) for server in servers if server["leads"]), None)
    if leader is None:
        advice = "wait some seconds and look again; if it stays so, look at the servers' logs"
        yield Finding("servers", FAIL, f"nobody leads among {names}", advice)
    else:
        yield Finding("servers", OK, f"{names}; {leader} leads")
    if len({server["settings"] for server in servers}) > 1:
        text = "servers have different settings, and any of them may lead"
        yield Finding("servers", WARN, text, "make them alike; `tgpu doctor --settings` on each shows them")
    versions = sorted({server["version"] for server in servers})
    if len(versions) > 1:
        yield Finding("servers", WARN, f"versions differ: {', '.join(versions)}", "finish the update")


def _name(server: dict[str, Any]) -> str:
    return str(server["url"] or server["server_id"])


def dialled(url: str, ca_pem: str | None) -> Finding:
    """Whether the server at this address answers, believably, and at the right time."""
    from tgpu.wiring.trust import client_context  # noqa: PLC0415  only clusters speak TLS

    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=_DIAL_S, context=client_context(ca_pem))
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_DIAL_S)
    try:
        connection.connect()
        expires = _expiry(connection)
        begun = time.time()
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        said, now = response.headers.get("Date"), (begun + time.time()) / 2
        waits = _waits_for_store(response.read(_MOST_HEALTH))
    except ssl.SSLCertVerificationError as error:
        advice = "if the cluster has a new authority, join again; else somebody else answers there"
        return Finding("reach", FAIL, f"{url} cannot be believed: {error.verify_message}", advice)
    except (OSError, http.client.HTTPException) as error:
        why = "it does not answer" if isinstance(error, TimeoutError) else str(error)
        return Finding("reach", FAIL, f"{url}: {why}", "check that server, and the firewall between")
    finally:
        connection.close()
    if waits:
        return Finding("reach", WARN, f"{url} answers, and waits for its store", _MEND_DATABASE)
    return _judged(url, said, now, expires)


def _waits_for_store(health: bytes) -> bool:
    try:
        return bool(json.loads(health).get("store") == "away")
    except (ValueError, AttributeError):
        return False  # of another version, or no tgpu at all


def _judged(url: str, said: str | None, now: float, expires: float | None) -> Finding:
    # The header has whole seconds: the server's clock is somewhere in that second.
    skew = 0.0 if said is None else now - parsedate_to_datetime(said).timestamp() - 0.5
    if abs(skew) > _MOST_SKEW_S:
        return Finding("reach", WARN, f"{url} answers; its clock differs by {-skew:+.0f} s", _SYNCHRONISE)
    if expires is None:
        return Finding("reach", OK, f"{url} answers")
    days = int((expires - now) // _DAY_S)
    text = f"{url} answers; its certificate is good for {words.plural(days, 'day')}"
    if days < _EXPIRES_SOON_DAYS:
        return Finding("reach", WARN, text, "renew it: restart that server, or replace tls_cert and tls_key")
    return Finding("reach", OK, text)


def _expiry(connection: http.client.HTTPConnection) -> float | None:
    if not isinstance(connection.sock, ssl.SSLSocket):
        return None
    certificate = connection.sock.getpeercert() or {}
    until = certificate.get("notAfter")
    return ssl.cert_time_to_seconds(until) if isinstance(until, str) else None
