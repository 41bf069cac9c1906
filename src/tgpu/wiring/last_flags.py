"""Flags of the last `tgpu up`: the next one uses them again if the last was killed, or if tasks still run.

A clean stop with nothing left running forgets them; permanent settings belong in the settings file. Only its
owner can read the file, and passwords in it are masked.
"""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tgpu.config.settings import KEYS, Settings
from tgpu.config.url_password import masked
from tgpu.observe.disk_space import is_full
from tgpu.runner.remains import remains
from tgpu.wiring.private_file import write_private
from tgpu.wiring.processes import StartError


def _path(settings: Settings) -> Path:
    return settings.run_dir / "flags.json"


def remember(settings: Settings, flags: Mapping[str, Any]) -> None:
    """On a full disk tgpu starts all the same."""
    shown = {name: masked(value) if isinstance(value, str) else value for name, value in flags.items()}
    try:
        write_private(_path(settings), json.dumps(shown), outlives_power_loss=False)
    except OSError as error:
        if not is_full(error):
            raise
        print(f"tgpu: beware: the flags of this start are not kept: {error.strerror}", file=sys.stderr)


@contextlib.contextmanager
def kept_if_it_starts(settings: Settings, flags: Mapping[str, Any]) -> Iterator[None]:
    """Flags with which nothing came up must not be taken up again."""
    before = recall(settings)
    remember(settings, flags)
    try:
        yield
    except StartError:
        if before:
            remember(settings, before)
        else:
            forget(settings)
        raise


def forget_if_idle(settings: Settings) -> int:
    """After a clean stop; returns how many tasks run on. While some do, this stays the machine on which they
    were placed: with fewer GPUs, or none, they would hold what is not there."""
    running = running_on(settings)
    if not running:
        forget(settings)
    return running


def running_on(settings: Settings) -> int:
    """How many tasks run on this machine, whether or not its agent does."""
    return len(remains(settings.agent_dir).running)


def forget(settings: Settings) -> None:
    _path(settings).unlink(missing_ok=True)


def recall(settings: Settings) -> dict[str, Any]:
    """Nothing if the last stop was a clean one and left nothing, or if what is there cannot be read. A file
    of an older version, which may have a password and was open to all users, is replaced."""
    path = _path(settings)
    try:
        open_to_others = path.stat().st_mode & 0o077
        flags = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(flags, dict):
        return {}
    if open_to_others or any(isinstance(said, str) and said != masked(said) for said in flags.values()):
        with contextlib.suppress(OSError):  # a user who may only look
            remember(settings, flags)
    known = {item.name for item in KEYS}
    return {name: _as_given(value) for name, value in flags.items() if name in known}


def _as_given(value: object) -> object:
    """JSON has lists where flags are tuples."""
    return tuple(value) if isinstance(value, list) else value


def as_environ(flags: Mapping[str, Any]) -> dict[str, str]:
    """Flags as the variables that say the same; a list is written with commas."""
    return {
        f"TGPU_{name.upper()}": ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in flags.items()
        if value is not None
    }


def in_words(flags: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {masked(str(value))}" for name, value in flags.items())
