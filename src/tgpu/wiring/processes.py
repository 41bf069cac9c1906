"""Server and agent as processes of their own: started, watched until they are ready, stopped."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tgpu.client import Client, TgpuError
from tgpu.config.settings import Settings
from tgpu.wiring import pidfile

PARTS = ("server", "agent")
READY_S = 60.0
_PR_SET_PDEATHSIG = 1


class StartError(Exception):
    """A part did not come up; the text is what it said."""


def running(settings: Settings) -> dict[str, int]:
    """The parts that live here, with their pids."""
    pids = {part: pidfile.holder(settings.run_dir / f"{part}.pid") for part in PARTS}
    return {part: pid for part, pid in pids.items() if pid is not None}


def log_path(settings: Settings, part: str) -> Path:
    return settings.run_dir / f"{part}.log"


def start(
    part: str, settings: Settings, environ: Mapping[str, str], *, with_parent: bool
) -> "subprocess.Popen[bytes]":
    """`with_parent`: it ends with whoever started it, even if that one is killed."""
    with _log(settings, part) as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tgpu.cli", part],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**environ, "TGPU_HOME": str(settings.home)},
            cwd="/",
            start_new_session=True,
            preexec_fn=_end_with_parent if with_parent else None,  # noqa: PLW1509  no threads live here
        )


def _log(settings: Settings, part: str) -> IO[bytes]:
    path = log_path(settings, part)
    if path.exists() and path.stat().st_size > 10_000_000:  # noqa: PLR2004  bytes; one older file is kept
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def wait_ready(
    settings: Settings, children: Mapping[str, "subprocess.Popen[bytes]"], marks: Mapping[str, int]
) -> None:
    """Until the server answers and this machine's agent is connected to it."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        for part, child in children.items():
            if child.poll() is not None:
                raise StartError(_last_words(settings, part, marks.get(part, 0)))
        if _is_ready(settings):
            return
        time.sleep(0.03)
    raise StartError(f"not ready after {READY_S:.0f} s; see {log_path(settings, 'server')}")


def _is_ready(settings: Settings) -> bool:
    try:
        nodes = Client(f"unix://{settings.socket}").nodes()
    except TgpuError:
        return False
    return any(node["status"] == "ready" and node["silent_s"] is None for node in nodes)


def log_mark(settings: Settings, part: str) -> int:
    path = log_path(settings, part)
    return path.stat().st_size if path.exists() else 0


def _last_words(settings: Settings, part: str, mark: int) -> str:
    with log_path(settings, part).open("rb") as log:
        log.seek(mark)
        lines = log.read().decode(errors="replace").splitlines()
    said = [line.removeprefix("tgpu: ") for line in lines if line.startswith("tgpu: ")]
    return said[-1] if said else f"the {part} did not start; see {log_path(settings, part)}"


def stop(pids: Mapping[str, int], settings: Settings, patience_s: float = 15.0) -> bool:
    """SIGTERM, agent first, and wait until both have let go; what runs on this machine runs on."""
    for part in reversed(PARTS):
        if part in pids:
            _signal(pids[part], signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if not running(settings).keys() & pids.keys():
            return True
        time.sleep(0.02)
    return False


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
