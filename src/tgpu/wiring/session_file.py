"""The file in which a node keeps its record of sessions, bound to the node that it belongs to."""

import asyncio
import json
import os
from pathlib import Path

from tgpu.agent.session_record import SessionRecord
from tgpu.config.settings import Settings
from tgpu.observe.logs import logger
from tgpu.protocol.node_keys import digest_of
from tgpu.wiring.private_file import write_private


def _path(settings: Settings) -> Path:
    return settings.agent_dir / "sessions.json"


def session_record(settings: Settings, node_id: str, key: str) -> SessionRecord:
    """Empty if the file is of another node, or of this one before it joined again: then it has a new key."""
    path, owner = _path(settings), digest_of(f"{node_id} {key}")

    async def save(kept: tuple[int, ...]) -> bool:
        try:
            await asyncio.to_thread(_write, path, json.dumps({"owner": owner, "sessions": kept}))
        except OSError as error:
            logger("agent").warning("the session cannot be recorded", path=str(path), why=str(error))
            return False
        return True

    return SessionRecord(_read(path, owner), save)


def _read(path: Path, owner: str) -> tuple[int, ...]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return tuple(map(int, said["sessions"])) if said["owner"] == owner else (0,)
    except (OSError, ValueError, TypeError, KeyError):
        return (0,)


def _write(path: Path, text: str) -> None:
    """Also its name outlives a power loss: a node with an old record would be taken for a copy."""
    write_private(path, text)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
