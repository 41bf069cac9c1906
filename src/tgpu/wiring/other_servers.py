"""Where the other servers of the cluster are: what a server leaves in its home for the agent beside it.

That agent speaks to the server of its home. When this one does not lead, or is dead, the agent reads here
whom else to call, and whom to believe.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tgpu.config.settings import Settings
from tgpu.wiring.private_file import write_private

LOOK_EVERY_S = 1.0
MOST = 16


@dataclass(frozen=True, slots=True)
class OtherServers:
    urls: tuple[str, ...] = ()
    ca_pem: str | None = None


def _path(settings: Settings) -> Path:
    return settings.run_dir / "servers.json"


def read(settings: Settings) -> OtherServers:
    """Nobody, if no server has left word, or what is there cannot be read."""
    try:
        said = json.loads(_path(settings).read_text(encoding="utf-8"))
        return OtherServers(tuple(map(str, said["urls"])), said["ca_pem"])
    except (OSError, ValueError, TypeError, KeyError):
        return OtherServers()


async def keep_written(
    settings: Settings, own: str, urls: Callable[[], tuple[str, ...]], ca_pem: str | None
) -> None:
    """Until cancelled. What was written last stays when this server ends: then it is needed most. Servers
    that are gone for the moment are kept: they may be the ones that are there next time."""
    before = read(settings)
    known = before.urls if before.ca_pem == ca_pem else ()
    while True:
        now = tuple(dict.fromkeys(url for url in (*urls(), *known) if url != own))[:MOST]
        others = OtherServers(now, ca_pem)
        if others != before:
            await asyncio.to_thread(write_private, _path(settings), json.dumps(asdict(others)))
            before = others
        known = now
        await asyncio.sleep(LOOK_EVERY_S)
