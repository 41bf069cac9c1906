"""Which node the agent of a home is, if it has joined no cluster by a token: its name and key, made once."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from tgpu.config.settings import Settings, SettingsError
from tgpu.protocol.node_keys import new_key
from tgpu.runner.remains import remains
from tgpu.wiring.private_file import write_private


@dataclass(frozen=True, slots=True)
class HomeNode:
    node_id: str
    key: str
    """By which other servers than the home's own know it, once they share a store."""


def home_node(settings: Settings, usual_name: str) -> HomeNode:
    """As it was called before, whatever the host is called now. Raises SettingsError for another name while
    something runs under the old one: nobody would know it again."""
    path = settings.agent_dir / "node.json"
    known = _load(path)
    if known is not None and settings.node_name in ("", known.node_id):
        return known
    if known is not None and (kept := remains(settings.agent_dir).unsettled):
        raise SettingsError(
            f"this home's node is called {known.node_id}, and {len(kept)} of its tasks run or are not yet "
            f"reported: start it without --name {settings.node_name}; it can be renamed when they have ended"
        )
    made = HomeNode(usual_name, new_key())
    write_private(path, json.dumps(asdict(made), indent=2))
    return made


def _load(path: Path) -> HomeNode | None:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return HomeNode(str(said["node_id"]), str(said["key"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {os.strerror(error.errno or 0)}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise SettingsError(
            f"{path} is damaged ({error}): remove it, and start with --name and the name that this node had"
        ) from error
