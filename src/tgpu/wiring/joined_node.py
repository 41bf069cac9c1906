"""What a node was given when it joined a cluster, kept in a file that only its agent can read."""

import json
import os
import stat
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tgpu.config.settings import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedNode:
    cluster_id: str
    node_id: str
    key: str
    ca_pem: str | None
    """The cluster's own authority; None if its servers are certified by somebody whom the machine trusts."""
    servers: tuple[str, ...]
    pool: str | None
    token_digest: str
    """Of the token that let it in: the same one given again means nothing new."""


def load(path: Path) -> JoinedNode | None:
    """None if this machine has not joined. Raises SettingsError for a file that cannot be used."""
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise SettingsError(f"{path} can be read by others; run: chmod 600 {path}")
            said = json.load(file)
        return JoinedNode(**{**said, "servers": tuple(said["servers"])})
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}; it holds this node's key") from error
    except (ValueError, TypeError, KeyError) as error:
        raise SettingsError(
            f"{path} is damaged ({error}): remove it and join again with a token from `tgpu nodes join-token`"
        ) from error


def save(path: Path, node: JoinedNode) -> None:
    """Whole or not at all, whatever happens meanwhile."""
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(node), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def remember_servers(path: Path, node: JoinedNode, servers: tuple[str, ...]) -> None:
    save(path, replace(node, servers=servers))
