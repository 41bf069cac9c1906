"""The flags of the last `tgpu up`: the next one takes them up again if it was killed, or if tasks run on.

A clean stop with nothing left running forgets them; what is to last stands in the settings file.
"""

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tgpu.config.settings import KEYS, Settings
from tgpu.observe.disk_space import is_full
from tgpu.runner.remains import remains
from tgpu.wiring.processes import StartError


def _path(settings: Settings) -> Path:
    return settings.run_dir / "flags.json"


def remember(settings: Settings, flags: Mapping[str, Any]) -> None:
    """On a full disk tgpu starts all the same."""
    try:
        _path(settings).write_text(json.dumps(dict(flags)), encoding="utf-8")
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
    """Nothing if the last stop was a clean one and left nothing, or if what is there cannot be read."""
    try:
        flags = json.loads(_path(settings).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    known = {item.name for item in KEYS}
    return {name: value for name, value in flags.items() if name in known}


def in_words(flags: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in flags.items())
