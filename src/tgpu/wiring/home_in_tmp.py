"""A home, or a tgpu, below /tmp or /dev/shm is out of sight for jobs that get ones of their own."""

import os
import sys
from pathlib import Path

from tgpu.config.settings import Settings
from tgpu.runner import private_tmp

REMEDY = "set TGPU_HOME to a directory elsewhere, or private_tmp = off"
INSTALL_ELSEWHERE = "install tgpu elsewhere, such as in /opt/tgpu, or set private_tmp = off"


def hidden_from_jobs(settings: Settings) -> str | None:
    """What jobs would miss, in words; None if they see the home."""
    place = os.path.normpath(Path.cwd() / settings.home)
    if not _gives_own(settings) or private_tmp.is_for(place):
        return None
    return (
        f"jobs have a {_shared(place)} of their own and cannot see {settings.home}: their checkpoint "
        "folders, the list of a gang's nodes and the server's socket are missing in them"
    )


def beware(settings: Settings) -> str | None:
    """For whoever starts an agent with such a home, or by such a tgpu."""
    if (hidden := hidden_from_jobs(settings)) is not None:
        return f"tgpu: beware: {hidden}: {REMEDY}"
    program = program_hidden_from_jobs(settings)
    return None if program is None else f"tgpu: beware: {program}: {INSTALL_ELSEWHERE}"


def program_hidden_from_jobs(settings: Settings) -> str | None:
    """The same of tgpu itself."""
    return hidden_program() if _gives_own(settings) else None


def hidden_program(*, executable: str | None = None) -> str | None:
    """What jobs would miss that have a /tmp of their own, in words; None: they see this tgpu."""
    program = os.path.normpath(executable or sys.executable)
    if private_tmp.is_for(program):
        return None
    return (
        f"jobs have a {_shared(program)} of their own and cannot see {program}: `tgpu`, `srun` and "
        "`scontrol` are missing in them"
    )


def _gives_own(settings: Settings) -> bool:
    return settings.private_tmp == "auto" and os.geteuid() == 0


def _shared(place: str) -> str:
    return next(path for path in private_tmp.SHARED if f"{place}/".startswith(f"{path}/"))
