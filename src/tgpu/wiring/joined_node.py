"""What a node was given when it joined a cluster, kept in a file that only its agent can read."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tgpu.config.settings import KEYS, Settings, SettingsError
from tgpu.wiring.private_file import write_private

OF_THE_NODE = (
    "node_pool",
    "node_labels",
    "node_taints",
    "node_cpus",
    "node_memory",
    "node_disk",
    "node_gpus",
    "node_generic",
    "simulate_gpus",
    "simulate_gpu_model",
)


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
    said: Mapping[str, Any] = field(default_factory=dict)
    """What its flags and settings said of it when it joined: what it offers, and which jobs it is for."""

    def applied(self, settings: Settings) -> Settings:
        """With what was said at joining, wherever nothing else is said now."""
        usual = {item.name: item.default for item in KEYS}
        kept: dict[str, Any] = {n: _as_set(value) for n, value in self.said.items() if n in OF_THE_NODE}
        return replace(settings, **{n: v for n, v in kept.items() if getattr(settings, n) == usual[n]})


def said_of_itself(settings: Settings) -> dict[str, Any]:
    """All that differs from the defaults."""
    usual = {item.name: item.default for item in KEYS}
    return {name: value for name in OF_THE_NODE if (value := getattr(settings, name)) != usual[name]}


def _as_set(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


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
    write_private(path, json.dumps(asdict(node), indent=2))


def remember_servers(path: Path, node: JoinedNode, servers: tuple[str, ...]) -> None:
    save(path, replace(node, servers=servers))
