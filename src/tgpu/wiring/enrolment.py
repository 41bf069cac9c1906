"""How a machine joins a cluster: it makes sure whom it speaks to, shows its token and is given a key."""

import contextlib
import http.client
import ipaddress
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tgpu.protocol import join_tokens, server_proof
from tgpu.protocol.server_proof import Role
from tgpu.wiring.joined_node import JoinedNode
from tgpu.wiring.proof_check import Credential, UnknownHereError, UnprovenError, prove_and_wait
from tgpu.wiring.trust import client_context, unverified_context

PATIENCE_S = 15.0
AGAIN_AFTER_S = 0.5
_MOST_ANSWER = 1024 * 1024
_CREATED = 201
_OK = 200
_UNAVAILABLE = 503


class EnrolmentError(Exception):
    """Somebody did not let this machine in; the text says why and what to do."""


class _AwayError(Exception):
    """One server does not answer; another one might."""


class _NotYetError(Exception):
    """A server that cannot let anybody in at the moment, and has changed nothing: nobody leads, perhaps."""


def check_servers(servers: Sequence[str]) -> None:
    """Raises EnrolmentError for a URL that no agent could use."""
    for url in servers:
        _parts(url)


def join(servers: Sequence[str], token: str, node_id: str) -> JoinedNode:
    """By the first of the servers that answers; while nobody leads, as soon as somebody does. Raises
    EnrolmentError."""
    try:
        secret, mark = join_tokens.parse(token)
    except join_tokens.BadJoinTokenError as error:
        raise EnrolmentError(str(error)) from None
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _join(servers, secret, mark, node_id)
        except _NotYetError as error:
            if time.monotonic() >= until:
                raise EnrolmentError(str(error)) from None
            time.sleep(AGAIN_AFTER_S)


def _join(servers: Sequence[str], secret: str, mark: str | None, node_id: str) -> JoinedNode:
    away: list[str] = []
    for url in servers:
        try:
            return _join_by(_parts(url), secret, mark, node_id, servers)
        except _AwayError as error:
            away.append(f"{url}: {error}")
    raise EnrolmentError(f"no server answers ({'; '.join(away)}): check --server, and that it runs")


def _join_by(
    url: SplitResult, secret: str, mark: str | None, node_id: str, servers: Sequence[str]
) -> JoinedNode:
    if mark is not None and url.scheme != "https":
        raise EnrolmentError(
            f"this token is of a cluster that speaks TLS: write https in place of {url.geturl()}"
        )
    ca_pem = None if mark is None else _authority(url, mark)
    trusted = client_context(ca_pem) if url.scheme == "https" else _credential(secret)
    status, body = _ask(url, trusted, "POST", "/agents/join", {"token": secret, "node_id": node_id})
    answer = _object(body)
    if status != _CREATED:
        why = str(answer.get("detail") or f"{url.geturl()} answered with status {status}")
        raise _NotYetError(why) if status == _UNAVAILABLE else EnrolmentError(why)
    try:
        return JoinedNode(
            cluster_id=str(answer["cluster_id"]),
            node_id=str(answer["node_id"]),
            key=str(answer["key"]),
            ca_pem=ca_pem,
            servers=tuple(dict.fromkeys([*servers, *map(str, answer["servers"])])),
            pool=answer["pool"],
            token_digest=join_tokens.digest_of(secret),
        )
    except (KeyError, TypeError):
        raise EnrolmentError(
            f"{url.geturl()} does not speak as a tgpu server of this version does: install one version"
        ) from None


def _credential(secret: str) -> Credential:
    """On a plain port a server proves first that it knows the token, which is then shown within TLS."""
    digest = join_tokens.digest_of(secret)
    return Credential(Role.NEWCOMER, server_proof.handle(digest), digest)


def _authority(url: SplitResult, mark: str) -> str:
    """Fetched from whoever answers, and believed only if it is the one that the token names."""
    status, body = _ask(url, unverified_context(), "GET", "/ca.pem")
    try:
        pem = body.decode("ascii") if status == _OK else ""
        if join_tokens.fingerprint(pem) == mark:
            return pem
    except ValueError:
        pass
    raise EnrolmentError(
        f"{url.geturl()} is not a server of the cluster that made this token, or somebody stands in between: "
        "its authority has another fingerprint; check --server, or ask for a new token"
    )


class _ProvenConnection(http.client.HTTPConnection):
    """To a plain port, within TLS whose authority the server has vouched for."""

    def __init__(self, url: SplitResult, credential: Credential) -> None:
        super().__init__(url.hostname or "", url.port, timeout=PATIENCE_S)
        self._url, self._credential = url.geturl(), credential

    def connect(self) -> None:
        super().connect()
        context = prove_and_wait(self.sock, self._url, self._credential)
        self.sock = context.wrap_socket(self.sock, server_hostname=server_proof.SERVER_NAME)


def _ask(
    url: SplitResult,
    trusted: ssl.SSLContext | Credential,
    method: str,
    path: str,
    body: Mapping[str, object] | None = None,
) -> tuple[int, bytes]:
    host, port = url.hostname or "", url.port
    connection = (
        _ProvenConnection(url, trusted)
        if isinstance(trusted, Credential)
        else http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=trusted)
    )
    with contextlib.closing(connection):
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise EnrolmentError(
                f"the certificate of {url.geturl()} is not trusted here ({error.verify_message}): use the "
                "name that it is made for, or set TGPU_CA to the file of its authority"
            ) from error
        except (UnprovenError, UnknownHereError) as error:
            raise EnrolmentError(str(error)) from None
        except OSError as error:
            raise _AwayError(error.strerror or str(error)) from error
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise EnrolmentError(
                f"{url.geturl()} went away in the middle of an answer ({error}): try again, with a new token "
                "if this one was for one node"
            ) from error


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname and parts.port)
    except ValueError:
        named = False
    if not named or parts.scheme not in ("http", "https") or parts.path.strip("/") or parts.query:
        raise EnrolmentError(f"a server is named by a URL such as https://gpu1:7480; got {url!r}")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise EnrolmentError(
            f'{url} would send this node\'s key in the clear: use https, with tls = "auto" there'
        )
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {}
