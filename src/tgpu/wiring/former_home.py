"""Moves an installation of root from below /root, where former versions put it, to /var/lib/tgpu."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tgpu.config.home_path import SYSTEM_HOME, former_home, is_installation
from tgpu.wiring import pidfile

_PROCESSES = ("up", "server", "agent")


def move(environ: Mapping[str, str], *, uid: int | None = None, system: str = SYSTEM_HOME) -> str | None:
    """What was done, or why nothing could be, in a sentence; None if there is nothing to move. A link stays
    in the old place for tasks that still run and know their files by it."""
    if environ.get("TGPU_HOME") or (os.geteuid() if uid is None else uid) != 0:
        return None
    found = former_home(environ)
    if found is None:
        return None
    former, target = Path(found), Path(system)
    if is_installation(system):
        return f"{former} is not used: the installation in {target} is; remove {former}, or set TGPU_HOME"
    running = [name for name in _PROCESSES if pidfile.holder(former / "run" / f"{name}.pid") is not None]
    if running:
        return (
            f"the installation in {former} is closed to other users: stop it with `tgpu down`, and the next "
            f"start moves it to {target}"
        )
    return _moved(former, target)


def _moved(former: Path, target: Path) -> str:
    try:
        if target.is_dir():
            target.rmdir()  # made empty by a package or an administrator
        target.parent.mkdir(parents=True, exist_ok=True)
        former.rename(target)
    except OSError as error:
        return (
            f"the installation in {former} is closed to other users and could not be moved to {target} "
            f"({error.strerror}): stop it, move it by hand, and start it again"
        )
    former.symlink_to(target, target_is_directory=True)
    return f"moved the installation from {former} to {target}, where all users of this machine can reach it"


def report(environ: Mapping[str, str]) -> None:
    if (done := move(environ)) is not None:
        print(f"tgpu: {done}", file=sys.stderr, flush=True)
