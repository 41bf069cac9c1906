"""A home below /tmp or /dev/shm is out of sight for jobs that get ones of their own."""

import os
from pathlib import Path

from tgpu.config.settings import Settings
from tgpu.runner import private_tmp

REMEDY = "set TGPU_HOME to a directory elsewhere, or private_tmp = off"


def hidden_from_jobs(settings: Settings) -> str | None:
    """What jobs would miss, in words; None if they see the home."""
    gives_own = settings.private_tmp == "auto" and os.geteuid() == 0
    place = os.path.normpath(Path.cwd() / settings.home)
    if not gives_own or private_tmp.is_for(place):
        return None
    below = next(path for path in private_tmp.SHARED if f"{place}/".startswith(f"{path}/"))
    return (
        f"jobs have a {below} of their own and cannot see {settings.home}: their checkpoint folders, the "
        "list of a gang's nodes and the server's socket are missing in them"
    )


def beware(settings: Settings) -> str | None:
    """For whoever starts an agent with such a home."""
    hidden = hidden_from_jobs(settings)
    return None if hidden is None else f"tgpu: beware: {hidden}: {REMEDY}"
