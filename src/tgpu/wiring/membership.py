"""Which cluster an agent belongs to: one that it has joined, or joins now, or the one on its machine."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tgpu.config import secret_file
from tgpu.config.settings import Settings, SettingsError
from tgpu.observe.logs import logger
from tgpu.protocol import join_tokens
from tgpu.wiring import enrolment, joined_node, other_servers
from tgpu.wiring.dialing import TcpDial, node_credential
from tgpu.wiring.enrolment import EnrolmentError
from tgpu.wiring.home_dial import HomeDial
from tgpu.wiring.home_node import home_node
from tgpu.wiring.joined_node import JoinedNode

SPREAD_S = 1.0
LOCAL_SPREAD_S = 0.1
CA = "TGPU_CA"
_log = logger("agent")


@dataclass(frozen=True, slots=True)
class Membership:
    """How the agent reaches its servers, and what it says there of itself."""

    dial: HomeDial | TcpDial
    """Also the agent's guide."""
    spread_s: float
    jobs_env: Mapping[str, str]
    """By which jobs on this node find the servers."""
    node_id: str
    key: str
    joined: JoinedNode | None


def identity_path(settings: Settings) -> Path:
    return settings.agent_dir / "identity.json"


def membership(settings: Settings, join: str | None, node_id: str, random: Random) -> Membership:
    """Raises SettingsError or EnrolmentError: each says what to do."""
    node = _joined(settings, join, node_id)
    if node is None:
        return _at_home(settings, node_id, random)
    path = identity_path(settings)
    dial = TcpDial(
        node.servers,
        node.ca_pem,
        random,
        lambda servers: joined_node.remember_servers(path, node, servers),
        node_credential(node.node_id, node.key),
    )
    return Membership(dial, SPREAD_S, _jobs_env(settings, node), node.node_id, node.key, node)


def _at_home(settings: Settings, node_id: str, random: Random) -> Membership:
    node = home_node(settings, node_id)
    credential = node_credential(node.node_id, node.key)
    dial = HomeDial(settings.agents_socket, lambda: other_servers.read(settings), random, credential)
    env = {"TGPU_SERVER": f"unix://{settings.socket}"}
    return Membership(dial, LOCAL_SPREAD_S, env, node.node_id, node.key, None)


def _joined(settings: Settings, join: str | None, node_id: str) -> JoinedNode | None:
    path, said = identity_path(settings), settings.node_servers
    enrolment.check_servers(said)
    known = joined_node.load(path)
    token = None if join is None else _token(join, joined=known is not None)
    if token is not None and (known is None or _is_new(token, known)):
        servers = said or (known.servers if known is not None else ())
        if not servers:
            raise EnrolmentError("say which cluster to join: --server https://HOST:7480")
        name = node_id if known is None or settings.node_name else known.node_id
        known = replace(enrolment.join(servers, token, name), said=joined_node.said_of_itself(settings))
        joined_node.save(path, known)
        _log.info("joined", cluster_id=known.cluster_id, node_id=known.node_id)
    elif known is not None and said:
        known = replace(known, servers=tuple(dict.fromkeys([*said, *known.servers])))
    elif said:
        raise EnrolmentError(
            "this machine has joined no cluster yet: make a token there with `tgpu nodes join-token`, and "
            "start this agent with --join @FILE, where FILE (mode 600) holds it"
        )
    if known is not None and settings.node_name not in ("", known.node_id):
        raise SettingsError(
            f"this machine has joined as {known.node_id}; to be {settings.node_name}, remove {path} and "
            "join again"
        )
    return known


def _token(join: str, *, joined: bool) -> str | None:
    """The token itself, or the one in `@FILE`. A node that has `joined` needs none: it starts without one
    that other users can read."""
    if not secret_file.is_file(join):
        return join
    try:
        return secret_file.read_secret(Path(join[1:]), "the join token")
    except secret_file.ExposedFileError as error:
        if not joined:
            raise
        _log.warning("the join token was not read", why=str(error))
        return None


def _is_new(token: str, known: JoinedNode) -> bool:
    """A service that is started with the same token again and again joins once."""
    try:
        secret, _ = join_tokens.parse(token)
    except join_tokens.BadJoinTokenError as error:
        raise EnrolmentError(str(error)) from None
    return join_tokens.digest_of(secret) != known.token_digest


def _authority(settings: Settings) -> Path:
    return settings.home / "ca.pem"


def in_a_container(settings: Settings, env: Mapping[str, str]) -> Mapping[str, str]:
    """A container sees no file of its node: it is told what stands there."""
    path = _authority(settings)
    if env.get(CA) != os.fspath(path):
        return env
    try:
        return {**env, CA: path.read_text(encoding="ascii")}
    except OSError:  # somebody removed it: the task runs all the same
        return env


def _jobs_env(settings: Settings, node: JoinedNode) -> dict[str, str]:
    env = {"TGPU_SERVER": ",".join(node.servers)}
    if node.ca_pem is not None:
        path = _authority(settings)
        path.write_text(node.ca_pem, encoding="ascii")
        path.chmod(0o644)
        env[CA] = os.fspath(path)
    return env
