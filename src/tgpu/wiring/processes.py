"""Server and agent as processes of their own: started, watched until they are ready, stopped."""

import contextlib
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
from tgpu.domain.quantities import mib
from tgpu.observe.log_output import Rotation
from tgpu.wiring import pidfile

PARTS = ("server", "agent")
READY_S = 60.0
LOG_TAIL = 16_384  # bytes
_NOT_FOR_PARTS = frozenset({"TGPU_TOKEN", "TGPU_JOIN_TOKEN", "TGPU_JOIN"})
"""Variables of clients, and of agents that join a cluster."""
_NOT_FOR = {"server": frozenset[str](), "agent": frozenset({"TGPU_STORE"})}
_PR_SET_PDEATHSIG = 1


class StartError(Exception):
    """A part did not come up; the text is what it said."""


class StopError(Exception):
    """A part cannot be stopped by whoever asked."""


def running(settings: Settings) -> dict[str, int]:
    """The parts that live here, with their pids."""
    pids = {part: pidfile.holder(settings.run_dir / f"{part}.pid") for part in PARTS}
    return {part: pid for part, pid in pids.items() if pid is not None}


def log_path(settings: Settings, part: str) -> Path:
    return settings.run_dir / f"{part}.log"


def log_rotation(settings: Settings, part: str) -> Rotation:
    size = mib("log_file_size", settings.log_file_size) << 20
    return Rotation(log_path(settings, part), size, settings.log_file_count)


def start(
    part: str, settings: Settings, environ: Mapping[str, str], *, with_parent: bool
) -> "subprocess.Popen[bytes]":
    """`with_parent`: it ends with whoever started it, even if that one is killed. Secrets that are not for
    this part are left out of its environment."""
    with _log(settings, part) as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tgpu.cli", part],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**_without_secrets(part, environ), "TGPU_HOME": str(settings.home)},
            cwd="/",
            start_new_session=True,
            preexec_fn=_end_with_parent if with_parent else None,  # noqa: PLW1509  no threads live here
        )


def _without_secrets(part: str, environ: Mapping[str, str]) -> dict[str, str]:
    left_out = _NOT_FOR[part] | _NOT_FOR_PARTS
    return {name: value for name, value in environ.items() if name not in left_out}


def _log(settings: Settings, part: str) -> IO[bytes]:
    """For its owner alone: it names users, their jobs and their directories. The part itself rotates it."""
    path = log_path(settings, part)
    log = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")
    os.fchmod(log.fileno(), 0o600)
    return log


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
                raise StartError(last_words(settings, part, marks.get(part, 0)))
        if _is_ready(settings):
            return
        time.sleep(0.03)
    raise StartError(f"not ready after {READY_S:.0f} s; see {log_path(settings, 'server')}")


def wait_answering(settings: Settings, server: "subprocess.Popen[bytes]", mark: int) -> None:
    """Until the server leads, or knows who does; its nodes come in their own time."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise StartError(last_words(settings, "server", mark))
        with contextlib.suppress(TgpuError):
            Client(f"unix://{settings.socket}").nodes()
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


def last_words(settings: Settings, part: str, mark: int = 0) -> str:
    """What a part said before it ended: its own sentence if it had one, else its log's last line."""
    path = log_path(settings, part)
    with path.open("rb") as log:
        size = path.stat().st_size
        log.seek(max(mark if mark <= size else 0, size - LOG_TAIL))  # it may have been rotated since the mark
        lines = log.read().decode(errors="replace").strip().splitlines()
    said = [line.removeprefix("tgpu: ") for line in lines if line.startswith("tgpu: ")]
    if said:
        return said[-1]
    return f"{lines[-1] if lines else 'without a word'} (see {path})"


def stop(pids: Mapping[str, int], settings: Settings, patience_s: float = 15.0) -> bool:
    """SIGTERM, agent first, and wait until both have let go; what runs on this machine runs on."""
    for part in reversed(PARTS):
        if part in pids:
            send_signal(pids[part], signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if not running(settings).keys() & pids.keys() and not any(map(_lives, pids.values())):
            return True
        time.sleep(0.02)
    return False


def send_signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError:
        raise StopError(f"pid {pid} belongs to another user: only they and root can stop it") from None


def _lives(pid: int) -> bool:
    """A zombie does not: its parent may never look."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
